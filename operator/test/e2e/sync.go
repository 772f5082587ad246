package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// act runs one of our actions as a user of Argo CD does.
func (w *world) act(ctx context.Context, e *environment, action string) error {
	_, err := stepwise.Must(w.argocd(ctx, "app", "actions", "run", e.application(), action, "--kind="+v1beta1.WorkloadKind, "--group="+v1beta1.GroupVersion.Group,
		"--resource-name=web", "--namespace="+fleetName, "--server="+w.argo.address, "--plaintext"))
	if err != nil {
		return fmt.Errorf("action %s: %w", action, err)
	}
	return nil
}

// healthIs waits until Argo CD shows a health of the Workload, while it is in sync.
func (w *world) healthIs(ctx context.Context, e *environment, want string) error {
	return eventually(ctx, "Argo CD shows the Workload of "+e.name+" as "+want, func(ctx context.Context) error {
		a, err := w.shown(ctx, e)
		if err != nil {
			return err
		}
		if differs := a.outOfSync(); len(differs) > 0 {
			return fmt.Errorf("%v are not in sync", differs)
		}
		if status, message := a.health("web"); status != want {
			return fmt.Errorf("it is %s: %s", status, message)
		}
		return nil
	})
}

func actions(ctx context.Context, w *world) error {
	dev := w.environment("dev")
	if err := w.act(ctx, dev, "pause"); err != nil {
		return err
	}
	if err := w.healthIs(ctx, dev, "Suspended"); err != nil {
		return err
	}
	if err := w.act(ctx, dev, "resume"); err != nil {
		return err
	}
	if err := w.healthIs(ctx, dev, "Healthy"); err != nil {
		return err
	}
	before, err := dev.judged(ctx)
	if err != nil {
		return err
	}
	if err := w.act(ctx, dev, "re-verify"); err != nil {
		return err
	}
	err = eventually(ctx, "the operator judges the Workload again", func(ctx context.Context) error {
		now, err := dev.judged(ctx)
		if err == nil && now <= before {
			err = fmt.Errorf("it judged %v times, as before", now)
		}
		return err
	})
	if err != nil {
		return err
	}
	return stepwise.OK("pause shows as Suspended, resume as Healthy, and re-verify has the gate asked again; all the while in sync")
}

// inSync has the operator work on what Argo CD applied, and looks what Argo CD makes of it.
func inSync(ctx context.Context, w *world) error {
	for _, e := range w.environments {
		if err := e.disturb(ctx); err != nil {
			return err
		}
		if err := w.compareAnew(ctx, e); err != nil {
			return err
		}
		a, err := w.application(ctx, e)
		if err != nil {
			return err
		}
		if differs := a.outOfSync(); len(differs) > 0 || a.Status.Sync.Status != "Synced" {
			return fmt.Errorf("%s is %s: %v", a.Metadata.Name, a.Status.Sync.Status, differs)
		}
		var synced []string
		for _, h := range a.Status.History {
			synced = append(synced, h.Revision)
		}
		if !slices.Equal(synced, e.revisions) {
			return fmt.Errorf("%s was synced at %.10s, and only what was merged for it, %.10s, should have been", a.Metadata.Name, synced, e.revisions)
		}
	}
	return stepwise.OK("drift was healed and a child made anew in each cluster, and Argo CD never had anything to do but what was merged")
}

