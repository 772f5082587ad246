package rbac

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab/node"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

const (
	namespace = "rights"
	image     = stage.Registry + "/shop/cache:7.2.4"
	newImage  = stage.Registry + "/shop/cache:7.2.5"
	badImage  = stage.Registry + "/shop/cache:7.2.6"
)

type object = map[string]any

// world is a lab in which the operator has its own rights and every request of it is
// logged.
type world struct {
	*testing.T
	stage  *stage.Stage
	client client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctrl.SetLogger(logr.Discard()) // the lab's node is one of its managers
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	st, err := stage.Up(ctx, stage.Options{
		Root: root, Overlay: "kustomize/overlays/dev", Manager: filepath.Join(root, "bin", "manager"),
		AuditUsers: []string{operatorUser}, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatalf("start the lab (run `make build tools` first): %v", err)
	}
	t.Cleanup(func() {
		if err := st.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := &world{T: t, stage: st}
	if w.client, err = client.New(st.Cluster.Config(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, i := range []string{newImage, badImage} {
		if err := st.PushSigned(strings.TrimPrefix(i, stage.Registry+"/")); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// apply writes objects as a platform's people would, who have every right.
func (w *world) apply(objects ...object) {
	w.Helper()
	var all []*unstructured.Unstructured
	for _, o := range objects {
		all = append(all, &unstructured.Unstructured{Object: o})
	}
	if err := w.stage.Cluster.Apply(w.Context(), all); err != nil {
		w.Fatal(err)
	}
}

// ground is what the scenarios stand on: a namespace with a Gate, a class whose volumes
// grow, and what Workloads refer to.
func (w *world) ground() {
	w.Helper()
	w.apply(
		object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace, "labels": object{"sluice.dev/environment": namespace}}},
		object{"apiVersion": "sluice.dev/v1beta1", "kind": "Gate", "metadata": object{"name": namespace}, "spec": object{
			"environment": namespace, "unmatchedImages": "Deny",
			"images": []any{object{"match": stage.Registry + "/shop/**", "requireDigest": false, "authorities": []any{object{
				"name": "release-key", "key": object{"secret": object{"name": stage.SignerSecret, "namespace": stage.OperatorNamespace, "key": "cosign.pub"}},
			}}}},
			"match": object{"namespaceSelector": object{"matchLabels": object{"sluice.dev/environment": namespace}}},
		}},
		object{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": object{"name": "elastic"}, "provisioner": "example.com/disks", "allowVolumeExpansion": true},
		object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "pull", "namespace": namespace}, "type": "kubernetes.io/dockerconfigjson",
			"stringData": object{".dockerconfigjson": `{"auths":{}}`}},
		object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "words", "namespace": namespace}, "data": object{"word": "one"}},
	)
}

func workload(name string, spec object) object {
	full := object{"image": image, "resources": object{"requests": object{"cpu": "100m", "memory": "128Mi"}, "limits": object{"memory": "256Mi"}}}
	for key, value := range spec {
		full[key] = value
	}
	return object{"apiVersion": "sluice.dev/v1beta1", "kind": "Workload", "metadata": object{"name": name, "namespace": namespace}, "spec": full}
}

// rich is a spec that has every kind of child.
func rich(more object) object {
	spec := object{
		"ports":  []any{object{"name": "http", "port": int64(8080)}},
		"config": object{"mountPath": "/etc/app", "files": object{"a": "1"}}, "replicas": int64(2),
		"availability": object{"minAvailable": int64(1)}, "imagePullSecrets": []any{object{"name": "pull"}},
		"env": []any{object{"name": "WORD", "valueFrom": object{"configMapKeyRef": object{"name": "words", "key": "word"}}}},
		"backup": object{"schedule": "0 3 * * *", "image": stage.Registry + "/shop/backup:1.2.0",
			"s3": object{"bucket": "backups", "region": "eu-central-1"}},
	}
	for key, value := range more {
		spec[key] = value
	}
	return spec
}

// live is an object of the namespace as it is now.
func (w *world) live(ctx context.Context, apiVersion, kind, name string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u, w.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)
}

func (w *world) patch(apiVersion, kind, name, patch string) {
	w.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	if err := w.client.Patch(w.Context(), u, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.Fatalf("patch %s %s: %v", kind, name, err)
	}
}

func (w *world) await(what string, check func(ctx context.Context) error) {
	w.Helper()
	if err := w.stage.Await(w.Context(), what, check); err != nil {
		w.Fatal(err)
	}
}

// stands waits for the phase of a Workload in its present generation.
func (w *world) stands(name, phase string) {
	w.Helper()
	w.await(name+" is "+phase, func(ctx context.Context) error {
		u, err := w.live(ctx, "sluice.dev/v1beta1", "Workload", name)
		if err != nil {
			return err
		}
		got, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		seen, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		if got != phase || seen != u.GetGeneration() {
			return fmt.Errorf("it is %s at generation %d of %d: %v", got, seen, u.GetGeneration(), u.Object["status"])
		}
		return nil
	})
}

func (w *world) gone(apiVersion, kind, name string) {
	w.Helper()
	w.await(kind+" "+name+" is gone", func(ctx context.Context) error {
		if _, err := w.live(ctx, apiVersion, kind, name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

func (w *world) remove(apiVersion, kind, name string) {
	w.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	u.SetNamespace(namespace)
	u.SetName(name)
	if err := w.client.Delete(w.Context(), u); err != nil {
		w.Fatal(err)
	}
}

func (w *world) removeWorkload(name string) {
	w.Helper()
	w.remove("sluice.dev/v1beta1", "Workload", name)
	w.gone("sluice.dev/v1beta1", "Workload", name)
}

// released waits until a revision of a Workload is recorded as the stable one.
func (w *world) released(name string) {
	w.Helper()
	w.stands(name, "Ready")
	w.await(name+" has a stable revision", func(ctx context.Context) error {
		u, err := w.live(ctx, "sluice.dev/v1beta1", "Workload", name)
		if err != nil {
			return err
		}
		stable, _, _ := unstructured.NestedString(u.Object, "status", "rollout", "stableDigest")
		current, _, _ := unstructured.NestedString(u.Object, "status", "rollout", "currentDigest")
		if stable == "" || stable != current {
			return fmt.Errorf("stable is %q, current %q", stable, current)
		}
		return nil
	})
}

// failing makes every pod of a spec one that never gets ready.
var failing = `- {op: add, path: /spec/template/metadata/annotations, value: {` + node.FailAnnotation + `: CrashLoopBackOff}}`
