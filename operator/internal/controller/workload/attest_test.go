package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const soakTime = time.Hour

// attestor signs in the tests, and is no authority of the images.
func attestor(t *testing.T) *testkit.Key {
	t.Helper()
	key, err := stranger()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newSoaking is a bench under a Gate of its own that attests after an hour.
func newSoaking(t *testing.T, changes ...func(*v1beta1.Gate)) *bench {
	t.Helper()
	b := newBench(t)
	own := b.namespace
	create(t, keySecret(own, signer))
	create(t, b.privateKey(attestor(t)))
	g := gateFor(own, own)
	g.Spec.Reverify = &v1beta1.Reverify{Interval: &metav1.Duration{Duration: 3 * time.Hour}}
	g.Spec.Attest = b.attests()
	for _, change := range changes {
		change(g)
	}
	create(t, g)
	b.label(own)
	return b
}

func (b *bench) attests() *v1beta1.Attest {
	return &v1beta1.Attest{
		Soak: &metav1.Duration{Duration: soakTime},
		Key: v1beta1.PrivateKey{Secret: &v1beta1.SecretKeyRef{
			NamespacedName: v1beta1.NamespacedName{Name: b.namespace + "-attestor", Namespace: operatorNamespace}, Key: "cosign.key",
		}},
	}
}

func (b *bench) privateKey(k *testkit.Key) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-attestor", Namespace: operatorNamespace},
		StringData: map[string]string{"cosign.key": k.PrivatePEM, "cosign.password": ""},
	}
}

// amend edits an object that is stored.
func amend[T client.Object](b *bench, o T, edit func(T)) {
	b.t.Helper()
	if err := api.Get(b.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		b.t.Fatal(err)
	}
	edit(o)
	if err := api.Update(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

// runningPod plays the kubelet: a pod of the template is ready since a time.
func (b *bench) runningPod(w *v1beta1.Workload, since time.Time) *corev1.Pod {
	b.t.Helper()
	containers, _, err := unstructured.NestedSlice(b.child("Deployment", w.Name).Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		b.t.Fatal(containers, err)
	}
	own := containers[0].(map[string]any)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: w.Name + "-", Namespace: b.namespace, Labels: map[string]string{
			"app.kubernetes.io/name": w.Name, "app.kubernetes.io/instance": w.Name, "app.kubernetes.io/managed-by": "sluice",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: own["name"].(string), Image: own["image"].(string)}, {Name: "injected", Image: "registry.example.com/mesh/proxy:1"},
		}},
	}
	create(b.t, pod)
	b.podReady(pod, since)
	return pod
}

func (b *bench) podReady(pod *corev1.Pod, since time.Time) {
	b.t.Helper()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}}
	if err := api.Status().Update(b.t.Context(), pod); err != nil {
		b.t.Fatal(err)
	}
}

// soaking is a Workload that is Ready, with a pod, and whose evidence was looked for.
func (b *bench) soaking(name string, changes ...func(*v1beta1.Workload)) *v1beta1.Workload {
	b.t.Helper()
	w := b.running(name, changes...)
	b.runningPod(w, b.clock.Now().Add(-time.Minute))
	b.woke(w)
	return w
}

// woke waits until the Notary knows more, and reconciles.
func (b *bench) woke(w *v1beta1.Workload) {
	b.t.Helper()
	select {
	case e := <-b.r.woken:
		if e.Object.GetName() != w.Name {
			b.t.Fatalf("%s is woken, and not %s", e.Object.GetName(), w.Name)
		}
	case <-time.After(patience):
		b.t.Fatalf("nothing wakes %s: %+v", w.Name, conditionOf(w, v1beta1.ConditionPromoted))
	}
	b.must(w)
}

// later moves the clock and reconciles.
func (b *bench) later(d time.Duration, w *v1beta1.Workload) {
	b.t.Helper()
	b.clock.move(d)
	b.must(w)
}

// promoted expects what is told of the attestations.
func (b *bench) promoted(w *v1beta1.Workload, reason, says string) {
	b.t.Helper()
	c := conditionOf(w, v1beta1.ConditionPromoted)
	if c.Reason != reason || !strings.Contains(c.Message, says) || (c.Status == metav1.ConditionTrue) != (reason == reasonAttested) {
		b.t.Fatalf("Promoted is %s because %s (%s), and should be because %s (%s)", c.Status, c.Reason, c.Message, reason, says)
	}
}

