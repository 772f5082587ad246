package health_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/internal/health"
)

func status(kind string, generation int64, spec, status map[string]any) *unstructured.Unstructured {
	apiVersion := map[string]string{"Deployment": "apps/v1", "StatefulSet": "apps/v1", "PodDisruptionBudget": "policy/v1", "ConfigMap": "v1"}[kind]
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "a", "generation": generation}, "spec": spec, "status": status,
	}}
}

func TestOf_IsNotTooHopeful(t *testing.T) {
	replicas := func(n int64) map[string]any { return map[string]any{"replicas": n} }
	onDelete := map[string]any{"replicas": int64(3), "updateStrategy": map[string]any{"type": "OnDelete"}}
	settled := func(updated, observed int64) map[string]any {
		return map[string]any{"replicas": int64(3), "readyReplicas": int64(3), "availableReplicas": int64(3), "updatedReplicas": updated, "currentReplicas": int64(3),
			"currentRevision": "a", "updateRevision": "a", "observedGeneration": observed}
	}
	for name, tc := range map[string]struct {
		object  *unstructured.Unstructured
		want    string
		message string
	}{
		"a ConfigMap that exists":             {status("ConfigMap", 0, nil, nil), health.Healthy, ""},
		"a Deployment that is through":        {status("Deployment", 2, replicas(3), settled(3, 2)), health.Healthy, ""},
		"a Deployment nobody looked at":       {status("Deployment", 1, replicas(3), nil), health.Progressing, ""},
		"a status of an older generation":     {status("Deployment", 3, replicas(3), settled(3, 2)), health.Progressing, ""},
		"a budget of an older generation":     {status("PodDisruptionBudget", 3, nil, map[string]any{"observedGeneration": int64(2)}), health.Progressing, "has not seen"},
		"a budget that was seen":              {status("PodDisruptionBudget", 3, nil, map[string]any{"observedGeneration": int64(3)}), health.Healthy, ""},
		"a Deployment past its deadline":      {status("Deployment", 1, replicas(3), map[string]any{"observedGeneration": int64(1), "conditions": []any{map[string]any{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}}}), health.Degraded, "deadline"},
		"a Deployment whose pods are refused": {refused(map[string]any{"type": "Progressing", "reason": "ReplicaSetUpdated"}), health.Progressing, "have been updated...; pods are refused: exceeded quota: q, requested: pods=1"},
		"one that is refused them too long":   {refused(map[string]any{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}), health.Degraded, "progress deadline; pods are refused: exceeded quota"},
		"one that someone holds":              {held("example.com/hold", "foregroundDeletion"), health.Progressing, "Pending deletion; it waits for finalizer example.com/hold"},
		"one that is deleted":                 {held("foregroundDeletion"), health.Progressing, "Pending deletion"},
		"a StatefulSet with pods not ready":   {status("StatefulSet", 1, replicas(3), map[string]any{"observedGeneration": int64(1)}), health.Progressing, "3 pods"},
		"OnDelete with old pods":              {status("StatefulSet", 1, onDelete, settled(1, 1)), health.Progressing, "2 of 3 pods"},
		"OnDelete with new pods":              {status("StatefulSet", 1, onDelete, settled(3, 1)), health.Healthy, ""},
		"a status that cannot be read":        {status("Deployment", 1, map[string]any{"replicas": "three"}, nil), health.Unknown, "cannot be read"},
		"a kind without a notion, not Ready":  {custom(1, "False"), health.Degraded, "the disk is full"},
		"a kind without a notion, unsure":     {custom(1, "Unknown"), health.Healthy, ""},
		"one that was not Ready before":       {custom(2, "False"), health.Progressing, "has not seen"},
		"a kind of a version nobody knows of": {&unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v9", "kind": "Deployment"}}, health.Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := health.Of(tc.object)
			if got.Status != tc.want || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %+v, want %s", got, tc.want)
			}
		})
	}
}

// refused is a Deployment of which a quota lets one pod in three run.
func refused(condition map[string]any) *unstructured.Unstructured {
	return status("Deployment", 1, map[string]any{"replicas": int64(3)}, map[string]any{
		"observedGeneration": int64(1), "updatedReplicas": int64(1), "conditions": []any{condition, map[string]any{
			"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": `pods "a-5c5b5-ssrsf" is forbidden: exceeded quota: q, requested: pods=1`,
		}},
	})
}

// held is a Deployment that is deleted and has finalizers.
func held(finalizers ...string) *unstructured.Unstructured {
	u := status("Deployment", 1, nil, nil)
	u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	u.SetFinalizers(finalizers)
	return u
}

// A pod that is refused is tried again under another name: a status that told it would be
// written each time.
func TestOf_NamesNoPodThatWasRefused(t *testing.T) {
	d := refused(map[string]any{"type": "Progressing"})
	for _, says := range []string{`pods "a-5c5b5-ssrsf" is forbidden: no`, `Pod "a-5c5b5-ssrsf" is invalid: no`} {
		conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions")
		conditions[1].(map[string]any)["message"] = says
		if err := unstructured.SetNestedSlice(d.Object, conditions, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
		if got := health.Of(d).Message; !strings.HasSuffix(got, "; pods are refused: no") {
			t.Error(got)
		}
	}
}

// custom is an object of a kind that nobody knows, seen in its first generation.
func custom(generation int64, ready string) *unstructured.Unstructured {
	u := status("Database", generation, nil, map[string]any{"observedGeneration": int64(1), "conditions": []any{
		map[string]any{"type": "Synced", "status": "True"}, map[string]any{"type": "Ready", "status": ready, "message": "the disk is full"},
	}})
	u.SetAPIVersion("example.com/v1")
	return u
}

func TestWorse_OrdersFromHealthyToUnknown(t *testing.T) {
	order := []string{health.Healthy, health.Progressing, health.Missing, health.Degraded, health.Unknown}
	for i := range order {
		for j := range order {
			if got := health.Worse(order[i], order[j]); got != (j > i) {
				t.Errorf("%s worse than %s: %t", order[j], order[i], got)
			}
		}
	}
}
