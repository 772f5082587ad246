package workload

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestReconcile_GivesASignedWorkloadItsChildren(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", func(w *v1beta1.Workload) {
		w.Spec.Version, w.Spec.Tenant = "1.2.3", "shop"
		w.Spec.Replicas = int32Of(2)
	})
	_, digest := pushSigned(t, b.namespace+"/web:1")
	b.must(w)
	b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
	children := b.children()
	for _, name := range []string{"ServiceAccount/web", "NetworkPolicy/web", "Service/web", "PodDisruptionBudget/web", "Deployment/web"} {
		c, ok := children[name]
		if !ok {
			t.Fatalf("no %s among %v", name, names(children))
		}
		owner := metav1.GetControllerOf(c)
		if owner == nil || owner.UID != w.UID || owner.Kind != "Workload" || !*owner.BlockOwnerDeletion {
			t.Errorf("%s has owner %+v", name, owner)
		}
		for key, want := range map[string]string{
			render.LabelManagedBy: "sluice", render.LabelInstance: "web", "app.kubernetes.io/name": "web", "app.kubernetes.io/version": "1.2.3", "sluice.dev/tenant": "shop",
		} {
			if got := c.GetLabels()[key]; got != want {
				t.Errorf("%s has label %s=%q, want %q", name, key, got, want)
			}
		}
	}
	wantImage := depot.Host() + "/" + b.namespace + "/web@" + digest
	if got := imageOf(t, children["Deployment/web"]); got != wantImage {
		t.Errorf("the pods run %s, want %s", got, wantImage)
	}
	if diff := cmp.Diff([]v1beta1.ImageStatus{{Image: w.Spec.Image, Digest: digest, SignedBy: "release-key"}}, w.Status.Images); diff != "" {
		t.Error(diff)
	}
	if w.Status.Gate == nil || w.Status.Gate.Verdict != "Allow" || w.Status.Gate.Gate != environment || !strings.HasPrefix(w.Status.Gate.PolicyDigest, "sha256:") {
		t.Errorf("gate: %+v", w.Status.Gate)
	}
	if !slices.Contains(w.Finalizers, finalizer) {
		t.Errorf("finalizers: %v", w.Finalizers)
	}
	b.healthy(w)
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if w.Status.Replicas != 2 || w.Status.AvailableReplicas != 2 || len(w.Status.Inventory) != len(children) {
		t.Errorf("status: %+v", w.Status)
	}
}

// One write for each child, one for the finalizer and one for status: no child is written
// twice.
func TestReconcile_CreatesWithOneWriteForEachObject(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", everything)
	b.must(w)
	want := []string{
		"apply Workload", "apply ServiceAccount", "apply ConfigMap", "apply NetworkPolicy", "apply Service",
		"apply PodDisruptionBudget", "apply CronJob", "apply StatefulSet", "apply status of Workload",
	}
	if diff := cmp.Diff(want, b.taken()); diff != "" {
		t.Error(diff)
	}
	b.healthy(w)
	b.must(w)
	if diff := cmp.Diff([]string{"apply status of Workload"}, b.taken()); diff != "" {
		t.Error("on becoming Ready: " + diff)
	}
}