// evidenceOf is what is stored beside an image, signed by a key.
func (b *bench) evidenceOf(repository, digest string, by *testkit.Key) []evidence.Summary {
	b.t.Helper()
	held, err := registry.New(registry.Options{}).Evidence(b.t.Context(), repository, digest, gate.Want{Predicates: []string{evidence.PredicateType}}, nil, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	image := &gate.Image{Digest: digest, Attestations: held.Attestations}
	var out []evidence.Summary
	for _, s := range signature.New().Statements(b.t.Context(), []gate.Authority{{Name: "k", PublicKeyPEM: by.PublicPEM}}, image, evidence.PredicateType).Accepted {
		summary, err := evidence.Parse(s.Payload)
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, summary)
	}
	return out
}

// imageIn is repository and digest of the one image.
func imageIn(w *v1beta1.Workload) (repository, digest string) {
	return w.Spec.Image[:strings.LastIndexByte(w.Spec.Image, ':')], w.Status.Images[0].Digest
}

// attested expects so many pieces of evidence by a key.
func (b *bench) attested(w *v1beta1.Workload, by *testkit.Key, want int) []evidence.Summary {
	b.t.Helper()
	repository, digest := imageIn(w)
	all := b.evidenceOf(repository, digest, by)
	if len(all) != want {
		b.t.Fatalf("there are %d pieces of evidence, and not %d: %+v", len(all), want, all)
	}
	return all
}

func TestAttest_WhatSoakedIsAttestedOnceAndThenCostsNothing(t *testing.T) {
	b := newSoaking(t)
	w := b.running("web")
	b.runningPod(w, b.clock.Now().Add(-time.Minute))
	b.promoted(w, reasonSoaking, "gate "+b.namespace+": attested at "+b.clock.Now().Add(soakTime).UTC().Format(time.RFC3339))
	b.woke(w)
	if again := b.must(w).RequeueAfter; again != soakTime {
		t.Errorf("it is looked at again in %s", again)
	}
	if writes := b.taken(); len(writes) != 0 {
		t.Errorf("while it soaks: %v", writes)
	}
	b.later(soakTime-time.Second, w)
	b.attested(w, attestor(t), 0)
	b.later(time.Second, w)
	b.woke(w)
	b.promoted(w, reasonAttested, "1 images passed environment "+b.namespace)
	s := b.attested(w, attestor(t), 1)[0]
	repository, digest := imageIn(w)
	if e, ok := s.Environment(); !ok || e != b.namespace || s.Result != evidence.Passed || s.Policy.Digest != w.Status.Gate.PolicyDigest ||
		!slices.Equal(s.Subjects, []string{digest}) || s.Resource != "oci://"+repository+"@"+digest || !s.Time.Equal(b.clock.Now().UTC().Truncate(time.Second)) {
		t.Errorf("%+v", s)
	}
	if told := b.told(); len(told) != 1 || !strings.Contains(told[0], "Normal Attested") {
		t.Errorf("events %v", told)
	}
	b.taken()
	before := depot.Requests()
	for range 3 {
		b.later(time.Minute, w)
	}
	if writes := b.taken(); len(writes) != 0 || depot.Requests() != before {
		t.Errorf("at rest: %v, %d requests to the registry", writes, depot.Requests()-before)
	}
}

