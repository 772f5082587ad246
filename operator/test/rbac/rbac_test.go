package rbac

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

const operatorUser = "system:serviceaccount:" + stage.OperatorNamespace + ":" + stage.Deployment

// unseen are rights that a run in the lab need not show, each with the reason it is there.
var unseen = map[right]string{
	{"", "sluice.dev", "workloads/finalizers", "", "update"}: "asked for by the admission plugin OwnerReferencesPermissionEnforcement, " +
		"which OpenShift has and the lab has not: children block the deletion of their owner",
	{"", "apps", "controllerrevisions", "", "get"}: "read past the cache when that lags behind the operator's own write (catchUp)",
}

// TestRights_AreThoseThatTheOperatorUses runs the operator with its own rights through
// what it does, and reads in the API server's audit log which rights that took.
func TestRights_AreThoseThatTheOperatorUses(t *testing.T) {
	w := newWorld(t)
	w.ground()
	for _, scenario := range []struct {
		name string
		run  func(*world)
	}{
		{"a Workload that no Gate matches is refused", unruled},
		{"every kind of child comes, changes and goes", childrenComeAndGo},
		{"volumes grow", volumesGrow},
		{"a canary passes, and one fails whose pods are stuck", canaries},
		{"children are healed, adopted and orphaned", driftAndAdoption},
		{"Workloads wait for each other and go in order", dependencies},
		{"the webhook's certificates are lost", certificates},
		{"the operator starts again", restarts},
	} {
		if !t.Run(scenario.name, func(t *testing.T) { scenario.run(&world{t, w.stage, w.client}) }) {
			t.FailNow()
		}
	}
	rights := granted(t, roles(t))
	used, refused := asked(t, w.stage.Cluster.AuditLog(), operatorUser)
	slices.Sort(refused)
	for _, r := range slices.Compact(refused) {
		t.Errorf("missing: %s; add it to the kubebuilder:rbac markers", r)
	}
	idle := unused(rights, used)
	for _, r := range idle {
		if unseen[r] == "" {
			t.Errorf("unused: %s; take it out of the kubebuilder:rbac markers, or add what uses it to this test", r)
		}
	}
	for r := range unseen {
		if !slices.Contains(rights, r) {
			t.Errorf("%s is not granted any more: take it out of the table", r)
		}
	}
}

// TestRights_OfSecretsThoseOfOneNameAreWritten: by a right to write others the operator
// could put its own key in the place of whoever signs.
func TestRights_OfSecretsThoseOfOneNameAreWritten(t *testing.T) {
	for _, r := range unnamed(granted(t, roles(t))) {
		t.Errorf("%s, whatever its name is: name those that are written in the kubebuilder:rbac markers", r)
	}
}

// TestRights_OneThatIsTooWideIsFound holds the two judges above against roles that are
// wider than what was asked for.
func TestRights_OneThatIsTooWideIsFound(t *testing.T) {
	const own = "sluice-webhook-certificate"
	update := func(name string) right { return right{stage.OperatorNamespace, "", "secrets", name, "update"} }
	used := map[right]int{update(own): 3, {stage.OperatorNamespace, "", "secrets", "", "create"}: 1}
	for name, c := range map[string]struct {
		rule                  string
		wantUnused, wantWrite []right
	}{
		"the one that is written":              {"resourceNames: [" + own + "], verbs: [update]", nil, nil},
		"another besides":                      {"resourceNames: [" + own + ", signing-key], verbs: [update]", []right{update("signing-key")}, nil},
		"another alone":                        {"resourceNames: [signing-key], verbs: [update]", []right{update("signing-key")}, nil},
		"every one":                            {"verbs: [update]", nil, []right{update("")}},
		"every one, besides the one by name":   {"verbs: [update]}\n- {apiGroups: [''], resources: [secrets], resourceNames: [" + own + "], verbs: [update]", []right{update("")}, []right{update("")}},
		"to make one, which cannot be bounded": {"verbs: [create]", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "role.yaml")
			role := "kind: Role\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {name: sluice-manager, namespace: " + stage.OperatorNamespace +
				"}\nrules:\n- {apiGroups: [''], resources: [secrets], " + c.rule + "}\n"
			if err := os.WriteFile(file, []byte(role), 0o600); err != nil {
				t.Fatal(err)
			}
			rights := granted(t, file)
			if got := unused(rights, used); !slices.Equal(got, c.wantUnused) {
				t.Errorf("unused are %v, want %v", got, c.wantUnused)
			}
			if got := unnamed(rights); !slices.Equal(got, c.wantWrite) {
				t.Errorf("unnamed are %v, want %v", got, c.wantWrite)
			}
		})
	}
}

