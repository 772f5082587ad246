package conformance

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1alpha1"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

const definition = "workloads.sluice.dev"

// before are objects of a cluster that knew v1alpha1 only. The gate of today allows the
// first; the second is not signed; the third has an annotation that means something now.
const before = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {sluice.dev/environment: dev}}
---
apiVersion: sluice.dev/v1alpha1
kind: Workload
metadata: {name: signed, namespace: shop}
spec: {image: "registry.example.com/shop/cache:7.2.4", replicas: 2, port: 6379, persistent: true, storageSize: 1Gi}
---
apiVersion: sluice.dev/v1alpha1
kind: Workload
metadata: {name: unsigned, namespace: shop}
spec: {image: "registry.example.com/shop/report:0.9.0", port: 80}
---
apiVersion: sluice.dev/v1alpha1
kind: Workload
metadata: {name: planted, namespace: shop, annotations: {sluice.dev/v1beta1-spec: "{"}}
spec: {image: "registry.example.com/shop/cache:7.2.4"}
`

// TestUpgrade_FromV1alpha1AsTheStoredVersion begins with Workloads that are stored in
// v1alpha1: the operator can list none before it converts them itself.
func TestUpgrade_FromV1alpha1AsTheStoredVersion(t *testing.T) {
	u := upgraded(t)
	for _, name := range []string{"signed", "unsigned", "planted"} {
		for _, version := range []string{v1alpha1.GroupVersion.Version, v1beta1.GroupVersion.Version} {
			if _, err := u.get(t.Context(), version, name); err != nil {
				t.Errorf("%s in %s: %v", name, version, err)
			}
		}
	}
	u.until(t, "signed", v1beta1.PhaseReady)
	w := &v1beta1.Workload{}
	latest, err := u.get(t.Context(), v1beta1.GroupVersion.Version, "signed")
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(latest.Object, w); err != nil {
		t.Fatal(err)
	}
	if w.Spec.Storage == nil || w.Spec.Storage.Size != "1Gi" || w.Spec.Ports[0].Port != 6379 || w.Status.AvailableReplicas != 2 {
		t.Errorf("in v1beta1: %+v %+v", w.Spec, w.Status)
	}
	old, err := u.get(t.Context(), v1alpha1.GroupVersion.Version, "signed")
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(old.Object, "status", "replicas"); n != 2 || len(old.GetAnnotations()) > 0 {
		t.Errorf("in v1alpha1: %v", old.Object)
	}
	// The operator cannot write to one with such an annotation; whoever planted it can take
	// it off, in either version.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"sluice.dev/v1beta1-spec":null}}}`))
	planted, err := u.get(t.Context(), v1beta1.GroupVersion.Version, "planted")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.client.Patch(t.Context(), planted, patch); err != nil {
		t.Fatal(err)
	}
	u.until(t, "planted", v1beta1.PhaseReady)
	if got := u.stored(t); !slices.Equal(got, []string{"v1alpha1", "v1beta1"}) {
		t.Errorf("storedVersions: %v", got)
	}
}

// TestUpgrade_TheDocumentedCommandsStoreTheRest runs what docs/upgrade.md says.
func TestUpgrade_TheDocumentedCommandsStoreTheRest(t *testing.T) {
	u := upgraded(t)
	u.until(t, "signed", v1beta1.PhaseReady)
	u.until(t, "unsigned", v1beta1.PhaseGating, v1beta1.PhaseBlocked)
	// The operator wrote its status to them, and would not again. So they are stored in
	// v1alpha1 once more.
	u.storeIn(t, v1alpha1.GroupVersion.Version)
	u.withoutConversion(t, v1alpha1.GroupVersion.Version)
	for _, name := range []string{"signed", "unsigned"} {
		w, err := u.get(t.Context(), v1beta1.GroupVersion.Version, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.client.Status().Patch(t.Context(), w, client.RawPatch(types.MergePatchType, []byte(`{}`))); err != nil {
			t.Fatal(err)
		}
	}
	u.storeIn(t, v1beta1.GroupVersion.Version)
	var another *lab.Process
	u.withoutConversion(t, v1beta1.GroupVersion.Version, func() { another = u.anotherReplica(t) })
	if err := another.Stop(); err != nil {
		t.Error(err)
	}

	u.documented(t)
	if got := u.stored(t); !slices.Equal(got, []string{"v1beta1"}) {
		t.Errorf("storedVersions: %v", got)
	}
	u.withoutConversion(t, v1alpha1.GroupVersion.Version, func() {
		for _, name := range []string{"signed", "unsigned"} {
			if _, err := u.get(t.Context(), v1beta1.GroupVersion.Version, name); err != nil {
				t.Errorf("%s is not stored in v1beta1: %v", name, err)
			}
		}
	})
}

// anotherReplica starts an operator while no Workload can be listed, and waits until it is
// ready. A Service sends nothing to a replica that is not, so that one which waited for
// the list would wait for itself.
func (u *upgrade) anotherReplica(t *testing.T) *lab.Process {
	t.Helper()
	another, err := u.stage.StartReplica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return another.Process
}

type upgrade struct {
	stage  *stage.Stage
	client client.Client
}

func upgraded(t *testing.T) *upgrade {
	t.Helper()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	manifests := filepath.Join(t.TempDir(), "before.yaml")
	if err := os.WriteFile(manifests, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	older, err := stage.Objects(filepath.Dir(manifests), "before.yaml")
	if err != nil {
		t.Fatal(err)
	}
	u := &upgrade{}
	u.stage, u.client = up(t, stage.Options{Overlay: "kustomize/overlays/dev", Older: append(older, olderDefinition(t, root))})
	return u
}

// quiet keeps the API server's warnings of v1alpha1 out of the log.
func quiet(access *rest.Config) *rest.Config {
	access.WarningHandler = rest.NoWarnings{}
	return access
}

// olderDefinition is the CRD as it was when there was v1alpha1 alone.
func olderDefinition(t *testing.T, root string) *unstructured.Unstructured {
	t.Helper()
	built, err := stage.Objects(root, "kustomize/base/crds")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(built, func(o *unstructured.Unstructured) bool { return o.GetName() == definition })
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(built[at].Object, crd); err != nil {
		t.Fatal(err)
	}
	crd.Spec.Conversion = nil
	crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name != v1alpha1.GroupVersion.Version
	})
	only := &crd.Spec.Versions[0]
	only.Storage, only.Deprecated, only.DeprecationWarning = true, false, nil
	delete(only.Schema.OpenAPIV3Schema.Properties["status"].Properties, "v1beta1")
	raw, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &out.Object); err != nil {
		t.Fatal(err)
	}
	delete(out.Object, "status")
	return out
}

