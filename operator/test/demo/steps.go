package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/report"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

var steps = []stepwise.Step[*demo]{
	{Title: "The pull request: sluice check denies what is unsigned and what breaks a policy", Run: pullRequest},
	{Title: "Admission: the API server refuses the same two, for the same reasons", Run: admission},
	{Title: "Reconcile: the signed Workloads of the overlay get their children and are Ready", Run: reconcile},
	{Title: "Without the webhook: an unsigned Workload is stored, and never gets a child", Run: withoutWebhook},
	{Title: "Drift is healed, scaling works, and deletion leaves nothing behind", Run: life},
}

// verdicts runs sluice check on the overlay of the demo.
func (d *demo) check(ctx context.Context, format string) (stepwise.Output, error) {
	return d.run(ctx, d.sluice, "check", "operator/test/demo/overlay",
		"--gate", "kustomize/overlays/dev", "--gate", d.signer,
		"--registry-mirror", stage.Registry+"="+d.stage.RegistryAddress, "--format", format)
}

func (d *demo) verdicts(ctx context.Context) (map[string]gate.Verdict, error) {
	out, err := d.check(ctx, "json")
	if err != nil {
		return nil, err
	}
	var all []gate.Verdict
	if err := json.Unmarshal([]byte(out.Stdout), &all); err != nil {
		return nil, fmt.Errorf("output of sluice check: %w: %s", err, out.Stderr)
	}
	byName := map[string]gate.Verdict{}
	for _, v := range all {
		byName[v.Object.Name] = v
	}
	return byName, nil
}

func pullRequest(ctx context.Context, d *demo) error {
	out, err := d.check(ctx, "text")
	if err != nil {
		return err
	}
	fmt.Print(indent(out.Stdout))
	if out.Code != 1 {
		return fmt.Errorf("exit code is %d and should be 1: %s", out.Code, out.Stderr)
	}
	for _, want := range []string{
		"PASS  operator/test/demo/overlay/ledger.yaml", "DENY  operator/test/demo/overlay/report.yaml", "DENY  operator/test/demo/overlay/scanner.yaml",
		"signature", "restricted/privileged", "spec.template.spec.containers[0]", "to do:",
	} {
		if !strings.Contains(out.Stdout, want) {
			return fmt.Errorf("the output does not say %q", want)
		}
	}
	verdicts, err := d.verdicts(ctx)
	if err != nil {
		return err
	}
	for name, want := range map[string]gate.Outcome{"ledger": gate.OutcomeAllow, "report": gate.OutcomeDeny, "scanner": gate.OutcomeDeny} {
		if got := verdicts[name].Outcome; got != want {
			return fmt.Errorf("verdict over %s is %q and should be %s", name, got, want)
		}
	}
	return stepwise.OK("ledger passes; report and scanner are denied; exit code 1")
}

func (d *demo) apply(ctx context.Context, name string) (stepwise.Output, error) {
	return d.kube(ctx, "apply", "--namespace=shop", "-f", filepath.Join("operator/test/demo/overlay", name+".yaml"))
}