func TestReconcile_ScalesByTheScaleSubresource(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	scale := &autoscalingv1.Scale{}
	if err := api.SubResource("scale").Get(t.Context(), w, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 1 || scale.Status.Replicas != 1 || scale.Status.Selector != "app.kubernetes.io/instance=web,app.kubernetes.io/name=web" {
		t.Errorf("scale: %+v", scale)
	}
	scale.Spec.Replicas = 3
	if err := api.SubResource("scale").Update(t.Context(), w, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	if got := b.child("Deployment", "web"); nestedInt(got, "spec", "replicas") != 3 {
		t.Errorf("replicas: %v", got.Object["spec"])
	}
	if got := b.child("PodDisruptionBudget", "web"); got == nil {
		t.Error("no PodDisruptionBudget at three replicas")
	}
}

func TestReconcile_BlocksAnUnsignedImageAndSaysSoOnce(t *testing.T) {
	b := newBench(t)
	image, digest := push(t, b.namespace+"/web:1", "unsigned")
	w := b.workload("web", func(w *v1beta1.Workload) { w.Spec.Image = image })
	// The builder has signed another image of that name; the tag is moved back to this one.
	push(t, b.namespace+"/web:1", "unsigned")
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	if children := names(b.children()); len(children) > 0 {
		t.Errorf("children of a denied Workload: %v", children)
	}
	if len(w.Finalizers) > 0 {
		t.Errorf("a denied Workload was given finalizers %v", w.Finalizers)
	}
	if v := w.Status.Gate.Violations; len(v) != 1 || v[0].Policy != "signature" || !strings.Contains(v[0].Message, digest) && !strings.Contains(v[0].Message, "sign") {
		t.Errorf("violations: %+v", v)
	}
	if events := b.told(); len(events) != 1 || !strings.HasPrefix(events[0], "Warning Denied ") {
		t.Errorf("events: %q", events)
	}
	b.taken()
	version := w.ResourceVersion
	for range 5 {
		if result := b.must(w); result.RequeueAfter != recheckBlocked {
			t.Errorf("judged again after %s", result.RequeueAfter)
		}
	}
	if writes, events := b.taken(), b.told(); len(writes)+len(events) > 0 || w.ResourceVersion != version {
		t.Errorf("at rest: writes %v, events %q", writes, events)
	}
	sign(t, signer, image, digest)
	b.restart() // an absent signature is remembered for two seconds
	b.must(w)
	b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
}

func TestReconcile_LeavesTheLastGoodChildrenWhenAnUpdateIsDenied(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	before := b.children()
	image, _ := push(t, b.namespace+"/evil:1", "evil")
	b.update(w, func(w *v1beta1.Workload) {
		w.Spec.Image, w.Spec.Replicas = image, int32Of(0)
		w.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	})
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	if diff := cmp.Diff(before, b.children()); diff != "" {
		t.Errorf("children changed: %s", diff)
	}
	if w.Status.AvailableReplicas != 1 || w.Status.Images[0].Digest != "" {
		t.Errorf("status of what runs: %+v", w.Status)
	}
	if m := conditionOf(w, v1beta1.ConditionStalled).Message; !strings.Contains(m, "signature: Deployment/") || !strings.Contains(m, "spec.template.spec.containers[0].image") {
		t.Errorf("the reason does not say where: %s", m)
	}
}

func TestReconcile_CallsAnOutageAnErrorAndKeepsReady(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	before := b.children()
	// Another repository for each test: the overrides hit this one alone.
	depot.Override(testkit.PathContains(b.namespace), testkit.Status(http.StatusInternalServerError))
	t.Cleanup(depot.Restore)
	b.restart()
	if _, err := b.reconcile(w); err == nil {
		t.Fatal("an outage is retried with backoff, by returning an error")
	}
	b.read(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if g := conditionOf(w, v1beta1.ConditionGated); g.Status != metav1.ConditionUnknown || g.Reason != reasonUndecided {
		t.Errorf("Gated: %+v", g)
	}
	if w.Status.Gate.Verdict != "Error" || w.Status.Images[0].Digest == "" {
		t.Errorf("status: %+v", w.Status)
	}
	if diff := cmp.Diff(before, b.children()); diff != "" {
		t.Errorf("children changed: %s", diff)
	}

	b.update(w, func(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(2) })
	if _, err := b.reconcile(w); err == nil {
		t.Fatal("no error")
	}
	b.read(w)
	b.expect(w, v1beta1.PhaseGating, reasonUndecided)
	if diff := cmp.Diff(before, b.children()); diff != "" {
		t.Errorf("children changed by a spec that was not judged: %s", diff)
	}
	depot.Restore()
	b.restart()
	b.must(w)
	b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
}

func TestReconcile_KeepsTheDigestOfAGenerationWhenTheTagMoves(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	first := w.Status.Images[0].Digest
	_, second := push(t, b.namespace+"/web:1", "another content")
	sign(t, signer, w.Spec.Image, second)

	for name, lose := range map[string]func(){
		"in the same process": func() {},
		"after a restart":     b.restart,
		"when the pods' controller was deleted": func() {
			if err := api.Delete(t.Context(), b.child("Deployment", "web")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		lose()
		b.must(w)
		if got := w.Status.Images[0].Digest; got != first {
			t.Errorf("%s: digest %s, want %s", name, got, first)
		}
		if got := imageOf(t, b.child("Deployment", "web")); !strings.HasSuffix(got, first) {
			t.Errorf("%s: the pods run %s", name, got)
		}
	}
	depot.ResetCounts()
	b.must(w)
	if n := depot.Counts()["HEAD manifests"]; n != 0 {
		t.Errorf("a Workload at rest asked %d times what its tag stands for", n)
	}
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} })
	b.must(w)
	if got := imageOf(t, b.child("Deployment", "web")); !strings.HasSuffix(got, second) {
		t.Errorf("a new spec runs %s, want the digest that the tag stands for now", got)
	}
}

// An older image whose signature is as good would be a way back to a hole that was closed.
func TestReconcile_DoesNotTakeDigestsFromAForgedNote(t *testing.T) {
	b := newBench(t)
	_, old := pushSigned(t, b.namespace+"/web:old")
	w := b.running("web")
	first := w.Status.Images[0].Digest
	for name, note := range map[string]string{
		"an older signed image":    fmt.Sprintf(`{"generation":%d,"digests":{%q:%q}}`, w.Generation, w.Spec.Image, old),
		"something that no digest": fmt.Sprintf(`{"generation":%d,"digests":{%q:"../../etc"}}`, w.Generation, w.Spec.Image),
		"something that no JSON":   "\x00{",
	} {
		t.Run(name, func(t *testing.T) {
			d := b.child("Deployment", "web")
			annotations := d.GetAnnotations()
			annotations[annotationResolved] = note
			d.SetAnnotations(annotations)
			if err := api.Update(t.Context(), d, client.FieldOwner("intruder")); err != nil {
				t.Fatal(err)
			}
			b.restart()
			b.must(w)
			if got := imageOf(t, b.child("Deployment", "web")); !strings.HasSuffix(got, first) {
				t.Errorf("the pods run %s, want %s", got, first)
			}
			if events := strings.Join(b.told(), "\n"); !strings.Contains(events, reasonHealed) || !strings.Contains(events, annotationResolved) {
				t.Errorf("the forgery was put right in silence: %q", events)
			}
		})
	}
}

func TestReconcile_OverwritesAForgedStatusAndNeverUsesIt(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	first := w.Status.Images[0].Digest
	_, old := pushSigned(t, b.namespace+"/web:old")
	genuine := w.Status.DeepCopy()
	w.Status.Images = []v1beta1.ImageStatus{{Image: w.Spec.Image, Digest: old, SignedBy: "release-key"}, {Image: "evil", Digest: old}}
	w.Status.Gate = &v1beta1.GateStatus{Gate: "prod", Verdict: "Allow"}
	w.Status.Drift = &v1beta1.DriftStatus{Changes: []v1beta1.DriftChange{{Object: "forged", Path: "forged", Change: "Added"}}}
	for _, kind := range []string{"Approved", v1beta1.ConditionPromoted} {
		w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: kind, Status: "True", Reason: "Forged", LastTransitionTime: metav1.Now()})
	}
	if err := api.Status().Update(t.Context(), w, client.FieldOwner("intruder")); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.must(w)
	foreign := conditionOf(w, "Approved")
	w.Status.Conditions = ownOnly(w.Status.Conditions)
	genuine.Conditions = ownOnly(genuine.Conditions)
	if diff := cmp.Diff(*genuine, w.Status); diff != "" {
		t.Error(diff)
	}
	if foreign.Reason != "Forged" {
		t.Error("a condition of another type is not the operator's to remove")
	}
	if got := imageOf(t, b.child("Deployment", "web")); !strings.HasSuffix(got, first) {
		t.Errorf("the pods run %s", got)
	}
	b.taken()
	b.must(w)
	if writes := b.taken(); len(writes) > 0 {
		t.Errorf("writes again: %v", writes)
	}
}

