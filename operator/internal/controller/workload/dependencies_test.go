package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// indexed answers lists by the indexes of dependencies and of children, which the cache
// has and the API server has not.
func indexed(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	workloads, ok := l.(*v1beta1.WorkloadList)
	if o.FieldSelector == nil {
		return c.List(ctx, l, opts...)
	}
	if _, children := o.FieldSelector.RequiresExactMatch(indexInstance); children {
		o.FieldSelector = nil // their label, which is asked for too, says the same
	}
	if !ok {
		return c.List(ctx, l, &o)
	}
	if err := c.List(ctx, l); err != nil {
		return err
	}
	key, known := o.FieldSelector.RequiresExactMatch(indexDependencies)
	if !known {
		return fmt.Errorf("no index for %s", o.FieldSelector)
	}
	workloads.Items = slices.DeleteFunc(workloads.Items, func(w v1beta1.Workload) bool {
		return !slices.ContainsFunc(w.Spec.DependsOn, func(d v1beta1.DependencyRef) bool { return gather.DependencyKey(&w, d).String() == key })
	})
	return nil
}

// on makes a Workload depend on others, by name or namespace/name.
func on(dependencies ...string) func(*v1beta1.Workload) {
	return func(w *v1beta1.Workload) {
		w.Spec.DependsOn = nil
		for _, d := range dependencies {
			ref := v1beta1.DependencyRef{Name: d}
			if ns, name, elsewhere := strings.Cut(d, "/"); elsewhere {
				ref = v1beta1.DependencyRef{Namespace: ns, Name: name}
			}
			w.Spec.DependsOn = append(w.Spec.DependsOn, ref)
		}
	}
}

func (b *bench) inCycle(w *v1beta1.Workload, path string) {
	b.t.Helper()
	b.expect(w, v1beta1.PhaseBlocked, reasonDependencyCycle)
	for _, kind := range []string{v1beta1.ConditionDependenciesReady, v1beta1.ConditionStalled} {
		want := metav1.ConditionFalse
		if kind == v1beta1.ConditionStalled {
			want = metav1.ConditionTrue
		}
		if c := conditionOf(w, kind); c.Status != want || c.Reason != reasonDependencyCycle || !strings.Contains(c.Message, path) {
			b.t.Errorf("%s of %s: %+v, want %s", kind, w.Name, c, path)
		}
	}
}

func TestReconcile_ShowsACycleOnEachMember(t *testing.T) {
	b := newBench(t)
	one, two, three := b.workload("one", on("two")), b.workload("two", on("three")), b.workload("three", on("one"))
	behind := b.workload("behind", on("one"))
	path := fmt.Sprintf("%[1]s/one -> %[1]s/two -> %[1]s/three -> %[1]s/one", b.namespace)
	// Twice: each has written its status then, and the others have read it.
	for range 2 {
		for _, w := range []*v1beta1.Workload{one, two, three} {
			b.must(w)
			b.inCycle(w, path)
		}
	}
	if m := conditionOf(two, v1beta1.ConditionReady).Message; !strings.Contains(m, "spec.dependsOn[0]") {
		t.Errorf("the message does not name the field: %s", m)
	}
	b.must(behind)
	b.expect(behind, v1beta1.PhaseWaiting, reasonDependencyNotReady)
	b.taken()
	b.must(one)
	if writes := b.taken(); len(writes) > 0 {
		t.Errorf("writes at rest: %v", writes)
	}
	b.update(three, on())
	b.must(three)
	b.expect(three, v1beta1.PhaseProgressing, reasonProgressing)
	b.must(one)
	b.expect(one, v1beta1.PhaseWaiting, reasonDependencyNotReady)
}

func TestReconcile_ShowsACycleOnWhatRunsAndStillPutsDriftBack(t *testing.T) {
	b := newBench(t)
	db := b.running("db")
	web := b.running("web", on("db"))
	b.update(db, on("web"))
	before := b.child("Deployment", "web").GetResourceVersion()
	b.must(web)
	b.inCycle(web, b.namespace+"/db -> "+b.namespace+"/web")
	if b.child("Deployment", "web").GetResourceVersion() != before {
		t.Error("a cycle touched pods that run")
	}
	if err := api.Delete(t.Context(), b.child("Service", "web")); err != nil {
		t.Fatal(err)
	}
	b.must(web)
	if b.child("Service", "web") == nil {
		t.Error("drift is not put back in a cycle")
	}
	b.update(db, on())
	b.must(web)
	b.expect(web, v1beta1.PhaseReady, reasonReady)
}

