package workload

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/rollout"
)

// contract is what docs/rollout.md promises of each moment of a rollout.
type contract struct {
	s        *story
	digestOf map[string]string
	// withdrawn is the digest of an image that lost its signature.
	withdrawn string
	// firstReady is when the canary of a course was ready first, by revision and what was
	// asked. full are the templates and revisions, and fullDigests the images, that every pod ran.
	firstReady  map[string]time.Time
	full        map[string]bool
	fullDigests map[string]bool
	// seen is in which phases it was looked at, and how often.
	seen map[v1beta1.Phase]int
	// away is the revision that failed last and was taken back; fresh says that the operator
	// was started again since its last reconcile.
	away  *course
	fresh bool
	// scaler, where there is one, sets the replicas of the pods' controller.
	scaler *autoscalingv2.HorizontalPodAutoscaler
}

func newContract(s *story) *contract {
	k := &contract{s: s, digestOf: map[string]string{}, firstReady: map[string]time.Time{}, full: map[string]bool{}, fullDigests: map[string]bool{}, seen: map[v1beta1.Phase]int{}}
	for _, image := range s.images {
		_, name, _ := strings.Cut(image, "/")
		_, k.digestOf[image] = push(s.t, name, name)
	}
	return k
}

// sight is what stands in the cluster at a moment.
type sight struct {
	primary, canary *unstructured.Unstructured
	record          *record
	course          *course
	// leaving says that the canary before is not gone yet, and the next one waits for that.
	leaving bool
}

func (v *sight) revision() string {
	if v.primary == nil {
		return ""
	}
	return v.primary.GetAnnotations()[annotationRevision]
}

func (k *contract) look() *sight {
	v := &sight{}
	for _, c := range k.s.children(recordKind.Kind, "Deployment", "StatefulSet") {
		switch {
		case c.GetDeletionTimestamp() != nil:
			v.leaving = v.leaving || c.GetLabels()[labelTrack] == trackCanary
		case c.GetKind() == kindRecord:
			if c.GetLabels()[render.LabelManagedBy] != "" { // or nobody finds it any more
				v.record = recordIn(k.s.t, c)
			}
		case c.GetName() == "web":
			v.primary = c
		default:
			v.canary = c
		}
	}
	if v.primary != nil && holds(v.primary, annotationRollout) {
		v.course = &course{}
		if json.Unmarshal([]byte(v.primary.GetAnnotations()[annotationRollout]), v.course) != nil {
			v.course = nil
		}
	}
	return v
}

