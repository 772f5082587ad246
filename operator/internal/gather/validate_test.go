package gather_test

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
)

func TestValidateGate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1beta1.Gate)
		says   []string
	}{
		"a Gate as it should be": {func(*v1beta1.Gate) {}, nil},
		"a builtin that there is not": {func(g *v1beta1.Gate) {
			g.Spec.Policies = []v1beta1.PolicySource{{Builtin: "restricted"}, {Builtin: "rest"}}
		},
			[]string{"spec.policies[1].builtin", "restricted"}},
		"a misspelt parameter": {func(g *v1beta1.Gate) {
			g.Spec.Policies = []v1beta1.PolicySource{{Builtin: "reliability"}}
			g.Spec.Parameters = map[string]apiextensionsv1.JSON{"reliability": {Raw: []byte(`{"minReplica": 2}`)}}
		}, []string{"spec.parameters.reliability.minReplica: Invalid value: ", "write minReplicas"}},
		"a parameter of another type": {func(g *v1beta1.Gate) {
			g.Spec.Policies = []v1beta1.PolicySource{{Builtin: "reliability"}}
			g.Spec.Parameters = map[string]apiextensionsv1.JSON{"reliability": {Raw: []byte(`{"minReplicas": "2"}`)}}
		}, []string{"spec.parameters.reliability.minReplicas: Invalid value: ", "without quotes"}},
		"a misspelt group of parameters": {func(g *v1beta1.Gate) {
			g.Spec.Policies = []v1beta1.PolicySource{{Builtin: "reliability"}}
			g.Spec.Parameters = map[string]apiextensionsv1.JSON{"relyability": {Raw: []byte(`{}`)}}
		}, []string{"spec.parameters.relyability: Invalid value: ", "write reliability"}},
		"parameters of policies in a ConfigMap": {func(g *v1beta1.Gate) {
			g.Spec.Policies = []v1beta1.PolicySource{{ConfigMap: &v1beta1.NamespacedName{Name: "house", Namespace: "sluice-system"}}}
			g.Spec.Parameters = map[string]apiextensionsv1.JSON{"house": {Raw: []byte(`{"x": [1]}`)}}
		}, nil},
		"a pattern for any host": {func(g *v1beta1.Gate) { g.Spec.Images[0].Match = "**/web" }, []string{"spec.images[0].match", "written out"}},
		"a window that never opens": {func(g *v1beta1.Gate) {
			window := v1beta1.PromotionWindow{Kind: v1beta1.PromotionWindowDeny, Schedule: "0 0 30 2 *", Duration: metav1.Duration{Duration: time.Hour}}
			g.Spec.PromotionWindows = []v1beta1.PromotionWindow{window}
		}, []string{"spec.promotionWindows[0].schedule", "never open"}},
		"a time zone that there is not": {func(g *v1beta1.Gate) {
			window := v1beta1.PromotionWindow{Kind: v1beta1.PromotionWindowDeny, Schedule: "0 0 * * *", TimeZone: "Europe/Bonn", Duration: metav1.Duration{Duration: time.Hour}}
			g.Spec.PromotionWindows = []v1beta1.PromotionWindow{window}
		}, []string{"spec.promotionWindows[0].timeZone", "Europe/Bonn"}},
		"an empty pattern": {func(g *v1beta1.Gate) { g.Spec.Images[0].Match = "" }, []string{"spec.images[0].match"}},
		"a key that is none": {func(g *v1beta1.Gate) { g.Spec.Images[0].Authorities[0].Key.Inline = "top secret" },
			[]string{"spec.images[0].authorities[0].key.inline", "(not shown)"}},
		"a key in a service that nobody asks": {func(g *v1beta1.Gate) {
			g.Spec.Images[0].Authorities[0].Key = &v1beta1.PublicKey{KMS: "awskms:///alias/release"}
		}, []string{"spec.images[0].authorities[0].key.kms", "there are hashivault://"}},
		"a key in Vault": {func(g *v1beta1.Gate) {
			g.Spec.Images[0].Authorities[0].Key = &v1beta1.PublicKey{KMS: "hashivault://release"}
		}, nil},
		"one name for two authorities": {func(g *v1beta1.Gate) {
			g.Spec.Images[0].Authorities = append(g.Spec.Images[0].Authorities, g.Spec.Images[0].Authorities[0])
		}, []string{"spec.images[0].authorities[1].name"}},
		"one key under two names": {func(g *v1beta1.Gate) {
			twin := v1beta1.Authority{Name: "twin", Key: &v1beta1.PublicKey{Inline: "\n" + strings.ReplaceAll(g.Spec.Images[0].Authorities[0].Key.Inline, "\n", "\r\n")}}
			g.Spec.Images[0].Authorities = append(g.Spec.Images[0].Authorities, twin)
		}, []string{"spec.images[0].authorities[1].key.inline", "authority twin has the same key as authority release-key"}},
		"two keys": {func(g *v1beta1.Gate) {
			keys, _ := twoKeys()
			g.Spec.Images[0].Authorities = append(g.Spec.Images[0].Authorities, v1beta1.Authority{Name: "other", Key: &v1beta1.PublicKey{Inline: keys[1].PublicPEM}})
		}, nil},
		"one key in two rules": {func(g *v1beta1.Gate) {
			other := *g.Spec.Images[0].DeepCopy()
			other.Match += "/other"
			g.Spec.Images = append(g.Spec.Images, other)
		}, nil},
		"a selector that is none": {func(g *v1beta1.Gate) {
			g.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}
		}, []string{"spec.match", "objectSelector"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			g := s.gate("prod")
			c.change(&g)
			errs := gather.ValidateGate(&g)
			if (len(errs) == 0) != (c.says == nil) {
				t.Fatalf("errors: %v", errs)
			}
			for _, want := range c.says {
				if !strings.Contains(errs.ToAggregate().Error(), want) {
					t.Errorf("%q is not said: %v", want, errs)
				}
			}
			if len(errs) > 0 && strings.Contains(errs.ToAggregate().Error(), strings.Split(s.key.PublicPEM, "\n")[1]) {
				t.Error("a key is shown")
			}
			if len(errs) > 0 && strings.Contains(errs.ToAggregate().Error(), "top secret") {
				t.Error("a key that may be a private one is shown")
			}
		})
	}
}
