package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// run runs a command in the repository's root.
func (d *demo) run(ctx context.Context, name string, args ...string) (stepwise.Output, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = d.root
	c.Env = append(os.Environ(), "KUBECONFIG="+d.stage.Cluster.Kubeconfig())
	return stepwise.Run(c)
}

func (d *demo) kube(ctx context.Context, args ...string) (stepwise.Output, error) {
	return d.run(ctx, d.kubectl, args...)
}

func indent(text string) string {
	return "   | " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n   | ") + "\n"
}

// eventually waits until a condition holds.
func (d *demo) eventually(ctx context.Context, what string, condition wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, condition); err != nil {
		return fmt.Errorf("waited %s for: %s: %w; the operator's log is %s", patience, what, err, d.stage.Manager.Log())
	}
	return nil
}

func (d *demo) workload(ctx context.Context, name string) (*v1beta1.Workload, error) {
	u, err := d.child(ctx, v1beta1.GroupVersion.String(), v1beta1.WorkloadKind, name)
	if err != nil {
		return nil, err
	}
	w := &v1beta1.Workload{}
	return w, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, w)
}

func (d *demo) child(ctx context.Context, apiVersion, kind, name string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u, d.client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: name}, u)
}

// children lists every object that carries the Workload's label, pods and volume claims
// included, whoever made it.
func (d *demo) children(ctx context.Context, name string) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	for _, gvk := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "PersistentVolumeClaim"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}, {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "ReplicaSet"}, {Group: "apps", Version: "v1", Kind: "StatefulSet"},
		{Group: "batch", Version: "v1", Kind: "CronJob"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := d.client.List(ctx, list, client.InNamespace("shop"), client.MatchingLabels{"app.kubernetes.io/instance": name}); err != nil {
			return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

// runningImage is the image that a Workload's pods are told to run.
func (d *demo) runningImage(ctx context.Context, name string) (string, error) {
	kind := "Deployment"
	if name == "orders-db" {
		kind = "StatefulSet"
	}
	u, err := d.child(ctx, "apps/v1", kind, name)
	if err != nil {
		return "", err
	}
	containers, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		return "", fmt.Errorf("%s %s has no containers: %w", kind, name, err)
	}
	image, _, err := unstructured.NestedString(containers[0].(map[string]any), "image")
	return image, err
}
