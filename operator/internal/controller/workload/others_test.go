package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// ignoring leaves fields to others.
func ignoring(kind string, paths ...string) func(*v1beta1.Workload) {
	return func(w *v1beta1.Workload) {
		if w.Spec.Drift == nil {
			w.Spec.Drift = &v1beta1.Drift{}
		}
		w.Spec.Drift.Ignore = append(w.Spec.Drift.Ignore, v1beta1.DriftIgnore{Kind: kind, Paths: paths})
	}
}

// appliedBy writes fields of the Deployment as another manager that applies.
func (b *bench) appliedBy(manager string, content map[string]any) {
	b.t.Helper()
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	u.SetName("web")
	u.SetNamespace(b.namespace)
	if err := api.Apply(b.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager), client.ForceOwnership); err != nil {
		b.t.Fatal(err)
	}
}

// ownersOf are the managers of a field of the Deployment.
func (b *bench) ownersOf(path ...string) []string {
	b.t.Helper()
	var out []string
	for _, e := range b.child("Deployment", "web").GetManagedFields() {
		var fields map[string]any
		if err := json.Unmarshal(e.FieldsV1.Raw, &fields); err != nil {
			b.t.Fatal(err)
		}
		keys := make([]string, len(path))
		for i, p := range path {
			keys[i] = "f:" + p
		}
		if _, found, _ := unstructured.NestedFieldNoCopy(fields, keys...); found {
			out = append(out, e.Manager)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (b *bench) replicas(want int64, when string) {
	b.t.Helper()
	if got := nestedInt(b.child("Deployment", "web"), "spec", "replicas"); got != want {
		b.t.Errorf("%s: %d replicas, want %d", when, got, want)
	}
}

// forgetful is a cache that does not keep who owns what, but for the operator's applies.
func (b *bench) forgetful() {
	b.r.Client = interceptor.NewClient(b.r.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			children, ok := list.(*unstructured.UnstructuredList)
			if !ok {
				return err
			}
			for i := range children.Items {
				item := &children.Items[i]
				item.SetManagedFields(slices.DeleteFunc(item.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != fieldManager }))
			}
			return err
		},
	})
}

func TestReconcile_LeavesIgnoredFieldsToOthers(t *testing.T) {
	for manner, write := range map[string]func(*bench){
		"who applies": func(b *bench) {
			b.appliedBy("scaler", map[string]any{"spec": map[string]any{"replicas": int64(5), "minReadySeconds": int64(7)},
				"metadata": map[string]any{"labels": map[string]any{"app.kubernetes.io/version": "9.9.9"}}})
		},
		"who updates": func(b *bench) {
			b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/spec/replicas", "value": 5}, map[string]any{"op": "add", "path": "/spec/minReadySeconds", "value": 7},
				map[string]any{"op": "replace", "path": "/metadata/labels/app.kubernetes.io~1version", "value": "9.9.9"})
		},
	} {
		t.Run(manner, func(t *testing.T) {
			b := newBench(t)
			w := b.running("web", full, ignoring("Deployment", "/spec/replicas", "/spec/minReadySeconds"), ignoring("", "/metadata/labels/app.kubernetes.io~1version"),
				func(w *v1beta1.Workload) { w.Spec.Replicas, w.Spec.Version = int32Of(2), "1.0.0" })
			b.forgetful()
			b.replicas(2, "at first")
			write(b)
			stands := func(when string) {
				t.Helper()
				b.replicas(5, when)
				d := b.child("Deployment", "web")
				if n, v := nestedInt(d, "spec", "minReadySeconds"), d.GetLabels()["app.kubernetes.io/version"]; n != 7 || v != "9.9.9" {
					t.Errorf("%s: minReadySeconds %d, version %s", when, n, v)
				}
			}
			b.healthy(w)
			b.must(w)
			stands("after a look")
			if writes := slices.DeleteFunc(b.taken(), func(w string) bool { return w == "apply status of Workload" }); len(writes) > 0 || w.Status.Drift != nil {
				t.Errorf("writes %v, drift %v", writes, w.Status.Drift)
			}

			// Other drift of the same child is put back, and nothing else with it.
			b.patch("Deployment", "web", map[string]any{"op": "add", "path": "/spec/template/spec/hostNetwork", "value": true})
			b.must(w)
			stands("after other drift was put back")
			if host, _, _ := unstructured.NestedBool(b.child("Deployment", "web").Object, "spec", "template", "spec", "hostNetwork"); host {
				t.Error("hostNetwork was not put back")
			}
			if events := strings.Join(b.told(), "\n"); strings.Contains(events, "spec.replicas") || strings.Contains(events, "minReadySeconds") {
				t.Errorf("events: %q", events)
			}

			// A new spec is applied without them, and they stay another's.
			b.update(w, func(w *v1beta1.Workload) {
				w.Spec.Env[0].Value, w.Spec.Replicas, w.Spec.Version = "new", int32Of(3), "1.1.0"
			})
			b.must(w)
			stands("after a new spec")
			if owners := b.ownersOf("spec", "replicas"); slices.Contains(owners, fieldManager) || len(owners) != 1 {
				t.Errorf("spec.replicas is owned by %v", owners)
			}

			// Without the rule they are the operator's again, which is no drift.
			b.told()
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Drift = nil })
			b.must(w)
			b.replicas(3, "without the rule")
			if d := b.child("Deployment", "web"); nestedInt(d, "spec", "minReadySeconds") != 0 || d.GetLabels()["app.kubernetes.io/version"] != "1.1.0" {
				t.Errorf("not taken back: %v, %v", d.Object["spec"], d.GetLabels())
			}
			if events := strings.Join(b.told(), "\n"); strings.Contains(events, reasonHealed) {
				t.Errorf("events: %q", events)
			}
		})
	}
}

