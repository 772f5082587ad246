package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// application is what of an Application of Argo CD the steps read.
type application struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		Sync struct {
			Status, Revision string
		} `json:"sync"`
		Health struct {
			Status string `json:"status"`
		} `json:"health"`
		OperationState struct {
			Phase, Message string
			SyncResult     struct {
				Revision  string
				Resources []struct{ Kind, Name, Status, Message string }
			} `json:"syncResult"`
		} `json:"operationState"`
		Resources []struct {
			Kind, Name, Status string
			Health             struct{ Status, Message string }
		} `json:"resources"`
		History []struct {
			Revision string `json:"revision"`
		} `json:"history"`
		Conditions []struct{ Type, Message string } `json:"conditions"`
	} `json:"status"`
}

func (w *world) application(ctx context.Context, e *environment) (*application, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("argoproj.io/v1alpha1")
	u.SetKind("Application")
	if err := w.hub().client.Get(ctx, client.ObjectKey{Namespace: argoNamespace, Name: e.application()}, u); err != nil {
		return nil, err
	}
	raw, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	a := &application{}
	return a, json.Unmarshal(raw, a)
}

// shown is an Application as users are shown it: the health of its objects is in the cache
// of Argo CD, and not in the Application.
func (w *world) shown(ctx context.Context, e *environment) (*application, error) {
	out, err := stepwise.Must(w.argocd(ctx, "app", "get", e.application(), "--output=json", "--server="+w.argo.address, "--plaintext"))
	if err != nil {
		return nil, err
	}
	a := &application{}
	return a, json.Unmarshal([]byte(out), a)
}

// health is that of one of the Application's Workloads, as our script has it.
func (a *application) health(name string) (status, message string) {
	for _, r := range a.Status.Resources {
		if r.Kind == v1beta1.WorkloadKind && r.Name == name {
			return r.Health.Status, r.Health.Message
		}
	}
	return "", ""
}

// outOfSync names what differs from Git.
func (a *application) outOfSync() []string {
	var out []string
	for _, r := range a.Status.Resources {
		if r.Status != "Synced" {
			out = append(out, r.Kind+" "+r.Name)
		}
	}
	return out
}

// settled says why an Application is not yet at a commit, with everything healthy.
func (a *application) settled(revision string) error {
	s := a.Status
	switch {
	case s.Sync.Revision != revision || s.Sync.Status != "Synced":
		return fmt.Errorf("%s is %s at %.10s; differs: %v; its last operation is %s: %s%s", a.Metadata.Name, s.Sync.Status, s.Sync.Revision, a.outOfSync(), s.OperationState.Phase, s.OperationState.Message, a.told())
	case s.Health.Status != "Healthy":
		return fmt.Errorf("%s is %s%s", a.Metadata.Name, s.Health.Status, a.told())
	case s.OperationState.Phase != "Succeeded":
		return fmt.Errorf("%s has an operation that is %s: %s", a.Metadata.Name, s.OperationState.Phase, s.OperationState.Message)
	}
	return nil
}

// told is what an Application says besides.
func (a *application) told() string {
	var out strings.Builder
	for _, c := range a.Status.Conditions {
		fmt.Fprintf(&out, "; %s: %s", c.Type, c.Message)
	}
	for _, r := range a.Status.OperationState.SyncResult.Resources {
		if r.Status != "Synced" {
			fmt.Fprintf(&out, "; %s %s: %s", r.Kind, r.Name, r.Message)
		}
	}
	return out.String()
}

// refused says why admission's denial of a commit is not yet told by the Application.
func (a *application) refused(revision, gate, why string) error {
	state := a.Status.OperationState
	if state.SyncResult.Revision != revision {
		return fmt.Errorf("%s tried %.10s last, and not %.10s", a.Metadata.Name, state.SyncResult.Revision, revision)
	}
	for _, r := range state.SyncResult.Resources {
		if r.Kind == v1beta1.WorkloadKind && r.Status == "SyncFailed" && strings.Contains(r.Message, "denied by gate "+gate) && strings.Contains(r.Message, why) {
			fmt.Printf("   Argo CD is told: %.240s\n", r.Message)
			return nil
		}
	}
	return fmt.Errorf("%s does not say that gate %s denied it with %q: %s: %s%s", a.Metadata.Name, gate, why, state.Phase, state.Message, a.told())
}

// runs says why an environment does not run an image yet: the Workload's status, and the
// digest in the Deployment, whose pods are all ready.
func (e *environment) runs(ctx context.Context, r release) error {
	w := &v1beta1.Workload{}
	if err := e.get(ctx, v1beta1.GroupVersion.String(), v1beta1.WorkloadKind, w); err != nil {
		return err
	}
	d := &appsv1.Deployment{}
	if err := e.get(ctx, "apps/v1", "Deployment", d); err != nil {
		return err
	}
	image := d.Spec.Template.Spec.Containers[0].Image
	switch {
	case !strings.HasSuffix(image, "@"+r.digest):
		return fmt.Errorf("%s runs %s, and not %s", e.name, image, r)
	case d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != *d.Spec.Replicas || d.Status.UpdatedReplicas != *d.Spec.Replicas:
		return fmt.Errorf("%s has %d of %d pods of %s", e.name, d.Status.AvailableReplicas, *d.Spec.Replicas, r)
	case w.Status.Phase != v1beta1.PhaseReady || w.Status.ObservedGeneration != w.Generation:
		return fmt.Errorf("the Workload of %s is %s", e.name, w.Status.Phase)
	case !slices.ContainsFunc(w.Status.Images, func(i v1beta1.ImageStatus) bool { return i.Digest == r.digest && i.SignedBy == "release-key" }):
		return fmt.Errorf("status.images of %s is %+v", e.name, w.Status.Images)
	}
	return nil
}

// get reads the object of the fleet's one name.
func (e *environment) get(ctx context.Context, apiVersion, kind string, into any) error {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	if err := e.client.Get(ctx, client.ObjectKey{Namespace: fleetName, Name: "web"}, u); err != nil {
		return fmt.Errorf("%s: %s web: %w", e.name, kind, err)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}

// delivered waits until an environment is synced to a commit, is healthy and runs an image.
func (w *world) delivered(ctx context.Context, e *environment, revision string, r release) error {
	err := eventually(ctx, fmt.Sprintf("%s is at %.10s and runs %s", e.name, revision, r.tag), func(ctx context.Context) error {
		a, err := w.application(ctx, e)
		if err != nil {
			return err
		}
		return errors.Join(a.settled(revision), e.runs(ctx, r))
	})
	if err == nil {
		fmt.Printf("   %s runs %s\n", e.name, r.tag)
	}
	return err
}

// settledEverywhere waits for all environments; images are by environment.
func (w *world) settledEverywhere(ctx context.Context, revision string, images map[string]release) error {
	for _, e := range w.environments {
		if err := w.delivered(ctx, e, revision, images[e.name]); err != nil {
			return err
		}
	}
	return nil
}
