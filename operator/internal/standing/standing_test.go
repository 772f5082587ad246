package standing_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/standing"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func workload(phase v1beta1.Phase, change func(*v1beta1.Workload)) *v1beta1.Workload {
	w := &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Generation: 2}}
	w.Status.Phase, w.Status.ObservedGeneration = phase, 2
	if change != nil {
		change(w)
	}
	return w
}

func text(t *testing.T, e standing.Explanation) string {
	t.Helper()
	var out bytes.Buffer
	if err := e.Text(&out, noon); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWhy_SaysWhatEachPhaseMeans(t *testing.T) {
	for _, phase := range []v1beta1.Phase{
		v1beta1.PhasePending, v1beta1.PhaseGating, v1beta1.PhaseBlocked, v1beta1.PhaseWaiting, v1beta1.PhaseProgressing, v1beta1.PhaseCanary,
		v1beta1.PhaseReady, v1beta1.PhaseDegraded, v1beta1.PhaseRollingBack, v1beta1.PhasePaused, v1beta1.PhaseDeleting,
	} {
		if got := standing.Why(workload(phase, nil), nil).Summary; strings.HasSuffix(got, ": .") || !strings.Contains(got, "is "+string(phase)+": ") {
			t.Errorf("%s", got)
		}
	}
}

func TestWhy_TellsOfAnOlderSpecRolloutDriftAndChildren(t *testing.T) {
	got := text(t, standing.Why(workload(v1beta1.PhaseCanary, func(w *v1beta1.Workload) {
		w.Status.ObservedGeneration = 1
		w.Status.Rollout = &v1beta1.RolloutStatus{Step: 2, Steps: 3, StableDigest: "sha256:a", CurrentDigest: "sha256:b", FailedDigest: "sha256:c", Message: "waits for\nmetrics"}
		w.Status.Inventory = []v1beta1.InventoryEntry{{Kind: "Service", Name: "web", Health: "Healthy"}, {Kind: "Deployment", Name: "web", Health: "Degraded"}}
		w.Status.Conditions = []metav1.Condition{
			{Type: "Drifted", Status: metav1.ConditionTrue, Reason: "Drift", Message: "one field"},
			{Type: "Stalled", Status: metav1.ConditionFalse, Reason: "AsExpected"},
			{Type: "Gated", Status: metav1.ConditionTrue, Reason: "Allowed"},
		}
		w.Status.Drift = &v1beta1.DriftStatus{Changes: []v1beta1.DriftChange{{Object: "Deployment/shop/web", Path: "spec.replicas", Change: "Modified"}}}
	}), nil))
	for _, want := range []string{"of an older spec", "step 2 of 3, from sha256:a to sha256:b", "failed: sha256:c", `waits for\nmetrics`, "Deployment/web is Degraded", "Drifted is True (Drift): one field", "spec.replicas: Modified"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not said:\n%s", want, got)
		}
	}
	for _, unwanted := range []string{"Service/web", "Stalled", "Gated", "Last events"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("%q is said:\n%s", unwanted, got)
		}
	}
}

func TestWhy_ShowsTheNewestEventsFirst(t *testing.T) {
	var events []corev1.Event
	for i := range limits.EventsShown + 5 {
		e := corev1.Event{Reason: fmt.Sprintf("R%d", i)}
		at := noon.Add(time.Duration(i-100) * time.Minute)
		switch i % 3 { // the ways in which events tell their time
		case 0:
			e.LastTimestamp = metav1.NewTime(at)
		case 1:
			e.EventTime = metav1.NewMicroTime(at)
		default:
			e.EventTime = metav1.NewMicroTime(at.Add(-time.Hour))
			e.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(at)}
		}
		events = append(events, e)
	}
	got := standing.Why(workload(v1beta1.PhaseReady, nil), events)
	if len(got.Events) != limits.EventsShown {
		t.Fatalf("%d events", len(got.Events))
	}
	for i, e := range got.Events {
		if want := fmt.Sprintf("R%d", limits.EventsShown+4-i); e.Reason != want {
			t.Errorf("event %d is %s and not %s", i, e.Reason, want)
		}
	}
	if out := text(t, got); !strings.Contains(out, "1h26m0s ago") || !strings.Contains(out, "(7)") {
		t.Errorf("%s", out)
	}
}

func TestTable_AnswersToNoName(t *testing.T) {
	w := workload(v1beta1.PhaseReady, func(w *v1beta1.Workload) { w.Status.Gate = &v1beta1.GateStatus{Gate: "a\x1b[2Jb", Verdict: "Allow"} })
	row := standing.RowOf(w)
	var out bytes.Buffer
	table, err := standing.NewTable(&out, []standing.Row{row})
	if err == nil {
		err = table.Row(row)
	}
	if err != nil || strings.Contains(out.String(), "\x1b") || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%v: %q", err, out.String())
	}
}
