package admission_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1alpha1"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/admission"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit/oldrules"
)

func older(namespace, name, image string) *v1alpha1.Workload {
	return &v1alpha1.Workload{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1beta1.WorkloadKind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1alpha1.WorkloadSpec{Image: image, Port: 80},
	}
}

// rich says what v1alpha1 cannot.
func rich(name, image string) *v1beta1.Workload {
	w := workload("enforce", name, image)
	w.Spec.Ports = []v1beta1.Port{{Name: "metrics", Port: 9090, Protocol: corev1.ProtocolTCP}, {Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	w.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "<é>"}}
	w.Spec.DeletionPolicy = v1beta1.DeletionPolicyOrphan
	w.Spec.Tenant = "shop"
	return w
}

func read[T client.Object](t *testing.T, o client.Object, into T) T {
	t.Helper()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), into); err != nil {
		t.Fatal(err)
	}
	return into
}

func made(t *testing.T, o client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func TestVersions_OneObjectInBoth(t *testing.T) {
	image := push(t, "versions/both", true)
	old := older("enforce", "older", image)
	made(t, old)
	latest := read(t, old, &v1beta1.Workload{})
	want := v1beta1.WorkloadSpec{
		Image: image, Replicas: latest.Spec.Replicas, Drift: &v1beta1.Drift{Mode: v1beta1.DriftModeHeal}, DeletionPolicy: v1beta1.DeletionPolicyDelete,
		Ports: []v1beta1.Port{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}
	if diff := cmp.Diff(want, latest.Spec); diff != "" || *latest.Spec.Replicas != 1 {
		t.Error(diff)
	}
	made(t, rich("both", image))
	seen := read(t, rich("both", image), &v1alpha1.Workload{})
	if seen.Spec.Port != 80 || !strings.Contains(seen.Annotations[conversion.Annotation], `"tenant":"shop"`) {
		t.Errorf("in v1alpha1: %+v", seen)
	}
	list := &v1alpha1.WorkloadList{}
	if err := api.List(t.Context(), list, client.InNamespace("enforce")); err != nil || len(list.Items) < 2 {
		t.Errorf("%d in the list, %v", len(list.Items), err)
	}
	if got := read(t, seen, &v1beta1.Workload{}); len(got.Annotations) > 0 {
		t.Errorf("in v1beta1: %v", got.Annotations)
	}
}

// What a client of v1alpha1 changes is changed, judged, and counts as a new generation.
func TestVersions_AnEditInV1alpha1KeepsTheRest(t *testing.T) {
	image, next, unsigned := push(t, "versions/edit", true), push(t, "versions/next", true), push(t, "versions/unsigned", false)
	made(t, rich("edited", image))
	before := read(t, rich("edited", image), &v1beta1.Workload{})
	seen := read(t, before, &v1alpha1.Workload{})
	seen.Spec.Image, seen.Spec.Port = next, 8080
	if err := api.Update(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	after := read(t, before, &v1beta1.Workload{})
	want := before.Spec.DeepCopy()
	want.Image, want.Ports[1].Port = next, 8080
	if diff := cmp.Diff(*want, after.Spec); diff != "" || after.Generation != before.Generation+1 {
		t.Errorf("generation %d after %d; %s", after.Generation, before.Generation, diff)
	}
	seen = read(t, before, &v1alpha1.Workload{})
	seen.Spec.Image = unsigned
	if err := api.Update(t.Context(), seen); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied by gate enforce") {
		t.Errorf("an update to an unsigned image: %v", err)
	}
	for _, kind := range []types.PatchType{types.MergePatchType, types.ApplyPatchType} {
		patch := `{"apiVersion":"sluice.dev/v1alpha1","kind":"Workload","spec":{"image":"` + unsigned + `"}}`
		err := api.Patch(t.Context(), read(t, before, &v1alpha1.Workload{}), client.RawPatch(kind, []byte(patch)), client.FieldOwner("x"), ownership(kind))
		if !apierrors.IsForbidden(err) {
			t.Errorf("a %s to an unsigned image: %v", kind, err)
		}
	}
}

// ownership forces an apply; no other patch may be forced.
func ownership(kind types.PatchType) client.PatchOption {
	if kind == types.ApplyPatchType {
		return client.ForceOwnership
	}
	return &client.PatchOptions{}
}

// The API server holds a v1alpha1 object against v1alpha1's schema, and what the
// conversion makes of it against none. Admission does.
func TestVersions_AreJudgedAsWhatIsStored(t *testing.T) {
	signed, unsigned := push(t, "versions/signed", true), push(t, "versions/bad", false)
	for name, tc := range map[string]struct {
		annotation, image string
		refused           func(error) bool
		message           string
	}{
		"a signed image":                        {"", signed, nil, ""},
		"an unsigned image":                     {"", unsigned, apierrors.IsForbidden, "denied by gate enforce"},
		"a spec that was taken elsewhere":       {`{"image":"x","args":["a"],"deletionPolicy":"Orphan"}`, signed, nil, ""},
		"a signed image that hides another":     {`{"image":"` + signed + `"}`, unsigned, apierrors.IsForbidden, "denied by gate enforce"},
		"an unsigned image for the backup":      {`{"image":"x","backup":{"schedule":"0 3 * * *","image":"` + unsigned + `","s3":{"bucket":"b","region":"r"}}}`, signed, apierrors.IsForbidden, "denied by gate enforce"},
		"an unsigned image by a patch":          {`{"image":"x","patches":[{"target":{"kind":"Deployment"},"patch":"[{\"op\":\"replace\",\"path\":\"/spec/template/spec/containers/0/image\",\"value\":\"` + unsigned + `\"}]"}]}`, signed, apierrors.IsForbidden, "denied by gate enforce"},
		"a field that there is not":             {`{"image":"x","hostNetwork":true}`, signed, apierrors.IsInvalid, "spec.hostNetwork"},
		"a value that the schema refuses":       {`{"image":"x","deletionPolicy":"Never"}`, signed, apierrors.IsInvalid, "spec.deletionPolicy"},
		"what a rule of the schema refuses":     {`{"image":"x","secrets":[{"name":"a","mountPath":"/a","envFrom":true}]}`, signed, apierrors.IsInvalid, "spec.secrets[0]"},
		"ports of two numbers":                  {`{"image":"x","ports":[{"name":"http","port":80},{"name":"web","port":81}]}`, signed, nil, ""},
		"two ports of one number":               {`{"image":"x","ports":[{"name":"http","port":80},{"name":"web","port":80}]}`, signed, apierrors.IsInvalid, "two ports have the same number"},
		"a canary that never moves":             {`{"image":"x","rollout":{"strategy":"Canary","canary":{"batchSize":0}}}`, signed, apierrors.IsInvalid, "spec.rollout.canary.batchSize"},
		"a type that the operator cannot read":  {`{"image":"x","env":5}`, signed, apierrors.IsInvalid, "sluice.dev/v1beta1-spec"},
		"no JSON":                               {`{{`, signed, apierrors.IsInvalid, "sluice.dev/v1beta1-spec"},
		"a volume that v1alpha1 does not speak": {`{"image":"x","storage":{"size":"1Gi","mountPath":"/x"}}`, signed, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			old := older("enforce", "judged", tc.image)
			if tc.annotation != "" {
				old.Annotations = map[string]string{conversion.Annotation: tc.annotation}
			}
			err := api.Create(t.Context(), old, client.DryRunAll)
			if tc.refused == nil && err == nil {
				return
			}
			if tc.refused == nil || !tc.refused(err) || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("the API server answers: %v", err)
			}
		})
	}
	latest := workload("enforce", "judged", signed)
	latest.Annotations = map[string]string{conversion.Annotation: `{"image":"x"}`}
	if err := api.Create(t.Context(), latest, client.DryRunAll); !apierrors.IsInvalid(err) {
		t.Errorf("the annotation in v1beta1: %v", err)
	}
}

