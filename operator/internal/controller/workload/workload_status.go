package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/health"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/rollout"
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
	reasonExempted           = "AllowedByExemption"
	reasonSecretMissing      = "SecretMissing"
	reasonConfigMapMissing   = "ConfigMapMissing"
	reasonDependencyNotReady = "DependencyNotReady"
	reasonDependencyCycle    = "DependencyCycle"
	reasonConflict           = "ChildConflict"
	reasonNotJudged          = "NotJudged"
	reasonAsExpected         = "AsExpected"
	reasonDrift              = "ChildrenDiffer"
	reasonDriftReturns       = "DriftReturns"
	reasonHealed             = "DriftHealed"
	reasonFailed             = "Failed"
	reasonVolumesGrow        = "VolumesGrow"
	reasonRolloutFailed      = "RolloutFailed"
	reasonRollingBack        = "RollingBack"
	reasonChildRefused       = "ChildRefused"

	reasonFrozen               = "Frozen"
	reasonScaledToZero         = "ScaledToZero"
	reasonAttested             = "Attested"
	reasonAttestationFailed    = "AttestationFailed"
	reasonSoaking              = "Soaking"
	reasonNotSoaking           = "NotReady"
	reasonRulesBroken          = "RulesBroken"
	reasonImageNotResolved     = "ImageNotResolved"
	reasonNamespaceTerminating = "NamespaceTerminating"
	reasonDependencyNotAllowed = "DependencyNotAllowed"
	reasonDependenciesTooMany  = "DependenciesTooMany"
)

// derive works out the whole status. Of the old one only the times of transitions are
// read.
func derive(s *scope, o *obstacle) v1beta1.WorkloadStatus {
	w := s.workload
	st := standingOf(s, o)
	next := v1beta1.WorkloadStatus{
		ObservedGeneration: w.Generation,
		Phase:              st.phase,
		Selector:           labels.SelectorFromSet(render.Selector(w.Name)).String(),
		Inventory:          inventory(s),
		Gate:               gateStatus(s),
		Images:             imageStatus(s),
		Drift:              driftStatus(s),
		Rollout:            rolloutStatus(s),
	}
	if p := primary(s.owned); p != nil {
		next.Replicas = count(p, "replicas")
		next.ReadyReplicas = count(p, "readyReplicas")
		next.AvailableReplicas = count(p, "availableReplicas")
	}
	for _, c := range conditions(s, st) {
		c.ObservedGeneration = w.Generation
		c.Message = s.clip(c.Message)
		c.LastTransitionTime = metav1.NewTime(s.now.Truncate(time.Second))
		if before := meta.FindStatusCondition(w.Status.Conditions, c.Type); before != nil && before.Status == c.Status && !before.LastTransitionTime.IsZero() {
			c.LastTransitionTime = before.LastTransitionTime
		}
		next.Conditions = append(next.Conditions, c)
	}
	return next
}

func count(p *unstructured.Unstructured, field string) int32 {
	n, _, _ := unstructured.NestedInt64(p.Object, "status", field)
	return int32(n)
}

// standing is where the Workload is and why.
type standing struct {
	phase   v1beta1.Phase
	reason  string
	message string
}

func standingOf(s *scope, o *obstacle) standing {
	if !s.workload.DeletionTimestamp.IsZero() {
		message := leaving(s.owned)
		if s.before != "" {
			message = "waiting " + s.before
		}
		if o != nil {
			message = o.Error()
		}
		return standing{v1beta1.PhaseDeleting, reasonDeleting, message}
	}
	phase := rollout.Phase(observe(s, o))
	switch phase {
	case v1beta1.PhaseCanary:
		if o == nil {
			return standing{phase, s.release.decision.Reason, s.release.decision.Message}
		}
	case v1beta1.PhaseRollingBack:
		return standing{phase, reasonRollingBack, "back to the stable revision: " + s.release.failure()}
	case v1beta1.PhaseProgressing, v1beta1.PhaseReady, v1beta1.PhaseDegraded:
		if o == nil || o.kind != failed {
			return standingOfHealth(s, phase)
		}
	}
	return standing{phase, o.reason, o.message}
}

