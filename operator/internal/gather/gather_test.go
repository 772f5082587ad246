package gather_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// TestJudge_Workload goes through what can be missing or broken around one Workload.
func TestJudge_Workload(t *testing.T) {
	const broken = "c3VwZXItc2VjcmV0"
	for name, c := range map[string]struct {
		image   string
		prepare func(*stand, *v1beta1.Workload)
		want    []gate.Outcome
		says    []string
		// requests to the registry; -1 where they do not matter.
		requests int
	}{
		"a signed image": {image: "signed", want: []gate.Outcome{gate.OutcomeAllow}, requests: -1},
		"an unsigned image": {image: "unsigned", want: []gate.Outcome{gate.OutcomeDeny}, requests: -1,
			says: []string{"signature Deployment/shop/web spec.template.spec.containers[0].image", "release-key", "cosign sign"}},
		"an image of another registry": {image: "-", want: []gate.Outcome{gate.OutcomeDeny}, says: []string{"no image rule of gate prod matches docker.io/library/nginx"},
			prepare: func(_ *stand, w *v1beta1.Workload) { w.Spec.Image = "nginx" }},
		"no image at all": {image: "-", want: []gate.Outcome{gate.OutcomeDeny}, says: []string{"no image is named"},
			prepare: func(_ *stand, w *v1beta1.Workload) { w.Spec.Image = "" }},
		"an unsigned sidecar by a patch": {image: "signed", want: []gate.Outcome{gate.OutcomeDeny}, requests: -1, says: []string{"spec.template.spec.containers[1].image"},
			prepare: func(s *stand, w *v1beta1.Workload) {
				w.Spec.Patches = []v1beta1.Patch{{Target: &v1beta1.PatchTarget{Kind: "Deployment"},
					Patch: "- {op: add, path: /spec/template/spec/containers/-, value: {name: x, image: '" + s.image("unsigned") + "'}}\n"}}
			}},
		"a patch that does not apply": {image: "signed", want: []gate.Outcome{gate.OutcomeDeny}, says: []string{"render Workload/shop/web spec.patches[0]: it matches none", "sluice render"},
			prepare: func(_ *stand, w *v1beta1.Workload) {
				w.Spec.Patches = []v1beta1.Patch{{Target: &v1beta1.PatchTarget{Kind: "StatefulSet"}, Patch: "- {op: remove, path: /spec}"}}
			}},
		"a rule that leaves the pods to others": {image: "signed", want: []gate.Outcome{gate.OutcomeDeny}, says: []string{"drift Workload/shop/web spec.drift.ignore[0].paths[1]: /spec/template cannot", "spec.patches"},
			prepare: func(_ *stand, w *v1beta1.Workload) {
				w.Spec.Drift = &v1beta1.Drift{Ignore: []v1beta1.DriftIgnore{{Paths: []string{"/spec/replicas", "/spec/template"}}}}
			}},
		"a namespace without the label": {image: "signed", want: []gate.Outcome{gate.OutcomeDeny}, says: []string{"no Gate matches", "shop"},
			prepare: func(s *stand, _ *v1beta1.Workload) { s.files.Namespaces["shop"] = nil }},
		"no Gate": {image: "signed", want: []gate.Outcome{gate.OutcomeDeny}, says: []string{"no Gate matches"},
			prepare: func(s *stand, _ *v1beta1.Workload) { s.files.GateList = nil }},
		"a namespace that is not known": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, says: []string{"labels of namespace shop", "does not exist", "add the manifest of namespace shop"},
			prepare: func(s *stand, _ *v1beta1.Workload) { delete(s.files.Namespaces, "shop") }},
		"two Gates, one of them stricter": {image: "signed", want: []gate.Outcome{gate.OutcomeDeny, gate.OutcomeAllow}, requests: -1, says: []string{"requireDigest"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				strict := s.gate("a-strict")
				strict.Spec.Images[0].RequireDigest = true
				s.files.GateList = append(s.files.GateList, strict)
			}},
		"two Gates, one for other objects": {image: "signed", want: []gate.Outcome{gate.OutcomeAllow}, requests: -1,
			prepare: func(s *stand, _ *v1beta1.Workload) {
				other := s.gate("other")
				other.Spec.Match.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "data"}}
				s.files.GateList = append(s.files.GateList, other)
			}},
		"a Gate with a selector that is none": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, says: []string{"gate prod: spec.match.namespaceSelector"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.files.GateList[0].Spec.Match.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
			}},
		"parameters that are no JSON": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, says: []string{"gate prod: spec.parameters.data"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.files.GateList[0].Spec.Parameters = map[string]apiextensionsv1.JSON{"data": {Raw: []byte("{")}}
			}},
		"a misspelt parameter of a Gate that admission did not see": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1,
			says: []string{"spec.parameters.data.backupEnvironment of the Gate", "write backupEnvironments"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.files.GateList[0].Spec.Policies = []v1beta1.PolicySource{{Builtin: "data"}}
				s.files.GateList[0].Spec.Parameters = map[string]apiextensionsv1.JSON{"data": {Raw: []byte(`{"backupEnvironment": []}`)}}
			}},
		"a key in a Secret": {image: "signed", want: []gate.Outcome{gate.OutcomeAllow}, requests: -1,
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.keyFrom("release")
				s.files.Secrets["sluice-system/release"] = map[string][]byte{"cosign.pub": []byte(s.key.PublicPEM)}
			}},
		"a key in a Secret that there is not": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{"the key of authority release-key: Secret sluice-system/release: it does not exist"},
			prepare: func(s *stand, _ *v1beta1.Workload) { s.keyFrom("release") }},
		"a Secret without the key": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{`the key of authority release-key: Secret sluice-system/release has no key "cosign.pub"`},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.keyFrom("release")
				s.files.Secrets["sluice-system/release"] = map[string][]byte{"other": []byte(s.key.PublicPEM)}
			}},
		"a Secret with something else": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{"Secret sluice-system/release", "release-key"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.keyFrom("release")
				s.files.Secrets["sluice-system/release"] = map[string][]byte{"cosign.pub": []byte(broken)}
			}},
		"a ConfigMap with policies that deny": {image: "signed", want: []gate.Outcome{gate.OutcomeDeny}, requests: -1, says: []string{"nothing passes", "sluice-system/rules"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.policiesFrom("rules")
				s.files.ConfigMaps["sluice-system/rules"] = map[string]string{"a.rego": "package a\ndeny contains \"nothing passes\" if true\n", "a_test.rego": "not rego", "notes": "not rego"}
			}},
		"a ConfigMap that there is not": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{"ConfigMap sluice-system/rules with policies: it does not exist"},
			prepare: func(s *stand, _ *v1beta1.Workload) { s.policiesFrom("rules") }},
		"a ConfigMap without policies": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{"ConfigMap sluice-system/rules has no key that ends in .rego"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.policiesFrom("rules")
				s.files.ConfigMaps["sluice-system/rules"] = map[string]string{"a_test.rego": "package a"}
			}},
		"a builtin that there is not": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{`no builtin policy group "restrcted"`, "restricted"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.files.GateList[0].Spec.Policies = []v1beta1.PolicySource{{Builtin: "restrcted"}}
			}},
		"a policy from nowhere": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{"none of builtin, configMap and oci"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.files.GateList[0].Spec.Policies = []v1beta1.PolicySource{{}}
			}},
		"a rule that asks for nothing": {image: "unsigned", want: []gate.Outcome{gate.OutcomeAllow},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				none := intstr.FromString("none")
				s.files.GateList[0].Spec.Images[0].Require = &none
			}},
		"a requirement that there is not asks for all": {image: "signed", want: []gate.Outcome{gate.OutcomeDeny}, requests: -1,
			prepare: func(s *stand, _ *v1beta1.Workload) {
				some := intstr.FromString("some")
				rule := &s.files.GateList[0].Spec.Images[0]
				rule.Require, rule.Authorities = &some, append(rule.Authorities, v1beta1.Authority{Key: &v1beta1.PublicKey{Inline: s.other.PublicPEM}})
			}},
		"a registry that answers 500": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{"500", "spec.template.spec.containers[0].image"},
			prepare: func(s *stand, _ *v1beta1.Workload) { s.registry.Override(nil, testkit.Status(500)) }},
		"signatures that cannot be read": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{"503"},
			prepare: func(s *stand, _ *v1beta1.Workload) {
				s.registry.Override(testkit.PathContains("/referrers/"), testkit.Status(503))
			}},
		"an image that there is not": {image: "gone", want: []gate.Outcome{gate.OutcomeError}, requests: -1, says: []string{"404", "push the image first"}},
		"a pull Secret that is broken": {image: "signed", want: []gate.Outcome{gate.OutcomeError}, says: []string{"image pull Secret shop/registry", "not a docker config"},
			prepare: func(s *stand, w *v1beta1.Workload) {
				w.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
				s.files.Secrets["shop/registry"] = map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths": {"a": {"auth": "` + broken + `!"}}}`)}
			}},
		"a pull Secret that there is not": {image: "signed", want: []gate.Outcome{gate.OutcomeAllow}, requests: -1,
			prepare: func(_ *stand, w *v1beta1.Workload) {
				w.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			w := workload(s.image(c.image))
			if c.prepare != nil {
				c.prepare(s, w)
			}
			j := s.judge(w, nil)
			var got []gate.Outcome
			for _, v := range j.Verdicts {
				got = append(got, v.Outcome)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Fatalf("verdicts are %v and should be %v:\n%s", got, c.want, findings(j))
			}
			if j.Blocked() != gate.Worst(j.Verdicts).Outcome.Blocks() {
				t.Error("Blocked does not go by the worst verdict")
			}
			for _, want := range c.says {
				if !strings.Contains(findings(j), want) {
					t.Errorf("the findings do not say %q:\n%s", want, findings(j))
				}
			}
			if strings.Contains(findings(j), broken) {
				t.Errorf("the findings hold a Secret's content:\n%s", findings(j))
			}
			if c.requests >= 0 && s.registry.Requests() != c.requests {
				t.Errorf("requests to the registry: %v", s.registry.Counts())
			}
		})
	}
}

