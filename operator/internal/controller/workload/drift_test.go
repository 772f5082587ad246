package workload

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// drifts are edits of others: as a JSON patch, and as what they would apply.
var drifts = map[string]struct {
	kind  string
	patch []map[string]any
	apply map[string]any
	// want is a path that has to be reported.
	want string
	// wiped tries it also with the field managers wiped, as an apply could not tell then
	// what is whose.
	wiped bool
}{
	"an image is edited": {
		kind:  "Deployment",
		patch: []map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "evil.example.com/miner:1"}},
		apply: template(map[string]any{"containers": []any{map[string]any{"name": "app", "image": "evil.example.com/miner:1"}}}),
		want:  "spec.template.spec.containers[0].image (Modified)",
		wiped: true,
	},
	"a sidecar is added": {
		kind:  "Deployment",
		patch: []map[string]any{{"op": "add", "path": "/spec/template/spec/containers/-", "value": map[string]any{"name": "miner", "image": "evil.example.com/miner:1"}}},
		apply: template(map[string]any{"containers": []any{map[string]any{"name": "miner", "image": "evil.example.com/miner:1"}}}),
		want:  "spec.template.spec.containers[1] (Added)",
		wiped: true,
	},
	"the host's network is taken": {
		kind:  "Deployment",
		patch: []map[string]any{{"op": "add", "path": "/spec/template/spec/hostNetwork", "value": true}},
		apply: template(map[string]any{"hostNetwork": true}),
		want:  "spec.template.spec.hostNetwork (Added)",
	},
	"a variable is added": {
		kind:  "Deployment",
		patch: []map[string]any{{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": map[string]any{"name": "LD_PRELOAD", "value": "/evil.so"}}},
		apply: template(map[string]any{"containers": []any{map[string]any{"name": "app", "env": []any{map[string]any{"name": "LD_PRELOAD", "value": "/evil.so"}}}}}),
		want:  "spec.template.spec.containers[0].env[1] (Added)",
	},
	"the security context is opened": {
		kind:  "Deployment",
		patch: []map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/securityContext", "value": map[string]any{"privileged": true}}},
		apply: template(map[string]any{"containers": []any{map[string]any{"name": "app", "securityContext": map[string]any{"privileged": true, "allowPrivilegeEscalation": true}}}}),
		want:  "spec.template.spec.containers[0].securityContext.privileged (Added)",
	},
	"an annotation turns AppArmor off": {
		kind:  "Deployment",
		patch: []map[string]any{{"op": "add", "path": "/spec/template/metadata/annotations", "value": map[string]any{"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}}},
		apply: map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}}}}},
		want:  "spec.template.metadata.annotations (Added)",
	},
	"replicas are edited": {
		kind:  "Deployment",
		patch: []map[string]any{{"op": "replace", "path": "/spec/replicas", "value": 9}},
		apply: map[string]any{"spec": map[string]any{"replicas": int64(9)}},
		want:  "spec.replicas (Modified)",
	},
	"the Service's port is edited": {
		kind:  "Service",
		patch: []map[string]any{{"op": "replace", "path": "/spec/ports/0/port", "value": 22}},
		apply: map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": int64(22), "protocol": "TCP", "name": "ssh"}}}},
		want:  "spec.ports[",
	},
	"the Service is opened to the world": {
		kind:  "Service",
		patch: []map[string]any{{"op": "replace", "path": "/spec/type", "value": "NodePort"}},
		apply: map[string]any{"spec": map[string]any{"type": "NodePort", "externalIPs": []any{"192.0.2.1"}}},
		want:  "spec.type (Modified)",
	},
	"the Service leaves out other nodes": {
		kind:  "Service",
		patch: []map[string]any{{"op": "replace", "path": "/spec/internalTrafficPolicy", "value": "Local"}},
		apply: map[string]any{"spec": map[string]any{"internalTrafficPolicy": "Local"}},
		want:  "spec.internalTrafficPolicy (Modified)",
	},
	"the NetworkPolicy is opened": {
		kind:  "NetworkPolicy",
		patch: []map[string]any{{"op": "add", "path": "/spec/ingress/-", "value": map[string]any{}}},
		apply: map[string]any{"spec": map[string]any{"ingress": []any{map[string]any{}}}},
		want:  "spec.ingress[",
	},
	"the account's token is mounted": {
		kind:  "ServiceAccount",
		patch: []map[string]any{{"op": "replace", "path": "/automountServiceAccountToken", "value": true}},
		apply: map[string]any{"automountServiceAccountToken": true},
		want:  "automountServiceAccountToken (Modified)",
	},
	"an own label is edited": {
		kind:  "Service",
		patch: []map[string]any{{"op": "replace", "path": "/metadata/labels/app.kubernetes.io~1instance", "value": "other"}},
		apply: map[string]any{"metadata": map[string]any{"labels": map[string]any{"app.kubernetes.io/instance": "other"}}},
		want:  "metadata.labels.app.kubernetes.io/instance (Modified)",
		wiped: true,
	},
}

