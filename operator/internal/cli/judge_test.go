package cli

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
)

// Where nothing waits, more objects at a time than there are cores only take memory.
func TestInput_AsksRegistriesWhereAGateLooksSomethingUp(t *testing.T) {
	none, one := intstr.FromString("none"), intstr.FromInt32(1)
	images := func(rules ...v1beta1.ImageRule) v1beta1.GateSpec { return v1beta1.GateSpec{Images: rules} }
	for name, c := range map[string]struct {
		spec v1beta1.GateSpec
		want bool
	}{
		"nothing":                {v1beta1.GateSpec{}, false},
		"policies of its own":    {v1beta1.GateSpec{Policies: []v1beta1.PolicySource{{Builtin: "restricted"}}}, false},
		"policies of elsewhere":  {v1beta1.GateSpec{Policies: []v1beta1.PolicySource{{Builtin: "restricted"}, {OCI: &v1beta1.PolicyBundle{}}}}, true},
		"images":                 {images(v1beta1.ImageRule{}), true},
		"images signed by one":   {images(v1beta1.ImageRule{Require: &one}), true},
		"images signed by none":  {images(v1beta1.ImageRule{Require: &none}), false},
		"some signed by none":    {images(v1beta1.ImageRule{Require: &none}, v1beta1.ImageRule{}), true},
		"attested images":        {images(v1beta1.ImageRule{Require: &none, Attestations: []v1beta1.AttestationRule{{}}}), true},
		"evidence of promotions": {v1beta1.GateSpec{RequirePromotionFrom: &v1beta1.RequirePromotionFrom{}}, true},
	} {
		in := &input{files: &gather.Files{GateList: []v1beta1.Gate{{}, {Spec: c.spec}}}}
		if got := in.asksRegistries(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