func admission(ctx context.Context, d *demo) error {
	verdicts, err := d.verdicts(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{"report", "scanner"} {
		out, err := d.apply(ctx, name)
		if err != nil {
			return err
		}
		fmt.Print(indent(out.Stderr))
		if out.Code == 0 {
			return fmt.Errorf("the API server took %s", name)
		}
		for _, f := range verdicts[name].Violations {
			if !strings.Contains(out.Stderr, report.Line(f)) {
				return fmt.Errorf("the refusal of %s does not say what sluice check says: %s", name, report.Line(f))
			}
		}
	}
	out, err := d.apply(ctx, "ledger")
	if err != nil {
		return err
	}
	if out.Code != 0 {
		return fmt.Errorf("the API server refused ledger: %s", out.Stderr)
	}
	return stepwise.OK("report and scanner are refused, finding by finding as in the pull request; ledger is stored")
}

func reconcile(ctx context.Context, d *demo) error {
	out, err := d.kube(ctx, "wait", "--for=condition=Ready", "--timeout=60s", "--namespace=shop", "workload/cache", "workload/orders-db", "workload/ledger")
	if err != nil {
		return err
	}
	fmt.Print(indent(out.Stdout))
	if out.Code != 0 {
		return fmt.Errorf("kubectl wait: %s", out.Stderr)
	}
	want := map[string]string{
		"orders-db": "ServiceAccount ConfigMap NetworkPolicy Service PodDisruptionBudget StatefulSet CronJob",
		"cache":     "ServiceAccount NetworkPolicy Service PodDisruptionBudget Deployment",
	}
	for name, kinds := range want {
		if err := d.expectChildren(ctx, name, strings.Fields(kinds)); err != nil {
			return err
		}
		if err := d.expectStatus(ctx, name); err != nil {
			return err
		}
	}
	table, err := d.kube(ctx, "get", "workloads", "--namespace=shop")
	if err != nil {
		return err
	}
	fmt.Print(indent(table.Stdout))
	if err := d.expectPromise(ctx, "cache"); err != nil {
		return err
	}
	return stepwise.OK("every child is there; status has phase, conditions and the digests that run")
}

// expectPromise waits until status says when the environment will attest what runs, for the
// next one to ask.
func (d *demo) expectPromise(ctx context.Context, name string) error {
	return d.eventually(ctx, name+" is about to be attested", func(ctx context.Context) (bool, error) {
		w, err := d.workload(ctx, name)
		if err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(w.Status.Conditions, v1beta1.ConditionPromoted)
		if c == nil || c.Reason != "Soaking" {
			return false, nil
		}
		fmt.Printf("   status of %s: %s: %s\n", name, c.Type, c.Message)
		return true, nil
	})
}

func (d *demo) expectChildren(ctx context.Context, name string, kinds []string) error {
	children, err := d.children(ctx, name)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, c := range children {
		have[c.GetKind()] = true
	}
	for _, kind := range kinds {
		if !have[kind] {
			return fmt.Errorf("%s has no %s among its children", name, kind)
		}
	}
	return nil
}

// expectStatus checks that what runs is the digest that was verified.
func (d *demo) expectStatus(ctx context.Context, name string) error {
	w, err := d.workload(ctx, name)
	if err != nil {
		return err
	}
	if w.Status.Phase != "Ready" || w.Status.Gate == nil || w.Status.Gate.Verdict != "Allow" || len(w.Status.Images) == 0 {
		return fmt.Errorf("status of %s is not complete: phase %q, %d images", name, w.Status.Phase, len(w.Status.Images))
	}
	image := w.Status.Images[len(w.Status.Images)-1]
	for _, i := range w.Status.Images {
		if i.Image == w.Spec.Image {
			image = i
		}
	}
	running, err := d.runningImage(ctx, name)
	if err != nil {
		return err
	}
	if image.Digest == "" || !strings.HasSuffix(running, "@"+image.Digest) {
		return fmt.Errorf("%s runs %s and status says %s", name, running, image.Digest)
	}
	if image.SignedBy != "release-key" {
		return fmt.Errorf("%s is signed by %q, says its status", name, image.SignedBy)
	}
	return nil
}

func withoutWebhook(ctx context.Context, d *demo) error {
	if _, err := stepwise.Must(d.kube(ctx, "delete", "validatingwebhookconfiguration", "sluice")); err != nil {
		return err
	}
	verdicts, err := d.verdicts(ctx)
	if err != nil {
		return err
	}
	if _, err := stepwise.Must(d.apply(ctx, "report")); err != nil {
		return fmt.Errorf("without the webhook the API server stores anything: %w", err)
	}
	if err := d.expectBlocked(ctx, "report", verdicts["report"]); err != nil {
		return err
	}
	if _, err := stepwise.Must(d.kube(ctx, "delete", "workload", "report", "--namespace=shop", "--timeout=30s")); err != nil {
		return err
	}
	if err := d.restoreWebhook(ctx); err != nil {
		return err
	}
	return stepwise.OK("status and event give the verdict of the pull request; there is no child; the webhook is back")
}

func (d *demo) expectBlocked(ctx context.Context, name string, verdict gate.Verdict) error {
	err := d.eventually(ctx, name+" is Blocked", func(ctx context.Context) (bool, error) {
		w, err := d.workload(ctx, name)
		return err == nil && w.Status.Phase == "Blocked" && w.Status.ObservedGeneration == w.Generation, client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	w, err := d.workload(ctx, name)
	if err != nil {
		return err
	}
	if got := w.Status.Gate; got.Verdict != string(verdict.Outcome) || got.PolicyDigest != verdict.PolicyDigest || len(got.Violations) != len(verdict.Violations) {
		return fmt.Errorf("status.gate differs from the pull request's verdict: %+v", got)
	}
	for i, v := range verdict.Violations {
		if got := w.Status.Gate.Violations[i]; got.Message != v.Message || got.Path != v.Path || got.Policy != v.Policy {
			return fmt.Errorf("status.gate.violations[%d] differs from the pull request's: %+v", i, got)
		}
	}
	fmt.Printf("   status: %s: %s\n", w.Status.Phase, w.Status.Gate.Violations[0].Message)
	if err := d.expectEvent(ctx, name, "Denied", verdict.Violations[0].Message); err != nil {
		return err
	}
	children, err := d.children(ctx, name)
	if err != nil {
		return err
	}
	if len(children) != 0 {
		return fmt.Errorf("%s has children: %s %s", name, children[0].GetKind(), children[0].GetName())
	}
	return nil
}

func (d *demo) expectEvent(ctx context.Context, name, reason, text string) error {
	return d.eventually(ctx, "event "+reason+" of "+name, func(ctx context.Context) (bool, error) {
		list := &eventsv1.EventList{}
		if err := d.client.List(ctx, list, client.InNamespace("shop")); err != nil {
			return false, err
		}
		for _, e := range list.Items {
			if e.Regarding.Name == name && e.Reason == reason && strings.Contains(e.Note, text) {
				fmt.Printf("   event:  %s: %s\n", e.Reason, e.Note)
				return true, nil
			}
		}
		return false, nil
	})
}

// restoreWebhook applies the configuration again and waits until the operator has told
// the API server whom to trust.
func (d *demo) restoreWebhook(ctx context.Context) error {
	objects, err := stage.Objects(d.root, "kustomize/base/webhook")
	if err != nil {
		return err
	}
	lab.RedirectWebhooks(objects, d.stage.WebhookURL)
	if err := d.stage.Cluster.Apply(ctx, objects); err != nil {
		return err
	}
	return d.eventually(ctx, "the webhook refuses report again", func(ctx context.Context) (bool, error) {
		out, err := d.kube(ctx, "apply", "--namespace=shop", "--dry-run=server", "-f", "operator/test/demo/overlay/report.yaml")
		return strings.Contains(out.Stderr, "denied by gate dev"), err
	})
}

func life(ctx context.Context, d *demo) error {
	for _, part := range []func(context.Context) error{d.editIsHealed, d.sidecarIsRemoved, d.deletedChildComesBack, d.scales, d.deletesEverything} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) editIsHealed(ctx context.Context) error {
	before, err := d.runningImage(ctx, "cache")
	if err != nil {
		return err
	}
	patch := `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"registry.example.com/shop/report:0.9.0"}]`
	if _, err := stepwise.Must(d.kube(ctx, "patch", "deployment", "cache", "--namespace=shop", "--type=json", "-p", patch)); err != nil {
		return err
	}
	if err := d.expectEvent(ctx, "cache", "DriftHealed", "containers[0].image"); err != nil {
		return err
	}
	after, err := d.runningImage(ctx, "cache")
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("the image is %s and was %s", after, before)
	}
	return stepwise.OK("an image edited by hand is put back to the verified digest")
}

func (d *demo) sidecarIsRemoved(ctx context.Context) error {
	patch := `[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"miner","image":"registry.example.com/shop/report:0.9.0"}}]`
	if _, err := stepwise.Must(d.kube(ctx, "patch", "deployment", "cache", "--namespace=shop", "--type=json", "-p", patch)); err != nil {
		return err
	}
	err := d.eventually(ctx, "the added container is gone", func(ctx context.Context) (bool, error) {
		u, err := d.child(ctx, "apps/v1", "Deployment", "cache")
		if err != nil {
			return false, err
		}
		containers, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		return len(containers) == 1, err
	})
	if err != nil {
		return err
	}
	return stepwise.OK("a container added by hand is taken out again")
}

func (d *demo) deletedChildComesBack(ctx context.Context) error {
	before, err := d.child(ctx, "v1", "Service", "cache")
	if err != nil {
		return err
	}
	if _, err := stepwise.Must(d.kube(ctx, "delete", "service", "cache", "--namespace=shop")); err != nil {
		return err
	}
	err = d.eventually(ctx, "Service cache is back", func(ctx context.Context) (bool, error) {
		now, err := d.child(ctx, "v1", "Service", "cache")
		return err == nil && now.GetUID() != before.GetUID(), client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	return stepwise.OK("a deleted Service comes back")
}

func (d *demo) scales(ctx context.Context) error {
	if _, err := stepwise.Must(d.kube(ctx, "scale", "workload/cache", "--namespace=shop", "--replicas=4")); err != nil {
		return err
	}
	err := d.eventually(ctx, "cache has four pods", func(ctx context.Context) (bool, error) {
		w, err := d.workload(ctx, "cache")
		return err == nil && w.Status.AvailableReplicas == 4 && w.Status.Phase == "Ready", err
	})
	if err != nil {
		return err
	}
	return stepwise.OK("kubectl scale workload/cache --replicas=4 works")
}

func (d *demo) deletesEverything(ctx context.Context) error {
	for _, name := range []string{"orders-db", "cache", "ledger"} {
		if _, err := stepwise.Must(d.kube(ctx, "delete", "workload", name, "--namespace=shop", "--timeout=60s")); err != nil {
			return err
		}
		err := d.eventually(ctx, "nothing of "+name+" is left", func(ctx context.Context) (bool, error) {
			children, err := d.children(ctx, name)
			return len(children) == 0, err
		})
		if err != nil {
			return err
		}
	}
	if _, err := d.workload(ctx, "cache"); !apierrors.IsNotFound(err) {
		return fmt.Errorf("workload cache is still there: %v", err)
	}
	return stepwise.OK("deleted Workloads leave no child, no pod and no volume claim")
}
