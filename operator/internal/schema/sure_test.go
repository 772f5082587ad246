package schema_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// What is valid beyond doubt has to be valid to the API server's own validator, whatever is
// done to an object; and a Workload that is right has to be so beyond doubt, or nothing is won.
func TestSure_NeverSaysYesWhereTheValidatorSaysNo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	yes := 0
	for name, manifest := range accepted {
		u := object(t, manifest, "a")
		gvk := u.GroupVersionKind()
		whole := set.Defaulted(u.Object, gvk)
		if sure, errs := set.Both(runtime.DeepCopyJSON(whole), gvk); u.GetKind() == "Workload" && (!sure || len(errs) > 0) {
			t.Errorf("%s: beyond doubt %v, %v", name, sure, errs)
		}
		for range 1000 {
			obj := runtime.DeepCopyJSON(whole)
			mutate(random, obj)
			sure, errs := set.Both(obj, gvk)
			if sure {
				yes++
			}
			if sure && len(errs) > 0 {
				t.Errorf("%s: %v", name, errs)
			}
		}
	}
	if yes < 1000 {
		t.Errorf("only %d were valid beyond doubt", yes)
	}
}

// odd are values that are put in some place.
var odd = []any{
	nil, "", "a", "A b!", "-1", "100m", "1Gi", "5%", "Canary", "Deny", int64(0), int64(-1), int64(1), int64(101), int64(70000), int64(1) << 40, 1.5, 1e30, true,
	map[string]any{}, map[string]any{"name": "a"}, map[string]any{"a": int64(1)}, []any{}, []any{"a"}, []any{map[string]any{}}, []any{nil},
	string(bytes.Repeat([]byte("é"), 300)), string(bytes.Repeat([]byte("x"), 300)),
}

// mutate changes, deletes or adds something at one place.
func mutate(random *rand.Rand, obj map[string]any) {
	at := any(obj)
	for depth := 0; ; depth++ {
		last := depth > 0 && random.IntN(4) == 0
		switch value := at.(type) {
		case map[string]any:
			keys := make([]string, 0, len(value))
			for key := range value {
				keys = append(keys, key)
			}
			if len(keys) == 0 {
				value["a"] = odd[random.IntN(len(odd))]
				return
			}
			slices.Sort(keys)
			key := keys[random.IntN(len(keys))]
			switch next := value[key]; {
			case last && random.IntN(3) == 0:
				delete(value, key)
				return
			case last || !container(next):
				value[key] = odd[random.IntN(len(odd))]
				return
			default:
				at = next
			}
		case []any:
			if len(value) == 0 {
				return
			}
			i := random.IntN(len(value))
			if last || !container(value[i]) {
				value[i] = odd[random.IntN(len(odd))]
				return
			}
			at = value[i]
		}
	}
}

func container(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
