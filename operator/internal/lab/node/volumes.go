package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// provisionedBy is how the volume controller knows that someone else made a volume and
// will delete it.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// playClaim is an external provisioner's part: it makes a volume reserved for the claim,
// and leaves binding the two to the volume controller. A claim of another class, or of a
// class that is not there, stays Pending as it would elsewhere.
func (n *Node) playClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class := claim.Spec.StorageClassName
	if claim.DeletionTimestamp != nil || claim.Spec.VolumeName != "" || class == nil || *class != StorageClass {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              StorageClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: provisioner, VolumeHandle: name},
			},
		},
	}
	if err := n.client.Create(ctx, volume); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("volume for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// playVolume deletes a volume of its own whose claim is gone.
func (n *Node) playVolume(ctx context.Context, volume *corev1.PersistentVolume) error {
	if volume.Annotations[provisionedBy] != provisioner ||
		volume.DeletionTimestamp != nil ||
		volume.Status.Phase != corev1.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	return n.client.Delete(ctx, volume)
}
