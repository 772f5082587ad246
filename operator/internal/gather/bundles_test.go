package gather_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/bundle"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

const (
	regoLayer    = "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego"
	dataLayer    = "application/vnd.cncf.openpolicyagent.data.layer.v1+json"
	archiveLayer = "application/vnd.oci.image.layer.v1.tar+gzip"
	policyConfig = "application/vnd.cncf.openpolicyagent.config.v1+json"
	noWorkload   = "package main\n\ndeny contains \"the bundle says no\" if input.object.kind == \"Workload\"\n"
	passes       = "package main\n\ndeny contains \"never\" if false\n"
)

// rego is one policy in a layer, as conftest pushes it.
func rego(text string) []testkit.ArtifactLayer {
	return []testkit.ArtifactLayer{{MediaType: regoLayer, Title: "policy/main.rego", Content: []byte(text)}}
}

// policies pushes layers, and has the Gate judge by them alone.
func (s *stand) policies(t *testing.T, layers ...testkit.ArtifactLayer) (digest string) {
	t.Helper()
	digest, err := testkit.PushArtifact(s.registry.Host()+"/policies/prod:1", policyConfig, layers...)
	if err != nil {
		t.Fatal(err)
	}
	s.use(digest)
	return digest
}

func (s *stand) use(digest string) {
	s.files.GateList[0].Spec.Images[0] = v1beta1.ImageRule{Match: s.registry.Host() + "/shop/**", Require: new(intstr.FromString("none"))}
	s.files.GateList[0].Spec.Policies = []v1beta1.PolicySource{{OCI: &v1beta1.PolicyBundle{
		Ref: s.registry.Host() + "/policies/prod@" + digest, Authorities: []v1beta1.Authority{{Name: "policy-key", Key: &v1beta1.PublicKey{Inline: s.key.PublicPEM}}},
	}}}
}

func (s *stand) bundle() *v1beta1.PolicyBundle { return s.files.GateList[0].Spec.Policies[0].OCI }

func (s *stand) judgeOf() *gather.Judge {
	return gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{}))
}

func (s *stand) policyRepository() string { return s.registry.Host() + "/policies/prod" }

func TestJudge_PoliciesFromARegistry(t *testing.T) {
	for name, c := range map[string]struct {
		layers []testkit.ArtifactLayer
		sign   func(s *stand, key *testkit.Key, digest string) error
		want   gate.Outcome
		says   string
	}{
		"that deny, signed by a bundle": {rego(noWorkload), bundled, gate.OutcomeDeny, "policies/prod/main Workload/shop/web : the bundle says no"},
		"that deny, signed by a tag":    {rego(noWorkload), tagged, gate.OutcomeDeny, "the bundle says no"},
		"that allow":                    {rego(passes), bundled, gate.OutcomeAllow, ""},
		"that do not compile":           {rego("package main\n\ndeny contains x if { y }\n"), bundled, gate.OutcomeError, "policy/main.rego:3"},
		"that ask the network":          {rego("package main\n\ndeny contains \"x\" if http.send({})\n"), bundled, gate.OutcomeError, "http.send is not available"},
		"that nobody signed":            {rego(noWorkload), unsigned, gate.OutcomeError, "it is not verified: it has no signature that authority policy-key accepts: sign it: cosign sign --key cosign.key"},
		"signed by somebody else": {rego(noWorkload), func(s *stand, _ *testkit.Key, digest string) error {
			return s.other.SignBundle(s.policyRepository(), digest)
		},
			gate.OutcomeError, "the registry holds 1 signature that no further authority accepts"},
		"whose signature is for another": {rego(noWorkload), func(s *stand, key *testkit.Key, digest string) error {
			other, err := key.Bundle(testkit.DigestOf("other"), testkit.PredicateSign, nil)
			return errors.Join(err, testkit.StoreBundle(s.policyRepository(), digest, other, testkit.PredicateSign))
		}, gate.OutcomeError, "it is not verified"},
		"with data": {append(rego(noWorkload), testkit.ArtifactLayer{MediaType: dataLayer, Title: "policy/data.yaml", Content: []byte("admins: [me]")}), bundled,
			gate.OutcomeError, `"policy/data.yaml" holds data, and policies are given none but input: put it into spec.parameters`},
		"of an unknown kind": {[]testkit.ArtifactLayer{{MediaType: "application/octet-stream", Title: "main.rego", Content: []byte(noWorkload)}}, bundled,
			gate.OutcomeError, "which Sluice does not read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			digest := s.policies(t, c.layers...)
			if err := c.sign(s, s.key, digest); err != nil {
				t.Fatal(err)
			}
			j := s.judge(workload(s.image("signed")), nil)
			if got := j.Verdicts[0].Outcome; got != c.want || !strings.Contains(findings(j), c.says) {
				t.Errorf("%s, and should be %s with %q:\n%s", got, c.want, c.says, findings(j))
			}
		})
	}
}

