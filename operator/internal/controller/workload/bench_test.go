package workload

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
	"github.com/sluice-dev/sluice/operator/internal/notary"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// ticker is a clock that stands still until it is moved.
type ticker struct {
	mu  sync.Mutex
	now time.Time
}

func (c *ticker) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *ticker) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bench is a Reconciler that is called by hand, on an API server that no manager watches
// in the same namespace, with every write counted.
type bench struct {
	t         *testing.T
	r         *Reconciler
	namespace string
	recorder  *events.FakeRecorder
	clock     *ticker
	writes    *[]string
	verdicts  int
	shard     labels.Selector
	analysis  Measurer
	// refuse, when set, is asked before each write.
	refuse func(string) error
	// mutate, when set, changes what is applied on its way, as a webhook does.
	mutate func(annotated)
	// lose, when set, is asked after each write that was done: an error stands for an answer
	// that did not arrive.
	lose func(string) error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, namespace: namespace(t, environment), recorder: events.NewFakeRecorder(1000), clock: &ticker{now: time.Now()}, writes: new([]string), shard: labels.Everything(), analysis: Unmeasured{}}
	b.restart()
	return b
}

// restart is a new process: nothing is remembered.
func (b *bench) restart() {
	source := facts(api, api)
	source.Clock = b.clock.Now
	reads, loader, counts := registry.New(registry.Options{}), trust.New(trust.Options{}), metrics.New(prometheus.NewRegistry())
	b.r = &Reconciler{
		Client: counted(b), Live: api, Names: api, Judge: gather.NewJudge(source, reads, loader),
		Notary: notary.New(notary.Options{Registry: reads, Keys: loader, Now: b.clock.Now, Count: Counts(api, counts)}), woken: make(chan event.GenericEvent, 1000),
		Events: b.recorder, Metrics: counts,
		observe: func(gate.Verdict) { b.verdicts++ }, Analysis: b.analysis, Now: b.clock.Now, Shard: b.shard,
	}
}

func facts(cache, references client.Reader) *gather.Cluster {
	return &gather.Cluster{Cache: cache, References: references, Live: api, OperatorNamespace: operatorNamespace}
}

// annotated is an object whose annotations a webhook may change.
type annotated interface {
	GetKind() string
	GetAnnotations() map[string]string
	SetAnnotations(map[string]string)
}

func (b *bench) note(verb string, o any) error {
	text := verb + " "
	if u, ok := o.(interface{ GetKind() string }); ok {
		text += u.GetKind()
	} else {
		text += reflect.TypeOf(o).Elem().Name()
	}
	if b.refuse != nil {
		if err := b.refuse(text); err != nil {
			return err
		}
	}
	*b.writes = append(*b.writes, text)
	if u, ok := o.(annotated); ok && b.mutate != nil && verb == "apply" {
		b.mutate(u)
	}
	return nil
}

func (b *bench) after(err error, text string) error {
	if err == nil && b.lose != nil {
		return b.lose(text)
	}
	return err
}

// counted is the API client with a note of each write.
func counted(b *bench) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{
		List: indexed,
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := b.note("create", o); err != nil {
				return err
			}
			return b.after(c.Create(ctx, o, opts...), "create")
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := b.note("update", o); err != nil {
				return err
			}
			return b.after(c.Update(ctx, o, opts...), "update")
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := b.note("delete", o); err != nil {
				return err
			}
			return b.after(c.Delete(ctx, o, opts...), "delete")
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := b.note("patch", o); err != nil {
				return err
			}
			return b.after(c.Patch(ctx, o, p, opts...), "patch")
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if err := b.note("apply", o); err != nil {
				return err
			}
			return b.after(c.Apply(ctx, o, opts...), "apply")
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			if err := b.note("apply "+sub+" of", o); err != nil {
				return err
			}
			return b.after(c.SubResource(sub).Apply(ctx, o, opts...), "apply status")
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := b.note("patch "+sub+" of", o); err != nil {
				return err
			}
			return b.after(c.SubResource(sub).Patch(ctx, o, p, opts...), "patch status")
		},
	})
}

// reconcile runs once and returns what the queue would be told.
func (b *bench) reconcile(w *v1beta1.Workload) (ctrl.Result, error) {
	b.t.Helper()
	result, err := b.r.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w)})
	if err != nil && result != (ctrl.Result{}) {
		b.t.Errorf("an error and a requeue together: %v, %v", result, err)
	}
	return result, err
}

// must reconciles without an error, and reads the Workload back.
func (b *bench) must(w *v1beta1.Workload) ctrl.Result {
	b.t.Helper()
	result, err := b.reconcile(w)
	if err != nil {
		b.t.Fatalf("reconcile: %v", err)
	}
	b.read(w)
	return result
}

