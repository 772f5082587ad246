package workload

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// patched adds what the pods refer to, as patches do.
func patched(ops string) func(*v1beta1.Workload) {
	return func(w *v1beta1.Workload) {
		w.Spec.Patches = append(w.Spec.Patches, v1beta1.Patch{Target: &v1beta1.PatchTarget{Kind: "Deployment"}, Patch: ops})
	}
}

const podSpecPath = "/spec/template/spec"

func TestReferencesOf_FindsWhatPodsUse(t *testing.T) {
	pods := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"initContainers":   []any{map[string]any{"name": "i", "envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": "init"}}}}},
		"containers": []any{map[string]any{"name": "c",
			"envFrom": []any{map[string]any{"secretRef": map[string]any{"name": "from", "optional": true}}},
			"env": []any{
				map[string]any{"name": "A", "value": "a"},
				map[string]any{"name": "B", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "from", "key": "k"}}},
				map[string]any{"name": "C", "valueFrom": map[string]any{"configMapKeyRef": map[string]any{"name": "key", "key": "k", "optional": true}}},
				map[string]any{"name": "D", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.name"}}},
			}}},
		"volumes": []any{
			map[string]any{"name": "a", "secret": map[string]any{"secretName": "volume"}},
			map[string]any{"name": "b", "configMap": map[string]any{"name": "own"}},
			map[string]any{"name": "c", "emptyDir": map[string]any{}},
			map[string]any{"name": "d", "projected": map[string]any{"sources": []any{
				map[string]any{"secret": map[string]any{"name": "projected", "optional": true}}, map[string]any{"configMap": map[string]any{"name": "projected"}},
			}}},
		},
	}}}}
	backup := map[string]any{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"name": "web-backup"}, "spec": map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{
		"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "envFrom": []any{map[string]any{"secretRef": map[string]any{"name": "backup"}}}}}}}}}}}
	own := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "own"}}
	for range 20 {
		got, err := referencesOf([]map[string]any{own, backup, pods})
		if err != nil {
			t.Fatal(err)
		}
		const at = "Deployment/web spec.template.spec."
		want := []reference{
			{kindSecret, "from", at + "containers[0].env[1].valueFrom", false},
			{kindSecret, "projected", at + "volumes[3].projected.sources[0].secret", true},
			{kindSecret, "volume", at + "volumes[0].secret", false},
			{kindConfigMap, "init", at + "initContainers[0].envFrom[0]", false},
			{kindConfigMap, "key", at + "containers[0].env[2].valueFrom", true},
			{kindConfigMap, "projected", at + "volumes[3].projected.sources[1].configMap", false},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(reference{})); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestNextMark_RollsForAChangeAndForNothingElse(t *testing.T) {
	live := func(value string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		if value != "" {
			_ = unstructured.SetNestedField(u.Object, value, "spec", "template", "metadata", "annotations", annotationReferenced)
		}
		return u
	}
	for name, tc := range map[string]struct {
		before     *mark
		live       *unstructured.Unstructured
		seen       string
		incomplete bool
		want       mark
	}{
		"new pods get the mark":                   {nil, nil, "aa", false, mark{markScheme, "aa", "aa"}},
		"pods that use nothing get none":          {nil, nil, "", false, mark{markScheme, "", ""}},
		"pods of a version without marks stay":    {nil, live(""), "aa", false, mark{markScheme, "aa", ""}},
		"and are rolled for the first change":     {&mark{markScheme, "aa", ""}, live(""), "bb", false, mark{markScheme, "bb", "bb"}},
		"a lost note is made up from what runs":   {nil, live("cc"), "aa", false, mark{markScheme, "aa", "cc"}},
		"what runs is not taken on its word":      {nil, live("evil value"), "aa", false, mark{markScheme, "aa", ""}},
		"nothing changed":                         {&mark{markScheme, "aa", "cc"}, live("cc"), "aa", false, mark{markScheme, "aa", "cc"}},
		"something changed":                       {&mark{markScheme, "aa", "aa"}, live("aa"), "bb", false, mark{markScheme, "bb", "bb"}},
		"another scheme is no change":             {&mark{markScheme - 1, "aa", "aa"}, live("aa"), "bb", false, mark{markScheme, "bb", "aa"}},
		"what is missing is no reason to restart": {&mark{markScheme, "aa", "aa"}, live("aa"), "", true, mark{markScheme, "aa", "aa"}},
		"pods that were deleted are new":          {&mark{markScheme, "aa", "cc"}, nil, "aa", false, mark{markScheme, "aa", "aa"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nextMark(tc.before, tc.live, tc.seen, tc.incomplete); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestReconcile_WaitsForWhatAPatchBringsAndNamesIt(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", func(w *v1beta1.Workload) {
		yes := true
		w.Spec.Env = []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "a"}}},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "perhaps"}, Key: "a", Optional: &yes}}},
		}
		w.Spec.Config = &v1beta1.ConfigFiles{MountPath: "/etc/app", Files: map[string]string{"a": "b"}}
	}, patched(`[{"op": "add", "path": "`+podSpecPath+`/volumes/-", "value": {"name": "more", "secret": {"secretName": "more"}}}]`))
	b.must(w)
	b.expect(w, v1beta1.PhaseWaiting, reasonSecretMissing)
	message := conditionOf(w, v1beta1.ConditionReady).Message
	for _, want := range []string{"Secret " + b.namespace + "/more (Deployment/web spec.template.spec.volumes[", "ConfigMap " + b.namespace + "/settings (Deployment/web spec.template.spec.containers[0].env[0]", "create it"} {
		if !strings.Contains(message, want) {
			t.Errorf("the message has no %q: %s", want, message)
		}
	}
	if strings.Contains(message, "perhaps") || strings.Contains(message, "web-config") {
		t.Errorf("waits for what is optional, or its own: %s", message)
	}
	create(t, b.secret("more", "a"))
	b.must(w)
	b.expect(w, v1beta1.PhaseWaiting, reasonConfigMapMissing)
	create(t, b.configMap("settings", "a"))
	b.must(w)
	b.expect(w, v1beta1.PhaseProgressing, reasonProgressing)
}