func bundled(s *stand, key *testkit.Key, digest string) error {
	return key.SignBundle(s.policyRepository(), digest)
}
func tagged(s *stand, key *testkit.Key, digest string) error {
	return key.SignTag(s.policyRepository(), digest)
}
func unsigned(*stand, *testkit.Key, string) error { return nil }

// What opa build makes, and somebody pushes.
func TestJudge_TakesABundleOfOPA(t *testing.T) {
	tools, err := lab.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	for title, c := range map[string]struct {
		files map[string]string
		want  gate.Outcome
		says  string
	}{
		"modules":               {map[string]string{"main.rego": noWorkload, "main_test.rego": "package main_test\n\ntest_no if true\n"}, gate.OutcomeDeny, "the bundle says no"},
		"modules and data":      {map[string]string{"main.rego": noWorkload, "data.json": `{"admins": ["me"]}`}, gate.OutcomeError, `"data.json" holds data`},
		"modules of an old age": {map[string]string{"main.rego": "package main\n\ndeny[msg] { msg := \"no\" }\n"}, gate.OutcomeError, "another version of Rego than 1"},
	} {
		t.Run(title, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				if err := errors.Join(os.MkdirAll(filepath.Join(dir, "src"), 0o755), os.WriteFile(filepath.Join(dir, "src", name), []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(dir, "bundle.tar.gz")
			args := []string{"build", "--bundle", "--output", out, filepath.Join(dir, "src")}
			if strings.Contains(title, "old age") {
				args = append(args, "--v0-compatible")
			}
			if said, err := exec.CommandContext(t.Context(), filepath.Join(tools, "opa"), args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			s := newStand(t)
			content, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			digest := s.policies(t, testkit.ArtifactLayer{MediaType: archiveLayer, Content: content})
			if err := s.key.SignBundle(s.policyRepository(), digest); err != nil {
				t.Fatal(err)
			}
			j := s.judge(workload(s.image("signed")), nil)
			if got := j.Verdicts[0].Outcome; got != c.want || !strings.Contains(findings(j), c.says) {
				t.Errorf("%s, and should be %s with %q:\n%s", got, c.want, c.says, findings(j))
			}
		})
	}
}

// TestJudge_AsksForABundleOnce counts requests: cold, warm, and when the registry is gone.
func TestJudge_AsksForABundleOnce(t *testing.T) {
	s := newStand(t)
	digest := s.policies(t, append(rego(noWorkload), testkit.ArtifactLayer{MediaType: regoLayer, Title: "policy/more.rego", Content: []byte("package more\n\ndeny contains \"more\" if true\n")})...)
	if err := s.key.SignBundle(s.policyRepository(), digest); err != nil {
		t.Fatal(err)
	}
	judge := s.judgeOf()
	var side sync.WaitGroup
	verdicts := make([]gate.Verdict, 16)
	s.registry.ResetCounts()
	for i := range verdicts {
		side.Go(func() {
			verdicts[i] = judge.Workload(context.Background(), workload(s.image("signed")), nil).Verdicts[0]
		})
	}
	side.Wait()
	// The list of referrers, the signature's manifest and blob; then the bundle's manifest
	// and its two layers: however many ask.
	if counts := s.registry.Counts(); counts["GET referrers"] != 1 || counts["GET manifests"] != 2 || counts["GET blobs"] != 3 || s.registry.Requests() != 6 {
		t.Errorf("cold there are %v", counts)
	}
	s.registry.ResetCounts()
	s.registry.Close()
	for range 3 {
		verdicts = append(verdicts, judge.Workload(context.Background(), workload(s.image("signed")), nil).Verdicts[0])
	}
	if n := s.registry.Requests(); n != 0 {
		t.Errorf("warm there are %d requests", n)
	}
	for _, v := range verdicts {
		if v.Outcome != gate.OutcomeDeny || len(v.Violations) != 2 || !bytes.Equal(v.Canonical(), verdicts[0].Canonical()) {
			t.Fatalf("%s", v.Canonical())
		}
	}
	// By another key it was never verified, and cannot be now.
	s.bundle().Authorities[0].Key.Inline = s.other.PublicPEM
	if v := judge.Workload(context.Background(), workload(s.image("signed")), nil).Verdicts[0]; v.Outcome != gate.OutcomeError || !strings.Contains(string(v.Canonical()), "policy bundle "+s.bundle().Ref) {
		t.Errorf("by another key: %s", v.Canonical())
	}
	if v := s.judge(workload(s.image("signed")), nil).Verdicts[0]; v.Outcome != gate.OutcomeError {
		t.Errorf("another process allows what it cannot read: %s", v.Canonical())
	}
}

// TestJudge_ReadsNothingOfABundleThatIsNotVerified looks at what is asked for.
func TestJudge_ReadsNothingOfABundleThatIsNotVerified(t *testing.T) {
	s := newStand(t)
	digest := s.policies(t, rego(noWorkload)...)
	if err := s.other.SignBundle(s.policyRepository(), digest); err != nil {
		t.Fatal(err)
	}
	layer := testkit.DigestOf(noWorkload)
	s.registry.Override(func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/manifests/"+digest) || strings.HasSuffix(r.URL.Path, "/blobs/"+layer)
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s is asked for", r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
	}))
	if j := s.judge(workload(s.image("signed")), nil); j.Verdicts[0].Outcome != gate.OutcomeError {
		t.Errorf("%s", findings(j))
	}
}

