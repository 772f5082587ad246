package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// Reasons of conditions and events.
const (
	reasonReady              = "Ready"
	reasonProgressing        = "Progressing"
	reasonDegraded           = "Degraded"
	reasonPaused             = "Paused"
	reasonDeleting           = "Deleting"
	reasonDenied             = "Denied"
	reasonUndecided          = "CouldNotDecide"
	reasonAllowed            = "Allowed"
	reasonWarned             = "AllowedWithWarnings"
	reasonSecretMissing      = "SecretMissing"
	reasonDependencyNotReady = "DependencyNotReady"
	reasonConflict           = "ChildConflict"
	reasonNotJudged          = "NotJudged"
	reasonAsExpected         = "AsExpected"
	reasonDrift              = "ChildrenDiffer"
	reasonHealed             = "DriftHealed"
)

// report derives status from what the phases found, writes it if it changed, and tells
// of transitions.
func (r *Reconciler) report(ctx context.Context, s *scope, err error) error {
	next := derive(s, err)
	if s.healed {
		r.Events.Eventf(s.workload, nil, "Normal", reasonHealed, "Heal", "%s", clip("put back what others changed: "+driftText(s.drift)))
	}
	if equality.Semantic.DeepEqual(s.workload.Status, next) {
		return nil
	}
	if err := r.writeStatus(ctx, s.workload, next); err != nil {
		return err
	}
	r.tell(s.workload, next)
	return nil
}