// disturb edits a child and deletes another, and waits until the operator put both right.
func (e *environment) disturb(ctx context.Context) error {
	deployment, service := &appsv1.Deployment{}, &unstructured.Unstructured{}
	if err := e.get(ctx, "apps/v1", "Deployment", deployment); err != nil {
		return err
	}
	service.SetAPIVersion("v1")
	service.SetKind("Service")
	if err := e.client.Get(ctx, client.ObjectKey{Namespace: fleetName, Name: "web"}, service); err != nil {
		return err
	}
	uid, pods := service.GetUID(), *deployment.Spec.Replicas
	patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"replicas":%d}}`, pods+1)))
	if err := errors.Join(e.client.Patch(ctx, deployment, patch), e.client.Delete(ctx, service)); err != nil {
		return err
	}
	return eventually(ctx, "the operator heals the children in "+e.name, func(ctx context.Context) error {
		now := &appsv1.Deployment{}
		if err := errors.Join(e.get(ctx, "apps/v1", "Deployment", now), e.client.Get(ctx, client.ObjectKey{Namespace: fleetName, Name: "web"}, service)); err != nil {
			return err
		}
		w := &v1beta1.Workload{}
		if err := e.get(ctx, v1beta1.GroupVersion.String(), v1beta1.WorkloadKind, w); err != nil {
			return err
		}
		if *now.Spec.Replicas != pods || service.GetUID() == uid || w.Status.Phase != v1beta1.PhaseReady {
			return fmt.Errorf("replicas %d, Service %s, phase %s", *now.Spec.Replicas, service.GetUID(), w.Status.Phase)
		}
		return nil
	})
}

// compareAnew has Argo CD forget what it knows of Git and compare again.
func (w *world) compareAnew(ctx context.Context, e *environment) error {
	_, err := stepwise.Must(w.argocd(ctx, "app", "get", e.application(), "--hard-refresh", "--server="+w.argo.address, "--plaintext"))
	return err
}

// engine runs the tests of our scripts by Argo CD's command.
func engine(ctx context.Context, w *world) error {
	root := filepath.Join(w.root, "kustomize", "argocd", "resource_customizations", "sluice.dev")
	files, err := filepath.Glob(filepath.Join(root, "*", "health_test.yaml"))
	if err != nil {
		return err
	}
	ran := 0
	for _, name := range files {
		n, err := w.engineHealth(ctx, name)
		if err != nil {
			return err
		}
		ran += n
	}
	n, err := w.engineActions(ctx, filepath.Join(root, "Workload", "actions", "action_test.yaml"))
	if err != nil {
		return err
	}
	return stepwise.OK("%d tests of health checks and %d of actions pass in it", ran, n)
}

// override runs one of the script commands on an object of the test data.
func (w *world) override(ctx context.Context, command, object string, more ...string) (string, error) {
	args := append([]string{"admin", "settings", "resource-overrides", command, object}, more...)
	return stepwise.Must(w.argocd(ctx, append(args, "--argocd-cm-path="+w.argo.settings)...))
}

func (w *world) engineHealth(ctx context.Context, name string) (int, error) {
	var all struct {
		Tests []struct {
			InputPath    string            `json:"inputPath"`
			HealthStatus map[string]string `json:"healthStatus"`
		} `json:"tests"`
	}
	if err := readYAML(name, &all); err != nil {
		return 0, err
	}
	for _, c := range all.Tests {
		said, err := w.override(ctx, "health", filepath.Join(filepath.Dir(name), c.InputPath))
		if err != nil {
			return 0, err
		}
		for key, want := range map[string]string{"STATUS: ": c.HealthStatus["status"], "MESSAGE: ": c.HealthStatus["message"]} {
			if !strings.Contains(said, key+want+"\n") {
				return 0, fmt.Errorf("health of %s should have %s%s: %s", c.InputPath, key, want, said)
			}
		}
	}
	return len(all.Tests), nil
}

func (w *world) engineActions(ctx context.Context, name string) (int, error) {
	var all struct {
		Tests []struct {
			Action    string `json:"action"`
			InputPath string `json:"inputPath"`
		} `json:"actionTests"`
	}
	if err := readYAML(name, &all); err != nil {
		return 0, err
	}
	changes := map[string]string{"pause": "paused: true", "resume": "paused: true", "re-verify": "sluice.dev/re-verify-requested"}
	for _, c := range all.Tests {
		said, err := w.override(ctx, "run-action", filepath.Join(filepath.Dir(name), c.InputPath), c.Action)
		if err != nil {
			return 0, err
		}
		if !strings.Contains(said, changes[c.Action]) {
			return 0, fmt.Errorf("action %s on %s should change %q: %s", c.Action, c.InputPath, changes[c.Action], said)
		}
	}
	return len(all.Tests), nil
}

func readYAML(name string, into any) error {
	raw, err := os.ReadFile(name)
	if err == nil {
		err = yaml.Unmarshal(raw, into)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return err
}