// A change of the annotation alone would be no new generation, so that the operator might
// not see it; and what is left out would be lost.
func TestVersions_AClientOfV1alpha1ChangesOnlyWhatItCanSay(t *testing.T) {
	image := push(t, "versions/only", true)
	made(t, rich("only", image))
	before := read(t, rich("only", image), &v1beta1.Workload{})
	for name, edit := range map[string]func(*v1alpha1.Workload){
		"another tenant":   func(w *v1alpha1.Workload) { replace(w, `"tenant":"shop"`, `"tenant":"bank"`) },
		"another variable": func(w *v1alpha1.Workload) { replace(w, `"name":"A"`, `"name":"B"`) },
		"no annotation":    func(w *v1alpha1.Workload) { w.Annotations = nil },
		"an annotation cut": func(w *v1alpha1.Workload) {
			w.Annotations[conversion.Annotation] = w.Annotations[conversion.Annotation][:20]
		},
		"an empty annotation":  func(w *v1alpha1.Workload) { w.Annotations[conversion.Annotation] = "" },
		"the least annotation": func(w *v1alpha1.Workload) { w.Annotations[conversion.Annotation] = "{}" },
	} {
		t.Run(name, func(t *testing.T) {
			seen := read(t, before, &v1alpha1.Workload{})
			edit(seen)
			if err := api.Update(t.Context(), seen); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.annotations[sluice.dev/v1beta1-spec]") {
				t.Errorf("the API server answers: %v", err)
			}
		})
	}
	seen := read(t, before, &v1alpha1.Workload{})
	seen.Labels = map[string]string{"a": "b"}
	if err := api.Update(t.Context(), seen); err != nil {
		t.Errorf("a label: %v", err)
	}
	seen.Spec.Persistent, seen.Spec.StorageSize = true, "1Gi"
	if err := api.Update(t.Context(), seen); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "persistent cannot change") {
		t.Errorf("a volume: %v", err)
	}
	if diff := cmp.Diff(before.Spec, read(t, before, &v1beta1.Workload{}).Spec); diff != "" {
		t.Error(diff)
	}
}

