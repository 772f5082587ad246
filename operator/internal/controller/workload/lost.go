package workload

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/sluice-dev/sluice/operator/internal/render"
)

// findLost asks the API server for children that are not among those in the cache: these
// are found by labels, which someone may have taken off. Taken for missing, the pods'
// controller would run on whatever the gate says, and a rollout lose how far it is.
func (r *Reconciler) findLost(ctx context.Context, s *scope) error {
	for key := range s.memory.children {
		if findKey(s.owned, key) != nil {
			continue
		}
		found, err := r.fetch(ctx, s, key)
		if err != nil {
			return err
		}
		if !found {
			delete(s.memory.children, key)
		}
	}
	if len(s.owned) > 0 || controllerutil.ContainsFinalizer(s.workload, finalizer) {
		if err := r.findController(ctx, s); err != nil {
			return err
		}
		if err := r.findRollout(ctx, s); err != nil {
			return err
		}
	}
	s.memory.searched = true
	return nil
}

// fetch adds a child to those in scope, and says whether there is one.
func (r *Reconciler) fetch(ctx context.Context, s *scope, key childKey) (bool, error) {
	live := Child(key.GroupVersionKind)
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.workload.Namespace, Name: key.name}, live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, unreadable("ChildUnreadable", fmt.Errorf("get %s %s/%s: %w", key.Kind, s.workload.Namespace, key.name, err))
	}
	if !s.mine(live) && !s.strayed(live) {
		return false, nil
	}
	s.owned = append(s.owned, live)
	s.memory.children[key] = live.GetUID()
	return true, nil
}

// strayed says whether a child without an owner that was found by its name alone is this
// Workload's. What another one of that name left behind would be changed, and deleted as
// what nobody asks for.
func (s *scope) strayed(c *unstructured.Unstructured) bool {
	if !adoptable(c) || s.ofAnother(c) {
		return false
	}
	return isPodsController(c) || c.GetKind() == kindRecord || s.memory.children[keyOf(c)] == c.GetUID()
}

// ofAnother says whether a pods' controller selects the pods of another Workload, which
// nobody can change.
func (s *scope) ofAnother(c *unstructured.Unstructured) bool {
	instance, _, _ := unstructured.NestedString(c.Object, "spec", "selector", "matchLabels", render.LabelInstance)
	return isPodsController(c) && instance != "" && instance != s.workload.Name
}

func (r *Reconciler) findController(ctx context.Context, s *scope) error {
	if primary(s.owned) != nil {
		return nil
	}
	kind := "Deployment"
	if s.workload.Spec.Storage != nil {
		kind = "StatefulSet"
	}
	key := childKey{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind(kind), name: s.workload.Name}
	if findKey(s.owned, key) != nil {
		return nil
	}
	_, err := r.fetch(ctx, s, key)
	return err
}

// findRollout looks once in a process for what a rollout goes by: the record of the stable
// revision, and the canary of one that is under way. Later the process knows them.
func (r *Reconciler) findRollout(ctx context.Context, s *scope) error {
	if s.memory.searched {
		return nil
	}
	if watchful(&s.workload.Spec) && s.recorded() == nil {
		if err := r.findRecord(ctx, s); err != nil {
			return err
		}
	}
	if c := s.courseBefore(); c == nil || c.Done || s.workload.Spec.Storage != nil || canaryOf(s.owned) != nil {
		return nil
	}
	key := childKey{
		GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), name: render.CanaryName(primary(s.owned).GetName()),
	}
	if findKey(s.owned, key) != nil {
		// On its way out.
		return nil
	}
	_, err := r.fetch(ctx, s, key)
	return err
}

// recordSuffix is what RecordName adds to the Workload's name, and to no other's that begins
// like it.
var recordSuffix = regexp.MustCompile(`^-[0-9a-f]{16}-[0-9]+$`)

// findRecord looks through the metadata of all records in the namespace: the name of one
// cannot be told beforehand. One that lost its owner too is known by what the name is like.
func (r *Reconciler) findRecord(ctx context.Context, s *scope) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(recordKind.GroupVersion().WithKind(recordKind.Kind + "List"))
	if err := r.Live.List(ctx, list, client.InNamespace(s.workload.Namespace)); err != nil {
		return unreadable("ChildrenUnreadable", fmt.Errorf("list %s in %s: %w", recordKind.Kind, s.workload.Namespace, err))
	}
	for i := range list.Items {
		found, key := &list.Items[i], childKey{GroupVersionKind: recordKind, name: list.Items[i].Name}
		suffix, named := strings.CutPrefix(found.Name, s.workload.Name)
		ours := metav1.IsControlledBy(found, s.workload) || metav1.GetControllerOf(found) == nil && named && recordSuffix.MatchString(suffix)
		if !ours || findKey(s.owned, key) != nil {
			continue
		}
		if _, err := r.fetch(ctx, s, key); err != nil {
			return err
		}
	}
	return nil
}
