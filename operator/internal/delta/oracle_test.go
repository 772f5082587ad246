package delta_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/delta"
)

// oracle is the normal form by gitops-engine, which Argo CD compares by: both sides of a
// diff are the object. What panics there is an error.
func oracle(u *unstructured.Unstructured) (out map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	clean := u.DeepCopy()
	unstructured.RemoveNestedField(clean.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(clean.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	result, err := diff.Diff(clean, clean.DeepCopy(), diff.WithLogr(logr.Discard()))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(result.NormalizedLive, &out); err != nil {
		return nil, err
	}
	dropDirectives(out)
	delta.NameClaims(out)
	return out, nil
}

// dropDirectives removes what the oracle's strategic merge patches leave behind.
func dropDirectives(v any) {
	switch t := v.(type) {
	case map[string]any:
		delete(t, "$retainKeys")
		for _, x := range t {
			dropDirectives(x)
		}
	case []any:
		for _, x := range t {
			dropDirectives(x)
		}
	}
}

// against is how an object's normal form differs from the oracle's. What is empty is the
// same as nothing, and in one that is madeUp an empty text is too.
func against(t *testing.T, u *unstructured.Unstructured, madeUp bool) (difference string, oracleErr error) {
	t.Helper()
	before := u.DeepCopy()
	got, err := delta.Normalised(u)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before.Object, u.Object); d != "" {
		t.Fatalf("the object was changed: %s", d)
	}
	want, err := oracle(u)
	if err != nil {
		return "", err
	}
	for _, form := range []map[string]any{got, want} {
		if madeUp {
			unblank(form)
		}
		delta.Prune(form)
	}
	var options []cmp.Option
	if u.GetKind() == "Endpoints" {
		options = append(options, anyOrder)
	}
	lines := &differing{}
	cmp.Equal(want, got, append(options, cmp.Reporter(lines))...)
	return strings.Join(lines.said, "\n"), nil
}

// differing notes each place in which two forms differ, with what the oracle has there and
// what we have. Of cmp.Diff nobody may expect what it looks like.
type differing struct {
	path cmp.Path
	said []string
}

func (d *differing) PushStep(step cmp.PathStep) { d.path = append(d.path, step) }

func (d *differing) PopStep() { d.path = d.path[:len(d.path)-1] }

func (d *differing) Report(result cmp.Result) {
	if result.Equal() {
		return
	}
	var at strings.Builder
	for _, step := range d.path {
		switch step := step.(type) {
		case cmp.MapIndex:
			fmt.Fprintf(&at, ".%v", step.Key())
		case cmp.SliceIndex:
			theirs, ours := step.SplitKeys()
			fmt.Fprintf(&at, "[%d]", max(theirs, ours))
		}
	}
	theirs, ours := d.path.Last().Values()
	for _, side := range []struct {
		sign  string
		value reflect.Value
	}{{"-", theirs}, {"+", ours}} {
		if side.value.IsValid() {
			d.said = append(d.said, fmt.Sprintf("%s %s: %v", side.sign, at.String(), side.value))
		}
	}
}

// unblank takes texts out that are empty. The oracle writes a list anew in which it adds
// defaults, where its elements have no key to merge them by: with texts that the type
// requires, and that nobody has set.
func unblank(v any) {
	switch x := v.(type) {
	case map[string]any:
		maps.DeleteFunc(x, func(_ string, value any) bool { return value == "" })
		for _, value := range x {
			unblank(value)
		}
	case []any:
		for _, value := range x {
			unblank(value)
		}
	}
}

// anyOrder is for Endpoints, whose subsets the oracle sorts by another hash.
var anyOrder = cmpopts.SortSlices(func(a, b any) bool { return fmt.Sprint(a) < fmt.Sprint(b) })

func TestNormalised_IsTheOraclesOfAllThatIsRendered(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "render", "testdata", "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(raw, []byte("---\n")) {
			if len(bytes.TrimSpace(document)) > 0 {
				all = append(all, parsed(t, string(document)))
			}
		}
	}
	for _, change := range []func(*v1beta1.Workload){func(*v1beta1.Workload) {}, func(w *v1beta1.Workload) { w.Spec.Storage = nil }} {
		w := full()
		change(w)
		desired, live := apply(t, w)
		all = append(append(all, desired...), live...)
	}
	kinds := map[string]bool{}
	for _, u := range all {
		kinds[u.GetKind()] = true
		if difference, err := against(t, u, false); err != nil || difference != "" {
			t.Errorf("%s %s: %v %s", u.GetKind(), u.GetName(), err, difference)
		}
	}
	for _, kind := range []string{"ServiceAccount", "ConfigMap", "Service", "NetworkPolicy", "PodDisruptionBudget", "Deployment", "StatefulSet", "CronJob"} {
		if !kinds[kind] {
			t.Errorf("no %s was rendered", kind)
		}
	}
}

