package admission

import (
	"reflect"
	"testing"
)

func TestSubstance_IsAllButMetadataAndStatus(t *testing.T) {
	base := func() map[string]any {
		return map[string]any{"kind": "Runner", "metadata": map[string]any{"name": "x"}, "status": "a", "spec": "b", "template": map[string]any{"image": "signed"}}
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		same   bool
	}{
		"a label":                {func(o map[string]any) { o["metadata"] = map[string]any{"labels": "y"} }, true},
		"status":                 {func(o map[string]any) { o["status"] = "z" }, true},
		"spec":                   {func(o map[string]any) { o["spec"] = "z" }, false},
		"an image outside spec":  {func(o map[string]any) { o["template"] = map[string]any{"image": "unsigned"} }, false},
		"a field that goes away": {func(o map[string]any) { delete(o, "template") }, false},
	} {
		changed := base()
		c.change(changed)
		if same := reflect.DeepEqual(substance(base()), substance(changed)); same != c.same {
			t.Errorf("%s: taken for no change: %t", name, same)
		}
	}
}