// What older rules let through holds up a change in either version only where it touches it.
func TestVersions_BothTakeAChangeThatLeavesAnOldFault(t *testing.T) {
	image, next := push(t, "versions/faulty", true), push(t, "versions/faultless", true)
	w := rich("faulty", image)
	w.Spec.Version, w.Spec.Ports[0].Name, w.Spec.Ports[0].Port = "latest", "metrics--a", 80
	if err := oldrules.Store(t.Context(), api, definition, w); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*v1beta1.WorkloadSpec)
		as     func(*v1alpha1.WorkloadSpec)
		field  string
	}{
		"the image":           {func(s *v1beta1.WorkloadSpec) { s.Image = next }, func(s *v1alpha1.WorkloadSpec) { s.Image = next }, ""},
		"the replicas":        {func(s *v1beta1.WorkloadSpec) { s.Replicas = new(int32(2)) }, func(s *v1alpha1.WorkloadSpec) { s.Replicas = new(int32(2)) }, ""},
		"the remedy of one":   {func(s *v1beta1.WorkloadSpec) { s.Ports[1].Port = 81 }, func(s *v1alpha1.WorkloadSpec) { s.Port = 81 }, ""},
		"a fault besides":     {func(s *v1beta1.WorkloadSpec) { s.Replicas = new(int32(101)) }, func(s *v1alpha1.WorkloadSpec) { s.Replicas = new(int32(101)) }, "spec.replicas"},
		"a port out of range": {func(s *v1beta1.WorkloadSpec) { s.Ports[1].Port = 65536 }, func(s *v1alpha1.WorkloadSpec) { s.Port = 65536 }, "spec.port"},
	} {
		t.Run(name, func(t *testing.T) {
			latest, old := read(t, w, &v1beta1.Workload{}), read(t, w, &v1alpha1.Workload{})
			tc.change(&latest.Spec)
			tc.as(&old.Spec)
			for _, changed := range []client.Object{latest, old} {
				err := api.Update(t.Context(), changed, client.DryRunAll)
				if tc.field == "" && err != nil || tc.field != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.field)) {
					t.Errorf("in %T: %v", changed, err)
				}
			}
		})
	}
	// One that touches it is held to it, and one that only v1beta1 can say stays refused.
	old := read(t, w, &v1alpha1.Workload{})
	old.Spec.Image = next
	if err := api.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if got := read(t, w, &v1beta1.Workload{}); got.Spec.Image != next || got.Spec.Version != "latest" || got.Spec.Ports[0].Name != "metrics--a" {
		t.Errorf("stored: %+v", got.Spec)
	}
	replace(old, `"version":"latest"`, `"version":"newest"`)
	if err := api.Update(t.Context(), old); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.version") || !strings.Contains(err.Error(), "sluice.dev/v1beta1-spec") {
		t.Errorf("the fault, to another: %v", err)
	}
}

func replace(w *v1alpha1.Workload, what, by string) {
	w.Annotations[conversion.Annotation] = strings.Replace(w.Annotations[conversion.Annotation], what, by, 1)
}