func TestJudge_WhatRunsIsWhatWasVerified(t *testing.T) {
	s := newStand(t)
	j := s.judge(workload(s.image("signed")), nil)
	pinned := s.registry.Host() + "/shop/signed@" + s.digest
	if got := fmt.Sprint(j.Deployable()); !strings.Contains(got, "image:"+pinned) || strings.Contains(got, s.image("signed")) {
		t.Errorf("%s is not in %s", pinned, got)
	}
	if got := fmt.Sprint(j.Children); !strings.Contains(got, "image:"+s.image("signed")) {
		t.Errorf("the children are not as written: %s", got)
	}
}

func TestJudge_DigestsThatAreKnownAreNotResolvedAndStillVerified(t *testing.T) {
	s := newStand(t)
	w := workload(s.image("signed"))
	known := s.judge(w, nil).Digests
	// The tag moves to an image that nobody signed.
	if _, err := testkit.PushImage(s.image("signed"), "moved"); err != nil {
		t.Fatal(err)
	}
	s.registry.ResetCounts()
	j := s.judge(w, known)
	if j.Blocked() || j.Digests[s.image("signed")] != s.digest {
		t.Errorf("known digest: %s", findings(j))
	}
	if n := s.registry.Counts()["HEAD manifests"]; n != 0 {
		t.Errorf("the tag was looked up: %v", s.registry.Counts())
	}
	if s.registry.Requests() == 0 {
		t.Error("the signatures were not read")
	}
	if j := s.judge(w, nil); !j.Blocked() {
		t.Error("without it the moved tag passes")
	}
	unsigned := testkit.DigestOf("another")
	if j := s.judge(w, map[string]string{s.image("signed"): unsigned}); !j.Blocked() {
		t.Error("a forged digest passes")
	}
	if j := s.judge(w, map[string]string{s.image("signed"): "sha256:nonsense"}); !j.Blocked() {
		t.Error("nonsense for a digest passes")
	}
}