// recordIn is the stable revision that an object keeps.
func recordIn(t *testing.T, c *unstructured.Unstructured) *record {
	raw, err := json.Marshal(c.Object["data"])
	k := &record{}
	if err == nil {
		err = json.Unmarshal(raw, k)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sawReady notes what runs everywhere, and since when a canary is ready.
func (k *contract) sawReady() {
	v := k.look()
	if p := v.primary; p != nil && partition(p) == 0 {
		k.full[templateOf(p)] = true
		k.fullDigests[digestIn(k.s.t, p)] = true
	}
	canary := v.canary
	if k.s.w.Spec.Storage != nil {
		canary = v.primary
	}
	if canary == nil {
		return
	}
	revision, wanted := canary.GetAnnotations()[annotationRevision], asked(&k.s.w.Spec)
	if v.course != nil { // or someone took the note off, and the operator knows it by heart
		if wanted = v.course.Asked; v.course.Revision != revision {
			return
		}
	}
	if key := revision + wanted; k.firstReady[key].IsZero() {
		k.firstReady[key] = k.s.clock.Now()
	}
}

func templateOf(c *unstructured.Unstructured) string {
	template, _, _ := unstructured.NestedFieldNoCopy(c.Object, "spec", "template")
	return hashOf(template)
}

func digestIn(t *testing.T, c *unstructured.Unstructured) string {
	containers, _, err := unstructured.NestedSlice(c.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		t.Fatal("no containers in ", c.GetName())
	}
	image, _ := containers[0].(map[string]any)["image"].(string)
	_, digest, _ := strings.Cut(image, "@")
	return digest
}

// hold says what of the contract does not hold after a reconcile; done says that nothing
// stopped that one.
func (k *contract) hold(before *sight, done bool) {
	k.s.t.Helper()
	now, w := k.look(), k.s.w
	k.seen[w.Status.Phase]++
	if c := now.canary; c != nil {
		owner := metav1.GetControllerOf(c)
		if c.GetName() != render.CanaryName("web") || c.GetKind() != "Deployment" || owner != nil && owner.UID != w.UID {
			k.broken("%s/%s of %v is no canary", c.GetKind(), c.GetName(), owner)
		}
		if w.Spec.Storage != nil {
			k.broken("a StatefulSet has a canary of its own")
		}
	}
	for _, c := range w.Status.Conditions {
		if !slices.Contains(knownReasons, c.Reason) {
			k.broken("condition %s has the reason %q", c.Type, c.Reason)
		}
	}
	if r := w.Status.Rollout; r != nil {
		if r.StableDigest != "" && !k.fullDigests[r.StableDigest] {
			k.broken("the stable digest %s never ran everywhere", r.StableDigest)
		}
		if r.Step > r.Steps {
			k.broken("step %d of %d", r.Step, r.Steps)
		}
	}
	if now.record != nil && now.revision() == now.record.Revision && k.full[templateOf(now.primary)] {
		k.full[now.record.Revision] = true
	}
	if now.record != nil && !k.full[now.record.Revision] {
		k.broken("the stable revision %s never ran everywhere", now.record.Revision)
	}
	if !done || w.Spec.Paused {
		return
	}
	k.holdPods(now)
	if before != nil {
		k.holdSteps(before, now)
		k.holdAway(before, now)
	}
}

// holdAway says whether what failed stays away until the spec changes. That is not known
// to a new operator where someone took the note off.
func (k *contract) holdAway(before, now *sight) {
	spec := &k.s.w.Spec
	if k.away != nil && (asked(spec) != k.away.Asked || k.fresh && before.course == nil) {
		k.away = nil
	}
	k.fresh = false
	if c := k.away; c != nil && (now.revision() == c.Revision || now.canary != nil) {
		k.broken("what failed is back: %+v", *c)
	}
	if c := now.course; c != nil && c.Failed && c.Asked == asked(spec) && spec.Rollout.RollbackOnFailure &&
		now.canary == nil && now.record != nil && now.revision() == now.record.Revision {
		k.away = c
	}
}

// holdPods says whether the pods are those of the phase.
func (k *contract) holdPods(now *sight) {
	w := k.s.w
	if w.Status.ObservedGeneration != w.Generation {
		k.broken("generation %d is told of as %d", w.Generation, w.Status.ObservedGeneration)
	}
	if conditionOf(w, v1beta1.ConditionDrifted).Status == metav1.ConditionTrue {
		return
	}
	r := w.Status.Rollout
	switch w.Status.Phase {
	case v1beta1.PhaseReady:
		if now.canary != nil || now.primary == nil || digestIn(k.s.t, now.primary) != k.digestOf[w.Spec.Image] || partition(now.primary) != 0 {
			k.broken("it is Ready, and not what the spec asks for")
		}
	case v1beta1.PhaseCanary:
		want, steps := k.plan(now)
		// What is denied is not written, and its pods are as many as somebody said.
		denied := k.withdrawn != "" && now.primary != nil && digestIn(k.s.t, now.primary) == k.withdrawn
		if n := nestedCount(now.primary, "spec", "replicas"); n != want && !scaledToZero(now.primary) && !denied {
			k.broken("%d pods beside the canary, want %d", n, want)
		}
		if w.Spec.Storage != nil {
			if now.record != nil && now.revision() == now.record.Revision {
				return // was deleted, and begins with the stable revision
			}
			if kept := want - steps[r.Step-1].Pods; partition(now.primary) != kept {
				k.broken("the partition is %d in step %d, want %d", partition(now.primary), r.Step, kept)
			}
			return
		}
		if now.canary == nil && now.leaving {
			return
		}
		if now.canary == nil {
			k.broken("no canary in step %d", r.Step)
		} else if n := nestedCount(now.canary, "spec", "replicas"); r.Step < r.Steps && n != steps[r.Step-1].Pods {
			k.broken("%d pods in step %d, want %d", n, r.Step, steps[r.Step-1].Pods)
		}
		if r.Step < r.Steps && k.withdrawn == "" && (now.record == nil || now.revision() != now.record.Revision) {
			k.broken("the stable pods run %s in step %d, and the stable revision is %+v", now.revision(), r.Step, now.record)
		}
	}
}

// plan is how many pods there are to be beside a canary, and its steps.
func (k *contract) plan(now *sight) (int32, []rollout.Step) {
	spec := k.s.w.Spec.DeepCopy()
	if k.scaler != nil {
		n := nestedCount(now.primary, "spec", "replicas")
		spec.Replicas = &n
	}
	return *spec.Replicas, rollout.PlanOf(spec).Steps
}

// holdSteps says whether what every pod is to run now was watched before.
func (k *contract) holdSteps(before, now *sight) {
	w := k.s.w
	if k.withdrawn != "" && before.primary == nil {
		return // nothing that is allowed ran
	}
	if !isCanary(&w.Spec) || before.record == nil || now.primary == nil || before.revision() == now.revision() {
		return
	}
	revision := now.revision()
	if _, steps := k.plan(now); w.Spec.Storage != nil && len(steps) == 1 {
		return // its only step is all of its pods
	}
	if revision == before.record.Revision || w.Spec.Storage != nil && partition(now.primary) > 0 {
		return
	}
	if first := k.firstReady[revision+asked(&w.Spec)]; first.IsZero() || k.s.clock.Now().Sub(first) < watchedFor {
		k.broken("%s goes to every pod in place of %s, and was not watched", revision, before.revision())
	}
}

func (k *contract) broken(format string, args ...any) {
	k.s.t.Helper()
	k.s.t.Errorf(format+" (after %s; now %s %+v)", append(args, strings.Join(k.s.told, ", "), k.s.w.Status.Phase, k.s.w.Status.Rollout)...)
	k.s.t.FailNow()
}

// watched is a client whose writes of children are looked at before they are done.
func (k *contract) watched(c client.Client) client.Client {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			raw, err := json.Marshal(o)
			content := map[string]any{}
			if err == nil {
				err = json.Unmarshal(raw, &content)
			}
			if err != nil {
				return err
			}
			k.writes(&unstructured.Unstructured{Object: content}, true)
			return c.Apply(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			raw, err := p.Data(o)
			if err != nil {
				return err
			}
			u := Child(o.GetObjectKind().GroupVersionKind())
			u.SetName(o.GetName())
			var ops []operation
			if json.Unmarshal(raw, &ops) == nil {
				for _, op := range ops {
					if op.Path == "/spec" {
						u.Object["spec"] = op.Value
					}
				}
			}
			k.writes(u, false)
			return c.Patch(ctx, o, p, opts...)
		},
	})
}