// leaving names the children that are still there, and who keeps them there: a finalizer
// that nobody takes off keeps the Workload too.
func leaving(children []*unstructured.Unstructured) string {
	var names []string
	for _, c := range children[:min(len(children), limits.StatusFindings)] {
		name := c.GetKind() + "/" + c.GetName()
		for _, f := range c.GetFinalizers() {
			if f != metav1.FinalizerDeleteDependents {
				name += " (waits for finalizer " + f + ")"
			}
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "every child is gone"
	}
	return "deleting " + strings.Join(names, ", ")
}

// standingOfHealth says why the children, or a rollout that failed, lead to a phase.
func standingOfHealth(s *scope, phase v1beta1.Phase) standing {
	if c := s.release.course; phase == v1beta1.PhaseDegraded && c != nil && c.Failed {
		where := "its pods are left as they are: "
		if s.release.stage == rollout.BackOnStable {
			where = "every pod is back on the stable revision, and the spec is not tried again before it changes: "
		}
		return standing{phase, reasonRolloutFailed, where + s.release.failure()}
	}
	h, of := worstHealth(s)
	switch {
	case h.Status == health.Degraded:
		return standing{phase, reasonDegraded, childText(of) + h.Message}
	case h.Status != health.Healthy:
		return standing{phase, reasonProgressing, childText(of) + h.Message}
	case len(s.growing) > 0:
		return standing{phase, reasonVolumesGrow, growingText(s.growing)}
	}
	return standing{phase, reasonReady, "every child is healthy"}
}

func worstHealth(s *scope) (health.Health, *unstructured.Unstructured) {
	if primary(s.owned) == nil {
		return health.Health{Status: health.Missing, Message: "the pods' controller does not exist yet"}, nil
	}
	worst := health.Health{Status: health.Healthy}
	var of *unstructured.Unstructured
	for i, h := range s.health {
		if health.Worse(worst.Status, h.Status) {
			worst, of = h, s.owned[i]
		}
	}
	return worst, of
}

func conditions(s *scope, st standing) []metav1.Condition {
	all := []metav1.Condition{
		readyCondition(st),
		reconcilingCondition(st),
		stalledCondition(st),
		gatedCondition(s),
		imagesCondition(s),
		dependenciesCondition(s),
		availableCondition(s),
		driftedCondition(s),
	}
	// Without a Gate that attests there is nothing to be told.
	if c, ok := promotedCondition(s.memory.promises); ok {
		all = append(all, c)
	}
	return all
}

// ownConditions are the types above. Conditions of other types are left to whoever sets
// them.
var ownConditions = map[string]bool{
	v1beta1.ConditionReady: true, v1beta1.ConditionReconciling: true, v1beta1.ConditionStalled: true, v1beta1.ConditionGated: true,
	v1beta1.ConditionImagesVerified: true, v1beta1.ConditionDependenciesReady: true, v1beta1.ConditionAvailable: true, v1beta1.ConditionDrifted: true,
	v1beta1.ConditionPromoted: true,
}

// promises from the worst to the best: the first that a Gate has is the reason.
var promiseOrder = []string{reasonAttestationFailed, reasonRulesBroken, reasonImageNotResolved, reasonNotSoaking, reasonSoaking, reasonAttested}

// promotedCondition says whether every Gate that attests has attested what runs.
func promotedCondition(promises []promise) (metav1.Condition, bool) {
	if len(promises) == 0 {
		return metav1.Condition{}, false
	}
	worst := len(promiseOrder) - 1
	var texts []string
	for _, p := range promises {
		worst = min(worst, slices.Index(promiseOrder, p.reason))
		texts = append(texts, "gate "+p.gate+": "+p.message)
	}
	status := metav1.ConditionFalse
	if promiseOrder[worst] == reasonAttested {
		status = metav1.ConditionTrue
	}
	return condition(v1beta1.ConditionPromoted, status, promiseOrder[worst], strings.Join(texts, "; ")), true
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func childText(c *unstructured.Unstructured) string {
	if c == nil {
		return ""
	}
	return c.GetKind() + "/" + c.GetName() + ": "
}

func readyCondition(st standing) metav1.Condition {
	status := metav1.ConditionFalse
	if st.phase == v1beta1.PhaseReady {
		status = metav1.ConditionTrue
	}
	return condition(v1beta1.ConditionReady, status, st.reason, st.message)
}

func reconcilingCondition(st standing) metav1.Condition {
	switch st.phase {
	case v1beta1.PhaseProgressing, v1beta1.PhaseWaiting, v1beta1.PhasePending, v1beta1.PhaseGating, v1beta1.PhaseDeleting,
		v1beta1.PhaseCanary, v1beta1.PhaseRollingBack:
		return condition(v1beta1.ConditionReconciling, metav1.ConditionTrue, st.reason, st.message)
	}
	return condition(v1beta1.ConditionReconciling, metav1.ConditionFalse, st.reason, "")
}

func stalledCondition(st standing) metav1.Condition {
	if st.phase == v1beta1.PhaseBlocked || st.phase == v1beta1.PhaseDegraded {
		return condition(v1beta1.ConditionStalled, metav1.ConditionTrue, st.reason, st.message)
	}
	return condition(v1beta1.ConditionStalled, metav1.ConditionFalse, st.reason, "")
}

func gatedCondition(s *scope) metav1.Condition {
	if s.judgement == nil {
		return condition(v1beta1.ConditionGated, metav1.ConditionUnknown, reasonNotJudged, "the gate was not asked")
	}
	if c, ok := exemptedCondition(s.judgement.Verdicts); ok {
		return c
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
		return condition(v1beta1.ConditionGated, metav1.ConditionTrue, reasonAllowed, allowing(s.judgement.Verdicts))
	}
}

// allowing names every Gate that judged: which of several was the first means nothing.
func allowing(verdicts []gate.Verdict) string {
	if len(verdicts) == 1 {
		return "gate " + verdicts[0].Gate + " allows"
	}
	names := make([]string, 0, len(verdicts))
	for _, v := range verdicts {
		names = append(names, v.Gate)
	}
	return "gates " + strings.Join(names, ", ") + " allow"
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
	if stray := unjudged(s); stray != "" && status == metav1.ConditionTrue {
		status, reason, message = metav1.ConditionFalse, reasonDrift, stray
	}
	return condition(v1beta1.ConditionImagesVerified, status, reason, message)
}

// unjudged names an image in a child that differs from what was judged. Where drift is
// reported only, or waits to be put back, the verdict says nothing about it.
func unjudged(s *scope) string {
	if len(s.drift) == 0 {
		return ""
	}
	for _, d := range s.desired {
		if stray := strayImage(d, find(s.owned, d)); stray != "" {
			return stray
		}
	}
	return ""
}

// strayImage tells of an image in a live child that is not in the judged one; empty if
// there is none.
func strayImage(d, live *unstructured.Unstructured) string {
	if live == nil {
		return ""
	}
	judged := map[string]bool{}
	want, err := images.Collect([]map[string]any{d.Object})
	for _, i := range want {
		judged[i.Ref] = true
	}
	have, errLive := images.Collect([]map[string]any{live.Object})
	if err := errors.Join(err, errLive); err != nil {
		return "the images of " + d.GetKind() + "/" + d.GetName() + " could not be read: " + err.Error()
	}
	for _, i := range have {
		if !judged[i.Ref] {
			return d.GetKind() + "/" + d.GetName() + " was changed to run " + i.Ref + ", which was not judged"
		}
	}
	return ""
}

func dependenciesCondition(s *scope) metav1.Condition {
	if s.unmet != nil {
		return condition(v1beta1.ConditionDependenciesReady, metav1.ConditionFalse, s.unmet.reason, s.unmet.message)
	}
	return condition(v1beta1.ConditionDependenciesReady, metav1.ConditionTrue, reasonAsExpected, "")
}

func availableCondition(s *scope) metav1.Condition {
	p := primary(s.owned)
	if p == nil {
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, reasonProgressing, "no pods yet")
	}
	want, have := s.replicasWanted(p), count(p, "availableReplicas")
	if have < want {
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, reasonProgressing, fmt.Sprintf("%d of %d replicas are available", have, want))
	}
	return condition(v1beta1.ConditionAvailable, metav1.ConditionTrue, reasonAsExpected, fmt.Sprintf("%d replicas are available", have))
}

