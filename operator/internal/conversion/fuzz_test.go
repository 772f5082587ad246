package conversion_test

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/randfill"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
	"github.com/sluice-dev/sluice/operator/api/v1alpha1"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/schema"
)

// A plain `go test` makes up so many objects, some from each seed.
const seeds, perSeed = 64, 16

func converter(t testing.TB) *conversion.Converter {
	t.Helper()
	schemas, err := schema.Load(crds.Files)
	if err != nil {
		t.Fatal(err)
	}
	c, err := conversion.New(schemas)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// filler makes up objects of both versions.
func filler(seed int64) *randfill.Filler {
	own := func(serializer.CodecFactory) []any {
		return []any{
			func(q *resource.Quantity, c randfill.Continue) {
				*q = *resource.NewQuantity(c.Int63n(1<<40), resource.BinarySI)
			},
			func(v *intstr.IntOrString, c randfill.Continue) {
				if *v = intstr.FromInt32(c.Int31()); c.Bool() {
					*v = intstr.FromString(c.String(20))
				}
			},
			func(*runtime.RawExtension, randfill.Continue) {},
			func(s *v1alpha1.WorkloadSpec, c randfill.Continue) {
				c.FillNoCustom(s)
				s.Port = c.Int31n(1 << 16)
				// Its schema allows none without the other.
				if s.Persistent = c.Bool(); !s.Persistent {
					s.StorageSize = ""
				} else if s.StorageSize == "" {
					s.StorageSize = "1Gi"
				}
			},
			func(s *v1alpha1.WorkloadStatus, c randfill.Continue) {
				c.FillNoCustom(s)
				later := v1beta1.WorkloadStatus{}
				c.Fill(&later)
				raw, _ := json.Marshal(map[string]any{"readyReplicas": later.ReadyReplicas, "replicas": later.Replicas, "images": later.Images, "gate": later.Gate})
				s.V1beta1 = &runtime.RawExtension{Raw: raw}
			},
		}
	}
	codecs := serializer.NewCodecFactory(runtime.NewScheme())
	return fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, own), rand.NewSource(seed), codecs)
}

// object is what the API server would send.
func object(t testing.TB, typed any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func text(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func there(t testing.TB, c *conversion.Converter, obj map[string]any) map[string]any {
	t.Helper()
	out, err := c.ToV1beta1(obj)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzConverter_V1beta1 makes up Workloads, takes them to v1alpha1 and back, and wants the
// same JSON.
func FuzzConverter_V1beta1(f *testing.F) {
	c := converter(f)
	for seed := range int64(seeds) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		fill := filler(seed)
		for range perSeed {
			roundTripV1beta1(t, c, fill)
		}
	})
}

func roundTripV1beta1(t *testing.T, c *conversion.Converter, fill *randfill.Filler) {
	t.Helper()
	w := &v1beta1.Workload{}
	fill.Fill(w)
	w.TypeMeta = metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.WorkloadKind}
	obj := object(t, w)
	before := text(t, obj)
	old := c.ToV1alpha1(obj)
	if text(t, c.ToV1alpha1(obj)) != text(t, old) {
		t.Error("two conversions differ")
	}
	between := there(t, c, throughJSON(t, old))
	if got := text(t, between); got != before {
		t.Errorf("got  %s\nwant %s\nover %s", got, before, text(t, old))
	}
	if text(t, obj) != before {
		t.Error("the object that was converted is changed")
	}
	typed := &v1alpha1.Workload{}
	if err := json.Unmarshal([]byte(text(t, old)), typed); err != nil {
		t.Errorf("not of the type: %v", err)
	}
	if typed.Status.Replicas != w.Status.AvailableReplicas || string(w.Status.Phase) != typed.Status.Phase {
		t.Errorf("status %+v of %+v", typed.Status, w.Status)
	}
}

// FuzzConverter_V1alpha1 is the other way.
func FuzzConverter_V1alpha1(f *testing.F) {
	c := converter(f)
	for seed := range int64(seeds) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		fill := filler(seed)
		for range perSeed {
			roundTripV1alpha1(t, c, fill)
		}
	})
}

