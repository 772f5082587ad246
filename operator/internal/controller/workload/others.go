package workload

import (
	"context"
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/ignore"
)

// leaveToOthers finds out which fields of the children others own: those that
// spec.drift.ignore names, and the replicas of a pods' controller that an autoscaler
// targets. An autoscaler that targets the Workload writes spec.replicas, as anyone may.
func (r *Reconciler) leaveToOthers(ctx context.Context, s *scope) error {
	// What is refused was told by the gate, and has no effect where the gate only warns.
	s.ignored, _ = ignore.Parse(s.workload.Spec.Drift)
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	if err := r.Client.List(ctx, list, client.InNamespace(s.workload.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return unreadable("AutoscalersUnreadable", fmt.Errorf("list HorizontalPodAutoscalers in %s: %w", s.workload.Namespace, err))
	}
	for _, content := range s.judgement.Children {
		p := primary([]*unstructured.Unstructured{{Object: content}})
		if p == nil {
			continue
		}
		for i := range list.Items {
			to := list.Items[i].Spec.ScaleTargetRef
			if strings.HasPrefix(to.APIVersion, "apps/") && to.Kind == p.GetKind() && to.Name == p.GetName() {
				s.scaler = list.Items[i].Name
			}
		}
	}
	return nil
}

var replicasPath = ignore.Path{"spec", "replicas"}

// left are the fields of a child that are left to others.
func (s *scope) left(d *unstructured.Unstructured) []ignore.Path {
	paths := ignore.For(s.ignored, d.GetKind(), d.GetName())
	if s.scaler != "" && primary([]*unstructured.Unstructured{d}) != nil {
		paths = append(paths, replicasPath)
	}
	return paths
}

// asked is what a child should be, given what it is: the fields that are left to others
// are as they are. A child that is not there yet gets them from the spec, as their first
// value.
func (s *scope) asked(d, live *unstructured.Unstructured) *unstructured.Unstructured {
	if live == nil {
		return d
	}
	left := s.left(d)
	if scaledToZero(live) {
		// Until resume gives it pods again, in one write and last of all.
		left = append(left[:len(left):len(left)], replicasPath)
	}
	return ignore.Yield(d, live, left)
}

// differences is what of a child is not as it should be.
func (s *scope) differences(d, live *unstructured.Unstructured) ([]delta.Change, error) {
	if live == nil {
		return []delta.Change{{Kind: delta.Missing}}, nil
	}
	changes, err := delta.Compare(s.asked(d, live), live)
	if err == nil && ownerless(d, live) {
		changes = append(changes, delta.Change{Path: "metadata.ownerReferences", Kind: delta.Removed})
	}
	return changes, err
}

// replicasWanted is how many pods there should be: what an autoscaler asked for, or else
// the spec.
func (s *scope) replicasWanted(p *unstructured.Unstructured) int32 {
	if s.scaler != "" {
		if n, found, err := unstructured.NestedInt64(p.Object, "spec", "replicas"); found && err == nil {
			return int32(n)
		}
	}
	return *s.workload.Spec.Replicas
}

// retargeted lets through what changes whose replicas an autoscaler sets. Its status
// changes every few seconds.
var retargeted = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*autoscalingv2.HorizontalPodAutoscaler), e.ObjectNew.(*autoscalingv2.HorizontalPodAutoscaler)
	return !equality.Semantic.DeepEqual(before.Spec.ScaleTargetRef, after.Spec.ScaleTargetRef)
}}
