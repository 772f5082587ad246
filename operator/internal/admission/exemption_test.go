package admission_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/admission"
)

func exemptionOf(name string, expires time.Time, images ...string) *v1beta1.Exemption {
	return &v1beta1.Exemption{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.ExemptionKind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.ExemptionSpec{
			Reason: "incident 4711", Expires: metav1.NewTime(expires), Gates: []string{"enforce"}, Policies: []string{"signature"},
			Objects: []v1beta1.ExemptedObject{{Kind: "Workload", Namespace: "enforce", Name: name}}, Images: images,
		},
	}
}

func TestExemptions_AreRefusedByTheFieldsPath(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1beta1.Exemption)
		path   string
	}{
		"one that is over": {func(e *v1beta1.Exemption) { e.Spec.Expires = metav1.NewTime(time.Now().Add(-time.Minute)) }, "spec.expires"},
		"every image":      {func(e *v1beta1.Exemption) { e.Spec.Images = []string{"**"} }, "spec.images[0]"},
		"the operator":     {func(e *v1beta1.Exemption) { e.Spec.Objects[0].Namespace = operatorNamespace }, "spec.objects[0].namespace"},
		"a Gate":           {func(e *v1beta1.Exemption) { e.Spec.Objects[0].Kind = "Gate" }, "spec.objects[0].kind"},
		"no Gate at all":   {func(e *v1beta1.Exemption) { e.Spec.Policies = []string{"gate"} }, "spec.policies[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			e := exemptionOf("refused", time.Now().Add(time.Hour))
			c.change(e)
			if err := api.Create(t.Context(), e); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.path+":") {
				t.Errorf("create: %v", err)
			}
		})
	}
	if got := post(t, admission.PathExemption, "application/json", encoded(t, review(t, "CREATE", "", gateFor("g", v1beta1.GateModeWarn), nil))); got.Allowed {
		t.Error("a Gate passes for an Exemption")
	}
}

// What was stored before the operator knew better, or while no webhook was there, has to be
// able to go away.
func TestGatesAndExemptions_GoAlthoughTheyAreWrong(t *testing.T) {
	gone := metav1.NewTime(time.Unix(1, 0))
	gate := gateFor("wrong", v1beta1.GateModeEnforce)
	gate.Spec.Policies = []v1beta1.PolicySource{{Builtin: "of-an-older-version"}}
	exemption := exemptionOf("wrong", time.Now().Add(time.Hour), "**")
	for path, o := range map[string]client.Object{admission.PathGate: gate, admission.PathExemption: exemption} {
		held := o.DeepCopyObject().(client.Object)
		held.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
		if got := ask(t, path, review(t, "UPDATE", "", o, held)); got.Allowed {
			t.Errorf("%s: one that stays passes", path)
		}
		held.SetDeletionTimestamp(&gone)
		o.SetDeletionTimestamp(&gone)
		if got := ask(t, path, review(t, "UPDATE", "", o, held)); !got.Allowed {
			t.Errorf("%s: one that goes is held back: %s", path, got.Result.Message)
		}
		if got := ask(t, path, review(t, "CREATE", "", o, nil)); got.Allowed {
			t.Errorf("%s: one that says of itself that it goes is made", path)
		}
	}
	before := gate.DeepCopy()
	gate.Spec.Mode = v1beta1.GateModeAudit
	if got := ask(t, admission.PathGate, review(t, "UPDATE", "", gate, before)); got.Allowed {
		t.Error("a Gate on its way out is changed")
	}
}

func TestExemptions_WarnOfARuleThatIsNotThere(t *testing.T) {
	e := exemptionOf("typo", time.Now().Add(time.Hour))
	e.Spec.Policies = []string{"signature", "restricted/privileged", "house-rules/anything", "baseline/privilegd"}
	got := post(t, admission.PathExemption, "application/json", encoded(t, review(t, "CREATE", "", e, nil)))
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "spec.policies[3]") || !strings.Contains(got.Warnings[0], "baseline/privileged") {
		t.Errorf("allowed %v, warnings %q", got.Allowed, got.Warnings)
	}
}

func TestExemptions_EndWhenTheyAreToldTo(t *testing.T) {
	e := exemptionOf("revoked", time.Now().Add(time.Hour))
	if err := api.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), e) })
	e.Spec.Expires = metav1.NewTime(time.Now().Add(-time.Minute))
	if err := api.Update(t.Context(), e); err != nil {
		t.Errorf("revoke: %v", err)
	}
	e.Labels = map[string]string{"seen": "yes"}
	if err := api.Update(t.Context(), e); err != nil {
		t.Errorf("label an expired one: %v", err)
	}
}

func TestWorkloads_AreExemptedWithAWarning(t *testing.T) {
	unsigned := push(t, "shop/exempted", false)
	bad := workload("enforce", "exempted", unsigned)
	asked := func() (allowed bool, warnings, verdicts string) {
		got := ask(t, admission.PathWorkload, review(t, "CREATE", "", bad, nil))
		return got.Allowed, strings.Join(got.Warnings, "\n"), got.AuditAnnotations["verdicts"]
	}
	if allowed, _, _ := asked(); allowed {
		t.Fatal("an unsigned image is let through")
	}
	e := exemptionOf("exempted", time.Now().Add(time.Hour), depot.Host()+"/shop/exempted")
	if err := api.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	var warnings, verdicts string
	eventually(t, func() bool {
		var allowed bool
		allowed, warnings, verdicts = asked()
		return allowed
	})
	if want := "exempted by exempted until " + e.Spec.Expires.UTC().Format(time.RFC3339) + ` because "incident 4711"`; !strings.Contains(warnings, want) {
		t.Errorf("warnings %q", warnings)
	}
	if !strings.Contains(verdicts, `"exemptions":[{"expires":`) || !strings.Contains(verdicts, `"outcome":"Unsigned"`) {
		t.Errorf("audit: %s", verdicts)
	}
	if err := api.Delete(t.Context(), e); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { allowed, _, _ := asked(); return !allowed })
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), poll, patience, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatal(err)
	}
}
