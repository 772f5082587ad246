package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// playPod takes a pod one step further: bound, then running or done, then gone.
func (n *Node) playPod(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.Spec.NodeName != "" && pod.Spec.NodeName != Name:
		return nil
	case pod.DeletionTimestamp != nil:
		return n.end(ctx, pod)
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil
	case pod.Spec.NodeName == "":
		return n.bind(ctx, pod)
	}
	bound, err := n.claimsBound(ctx, pod)
	if err != nil || !bound {
		return err
	}
	status := n.statusOf(pod, metav1.Now())
	if equality.Semantic.DeepEqual(status, pod.Status) {
		return nil
	}
	next := pod.DeepCopy()
	next.Status = status
	return n.client.Status().Update(ctx, next)
}

// end deletes a pod for good. There is no container to give a grace period to. The UID
// guards the next pod of a StatefulSet, which has the same name.
func (n *Node) end(ctx context.Context, pod *corev1.Pod) error {
	return n.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
}

// bind is the scheduler's part. A gated pod is not to be scheduled yet.
func (n *Node) bind(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	return n.client.SubResource("binding").Create(ctx, pod, &corev1.Binding{
		Target: corev1.ObjectReference{Kind: "Node", Name: Name},
	})
}

// claimsBound says whether the pod's volumes are there; a kubelet waits for them too.
// The pod is played again when one of its claims changes.
func (n *Node) claimsBound(ctx context.Context, pod *corev1.Pod) (bool, error) {
	for _, name := range claimsOf(pod) {
		claim := &corev1.PersistentVolumeClaim{}
		err := n.client.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, claim)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("claim %s/%s: %w", pod.Namespace, name, err)
		}
		if err != nil || claim.Status.Phase != corev1.ClaimBound {
			return false, nil
		}
	}
	return true, nil
}

// claimsOf names the claims of a pod, those of its ephemeral volumes included.
func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, pod.Name+"-"+v.Name)
		}
	}
	return names
}

// podsOfClaim are the pods to play when a claim changed.
func (n *Node) podsOfClaim(ctx context.Context, claim client.Object) []ctrl.Request {
	pods := &corev1.PodList{}
	err := n.client.List(ctx, pods, client.InNamespace(claim.GetNamespace()), client.MatchingFields{claimIndex: claim.GetName()})
	if err != nil {
		return nil // the cache is stopped, and so is the play
	}
	requests := make([]ctrl.Request, 0, len(pods.Items))
	for i := range pods.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&pods.Items[i])})
	}
	return requests
}
