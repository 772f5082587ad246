package gather_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// stand is a registry with one signed and one unsigned image, and the objects of a
// cluster with one Gate.
type stand struct {
	registry *testkit.Registry
	key      *testkit.Key
	other    *testkit.Key
	files    *gather.Files
	digest   string
}

// twoKeys are made once: cosign's own way to encrypt them takes a second each.
var twoKeys = sync.OnceValues(func() (keys [2]*testkit.Key, err error) {
	for i := range keys {
		if keys[i], err = testkit.NewKey(); err != nil {
			return keys, err
		}
	}
	return keys, nil
})

func newStand(t *testing.T) *stand {
	t.Helper()
	keys, err := twoKeys()
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{registry: testkit.NewRegistry(testkit.RegistryOptions{Referrers: true}), key: keys[0], other: keys[1]}
	t.Cleanup(s.registry.Close)
	if s.digest, err = testkit.PushImage(s.image("signed"), "signed"); err != nil {
		t.Fatal(err)
	}
	if err := s.key.SignBundle(s.registry.Host()+"/shop/signed", s.digest); err != nil {
		t.Fatal(err)
	}
	if _, err := testkit.PushImage(s.image("unsigned"), "unsigned"); err != nil {
		t.Fatal(err)
	}
	s.files = &gather.Files{
		GateList:   []v1beta1.Gate{s.gate("prod")},
		Namespaces: map[string]map[string]string{"shop": {"environment": "prod"}},
		ConfigMaps: map[string]map[string]string{},
		Secrets:    map[string]map[string][]byte{},
	}
	s.registry.ResetCounts()
	return s
}

func (s *stand) image(name string) string { return s.registry.Host() + "/shop/" + name + ":1" }

func (s *stand) gate(name string) v1beta1.Gate {
	return v1beta1.Gate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.GateSpec{
			Environment: "prod", Mode: v1beta1.GateModeEnforce, UnmatchedImages: v1beta1.UnmatchedImagesDeny,
			Match: v1beta1.GateMatch{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"environment": "prod"}}},
			Images: []v1beta1.ImageRule{{
				Match:       s.registry.Host() + "/shop/**",
				Authorities: []v1beta1.Authority{{Name: "release-key", Key: &v1beta1.PublicKey{Inline: s.key.PublicPEM}}},
			}},
		},
	}
}

func (s *stand) judge(w *v1beta1.Workload, known map[string]string) gather.Judgement {
	return gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{})).Workload(context.Background(), w, known)
}

func workload(image string) *v1beta1.Workload {
	return &v1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec:       v1beta1.WorkloadSpec{Image: image, Replicas: new(int32(1))},
	}
}

// findings is everything that the verdicts say.
func findings(j gather.Judgement) string {
	var b strings.Builder
	for _, v := range j.Verdicts {
		for _, f := range append(v.Violations, v.Warnings...) {
			fmt.Fprintf(&b, "%s %s %s: %s; %s\n", f.Policy, f.Object, f.Path, f.Message, f.Remedy)
		}
	}
	return b.String()
}

func (s *stand) keyFrom(secret string) {
	s.files.GateList[0].Spec.Images[0].Authorities[0].Key = &v1beta1.PublicKey{Secret: &v1beta1.SecretKeyRef{
		NamespacedName: v1beta1.NamespacedName{Name: secret, Namespace: "sluice-system"}, Key: "cosign.pub",
	}}
}

func (s *stand) policiesFrom(name string) {
	s.files.GateList[0].Spec.Policies = []v1beta1.PolicySource{{ConfigMap: &v1beta1.NamespacedName{Name: name, Namespace: "sluice-system"}}}
}
