// Package health judges how well children are. It is the one door to gitops-engine, and no
// part of the command, to which that would add 300 packages.
package health

import (
	"fmt"
	"regexp"

	engine "github.com/argoproj/gitops-engine/pkg/health"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Health is how well a child is, in gitops-engine's words.
type Health struct {
	// Status is Healthy, Progressing, Degraded, Suspended, Missing or Unknown.
	Status string
	// Message says why, when it is not Healthy.
	Message string
}

// The health statuses that decide a phase.
const (
	Healthy     = string(engine.HealthStatusHealthy)
	Progressing = string(engine.HealthStatusProgressing)
	Degraded    = string(engine.HealthStatusDegraded)
	Missing     = string(engine.HealthStatusMissing)
	Unknown     = string(engine.HealthStatusUnknown)
)

// Of judges one child; kinds that have no notion of health are Healthy once they
// exist, unless they say themselves that they are not Ready. What cannot be read is Unknown.
func Of(live *unstructured.Unstructured) Health {
	h, err := engine.GetResourceHealth(live, nil)
	if err != nil {
		return Health{Status: Unknown, Message: fmt.Sprintf("health cannot be read: %v", err)}
	}
	out := Health{Status: Healthy}
	if h != nil {
		out = Health{Status: string(h.Status), Message: h.Message}
	}
	if out.Status != Healthy {
		out.Message += hindrance(live)
		return out
	}
	if message := unfinished(live); message != "" {
		return Health{Status: Progressing, Message: message}
	}
	if message, not := notReady(live); h == nil && not {
		return Health{Status: Degraded, Message: message}
	}
	return out
}

// refusal begins what the API server says of a pod that it refused or found invalid, with a
// name that is another one each time.
var refusal = regexp.MustCompile(`^(?:pods|Pod) "[^"]*" is (?:forbidden|invalid): `)

// hindrance is what gitops-engine does not tell of a child that gets no further: who holds
// one that is deleted, and why pods of a Deployment are refused, as by a quota.
func hindrance(live *unstructured.Unstructured) string {
	if live.GetDeletionTimestamp() != nil {
		for _, f := range live.GetFinalizers() {
			if f != metav1.FinalizerDeleteDependents {
				return "; it waits for finalizer " + f
			}
		}
		return ""
	}
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "ReplicaFailure" && c["status"] == "True" {
			text, _ := c["message"].(string)
			return "; pods are refused: " + redact.Text(refusal.ReplaceAllString(text, ""), limits.TroubleBytes)
		}
	}
	return ""
}

// notReady says why a kind that gitops-engine knows nothing of is not Ready, by the
// condition that most of them have.
func notReady(live *unstructured.Unstructured) (message string, not bool) {
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "False" {
			for _, key := range []string{"message", "reason"} {
				if text, _ := c[key].(string); text != "" {
					return text, true
				}
			}
			return "it is not Ready", true
		}
	}
	return "", false
}

// unfinished says what gitops-engine overlooks in a child that it calls Healthy: a status
// that speaks of an older spec, and a StatefulSet that waits for someone to delete its
// old pods.
func unfinished(live *unstructured.Unstructured) string {
	seen, found, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	if found && seen < live.GetGeneration() {
		return "its controller has not seen the current spec yet"
	}
	if live.GetKind() != "StatefulSet" {
		return ""
	}
	if strategy, _, _ := unstructured.NestedString(live.Object, "spec", "updateStrategy", "type"); strategy != "OnDelete" {
		return ""
	}
	want, _, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	updated, _, _ := unstructured.NestedInt64(live.Object, "status", "updatedReplicas")
	if updated >= want {
		return ""
	}
	return fmt.Sprintf("%d of %d pods run the old template; with updateStrategy OnDelete they have to be deleted by hand", want-updated, want)
}

// Worse says whether health status b is worse than a.
func Worse(a, b string) bool {
	return engine.IsWorse(engine.HealthStatusCode(a), engine.HealthStatusCode(b))
}
