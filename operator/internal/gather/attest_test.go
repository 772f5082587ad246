package gather_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// What is attested decides nothing: no rule of the Gate is another for it.
func TestJudge_AttestsWhatAGateLooksAt(t *testing.T) {
	s := newStand(t)
	before := s.judge(workload(s.image("signed")), nil)
	s.files.GateList[0].Spec.Attest = &v1beta1.Attest{Key: v1beta1.PrivateKey{KMS: "hashivault://prod"}}
	j := s.judge(workload(s.image("signed")), nil)
	if len(before.Attests) != 0 || len(j.Attests) != 1 || before.Verdicts[0].Digest() != j.Verdicts[0].Digest() {
		t.Fatalf("%+v, and before %+v", j.Attests, before.Attests)
	}
	a := j.Attests[0]
	want := []gather.AttestedImage{{Repository: s.registry.Host() + "/shop/signed", Digest: s.digest}}
	if a.Environment != "prod" || a.Soak != limits.Soak || a.Verdict.Gate != "prod" || !slices.Equal(a.Images, want) || len(a.Unresolved) != 0 {
		t.Errorf("%+v", a)
	}
	s.files.GateList[0].Spec.Images[0].Require = new(intstr.FromString("none"))
	if j := s.judge(workload(s.image("signed")), nil); len(j.Attests) != 0 {
		t.Errorf("an image that is not looked at: %+v", j.Attests)
	}
	s.files.GateList[0].Spec.Images, s.files.GateList[0].Spec.UnmatchedImages = nil, v1beta1.UnmatchedImagesAllow
	if j := s.judge(workload(s.image("signed")), nil); len(j.Attests) != 1 || len(j.Attests[0].Images) != 0 || !slices.Equal(j.Attests[0].Unresolved, []string{s.image("signed")}) {
		t.Errorf("a tag that nobody resolves: %+v", j.Attests)
	}
}

func TestJudge_SignsAndStoresWithWhatTheGateNames(t *testing.T) {
	s := newStand(t)
	s.attestOwn(s.key)
	s.files.GateList[0].Spec.RequirePromotionFrom = nil
	push := v1beta1.NamespacedName{Name: "push", Namespace: "sluice-system"}
	s.files.GateList[0].Spec.Attest.RegistrySecret = &push
	w := workload(s.image("signed"))
	j := gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{}))
	a := j.Workload(t.Context(), w, nil).Attests[0]
	if _, err := j.SigningKey(t.Context(), a); err == nil || !strings.Contains(err.Error(), "Secret sluice-system/prod-attestor: it does not exist") {
		t.Errorf("no Secret: %v", err)
	}
	if _, _, err := j.StoreCredentials(t.Context(), w, a); err == nil || !strings.Contains(err.Error(), "Secret sluice-system/push: it does not exist") {
		t.Errorf("no credentials: %v", err)
	}
	s.files.Secrets["sluice-system/prod-attestor"] = map[string][]byte{"cosign.key": []byte(s.key.PrivatePEM), "cosign.password": []byte("a")}
	first, err := j.SigningKey(t.Context(), a)
	if err != nil || string(first.Text) != s.key.PrivatePEM || string(first.Password) != "a" || len(first.ID) != 64 {
		t.Errorf("%v, %v", first.ID, err)
	}
	s.files.Secrets["sluice-system/prod-attestor"]["cosign.password"] = []byte("b")
	if second, err := j.SigningKey(t.Context(), a); err != nil || second.ID == first.ID {
		t.Errorf("another password is another key: %v", err)
	}
	for content, says := range map[string]string{"": `has no key ".dockerconfigjson"`, "x": "Secret sluice-system/push"} {
		s.files.Secrets["sluice-system/push"] = map[string][]byte{}
		if content != "" {
			s.files.Secrets["sluice-system/push"][corev1.DockerConfigJsonKey] = []byte(content)
		}
		if _, _, err := j.StoreCredentials(t.Context(), w, a); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", content, err)
		}
	}
	s.files.Secrets["sluice-system/push"][corev1.DockerConfigJsonKey] = []byte(`{"auths":{"` + s.registry.Host() + `":{"username":"pusher","password":"hunter2"}}}`)
	id, keychain, err := j.StoreCredentials(t.Context(), w, a)
	if err != nil || id == "" || strings.Contains(id, "hunter2") {
		t.Fatalf("%q, %v", id, err)
	}
	keys, err := keychain(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	repository, err := name.NewRepository(s.registry.Host() + "/shop/signed")
	if err != nil {
		t.Fatal(err)
	}
	who, err := keys.Resolve(repository)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := who.Authorization(); err != nil || c.Username != "pusher" {
		t.Errorf("it is stored as %q, %v", c.Username, err)
	}
}

// Pull Secrets are a namespace's own: what fails with those of one says nothing of another.
func TestJudge_TellsThePullSecretsOfNamespacesApart(t *testing.T) {
	s := newStand(t)
	s.attestOwn(s.key)
	s.files.GateList[0].Spec.RequirePromotionFrom = nil
	j := gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{}))
	one := workload(s.image("signed"))
	a := j.Workload(t.Context(), one, nil).Attests[0]
	seen := map[string]bool{}
	for _, change := range []func(*v1beta1.Workload){
		func(*v1beta1.Workload) {},
		func(w *v1beta1.Workload) { w.Namespace = "elsewhere" },
		func(w *v1beta1.Workload) { w.Spec.ServiceAccountName = "other" },
		func(w *v1beta1.Workload) { w.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} },
	} {
		w := one.DeepCopy()
		change(w)
		id, _, err := j.StoreCredentials(t.Context(), w, a)
		if err != nil || id == "" || seen[id] {
			t.Errorf("%q stands for others too: %v", id, err)
		}
		seen[id] = true
	}
}
