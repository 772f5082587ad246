package workload

import (
	"context"
	"encoding/json"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// report derives status from what the phases found, writes it if it changed, and tells
// of transitions.
func (r *Reconciler) report(ctx context.Context, s *scope, err error) error {
	if len(s.healed) > 0 {
		s.memory.healed, s.memory.healedIn = s.healed, s.workload.Generation
		r.Events.Eventf(s.workload, nil, "Normal", reasonHealed, "Heal", "%s", s.clip("put back what others changed: "+driftText(s.healed)))
	}
	next := derive(s, obstacleOf(err))
	if sameStatus(s.workload.Status, next) {
		return nil
	}
	if s.onlyAwaited(next) {
		return nil // it is known soon, and wakes the Workload
	}
	if wait := s.progressPause(next, err, r.ProgressPause, r.Now()); wait > 0 {
		s.lookAgain(wait)
		return nil
	}
	s.memory.status.Store(&next)
	if err := r.writeStatus(ctx, s, next); err != nil {
		return err
	}
	s.memory.statusAt = r.Now()
	r.tell(s.workload, next)
	return nil
}

// onlyAwaited says whether a status differs in nothing but what is about to be known: after
// a restart, whether there is evidence from before. A fleet would else be told that it has
// to soak anew, and a moment later that it does not.
func (s *scope) onlyAwaited(next v1beta1.WorkloadStatus) bool {
	if !slices.ContainsFunc(s.memory.promises, func(p promise) bool { return p.pending }) {
		return false
	}
	before := s.workload.Status
	other := func(c metav1.Condition) bool { return c.Type == v1beta1.ConditionPromoted }
	before.Conditions = slices.DeleteFunc(slices.Clone(before.Conditions), other)
	next.Conditions = slices.DeleteFunc(slices.Clone(next.Conditions), other)
	return sameStatus(before, next)
}

// progressPause is how long to wait before a status is written that tells of nothing but
// progress: while pods start, it changes with each of them, and most of that is outdated
// before anyone reads it. The first status waits as well, and so what is Ready soon has
// one. Whatever else there is to tell is not held back: an obstacle, a condition that
// changes, a new generation, or what someone else wrote into the status. The pause is
// counted from now, since the writes of a first reconcile take longer on a slow server.
func (s *scope) progressPause(next v1beta1.WorkloadStatus, err error, pause time.Duration, now time.Time) time.Duration {
	before := s.workload.Status
	if err != nil || next.Phase != v1beta1.PhaseProgressing || !s.memory.asWritten(before) || !onlyProgress(before, next) {
		return 0
	}
	if s.memory.statusAt.IsZero() {
		s.memory.statusAt = now
	}
	return s.memory.statusAt.Add(pause).Sub(now)
}

// asWritten says whether a status is as this process wrote it last, or not written at all.
func (m *memory) asWritten(status v1beta1.WorkloadStatus) bool {
	if written := m.status.Load(); written != nil {
		return sameStatus(*written, status)
	}
	return status.Phase == "" && len(status.Conditions) == 0
}

// onlyProgress says whether conditions differ in no more than their messages and in how
// many pods are available. Where there are none yet, nothing changes.
func onlyProgress(before, next v1beta1.WorkloadStatus) bool {
	if len(before.Conditions) == 0 {
		return true
	}
	for kind := range ownConditions {
		if kind != v1beta1.ConditionAvailable && changed(before, next, kind) != nil {
			return false
		}
	}
	return before.ObservedGeneration == next.ObservedGeneration
}

// sameStatus compares what is the operator's: conditions of other types do not count, nor
// does the order of conditions, which the API server keeps by who applied first.
func sameStatus(a, b v1beta1.WorkloadStatus) bool {
	a.Conditions, b.Conditions = ownOnly(a.Conditions), ownOnly(b.Conditions)
	return equality.Semantic.DeepEqual(a, b)
}

func ownOnly(conditions []metav1.Condition) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range conditions {
		if ownConditions[c.Type] {
			// Zones do not survive the API server.
			c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.UTC())
			out = append(out, c)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Type < out[j].Type })
	return out
}

