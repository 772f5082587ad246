package workload

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the cache drops of a child must not change what is read from it, or each start of
// the operator would take its own children for someone else's.
func TestKeepOwnFields_LeavesWhatIsReadOfAChild(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/note":"x"}}}`))
	if err := api.Patch(t.Context(), b.child("Deployment", "web"), patch, client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}
	s := &scope{workload: w, memory: &memory{}}
	for name, whole := range b.children() {
		lean := whole.DeepCopy()
		if _, err := keepOwnFields(lean); err != nil {
			t.Fatal(err)
		}
		if !applied(lean) || !s.mine(lean) || !holds(lean, annotationDesired) {
			t.Errorf("%s is not known as the operator's: %v", name, lean.GetManagedFields())
		}
		for _, note := range []string{annotationDesired, annotationResolved, annotationMark, "example.com/note"} {
			if got, want := holds(lean, note), holds(whole, note); got != want {
				t.Errorf("%s holds %s: %t, and before %t", name, note, got, want)
			}
		}
		if before, after := fieldsSize(t, whole), fieldsSize(t, lean); after > 400 || after >= before {
			t.Errorf("%s: %d bytes of managed fields are kept of %d", name, after, before)
		}
		content, rest := whole.DeepCopy(), lean.DeepCopy()
		content.SetManagedFields(nil)
		rest.SetManagedFields(nil)
		if a, b := text(t, content.Object), text(t, rest.Object); a != b {
			t.Errorf("%s: more than managed fields was dropped:\n%s\n%s", name, a, b)
		}
	}
}

func TestKeepOwnFields_TakesWhatIsNoChild(t *testing.T) {
	for name, o := range map[string]any{
		"without metadata":         &unstructured.Unstructured{Object: map[string]any{"kind": "Service"}},
		"with fields of no entry":  &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"managedFields": []any{"x", nil, map[string]any{}}}}},
		"with fields of no list":   &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"managedFields": "x"}}},
		"a tombstone of the cache": struct{}{},
	} {
		if _, err := keepOwnFields(o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func fieldsSize(t *testing.T, u *unstructured.Unstructured) int {
	t.Helper()
	return len(text(t, u.GetManagedFields()))
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