// stable are the kinds of objects in versions that servers have.
func stable() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for gvk := range scheme.Scheme.AllKnownTypes() {
		typed, err := scheme.Scheme.New(gvk)
		if err != nil || strings.Contains(gvk.Version, "alpha") || strings.Contains(gvk.Version, "beta") || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		// The test's API server has put definitions into the scheme.
		own := strings.HasPrefix(reflect.TypeOf(typed).Elem().PkgPath(), "k8s.io/api/")
		if _, err := meta.Accessor(typed); err == nil && own && !meta.IsListType(typed) {
			out = append(out, gvk)
		}
	}
	return out
}

// filler makes up objects. Texts are different from each other, and quantities are written
// as they come.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(1, 2).MaxDepth(14).Funcs(
		func(s *string, c randfill.Continue) { *s = fmt.Sprintf("%x", c.Uint64()) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse(fmt.Sprintf("%d%s", c.Int63n(1<<30), []string{"", "m", "Ki", "Gi", "k", "e3"}[c.Intn(6)]))
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(c.Int31()); c.Bool() {
				*v = intstr.FromString(c.String(20))
			}
		},
		func(x *runtime.RawExtension, c randfill.Continue) { x.Raw = []byte(`{"a":"b"}`) },
		func(*metav1.Time, randfill.Continue) {}, func(*metav1.MicroTime, randfill.Continue) {}, func(*metav1.FieldsV1, randfill.Continue) {},
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			c.Fill(&m.Name)
			c.Fill(&m.Namespace)
			c.Fill(&m.Labels)
		},
	)
}

func TestNormalised_IsTheOraclesOfWhatIsMadeUp(t *testing.T) {
	for how, change := range map[string]func(*rand.Rand, any) bool{
		"as it comes":   func(*rand.Rand, any) bool { return true },
		"less":          thin,
		"unknown field": addUnknown,
		"wrong type":    mistype,
	} {
		judged := map[schema.GroupVersionKind]int{}
		for _, gvk := range stable() {
			for seed := range seeds {
				u := madeUp(t, gvk, seed)
				if !change(rand.New(rand.NewSource(seed)), u.Object["spec"]) {
					continue
				}
				difference, err := against(t, u, true)
				if err != nil {
					continue // the oracle gives up on some lists
				}
				if judged[gvk]++; difference != "" {
					t.Errorf("%s: %s, seed %d: %s", how, gvk, seed, difference)
					break
				}
			}
		}
		for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
			if n := judged[schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}]; n < int(seeds)/2 {
				t.Errorf("%s: the oracle has judged %d of kind %s", how, n, kind)
			}
		}
		t.Logf("%s: %d kinds", how, len(judged))
	}
}

// seeds is how many objects of a kind are made up, each time.
const seeds = int64(12)

func madeUp(t *testing.T, gvk schema.GroupVersionKind, seed int64) *unstructured.Unstructured {
	t.Helper()
	typed, err := scheme.Scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	filler(seed).Fill(typed)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u
}

// merged are keys by which the oracle merges lists. Without them it takes one element for
// another, or gives up.
var merged = []string{"name", "ip", "key", "type", "port", "containerPort", "mountPath", "devicePath", "topologyKey", "uid"}

// thin takes a third of the fields away, or makes them null.
func thin(r *rand.Rand, v any) bool {
	switch x := v.(type) {
	case map[string]any:
		for _, key := range shuffled(r, x) {
			switch r.Intn(6) {
			case 0:
				delete(x, key)
			case 1:
				x[key] = nil
			default:
				thin(r, x[key])
			}
		}
	case []any:
		for _, e := range x {
			thin(r, e)
		}
	}
	return true
}

// replaced are maps that a merge patch of the oracle's replaces, with what it does not know.
var replaced = []string{"strategy", "selector"}

// addUnknown adds a field that there is not to some map that is in no list.
func addUnknown(r *rand.Rand, v any) bool {
	x, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for _, key := range shuffled(r, x) {
		if r.Intn(2) == 0 && !slices.Contains(replaced, key) && addUnknown(r, x[key]) {
			return true
		}
	}
	x["unheardOf"] = map[string]any{"a": int64(1), "b": nil}
	return true
}

// mistype makes a number of some text, or a text of some number.
func mistype(r *rand.Rand, v any) bool {
	switch x := v.(type) {
	case map[string]any:
		for _, key := range shuffled(r, x) {
			switch x[key].(type) {
			case string:
				x[key] = int64(5)
				return true
			case int64:
				x[key] = "text"
				return true
			}
			if mistype(r, x[key]) {
				return true
			}
		}
	case []any:
		return len(x) > 0 && mistype(r, x[r.Intn(len(x))])
	}
	return false
}

// shuffled are the keys of a map that no list is merged by, in the order of the seed.
func shuffled(r *rand.Rand, x map[string]any) []string {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(x)), func(key string) bool { return slices.Contains(merged, key) })
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}
