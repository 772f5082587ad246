package admission_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/admission"
	"github.com/sluice-dev/sluice/operator/internal/report"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestWorkloads_AnswerReviews(t *testing.T) {
	signed, unsigned := push(t, "shop/signed", true), push(t, "shop/unsigned", false)
	broken := push(t, "shop/broken", true)
	depot.Override(testkit.PathContains("shop/broken"), testkit.Status(http.StatusInternalServerError))
	t.Cleanup(depot.Restore)
	good, bad := workload("enforce", "web", signed), workload("enforce", "web", unsigned)
	for name, tc := range map[string]struct {
		review *admissionv1.AdmissionReview
		// code is 0 where the write is let through.
		code     int32
		message  string
		warnings int
		verdict  string
	}{
		"a signed image is let through":        {review: review(t, "CREATE", "", good, nil), verdict: `"verdict":"Allow"`},
		"an unsigned image is denied":          {review: review(t, "CREATE", "", bad, nil), code: 403, message: "denied by gate enforce", verdict: `"verdict":"Deny"`},
		"an outage is no denial":               {review: review(t, "CREATE", "", workload("enforce", "web", broken), nil), code: 503, message: "could not decide", verdict: `"verdict":"Error"`},
		"an update to an unsigned one":         {review: review(t, "UPDATE", "", bad, good), code: 403, message: "denied by gate enforce", verdict: `"verdict":"Deny"`},
		"an update that also scales down":      {review: review(t, "UPDATE", "", scaledTo(bad, 0), scaledTo(good, 5)), code: 403, message: "denied by gate enforce", verdict: `"verdict":"Deny"`},
		"an update that changes nothing":       {review: review(t, "UPDATE", "", bad, bad), code: 403, message: "denied by gate enforce", verdict: `"verdict":"Deny"`},
		"Warn lets it through and warns":       {review: review(t, "CREATE", "", workload("warn", "web", unsigned), nil), warnings: 1, verdict: `"verdict":"Warn"`},
		"Warn warns of an outage":              {review: review(t, "CREATE", "", workload("warn", "web", broken), nil), warnings: 1, verdict: `"verdict":"Warn"`},
		"Audit lets it through in silence":     {review: review(t, "CREATE", "", workload("audit", "web", unsigned), nil), verdict: `"verdict":"Allow"`},
		"no Gate is a denial":                  {review: review(t, "CREATE", "", workload("default", "web", signed), nil), code: 403, message: "no Gate matches", verdict: `"verdict":"Deny"`},
		"a deleted one may lose a finalizer":   {review: review(t, "UPDATE", "", deleted(bad), deleted(bad)), message: "being deleted"},
		"a deleted one may not change":         {review: review(t, "UPDATE", "", deleted(bad), deleted(good)), code: 403, message: "denied by gate enforce", verdict: `"verdict":"Deny"`},
		"a new one cannot claim to be deleted": {review: review(t, "CREATE", "", deleted(bad), nil), code: 403, message: "denied by gate enforce", verdict: `"verdict":"Deny"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, admission.PathWorkload, tc.review)
			if got.UID != "u-1" || got.Allowed != (tc.code == 0) || (tc.code != 0 && got.Result.Code != tc.code) {
				t.Errorf("allowed %t with %+v", got.Allowed, got.Result)
			}
			if tc.message != "" && !strings.Contains(got.Result.Message, tc.message) {
				t.Errorf("message %q", got.Result.Message)
			}
			if len(got.Warnings) != tc.warnings {
				t.Errorf("warnings %q", got.Warnings)
			}
			if verdicts := got.AuditAnnotations["verdicts"]; !strings.Contains(verdicts, tc.verdict) {
				t.Errorf("audit: %s", verdicts)
			}
		})
	}
}

func scaledTo(w *v1beta1.Workload, n int32) *v1beta1.Workload {
	out := w.DeepCopy()
	out.Spec.Replicas = &n
	return out
}

func deleted(w *v1beta1.Workload) *v1beta1.Workload {
	out := w.DeepCopy()
	now := metav1.NewTime(time.Unix(1, 0))
	out.DeletionTimestamp = &now
	return out
}

// What is not understood is not let through.
func TestWorkloads_RefuseWhatTheyDoNotUnderstand(t *testing.T) {
	w := workload("enforce", "web", push(t, "shop/known", true))
	old := strings.Replace(string(encoded(t, w)), "v1beta1", "v9", 1)
	noReplicas := w.DeepCopy()
	noReplicas.Spec.Replicas = nil
	for name, r := range map[string]*admissionv1.AdmissionReview{
		"no object":                  review(t, "CREATE", "", `null`, nil),
		"an object without a kind":   review(t, "CREATE", "", `{"spec":{"image":"a"}}`, nil),
		"an unknown version":         review(t, "CREATE", "", old, nil),
		"another kind of ours":       review(t, "CREATE", "", gateFor("x", v1beta1.GateModeEnforce), nil),
		"a list for a spec":          review(t, "CREATE", "", `{"apiVersion":"sluice.dev/v1beta1","kind":"Workload","spec":[]}`, nil),
		"no default was set":         review(t, "CREATE", "", noReplicas, nil),
		"a scale of another kind":    review(t, "UPDATE", "scale", w, nil),
		"an old object that is none": review(t, "UPDATE", "", deleted(w), `{"apiVersion":"v1","kind":"Secret"}`),
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, admission.PathWorkload, r); got.Allowed || got.Result.Code != http.StatusBadRequest {
				t.Errorf("allowed %t with %+v", got.Allowed, got.Result)
			}
		})
	}
	for name, body := range map[string]string{
		"garbage": "\x00\xff{{{", "an empty body": "", "a list": "[]", "another kind": `{"apiVersion":"v1","kind":"Secret"}`,
		"a review without a request": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
		"deep nesting":               `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"object":` + strings.Repeat("[", 20000),
	} {
		for _, path := range []string{admission.PathWorkload, admission.PathGate, admission.PathExemption} {
			t.Run(name+path, func(t *testing.T) {
				if got := post(t, path, "application/json", []byte(body)); got.Allowed {
					t.Errorf("allowed: %+v", got)
				}
			})
		}
	}
	if got := post(t, admission.PathGate, "application/json", encoded(t, review(t, "CREATE", "", w, nil))); got.Allowed {
		t.Error("a Workload passes for a Gate")
	}
}

func TestWorkloads_JudgeTheScaleSubresource(t *testing.T) {
	image := push(t, "shop/scaled", true)
	w := workload("enforce", "scaled", image)
	if err := api.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	scale := func(name string, n int32) *autoscalingv1.Scale {
		return &autoscalingv1.Scale{
			TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "enforce"}, Spec: autoscalingv1.ScaleSpec{Replicas: n},
		}
	}
	if got := ask(t, admission.PathWorkload, review(t, "UPDATE", "scale", scale("scaled", 3), nil)); !got.Allowed {
		t.Errorf("refused: %+v", got.Result)
	}
	if got := ask(t, admission.PathWorkload, review(t, "UPDATE", "scale", scale("nobody", 3), nil)); got.Allowed || got.Result.Code != http.StatusNotFound {
		t.Errorf("got %+v", got.Result)
	}
	if err := api.SubResource("scale").Update(t.Context(), w, client.WithSubResourceBody(scale("scaled", 2))); err != nil {
		t.Errorf("kubectl scale: %v", err)
	}
}

// Through the API server: its codes, its defaults, its view of a request.
func TestWorkloads_GuardTheAPIServer(t *testing.T) {
	signed, unsigned := push(t, "shop/front", true), push(t, "shop/back", false)
	bad := workload("enforce", "bad", unsigned)
	err := api.Create(t.Context(), bad)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied by gate enforce") || !strings.Contains(err.Error(), "spec.template.spec.containers[0].image") {
		t.Errorf("create: %v", err)
	}
	w := workload("enforce", "good", signed)
	if err := api.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	zero := int32(0)
	w.Spec.Image, w.Spec.Replicas = unsigned, &zero
	if err := api.Update(t.Context(), w); !apierrors.IsForbidden(err) {
		t.Errorf("another image with a scale-down: %v", err)
	}
	patch := `{"spec":{"image":"` + unsigned + `"}}`
	if err := api.Patch(t.Context(), w, client.RawPatch(types.MergePatchType, []byte(patch))); !apierrors.IsForbidden(err) {
		t.Errorf("patch: %v", err)
	}
	// A status write cannot carry a spec along.
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
		t.Fatal(err)
	}
	w.Spec.Image = unsigned
	if err := api.Status().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil || w.Spec.Image != signed {
		t.Errorf("image %s, %v", w.Spec.Image, err)
	}
	depot.Override(testkit.PathContains("shop/dark"), testkit.Status(http.StatusInternalServerError))
	t.Cleanup(depot.Restore)
	if err := api.Create(t.Context(), workload("enforce", "dark", depot.Host()+"/shop/dark:1")); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("an outage: %v", err)
	}
}

// What the pull request printed and what admission logs has to be the same bytes.
func TestWorkloads_LogTheCanonicalVerdict(t *testing.T) {
	for _, signed := range []bool{true, false} {
		w := workload("enforce", "web", push(t, "shop/canonical-"+strconv.FormatBool(signed), signed))
		want := string(report.JSON(judge.Workload(t.Context(), w, nil).Verdicts))
		if got := ask(t, admission.PathWorkload, review(t, "CREATE", "", w, nil)).AuditAnnotations["verdicts"]; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func TestWorkloads_JudgeALargeObjectInTime(t *testing.T) {
	w := workload("enforce", "large", push(t, "shop/large", true))
	w.Spec.Config = &v1beta1.ConfigFiles{MountPath: "/etc/app", Files: map[string]string{"a": strings.Repeat("x", 1000<<10)}}
	start := time.Now()
	if got := ask(t, admission.PathWorkload, review(t, "UPDATE", "", w, w)); !got.Allowed {
		t.Errorf("refused: %+v", got.Result)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s of the ten seconds that the API server waits", took)
	}
	huge := w.DeepCopy()
	huge.Spec.Config.Files["a"] = strings.Repeat("x", 8<<20)
	if got := ask(t, admission.PathWorkload, review(t, "CREATE", "", huge, nil)); got.Allowed {
		t.Error("8 MiB, more than any API server sends, are let through")
	}
}

const rule = "spec.images[0]"

// refusals are changes to a good Gate, and the field that is refused then; none where it
// is taken. They are functions since the key is made when the suite starts.
var refusals = map[string]struct {
	change func(*v1beta1.Gate)
	// path of the field; empty where the Gate is taken.
	path string
}{
	"a good one":                   {func(*v1beta1.Gate) {}, ""},
	"a good key":                   {func(g *v1beta1.Gate) { inline(signer.PublicPEM)(g) }, ""},
	"no authority":                 {func(g *v1beta1.Gate) { g.Spec.Images[0].Authorities = nil }, rule},
	"an authority without a key":   {authority(v1beta1.Authority{Name: "a"}), rule + ".authorities[0]"},
	"a private key":                {func(g *v1beta1.Gate) { inline(signer.PrivatePEM)(g) }, rule + ".authorities[0].key.inline"},
	"a key that is none":           {inline("AAAA"), rule + ".authorities[0].key.inline"},
	"an unknown group of policies": {func(g *v1beta1.Gate) { g.Spec.Policies = []v1beta1.PolicySource{{Builtin: "nonesuch"}} }, "spec.policies[0].builtin"},
	"a misspelt parameter": {func(g *v1beta1.Gate) {
		g.Spec.Policies = []v1beta1.PolicySource{{Builtin: "reliability"}}
		g.Spec.Parameters = map[string]apiextensionsv1.JSON{"reliability": {Raw: []byte(`{"minReplica": 2}`)}}
	}, "spec.parameters.reliability.minReplica: Invalid value"},
	"a pattern without a host":        {func(g *v1beta1.Gate) { g.Spec.Images[0].Match = "shop/**" }, rule + ".match"},
	"a pattern that matches any host": {func(g *v1beta1.Gate) { g.Spec.Images[0].Match = "**/shop/web" }, rule + ".match"},
	"a pattern with a star for host":  {func(g *v1beta1.Gate) { g.Spec.Images[0].Match = "*/shop/web" }, rule + ".match"},
	"a pattern with a tag":            {func(g *v1beta1.Gate) { g.Spec.Images[0].Match = "registry.example.com/shop/web:1" }, rule + ".match"},
	"an empty pattern":                {func(g *v1beta1.Gate) { g.Spec.Images[0].Match = "" }, rule + ".match"},
	"a Secret elsewhere": {authority(v1beta1.Authority{Key: &v1beta1.PublicKey{Secret: &v1beta1.SecretKeyRef{
		NamespacedName: v1beta1.NamespacedName{Name: "s", Namespace: "shop"}, Key: "k"}}}), rule + ".authorities[0].key.secret.namespace"},
	"a ConfigMap elsewhere": {func(g *v1beta1.Gate) {
		g.Spec.Policies = []v1beta1.PolicySource{{ConfigMap: &v1beta1.NamespacedName{Name: "c", Namespace: "shop"}}}
	}, "spec.policies[0].configMap.namespace"},
	"a policy bundle":                 {judgesBy(func(*v1beta1.PolicyBundle) {}), ""},
	"a policy bundle by a short name": {judgesBy(func(b *v1beta1.PolicyBundle) { b.Ref = strings.TrimPrefix(b.Ref, "registry.example.com/") }), "spec.policies[0].oci.ref: Invalid value"},
	"a policy bundle by no pattern": {judgesBy(func(b *v1beta1.PolicyBundle) {
		b.Authorities = []v1beta1.Authority{{Keyless: &v1beta1.Keyless{Issuer: "https://issuer.example.com", SubjectRegExp: ".*"}}}
	}), "spec.policies[0].oci.authorities[0].keyless"},
	"a policy bundle by a key elsewhere": {judgesBy(func(b *v1beta1.PolicyBundle) {
		b.Authorities = []v1beta1.Authority{{Key: &v1beta1.PublicKey{Secret: elsewhere}}}
	}), "spec.policies[0].oci.authorities[0].key.secret.namespace"},
	"a policy bundle with a login of elsewhere": {judgesBy(func(b *v1beta1.PolicyBundle) {
		b.RegistrySecret = &v1beta1.NamespacedName{Name: "read", Namespace: "shop"}
	}), "spec.policies[0].oci.registrySecret.namespace"},
	"one authority twice": {func(g *v1beta1.Gate) {
		g.Spec.Images[0].Authorities = []v1beta1.Authority{{Name: "a", Key: &v1beta1.PublicKey{Inline: signer.PublicPEM}}, {Name: "a", Key: &v1beta1.PublicKey{Inline: signer.PublicPEM}}}
	}, rule + ".authorities[1].name"},
	"a key elsewhere for evidence of another environment": {func(g *v1beta1.Gate) {
		g.Spec.RequirePromotionFrom = &v1beta1.RequirePromotionFrom{Environment: "ci", Authorities: []v1beta1.Authority{{Key: &v1beta1.PublicKey{Secret: elsewhere}}}}
	}, "spec.requirePromotionFrom.authorities[0].key.secret.namespace"},
	"a key to sign with":                      {attests(func(*v1beta1.Attest) {}), ""},
	"a key to sign with elsewhere":            {attests(func(a *v1beta1.Attest) { a.Key = v1beta1.PrivateKey{Secret: elsewhere} }), "spec.attest.key.secret.namespace"},
	"a key to sign with and no other service": {attests(func(a *v1beta1.Attest) { a.Key.KMS = "awskms://alias/e2e" }), "spec.attest.key.kms"},
	"two keys to sign with":                   {attests(func(a *v1beta1.Attest) { a.Key.Secret = elsewhere }), "spec.attest.key"},
	"a soak of a year":                        {attests(func(a *v1beta1.Attest) { a.Soak = &metav1.Duration{Duration: 8760 * time.Hour} }), "spec.attest.soak"},
	"credentials to push with elsewhere": {attests(func(a *v1beta1.Attest) {
		a.RegistrySecret = &v1beta1.NamespacedName{Name: "push", Namespace: "shop"}
	}), "spec.attest.registrySecret.namespace"},
	"evidence of its own by a key elsewhere": {attests(func(a *v1beta1.Attest) {
		a.Authorities = []v1beta1.Authority{{Key: &v1beta1.PublicKey{Secret: elsewhere}}}
	}), "spec.attest.authorities[0].key.secret.namespace"},
	"evidence of its own by anybody": {attests(func(a *v1beta1.Attest) { a.Authorities = []v1beta1.Authority{{Name: "a"}} }), "spec.attest.authorities[0]"},
	"a selector that is none": {func(g *v1beta1.Gate) {
		g.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	}, "spec.match"},
}

// elsewhere is a key in a namespace that is not the operator's.
var elsewhere = &v1beta1.SecretKeyRef{NamespacedName: v1beta1.NamespacedName{Name: "s", Namespace: "shop"}, Key: "k"}

// judgesBy has the Gate judge by a policy bundle, changed.
func judgesBy(change func(*v1beta1.PolicyBundle)) func(*v1beta1.Gate) {
	return func(g *v1beta1.Gate) {
		b := &v1beta1.PolicyBundle{
			Ref: "registry.example.com/policies/prod@sha256:" + strings.Repeat("0", 64), Authorities: []v1beta1.Authority{{Key: &v1beta1.PublicKey{Inline: signer.PublicPEM}}},
		}
		change(b)
		g.Spec.Policies = []v1beta1.PolicySource{{OCI: b}}
	}
}

// attests has the Gate attest with a key in Vault, changed.
func attests(change func(*v1beta1.Attest)) func(*v1beta1.Gate) {
	return func(g *v1beta1.Gate) {
		g.Spec.Attest = &v1beta1.Attest{Key: v1beta1.PrivateKey{KMS: "hashivault://e2e"}}
		change(g.Spec.Attest)
	}
}

func authority(a v1beta1.Authority) func(*v1beta1.Gate) {
	return func(g *v1beta1.Gate) { g.Spec.Images[0].Authorities = []v1beta1.Authority{a} }
}

func inline(pem string) func(*v1beta1.Gate) {
	return authority(v1beta1.Authority{Key: &v1beta1.PublicKey{Inline: pem}})
}

func TestGates_RefuseWhatCouldNotDoWhatItSays(t *testing.T) {
	for name, tc := range refusals {
		t.Run(name, func(t *testing.T) {
			g := gateFor("tested", v1beta1.GateModeEnforce)
			tc.change(g)
			// No namespace has this label: the Gate guards nothing while it is there.
			err := api.Create(t.Context(), g)
			if tc.path == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				if err := api.Delete(t.Context(), g); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.path) {
				t.Errorf("got %v, want a refusal of %s", err, tc.path)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE KEY-----\n") {
				t.Errorf("the message shows the key: %v", err)
			}
		})
	}
}

// An edit that wipes the bundle takes the gate down; the rotation puts it back by watch.
func TestRotation_PutsAWipedBundleBack(t *testing.T) {
	config, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Patch(t.Context(), config, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`))); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return injected(ctx, configuration)
	})
	if err != nil {
		t.Error(err)
	}
}
