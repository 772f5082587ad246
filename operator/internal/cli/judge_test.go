package cli

import (
	"runtime"
	"testing"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Where nothing waits, more objects at a time than there are cores only take memory.
func TestInput_JudgesManyAtOnceWhereRegistriesAreAsked(t *testing.T) {
	few := 2 * runtime.GOMAXPROCS(0)
	for name, c := range map[string]struct {
		spec v1beta1.GateSpec
		want int
	}{
		"nothing":               {v1beta1.GateSpec{}, few},
		"policies of its own":   {v1beta1.GateSpec{Policies: []v1beta1.PolicySource{{Builtin: "restricted"}}}, few},
		"policies of elsewhere": {v1beta1.GateSpec{Policies: []v1beta1.PolicySource{{Builtin: "restricted"}, {OCI: &v1beta1.PolicyBundle{}}}}, limits.CheckParallel},
		"images":                {v1beta1.GateSpec{Images: []v1beta1.ImageRule{{}}}, limits.CheckParallel},
		"evidence":              {v1beta1.GateSpec{RequirePromotionFrom: &v1beta1.RequirePromotionFrom{}}, limits.CheckParallel},
	} {
		in := &input{files: &gather.Files{GateList: []v1beta1.Gate{{}, {Spec: c.spec}}}}
		if got := in.atOnce(); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
