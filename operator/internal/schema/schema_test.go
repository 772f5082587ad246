package schema_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/schema"
	"github.com/sluice-dev/sluice/operator/internal/testkit/oldrules"
)

var (
	api client.Client
	set *schema.Set
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	top := filepath.Join("..", "..", "..")
	env := &envtest.Environment{
		BinaryAssetsDirectory: filepath.Join(top, "bin", "tools"),
		CRDDirectoryPaths:     []string{filepath.Join(top, "kustomize", "base", "crds")},
	}
	config, err := env.Start()
	if err != nil {
		panic("start the control plane (run `make tools` first): " + err.Error())
	}
	defer func() { _ = env.Stop() }()
	plain, err := client.New(config, client.Options{})
	if err != nil {
		panic(err)
	}
	// What kubectl asks for.
	api = client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	if set, err = schema.Load(crds.Files); err != nil {
		panic(err)
	}
	return m.Run()
}

func object(t *testing.T, manifest, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(manifest, "NAME", name)))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestSet_AdmitGivesTheDefaultsOfTheAPIServer(t *testing.T) {
	n := 0
	for name, manifest := range accepted {
		n++
		t.Run(name, func(t *testing.T) {
			u := object(t, manifest, "accepted-"+strconv.Itoa(n))
			before := asJSON(t, u.Object)
			got, errs := set.Admit(context.Background(), u.Object, u.GroupVersionKind())
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if asJSON(t, u.Object) != before {
				t.Error("the object that was given is changed")
			}
			if err := api.Create(context.Background(), u); err != nil {
				t.Fatalf("the API server refuses it: %v", err)
			}
			if g, w := asJSON(t, got["spec"]), asJSON(t, u.Object["spec"]); g != w {
				t.Errorf("Admit:      %s\nAPI server: %s", g, w)
			}
			admitted := &unstructured.Unstructured{Object: got}
			if admitted.GetNamespace() != u.GetNamespace() || got["status"] != nil {
				t.Errorf("namespace %q, status %v", admitted.GetNamespace(), got["status"])
			}
		})
	}
}

func TestSet_AdmitRefusesWhatTheAPIServerRefuses(t *testing.T) {
	n := 0
	for name, c := range refused {
		n++
		t.Run(name, func(t *testing.T) {
			u := object(t, c.manifest, "refused-"+strconv.Itoa(n))
			got, errs := set.Admit(context.Background(), u.Object, u.GroupVersionKind())
			if len(errs) == 0 || got != nil {
				t.Fatalf("Admit takes it: %v", got)
			}
			text := errs.ToAggregate().Error()
			if !strings.Contains(text, c.field) {
				t.Errorf("%s is not named: %s", c.field, text)
			}
			err := api.Create(context.Background(), u)
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("the API server says: %v", err)
			}
		})
	}
}

func TestSet_AdmitKnowsOnlyServedVersions(t *testing.T) {
	for name, c := range map[string]struct{ apiVersion, kind string }{
		"another version": {"sluice.dev/v1", "Workload"},
		"another kind":    {"sluice.dev/v1beta1", "Workloads"},
		"another group":   {"example.com/v1beta1", "Workload"},
	} {
		t.Run(name, func(t *testing.T) {
			u := object(t, strings.NewReplacer("sluice.dev/v1beta1", c.apiVersion, "kind: Workload", "kind: "+c.kind).Replace(head+"  image: a\n"), "a")
			_, first := set.Admit(context.Background(), u.Object, u.GroupVersionKind())
			if len(first) != 1 || first[0].Field != "apiVersion" {
				t.Fatal(first)
			}
			for range 20 {
				if _, errs := set.Admit(context.Background(), u.Object, u.GroupVersionKind()); errs[0].Error() != first[0].Error() {
					t.Fatalf("two messages for one object:\n%v\n%v", first[0], errs[0])
				}
			}
		})
	}
}

func TestSet_AdmitSurvivesShapesThatNoWorkloadHas(t *testing.T) {
	for _, manifest := range []string{
		"metadata: []", "metadata: {name: [a]}", "metadata: {labels: a}", "metadata: {annotations: {a: 1}}", "spec: []", "spec: a", "status: a", "metadata: {ownerReferences: [a]}", "spec: {patches: [a]}", "spec: {ports: [a], env: {a: b}, storage: a, probes: [], replicas: {}}",
	} {
		t.Run(manifest, func(t *testing.T) {
			var content map[string]any
			if err := yaml.Unmarshal([]byte(manifest), &content); err != nil {
				t.Fatal(err)
			}
			u := object(t, head+"  image: a\n", "a")
			for k, v := range content {
				u.Object[k] = v
			}
			got, errs := set.Admit(context.Background(), u.Object, u.GroupVersionKind())
			if len(errs) == 0 && manifest != "status: a" {
				t.Errorf("it is taken: %v", got)
			}
			// Nothing falls over one that is stored so.
			set.AdmitChange(context.Background(), object(t, head+"  image: a\n", "a").Object, u.Object, u.GroupVersionKind())
			set.AdmitChange(context.Background(), u.Object, u.Object, u.GroupVersionKind())
		})
	}
}