// What is wrong with a bundle for good is asked for once, and not at every decision.
func TestJudge_RemembersWhatIsWrongWithABundle(t *testing.T) {
	s := newStand(t)
	layers := make([]testkit.ArtifactLayer, limits.BundleLayers+1)
	for i := range layers {
		layers[i] = testkit.ArtifactLayer{MediaType: regoLayer, Title: fmt.Sprint(i, ".rego"), Content: []byte(passes)}
	}
	many := s.policies(t, layers...)
	index, err := testkit.Push(s.policyRepository()+":index", testkit.Manifest(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	for digest, says := range map[string]string{many: "limits.BundleLayers", index: "it is an index of several manifests"} {
		if err := s.key.SignTag(s.policyRepository(), digest); err != nil {
			t.Fatal(err)
		}
		s.use(digest)
		judge := s.judgeOf()
		for i := range 2 {
			v := judge.Workload(t.Context(), workload(s.image("signed")), nil).Verdicts[0]
			if v.Outcome != gate.OutcomeError || !strings.Contains(string(v.Canonical()), says) {
				t.Errorf("it does not say %q: %s", says, v.Canonical())
			}
			if n := s.registry.Requests(); i == 1 && n != 0 {
				t.Errorf("%s: %d requests, %v", says, n, s.registry.Counts())
			}
			s.registry.ResetCounts()
		}
	}
}

// The digest of the Gate is of what the modules say, and so the same whatever signed them.
func TestJudge_DigestOfAGateIsThatOfTheModules(t *testing.T) {
	s := newStand(t)
	digests := map[string]string{}
	for _, text := range []string{passes, passes + "# more\n"} {
		digest := s.policies(t, rego(text)...)
		if err := errors.Join(s.key.SignBundle(s.policyRepository(), digest), s.other.SignTag(s.policyRepository(), digest)); err != nil {
			t.Fatal(err)
		}
		for _, key := range []*testkit.Key{s.key, s.other} {
			s.bundle().Authorities[0].Key.Inline = key.PublicPEM
			v := s.judge(workload(s.image("signed")), nil).Verdicts[0]
			if v.Outcome != gate.OutcomeAllow || digests[text] != "" && digests[text] != v.PolicyDigest {
				t.Errorf("%s; it was %s before", v.Canonical(), digests[text])
			}
			digests[text] = v.PolicyDigest
		}
	}
	if digests[passes] == digests[passes+"# more\n"] {
		t.Error("of other modules it is the same")
	}
}

// service has one key, which is rotated, or does not answer.
type service struct {
	hangingKMS
	key *testkit.Key
}

// KMS implements gather.Keys.
func (s *service) KMS(context.Context, string) (string, error) {
	if s.key == nil {
		return "", errors.New("no answer")
	}
	return s.key.PublicPEM, nil
}

// What was verified was verified by a key: by another one it is another question.
func TestJudge_VerifiesABundleAnewWhenItsKeyIsRotated(t *testing.T) {
	s := newStand(t)
	digest := s.policies(t, rego(passes)...)
	if err := s.key.SignBundle(s.policyRepository(), digest); err != nil {
		t.Fatal(err)
	}
	s.bundle().Authorities[0].Key = &v1beta1.PublicKey{KMS: "hashivault://policies"}
	keys := &service{}
	judge := gather.NewJudge(s.files, registry.New(registry.Options{}), keys)
	for _, c := range []struct {
		key  *testkit.Key
		want gate.Outcome
		says string
	}{
		{nil, gate.OutcomeError, "the key of authority policy-key: hashivault://policies: no answer: make it readable and correct, see spec.policies[].oci.authorities of the Gate"},
		{s.key, gate.OutcomeAllow, ""},
		{s.other, gate.OutcomeError, "no further authority accepts"},
		{nil, gate.OutcomeError, "no answer"},
		{s.key, gate.OutcomeAllow, ""},
	} {
		keys.key = c.key
		v := judge.Workload(t.Context(), workload(s.image("signed")), nil).Verdicts[0]
		if v.Outcome != c.want || !strings.Contains(findingsOf(v), c.says) {
			t.Errorf("%s, and should be %s with %q: %s", v.Outcome, c.want, c.says, findingsOf(v))
		}
	}
}

func TestJudge_WarnsOfABundleWithoutALogEntry(t *testing.T) {
	s := newStand(t)
	sigstore, err := testkit.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	by := testkit.Identity{Issuer: "https://issuer.example.com", Subject: "ci@example.com", Without: []testkit.Part{testkit.PartLog}}
	digest := s.policies(t, rego(passes)...)
	root, err := sigstore.TrustedRootJSON()
	if err := errors.Join(err, sigstore.SignBundle(by, s.policyRepository(), digest)); err != nil {
		t.Fatal(err)
	}
	identity := &v1beta1.Keyless{Issuer: by.Issuer, Subject: by.Subject, TrustedRoot: &v1beta1.TrustedRoot{Inline: string(root)}, IgnoreTransparencyLog: true}
	s.bundle().Authorities = []v1beta1.Authority{{Name: "ci", Keyless: identity}}
	judge := s.judgeOf()
	for range 2 { // from the registry, and from memory
		v := judge.Workload(t.Context(), workload(s.image("signed")), nil).Verdicts[0]
		if v.Outcome != gate.OutcomeWarn || !strings.Contains(string(v.Canonical()), "authority ci is accepted without") || !strings.Contains(string(v.Canonical()), s.bundle().Ref) {
			t.Errorf("%s", v.Canonical())
		}
	}
	identity.IgnoreTransparencyLog = false
	if v := judge.Workload(t.Context(), workload(s.image("signed")), nil).Verdicts[0]; v.Outcome != gate.OutcomeError {
		t.Errorf("without leave: %s", v.Canonical())
	}
}

// TestJudge_ReadsABundleWithTheSecretOfTheGate logs in with it, and where it is not at hand,
// as in a pull request, with the user's own login.
func TestJudge_ReadsABundleWithTheSecretOfTheGate(t *testing.T) {
	s := newStand(t)
	digest := s.policies(t, rego(noWorkload)...)
	if err := s.key.SignBundle(s.policyRepository(), digest); err != nil {
		t.Fatal(err)
	}
	tokens := testkit.NewTokenServer(testkit.TokenOptions{User: "alice", Password: "hunter2"})
	t.Cleanup(tokens.Close)
	s.registry.RequireTokens(tokens)
	alice := authn.AuthConfig{Username: "alice", Password: "hunter2"}
	config, err := json.Marshal(map[string]any{"auths": map[string]authn.AuthConfig{s.registry.Host(): alice}})
	if err != nil {
		t.Fatal(err)
	}
	s.bundle().RegistrySecret = &v1beta1.NamespacedName{Name: "read", Namespace: "sluice-system"}
	for name, c := range map[string]struct {
		secret map[string][]byte
		login  authn.Keychain
		want   gate.Outcome
		says   string
	}{
		"the Secret":              {map[string][]byte{corev1.DockerConfigJsonKey: config}, nil, gate.OutcomeDeny, "the bundle says no"},
		"the user's login":        {nil, keychain{alice}, gate.OutcomeDeny, "the bundle says no"},
		"nobody's":                {nil, nil, gate.OutcomeError, "401"},
		"a Secret of no such key": {map[string][]byte{"x": config}, keychain{alice}, gate.OutcomeError, `Secret sluice-system/read has no key ".dockerconfigjson"`},
		"a Secret that is broken": {map[string][]byte{corev1.DockerConfigJsonKey: []byte("{")}, keychain{alice}, gate.OutcomeError, "not a docker config"},
	} {
		t.Run(name, func(t *testing.T) {
			delete(s.files.Secrets, "sluice-system/read")
			if c.secret != nil {
				s.files.Secrets["sluice-system/read"] = c.secret
			}
			judge := gather.NewJudge(s.files, registry.New(registry.Options{Keychain: c.login}), trust.New(trust.Options{}))
			v := judge.Workload(t.Context(), workload(s.image("signed")), nil).Verdicts[0]
			if v.Outcome != c.want || !strings.Contains(findingsOf(v), c.says) {
				t.Errorf("%s, and should be %s with %q: %s", v.Outcome, c.want, c.says, v.Canonical())
			}
			if strings.Contains(string(v.Canonical()), "hunter2") {
				t.Errorf("the password is shown: %s", v.Canonical())
			}
		})
	}
}

func findingsOf(v gate.Verdict) string {
	var out strings.Builder
	for _, f := range append(v.Violations, v.Warnings...) {
		out.WriteString(f.Message + "\n")
	}
	return out.String()
}

type keychain struct{ config authn.AuthConfig }

// Resolve implements authn.Keychain.
func (k keychain) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(k.config), nil
}

// The same modules have the same digest whoever packs them, so that a Gate can name them
// before they are pushed.
func TestPolicies_PushedAreThoseThatWerePacked(t *testing.T) {
	s := newStand(t)
	packed, err := bundle.Pack(map[string]string{"main.rego": noWorkload})
	if err != nil {
		t.Fatal(err)
	}
	client := registry.New(registry.Options{})
	for range 2 {
		if err := client.PushBundle(t.Context(), s.policyRepository(), "2", packed, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.key.SignBundle(s.policyRepository(), packed.Digest()); err != nil {
		t.Fatal(err)
	}
	s.use(packed.Digest())
	if j := s.judge(workload(s.image("signed")), nil); !strings.Contains(findings(j), "the bundle says no") {
		t.Errorf("%s", findings(j))
	}
}