// What a Workload says of one in another namespace must not depend on what is there.
func TestReconcile_KeepsToItselfWhatIsInOtherNamespaces(t *testing.T) {
	theirs := newBench(t)
	theirs.running("db")
	ours := newBench(t)
	web := ours.workload("web", on(theirs.namespace+"/db"))
	none := ours.workload("web2", on(theirs.namespace+"/nobody"))
	ours.must(web)
	ours.must(none)
	ours.expect(web, v1beta1.PhaseBlocked, reasonDependencyNotAllowed)
	ours.expect(none, v1beta1.PhaseBlocked, reasonDependencyNotAllowed)
	said := func(w *v1beta1.Workload, name string) string {
		return strings.ReplaceAll(conditionOf(w, v1beta1.ConditionDependenciesReady).Message, theirs.namespace+"/"+name, "IT")
	}
	if diff := cmp.Diff(said(none, "nobody"), said(web, "db")); diff != "" {
		t.Errorf("it can be told whether there is one: %s", diff)
	}
	if m := said(web, "db"); !strings.Contains(m, "spec.dependsOn[0]") || !strings.Contains(m, "spec.dependentNamespaces") {
		t.Errorf("message: %s", m)
	}
	consent := func(to ...string) {
		db := &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: theirs.namespace}}
		theirs.update(db, func(w *v1beta1.Workload) { w.Spec.DependentNamespaces = to })
		theirs.must(db)
		theirs.healthy(db)
		theirs.must(db)
	}
	consent("other", ours.namespace)
	ours.must(web)
	ours.healthy(web)
	ours.must(web)
	ours.expect(web, v1beta1.PhaseReady, reasonReady)
	// Consent that is taken back is told, and what runs keeps running.
	consent("other")
	ours.must(web)
	ours.expect(web, v1beta1.PhaseReady, reasonReady)
	if c := conditionOf(web, v1beta1.ConditionDependenciesReady); c.Reason != reasonDependencyNotAllowed {
		t.Errorf("DependenciesReady: %+v", c)
	}
	consent("*")
	ours.must(web)
	if c := conditionOf(web, v1beta1.ConditionDependenciesReady); c.Status != metav1.ConditionTrue {
		t.Errorf("DependenciesReady: %+v", c)
	}
}

func (b *bench) isLeaving(w *v1beta1.Workload, want bool) {
	b.t.Helper()
	if d := b.child("Deployment", w.Name); d == nil || (d.GetDeletionTimestamp() != nil) != want {
		b.t.Fatalf("Deployment of %s: leaving should be %t: %+v", w.Name, want, conditionOf(w, v1beta1.ConditionReady))
	}
}

func TestDelete_LetsDependentsGoFirst(t *testing.T) {
	b := newBench(t)
	db := b.running("db")
	web := b.running("web", on("db"))
	b.remove(db)
	b.remove(web)
	b.must(db)
	b.isLeaving(db, false)
	b.expect(db, v1beta1.PhaseDeleting, reasonDeleting)
	if m := conditionOf(db, v1beta1.ConditionReconciling).Message; !strings.Contains(m, b.namespace+"/web") {
		t.Errorf("does not say for whom it waits: %s", m)
	}
	if len(db.Status.Inventory) == 0 {
		t.Error("children that are still there are not in status")
	}
	b.taken()
	if result := b.must(db); result.RequeueAfter > recheckDeleting || len(b.taken()) > 0 {
		t.Errorf("again in %s, or writes while it waits", result.RequeueAfter)
	}
	b.must(web)
	b.isLeaving(web, true)
	b.must(db)
	b.isLeaving(db, false)
	b.collect()
	b.must(web)
	b.must(db)
	b.isLeaving(db, true)
	b.collect()
	b.must(db)
	if !b.deleted(web) || !b.deleted(db) {
		t.Error("still there")
	}
}

