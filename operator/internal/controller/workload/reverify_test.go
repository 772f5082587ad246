package workload

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// stranger has signed nothing.
var stranger = sync.OnceValues(testkit.NewKey)

// newGuarded is a bench under a Gate of its own, whose key can be rotated.
func newGuarded(t *testing.T, onFailure v1beta1.OnFailure) *bench {
	t.Helper()
	b := newBench(t)
	b.guard(onFailure, 3*time.Hour)
	return b
}

// guard puts the namespace under a Gate of its own.
func (b *bench) guard(onFailure v1beta1.OnFailure, interval time.Duration) {
	b.t.Helper()
	own := b.namespace
	create(b.t, keySecret(own, signer))
	g := gateFor(own, own)
	g.Spec.Reverify = &v1beta1.Reverify{Interval: &metav1.Duration{Duration: interval}, OnFailure: onFailure}
	create(b.t, g)
	b.label(own)
}

// label puts the namespace under a Gate.
func (b *bench) label(environment string) {
	b.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+environmentLabel+`":"`+environment+`"}}}`))
	if err := api.Patch(b.t.Context(), ns, patch); err != nil {
		b.t.Fatal(err)
	}
}

// accept makes a key the one that the Gate takes.
func (b *bench) accept(key *testkit.Key) {
	b.t.Helper()
	s := keySecret(b.namespace, key)
	if err := api.Get(b.t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		b.t.Fatal(err)
	}
	s.Data["cosign.pub"] = []byte(key.PublicPEM)
	if err := api.Update(b.t.Context(), s); err != nil {
		b.t.Fatal(err)
	}
}

// rotate has the Gate take a key that signed nothing that runs.
func (b *bench) rotate() {
	b.t.Helper()
	key, err := stranger()
	if err != nil {
		b.t.Fatal(err)
	}
	b.accept(key)
}

// takeAway takes the pods of a denied Workload away.
func (b *bench) takeAway(w *v1beta1.Workload) {
	b.t.Helper()
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	b.clock.move(limits.DenialStands)
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonScaledToZero)
}

// calm reconciles again and again, also in a new process, and expects no write.
func (b *bench) calm(w *v1beta1.Workload, when string) {
	b.t.Helper()
	b.must(w)
	b.taken()
	for i := range 6 {
		if i == 3 {
			b.restart()
		}
		b.clock.move(time.Minute)
		b.must(w)
	}
	if writes := b.taken(); len(writes) > 0 {
		b.t.Errorf("%s: writes %v", when, writes)
	}
}

func (b *bench) replicasOf(kind string, want int64, when string) {
	b.t.Helper()
	if got := nestedInt(b.child(kind, "web"), "spec", "replicas"); got != want {
		b.t.Errorf("%s: %d replicas, want %d", when, got, want)
	}
}

func three(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(3) }

func TestReverify_LooksAgainAfterTheGatesInterval(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureReport)
	w := b.running("web")
	if result := b.must(w); result.RequeueAfter != 3*time.Hour {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	b.label(environment)
	if result := b.must(w); result.RequeueAfter != limits.Reverify {
		t.Errorf("where the Gate does not say: in %s", result.RequeueAfter)
	}
}

func TestReverify_ReportTouchesNothing(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureReport)
	w := b.running("web", three)
	b.rotate()
	b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/spec/replicas", "value": 5})
	before := b.child("Deployment", "web").GetResourceVersion()
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	b.clock.move(time.Hour)
	b.calm(w, "denied")
	if b.child("Deployment", "web").GetResourceVersion() != before {
		t.Error("the Deployment was written")
	}
}