func template(podSpec map[string]any) map[string]any {
	return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": podSpec}}}
}

// content is what counts of the children: all but what any write changes.
func content(children map[string]*unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for name, c := range children {
		c = c.DeepCopy()
		for _, field := range []string{"resourceVersion", "generation", "managedFields", "uid", "creationTimestamp"} {
			unstructured.RemoveNestedField(c.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(c.Object, "status")
		out[name] = c.Object
	}
	return out
}

func TestReconcile_PutsDriftBack(t *testing.T) {
	for name, tc := range drifts {
		for manner, edit := range map[string]func(*bench){
			"by an update": func(b *bench) { b.patch(tc.kind, "web", tc.patch...) },
			"by an apply with force": func(b *bench) {
				b.t.Helper()
				u := &unstructured.Unstructured{Object: map[string]any{}}
				for key, value := range tc.apply {
					u.Object[key] = value
				}
				live := b.child(tc.kind, "web")
				u.SetGroupVersionKind(live.GroupVersionKind())
				u.SetName("web")
				u.SetNamespace(b.namespace)
				if err := api.Apply(b.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("intruder"), client.ForceOwnership); err != nil {
					b.t.Fatal(err)
				}
			},
			"by an update that wipes the field managers": func(b *bench) {
				b.patch(tc.kind, "web", append(slices.Clone(tc.patch), map[string]any{"op": "replace", "path": "/metadata/managedFields", "value": []any{map[string]any{}}})...)
			},
		} {
			if strings.Contains(manner, "wipes") && !tc.wiped {
				continue
			}
			t.Run(name+" "+manner, func(t *testing.T) { putsBack(t, edit, tc.want) })
		}
	}
}

// putsBack takes a Workload to Ready, edits a child, and expects it back as it was.
func putsBack(t *testing.T, edit func(*bench), told string) {
	t.Helper()
	b := newBench(t)
	w := b.running("web", full)
	want := content(b.children())
	edit(b)
	b.must(w)
	if diff := cmp.Diff(want, content(b.children())); diff != "" {
		t.Fatalf("not put back: %s", diff)
	}
	writes := b.taken()
	onChildren := slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return strings.HasSuffix(w, "Workload") })
	if len(onChildren) > 2 || len(writes) > 3 {
		t.Errorf("%d writes: %v", len(writes), writes)
	}
	events := strings.Join(b.told(), "\n")
	if !strings.Contains(events, reasonHealed) || !strings.Contains(events, told) {
		t.Errorf("events do not tell of %q: %q", told, events)
	}
	b.healthy(w)
	b.must(w)
	b.taken()
	b.restart() // a new process knows the child for its own
	b.must(w)
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if writes := slices.DeleteFunc(b.taken(), func(w string) bool { return w == "apply status of Workload" }); len(writes) > 0 {
		t.Errorf("at rest: %v", writes)
	}
}

func TestReconcile_PutsDriftOfAStatefulSetBack(t *testing.T) {
	b := newBench(t)
	w := b.running("db", everything)
	want := content(b.children())
	b.patch("StatefulSet", "db",
		map[string]any{"op": "add", "path": "/spec/template/spec/containers/-", "value": map[string]any{"name": "miner", "image": "evil.example.com/miner:1"}},
		map[string]any{"op": "replace", "path": "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted", "value": "Retain"},
		map[string]any{"op": "replace", "path": "/spec/updateStrategy", "value": map[string]any{"type": "OnDelete"}})
	b.must(w)
	if diff := cmp.Diff(want, content(b.children())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"patch StatefulSet", "apply status of Workload"}, b.taken()); diff != "" {
		t.Error(diff)
	}
}