func (b *bench) secret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace}, Data: map[string][]byte{"a": []byte(value)}}
}

func (b *bench) configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace}, Data: map[string]string{"a": value}}
}

// markOf is the mark in the pods' template.
func (b *bench) markOf(name string) string { return liveMark(b.child("Deployment", name)) }

func change(t *testing.T, o client.Object, patch string) {
	t.Helper()
	if err := api.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func TestReconcile_RollsThePodsOnceForAChangeOfWhatTheyUse(t *testing.T) {
	b := newBench(t)
	secret, settings := b.secret("password", "first"), b.configMap("settings", "first")
	create(t, secret)
	create(t, settings)
	w := b.running("web", func(w *v1beta1.Workload) { w.Spec.Secrets = []v1beta1.SecretRef{{Name: "password", EnvFrom: true}} },
		patched(`[{"op": "add", "path": "`+podSpecPath+`/containers/0/envFrom/-", "value": {"configMapRef": {"name": "settings"}}}]`),
		patched(`[{"op": "add", "path": "`+podSpecPath+`/containers/0/envFrom/-", "value": {"configMapRef": {"name": "perhaps", "optional": true}}}]`))
	if b.markOf("web") == "" {
		t.Fatal("no mark")
	}
	perhaps := b.configMap("perhaps", "a")
	for _, step := range []struct {
		name  string
		do    func()
		rolls bool
	}{
		{"nothing", func() {}, false},
		{"a new process", b.restart, false},
		{"a label of the Secret", func() { change(t, secret, `{"metadata":{"labels":{"a":"b"}}}`) }, false},
		{"an annotation of the ConfigMap", func() { change(t, settings, `{"metadata":{"annotations":{"a":"b"}}}`) }, false},
		{"a write that changes nothing", func() { change(t, secret, `{"stringData":{"a":"first"}}`) }, false},
		{"the content of the Secret", func() { change(t, secret, `{"stringData":{"a":"second"}}`) }, true},
		{"another key of it", func() { change(t, secret, `{"stringData":{"b":"second"}}`) }, true},
		{"the content of the ConfigMap", func() { change(t, settings, `{"data":{"a":"second"}}`) }, true},
		{"an optional one that appears", func() { create(t, perhaps) }, true},
		{"the content of that, and a new process", func() { change(t, perhaps, `{"binaryData":{"x":"AAAA"}}`); b.restart() }, true},
	} {
		before, generation := b.markOf("web"), b.child("Deployment", "web").GetGeneration()
		step.do()
		b.must(w)
		writes := b.taken()
		switch after := b.child("Deployment", "web").GetGeneration(); {
		case step.rolls && (after != generation+1 || b.markOf("web") == before || strings.Count(strings.Join(writes, ","), "Deployment") != 1):
			t.Errorf("%s: mark %s, was %s; generation %d, was %d; writes %v", step.name, b.markOf("web"), before, after, generation, writes)
		case !step.rolls && (after != generation || len(writes) > 0):
			t.Errorf("%s: generation %d, was %d; writes %v", step.name, after, generation, writes)
		}
		b.healthy(w)
		b.must(w)
		b.taken()
		b.must(w)
		if writes := b.taken(); len(writes) > 0 {
			t.Errorf("after %s: writes at rest: %v", step.name, writes)
		}
	}
	if told := strings.Join(b.told(), "\n"); strings.Contains(told, reasonHealed) {
		t.Errorf("a change of a Secret is taken for drift: %s", told)
	}
}

func TestReconcile_DoesNotRestartPodsThatWouldMissASecret(t *testing.T) {
	b := newBench(t)
	secret := b.secret("password", "first")
	create(t, secret)
	w := b.running("web", func(w *v1beta1.Workload) { w.Spec.Secrets = []v1beta1.SecretRef{{Name: "password", EnvFrom: true}} })
	before := b.markOf("web")
	if err := api.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	b.must(w)
	b.expect(w, v1beta1.PhaseWaiting, reasonSecretMissing)
	if b.markOf("web") != before {
		t.Error("pods are restarted and cannot start")
	}
	create(t, b.secret("password", "second"))
	b.must(w)
	if b.markOf("web") == before {
		t.Error("pods keep what they had")
	}
}

// An operator that knew no marks made these pods.
func TestReconcile_DoesNotRollPodsAtAnUpgrade(t *testing.T) {
	b := newBench(t)
	secret := b.secret("password", "first")
	create(t, secret)
	w := b.running("web", func(w *v1beta1.Workload) { w.Spec.Secrets = []v1beta1.SecretRef{{Name: "password", EnvFrom: true}} })
	d := b.child("Deployment", "web")
	unstructured.RemoveNestedField(d.Object, "spec", "template", "metadata", "annotations")
	unstructured.RemoveNestedField(d.Object, "metadata", "annotations", annotationMark)
	hash, err := contentHash(strippedForHash(b, w), nil)
	if err != nil {
		t.Fatal(err)
	}
	setNested(t, d, hash, "metadata", "annotations", annotationDesired)
	d.SetManagedFields(nil)
	d.SetResourceVersion("")
	unstructured.RemoveNestedField(d.Object, "status")
	if err := api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(d), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if b.markOf("web") != "" {
		t.Fatal("the mark is still there")
	}
	b.healthy(w)
	b.restart()
	before := b.child("Deployment", "web")
	b.told()
	b.must(w)
	after := b.child("Deployment", "web")
	if diff := cmp.Diff(before.Object["spec"], after.Object["spec"]); diff != "" || after.GetAnnotations()[annotationMark] == "" {
		t.Errorf("pods are rolled, or nothing is noted: %s", diff)
	}
	if told := strings.Join(b.told(), "\n"); strings.Contains(told, reasonHealed) {
		t.Errorf("an upgrade is told as drift: %s", told)
	}
	b.healthy(w)
	b.must(w)
	b.taken()
	b.must(w)
	if writes := b.taken(); len(writes) > 0 {
		t.Errorf("writes at rest: %v", writes)
	}
	change(t, secret, `{"stringData":{"a":"second"}}`)
	b.must(w)
	if b.markOf("web") == "" {
		t.Error("the first change after it rolls nothing")
	}
}

// strippedForHash is the pods' controller as a version without marks would have applied it.
func strippedForHash(b *bench, w *v1beta1.Workload) *unstructured.Unstructured {
	j := b.r.Judge.Workload(b.t.Context(), w, nil)
	for _, content := range j.Deployable() {
		if u := (&unstructured.Unstructured{Object: content}); u.GetKind() == "Deployment" {
			return u
		}
	}
	b.t.Fatal("no Deployment")
	return nil
}

// A hash that anyone can compute from a guess would tell what is in the Secret.
func TestReconcile_DoesNotTellWhatIsInASecret(t *testing.T) {
	b := newBench(t)
	create(t, b.secret("one", "hunter2"))
	create(t, b.secret("two", "hunter2"))
	sums := map[string]bool{}
	for _, name := range []string{"one", "two"} {
		b.r.usage.set(client.ObjectKey{Namespace: b.namespace, Name: "web"}, []reference{{kind: kindSecret, name: name}})
		sum, err := b.r.content(t.Context(), b.namespace, reference{kind: kindSecret, name: name})
		if err != nil || sum == "" {
			t.Fatalf("%q, %v", sum, err)
		}
		sums[sum] = true
	}
	if len(sums) != 2 {
		t.Error("equal content has equal hashes: it can be looked up, and guessed")
	}
}

func TestManager_RollsThePodsWhenWhatTheyUseChanges(t *testing.T) {
	b := newBench(t)
	w := b.workload("web", seen, patched(`[{"op": "add", "path": "`+podSpecPath+`/containers/0/envFrom", "value": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "password"}}]}]`))
	b.reaches(w, v1beta1.PhaseWaiting, reasonSecretMissing)
	secret, settings := b.secret("password", "first"), b.configMap("settings", "first")
	create(t, secret)
	b.reaches(w, v1beta1.PhaseWaiting, reasonConfigMapMissing)
	create(t, settings)
	b.runs(w)
	for _, o := range []struct {
		object client.Object
		patch  string
	}{{secret, `{"stringData":{"a":"second"}}`}, {settings, `{"data":{"a":"second"}}`}} {
		before := b.markOf("web")
		change(t, o.object, o.patch)
		eventually(t, "the pods are rolled", func(context.Context) error {
			if b.markOf("web") == before {
				return fmt.Errorf("the mark is still %s", before)
			}
			return nil
		})
	}
	b.runs(w)
	if err := api.Delete(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	b.reaches(w, v1beta1.PhaseWaiting, reasonConfigMapMissing)
}