// roles is the file of the operator's Role and ClusterRole.
func roles(t *testing.T) string {
	t.Helper()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "kustomize", "base", "rbac", "role.yaml")
}

// unruled has absence looked for past the caches: a Gate may have come a moment before.
func unruled(w *world) {
	w.apply(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "unruled"}})
	u := &unstructured.Unstructured{Object: workload("web", nil)}
	u.SetNamespace("unruled")
	if err := w.client.Create(w.Context(), u); err == nil || !strings.Contains(err.Error(), "no Gate") {
		w.Fatalf("got %v", err)
	}
}

func childrenComeAndGo(w *world) {
	w.apply(workload("web", rich(nil)), workload("db", rich(object{"storage": object{"size": "1Gi", "mountPath": "/data"}})))
	w.stands("web", "Ready")
	w.stands("db", "Ready")
	w.apply(workload("web", rich(object{"config": object{"mountPath": "/etc/app", "files": object{"a": "2"}}})))
	w.stands("web", "Ready")
	w.apply(workload("web", object{"serviceAccountName": "default"}))
	w.stands("web", "Ready")
	for kind, apiVersion := range map[string]string{"Service": "v1", "ServiceAccount": "v1", "PodDisruptionBudget": "policy/v1"} {
		w.gone(apiVersion, kind, "web")
	}
	w.removeWorkload("web")
	w.apply(workload("kept", rich(object{"storage": object{"size": "1Gi", "mountPath": "/data"}, "deletionPolicy": "RetainStorage"})))
	w.stands("kept", "Ready")
	w.removeWorkload("db")
	w.removeWorkload("kept")
}

func volumesGrow(w *world) {
	spec := func(size string) object {
		return workload("growing", object{"storage": object{"size": size, "mountPath": "/data", "className": "elastic"}})
	}
	claim := func(size string) object {
		return object{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": object{"name": "data-growing-0", "namespace": namespace, "labels": object{
				"app.kubernetes.io/managed-by": "sluice", "app.kubernetes.io/name": "growing", "app.kubernetes.io/instance": "growing"}},
			"spec": object{"storageClassName": "elastic", "accessModes": []any{"ReadWriteOnce"}, "volumeName": "growing",
				"resources": object{"requests": object{"storage": size}}}}
	}
	volume := object{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": object{"name": "growing"}, "spec": object{
		"storageClassName": "elastic", "accessModes": []any{"ReadWriteOnce"}, "capacity": object{"storage": "4Gi"},
		"csi": object{"driver": "disks.example.com", "volumeHandle": "growing"}, "persistentVolumeReclaimPolicy": "Retain",
	}}
	w.apply(volume, claim("1Gi"), spec("1Gi"))
	w.stands("growing", "Ready")
	w.apply(spec("2Gi"))
	w.await("the claim asks for more", func(ctx context.Context) error {
		u, err := w.live(ctx, "v1", "PersistentVolumeClaim", "data-growing-0")
		if err != nil {
			return err
		}
		if size, _, _ := unstructured.NestedString(u.Object, "spec", "resources", "requests", "storage"); size != "2Gi" {
			return fmt.Errorf("it asks for %s", size)
		}
		return nil
	})
	w.removeWorkload("growing")
}

