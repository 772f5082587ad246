package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
	"github.com/sluice-dev/sluice/operator/internal/notary"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// watched is the label of the Workloads that the manager sees; it leaves those alone that
// a test reconciles by hand.
const watched = "test.sluice.dev/watched"

// judged counts the verdicts that the manager's reconciler gave, by namespace/name.
var judged = &tally{counts: map[string]int{}}

type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(v gate.Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[v.Object.Namespace+"/"+v.Object.Name]++
}

func (t *tally) of(w *v1beta1.Workload) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[w.Namespace+"/"+w.Name]
}

// shown are the metrics of the manager's reconciler, and counting counts evidence in them.
var (
	shown    = prometheus.NewRegistry()
	counting func(gate, result string)
)

// startManager runs the controller as cmd/manager does.
func startManager() (stop func() error, err error) {
	m, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, Cache: cache.Options{ByObject: CacheByObject(), DefaultTransform: cache.TransformStripManagedFields()},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	references, err := cache.New(access, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{operatorNamespace: {}}})
	if err != nil {
		return nil, err
	}
	if err := m.Add(references); err != nil {
		return nil, err
	}
	names, err := NewNames(access, scheme, m.GetRESTMapper())
	if err != nil {
		return nil, err
	}
	if err := m.Add(names); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	reads, loader, set := registry.New(registry.Options{}), trust.New(trust.Options{}), metrics.New(shown)
	counting = Counts(m.GetClient(), set)
	r := &Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Names: names, Judge: gather.NewJudge(facts(m.GetClient(), references), reads, loader),
		Notary: notary.New(notary.Options{Registry: reads, Keys: loader, Now: time.Now, Count: counting}),
		Events: m.GetEventRecorder("sluice"), Metrics: set, observe: judged.add, Analysis: Unmeasured{}, Now: time.Now,
		Shard: labels.SelectorFromSet(labels.Set{watched: "yes"}),
	}
	if err := r.SetupWithManager(ctx, m, references, names, Pace{Workers: 4, RetryBase: time.Second, RetryMax: time.Minute}); err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	return func() error { cancel(); return <-ended }, nil
}

// seen marks a Workload for the manager.
func seen(w *v1beta1.Workload) { w.Labels = map[string]string{watched: "yes"} }

// eventually waits until check has nothing to object to.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

// reaches waits for a phase of the Workload's current generation.
func (b *bench) reaches(w *v1beta1.Workload, phase v1beta1.Phase, reason string) {
	b.t.Helper()
	eventually(b.t, w.Name+" becomes "+string(phase), func(ctx context.Context) error {
		b.read(w)
		ready := conditionOf(w, v1beta1.ConditionReady)
		if w.Status.Phase != phase || ready.Reason != reason || w.Status.ObservedGeneration != w.Generation {
			return fmt.Errorf("it is %s because %s: %s", w.Status.Phase, ready.Reason, ready.Message)
		}
		return nil
	})
}

// runs waits until the manager has made the children, and plays their controllers.
func (b *bench) runs(w *v1beta1.Workload) {
	b.t.Helper()
	eventually(b.t, w.Name+" has pods", func(ctx context.Context) error {
		b.read(w)
		if w.Status.Phase == v1beta1.PhaseReady && w.Status.ObservedGeneration == w.Generation {
			return nil
		}
		return firstError(setHealthy(ctx, w), fmt.Errorf("it is %s: %v", w.Status.Phase, conditionOf(w, v1beta1.ConditionReady)))
	})
}

// rejudged waits until the manager has judged the Workload again.
func (b *bench) rejudged(w *v1beta1.Workload, trigger func()) {
	b.t.Helper()
	before := judged.of(w)
	trigger()
	eventually(b.t, w.Name+" is judged again", func(context.Context) error {
		if judged.of(w) == before {
			return errors.New("no verdict")
		}
		return nil
	})
}

// touch makes the manager reconcile without a change of the spec.
func (b *bench) touch(w *v1beta1.Workload, mark string) func() {
	return func() {
		b.update(w, func(w *v1beta1.Workload) { w.Annotations = map[string]string{"example.com/touched": mark} })
	}
}

func TestManager_ProceedsWhenASecretAppears(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", seen, func(w *v1beta1.Workload) { w.Spec.Secrets = []v1beta1.SecretRef{{Name: "password", EnvFrom: true}} })
	b.reaches(w, v1beta1.PhaseWaiting, reasonSecretMissing)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password", Namespace: b.namespace}})
	b.runs(w)
}