// Whatever interrupts the soak has it begin anew.
func TestAttest_ABreakRestartsTheSoak(t *testing.T) {
	const half = soakTime / 2
	for name, interrupt := range map[string]func(*bench, *v1beta1.Workload){
		"a pod that is not ready": func(b *bench, w *v1beta1.Workload) {
			b.starts(w, 0)
			b.must(w)
			b.promoted(w, reasonNotSoaking, "once it has been Ready for 1h0m0s")
			b.healthy(w)
		},
		"a pod that nobody saw was not ready": func(b *bench, w *v1beta1.Workload) {
			pods := &corev1.PodList{}
			if err := api.List(b.t.Context(), pods, client.InNamespace(b.namespace)); err != nil || len(pods.Items) != 1 {
				b.t.Fatal(len(pods.Items), err)
			}
			b.podReady(&pods.Items[0], b.clock.Now())
		},
		"another digest": func(b *bench, w *v1beta1.Workload) {
			image, digest := push(b.t, b.namespace+"/web:2", "other")
			sign(b.t, signer, image, digest)
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Image = image })
			b.must(w)
			b.healthy(w)
			if err := api.DeleteAllOf(b.t.Context(), &corev1.Pod{}, client.InNamespace(b.namespace), client.GracePeriodSeconds(0)); err != nil {
				b.t.Fatal(err)
			}
			b.runningPod(w, b.clock.Now().Add(-time.Minute))
		},
		"other rules": func(b *bench, _ *v1beta1.Workload) {
			amend(b, gateFor(b.namespace, ""), func(g *v1beta1.Gate) { g.Spec.UnmatchedImages = v1beta1.UnmatchedImagesAllow })
		},
		"a denial": func(b *bench, w *v1beta1.Workload) {
			b.accept(attestor(b.t))
			b.must(w)
			b.expect(w, v1beta1.PhaseBlocked, reasonDenied)
			b.accept(signer)
		},
		"a pause": func(b *bench, w *v1beta1.Workload) {
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Paused = true })
			b.must(w)
			b.promoted(w, reasonNotSoaking, "for as long as the Gate says")
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Paused = false })
			b.must(w)
			b.healthy(w)
		},
		"drift that is only reported": func(b *bench, w *v1beta1.Workload) {
			b.update(w, func(w *v1beta1.Workload) { w.Spec.Drift = &v1beta1.Drift{Mode: v1beta1.DriftModeReport} })
			b.must(w)
			b.healthy(w)
			b.edit("Deployment", "web", func(u *unstructured.Unstructured) { setNested(b.t, u, int64(2), "spec", "replicas") })
			b.healthy(w)
			b.must(w)
			b.promoted(w, reasonNotSoaking, "")
			b.edit("Deployment", "web", func(u *unstructured.Unstructured) { setNested(b.t, u, int64(1), "spec", "replicas") })
			b.healthy(w)
		},
		"a restart of the operator, whatever status says": func(b *bench, w *v1beta1.Workload) {
			b.restart()
			for i := range w.Status.Conditions {
				w.Status.Conditions[i].LastTransitionTime = metav1.NewTime(b.clock.Now().Add(-1000 * time.Hour))
			}
			if err := api.Status().Update(b.t.Context(), w); err != nil {
				b.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSoaking(t)
			w := b.soaking("web")
			b.clock.move(half)
			interrupt(b, w)
			b.must(w)
			if w.Status.Phase != v1beta1.PhaseReady {
				t.Fatalf("it is %s: %+v", w.Status.Phase, w.Status.Conditions)
			}
			b.later(soakTime-time.Second, w)
			b.settle(w)
			b.attested(w, attestor(t), 0)
			b.promoted(w, reasonSoaking, "")
			b.later(half, w)
			b.settle(w)
			b.promoted(w, reasonAttested, "")
			b.attested(w, attestor(t), 1)
		})
	}
}

// A warning denies nothing, and others than the owner can bring one.
func TestAttest_AWarningIsNoBreak(t *testing.T) {
	policy := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "wary-", Namespace: operatorNamespace},
		Data:       map[string]string{"p.rego": "package main\nwarn contains \"it is noted\" if input.workload.metadata.annotations.noted\n"},
	}
	create(t, policy)
	b := newSoaking(t, func(g *v1beta1.Gate) {
		g.Spec.Policies = []v1beta1.PolicySource{{ConfigMap: &v1beta1.NamespacedName{Name: policy.Name, Namespace: operatorNamespace}}}
	})
	w := b.soaking("web")
	b.clock.move(soakTime / 2)
	b.update(w, func(w *v1beta1.Workload) { w.Annotations = map[string]string{"noted": "yes"} })
	b.must(w)
	if w.Status.Gate.Verdict != string(gate.OutcomeWarn) {
		t.Fatalf("the verdict is %s", w.Status.Gate.Verdict)
	}
	b.later(soakTime/2, w)
	b.settle(w)
	b.attested(w, attestor(t), 1)
	b.promoted(w, reasonAttested, "")
}

// settle reconciles until the Notary has nothing more to say.
func (b *bench) settle(w *v1beta1.Workload) {
	b.t.Helper()
	for slices.ContainsFunc(b.r.recall(w).promises, func(p promise) bool { return p.pending }) {
		b.woke(w)
	}
}