func TestReverify_ScaleToZeroTakesThePodsAwayOnce(t *testing.T) {
	for kind, storage := range map[string]*v1beta1.Storage{"Deployment": nil, "StatefulSet": {Size: "1024Mi", MountPath: "/data", Retain: true}} {
		for mode, drift := range map[string]*v1beta1.Drift{"Heal": nil, "Report": {Mode: v1beta1.DriftModeReport}} {
			t.Run(kind+", drift "+mode, func(t *testing.T) {
				b := newGuarded(t, v1beta1.OnFailureScaleToZero)
				w := b.running("web", three, func(w *v1beta1.Workload) { w.Spec.Storage, w.Spec.Drift = storage, drift })
				others := b.children()
				delete(others, kind+"/web")

				b.rotate()
				result := b.must(w)
				b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
				b.replicasOf(kind, 3, "at first")
				if result.RequeueAfter > limits.DenialStands {
					t.Errorf("looks again in %s", result.RequeueAfter)
				}
				b.taken()
				b.told()
				b.clock.move(limits.DenialStands)
				b.must(w)
				b.expect(w, v1beta1.PhaseBlocked, reasonScaledToZero)
				b.replicasOf(kind, 0, "after a minute")
				if got, want := b.taken(), []string{"patch " + kind, "apply status of Workload"}; !slices.Equal(got, want) {
					t.Errorf("writes %v", got)
				}
				if events := strings.Join(b.told(), "\n"); !strings.Contains(events, "Warning "+reasonScaledToZero) || !strings.Contains(events, "release-key") {
					t.Errorf("events: %q", events)
				}
				if gated := conditionOf(w, v1beta1.ConditionGated); gated.Status != metav1.ConditionFalse || gated.Reason != reasonDenied {
					t.Errorf("Gated: %+v", gated)
				}
				b.healthy(w)
				b.calm(w, "without pods")
				for name, c := range others {
					if now := b.children()[name]; now == nil || now.GetResourceVersion() != c.GetResourceVersion() {
						t.Errorf("%s was written", name)
					}
				}

				b.accept(signer)
				b.told()
				b.must(w)
				b.replicasOf(kind, 3, "allowed again")
				if _, marked := b.child(kind, "web").GetAnnotations()[annotationScaled]; marked {
					t.Error("the note stays")
				}
				if events := strings.Join(b.told(), "\n"); strings.Contains(events, reasonHealed) || w.Status.Drift != nil {
					t.Errorf("it is told as drift: %q, %v", events, w.Status.Drift)
				}
				b.healthy(w)
				b.must(w)
				b.expect(w, v1beta1.PhaseReady, reasonReady)
				b.calm(w, "allowed again")
			})
		}
	}
}

// TestReverify_TakesNoPodsAwayFor goes through all that blocks and is no denial of what
// runs.
func TestReverify_TakesNoPodsAwayFor(t *testing.T) {
	for name, block := range map[string]func(*testing.T, *bench, *v1beta1.Workload){
		"a denied update to another image": func(t *testing.T, b *bench, w *v1beta1.Workload) {
			image, _ := push(t, b.namespace+"/other:1", "other")
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Image = image })
		},
		"a denied update, although what runs would be denied too": func(_ *testing.T, b *bench, w *v1beta1.Workload) {
			b.rotate()
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(4) })
		},
		"an update that does not render": func(_ *testing.T, b *bench, w *v1beta1.Workload) {
			b.update(w, func(w *v1beta1.Workload) {
				w.Spec.Patches = []v1beta1.Patch{{Patch: "- {op: remove, path: /spec}", Target: &v1beta1.PatchTarget{Kind: "Pod"}}}
			})
		},
		"an outage of the registry": func(t *testing.T, b *bench, _ *v1beta1.Workload) {
			b.restart()
			depot.Override(testkit.PathContains(b.namespace), testkit.Status(http.StatusInternalServerError))
			t.Cleanup(depot.Restore)
		},
		"an outage while the key is another": func(t *testing.T, b *bench, _ *v1beta1.Workload) {
			b.rotate()
			b.restart()
			depot.Override(testkit.PathContains(b.namespace), testkit.Status(http.StatusInternalServerError))
			t.Cleanup(depot.Restore)
		},
		"a key that cannot be read": func(t *testing.T, b *bench, _ *v1beta1.Workload) {
			if err := api.Delete(t.Context(), keySecret(b.namespace, signer)); err != nil {
				t.Fatal(err)
			}
		},
		"a namespace that no Gate matches": func(_ *testing.T, b *bench, _ *v1beta1.Workload) { b.label("none") },
		"a Gate that only reports": func(_ *testing.T, b *bench, _ *v1beta1.Workload) {
			b.rotate()
			b.changeGate(func(g *v1beta1.Gate) { g.Spec.Reverify = nil })
		},
		"a Gate that only warns": func(_ *testing.T, b *bench, _ *v1beta1.Workload) {
			b.rotate()
			b.changeGate(func(g *v1beta1.Gate) { g.Spec.Mode = v1beta1.GateModeWarn })
		},
		"a Workload that is paused": func(_ *testing.T, b *bench, w *v1beta1.Workload) {
			b.rotate()
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Paused = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newGuarded(t, v1beta1.OnFailureScaleToZero)
			w := b.running("web", three)
			before := b.child("Deployment", "web")
			block(t, b, w)
			for range 4 {
				_, _ = b.reconcile(w)
				b.clock.move(limits.DenialStands)
			}
			b.read(w)
			if name != "a Gate that only warns" && w.Status.Phase == v1beta1.PhaseReady && conditionOf(w, v1beta1.ConditionGated).Status == metav1.ConditionTrue {
				t.Error("nothing blocks")
			}
			after := b.child("Deployment", "web")
			if after.GetGeneration() != before.GetGeneration() || after.GetAnnotations()[annotationScaled] != "" {
				t.Errorf("the Deployment was written: %v", after.Object["spec"])
			}
		})
	}
}

