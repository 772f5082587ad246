package gather_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// hangingKMS does not answer until the loader gives up.
type hangingKMS struct{}

func (hangingKMS) KMS(ctx context.Context, _ string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.TrustCall)
	defer cancel()
	<-ctx.Done()
	return "", errors.New("no answer")
}
func (hangingKMS) PublicRoot(context.Context) (string, error) { return "", errors.New("no answer") }
func (hangingKMS) File(string) (string, error)                { return "", errors.New("no such file") }

func TestJudge_KeysThatHangDoNotTakeTheTimeOfAKeyThatIsThere(t *testing.T) {
	s := newStand(t)
	rule := &s.files.GateList[0].Spec.Images[0]
	for i := range 3 {
		rule.Authorities = append(rule.Authorities, v1beta1.Authority{Name: fmt.Sprintf("kms-%d", i), Key: &v1beta1.PublicKey{KMS: fmt.Sprintf("hashivault://k%d", i)}})
	}
	j := gather.NewJudge(s.files, registry.New(registry.Options{}), hangingKMS{}).Workload(context.Background(), workload(s.image("signed")), nil)
	if j.Verdicts[0].Outcome != gate.OutcomeAllow {
		t.Errorf("%s", j.Verdicts[0].Canonical())
	}
}

// accounts notes whose image pull Secrets are asked for.
type accounts struct {
	*gather.Files
	asked []string
}

func (a *accounts) AccountPullSecrets(_ context.Context, namespace, name string) ([]string, error) {
	a.asked = append(a.asked, namespace+"/"+name)
	return nil, nil
}

func TestJudge_PodsWithoutAnAccountHaveTheDefaultsPullSecrets(t *testing.T) {
	s := newStand(t)
	s.files.GateList[0].Spec.Match.Kinds = []v1beta1.JudgedKind{"Deployment"}
	a := &accounts{Files: s.files}
	gather.NewJudge(a, registry.New(registry.Options{}), trust.New(trust.Options{})).Object(context.Background(), map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "x", "namespace": "shop"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": s.image("signed")}}}}},
	}, "shop")
	if len(a.asked) != 1 || a.asked[0] != "shop/default" {
		t.Errorf("accounts asked: %v", a.asked)
	}
}

func TestJudge_ObjectOutsideAnyNamespace(t *testing.T) {
	s := newStand(t)
	s.files.GateList[0].Spec.Match.NamespaceSelector = nil
	s.files.GateList[0].Spec.ImagePaths = []v1beta1.ImagePath{{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Paths: []string{"spec.image"}}}
	for image, want := range map[string]gate.Outcome{"signed": gate.OutcomeAllow, "unsigned": gate.OutcomeDeny} {
		if j := s.object("ClusterRole", map[string]any{"image": s.image(image)}); len(j.Verdicts) != 1 || j.Verdicts[0].Outcome != want {
			t.Errorf("%s: %+v", image, j.Verdicts)
		}
	}
}

func TestJudge_KindsOfAnotherGroupAreOtherKinds(t *testing.T) {
	s := newStand(t)
	other := s.gate("runners")
	other.Spec.ImagePaths = []v1beta1.ImagePath{{Group: "kueue.x-k8s.io", Kind: "Workload", Paths: []string{"spec.image"}}}
	s.files.GateList = append(s.files.GateList, other)
	j := gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{})).Object(context.Background(), map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": map[string]any{"name": "x", "namespace": "shop"},
		"spec": map[string]any{"image": s.image("signed")},
	}, "shop")
	if len(j.Verdicts) != 1 || j.Verdicts[0].Gate != "runners" {
		t.Errorf("verdicts: %+v", j.Verdicts)
	}
}

// oldSecret is an image pull Secret of the first type that Kubernetes had.
type oldSecret struct{ client.Reader }

func (oldSecret) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*corev1.Secret) = corev1.Secret{
		Type: corev1.SecretTypeDockercfg,
		Data: map[string][]byte{corev1.DockerConfigKey: []byte(`{"registry.example.com":{"username":"a","password":"b"}}`)},
	}
	return nil
}

func TestCluster_ReadsOldPullSecrets(t *testing.T) {
	raw, err := (&gather.Cluster{Live: oldSecret{}}).PullSecret(context.Background(), "shop", "old")
	if err != nil || len(raw) == 0 {
		t.Fatalf("%q, %v", raw, err)
	}
	if _, err := registry.PullSecretKeychain([][]byte{raw}); err != nil {
		t.Error(err)
	}
}