// What nobody else has claimed would fall back to its default if it were left out of the
// next apply.
func TestReconcile_KeepsAnIgnoredFieldThatNobodyElseOwns(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full, func(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(3) })
	b.update(w, func(w *v1beta1.Workload) { ignoring("Deployment", "/spec/replicas")(w); w.Spec.Replicas = int32Of(1) })
	b.must(w)
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Env[0].Value = "new" })
	b.must(w)
	b.replicas(3, "after a new spec")
}

func TestReconcile_DoesNotOverwriteAnIgnoredFieldThatChangesMeanwhile(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full, ignoring("Deployment", "/spec/replicas"))
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Env[0].Value = "new" })
	once := true
	b.refuse = func(write string) error {
		if write == "apply Deployment" && once {
			once = false
			b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/spec/replicas", "value": 5})
		}
		return nil
	}
	if result := b.must(w); once || result.RequeueAfter != recheckOutdated {
		t.Errorf("again in %s", result.RequeueAfter)
	}
	b.replicas(5, "after a conflict")
	b.must(w)
	b.replicas(5, "after the next look")
	if env, _, _ := unstructured.NestedSlice(b.child("Deployment", "web").Object, "spec", "template", "spec", "containers"); !strings.Contains(fmt.Sprint(env), "new") {
		t.Errorf("the new spec was not applied: %v", env)
	}
}

func TestReconcile_RefusesToIgnoreWhatTheGateJudged(t *testing.T) {
	b := newBench(t)
	w := &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: b.namespace}, Spec: v1beta1.WorkloadSpec{Image: "registry.invalid/a:1"}}
	for _, path := range []string{"/spec/template/spec/containers/0/image", "/spec/template/spec/hostNetwork", "/spec/jobTemplate/spec/template/spec/securityContext/runAsUser", "/spec/template/spec/serviceAccountName"} {
		w.Spec.Drift = nil
		ignoring("", path)(w)
		if err := api.Create(t.Context(), w.DeepCopy()); err == nil || !strings.Contains(err.Error(), "spec.drift.ignore[0].paths") || !strings.Contains(err.Error(), "was judged") {
			t.Errorf("%s: the API server says %v", path, err)
		}
	}
	// What the schema lets pass, the gate does not.
	denied := b.workload("web", full, ignoring("Deployment", "/spec/replicas", "/spec/template"))
	b.must(denied)
	b.expect(denied, v1beta1.PhaseBlocked, reasonDenied)
	if m := conditionOf(denied, v1beta1.ConditionReady).Message; !strings.Contains(m, "spec.drift.ignore[0].paths[1]") || !strings.Contains(m, "/spec/template of a Deployment cannot be left to others") {
		t.Errorf("Ready: %s", m)
	}
	if b.child("Deployment", "web") != nil {
		t.Error("a denied Workload was applied")
	}
}