// canaries has one that fails after ten seconds, since its pods never get ready.
func canaries(w *world) {
	steps := func(name, image string, storage bool, more object) object {
		spec := object{"image": image, "replicas": int64(3), "rollout": object{
			"strategy": "Canary", "rollbackOnFailure": true, "progressDeadline": "10s",
			"canary": object{"batchSize": int64(1), "interval": "1s", "failureLimit": int64(1)},
		}}
		if storage {
			spec["storage"] = object{"size": "1Gi", "mountPath": "/data"}
		}
		for key, value := range more {
			spec[key] = value
		}
		return workload(name, spec)
	}
	for name, storage := range map[string]bool{"steps": false, "stuck": true} {
		w.apply(steps(name, image, storage, nil))
		w.released(name)
		w.apply(steps(name, newImage, storage, nil))
		w.released(name)
	}
	bad := steps("stuck", badImage, true, object{"patches": []any{object{"patch": failing, "target": object{"kind": "StatefulSet"}}}})
	w.apply(bad)
	w.stands("stuck", "Degraded")
	w.removeWorkload("steps")
	w.removeWorkload("stuck")
}

func driftAndAdoption(w *world) {
	w.apply(workload("web", object{"replicas": int64(2), "deletionPolicy": "Orphan"}))
	w.stands("web", "Ready")
	// What is told of twice in a row, with nothing else changed, is one event that is patched.
	for range 2 {
		w.patch("v1", "ServiceAccount", "web", `{"automountServiceAccountToken":true}`)
		w.await("the ServiceAccount is put back", func(ctx context.Context) error {
			u, err := w.live(ctx, "v1", "ServiceAccount", "web")
			if err != nil {
				return err
			}
			if mounts, _, _ := unstructured.NestedBool(u.Object, "automountServiceAccountToken"); mounts {
				return errors.New("it mounts its token")
			}
			return nil
		})
	}
	w.patch("apps/v1", "Deployment", "web", `{"metadata":{"ownerReferences":null}}`)
	w.await("the Deployment is taken back", func(ctx context.Context) error {
		u, err := w.live(ctx, "apps/v1", "Deployment", "web")
		if err != nil {
			return err
		}
		if len(u.GetOwnerReferences()) == 0 {
			return errors.New("nobody owns it")
		}
		return nil
	})
	w.removeWorkload("web")
	if _, err := w.live(w.Context(), "apps/v1", "Deployment", "web"); err != nil {
		w.Fatal(err)
	}
	w.remove("apps/v1", "Deployment", "web")
}

func dependencies(w *world) {
	w.apply(workload("base", nil), workload("upper", object{"dependsOn": []any{object{"name": "base"}}}))
	w.stands("upper", "Ready")
	w.remove("sluice.dev/v1beta1", "Workload", "base")
	w.removeWorkload("upper")
	w.gone("sluice.dev/v1beta1", "Workload", "base")
}

func certificates(w *world) {
	secret := &unstructured.Unstructured{}
	secret.SetAPIVersion("v1")
	secret.SetKind("Secret")
	key := client.ObjectKey{Namespace: stage.OperatorNamespace, Name: "sluice-webhook-certificate"}
	if err := w.client.Get(w.Context(), key, secret); err != nil {
		w.Fatal(err)
	}
	before := secret.GetResourceVersion()
	if err := w.client.Patch(w.Context(), secret, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"tls.crt":"","tls.key":""}}`))); err != nil {
		w.Fatal(err)
	}
	w.await("the certificate is made again", func(ctx context.Context) error {
		if err := w.client.Get(ctx, key, secret); err != nil {
			return err
		}
		if crt, _, _ := unstructured.NestedString(secret.Object, "data", "tls.crt"); crt == "" {
			return fmt.Errorf("it is empty; version %s, before %s", secret.GetResourceVersion(), before)
		}
		return nil
	})
}

func restarts(w *world) {
	if err := w.stage.Manager.Stop(); err != nil {
		w.Fatal(err)
	}
	if err := w.stage.StartManager(w.Context()); err != nil {
		w.Fatal(err)
	}
}