func TestReconcile_PutsBackADeletedChild(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBench(t)
		w := b.running("web", full)
		want := content(b.children())
		for _, kind := range []string{"Service", "ServiceAccount", "NetworkPolicy"} {
			if err := api.Delete(t.Context(), b.child(kind, "web")); err != nil {
				t.Fatal(err)
			}
		}
		if restart {
			b.restart()
		}
		b.must(w)
		got := content(b.children())
		for _, c := range []map[string]any{got, want} {
			// A new Service gets a new address.
			service := c["Service/web"].(map[string]any)["spec"].(map[string]any)
			delete(service, "clusterIP")
			delete(service, "clusterIPs")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		events := b.told()
		if len(events) == 0 || !strings.Contains(events[0], "Service/"+b.namespace+"/web (Missing)") {
			t.Errorf("restarted %t: events %q", restart, events)
		}
	}
}

func TestReconcile_FindsARenamedContainer(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full)
	want := content(b.children())
	b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "other"})
	b.must(w)
	if diff := cmp.Diff(want, content(b.children())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"patch Deployment", "apply status of Workload"}, b.taken()); diff != "" {
		t.Error(diff)
	}
}

// Whoever edits a child can edit the operator's note on it as well, for the change to be
// taken for one of the spec.
func TestReconcile_IsNotFooledByItsOwnNote(t *testing.T) {
	for name, change := range map[string]func(map[string]string){
		"edited":  func(a map[string]string) { a[annotationDesired] = "0123456789abcdef" },
		"removed": func(a map[string]string) { delete(a, annotationDesired) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.running("web")
			b.edit("Deployment", "web", func(d *unstructured.Unstructured) {
				a := d.GetAnnotations()
				change(a)
				d.SetAnnotations(a)
				setNested(t, d, int64(9), "spec", "replicas")
			})
			b.must(w)
			if events := strings.Join(b.told(), "\n"); !strings.Contains(events, "spec.replicas (Modified)") {
				t.Errorf("events: %q", events)
			}
		})
	}
}

func TestReconcile_OnlyReportsDriftInReportMode(t *testing.T) {
	b := newBench(t)
	w := b.running("web", full, func(w *v1beta1.Workload) { w.Spec.Drift = &v1beta1.Drift{Mode: v1beta1.DriftModeReport} })
	b.patch("Deployment", "web",
		map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/env/0/value", "value": "s3cr3t"},
		map[string]any{"op": "add", "path": "/spec/template/spec/hostPID", "value": true})
	if err := api.Delete(t.Context(), b.child("Service", "web")); err != nil {
		t.Fatal(err)
	}
	before := b.children()
	for _, restart := range []bool{false, true} {
		if restart {
			b.restart()
		}
		b.must(w)
		if diff := cmp.Diff(before, b.children()); diff != "" {
			t.Fatalf("restarted %t: written to: %s", restart, diff)
		}
	}
	deployment, service := "Deployment/"+b.namespace+"/web", "Service/"+b.namespace+"/web"
	want := []v1beta1.DriftChange{
		{Object: service, Change: "Missing"},
		{Object: deployment, Path: "spec.template.spec.containers[0].env[0].value", Change: "Modified"},
		{Object: deployment, Path: "spec.template.spec.hostPID", Change: "Added"},
	}
	if diff := cmp.Diff(want, w.Status.Drift.Changes); diff != "" {
		t.Error(diff)
	}
	c := conditionOf(w, v1beta1.ConditionDrifted)
	if c.Status != metav1.ConditionTrue || c.Reason != reasonDrift || strings.Contains(c.Message, "s3cr3t") || strings.Contains(c.Message, "hunter2") {
		t.Errorf("Drifted: %+v", c)
	}
	if writes := b.taken(); !slices.Equal(writes, []string{"apply status of Workload"}) {
		t.Errorf("writes: %v", writes)
	}
	if events := strings.Join(b.told(), "\n"); strings.Count(events, reasonDrift) != 1 || strings.Contains(events, "s3cr3t") {
		t.Errorf("events: %q", events)
	}
	if c := conditionOf(w, v1beta1.ConditionImagesVerified); c.Status != metav1.ConditionTrue {
		t.Errorf("ImagesVerified: %+v", c)
	}

	// A new spec is no drift: it is applied, and what others changed goes with it.
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Env[0].Value = "new" })
	b.must(w)
	if c := conditionOf(w, v1beta1.ConditionDrifted); c.Status != metav1.ConditionFalse {
		t.Errorf("Drifted: %+v", c)
	}
}