func TestReconcile_WaitsForSecretsAndNamesThem(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", func(w *v1beta1.Workload) {
		w.Spec.Secrets = []v1beta1.SecretRef{{Name: "first", EnvFrom: true}, {Name: "second", MountPath: "/second"}}
	})
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "second", Namespace: b.namespace}})
	b.must(w)
	b.expect(w, v1beta1.PhaseWaiting, reasonSecretMissing)
	if m := conditionOf(w, v1beta1.ConditionReady).Message; !strings.Contains(m, b.namespace+"/first ") || strings.Contains(m, "second") {
		t.Errorf("message: %s", m)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "first", Namespace: b.namespace}}
	create(t, secret)
	b.must(w)
	b.healthy(w)
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)

	// What is gone later is told, and drift is still put back.
	if err := api.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.edit("Deployment", "web", func(d *unstructured.Unstructured) { setNested(t, d, int64(9), "spec", "replicas") })
	b.must(w)
	b.expect(w, v1beta1.PhaseWaiting, reasonSecretMissing)
	if got := nestedInt(b.child("Deployment", "web"), "spec", "replicas"); got != 1 {
		t.Errorf("drift was not put back: %d replicas", got)
	}
}

func TestReconcile_WaitsForDependenciesOnTheFirstStartOnly(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", func(w *v1beta1.Workload) { w.Spec.DependsOn = []v1beta1.DependencyRef{{Name: "db"}} })
	b.must(w)
	b.expect(w, v1beta1.PhaseWaiting, reasonDependencyNotReady)
	if m := conditionOf(w, v1beta1.ConditionReady).Message; !strings.Contains(m, b.namespace+"/db (does not exist)") {
		t.Errorf("message: %s", m)
	}
	db := b.workload("db")
	b.must(w)
	if m := conditionOf(w, v1beta1.ConditionReady).Message; !strings.Contains(m, b.namespace+"/db (not Ready)") {
		t.Errorf("message: %s", m)
	}
	b.must(db)
	b.healthy(db)
	b.must(db)
	b.must(w)
	b.healthy(w)
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)

	before := b.child("Deployment", "web")
	b.update(db, func(db *v1beta1.Workload) { db.Spec.Replicas = int32Of(5) })
	b.must(db)
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if c := conditionOf(w, v1beta1.ConditionDependenciesReady); c.Status != metav1.ConditionFalse {
		t.Errorf("the condition hides that the dependency is not Ready: %+v", c)
	}
	if diff := cmp.Diff(before, b.child("Deployment", "web")); diff != "" {
		t.Errorf("a degraded dependency touched its dependent: %s", diff)
	}
}