func TestJudge_StatusAndToolMetadataAreNoInput(t *testing.T) {
	s := newStand(t)
	clean := s.judge(workload(s.image("signed")), nil)
	w := workload(s.image("signed"))
	w.Status = v1beta1.WorkloadStatus{Phase: v1beta1.PhaseReady, Images: []v1beta1.ImageStatus{{Image: s.image("signed"), Digest: testkit.DigestOf("x"), SignedBy: "root"}}}
	w.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	w.UID, w.ResourceVersion, w.Generation, w.Finalizers = "u", "1", 7, []string{"a/b"}
	s.policiesFrom("rules")
	s.files.ConfigMaps["sluice-system/rules"] = map[string]string{"a.rego": `package a
deny contains sprintf("%v", [object.keys(input.workload)]) if object.keys(input.workload) != {"apiVersion", "kind", "metadata", "spec"}
deny contains key if {
	some key, _ in input.workload.metadata
	not key in {"name", "namespace", "creationTimestamp"}
}
`}
	j := s.judge(w, nil)
	if j.Blocked() {
		t.Errorf("a policy sees more than the spec: %s", findings(j))
	}
	if j.Digests[s.image("signed")] != clean.Digests[s.image("signed")] {
		t.Error("the status was believed")
	}
}

func TestJudge_GivesTheSameBytesEveryTime(t *testing.T) {
	s := newStand(t)
	s.files.GateList[0].Spec.Policies = []v1beta1.PolicySource{{Builtin: "restricted"}, {Builtin: "reliability"}}
	s.files.GateList = append(s.files.GateList, s.gate("another"))
	w := workload(s.image("unsigned"))
	first := s.judge(w, nil)
	for range 10 {
		again := s.judge(w, nil)
		for i, v := range again.Verdicts {
			if !bytes.Equal(v.Canonical(), first.Verdicts[i].Canonical()) {
				t.Fatalf("%s\n%s", first.Verdicts[i].Canonical(), v.Canonical())
			}
		}
	}
}