func (b *bench) read(w *v1beta1.Workload) {
	b.t.Helper()
	if err := api.Get(b.t.Context(), client.ObjectKeyFromObject(w), w); client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
}

// taken returns the writes since the last call.
func (b *bench) taken() []string {
	out := *b.writes
	*b.writes = nil
	return out
}

// told returns the events since the last call.
func (b *bench) told() []string {
	var out []string
	for {
		select {
		case e := <-b.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// workload makes a Workload of a signed image; changes are made before it is stored.
func (b *bench) workload(name string, changes ...func(*v1beta1.Workload)) *v1beta1.Workload {
	b.t.Helper()
	image, _ := pushSigned(b.t, b.namespace+"/"+name+":1")
	w := &v1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace},
		Spec:       v1beta1.WorkloadSpec{Image: image, Ports: []v1beta1.Port{{Name: "http", Port: 8080}}},
	}
	for _, change := range changes {
		change(w)
	}
	create(b.t, w)
	return w
}

// running makes a Workload and takes it to Ready.
func (b *bench) running(name string, changes ...func(*v1beta1.Workload)) *v1beta1.Workload {
	b.t.Helper()
	w := b.workload(name, changes...)
	b.must(w)
	b.healthy(w)
	b.must(w)
	if w.Status.Phase != v1beta1.PhaseReady {
		b.t.Fatalf("%s is %s: %+v", name, w.Status.Phase, w.Status.Conditions)
	}
	b.taken()
	b.told()
	return w
}

// update changes the stored Workload.
func (b *bench) update(w *v1beta1.Workload, change func(*v1beta1.Workload)) {
	b.t.Helper()
	b.read(w)
	change(w)
	if err := api.Update(b.t.Context(), w); err != nil {
		b.t.Fatal(err)
	}
}

// child reads one child; nil when there is none.
func (b *bench) child(kind, name string) *unstructured.Unstructured {
	b.t.Helper()
	for _, gvk := range ChildKinds {
		if gvk.Kind != kind {
			continue
		}
		u := Child(gvk)
		err := api.Get(b.t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, u)
		if client.IgnoreNotFound(err) != nil {
			b.t.Fatal(err)
		}
		if err != nil {
			return nil
		}
		return u
	}
	b.t.Fatalf("no child kind %s", kind)
	return nil
}

// children reads every object of a child kind in the namespace, or of these kinds alone, by
// Kind/name.
func (b *bench) children(kinds ...string) map[string]*unstructured.Unstructured {
	b.t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for _, gvk := range ChildKinds {
		if len(kinds) > 0 && !slices.Contains(kinds, gvk.Kind) {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		if err := api.List(b.t.Context(), list, client.InNamespace(b.namespace)); err != nil {
			b.t.Fatal(err)
		}
		for i := range list.Items {
			out[gvk.Kind+"/"+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return out
}

// healthy plays the controller of the pods.
func (b *bench) healthy(w *v1beta1.Workload) {
	b.t.Helper()
	if err := setHealthy(b.t.Context(), w); err != nil {
		b.t.Fatal(err)
	}
}

func setHealthy(ctx context.Context, w *v1beta1.Workload) error {
	key := client.ObjectKeyFromObject(w)
	if w.Spec.Storage != nil {
		s := &appsv1.StatefulSet{}
		if err := api.Get(ctx, key, s); err != nil {
			return err
		}
		n := *s.Spec.Replicas
		s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Generation, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n, CurrentReplicas: n, CurrentRevision: "r", UpdateRevision: "r"}
		return api.Status().Update(ctx, s)
	}
	d := &appsv1.Deployment{}
	if err := api.Get(ctx, key, d); err != nil {
		return err
	}
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n}
	return api.Status().Update(ctx, d)
}

// collect plays the garbage collector: what is being deleted in the foreground goes.
func (b *bench) collect() {
	b.t.Helper()
	for _, c := range b.children() {
		if c.GetDeletionTimestamp() == nil {
			continue
		}
		if err := api.Patch(b.t.Context(), c, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
			b.t.Fatal(err)
		}
	}
}

func conditionOf(w *v1beta1.Workload, kind string) metav1.Condition {
	for _, c := range w.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

func (b *bench) expect(w *v1beta1.Workload, phase v1beta1.Phase, reason string) {
	b.t.Helper()
	if ready := conditionOf(w, v1beta1.ConditionReady); w.Status.Phase != phase || ready.Reason != reason || w.Status.ObservedGeneration != w.Generation {
		b.t.Fatalf("%s is %s because %s (%s), observed %d of %d; want %s because %s", w.Name, w.Status.Phase, ready.Reason, ready.Message,
			w.Status.ObservedGeneration, w.Generation, phase, reason)
	}
}