func roundTripV1alpha1(t *testing.T, c *conversion.Converter, fill *randfill.Filler) {
	t.Helper()
	want, got := &v1alpha1.Workload{}, &v1alpha1.Workload{}
	fill.Fill(want)
	want.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1beta1.WorkloadKind}
	obj := object(t, want)
	want = &v1alpha1.Workload{}
	if err := json.Unmarshal([]byte(text(t, obj)), want); err != nil {
		t.Fatal(err)
	}
	latest := there(t, c, obj)
	if nested(latest, "metadata", "annotations")[conversion.Annotation] != nil {
		t.Error("the annotation is in v1beta1")
	}
	if err := json.Unmarshal([]byte(text(t, c.ToV1alpha1(throughJSON(t, latest)))), got); err != nil {
		t.Fatal(err)
	}
	want.Status.V1beta1, got.Status.V1beta1 = canonical(t, want.Status.V1beta1), canonical(t, got.Status.V1beta1)
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", text(t, got), text(t, want))
	}
	if err := json.Unmarshal([]byte(text(t, latest)), &v1beta1.Workload{}); err != nil {
		t.Errorf("not of the type: %v", err)
	}
}

// FuzzConverter_AnyJSON takes whatever stands where a spec should, by way of every
// direction: nothing panics, and what fits the type comes back to the letter.
func FuzzConverter_AnyJSON(f *testing.F) {
	c := converter(f)
	for _, seed := range []string{
		`{}`, `{"image":null}`, `{"image":"a","ports":[]}`, `{"image":"a","ports":null,"storage":null}`, `{"image":"a","storage":{}}`,
		`{"image":"a","ports":[{"name":"x","port":1},{"name":"http","port":2}]}`, `{"image":"a","ports":[null,1,"x",{"name":"http"}]}`,
		`{"image":"` + strings.Repeat("x", 1<<18) + `"}`, `{"image":"\u0000\ud83d\ude00\u202e","env":[{"name":"A","value":"<&>"}]}`,
		`{"unknown":{"deep":[1,2.5,1e300,true,null]}}`, `{"replicas":1.5}`, `{"image":7,"ports":7,"storage":7,"persistent":7}`,
		`{"persistent":true,"storageSize":"1Gi","port":80,"image":"a"}`, `{"config":{"files":{}},"args":[],"env":null,"drift":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var spec map[string]any
		if utiljson.Unmarshal(raw, &spec) != nil || spec == nil {
			return
		}
		named := func(version string) map[string]any {
			return map[string]any{"apiVersion": version, "kind": "Workload", "metadata": map[string]any{"name": "a"}, "spec": spec}
		}
		old := c.ToV1alpha1(named("sluice.dev/v1beta1"))
		back, err := c.ToV1beta1(throughJSON(t, old))
		if err == nil && json.Unmarshal([]byte(text(t, spec)), &v1beta1.WorkloadSpec{}) == nil && text(t, back["spec"]) != text(t, spec) {
			t.Errorf("got  %s\nwant %s\nover %s", text(t, back["spec"]), text(t, spec), text(t, old))
		}
		// As a v1alpha1 spec, and as the content of an annotation.
		latest := there(t, c, named("sluice.dev/v1alpha1"))
		c.ToV1alpha1(latest)
		forged := named("sluice.dev/v1alpha1")
		forged["metadata"] = map[string]any{"name": "a", "annotations": map[string]any{conversion.Annotation: string(raw)}}
		forged["spec"] = map[string]any{"image": "b"}
		out := there(t, c, forged)
		if err := json.Unmarshal([]byte(text(t, out)), &v1beta1.Workload{}); err != nil {
			t.Errorf("an annotation makes what the operator cannot read: %v", err)
		}
		if image := out["spec"].(map[string]any)["image"]; image != "b" {
			t.Errorf("an annotation overrides the image: %v", image)
		}
	})
}

func throughJSON(t testing.TB, obj map[string]any) map[string]any {
	t.Helper()
	return object(t, obj)
}

func canonical(t testing.TB, r *runtime.RawExtension) *runtime.RawExtension {
	t.Helper()
	if r == nil {
		return nil
	}
	var v any
	if err := utiljson.Unmarshal(r.Raw, &v); err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: bytes.TrimSpace([]byte(text(t, v)))}
}

func nested(obj map[string]any, path ...string) map[string]any {
	for _, key := range path {
		obj, _ = obj[key].(map[string]any)
	}
	return obj
}