func TestManager_ProceedsWhenADependencyIsReady(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", seen, func(w *v1beta1.Workload) { w.Spec.DependsOn = []v1beta1.DependencyRef{{Name: "db"}} })
	b.reaches(w, v1beta1.PhaseWaiting, reasonDependencyNotReady)
	b.runs(b.workload("db", seen))
	b.runs(w)
}

func TestManager_SeesANamespaceChangeItsGate(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", seen)
	b.runs(w)
	relabel := func(value string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, environmentLabel, value)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
		if err := api.Patch(t.Context(), ns, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	relabel("null")
	b.reaches(w, v1beta1.PhaseBlocked, reasonDenied)
	if b.child("Deployment", "web") == nil {
		t.Error("what was running does not run any more")
	}
	relabel(`"test"`)
	b.reaches(w, v1beta1.PhaseReady, reasonReady)
}

func TestManager_JudgesAgainWhenAKeyOrAGateChanges(t *testing.T) {
	b := newBench(t)
	own := "rotation"
	b.namespace = namespace(t, own)
	secret := keySecret(own, signer)
	create(t, secret)
	g := gateFor(own, own)
	create(t, g)
	w := b.workload("web", seen)
	b.runs(w)
	before := w.Status.Gate.PolicyDigest
	second, err := testkit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	set := func(key *testkit.Key) {
		patch := fmt.Sprintf(`{"stringData":{"cosign.pub":%q}}`, key.PublicPEM)
		if err := api.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	set(second)
	b.reaches(w, v1beta1.PhaseBlocked, reasonDenied)
	if w.Status.Gate.PolicyDigest == before || w.Status.Images[0].Digest == "" || w.Status.Images[0].SignedBy != "" {
		t.Errorf("status: %+v, %+v", w.Status.Gate, w.Status.Images)
	}
	sign(t, second, w.Spec.Image, w.Status.Images[0].Digest)
	set(signer)
	b.reaches(w, v1beta1.PhaseReady, reasonReady)
	if err := api.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a missing key is an Error", func(context.Context) error {
		b.read(w)
		if w.Status.Gate.Verdict != "Error" || w.Status.Phase != v1beta1.PhaseReady {
			return fmt.Errorf("verdict %s, phase %s", w.Status.Gate.Verdict, w.Status.Phase)
		}
		return nil
	})
	if err := api.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	b.reaches(w, v1beta1.PhaseBlocked, reasonDenied)
}

func TestManager_PutsDriftBackByWatch(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", seen, full)
	b.runs(w)
	b.patch("Deployment", "web", map[string]any{"op": "add", "path": "/spec/template/spec/containers/-", "value": map[string]any{"name": "miner", "image": "evil.example.com/miner:1"}})
	if err := api.Delete(t.Context(), b.child("Service", "web")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "drift is put back", func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: "web"}, d); err != nil {
			return err
		}
		if n := len(d.Spec.Template.Spec.Containers); n != 1 {
			return fmt.Errorf("%d containers", n)
		}
		return api.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: "web"}, &corev1.Service{})
	})
	b.runs(w)
	eventually(t, "an event tells of each", func(ctx context.Context) error {
		told := b.stored(ctx, w, reasonHealed)
		for _, want := range []string{"containers[1] (Added)", "Service/" + b.namespace + "/web (Missing)"} {
			if !strings.Contains(strings.Join(told, "\n"), want) {
				return fmt.Errorf("no %s in %q", want, told)
			}
		}
		return nil
	})
}

// stored are the notes of the Workload's events, with how often each was told.
func (b *bench) stored(ctx context.Context, w *v1beta1.Workload, reason string) []string {
	list := &eventsv1.EventList{}
	if err := api.List(ctx, list, client.InNamespace(b.namespace)); err != nil {
		return nil
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.UID == w.UID && e.Reason == reason {
			times := int32(1)
			if e.Series != nil {
				times = e.Series.Count
			}
			for range times {
				out = append(out, e.Note)
			}
		}
	}
	return out
}