// Who may write Workloads may not write their status, in no version.
func TestVersions_KeepStatusApart(t *testing.T) {
	image := push(t, "versions/status", true)
	latest := rich("status", image)
	made(t, latest)
	latest.Status = v1beta1.WorkloadStatus{
		Phase: v1beta1.PhaseReady, Replicas: 3, ReadyReplicas: 2, AvailableReplicas: 1, Selector: "a=b",
		Gate: &v1beta1.GateStatus{Verdict: "Allow"},
	}
	if err := api.Status().Update(t.Context(), latest); err != nil {
		t.Fatal(err)
	}
	want := read(t, latest, &v1beta1.Workload{}).Status
	seen := read(t, latest, &v1alpha1.Workload{})
	if seen.Status.Replicas != 1 || seen.Status.Phase != "Ready" || seen.Status.Selector != "a=b" {
		t.Errorf("in v1alpha1: %+v", seen.Status)
	}
	seen.Status.Replicas, seen.Status.V1beta1.Raw = 7, []byte(`{"gate":{"verdict":"Deny"},"omittedSpecBytes":1}`)
	seen.Labels = map[string]string{"a": "b"}
	if err := api.Update(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read(t, latest, &v1beta1.Workload{}).Status); diff != "" {
		t.Errorf("written along with the spec: %s", diff)
	}
	seen = read(t, latest, &v1alpha1.Workload{})
	seen.Status.Replicas = 2
	if err := api.Status().Update(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	want.AvailableReplicas = 2
	after := read(t, latest, &v1beta1.Workload{})
	if diff := cmp.Diff(want, after.Status); diff != "" {
		t.Errorf("by the status of v1alpha1: %s", diff)
	}
	if diff := cmp.Diff(latest.Spec, after.Spec); diff != "" {
		t.Errorf("the spec: %s", diff)
	}
}

func TestVersions_JudgeTheScaleOfEither(t *testing.T) {
	made(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "moved", Labels: map[string]string{environmentLabel: "audit"}}})
	old := older("moved", "scaled", push(t, "versions/scaled", false))
	made(t, old)
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "scaled", Namespace: "moved"}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
	if err := api.SubResource("scale").Update(t.Context(), old, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, old, &v1beta1.Workload{}); *got.Spec.Replicas != 2 {
		t.Errorf("%d replicas", *got.Spec.Replicas)
	}
	ns := read(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "moved"}}, &corev1.Namespace{})
	ns.Labels[environmentLabel] = "enforce"
	if err := api.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), poll, patience, true, func(ctx context.Context) (bool, error) {
		err := api.SubResource("scale").Update(ctx, old, client.WithSubResourceBody(scale.DeepCopy()), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "denied by gate enforce"), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A team that moves its manifest from one version to the other applies it as before.
func TestVersions_AnApplyMovesFromOneToTheOther(t *testing.T) {
	image, next := push(t, "versions/apply", true), push(t, "versions/applied", true)
	manifest := func(version string, spec map[string]any) runtime.ApplyConfiguration {
		return client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sluice.dev/" + version, "kind": "Workload", "metadata": map[string]any{"name": "applied", "namespace": "enforce"}, "spec": spec,
		}})
	}
	apply := func(version string, spec map[string]any) {
		t.Helper()
		if err := api.Apply(t.Context(), manifest(version, spec), client.FieldOwner("team")); err != nil {
			t.Fatalf("apply in %s: %v", version, err)
		}
	}
	key := workload("enforce", "applied", "")
	apply("v1alpha1", map[string]any{"image": image, "replicas": int64(2), "port": int64(80)})
	apply("v1beta1", map[string]any{"image": image, "replicas": int64(3), "args": []any{"x"}, "ports": []any{map[string]any{"name": "http", "port": int64(80)}}})
	got := read(t, key, &v1beta1.Workload{})
	if *got.Spec.Replicas != 3 || len(got.Spec.Args) != 1 || len(got.Spec.Ports) != 1 {
		t.Errorf("after the move: %+v", got.Spec)
	}
	apply("v1beta1", map[string]any{"image": next, "replicas": int64(3), "args": []any{"x"}})
	got = read(t, key, &v1beta1.Workload{})
	if got.Spec.Image != next || len(got.Spec.Args) != 1 || len(got.Spec.Ports) != 0 {
		t.Errorf("without the port: %+v", got.Spec)
	}
	// Back again would take the argument away, which is the team's, in a version that
	// cannot say so.
	err := api.Apply(t.Context(), manifest("v1alpha1", map[string]any{"image": image}), client.FieldOwner("team"))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "make the change in sluice.dev/v1beta1") {
		t.Errorf("back in v1alpha1: %v", err)
	}
}