func (u *upgrade) get(ctx context.Context, version, name string) (*unstructured.Unstructured, error) {
	w := &unstructured.Unstructured{}
	w.SetAPIVersion(v1beta1.GroupVersion.Group + "/" + version)
	w.SetKind(v1beta1.WorkloadKind)
	return w, u.client.Get(ctx, client.ObjectKey{Namespace: "shop", Name: name}, w)
}

func (u *upgrade) until(t *testing.T, name string, phases ...v1beta1.Phase) {
	t.Helper()
	u.eventually(t, name+" comes to be "+string(phases[0]), func(ctx context.Context) bool {
		w, err := u.get(ctx, v1beta1.GroupVersion.Version, name)
		phase, _, _ := unstructured.NestedString(w.Object, "status", "phase")
		return err == nil && slices.Contains(phases, v1beta1.Phase(phase))
	})
}

func (u *upgrade) eventually(t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) { return holds(ctx), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (u *upgrade) crd(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := u.client.Get(t.Context(), client.ObjectKey{Name: definition}, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func (u *upgrade) stored(t *testing.T) []string {
	t.Helper()
	versions, _, err := unstructured.NestedStringSlice(u.crd(t).Object, "status", "storedVersions")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(versions)
	return versions
}

// storeIn changes the stored version.
func (u *upgrade) storeIn(t *testing.T, version string) {
	t.Helper()
	crd := u.crd(t)
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		v.(map[string]any)["storage"] = v.(map[string]any)["name"] == version
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if err := u.client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
}

// withoutConversion takes the conversion away until the Workloads cannot be read in
// version, which they are not stored in, calls what is given, and puts it back. As the
// API server takes one change of a CRD after the other, every one before is in force too.
func (u *upgrade) withoutConversion(t *testing.T, version string, then ...func()) {
	t.Helper()
	readable := func(ctx context.Context) (n int) {
		for _, name := range []string{"signed", "unsigned"} {
			if _, err := u.get(ctx, version, name); err == nil {
				n++
			}
		}
		return n
	}
	working := u.convertAt(t, "https://127.0.0.1:1/convert")
	u.eventually(t, version+" cannot be read without the conversion", func(ctx context.Context) bool { return readable(ctx) == 0 })
	for _, call := range then {
		call()
	}
	u.convertAt(t, working)
	u.eventually(t, version+" can be read with it", func(ctx context.Context) bool { return readable(ctx) == 2 })
}

// convertAt changes where the API server has Workloads converted, and returns where it was.
func (u *upgrade) convertAt(t *testing.T, url string) (was string) {
	t.Helper()
	crd := u.crd(t)
	path := []string{"spec", "conversion", "webhook", "clientConfig", "url"}
	was, _, err := unstructured.NestedString(crd.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(crd.Object, url, path...); err != nil {
		t.Fatal(err)
	}
	if err := u.client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	return was
}

// documented runs the commands of docs/upgrade.md as they stand there.
func (u *upgrade) documented(t *testing.T) {
	t.Helper()
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "upgrade.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sh\n")
	commands, _, ok := strings.Cut(rest, "```")
	if !ok || !strings.Contains(commands, "storedVersions") {
		t.Fatal("docs/upgrade.md has no commands")
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", commands)
	sh.Env = append(os.Environ(), "KUBECONFIG="+u.stage.Cluster.Kubeconfig(), "PATH="+filepath.Join(root, "bin", "tools")+":"+os.Getenv("PATH"))
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("the documented commands: %v: %s", err, out)
	}
	t.Logf("%s", out)
}