// The events that own writes bring back must not start it over, and a cache that lags
// must not make it tell or write twice.
func TestManager_ComesToRest(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", seen, everything)
	b.runs(w)
	before := b.children()
	for i := range 5 {
		b.rejudged(w, b.touch(w, fmt.Sprint(i)))
	}
	verdicts, status := judged.of(w), w.Status
	// A Workload judged after all of the above is a fence: its events are younger.
	b.runs(b.workload("fence", seen))
	b.read(w)
	if got := judged.of(w); got != verdicts {
		t.Errorf("%d verdicts without a cause", got-verdicts)
	}
	if !sameStatus(status, w.Status) {
		t.Errorf("status changed: %+v", w.Status)
	}
	for name, c := range b.children() {
		if strings.Contains(name, "fence") {
			continue
		}
		if was := before[name]; was == nil || was.GetResourceVersion() != c.GetResourceVersion() {
			t.Errorf("%s was written at rest", name)
		}
	}
	for _, reason := range []string{reasonProgressing, reasonReady} {
		if told := b.stored(t.Context(), w, reason); len(told) != 1 {
			t.Errorf("%s was told %d times: %q", reason, len(told), told)
		}
	}
	if told := b.stored(t.Context(), w, reasonHealed); len(told) > 0 {
		t.Errorf("drift that was none: %q", told)
	}
}

func TestManager_PutsAForgedStatusRightAtOnce(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", seen)
	b.runs(w)
	genuine := w.Status.DeepCopy()
	eventually(t, "forge", func(ctx context.Context) error {
		b.read(w)
		w.Status.Images[0].Digest = testkit.DigestOf("forged")
		w.Status.Drift = &v1beta1.DriftStatus{Changes: []v1beta1.DriftChange{{Object: "forged"}}}
		return api.Status().Update(ctx, w, client.FieldOwner("intruder"))
	})
	eventually(t, "put right", func(context.Context) error {
		b.read(w)
		if !sameStatus(*genuine, w.Status) {
			return fmt.Errorf("%+v", w.Status)
		}
		return nil
	})
}

func TestManager_DeletesWithoutAStumble(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", seen, full)
	b.runs(w)
	b.remove(w)
	eventually(t, "it goes with its children", func(ctx context.Context) error {
		b.collect()
		if err := api.Get(ctx, client.ObjectKeyFromObject(w), &v1beta1.Workload{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
	for name := range b.children() {
		if strings.HasSuffix(name, "/web") {
			t.Errorf("%s is left", name)
		}
	}
}

// frozen is a cache that stands still: reads give what was there when it was frozen.
type frozen struct {
	lists map[string]*unstructured.UnstructuredList
	get   *v1beta1.Workload
}

// freeze makes the bench read from a cache that does not move any more.
func (b *bench) freeze(w *v1beta1.Workload) {
	b.t.Helper()
	f := &frozen{lists: map[string]*unstructured.UnstructuredList{}, get: w.DeepCopy()}
	for _, gvk := range ChildKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := api.List(b.t.Context(), list, client.InNamespace(b.namespace), client.HasLabels{"app.kubernetes.io/managed-by"}); err != nil {
			b.t.Fatal(err)
		}
		f.lists[gvk.Kind] = list
	}
	b.r.Client = interceptor.NewClient(counted(b).(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w, ok := o.(*v1beta1.Workload); ok && key == client.ObjectKeyFromObject(f.get) {
				f.get.DeepCopyInto(w)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if u, ok := l.(*unstructured.UnstructuredList); ok {
				f.lists[strings.TrimSuffix(u.GetKind(), "List")].DeepCopyInto(u)
				return nil
			}
			return c.List(ctx, l, opts...)
		},
	})
}

func TestReconcile_SeesItsOwnWritesBeforeTheCacheDoes(t *testing.T) {
	for name, prepare := range map[string]func(*bench, *v1beta1.Workload){
		"what was created": func(*bench, *v1beta1.Workload) {},
		"what was put back": func(b *bench, w *v1beta1.Workload) {
			b.must(w)
			b.patch("Deployment", "web", map[string]any{"op": "add", "path": "/spec/template/spec/hostNetwork", "value": true})
			if err := api.Delete(t.Context(), b.child("Service", "web")); err != nil {
				t.Fatal(err)
			}
		},
		"what a new spec changed": func(b *bench, w *v1beta1.Workload) {
			b.must(w)
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(3) })
		},
		"what was pruned": func(b *bench, w *v1beta1.Workload) {
			b.must(w)
			b.healthy(w)
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Backup = nil })
			b.must(w)
			b.healthy(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.workload("web", full)
			prepare(b, w)
			b.freeze(w)
			b.must(w)
			b.taken()
			b.told()
			b.must(w)
			version := w.ResourceVersion
			for range 3 {
				b.must(w)
			}
			var writes []string
			for _, write := range b.taken() {
				// A pruned child is deleted again while the cache shows it: a call that
				// answers that it is gone.
				if !strings.HasPrefix(write, "delete ") {
					writes = append(writes, write)
				}
			}
			if events := b.told(); len(events)+len(writes) > 0 || w.ResourceVersion != version {
				t.Errorf("writes %v, events %q", writes, events)
			}
		})
	}
}
