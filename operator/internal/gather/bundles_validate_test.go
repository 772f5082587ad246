package gather_test

import (
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestValidateGate_OfPoliciesFromARegistry(t *testing.T) {
	keys, err := twoKeys()
	if err != nil {
		t.Fatal(err)
	}
	digest := testkit.DigestOf("x")
	good := []v1beta1.Authority{{Key: &v1beta1.PublicKey{Inline: keys[0].PublicPEM}}}
	const at = "spec.policies[0].oci"
	for name, c := range map[string]struct {
		bundle     v1beta1.PolicyBundle
		path, says string
	}{
		"a good one":        {v1beta1.PolicyBundle{Ref: "registry.example.com/policies/prod@" + digest, Authorities: good}, "", ""},
		"one on a port":     {v1beta1.PolicyBundle{Ref: "registry.example.com:5000/policies/prod@" + digest, Authorities: good}, "", ""},
		"a tag":             {v1beta1.PolicyBundle{Ref: "registry.example.com/policies/prod:1.4", Authorities: good}, at + ".ref", "crane digest registry.example.com/policies/prod:1.4"},
		"nothing":           {v1beta1.PolicyBundle{Ref: "registry.example.com/policies/prod", Authorities: good}, at + ".ref", "sluice policy push prints the digest"},
		"a tag with digest": {v1beta1.PolicyBundle{Ref: "registry.example.com/policies/prod:1@" + digest, Authorities: good}, at + ".ref", "named by a tag"},
		"no host":           {v1beta1.PolicyBundle{Ref: "policies/prod@" + digest, Authorities: good}, at + ".ref", "write it in full: docker.io/policies/prod@"},
		"a scheme":          {v1beta1.PolicyBundle{Ref: "oci://registry.example.com/policies/prod@" + digest, Authorities: good}, at + ".ref", "not an image reference"},
		"no authority":      {v1beta1.PolicyBundle{Ref: "registry.example.com/policies/prod@" + digest}, at + ".authorities", "anyone's policies"},
		"an identity without subject": {v1beta1.PolicyBundle{Ref: "registry.example.com/policies/prod@" + digest, Authorities: []v1beta1.Authority{{Keyless: &v1beta1.Keyless{Issuer: "https://i"}}}},
			at + ".authorities[0].keyless", "subject"},
		"one key twice": {v1beta1.PolicyBundle{Ref: "registry.example.com/policies/prod@" + digest, Authorities: append(good, good...)}, at + ".authorities[1].key.inline", "one key counts as one signer"},
	} {
		t.Run(name, func(t *testing.T) {
			g := v1beta1.Gate{Spec: v1beta1.GateSpec{Environment: "prod", Policies: []v1beta1.PolicySource{{OCI: &c.bundle}}}}
			errs := gather.ValidateGate(&g)
			if c.path == "" {
				if len(errs) > 0 {
					t.Errorf("%v", errs)
				}
				return
			}
			if len(errs) == 0 || errs[0].Field != c.path || !strings.Contains(errs[0].Error(), c.says) {
				t.Errorf("%v; it should say %q at %s", errs, c.says, c.path)
			}
		})
	}
}