func TestJudge_LogsInWithThePullSecret(t *testing.T) {
	for name, c := range map[string]struct {
		key  func(host string) string
		want string
	}{
		"by host":                     {func(h string) string { return h }, "shop"},
		"by URL":                      {func(h string) string { return "https://" + h + "/v1/" }, "shop"},
		"by path":                     {func(h string) string { return h + "/shop" }, "shop"},
		"not for another path":        {func(h string) string { return h + "/shopping" }, ""},
		"not for another host":        {func(string) string { return "registry.example.com" }, ""},
		"not for a host that ends so": {func(h string) string { return h + ".evil.io" }, ""},
		"for a path that starts so, as the kubelet does": {func(h string) string { return h + "/sho" }, "shop"},
		"not for the whole of a registry":                {func(h string) string { return h + "/other/" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			var user string
			s.registry.Override(nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var sent bool
				if user, _, sent = r.BasicAuth(); sent {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
			}))
			w := workload(s.image("signed"))
			w.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
			auth := base64.StdEncoding.EncodeToString([]byte("shop:password"))
			s.files.Secrets["shop/registry"] = map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths": {"` + c.key(s.registry.Host()) + `": {"auth": "` + auth + `"}}}`)}
			j := s.judge(w, nil)
			if !j.Blocked() || strings.Contains(findings(j), "password") || strings.Contains(findings(j), auth) {
				t.Errorf("findings: %s", findings(j))
			}
			if user != c.want {
				t.Errorf("logged in as %q, want %q", user, c.want)
			}
		})
	}
}

// What a patch adds to the pod template is pulled with as well.
func TestJudge_LogsInWithThePullSecretOfAPatch(t *testing.T) {
	s := newStand(t)
	s.registry.Override(func(r *http.Request) bool { user, _, _ := r.BasicAuth(); return user != "shop" }, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	auth := base64.StdEncoding.EncodeToString([]byte("shop:password"))
	s.files.Secrets["shop/registry"] = map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths": {"` + s.registry.Host() + `": {"auth": "` + auth + `"}}}`)}
	w := workload(s.image("signed"))
	if j := s.judge(w, nil); j.Verdicts[0].Outcome != gate.OutcomeError || !strings.Contains(findings(j), "401 Unauthorized") {
		t.Fatalf("without it: %s", findings(j))
	}
	w.Spec.Patches = []v1beta1.Patch{{
		Target: &v1beta1.PatchTarget{Kind: "Deployment"},
		Patch:  `[{"op": "add", "path": "/spec/template/spec/imagePullSecrets", "value": [{"name": "registry"}]}]`,
	}}
	if j := s.judge(w, nil); j.Blocked() {
		t.Error(findings(j))
	}
}

func TestEvidence_OfAnImageThatCannotBeRead(t *testing.T) {
	s := newStand(t)
	img := gate.Image{Ref: "a b"}
	gather.Evidence(context.Background(), registry.New(registry.Options{Keychain: authn.DefaultKeychain}), nil, nil, &img, nil, nil)
	if img.Invalid == "" || s.registry.Requests() != 0 {
		t.Errorf("%+v", img)
	}
}

// Admission of a pod, and every reconcile of a Workload, know what was verified for either.
func TestJudge_VerifiesAnImageOnceForAllWhoAsk(t *testing.T) {
	s := newStand(t)
	s.files.GateList[0].Spec.Match.Kinds = []v1beta1.JudgedKind{"Workload", "Pod"}
	judge := gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{}))
	counted := func() (hits, misses float64) {
		metrics := prometheus.NewRegistry()
		metrics.MustRegister(judge.Collectors()...)
		families, err := metrics.Gather()
		if err != nil || len(families) != 2 || families[1].GetName() != "sluice_verifications_total" {
			t.Fatalf("%v, %v", families, err)
		}
		for _, m := range families[1].GetMetric() {
			if m.GetLabel()[0].GetValue() == "hit" {
				hits = m.GetCounter().GetValue()
			} else {
				misses = m.GetCounter().GetValue()
			}
		}
		return hits, misses
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": s.image("signed")}}}}
	for range 2 {
		if j := judge.Workload(t.Context(), workload(s.image("signed")), nil); j.Blocked() {
			t.Error(findings(j))
		}
		if j := judge.Object(t.Context(), pod, "shop"); j.Blocked() || len(j.Verdicts) != 1 {
			t.Error(findings(j))
		}
	}
	if hits, misses := counted(); misses != 1 || hits != 7 {
		t.Errorf("%v hits, %v misses", hits, misses)
	}
	// Another key in the Gate, under the same name, is another question.
	s.files.GateList[0].Spec.Images[0].Authorities[0].Key.Inline = s.other.PublicPEM
	if j := judge.Workload(t.Context(), workload(s.image("signed")), nil); !j.Blocked() {
		t.Error("what the old key signed is accepted")
	}
}