func (r *Reconciler) writeStatus(ctx context.Context, w *v1beta1.Workload, next v1beta1.WorkloadStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return fmt.Errorf("status of Workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	u := identity(w)
	u.Object["status"] = content
	if err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply status of Workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	r.Metrics.StatusWrites.Inc()
	return nil
}

// tell raises one event when Ready changes its status or reason.
func (r *Reconciler) tell(w *v1beta1.Workload, next v1beta1.WorkloadStatus) {
	before := meta.FindStatusCondition(w.Status.Conditions, v1beta1.ConditionReady)
	now := meta.FindStatusCondition(next.Conditions, v1beta1.ConditionReady)
	if before != nil && before.Status == now.Status && before.Reason == now.Reason {
		return
	}
	kind := "Normal"
	if next.Phase == v1beta1.PhaseBlocked || next.Phase == v1beta1.PhaseDegraded || now.Reason == reasonUndecided {
		kind = "Warning"
	}
	r.Events.Eventf(w, nil, kind, now.Reason, "Reconcile", "%s", clip(now.Message))
}

// clip keeps a note within what the events API takes, 1 KiB.
func clip(note string) string {
	if len(note) <= 1000 {
		return note
	}
	return strings.ToValidUTF8(note[:1000], "") + "…"
}

// derive works out the whole status. Of the old one only the times of transitions are
// read.
func derive(s *scope, err error) v1beta1.WorkloadStatus {
	w := s.workload
	var o *obstacle
	if err != nil && !errors.As(err, &o) {
		o = &obstacle{kind: transient, reason: "Failed", message: err.Error()}
	}
	next := v1beta1.WorkloadStatus{
		ObservedGeneration: w.Generation,
		Phase:              phaseOf(s, o),
		Selector:           labels.SelectorFromSet(render.Selector(w.Name)).String(),
		Inventory:          inventory(s),
		Gate:               gateStatus(s),
		Images:             imageStatus(s),
	}
	if len(s.drift) > 0 && !s.healed {
		next.Drift = &v1beta1.DriftStatus{Changes: s.drift[:min(len(s.drift), limits.StatusFindings)]}
	}
	if p := primary(s.owned); p != nil {
		next.Replicas = count(p, "replicas")
		next.ReadyReplicas = count(p, "readyReplicas")
		next.AvailableReplicas = count(p, "availableReplicas")
	}
	next.Conditions = append([]metav1.Condition(nil), w.Status.Conditions...)
	for _, c := range conditions(s, o, next.Phase) {
		c.ObservedGeneration = w.Generation
		c.Message = clip(c.Message)
		meta.SetStatusCondition(&next.Conditions, c)
	}
	return next
}

func count(p *unstructured.Unstructured, field string) int32 {
	n, _, _ := unstructured.NestedInt64(p.Object, "status", field)
	return int32(n)
}

func phaseOf(s *scope, o *obstacle) v1beta1.Phase {
	switch {
	case !s.workload.DeletionTimestamp.IsZero():
		return v1beta1.PhaseDeleting
	case o == nil || (o.kind == transient && current(s)):
		return phaseOfHealth(s)
	case o.reason == reasonPaused:
		return v1beta1.PhasePaused
	case o.kind == terminal:
		return v1beta1.PhaseBlocked
	case o.kind == waiting:
		return v1beta1.PhaseWaiting
	default:
		return v1beta1.PhasePending
	}
}

func phaseOfHealth(s *scope) v1beta1.Phase {
	switch h, _ := worstHealth(s); h.Status {
	case delta.Healthy:
		return v1beta1.PhaseReady
	case delta.Degraded:
		return v1beta1.PhaseDegraded
	default:
		return v1beta1.PhaseProgressing
	}
}

// current says that the pods are already those of this generation: then an outage of the
// registry does not make a running Workload unready.
func current(s *scope) bool { return primary(s.owned) != nil && resolvedBefore(s) != nil }

func worstHealth(s *scope) (delta.Health, *unstructured.Unstructured) {
	if primary(s.owned) == nil {
		return delta.Health{Status: delta.HealthMissing, Message: "the pods' controller does not exist yet"}, nil
	}
	worst := delta.Health{Status: delta.Healthy}
	var of *unstructured.Unstructured
	for i, h := range s.health {
		if delta.Worse(worst.Status, h.Status) {
			worst, of = h, s.owned[i]
		}
	}
	return worst, of
}

func conditions(s *scope, o *obstacle, phase v1beta1.Phase) []metav1.Condition {
	return []metav1.Condition{
		readyCondition(s, o, phase),
		reconcilingCondition(s, o, phase),
		stalledCondition(s, o, phase),
		gatedCondition(s),
		imagesCondition(s),
		dependenciesCondition(s),
		availableCondition(s),
		driftedCondition(s),
	}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// standing is why the Workload is in its phase.
func standing(s *scope, o *obstacle, phase v1beta1.Phase) (reason, message string) {
	h, of := worstHealth(s)
	switch phase {
	case v1beta1.PhaseDeleting:
		return reasonDeleting, fmt.Sprintf("deleting %d children", len(s.owned))
	case v1beta1.PhaseReady:
		return reasonReady, "every child is healthy"
	case v1beta1.PhaseDegraded:
		return reasonDegraded, childText(of) + h.Message
	case v1beta1.PhaseProgressing:
		return reasonProgressing, childText(of) + h.Message
	default:
		return o.reason, o.message
	}
}

func childText(c *unstructured.Unstructured) string {
	if c == nil {
		return ""
	}
	return c.GetKind() + "/" + c.GetName() + ": "
}

func readyCondition(s *scope, o *obstacle, phase v1beta1.Phase) metav1.Condition {
	reason, message := standing(s, o, phase)
	status := metav1.ConditionFalse
	if phase == v1beta1.PhaseReady {
		status = metav1.ConditionTrue
	}
	return condition(v1beta1.ConditionReady, status, reason, message)
}

func reconcilingCondition(s *scope, o *obstacle, phase v1beta1.Phase) metav1.Condition {
	reason, message := standing(s, o, phase)
	switch phase {
	case v1beta1.PhaseProgressing, v1beta1.PhaseWaiting, v1beta1.PhasePending, v1beta1.PhaseDeleting:
		return condition(v1beta1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	}
	return condition(v1beta1.ConditionReconciling, metav1.ConditionFalse, reason, "")
}

func stalledCondition(s *scope, o *obstacle, phase v1beta1.Phase) metav1.Condition {
	reason, message := standing(s, o, phase)
	if phase == v1beta1.PhaseBlocked || phase == v1beta1.PhaseDegraded {
		return condition(v1beta1.ConditionStalled, metav1.ConditionTrue, reason, message)
	}
	return condition(v1beta1.ConditionStalled, metav1.ConditionFalse, reason, "")
}

func gatedCondition(s *scope) metav1.Condition {
	if s.judgement == nil {
		return condition(v1beta1.ConditionGated, metav1.ConditionUnknown, reasonNotJudged, "the gate was not asked")
	}
	worst := gate.Worst(s.judgement.Verdicts)
	switch worst.Outcome {
	case gate.OutcomeDeny:
		return condition(v1beta1.ConditionGated, metav1.ConditionFalse, reasonDenied, explain(worst))
	case gate.OutcomeError:
		return condition(v1beta1.ConditionGated, metav1.ConditionUnknown, reasonUndecided, explain(worst))
	case gate.OutcomeWarn:
		return condition(v1beta1.ConditionGated, metav1.ConditionTrue, reasonWarned, fmt.Sprintf("gate %s allows with %d warnings", worst.Gate, len(worst.Warnings)+len(worst.Violations)))
	default:
		return condition(v1beta1.ConditionGated, metav1.ConditionTrue, reasonAllowed, "gate "+worst.Gate+" allows")
	}
}

func imagesCondition(s *scope) metav1.Condition {
	if s.judgement == nil {
		return condition(v1beta1.ConditionImagesVerified, metav1.ConditionUnknown, reasonNotJudged, "the gate was not asked")
	}
	status, reason, message := metav1.ConditionTrue, reasonAsExpected, "every image is verified, or allowed without a signature"
	for _, v := range s.judgement.Verdicts {
		for _, i := range v.Images {
			switch i.Outcome {
			case gate.ImageVerified, gate.ImageAllowed:
			case gate.ImageError:
				if status == metav1.ConditionTrue {
					status, reason, message = metav1.ConditionUnknown, reasonUndecided, "could not verify "+i.Image
				}
			default:
				status, reason, message = metav1.ConditionFalse, string(i.Outcome), i.Image+" is "+strings.ToLower(string(i.Outcome))
			}
		}
		if v.Gate == "" {
			return condition(v1beta1.ConditionImagesVerified, metav1.ConditionUnknown, reasonNotJudged, "no Gate looked at the images")
		}
	}
	return condition(v1beta1.ConditionImagesVerified, status, reason, message)
}

func dependenciesCondition(s *scope) metav1.Condition {
	if len(s.notReady) > 0 {
		return condition(v1beta1.ConditionDependenciesReady, metav1.ConditionFalse, reasonDependencyNotReady, strings.Join(s.notReady, ", "))
	}
	return condition(v1beta1.ConditionDependenciesReady, metav1.ConditionTrue, reasonAsExpected, "")
}

func availableCondition(s *scope) metav1.Condition {
	p := primary(s.owned)
	if p == nil {
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, reasonProgressing, "no pods yet")
	}
	want, have := *s.workload.Spec.Replicas, count(p, "availableReplicas")
	if have < want {
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, reasonProgressing, fmt.Sprintf("%d of %d replicas are available", have, want))
	}
	return condition(v1beta1.ConditionAvailable, metav1.ConditionTrue, reasonAsExpected, fmt.Sprintf("%d replicas are available", have))
}

func driftedCondition(s *scope) metav1.Condition {
	if len(s.drift) == 0 {
		return condition(v1beta1.ConditionDrifted, metav1.ConditionFalse, reasonAsExpected, "")
	}
	if s.healed {
		return condition(v1beta1.ConditionDrifted, metav1.ConditionFalse, reasonAsExpected, "")
	}
	return condition(v1beta1.ConditionDrifted, metav1.ConditionTrue, reasonDrift, driftText(s.drift))
}

func driftText(changes []v1beta1.DriftChange) string {
	var parts []string
	for _, c := range changes[:min(len(changes), limits.StatusFindings)] {
		parts = append(parts, c.Object+" "+c.Path+" ("+c.Change+")")
	}
	return strings.Join(parts, ", ")
}

func inventory(s *scope) []v1beta1.InventoryEntry {
	var out []v1beta1.InventoryEntry
	for i, c := range s.owned {
		e := v1beta1.InventoryEntry{APIVersion: c.GetAPIVersion(), Kind: c.GetKind(), Name: c.GetName()}
		if i < len(s.health) {
			e.Health = s.health[i].Status
		}
		out = append(out, e)
	}
	return out
}

func gateStatus(s *scope) *v1beta1.GateStatus {
	if s.judgement == nil {
		return nil
	}
	worst := gate.Worst(s.judgement.Verdicts)
	out := &v1beta1.GateStatus{Gate: worst.Gate, Verdict: string(worst.Outcome), VerdictDigest: worst.Digest(), PolicyDigest: worst.PolicyDigest}
	for _, f := range worst.Violations[:min(len(worst.Violations), limits.StatusFindings)] {
		out.Violations = append(out.Violations, v1beta1.ViolationStatus{
			Policy: f.Policy, Severity: f.Severity, Object: f.Object, Path: f.Path, Message: f.Message, Remedy: f.Remedy,
		})
	}
	return out
}

func imageStatus(s *scope) []v1beta1.ImageStatus {
	if s.judgement == nil {
		return nil
	}
	var out []v1beta1.ImageStatus
	for _, i := range gate.Worst(s.judgement.Verdicts).Images {
		out = append(out, v1beta1.ImageStatus{Image: i.Image, Digest: i.Digest, SignedBy: i.Authority})
	}
	return out
}
