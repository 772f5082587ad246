package workload

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

var rolloutStories = flag.Uint64("rollout-stories", 2, "how many random stories of rollouts are told, about 10 s each")

const (
	rolloutSteps = 80
	// rolloutSettling is how many reconciles a rollout may need to its end: three for each of
	// at most six steps, and settling for what came before and what comes after.
	rolloutSettling = 3*6 + 2*settling
	watchedFor      = 30 * time.Second
)

// However often a rollout was interrupted, each step on the way is one that the contract
// allows, and the end is that of the last spec alone.
func TestRollout_EndsWhereTheLastSpecAloneWouldHaveLed(t *testing.T) {
	for seed := range *rolloutStories {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			s := newRolloutStory(t, seed)
			for range rolloutSteps {
				s.step()
			}
			s.settle()
			t.Log("looked at in phases ", s.seen)

			alone := newBench(t)
			w := alone.workload("web", func(w *v1beta1.Workload) { s.last.DeepCopyInto(&w.Spec) })
			create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: alone.namespace}})
			calm := &rolloutStory{story: &story{bench: alone, w: w}, gauge: &gauge{}}
			calm.rest()
			want, got := calm.outcome(w), s.outcome(s.w)
			leaveOutLost(got, want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after %s\n-alone +after the story: %s", s.tale(), diff)
			}
		})
	}
}

// rolloutStory is a Workload to which things happen while it is rolled out.
type rolloutStory struct {
	*story
	*contract
	gauge *gauge
	// unplugged says that the registry does not answer as it should.
	unplugged bool
}

func newRolloutStory(t *testing.T, seed uint64) *rolloutStory {
	s := &rolloutStory{story: newStory(t, seed), gauge: &gauge{outcome: v1beta1.MeasurementPassed, value: "0"}}
	t.Cleanup(depot.Restore)
	s.contract = newContract(s.story)
	if (seed+1)/2%2 == 1 {
		s.guard(v1beta1.OnFailureScaleToZero, limits.Reverify)
	}
	s.analysis = s.gauge
	s.restart()
	s.last.Replicas = int32Of(3)
	s.last.Rollout = s.canarySpec()
	s.again()
	s.pass()
	s.pass()
	return s
}

// tale is what happened until now, from the last start of the operator on in full.
func (s *rolloutStory) tale() string { return strings.Join(s.told, ", ") }

func (s *rolloutStory) step() {
	steps := []struct {
		name string
		do   func()
	}{
		{"release", s.release}, {"release", s.release}, {"release", s.release}, {"release", s.release}, {"edit", s.editSpec},
		{"edit the rollout", func() { s.last.Rollout = s.rolloutSpec(); s.again() }},
		{"edit the canary", func() { s.last.Rollout = s.canarySpec(); s.again() }},
		{"take the rollout out", s.takeRolloutOut},
		{"back to the stable spec", s.backToStable}, {"the last spec again", s.again},
		{"change the Secret", s.changeSecret}, {"autoscaler", s.toggleScaler},
		{"scale", func() { s.last.Replicas = int32Of(s.random.Int32N(5)); s.again() }},
		{"denied edit", s.deniedEdit}, {"pause", s.pauses},
		{"delete child", s.deleteChild}, {"drift", s.drift}, {"disown", s.disown},
		{"delete the canary", func() { s.deleteController(true) }}, {"delete the pods' controller", func() { s.deleteController(false) }},
		{"scale a pods' controller", s.scaleByHand}, {"edit the canary's image", s.editCanary},
		{"restart", s.restart}, {"trouble", s.trouble}, {"registry", s.registry}, {"registry is back", s.plugIn},
		{"metrics", s.metrics}, {"metrics are well", func() { s.gauge.outcome = v1beta1.MeasurementPassed }},
		{"time", func() { s.clock.move(time.Duration(s.random.IntN(90)) * time.Second) }},
		{"much time", func() { s.clock.move(time.Duration(s.random.IntN(15)) * time.Minute) }},
		{"pods that start", func() { s.play(false) }}, {"pods that crash", s.crash},
		{"healthy", func() { s.play(true) }}, {"collect", s.collect},
		{"step", s.pass}, {"step", s.pass}, {"step", s.pass}, {"step", s.pass}, {"step", s.pass}, {"step", s.pass}, {"step", s.pass}, {"step", s.pass},
		{"reconcile", s.once}, {"reconcile", s.once}, {"reconcile", s.once}, {"reconcile", s.once}, {"reconcile", s.once},
	}
	next := steps[s.random.IntN(len(steps))]
	s.told = append(s.told, next.name)
	next.do()
}