// What this process has written before is remembered. A new spec that asks for it is no
// less one that is applied.
func TestReconcile_ANewSpecIsNoDriftOfAnOlderOne(t *testing.T) {
	port := func(n int32) func(*v1beta1.Workload) {
		return func(w *v1beta1.Workload) { w.Spec.Ports = []v1beta1.Port{{Name: "http", Port: n}} }
	}
	gone := func(b *bench) {
		if err := api.Delete(b.t.Context(), b.child("Service", "web")); err != nil {
			b.t.Fatal(err)
		}
		b.taken()
	}
	for name, between := range map[string]func(*bench, *v1beta1.Workload){
		"nothing": func(*bench, *v1beta1.Workload) {},
		"a write whose answer is lost": func(b *bench, w *v1beta1.Workload) {
			b.update(w, port(81))
			b.lose = func(string) error { return apierrors.NewInternalError(errors.New("cut off")) }
			for range 5 {
				_, _ = b.reconcile(w) // cut off
			}
			b.lose = nil
		},
		"a child that is deleted": func(b *bench, w *v1beta1.Workload) {
			gone(b)
			b.must(w)
		},
		"a child whose note is taken off": func(b *bench, w *v1beta1.Workload) {
			for _, kind := range []string{"Deployment", "Service"} {
				b.edit(kind, "web", func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
			}
			b.must(w)
		},
		"a child that is deleted, and not asked for": func(b *bench, w *v1beta1.Workload) {
			gone(b)
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Ports = nil })
			b.must(w)
		},
	} {
		for _, mode := range []v1beta1.DriftMode{v1beta1.DriftModeReport, v1beta1.DriftModeHeal} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				b := newBench(t)
				w := b.running("web", port(80), func(w *v1beta1.Workload) { w.Spec.Drift = &v1beta1.Drift{Mode: mode} })
				between(b, w)
				b.update(w, func(w *v1beta1.Workload) {
					port(80)(w)
					w.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
				})
				b.must(w)
				service := b.child("Service", "web")
				if service == nil {
					t.Fatal("there is no Service")
				}
				ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
				if got := ports[0].(map[string]any)["port"]; got != int64(80) {
					t.Errorf("port %v", got)
				}
				containers, _, _ := unstructured.NestedSlice(b.child("Deployment", "web").Object, "spec", "template", "spec", "containers")
				if env, _ := containers[0].(map[string]any)["env"].([]any); len(env) != 1 {
					t.Errorf("env: %v", env)
				}
				if c := conditionOf(w, v1beta1.ConditionDrifted); c.Status != metav1.ConditionFalse {
					t.Errorf("Drifted: %+v", c)
				}
			})
		}
	}
}

func TestReconcile_DoesNotCallAnImageVerifiedThatSomeoneElsePutThere(t *testing.T) {
	const stray = "registry.invalid/stray:1"
	image := map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": stray}
	for name, c := range map[string]struct {
		mode   v1beta1.DriftMode
		change map[string]any
		times  int
		reason string
	}{
		"reported":                 {v1beta1.DriftModeReport, image, 1, reasonDrift},
		"an added init container":  {v1beta1.DriftModeReport, map[string]any{"op": "add", "path": "/spec/template/spec/initContainers", "value": []any{map[string]any{"name": "stray", "image": stray}}}, 1, reasonDrift},
		"put back again and again": {v1beta1.DriftModeHeal, image, limits.HealsAtOnce + 1, reasonDriftReturns},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			w := b.running("web", full, func(w *v1beta1.Workload) { w.Spec.Drift = &v1beta1.Drift{Mode: c.mode} })
			for range c.times {
				b.patch("Deployment", "web", c.change)
				b.must(w)
			}
			verified := conditionOf(w, v1beta1.ConditionImagesVerified)
			if verified.Status != metav1.ConditionFalse || verified.Reason != reasonDrift || !strings.Contains(verified.Message, stray) {
				t.Errorf("ImagesVerified: %+v", verified)
			}
			if events := strings.Join(b.told(), "\n"); strings.Count(events, c.reason) != 1 {
				t.Errorf("events: %q", events)
			}
			// What was judged still stands, and the condition with it, once it runs again.
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Env[0].Value = "new" })
			b.must(w)
			if c := conditionOf(w, v1beta1.ConditionImagesVerified); c.Status != metav1.ConditionTrue {
				t.Errorf("ImagesVerified: %+v", c)
			}
		})
	}
}