func TestReconcile_BlocksWhereNoGateMatches(t *testing.T) {
	b := newBench(t)
	b.namespace = namespace(t, "")
	w := b.workload("web")
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	if m := conditionOf(w, v1beta1.ConditionReady).Message; !strings.Contains(m, "no Gate matches") {
		t.Errorf("message: %s", m)
	}
}

func TestReconcile_LeavesAPausedWorkloadAlone(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Paused, w.Spec.Replicas = true, int32Of(4) })
	b.edit("Service", "web", func(s *unstructured.Unstructured) { s.SetLabels(map[string]string{}) })
	before := b.children()
	b.must(w)
	b.expect(w, v1beta1.PhasePaused, reasonPaused)
	if diff := cmp.Diff(before, b.children()); diff != "" {
		t.Error(diff)
	}
}

// The deadline of a write to a child must not be taken for health.
func TestReconcile_IsNotReadyWhenAChildCannotBeWritten(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	b.update(w, func(w *v1beta1.Workload) {
		w.Spec.Backup = &v1beta1.Backup{Schedule: "not a schedule", Image: w.Spec.Image, S3: v1beta1.S3{Bucket: "b", Region: "r"}}
	})
	result := b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonChildRefused)
	if m := conditionOf(w, v1beta1.ConditionReady).Message; !strings.Contains(m, "CronJob") || !strings.Contains(m, "spec.schedule") || result.RequeueAfter != recheckBlocked {
		t.Errorf("message %q, again in %s", m, result.RequeueAfter)
	}
	if got := b.child("Deployment", "web").GetAnnotations()[annotationResolved]; !strings.Contains(got, `"generation":1`) {
		t.Errorf("the pods' controller says that the whole generation was applied: %s", got)
	}

	b.refuse = func(write string) error {
		if write == "apply CronJob" {
			return fmt.Errorf("\x1b[31mthe API server\nhas gone away")
		}
		return nil
	}
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Backup.Schedule = "0 3 * * *" })
	if _, err := b.reconcile(w); err == nil {
		t.Fatal("no error")
	}
	b.read(w)
	b.expect(w, v1beta1.PhaseProgressing, "ApplyFailed")
	b.refuse = nil
	b.must(w)
	b.healthy(w)
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
}