func TestDelete_IsNotHeldUp(t *testing.T) {
	for name, tc := range map[string]struct {
		dependent func(*v1beta1.Workload)
		// before is done to the two before db is reconciled.
		before func(b *bench, db, web *v1beta1.Workload)
		// after is how long it takes.
		after time.Duration
	}{
		"by a dependent that stays": {func(*v1beta1.Workload) {}, func(*bench, *v1beta1.Workload, *v1beta1.Workload) {}, limits.DeletionGrace},
		"for ever by one that is stuck": {func(w *v1beta1.Workload) { w.Finalizers = []string{"example.com/stuck"} },
			func(b *bench, _, web *v1beta1.Workload) { b.remove(web) }, limits.DeletionHold},
		"by one that it depends on itself": {func(*v1beta1.Workload) {}, func(b *bench, db, web *v1beta1.Workload) {
			b.update(db, on("web"))
			b.remove(web)
		}, 0},
		"by one whose children are gone": {func(w *v1beta1.Workload) { w.Finalizers = []string{"example.com/stuck"} },
			func(b *bench, _, web *v1beta1.Workload) {
				b.remove(web)
				b.must(web)
				b.collect()
				b.must(web)
			}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			db := b.running("db")
			web := b.running("web", on("db"), tc.dependent)
			tc.before(b, db, web)
			b.remove(db)
			b.read(db)
			b.clock.move(db.DeletionTimestamp.Sub(b.clock.Now()))
			b.must(db)
			if tc.after > 0 {
				b.isLeaving(db, false)
				b.clock.move(tc.after / 2)
				b.must(db)
				b.isLeaving(db, false)
				b.clock.move(tc.after/2 + time.Second)
				b.must(db)
			}
			b.isLeaving(db, true)
		})
	}
}

// Whoever can name a Workload of another team must not be able to hold it.
func TestDelete_IsNotHeldUpByThoseItDidNotAllow(t *testing.T) {
	theirs, ours := newBench(t), newBench(t)
	db := theirs.running("db")
	web := ours.running("web", func(w *v1beta1.Workload) { w.Finalizers = []string{"example.com/stuck"} })
	ours.update(web, on(theirs.namespace+"/db"))
	ours.remove(web)
	theirs.remove(db)
	theirs.must(db)
	theirs.isLeaving(db, true)
}

func TestManager_ResolvesACycleAsSoonAsItIsBroken(t *testing.T) {
	b := newBench(t)
	one, two, three := b.workload("one", seen, on("two")), b.workload("two", seen, on("three")), b.workload("three", seen, on("one"))
	for _, w := range []*v1beta1.Workload{one, two, three} {
		b.reaches(w, v1beta1.PhaseBlocked, reasonDependencyCycle)
	}
	b.update(three, on())
	b.runs(three)
	b.runs(two)
	b.runs(one)
}

// All are deleted at once, by a manager with several workers: a chain, and a cycle.
func TestManager_DeletesAllThatDependOnEachOther(t *testing.T) {
	for name, first := range map[string][]string{"a chain": nil, "a cycle": {"w3"}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			all := []*v1beta1.Workload{b.workload("w0", seen)}
			b.runs(all[0])
			for i := 1; i < 4; i++ {
				w := b.workload(fmt.Sprint("w", i), seen, on(fmt.Sprint("w", i-1)))
				b.runs(w)
				all = append(all, w)
			}
			b.update(all[0], on(first...))
			for _, w := range all {
				b.remove(w)
			}
			gone := map[string]time.Time{}
			eventually(t, "all go", func(ctx context.Context) error {
				b.collect()
				var left error
				for _, w := range all {
					err := api.Get(ctx, client.ObjectKeyFromObject(w), w)
					if client.IgnoreNotFound(err) != nil {
						return err
					}
					if err == nil {
						left = errors.Join(left, fmt.Errorf("%s: %s", w.Name, conditionOf(w, v1beta1.ConditionReady).Message))
					} else if gone[w.Name].IsZero() {
						gone[w.Name] = time.Now()
					}
				}
				return left
			})
			for i := 1; i < len(all) && first == nil; i++ {
				if gone[all[i-1].Name].Before(gone[all[i].Name]) {
					t.Errorf("%s went before %s, which depends on it", all[i-1].Name, all[i].Name)
				}
			}
		})
	}
}