// writeStatus applies the status. What it does not name stays if someone else set it: then
// the status is replaced, so that nothing stands there in the operator's name that it did
// not find.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope, next v1beta1.WorkloadStatus) error {
	w := s.workload
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return about("convert the status of", v1beta1.WorkloadKind, w, err)
	}
	answer := identity(w)
	answer.Object["status"] = content
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(fieldManager), client.ForceOwnership)
	if err != nil {
		return about("apply the status of", v1beta1.WorkloadKind, w, err)
	}
	r.Metrics.StatusWrites.Inc()
	s.memory.version = answer.GetResourceVersion()
	stored := &v1beta1.Workload{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, stored); err != nil {
		return about("read the status of", v1beta1.WorkloadKind, w, err)
	}
	if sameStatus(stored.Status, next) {
		return nil
	}
	return r.replaceStatus(ctx, s, stored, next)
}

func (r *Reconciler) replaceStatus(ctx context.Context, s *scope, stored *v1beta1.Workload, next v1beta1.WorkloadStatus) error {
	for _, c := range stored.Status.Conditions {
		if !ownConditions[c.Type] {
			next.Conditions = append(next.Conditions, c)
		}
	}
	patch, err := json.Marshal([]operation{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: stored.ResourceVersion},
		{Op: "add", Path: "/status", Value: next},
	})
	if err != nil {
		return about("convert the status of", v1beta1.WorkloadKind, stored, err)
	}
	if err := r.Client.Status().Patch(ctx, stored, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return about("replace the status of", v1beta1.WorkloadKind, stored, err)
	}
	r.Metrics.StatusWrites.Inc()
	s.memory.version = stored.ResourceVersion
	return nil
}

// tell raises an event when Ready changes its status or reason, when an exemption starts to
// let the Workload through, when its images were attested or could not be, and when children start to differ from what was judged and are
// not put back.
func (r *Reconciler) tell(w *v1beta1.Workload, next v1beta1.WorkloadStatus) {
	if now := changed(w.Status, next, v1beta1.ConditionReady); now != nil {
		kind := "Normal"
		if next.Phase == v1beta1.PhaseBlocked || next.Phase == v1beta1.PhaseDegraded || now.Reason == reasonUndecided {
			kind = "Warning"
		}
		r.Events.Eventf(w, nil, kind, now.Reason, "Reconcile", "%s", now.Message)
	}
	if now := changed(w.Status, next, v1beta1.ConditionGated); now != nil && now.Reason == reasonExempted {
		r.Events.Eventf(w, nil, "Warning", now.Reason, "Reconcile", "%s", now.Message)
	}
	if now := changed(w.Status, next, v1beta1.ConditionPromoted); now != nil {
		switch now.Reason {
		case reasonAttested:
			r.Events.Eventf(w, nil, "Normal", now.Reason, "Attest", "%s", now.Message)
		case reasonAttestationFailed:
			r.Events.Eventf(w, nil, "Warning", now.Reason, "Attest", "%s", now.Message)
		}
	}
	if now := changed(w.Status, next, v1beta1.ConditionDrifted); now != nil && now.Status == metav1.ConditionTrue {
		r.Events.Eventf(w, nil, "Warning", now.Reason, "Reconcile", "%s", now.Message)
	}
}

// changed is a condition whose status or reason is not what it was; nil when they are, or
// where there is nothing to be told any more.
func changed(before, next v1beta1.WorkloadStatus, kind string) *metav1.Condition {
	was, now := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(next.Conditions, kind)
	if now == nil || was != nil && was.Status == now.Status && was.Reason == now.Reason {
		return nil
	}
	return now
}

// clip makes a note fit to be shown: without secrets, on one line, without control
// characters, and within what the events API takes.
func (s *scope) clip(note string) string { return s.secrets().Text(note, limits.NoteBytes) }

// secrets of what was judged. What is told before that comes from no manifest.
func (s *scope) secrets() *redact.Secrets {
	if s.judgement == nil {
		return nil
	}
	return s.judgement.Secrets
}

// masked is an error that may be logged: the API server, and webhooks that it asks, may
// quote what they refuse.
func (s *scope) masked(err error) error {
	o := obstacleOf(err)
	if o == nil {
		return nil
	}
	safe := *o
	safe.message = s.secrets().Text(o.message, limits.ErrorBytes)
	return &safe
}

func identity(w *v1beta1.Workload) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	u.SetName(w.Name)
	u.SetNamespace(w.Namespace)
	u.SetUID(w.UID)
	return u
}
