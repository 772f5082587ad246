// Package standing says how Workloads stand, from what the operator wrote into their
// status: a row for a table, an explanation, and drift. It is pure.
package standing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Row is one Workload in a table.
type Row struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"`
	// Ready of Desired pods.
	Ready   int32  `json:"ready"`
	Desired int32  `json:"desired"`
	Gate    string `json:"gate,omitempty"`
	Verdict string `json:"verdict,omitempty"`
	// Digest of the main image, and who signed it.
	Digest string `json:"digest,omitempty"`
	Signer string `json:"signer,omitempty"`
	// Drift counts the fields that differ now; those that were put back do not.
	Drift int `json:"drift"`
	// Current says whether all this speaks of the spec as it is now.
	Current bool `json:"current"`
}

// RowOf is the row of a Workload.
func RowOf(w *v1beta1.Workload) Row {
	row := Row{
		Namespace: w.Namespace, Name: w.Name, Phase: string(w.Status.Phase), Ready: w.Status.ReadyReplicas, Desired: 1,
		Drift: len(Drifted(w)), Current: w.Status.ObservedGeneration == w.Generation && w.Status.Phase != "",
	}
	if w.Spec.Replicas != nil {
		row.Desired = *w.Spec.Replicas
	}
	if g := w.Status.Gate; g != nil {
		row.Gate, row.Verdict = g.Gate, g.Verdict
	}
	for _, image := range w.Status.Images {
		if image.Image == w.Spec.Image {
			row.Digest, row.Signer = image.Digest, image.SignedBy
		}
	}
	return row
}

// shortDigest is how many characters of a digest tell images of one fleet apart.
const shortDigest = 12

// header names the cells.
var header = []string{"NAMESPACE", "NAME", "PHASE", "READY", "GATE", "VERDICT", "DIGEST", "SIGNER", "DRIFT"}

// cells are the row as text, in the order of header.
func (r Row) cells() []string {
	digest := digests.Hex(r.Digest)
	phase := orDash(r.Phase)
	if !r.Current {
		phase += "*"
	}
	return []string{
		r.Namespace, r.Name, phase, fmt.Sprintf("%d/%d", r.Ready, r.Desired), orDash(r.Gate), orDash(r.Verdict),
		orDash(digest[:min(shortDigest, len(digest))]), orDash(r.Signer), fmt.Sprint(r.Drift),
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Drifted are the fields of children that differ now. A Workload that heals tells in the
// same place of what it put back, which is none.
func Drifted(w *v1beta1.Workload) []v1beta1.DriftChange {
	if w.Status.Drift == nil || !meta.IsStatusConditionTrue(w.Status.Conditions, v1beta1.ConditionDrifted) {
		return nil
	}
	return w.Status.Drift.Changes
}

// Happened is an event, told once.
type Happened struct {
	At      metav1.Time `json:"at"`
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Count   int32       `json:"count"`
}

// Explanation is why a Workload stands as it does.
type Explanation struct {
	Row
	// Summary is one sentence.
	Summary    string                    `json:"summary"`
	Violations []v1beta1.ViolationStatus `json:"violations,omitempty"`
	// Waits are the conditions that are not as they should be.
	Waits    []metav1.Condition       `json:"waits,omitempty"`
	Children []v1beta1.InventoryEntry `json:"unhealthy,omitempty"`
	Changes  []v1beta1.DriftChange    `json:"changes,omitempty"`
	Rollout  *v1beta1.RolloutStatus   `json:"rollout,omitempty"`
	Events   []Happened               `json:"events,omitempty"`
}

// Why explains a Workload by its status and its events.
func Why(w *v1beta1.Workload, events []corev1.Event) Explanation {
	e := Explanation{Row: RowOf(w), Changes: Drifted(w), Events: last(events)}
	if w.Status.Gate != nil {
		e.Violations = w.Status.Gate.Violations
	}
	for _, c := range w.Status.Conditions {
		if !asWanted(c) {
			e.Waits = append(e.Waits, c)
		}
	}
	for _, child := range w.Status.Inventory {
		if child.Health != "" && child.Health != "Healthy" {
			e.Children = append(e.Children, child)
		}
	}
	if r := w.Status.Rollout; r != nil && (r.Step > 0 || r.FailedDigest != "" || r.Message != "") {
		e.Rollout = r
	}
	e.Summary = summary(w, e)
	return e
}

// asWanted: Ready and the like should be True; what tells of trouble or work under way
// should not.
func asWanted(c metav1.Condition) bool {
	switch c.Type {
	case v1beta1.ConditionStalled, v1beta1.ConditionReconciling, v1beta1.ConditionDrifted:
		return c.Status == metav1.ConditionFalse
	}
	return c.Status == metav1.ConditionTrue
}

var phases = map[v1beta1.Phase]string{
	v1beta1.PhasePending:     "nothing of its current spec was applied yet",
	v1beta1.PhaseGating:      "the gate could not decide yet, so nothing of its current spec was applied",
	v1beta1.PhaseBlocked:     "its current spec is not applied, and what ran before goes on running",
	v1beta1.PhaseWaiting:     "it waits for something that its spec names",
	v1beta1.PhaseProgressing: "it was applied, and its pods are not all available yet",
	v1beta1.PhaseCanary:      "some pods run the new revision and are watched before more follow",
	v1beta1.PhaseReady:       "it runs as its spec says",
	v1beta1.PhaseDegraded:    "something of it fails, or its rollout did",
	v1beta1.PhaseRollingBack: "its rollout failed, and its pods go back to what ran before",
	v1beta1.PhasePaused:      "spec.paused is set, so nothing is applied",
	v1beta1.PhaseDeleting:    "it is being deleted",
}

func summary(w *v1beta1.Workload, e Explanation) string {
	name := fmt.Sprintf("Workload %s/%s", w.Namespace, w.Name)
	if w.Status.Phase == "" {
		return name + " has no status: no operator has looked at it. See that the operator runs, and that it watches this namespace."
	}
	text := fmt.Sprintf("%s is %s: %s.", name, w.Status.Phase, phases[w.Status.Phase])
	if !e.Current {
		text += " This is of an older spec than the one that is there: the operator has not come to it yet."
	}
	ready := meta.FindStatusCondition(w.Status.Conditions, v1beta1.ConditionReady)
	if ready != nil && ready.Status != metav1.ConditionTrue && ready.Message != "" {
		text += " " + strings.TrimSuffix(ready.Message, ".") + "."
	}
	return text
}

// last are the newest events, the newest first.
func last(events []corev1.Event) []Happened {
	var out []Happened
	for _, ev := range events {
		at := ev.LastTimestamp.Time
		count := max(ev.Count, 1)
		if ev.Series != nil {
			at, count = ev.Series.LastObservedTime.Time, ev.Series.Count
		}
		for _, other := range []time.Time{ev.EventTime.Time, ev.FirstTimestamp.Time, ev.CreationTimestamp.Time} {
			if at.IsZero() {
				at = other
			}
		}
		out = append(out, Happened{metav1.NewTime(at), ev.Type, ev.Reason, cmp.Or(ev.Message, ev.Action), count})
	}
	slices.SortStableFunc(out, func(a, b Happened) int { return b.At.Compare(a.At.Time) })
	return out[:min(len(out), limits.EventsShown)]
}