// again brings the last spec that is allowed back.
func (s *rolloutStory) again() {
	s.change(func(spec *v1beta1.WorkloadSpec) { s.last.DeepCopyInto(spec) })
	s.last = *s.w.Spec.DeepCopy()
}

// release is another image, and most often the first of its steps.
func (s *rolloutStory) release() {
	s.last.Image = s.images[s.random.IntN(len(s.images))]
	s.again()
	if s.mostly() {
		s.once()
	}
	if s.mostly() {
		s.pass()
	}
}

func (s *rolloutStory) mostly() bool { return s.random.IntN(3) > 0 }

func (s *rolloutStory) takeRolloutOut() {
	was := s.last.Rollout
	s.last.Rollout = nil
	s.again()
	s.once()
	if s.mostly() {
		s.last.Rollout = was
		s.again()
	}
}

func (s *rolloutStory) deniedEdit() {
	s.change(func(spec *v1beta1.WorkloadSpec) { spec.Image = s.unsigned })
	s.once()
	s.clock.move(time.Duration(s.random.IntN(3)) * time.Minute)
	if s.mostly() {
		s.once()
		s.again()
	}
}

func (s *rolloutStory) backToStable() {
	if k := s.look().record; k != nil {
		k.Spec.DeepCopyInto(&s.last)
		s.last.Paused = false
		s.again()
	}
}

func (s *rolloutStory) rolloutSpec() *v1beta1.Rollout {
	switch s.random.IntN(8) {
	case 0:
		return &v1beta1.Rollout{}
	case 1:
		return &v1beta1.Rollout{RollbackOnFailure: true, ProgressDeadline: &metav1.Duration{Duration: time.Minute}}
	}
	return s.canarySpec()
}

func (s *rolloutStory) canarySpec() *v1beta1.Rollout {
	r := s.random
	two, half := intstr.FromInt32(2), intstr.FromString("50%")
	out := &v1beta1.Rollout{
		Strategy: v1beta1.RolloutCanary, RollbackOnFailure: r.IntN(3) > 0,
		ProgressDeadline: &metav1.Duration{Duration: time.Duration(1+4*r.IntN(2)) * time.Minute},
		Canary:           &v1beta1.Canary{Interval: &metav1.Duration{Duration: watchedFor}, FailureLimit: 1 + r.Int32N(2)},
	}
	switch r.IntN(4) {
	case 0:
		out.Canary.BatchSize = &two
	case 1:
		out.Canary.BatchSize = &half
	case 2:
		out.Canary.Steps = []v1beta1.CanaryStep{{Replicas: intstr.FromInt32(1), Pause: &metav1.Duration{Duration: time.Minute}}, {Replicas: two}}
	}
	if r.IntN(2) == 0 {
		out.Canary.Analysis = &v1beta1.Analysis{
			Metrics: []v1beta1.Metric{{Name: "errors", Query: "up", FailIf: "> 0.01"}}, Timeout: &metav1.Duration{Duration: time.Minute},
			NoData: []v1beta1.NoDataPolicy{v1beta1.NoDataPass, v1beta1.NoDataFail, v1beta1.NoDataWait}[r.IntN(3)],
		}
	}
	return out
}

// restart is a new process, whose writes are watched too.
func (s *rolloutStory) restart() {
	s.story.restart()
	s.fresh = true
	s.r.Client = s.watched(s.r.Client)
}