// Trying again does not help, and writing it in another way would not be judged as applied.
func TestReconcile_TellsWhatNoApplyCanHold(t *testing.T) {
	twice := func(w *v1beta1.Workload) {
		w.Spec.Patches = []v1beta1.Patch{{Target: &v1beta1.PatchTarget{Kind: "Deployment"},
			Patch: `[{"op":"add","path":"/spec/template/spec/containers/0/env","value":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}]`}}
	}
	b := newBench(t)
	fresh, w := b.workload("fresh", twice), b.running("web")
	b.must(fresh)
	b.expect(fresh, v1beta1.PhaseBlocked, reasonChildRefused)
	b.update(w, twice)
	before := b.child("Deployment", "web")
	for range 3 {
		b.must(w)
		b.expect(w, v1beta1.PhaseBlocked, reasonChildRefused)
	}
	if m := conditionOf(w, v1beta1.ConditionReady).Message; !strings.Contains(m, "correct the spec") || !strings.Contains(m, `duplicate entries for key [name="A"]`) {
		t.Errorf("message: %s", m)
	}
	if diff := cmp.Diff(before, b.child("Deployment", "web")); diff != "" {
		t.Error(diff)
	}
}

// Whoever takes the operator's notes off a child does not get in what no apply can hold: the
// notes would say that something else runs.
func TestReconcile_WritesInNoOtherWayWhatNoApplyCanHold(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	before, _ := b.release(w)
	b.update(w, func(w *v1beta1.Workload) {
		w.Spec.Patches = []v1beta1.Patch{{Target: &v1beta1.PatchTarget{Kind: "Deployment"},
			Patch: `[{"op":"add","path":"/spec/template/spec/containers/0/env","value":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}]`}}
	})
	for range 3 {
		b.edit("Deployment", "web", func(c *unstructured.Unstructured) { c.SetAnnotations(nil) })
		b.must(w)
		b.expect(w, v1beta1.PhaseBlocked, reasonChildRefused)
		runs(t, b.child("Deployment", "web"), before, 1)
	}
}

func TestReconcile_ReadsAnObservedGenerationThatLagsAsProgressing(t *testing.T) {
	b := newBench(t)
	w := b.running("web")
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} })
	b.must(w)
	b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
}

func TestReconcile_CallsAStatefulSetThatDoesNotMoveDegraded(t *testing.T) {
	b := newBench(t)
	w := b.workload("db", everything)
	b.must(w)
	b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
	b.clock.move(5 * time.Minute)
	if result := b.must(w); result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Minute {
		t.Errorf("looks again in %s, which is past the deadline", result.RequeueAfter)
	}
	b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
	b.clock.move(5 * time.Minute)
	b.must(w)
	b.expect(w, v1beta1.PhaseDegraded, reasonDegraded)
	if m := conditionOf(w, v1beta1.ConditionStalled).Message; !strings.Contains(m, "no progress for 10m0s") {
		t.Errorf("message: %s", m)
	}
	b.healthy(w)
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
}

func TestReconcile_KnowsNothingOfAWorkloadThatIsGone(t *testing.T) {
	b := newBench(t)
	w := &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "nobody", Namespace: b.namespace}}
	if result, err := b.reconcile(w); err != nil || !result.IsZero() || len(b.taken()) > 0 {
		t.Errorf("got %v, %v", result, err)
	}
}
