package gather_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/graph"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// shelf holds Workloads by key, and counts how often it was asked.
type shelf struct {
	client.Reader
	workloads map[client.ObjectKey]*v1beta1.Workload
	reads     int
}

func (s *shelf) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	w, ok := s.workloads[key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	w.DeepCopyInto(into.(*v1beta1.Workload))
	return nil
}

func (s *shelf) put(name string, dependencies ...string) *v1beta1.Workload {
	w := &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}}
	for _, d := range dependencies {
		w.Spec.DependsOn = append(w.Spec.DependsOn, v1beta1.DependencyRef{Name: d})
	}
	if s.workloads == nil {
		s.workloads = map[client.ObjectKey]*v1beta1.Workload{}
	}
	s.workloads[client.ObjectKeyFromObject(w)] = w
	return w
}

// tree is two levels below one Workload, as wide as the API allows.
func (s *shelf) tree(second int) *v1beta1.Workload {
	var first []string
	for i := range 32 {
		var below []string
		for j := range second {
			name := fmt.Sprintf("w-%d-%d", i, j)
			s.put(name, "shared")
			below = append(below, name)
		}
		name := fmt.Sprint("w-", i)
		s.put(name, below...)
		first = append(first, name)
	}
	return s.put("top", first...)
}

func TestDependencies_AreReadOnceEachAndWithinBounds(t *testing.T) {
	fits, wide := &shelf{}, &shelf{}
	found, reached, err := gather.Dependencies(t.Context(), fits.tree(30), fits)
	// "shared" is named by all and does not exist.
	if want := 32 + 32*30 + 1; err != nil || len(found) != 32 || fits.reads != want || gather.Cyclic(fits.put("top"), reached) != nil {
		t.Errorf("%d found in %d reads, want %d: %v", len(found), fits.reads, want, err)
	}
	if _, _, err := gather.Dependencies(t.Context(), wide.tree(32), wide); !errors.Is(err, graph.ErrTooLarge) || !strings.Contains(err.Error(), "limits.DependencyReach") || wide.reads > limits.DependencyReach {
		t.Errorf("after %d reads: %v", wide.reads, err)
	}
}

func TestDependencies_FollowTheObjectAtHandAndNotTheStoredOne(t *testing.T) {
	s := &shelf{}
	s.put("a")
	s.put("b", "a")
	submitted := (&shelf{}).put("a", "nobody", "b")
	found, reached, err := gather.Dependencies(t.Context(), submitted, s)
	if err != nil || found[0].Workload != nil || !found[0].Allowed || found[1].Workload == nil {
		t.Fatalf("%+v, %v", found, err)
	}
	cycle := gather.Cyclic(submitted, reached)
	if cycle == nil || cycle.Field != "spec.dependsOn[1]" || !strings.Contains(cycle.Detail, "shop/a -> shop/b -> shop/a") {
		t.Errorf("%v", cycle)
	}
}