func (s *rolloutStory) deleteController(canary bool) {
	for _, c := range s.controllers() {
		if (c.GetLabels()[labelTrack] == trackCanary) == canary {
			if err := client.IgnoreNotFound(api.Delete(s.t.Context(), c)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func (s *rolloutStory) scaleByHand() {
	for _, c := range s.controllers() {
		if s.random.IntN(2) == 0 {
			setNested(s.t, c, int64(s.random.IntN(6)), "spec", "replicas")
			s.store(c)
		}
	}
}

func (s *rolloutStory) editCanary() {
	for _, c := range s.controllers() {
		if c.GetLabels()[labelTrack] == trackCanary || s.random.IntN(3) == 0 {
			containers, _, _ := unstructured.NestedSlice(c.Object, "spec", "template", "spec", "containers")
			containers[0].(map[string]any)["image"] = s.unsigned
			setNested(s.t, c, containers, "spec", "template", "spec", "containers")
			s.store(c)
		}
	}
}

// changeSecret changes what pods may refer to, or takes it away, or makes it anew.
func (s *rolloutStory) changeSecret() {
	token := &corev1.Secret{}
	err := api.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "token"}, token)
	switch {
	case apierrors.IsNotFound(err):
		create(s.t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: s.namespace}})
		return
	case err == nil && s.random.IntN(3) == 0:
		s.told = append(s.told, "deleted")
		err = api.Delete(s.t.Context(), token)
	case err == nil:
		token.StringData = map[string]string{"A": fmt.Sprint(s.random.IntN(3))}
		err = api.Update(s.t.Context(), token)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// toggleScaler makes an autoscaler of the pods' controller, or deletes it. While there is
// one, whoever scales by hand scales as it does.
func (s *rolloutStory) toggleScaler() {
	if s.scaler == nil {
		s.scaler = s.autoscaler("apps/v1", s.pods(), "web")
		return
	}
	if err := api.Delete(s.t.Context(), s.scaler); err != nil {
		s.t.Fatal(err)
	}
	s.scaler = nil
}

// controllers are those of the pods, the canary's own too.
func (s *rolloutStory) controllers() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		for _, name := range []string{"web", render.CanaryName("web")} {
			if c := s.child(kind, name); c != nil {
				out = append(out, c)
			}
		}
	}
	return out
}

// pauses stops the operator for some time.
func (s *rolloutStory) pauses() {
	s.change(func(spec *v1beta1.WorkloadSpec) { spec.Paused = !spec.Paused })
	s.once()
	s.clock.move(time.Duration(s.random.IntN(15)) * time.Minute)
	if s.mostly() {
		s.change(func(spec *v1beta1.WorkloadSpec) { spec.Paused = false })
	}
}

// registry takes a signature away or the whole registry. What the operator remembers of it
// would hide that.
func (s *rolloutStory) registry() {
	depot.Restore()
	s.withdrawn, s.unplugged = "", true
	switch s.random.IntN(3) {
	case 0:
		s.told = append(s.told, "is down")
		depot.Override(testkit.PathContains("property/"), testkit.Status(http.StatusInternalServerError))
	default:
		digest := s.digestOf[s.images[s.random.IntN(len(s.images))]]
		s.withdrawn = digest
		s.told = append(s.told, "withdraws "+digest[:14])
		depot.Override(testkit.PathContains(strings.Replace(digest, ":", "-", 1)), testkit.Status(http.StatusNotFound))
	}
	s.restart()
	s.once()
	if s.mostly() {
		s.plugIn()
	}
}

func (s *rolloutStory) plugIn() {
	depot.Restore()
	s.withdrawn = ""
	if s.unplugged {
		s.unplugged = false
		s.restart()
	}
}

func (s *rolloutStory) metrics() {
	outcomes := []v1beta1.MeasurementOutcome{
		v1beta1.MeasurementPassed, v1beta1.MeasurementPassed, v1beta1.MeasurementPassed,
		v1beta1.MeasurementFailed, v1beta1.MeasurementNoData, v1beta1.MeasurementError, v1beta1.MeasurementUnreachable,
	}
	s.gauge.outcome = outcomes[s.random.IntN(len(outcomes))]
	s.told = append(s.told, string(s.gauge.outcome))
}

// pass lets pods be ready for as long as a step without a pause is watched.
func (s *rolloutStory) pass() {
	s.play(true)
	s.once()
	for range 3 {
		s.clock.move(watchedFor / 3)
		s.once()
	}
	s.clock.move(time.Second)
	s.once()
}

func (s *rolloutStory) once() {
	before := s.look()
	result, err := s.reconcile(s.w)
	s.read(s.w)
	s.hold(before, err == nil && result.RequeueAfter != recheckOutdated)
}