// What is not attested, and why.
func TestAttest_OnlyWhatRanAndPassedIsAttested(t *testing.T) {
	for name, c := range map[string]struct {
		gate     func(*v1beta1.Gate)
		workload func(*v1beta1.Workload)
		pods     func(*bench, *v1beta1.Workload)
		reason   string
	}{
		"pods that nobody sees": {pods: func(*bench, *v1beta1.Workload) {}, reason: reasonSoaking},
		"no replicas":           {workload: func(w *v1beta1.Workload) { w.Spec.Replicas = int32Of(0) }, pods: func(*bench, *v1beta1.Workload) {}, reason: reasonNotSoaking},
		"a pod of another revision": {pods: func(b *bench, w *v1beta1.Workload) {
			b.runningPod(w, b.clock.Now().Add(-time.Minute))
			other := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: b.namespace, Labels: map[string]string{"app.kubernetes.io/name": w.Name, "app.kubernetes.io/instance": w.Name}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: w.Name, Image: "registry.example.com/shop/web@" + testkit.DigestOf("old")}}},
			}
			create(b.t, other)
			b.podReady(other, b.clock.Now().Add(-time.Minute))
		}, reason: reasonSoaking},
		"a pod that is on its way out": {pods: func(b *bench, w *v1beta1.Workload) {
			pod := b.runningPod(w, b.clock.Now().Add(-time.Minute))
			pod.Finalizers = []string{"example.com/held"}
			if err := api.Update(b.t.Context(), pod); err != nil {
				b.t.Fatal(err)
			}
			if err := api.Delete(b.t.Context(), pod); err != nil {
				b.t.Fatal(err)
			}
		}, reason: reasonSoaking},
		"what a Gate that only warns lets through": {gate: func(g *v1beta1.Gate) { g.Spec.Mode, g.Spec.Images[0].RequireDigest = v1beta1.GateModeWarn, true }, reason: reasonRulesBroken},
		"what a Gate that only looks lets through": {gate: func(g *v1beta1.Gate) { g.Spec.Mode, g.Spec.Images[0].RequireDigest = v1beta1.GateModeAudit, true }, reason: reasonRulesBroken},
		"an image that the Gate does not look at":  {gate: func(g *v1beta1.Gate) { g.Spec.Images[0].Require = new(intstr.FromString("none")) }},
		"a tag that the Gate does not resolve":     {gate: func(g *v1beta1.Gate) { g.Spec.Images, g.Spec.UnmatchedImages = nil, v1beta1.UnmatchedImagesAllow }, reason: reasonImageNotResolved},
		"nothing, where the Gate does not attest":  {gate: func(g *v1beta1.Gate) { g.Spec.Attest = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSoaking(t, func(g *v1beta1.Gate) {
				if c.gate != nil {
					c.gate(g)
				}
			})
			w := b.running("web", func(w *v1beta1.Workload) {
				if c.workload != nil {
					c.workload(w)
				}
			})
			if c.pods == nil {
				c.pods = func(b *bench, w *v1beta1.Workload) { b.runningPod(w, b.clock.Now().Add(-time.Minute)) }
			}
			c.pods(b, w)
			puts := depot.Counts()["PUT manifests"]
			b.settle(w)
			for range 3 {
				b.later(soakTime, w)
				b.settle(w)
			}
			if got := conditionOf(w, v1beta1.ConditionPromoted); got.Reason != c.reason || depot.Counts()["PUT manifests"] != puts {
				t.Errorf("Promoted is because %q (%s), %d writes", got.Reason, got.Message, depot.Counts()["PUT manifests"]-puts)
			}
		})
	}
}

// Of a Gate that blocks nothing is told that is about the modes in which none does.
func TestAttest_TellsWhatABlockingGateSays(t *testing.T) {
	for name, tc := range map[string]struct {
		gate         func(*v1beta1.Gate)
		reason, says string
	}{
		"it denies":           {func(g *v1beta1.Gate) { g.Spec.Images[0].RequireDigest = true }, reasonRulesBroken, "the Gate denies it"},
		"it could not decide": {func(g *v1beta1.Gate) { g.Spec.Images[0].Authorities[0].Key.Secret.Name = "nowhere" }, reasonNotSoaking, "could not decide"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSoaking(t)
			w := b.soaking("web")
			b.changeGate(tc.gate)
			_, _ = b.reconcile(w) // what could not be decided is an error
			b.read(w)
			b.promoted(w, tc.reason, tc.says)
		})
	}
}