func TestLoad_SaysWhichFileIsBroken(t *testing.T) {
	for name, content := range map[string]string{
		"no YAML":          "a: [",
		"an unknown field": "spek: {}",
		"no schema":        "spec: {group: example.com, names: {kind: A}, versions: [{name: v1, served: true}]}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.Load(fstest.MapFS{"x.yaml": {Data: []byte(content)}})
			if err == nil || !strings.Contains(err.Error(), "x.yaml") {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// What is dropped is made again, and says the same.
func TestSet_ForgetsWhatItCompiled(t *testing.T) {
	set, err := schema.Load(crds.Files)
	if err != nil {
		t.Fatal(err)
	}
	gvk := v1beta1.GroupVersion.WithKind(v1beta1.GateKind)
	gate := map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"environment": "prod", "typo": true}}
	_, before := set.Admit(t.Context(), gate, gvk)
	set.Forget(gvk)
	set.Forget(gvk.GroupVersion().WithKind("Unknown"))
	_, after := set.Admit(t.Context(), gate, gvk)
	if len(before) == 0 || !reflect.DeepEqual(before, after) {
		t.Errorf("before: %v, after: %v", before, after)
	}
}

// faulty is stored with a fault of each sort: of a value, of a rule, of a list that is no map.
const faulty = head + "  image: a\n  version: latest\n  replicas: 1\n  ports: [{name: a--b, port: 80}, {name: web, port: 81}]\n" +
	"  env: [{name: A, value: x}, {name: A, value: w}]\n"

func TestSet_AdmitChangeRefusesWhatTheAPIServerRefuses(t *testing.T) {
	stored := object(t, faulty, "faulty")
	if err := oldrules.Store(t.Context(), api, "workloads.sluice.dev", stored); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ instead, stands, field string }{
		"nothing":                    {"", "", ""},
		"a good field":               {"image: a\n", "image: b\n", ""},
		"a good item":                {"port: 81", "port: 82", ""},
		"a list that was no map":     {"value: x", "value: z", ""},
		"the item with the fault":    {"port: 80", "port: 8080", ""},
		"the fault, to another":      {"version: latest", "version: newest", "spec.version"},
		"the fault, to what is good": {"version: latest", "version: 1.2.3", ""},
		"a name, to another":         {"a--b", "b--a", "spec.ports[0].name"},
		"a second fault":             {"replicas: 1", "replicas: 101", "spec.replicas"},
		"a rule over all items":      {"port: 81", "port: 80", "spec.ports"},
		"the items, the other way":   {"[{name: a--b, port: 80}, {name: web, port: 81}]", "[{name: web, port: 81}, {name: a--b, port: 80}]", ""},
		"the fault, to another item": {"[{name: a--b, port: 80}, {name: web, port: 81}]", "[{name: b, port: 80}, {name: web--b, port: 81}]", "spec.ports[1].name"},
		"a second item with it":      {"{name: web, port: 81}", "{name: web, port: 81}, {name: c--d, port: 82}", "spec.ports[2].name"},
		"a third of one name":        {"{name: A, value: w}", "{name: A, value: w}, {name: A, value: v}", ""},
		"what may not change":        {"image: a\n", "image: a\n  tenant: shop\n", "spec"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := object(t, strings.Replace(faulty, c.instead, c.stands, 1), "faulty")
			before := asJSON(t, stored.Object)
			got, errs := set.AdmitChange(t.Context(), changed.Object, stored.Object, stored.GroupVersionKind())
			if asJSON(t, stored.Object) != before {
				t.Error("what is stored is changed")
			}
			changed.SetResourceVersion(stored.GetResourceVersion())
			err := api.Update(t.Context(), changed, client.DryRunAll)
			if c.field == "" {
				if len(errs) > 0 || got == nil || err != nil {
					t.Errorf("AdmitChange: %v\nAPI server: %v", errs, err)
				}
				return
			}
			if len(errs) != 1 || errs[0].Field != c.field || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), errs[0].Error()) {
				t.Errorf("of %s\nAdmitChange: %v\nAPI server: %v", c.field, errs, err)
			}
		})
	}
	if _, errs := set.Admit(t.Context(), stored.Object, stored.GroupVersionKind()); len(errs) < 2 {
		t.Errorf("created: %v", errs)
	}
}

// A field that only the newer of two operators knows is no fault of a change that leaves it.
func TestSet_AdmitChangeLeavesAFieldThatItDoesNotKnow(t *testing.T) {
	const newer = head + "  image: a\n  mesh: {retries: 3}\n"
	old, changed := object(t, newer, "a"), object(t, strings.Replace(newer, "image: a", "image: b", 1), "a")
	if _, errs := set.AdmitChange(t.Context(), changed.Object, old.Object, old.GroupVersionKind()); len(errs) > 0 {
		t.Errorf("refused: %v", errs)
	}
	changed = object(t, newer+"  replica: 2\n", "a")
	if _, errs := set.AdmitChange(t.Context(), changed.Object, old.Object, old.GroupVersionKind()); len(errs) != 1 || errs[0].Field != "spec.replica" {
		t.Errorf("got %v, want a refusal of spec.replica alone", errs)
	}
}