// crash has the pods of the newer revision past their deadline.
func (s *rolloutStory) crash() {
	for _, c := range s.controllers() {
		if c.GetKind() == "Deployment" && (c.GetLabels()[labelTrack] == trackCanary || s.random.IntN(2) == 0) {
			d := &appsv1.Deployment{}
			s.get(c, d)
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, UnavailableReplicas: n, Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
			}}
			s.storeStatus(d)
		}
	}
}

// play plays the controllers of the pods, whose pods are ready or are not.
func (s *rolloutStory) play(ready bool) {
	for _, c := range s.controllers() {
		if c.GetDeletionTimestamp() != nil {
			continue
		}
		if c.GetKind() == "Deployment" {
			d := &appsv1.Deployment{}
			s.get(c, d)
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n}
			if ready {
				d.Status.ReadyReplicas, d.Status.AvailableReplicas = n, n
			}
			s.storeStatus(d)
		} else {
			s.playStateful(c, ready)
		}
	}
	if ready && s.contract != nil {
		s.sawReady()
	}
}

func (s *rolloutStory) playStateful(c *unstructured.Unstructured, ready bool) {
	set := &appsv1.StatefulSet{}
	s.get(c, set)
	n, kept := *set.Spec.Replicas, min(partition(c), *set.Spec.Replicas)
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: n, UpdatedReplicas: n - kept, CurrentReplicas: kept,
		CurrentRevision: "old", UpdateRevision: hashOf(set.Spec.Template),
	}
	if kept == 0 {
		set.Status.CurrentRevision, set.Status.CurrentReplicas = set.Status.UpdateRevision, n
	}
	if ready {
		set.Status.ReadyReplicas, set.Status.AvailableReplicas = n, n
	}
	s.storeStatus(set)
}

func (s *rolloutStory) get(c *unstructured.Unstructured, into client.Object) {
	if err := api.Get(s.t.Context(), client.ObjectKeyFromObject(c), into); err != nil {
		s.t.Fatal(err)
	}
}

func (s *rolloutStory) storeStatus(o client.Object) {
	if err := api.Status().Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

// settle ends the trouble and lets what is under way come to its end. Where that is one of
// a rollout that failed, it is back where it was, and the next spec has to be Ready.
func (s *rolloutStory) settle() {
	s.t.Helper()
	s.refuse, s.lose = nil, nil
	s.told = append(s.told, "settle")
	s.gauge.outcome = v1beta1.MeasurementPassed
	if s.scaler != nil {
		s.toggleScaler()
	}
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: s.namespace}}
	if err := api.Create(s.t.Context(), token); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
	s.plugIn()
	if s.random.IntN(2) == 0 {
		s.restart()
	}
	s.again()
	s.rest()
	if s.w.Status.Phase == v1beta1.PhaseDegraded {
		s.isBack()
		s.last.Version = "9.9.9"
		s.again()
		s.rest()
	}
	if s.w.Status.Phase != v1beta1.PhaseReady {
		s.t.Fatalf("%s after %s: %+v", s.w.Status.Phase, s.tale(), s.w.Status.Conditions)
	}
}

// rest reconciles until nothing is written any more.
func (s *rolloutStory) rest() {
	s.t.Helper()
	for range rolloutSettling {
		s.taken()
		result, err := s.reconcile(s.w)
		s.read(s.w)
		if s.contract != nil {
			s.hold(nil, false)
		}
		s.collect()
		if err == nil && len(s.taken()) == 0 && result.RequeueAfter == limits.Reverify {
			ready := conditionOf(s.w, v1beta1.ConditionReady)
			if s.w.Status.Phase == v1beta1.PhaseReady || ready.Reason == reasonRolloutFailed {
				return
			}
		}
		s.play(true)
		s.collect()
		s.clock.move(time.Minute)
	}
	s.t.Fatalf("not at rest after %s: %s %+v %+v", s.tale(), s.w.Status.Phase, s.w.Status.Rollout, s.w.Status.Conditions)
}

// isBack says that a rollout that failed left what its spec asks it to leave.
func (s *rolloutStory) isBack() {
	s.t.Helper()
	now := s.look()
	if !s.w.Spec.Rollout.RollbackOnFailure {
		return
	}
	if now.canary != nil || now.record == nil || now.revision() != now.record.Revision {
		s.t.Errorf("after %s: a failed rollout is not taken back: runs %s, canary %t, stable %+v", s.tale(), now.revision(), now.canary != nil, now.record)
	}
}