func TestAttest_EachGateAttestsForItsEnvironment(t *testing.T) {
	b := newSoaking(t)
	second := gateFor(b.namespace, b.namespace)
	second.Name, second.Spec.Environment, second.Spec.Attest = b.namespace+"-more", "more", b.attests()
	second.Spec.Attest.Soak.Duration = 2 * soakTime
	create(t, second)
	w := b.soaking("web")
	b.settle(w)
	b.later(soakTime, w)
	b.settle(w)
	b.promoted(w, reasonSoaking, "passed environment "+b.namespace+"; gate "+b.namespace+"-more: attested at")
	b.later(soakTime, w)
	b.settle(w)
	b.promoted(w, reasonAttested, "passed environment more")
	var environments []string
	for _, s := range b.attested(w, attestor(t), 2) {
		e, _ := s.Environment()
		environments = append(environments, e)
	}
	slices.Sort(environments)
	if !slices.Equal(environments, []string{"more", b.namespace}) {
		t.Errorf("%v", environments)
	}
}

func TestAttest_ExemptionsTravelWithIt(t *testing.T) {
	b := newSoaking(t)
	create(t, &v1beta1.Exemption{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}, Spec: v1beta1.ExemptionSpec{
		Gates: []string{b.namespace}, Policies: []string{"signature"}, Reason: "incident 4711", Expires: metav1.NewTime(b.clock.Now().Add(1000 * time.Hour)),
		Images: []string{depot.Host() + "/" + b.namespace + "/unsigned@*"},
	}})
	image, _ := push(t, b.namespace+"/unsigned:1", "unsigned")
	w := b.soaking("web", func(w *v1beta1.Workload) { w.Spec.Image = image })
	b.later(soakTime, w)
	b.settle(w)
	s := b.attested(w, attestor(t), 1)[0]
	if len(s.Exemptions) == 0 || s.Exemptions[0].Name != b.namespace || s.Exemptions[0].Reason != "incident 4711" || s.Exemptions[0].Policy != "signature" {
		t.Errorf("%+v", s)
	}
}

// With a real queue: the end of the soak and of the write are what brings it about, and
// nobody asks in between.
func TestManager_AttestsAtTheEndOfTheSoak(t *testing.T) {
	b := newSoaking(t, func(g *v1beta1.Gate) { g.Spec.Attest.Soak.Duration = time.Second })
	w := b.workload("web", seen)
	eventually(t, "it has pods", func(ctx context.Context) error { return setHealthy(ctx, w) })
	b.runningPod(w, time.Now().Add(-time.Minute))
	b.runs(w)
	eventually(t, "it is attested", func(context.Context) error {
		b.read(w)
		if c := conditionOf(w, v1beta1.ConditionPromoted); c.Reason != reasonAttested {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	b.attested(w, attestor(t), 1)
}

// Of many Workloads with one image each soaks for itself, and one of them has it written.
func TestAttest_ManyWorkloadsOfOneImageHaveItWrittenOnce(t *testing.T) {
	b := newSoaking(t)
	image, _ := pushSigned(t, b.namespace+"/shared:1")
	var all []*v1beta1.Workload
	for i := range 10 {
		w := b.running(fmt.Sprintf("web-%d", i), func(w *v1beta1.Workload) { w.Spec.Image = image })
		b.runningPod(w, b.clock.Now().Add(-time.Minute))
		all = append(all, w)
	}
	b.clock.move(soakTime)
	done := func() bool {
		return !slices.ContainsFunc(all, func(w *v1beta1.Workload) bool {
			return conditionOf(w, v1beta1.ConditionPromoted).Reason != reasonAttested
		})
	}
	for range 4 {
		for _, w := range all {
			b.must(w)
		}
		if done() {
			break
		}
		select {
		case <-b.r.woken:
		case <-time.After(patience):
			t.Fatal("nobody is told")
		}
	}
	if !done() {
		t.Error("not all are attested")
	}
	b.attested(all[0], attestor(t), 1)
}