func driftedCondition(s *scope) metav1.Condition {
	if len(s.drift) == 0 {
		return condition(v1beta1.ConditionDrifted, metav1.ConditionFalse, reasonAsExpected, "")
	}
	if s.quarrel != "" {
		return condition(v1beta1.ConditionDrifted, metav1.ConditionTrue, reasonDriftReturns,
			s.quarrel+" was put back and keeps being changed; find out who writes it (kubectl get --show-managed-fields): "+driftText(s.drift))
	}
	return condition(v1beta1.ConditionDrifted, metav1.ConditionTrue, reasonDrift, driftText(s.drift))
}

// driftStatus is the drift that is there, or else what was put back last in this
// generation, as far as the process remembers.
func driftStatus(s *scope) *v1beta1.DriftStatus {
	changes := s.drift
	if len(changes) == 0 && s.memory.healedIn == s.workload.Generation {
		changes = s.memory.healed
	}
	if len(changes) == 0 {
		return nil
	}
	return &v1beta1.DriftStatus{Changes: changes[:min(len(changes), limits.StatusFindings)]}
}

func driftText(changes []v1beta1.DriftChange) string {
	var parts []string
	for _, c := range changes[:min(len(changes), limits.StatusFindings)] {
		parts = append(parts, strings.TrimSpace(c.Object+" "+c.Path)+" ("+c.Change+")")
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

// imageStatus lists the images with the digests that were verified and that run. An image
// that was refused, or could not be judged, has a digest only when it was allowed before
// in this generation. Gates may differ in what they ask of an image: what any of them
// found out counts.
func imageStatus(s *scope) []v1beta1.ImageStatus {
	if s.judgement == nil {
		return nil
	}
	blocked, known := s.judgement.Blocked(), resolvedBefore(s)
	var out []v1beta1.ImageStatus
	index := map[string]int{}
	for _, v := range s.judgement.Verdicts {
		for _, i := range v.Images {
			at, seen := index[i.Image]
			if !seen {
				at, index[i.Image] = len(out), len(out)
				out = append(out, v1beta1.ImageStatus{Image: i.Image, Digest: known[i.Image]})
			}
			if blocked || (i.Outcome != gate.ImageVerified && i.Outcome != gate.ImageAllowed) {
				continue
			}
			if out[at].SignedBy == "" {
				out[at].SignedBy = i.Authority
			}
			if out[at].PromotedFrom == "" {
				out[at].PromotedFrom = i.PromotedFrom
			}
			if i.Digest != "" {
				out[at].Digest = i.Digest
			}
		}
	}
	return out
}