// A Gate that only warns lets the spec pass; the rule has no effect all the same.
func TestReconcile_HasNoEffectOfARefusedIgnore(t *testing.T) {
	b := newBench(t)
	warns := gateFor(b.namespace, "release-signer")
	warns.Spec.Mode = v1beta1.GateModeWarn
	create(t, warns)
	t.Cleanup(func() { _ = api.Delete(context.Background(), warns) })
	b.namespace = namespace(t, warns.Name)
	w := b.running("web", full, ignoring("Deployment", "/spec/template"))
	want := imageOf(t, b.child("Deployment", "web"))
	b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "evil.example.com/miner:1"})
	b.must(w)
	if got := imageOf(t, b.child("Deployment", "web")); got != want {
		t.Errorf("%s runs", got)
	}
}

// autoscaler targets an object of the bench's namespace.
func (b *bench) autoscaler(apiVersion, kind, name string) *autoscalingv2.HorizontalPodAutoscaler {
	b.t.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "h-", Namespace: b.namespace},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 9,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}},
	}
	create(b.t, h)
	return h
}

func (b *bench) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: b.namespace}}
}

// scale writes replicas as the autoscaler's controller does.
func (b *bench) scale(o client.Object, replicas int32) {
	b.t.Helper()
	scale := &autoscalingv1.Scale{}
	if err := api.SubResource("scale").Get(b.t.Context(), o, scale); err != nil {
		b.t.Fatal(err)
	}
	scale.Spec.Replicas, scale.ResourceVersion = replicas, ""
	if err := api.SubResource("scale").Update(b.t.Context(), o, client.WithSubResourceBody(scale), client.FieldOwner("kube-controller-manager")); err != nil {
		b.t.Fatal(err)
	}
}

func TestReconcile_LeavesReplicasToAnAutoscaler(t *testing.T) {
	for _, mode := range []v1beta1.DriftMode{v1beta1.DriftModeHeal, v1beta1.DriftModeReport} {
		t.Run(string(mode), func(t *testing.T) {
			b := newBench(t)
			w := b.running("web", full, func(w *v1beta1.Workload) {
				w.Spec.Replicas, w.Spec.Drift = int32Of(2), &v1beta1.Drift{Mode: mode}
			})
			h := b.autoscaler("apps/v1", "Deployment", "web")
			b.must(w)
			b.replicas(2, "before it has scaled")
			b.scale(b.deployment(), 5)
			b.healthy(w)
			for _, restart := range []bool{false, true} {
				if restart {
					b.restart()
				}
				b.must(w)
				b.replicas(5, "after it has scaled")
			}
			b.expect(w, v1beta1.PhaseReady, reasonReady)
			if c := conditionOf(w, v1beta1.ConditionAvailable); c.Message != "5 replicas are available" || w.Status.Drift != nil {
				t.Errorf("Available: %s; drift %v", c.Message, w.Status.Drift)
			}
			b.taken()
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Env[0].Value, w.Spec.Replicas = "new", int32Of(3) })
			b.must(w)
			b.replicas(5, "after a new spec")
			if owners := b.ownersOf("spec", "replicas"); !slices.Equal(owners, []string{"kube-controller-manager"}) {
				t.Errorf("spec.replicas is owned by %v", owners)
			}
			b.told()
			if err := api.Delete(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			b.must(w)
			b.replicas(3, "without an autoscaler")
			if events := strings.Join(b.told(), "\n"); strings.Contains(events, reasonHealed) || strings.Contains(events, reasonDrift) {
				t.Errorf("events: %q", events)
			}
		})
	}
}

func TestReconcile_LeavesReplicasToNoOtherAutoscaler(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full)
	for _, to := range [][3]string{
		{"apps/v1", "Deployment", "other"}, {"apps/v1", "StatefulSet", "web"}, {"example.com/v1", "Deployment", "web"},
		{"sluice.dev/v1beta1", "Workload", "web"},
	} {
		b.autoscaler(to[0], to[1], to[2])
	}
	b.scale(b.deployment(), 5)
	b.must(w)
	b.replicas(1, "scaled behind the Workload's back")
}

func TestReconcile_FollowsAnAutoscalerOfTheWorkload(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full)
	b.autoscaler("sluice.dev/v1beta1", "Workload", "web")
	b.scale(w, 5)
	b.must(w)
	b.replicas(5, "scaled by the Workload")
	if w.Status.Drift != nil {
		t.Errorf("drift %v", w.Status.Drift)
	}
}

