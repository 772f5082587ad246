package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// keepClaimSizes notes how large the volumes are to be, and leaves a StatefulSet that
// exists with the claim templates that it has: the API server refuses others.
func (r *Reconciler) keepClaimSizes(_ context.Context, s *scope) error {
	for _, d := range s.desired {
		live := find(s.owned, d)
		if live == nil || d.GetKind() != "StatefulSet" {
			continue
		}
		sizes, err := delta.ClaimSizes(d)
		if err != nil {
			return unreadable("RenderFailed", err)
		}
		s.volumes = sizes
		delta.KeepClaimSizes(d, live)
	}
	return nil
}

// growVolumes asks for more where a volume claim is smaller than the spec says: those that
// were there when the spec changed, and those that the StatefulSet made since from its old
// templates. A claim that is larger is left alone, since none can shrink.
func (r *Reconciler) growVolumes(ctx context.Context, s *scope) error {
	if len(s.volumes) == 0 {
		return nil
	}
	list := &corev1.PersistentVolumeClaimList{}
	err := r.Client.List(ctx, list, client.InNamespace(s.workload.Namespace), client.MatchingLabels(render.ClaimLabels(s.workload.Name)))
	if err != nil {
		return unreadable("VolumeClaimsUnreadable", fmt.Errorf("list volume claims in %s: %w", s.workload.Namespace, err))
	}
	for i := range list.Items {
		claim := &list.Items[i]
		size, ok := delta.ClaimSize(claim.Name, s.workload.Name, s.volumes)
		if !ok || claim.DeletionTimestamp != nil {
			continue
		}
		if claim.Spec.Resources.Requests.Storage().Cmp(size) < 0 {
			if err := r.grow(ctx, claim, size); err != nil {
				return err
			}
		}
		if capacity, bound := claim.Status.Capacity[corev1.ResourceStorage]; bound && capacity.Cmp(size) < 0 {
			s.growing = append(s.growing, claim.Name+": "+growth(claim, capacity, size))
		}
	}
	slices.Sort(s.growing)
	return nil
}

// growth says how far a volume is, in the words of whoever resizes it where there are any.
func growth(claim *corev1.PersistentVolumeClaim, capacity, size resource.Quantity) string {
	text := fmt.Sprintf("%s of %s", capacity.String(), size.String())
	for _, c := range claim.Status.Conditions {
		switch c.Type {
		case corev1.PersistentVolumeClaimFileSystemResizePending, corev1.PersistentVolumeClaimResizing,
			corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			text += ", " + string(c.Type)
			if c.Message != "" {
				text += " (" + c.Message + ")"
			}
		}
	}
	return text
}

// grow writes the new size into a claim that nobody wrote since it was read.
func (r *Reconciler) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	logf.FromContext(ctx).Info("Growing volume claim", "child", claim.Name, "size", size.String())
	patch, err := json.Marshal([]operation{
		{Op: "replace", Path: "/metadata/resourceVersion", Value: claim.ResourceVersion},
		{Op: "replace", Path: "/spec/resources/requests/storage", Value: size.String()},
	})
	if err != nil {
		return about("grow", "PersistentVolumeClaim", claim, err)
	}
	err = r.Client.Patch(ctx, claim, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager))
	if err != nil {
		return refused("VolumeNotGrown", about("grow", "PersistentVolumeClaim", claim, err))
	}
	r.Metrics.ChildWrites.WithLabelValues("PersistentVolumeClaim", "grow").Inc()
	return nil
}

func growingText(volumes []string) string {
	text := "volumes grow: " + strings.Join(volumes[:min(len(volumes), limits.StatusFindings)], "; ")
	if more := len(volumes) - limits.StatusFindings; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// ofClaim is the Workload whose StatefulSet a volume claim is from.
func ofClaim(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[render.LabelInstance]
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}}}
}