// What no annotation can hold can be read in v1alpha1, and is never cut.
func TestVersions_CutNothing(t *testing.T) {
	image := push(t, "versions/large", true)
	large := rich("large", image)
	large.Finalizers = []string{"sluice.dev/test"}
	large.Spec.Config = &v1beta1.ConfigFiles{MountPath: "/etc/app", Files: map[string]string{"a": strings.Repeat("x", 300<<10)}}
	made(t, large)
	seen := read(t, large, &v1alpha1.Workload{})
	if err := api.List(t.Context(), &v1alpha1.WorkloadList{}); err != nil {
		t.Errorf("list: %v", err)
	}
	for name, write := range map[string]error{
		"an update":    api.Update(t.Context(), seen),
		"a label":      api.Patch(t.Context(), seen, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))),
		"a deletion":   api.Delete(t.Context(), seen),
		"a status":     api.Status().Patch(t.Context(), seen, client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicas":1}}`))),
		"an exemption": api.Patch(t.Context(), seen, client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))),
	} {
		if write == nil || !strings.Contains(write.Error(), "written only in sluice.dev/v1beta1") {
			t.Errorf("%s: %v", name, write)
		}
	}
	got := read(t, large, &v1beta1.Workload{})
	if diff := cmp.Diff(large.Spec, got.Spec); diff != "" || got.DeletionTimestamp != nil {
		t.Errorf("changed: %s", diff)
	}
	got.Finalizers = nil
	if err := api.Update(t.Context(), got); err != nil {
		t.Error(err)
	}
	if err := api.Delete(t.Context(), got); err != nil {
		t.Error(err)
	}
}

func TestRotation_PutsTheBundleOfTheDefinitionBack(t *testing.T) {
	crd := read(t, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definition}}, &apiextensionsv1.CustomResourceDefinition{})
	wipe := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/conversion/webhook/clientConfig/caBundle"}]`))
	if err := api.Patch(t.Context(), crd, wipe); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), poll, patience, true, func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, client.ObjectKeyFromObject(crd), crd)
		return len(crd.Spec.Conversion.Webhook.ClientConfig.CABundle) > 0, err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestVersions_TheConversionRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for name, body := range map[string]string{
		"garbage": "\x00{{", "an empty body": "", "another kind": `{"apiVersion":"v1","kind":"Secret"}`,
		"a review without a request": `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`,
		"a Gate":                     reviewOf(`{"apiVersion":"sluice.dev/v1beta1","kind":"Gate","metadata":{"name":"a"}}`, "sluice.dev/v1alpha1"),
		"an unknown version":         reviewOf(`{"apiVersion":"sluice.dev/v1beta1","kind":"Workload","metadata":{"name":"a"}}`, "sluice.dev/v9"),
		"a list for an object":       reviewOf(`[]`, "sluice.dev/v1alpha1"),
		"more than is read":          reviewOf(`{"apiVersion":"sluice.dev/v1beta1","kind":"Workload","metadata":{"name":"`+strings.Repeat("a", limits.ConversionBytes)+`"}}`, "sluice.dev/v1alpha1"),
	} {
		t.Run(name, func(t *testing.T) {
			if status, answer := send(t, admission.PathConvert, "application/json", []byte(body)); status == http.StatusOK && !strings.Contains(string(answer), `"status":"Failure"`) {
				t.Errorf("answers %d %s", status, answer)
			}
		})
	}
	status, answer := send(t, admission.PathConvert, "application/json", []byte(reviewOf(`{"apiVersion":"sluice.dev/v1beta1","kind":"Workload","metadata":{"name":"a"},"spec":{"image":"i","unknown":{"b":[1]}}}`, "sluice.dev/v1alpha1")))
	if status != http.StatusOK || !strings.Contains(string(answer), `\"unknown\":{\"b\":[1]}`) {
		t.Errorf("a field that this operator does not know is lost: %d %s", status, answer)
	}
}

func reviewOf(object, desired string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"` + desired + `","objects":[` + object + `]}}`
}
