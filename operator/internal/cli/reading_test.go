package cli

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

func TestReading_CompilesFewPoliciesAhead(t *testing.T) {
	set := &overlay.Set{}
	for _, name := range []string{"baseline", "network", "reliability", "gitops", "tenancy", "secrets", "restricted"} {
		for _, named := range []any{map[string]any{"builtin": "unknown"}, map[string]any{"builtin": int64(1)}, "text"} {
			set.Objects = append(set.Objects, overlay.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "sluice.dev/v1beta1", "kind": "Gate", "spec": map[string]any{"policies": []any{map[string]any{"builtin": name}, named}},
			}}})
		}
	}
	r := &reading{policies: policy.New(), ahead: map[string]bool{}}
	r.prepare(set)
	if len(r.ahead) != limits.PoliciesAhead {
		t.Errorf("compiles for %v, want %d", r.ahead, limits.PoliciesAhead)
	}
}