// writes says whether the operator may write this: its owner, and images that were judged
// and are allowed.
func (k *contract) writes(u *unstructured.Unstructured, whole bool) {
	if u.GetKind() == v1beta1.WorkloadKind {
		return
	}
	if owner := metav1.GetControllerOf(u); whole && (owner == nil || owner.UID != k.s.w.UID) {
		k.broken("%s/%s is written for %v", u.GetKind(), u.GetName(), owner)
	}
	found, err := images.Collect([]map[string]any{u.Object})
	if err != nil {
		k.s.t.Fatal(err)
	}
	for _, image := range found {
		_, digest, _ := strings.Cut(image.Ref, "@")
		allowed := false
		for _, known := range k.digestOf {
			allowed = allowed || known == digest
		}
		if !allowed || digest == k.withdrawn {
			k.broken("%s/%s is written with %s, which is not allowed", u.GetKind(), u.GetName(), image.Ref)
		}
	}
}

// knownReasons are those that a condition may have.
var knownReasons = []string{
	reasonReady, reasonProgressing, reasonDegraded, reasonPaused, reasonDenied, reasonUndecided, reasonAllowed, reasonWarned,
	reasonSecretMissing, reasonConfigMapMissing, reasonConflict, reasonNotJudged, reasonAsExpected, reasonDrift, reasonDriftReturns,
	reasonFailed, reasonScaledToZero, reasonRolloutFailed, reasonRollingBack, reasonChildRefused,
	string(gate.ImageUnsigned), string(gate.ImageUntrusted),
	rollout.ReasonPodsNotReady, rollout.ReasonPodsUnstable, rollout.ReasonWatching,
	rollout.ReasonMetricFailed, rollout.ReasonMetricWithoutData, rollout.ReasonMetricUnknown,
	"ApplyFailed", "DeleteFailed", "FinalizerFailed",
}