func TestManager_SeesAnAutoscalerComeAndGo(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", full, seen)
	b.runs(w)
	var h *autoscalingv2.HorizontalPodAutoscaler
	b.rejudged(w, func() { h = b.autoscaler("apps/v1", "Deployment", "web") })
	// Whatever the manager was told first, once it knows of the autoscaler the replicas stay.
	looks := 0
	eventually(t, "the replicas are left to the autoscaler", func(context.Context) error {
		looks++
		b.scale(b.deployment(), 5)
		mark := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, looks)
		b.rejudged(w, func() {
			if err := api.Patch(t.Context(), w, client.RawPatch(types.MergePatchType, mark)); err != nil {
				t.Fatal(err)
			}
		})
		if n := nestedInt(b.child("Deployment", "web"), "spec", "replicas"); n != 5 {
			return fmt.Errorf("%d replicas", n)
		}
		return nil
	})
	if err := api.Delete(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replicas are given back", func(context.Context) error {
		if n := nestedInt(b.child("Deployment", "web"), "spec", "replicas"); n != 1 {
			return fmt.Errorf("%d replicas", n)
		}
		return nil
	})
}

// every has all that a spec can ask for, beside what full has.
func (b *bench) every(w *v1beta1.Workload) {
	full(w)
	s := &w.Spec
	s.Version, s.Tenant, s.Replicas, s.DeletionPolicy = "v1.2.0", "shop", int32Of(3), v1beta1.DeletionPolicyRetainStorage
	s.Command, s.Args, s.ServiceAccountName = []string{"/app"}, []string{"--port=8080"}, "runner"
	s.Ports = append(s.Ports, v1beta1.Port{Name: "dns", Port: 5353, Protocol: corev1.ProtocolUDP})
	s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	s.Secrets = []v1beta1.SecretRef{{Name: "database", EnvFrom: true}, {Name: "registry", MountPath: "/etc/registry"}}
	s.DependsOn = []v1beta1.DependencyRef{{Name: "first"}}
	s.Probes.Liveness = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/app", "alive"}}}}
	s.Probes.Startup = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}
	two := intstr.FromInt32(2)
	s.Availability.MinAvailable = &two
	ignoring("", "/spec/minReadySeconds", "/metadata/annotations/example.com~1owner")(w)
	ignoring("CronJob", "/spec/suspend")(w)
	kind := "Deployment"
	if s.Storage != nil {
		kind = "StatefulSet"
	}
	s.Patches = []v1beta1.Patch{
		{Target: &v1beta1.PatchTarget{Kind: kind}, Patch: `[{"op":"add","path":"/spec/template/spec/terminationGracePeriodSeconds","value":7}]`},
		{Target: &v1beta1.PatchTarget{Kind: kind}, Patch: `[{"op":"add","path":"/metadata/annotations","value":{"example.com/owner":"shop"}}]`},
	}
}

func TestReconcile_WritesNothingAtRestWithEveryFeature(t *testing.T) {
	for kind, storage := range map[string]*v1beta1.Storage{"Deployment": nil, "StatefulSet": {Size: "1024Mi", MountPath: "/data", Retain: true}} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			for name, data := range map[string]map[string]string{"database": {"password": "hunter2"}, "registry": {corev1.DockerConfigJsonKey: `{"auths":{}}`}} {
				s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace}, StringData: data}
				if name == "registry" {
					s.Type = corev1.SecretTypeDockerConfigJson
				}
				create(t, s)
			}
			create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "runner", Namespace: b.namespace}})
			b.running("first")
			b.autoscaler("apps/v1", kind, "web")
			w := b.running("web", func(w *v1beta1.Workload) { w.Spec.Storage = storage }, b.every)
			b.patch(kind, "web",
				map[string]any{"op": "replace", "path": "/spec/replicas", "value": 7}, map[string]any{"op": "add", "path": "/spec/minReadySeconds", "value": 5},
				map[string]any{"op": "replace", "path": "/metadata/annotations/example.com~1owner", "value": "night shift"})
			b.patch("CronJob", "web-backup", map[string]any{"op": "add", "path": "/spec/suspend", "value": true})
			b.healthy(w)
			b.must(w)
			b.expect(w, v1beta1.PhaseReady, reasonReady)
			b.taken()
			before := b.children()
			for i := range 100 {
				if i == 50 {
					b.restart()
				}
				b.must(w)
			}
			if writes := b.taken(); len(writes) > 0 || w.Status.Drift != nil {
				t.Errorf("writes %v, drift %v", writes, w.Status.Drift)
			}
			if diff := cmp.Diff(before, b.children()); diff != "" {
				t.Error(diff)
			}
			if n := nestedInt(before[kind+"/web"], "spec", "replicas"); n != 7 {
				t.Errorf("%d replicas", n)
			}
		})
	}
}