func (b *bench) changeGate(change func(*v1beta1.Gate)) {
	b.t.Helper()
	g := &v1beta1.Gate{}
	if err := api.Get(b.t.Context(), client.ObjectKey{Name: b.namespace}, g); err != nil {
		b.t.Fatal(err)
	}
	change(g)
	if err := api.Update(b.t.Context(), g); err != nil {
		b.t.Fatal(err)
	}
}

func TestReverify_ADenialHasToStand(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureScaleToZero)
	w := b.running("web", three)
	b.rotate()
	b.must(w)
	b.clock.move(limits.DenialStands - time.Second)
	b.must(w)
	b.accept(signer)
	b.must(w)
	b.clock.move(time.Hour)
	b.rotate()
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	b.replicasOf("Deployment", 3, "denied anew")
}

// TestReverify_AnAutoscalerGetsBackWhatItHad: an autoscaler leaves a target at zero alone,
// so that the operator has to start it again.
func TestReverify_AnAutoscalerGetsBackWhatItHad(t *testing.T) {
	for name, prepare := range map[string]func(*bench, *v1beta1.Workload){
		"an autoscaler of the Deployment": func(b *bench, _ *v1beta1.Workload) { b.autoscaler("apps/v1", "Deployment", "web") },
		"replicas left to others":         func(_ *bench, w *v1beta1.Workload) { ignoring("Deployment", "/spec/replicas")(w) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newGuarded(t, v1beta1.OnFailureScaleToZero)
			w := b.running("web", three, func(w *v1beta1.Workload) { prepare(b, w) })
			b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/spec/replicas", "value": 7})
			b.healthy(w)
			b.must(w)
			b.rotate()
			b.takeAway(w)
			b.replicas(0, "denied")
			b.calm(w, "denied")
			b.accept(signer)
			b.must(w)
			b.replicas(7, "allowed again")
			b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/spec/replicas", "value": 9})
			b.calm(w, "allowed again")
			b.replicas(9, "scaled by its owner")
		})
	}
}

func TestReverify_PodsStayAwayUntilItIsAllowed(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureScaleToZero)
	w := b.running("web", three)
	b.rotate()
	b.takeAway(w)

	b.patch("Deployment", "web", map[string]any{"op": "replace", "path": "/spec/replicas", "value": 5})
	b.must(w)
	b.replicas(0, "scaled by hand")

	// Another denied generation: it is not what runs, and what was taken away stays away.
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} })
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
	b.replicas(0, "denied in another generation")

	// One that is allowed starts as it is, and at no time as it was.
	key, err := stranger()
	if err != nil {
		t.Fatal(err)
	}
	image, digest := push(t, b.namespace+"/fixed:1", "fixed")
	sign(t, key, image, digest)
	b.update(w, func(w *v1beta1.Workload) { w.Spec.Image, w.Spec.Replicas = image, int32Of(2) })
	started := ""
	b.lose = func(string) error {
		if d := b.child("Deployment", "web"); nestedInt(d, "spec", "replicas") > 0 && !strings.Contains(imageOf(t, d), digest) {
			started = imageOf(t, d)
		}
		return nil
	}
	b.must(w)
	b.lose = nil
	b.replicas(2, "allowed")
	if started != "" {
		t.Errorf("%s was started", started)
	}
	if events := strings.Join(b.told(), "\n"); strings.Contains(events, reasonHealed) {
		t.Errorf("events: %q", events)
	}
}