// The digest is what is judged and pulled. Who reads the tag beside it should not be misled.
func TestJudge_ReportsATagThatDisagreesWithItsDigest(t *testing.T) {
	const says = "signature Deployment/shop/web spec.template.spec.containers[0].image: tag 1 stands for sha256:"
	for title, c := range map[string]struct {
		change   func(*stand) error
		want     gate.Outcome
		requests int
	}{
		"it agrees": {func(*stand) error { return nil }, gate.OutcomeAllow, 4},
		"it was moved": {func(s *stand) error {
			_, err := testkit.PushImage(s.image("signed"), "moved")
			return err
		}, gate.OutcomeWarn, 4},
		"it is not there": {func(s *stand) error {
			s.registry.Override(testkit.PathContains("/manifests/1"), testkit.Status(http.StatusNotFound))
			return nil
		}, gate.OutcomeAllow, 4},
		"it cannot be looked up": {func(s *stand) error {
			s.registry.Override(testkit.PathContains("/manifests/1"), testkit.Status(http.StatusForbidden))
			return nil
		}, gate.OutcomeAllow, 4},
		"nothing is asked of the image": {func(s *stand) error {
			s.files.GateList[0].Spec.Images[0].Require = new(intstr.FromString("none"))
			return nil
		}, gate.OutcomeAllow, 0},
	} {
		t.Run(title, func(t *testing.T) {
			s := newStand(t)
			if err := c.change(s); err != nil {
				t.Fatal(err)
			}
			s.registry.ResetCounts()
			j := s.judge(workload(s.image("signed")+"@"+s.digest), nil)
			if v := j.Verdicts[0]; v.Outcome != c.want || s.registry.Requests() != c.requests || v.Images[0].Digest != s.digest {
				t.Errorf("%s after %d requests: %s", v.Outcome, s.registry.Requests(), findings(j))
			}
			if got := findings(j); strings.Contains(got, says) != (c.want == gate.OutcomeWarn) {
				t.Error(got)
			}
		})
	}
}

// Another Gate had more of the image read in between. What is kept of that must not show: the
// verdict has to be that of a process which knows nothing.
func TestJudge_SaysTheSameWhoeverAskedBefore(t *testing.T) {
	s := newStand(t)
	if err := s.other.SignTag(s.registry.Host()+"/shop/signed", s.digest); err != nil {
		t.Fatal(err)
	}
	rule := &s.files.GateList[0].Spec.Images[0]
	rule.Authorities = append(rule.Authorities, v1beta1.Authority{Name: "audit-key", Key: &v1beta1.PublicKey{Inline: s.other.PublicPEM}})
	judge := gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{}))
	said := func(require string) string {
		rule.Require = new(intstr.FromString(require))
		return string(judge.Workload(t.Context(), workload(s.image("signed")), nil).Verdicts[0].Canonical())
	}
	before, all := said("any"), said("all")
	if !strings.Contains(all, `"authority":"audit-key,release-key"`) {
		t.Fatalf("the second signature is not read: %s", all)
	}
	if after := said("any"); after != before {
		t.Errorf("%s\nand with more in memory\n%s", before, after)
	}
}

// A pod in the operator's namespace can have the keys that sign there, and the operator's
// rights, and Gates come by the same merges as Workloads.
func TestJudge_NoWorkloadRunsInTheOperatorsNamespace(t *testing.T) {
	s := newStand(t)
	w := workload(s.image("signed"))
	s.files.OperatorNamespace = "sluice-system"
	s.files.Namespaces["sluice-system"] = s.files.Namespaces[w.Namespace]
	s.files.GateList[0].Spec.Mode = v1beta1.GateModeAudit
	if j := s.judge(w, nil); j.Blocked() {
		t.Fatalf("elsewhere: %s", findings(j))
	}
	w.Namespace = "sluice-system"
	j := s.judge(w, nil)
	if !j.Blocked() || len(j.Attests) != 0 || !strings.Contains(findings(j), "namespace sluice-system is the operator's own") {
		t.Errorf("%s", findings(j))
	}
}
