package workload

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// inspector sees every status that the API server stores while the suite runs, and holds
// it against the rules that kstatus and people rely on.
type inspector struct {
	watch watch.Interface
	done  chan struct{}
	found []string
	seen  int
}

func startInspector() (*inspector, error) {
	w, err := api.Watch(context.Background(), &v1beta1.WorkloadList{})
	if err != nil {
		return nil, err
	}
	i := &inspector{watch: w, done: make(chan struct{})}
	go i.run()
	return i, nil
}

func (i *inspector) stop() error {
	i.watch.Stop()
	<-i.done
	if len(i.found) > 0 {
		return fmt.Errorf("statuses that break the rules:\n%s", strings.Join(i.found, "\n"))
	}
	if i.seen == 0 {
		return fmt.Errorf("the inspector saw no status at all")
	}
	return nil
}

func (i *inspector) run() {
	defer close(i.done)
	last := map[types.UID]v1beta1.WorkloadStatus{}
	for e := range i.watch.ResultChan() {
		w, ok := e.Object.(*v1beta1.Workload)
		if !ok || e.Type == watch.Deleted || w.Status.Phase == "" || tampered(w) {
			continue
		}
		i.seen++
		for _, text := range broken(last[w.UID], w) {
			i.found = append(i.found, fmt.Sprintf("%s/%s (%s): %s", w.Namespace, w.Name, w.Status.Phase, text))
		}
		last[w.UID] = w.Status
	}
}

// tampered says that a test wrote to the status.
func tampered(w *v1beta1.Workload) bool {
	for _, e := range w.ManagedFields {
		if e.Subresource == "status" && e.Manager != fieldManager {
			return true
		}
	}
	return false
}

var pascalCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// broken lists what is wrong with a status, and with the step from the one before.
func broken(before v1beta1.WorkloadStatus, w *v1beta1.Workload) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	status := map[string]metav1.ConditionStatus{}
	for _, c := range w.Status.Conditions {
		status[c.Type] = c.Status
		if c.ObservedGeneration != w.Status.ObservedGeneration {
			add("%s observed generation %d, status %d", c.Type, c.ObservedGeneration, w.Status.ObservedGeneration)
		}
		if !pascalCase.MatchString(c.Reason) {
			add("%s has reason %q", c.Type, c.Reason)
		}
		if strings.ContainsAny(c.Message, "\n\r\x1b") || len(c.Message) > 1024 {
			add("%s has a message of %d bytes that is not fit to print: %q", c.Type, len(c.Message), c.Message)
		}
		for _, b := range before.Conditions {
			if b.Type == c.Type && b.Status == c.Status && !b.LastTransitionTime.Equal(&c.LastTransitionTime) {
				add("%s moved its transition time and not its status", c.Type)
			}
		}
	}
	for kind := range ownConditions {
		// Promoted is there where a Gate attests.
		if status[kind] == "" && kind != v1beta1.ConditionPromoted {
			add("no condition %s", kind)
		}
	}
	ready, reconciling, stalled := status[v1beta1.ConditionReady], status[v1beta1.ConditionReconciling], status[v1beta1.ConditionStalled]
	if reconciling == metav1.ConditionTrue && stalled == metav1.ConditionTrue {
		add("Reconciling and Stalled at once")
	}
	if ready == metav1.ConditionTrue && (reconciling != metav1.ConditionFalse || stalled != metav1.ConditionFalse) {
		add("Ready, and Reconciling %s, Stalled %s", reconciling, stalled)
	}
	if ready != metav1.ConditionTrue && reconciling != metav1.ConditionTrue && stalled != metav1.ConditionTrue && w.Status.Phase != v1beta1.PhasePaused {
		add("not Ready, and neither Reconciling nor Stalled says why")
	}
	if (ready == metav1.ConditionTrue) != (w.Status.Phase == v1beta1.PhaseReady) {
		add("phase %s with Ready %s", w.Status.Phase, ready)
	}
	if w.Status.ObservedGeneration > w.Generation || w.Status.ObservedGeneration < before.ObservedGeneration {
		add("observed generation %d of %d after %d", w.Status.ObservedGeneration, w.Generation, before.ObservedGeneration)
	}
	return out
}