func TestReverify_WhoEditsTheNoteDoesNotGetAway(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureScaleToZero)
	w := b.running("web", three)
	b.rotate()
	b.edit("Deployment", "web", func(u *unstructured.Unstructured) {
		notes := u.GetAnnotations()
		notes[annotationResolved] = "{}"
		u.SetAnnotations(notes)
	})
	b.takeAway(w)
	b.replicas(0, "denied")
}

func TestReverify_FreezeHoldsTheChildren(t *testing.T) {
	b := newGuarded(t, v1beta1.OnFailureFreeze)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "database", Namespace: b.namespace}, StringData: map[string]string{"password": "hunter2"}})
	w := b.running("web", full, three, func(w *v1beta1.Workload) { w.Spec.Secrets = []v1beta1.SecretRef{{Name: "database", EnvFrom: true}} })
	template := func() any {
		spec, _, _ := unstructured.NestedMap(b.child("Deployment", "web").Object, "spec", "template")
		return spec
	}
	before, marks := b.child("Deployment", "web"), template()
	b.rotate()
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonFrozen)
	if events := strings.Join(b.told(), "\n"); !strings.Contains(events, "Warning "+reasonFrozen) {
		t.Errorf("events: %q", events)
	}
	b.calm(w, "frozen")

	b.patch("Deployment", "web", map[string]any{"op": "add", "path": "/spec/template/spec/hostNetwork", "value": true},
		map[string]any{"op": "replace", "path": "/spec/replicas", "value": 9})
	policy := b.child("NetworkPolicy", "web")
	if err := api.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	b.expect(w, v1beta1.PhaseBlocked, reasonFrozen)
	if !reflect.DeepEqual(template(), marks) || b.child("NetworkPolicy", "web") == nil {
		t.Error("what others changed was not put back")
	}
	b.replicas(3, "frozen")

	secret := &corev1.Secret{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "database"}, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["password"] = []byte("changed")
	if err := api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.taken()
	b.must(w)
	b.restart()
	b.must(w)
	// What was put back last is not remembered in a new process, and goes from status.
	if writes := slices.DeleteFunc(b.taken(), func(w string) bool { return w == "apply status of Workload" }); len(writes) > 0 {
		t.Errorf("with another Secret: writes %v", writes)
	}
	if !reflect.DeepEqual(template(), marks) {
		t.Error("the pods were rolled")
	}

	b.accept(signer)
	b.must(w)
	if reflect.DeepEqual(template(), marks) {
		t.Error("the pods were not rolled for the Secret once it was allowed")
	}

	// A controller that was deleted is not started anew while it is denied.
	b.rotate()
	b.must(w)
	if err := api.Delete(t.Context(), before, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	if b.child("Deployment", "web") != nil {
		t.Error("denied pods were started")
	}
}

// Pods are taken away, and children held, whatever someone does to the labels by which they
// are found.
func TestReverify_LabelsAreNoWayAroundIt(t *testing.T) {
	for name, lose := range map[string]func(*unstructured.Unstructured){
		"no labels":           func(c *unstructured.Unstructured) { c.SetLabels(nil) },
		"no labels, no owner": func(c *unstructured.Unstructured) { c.SetLabels(nil); c.SetOwnerReferences(nil) },
		"those of a canary":   func(c *unstructured.Unstructured) { l := c.GetLabels(); l[labelTrack] = trackCanary; c.SetLabels(l) },
		"those of another one": func(c *unstructured.Unstructured) {
			c.SetLabels(map[string]string{render.LabelManagedBy: render.ManagedBy, render.LabelInstance: "other"})
		},
	} {
		for when, restart := range map[string]bool{"": false, ", and a restart": true} {
			t.Run(name+when, func(t *testing.T) {
				for _, onFailure := range []v1beta1.OnFailure{v1beta1.OnFailureScaleToZero, v1beta1.OnFailureFreeze} {
					b := newGuarded(t, onFailure)
					w := b.running("web", three)
					b.rotate()
					b.edit("Deployment", "web", lose)
					b.scale(b.deployment(), 7)
					if restart {
						b.restart()
					}
					if onFailure == v1beta1.OnFailureFreeze {
						b.must(w)
						b.expect(w, v1beta1.PhaseBlocked, reasonFrozen)
						b.replicasOf("Deployment", 3, "held")
						continue
					}
					b.takeAway(w)
					b.replicasOf("Deployment", 0, "after a denial that stood")
				}
			})
		}
	}
}
