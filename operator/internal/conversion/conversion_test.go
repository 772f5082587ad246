package conversion_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
)

const (
	oldHead = "apiVersion: sluice.dev/v1alpha1\nkind: Workload\nmetadata: {name: a, namespace: b}\n"
	newHead = "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: a, namespace: b}\n"
	// defaults of v1beta1 for what v1alpha1 does not have.
	defaults = "drift: {mode: Heal}, deletionPolicy: Delete"
)

func manifest(t testing.TB, text string) map[string]any {
	t.Helper()
	var typed map[string]any
	if err := yaml.Unmarshal([]byte(text), &typed); err != nil {
		t.Fatal(err)
	}
	return object(t, typed)
}

func TestConverter_NeedsNoAnnotationForWhatV1alpha1CanSay(t *testing.T) {
	c := converter(t)
	for name, tc := range map[string]struct{ old, latest string }{
		"the least":             {"spec: {image: i, replicas: 1, persistent: false}", "spec: {image: i, replicas: 1, " + defaults + "}"},
		"a port":                {"spec: {image: i, replicas: 0, port: 80, persistent: false}", "spec: {image: i, replicas: 0, ports: [{name: http, port: 80, protocol: TCP}], " + defaults + "}"},
		"a volume":              {"spec: {image: i, replicas: 3, persistent: true, storageSize: 10Gi}", "spec: {image: i, replicas: 3, storage: {size: 10Gi, mountPath: /data}, " + defaults + "}"},
		"a status":              {"spec: {image: i, persistent: false}\nstatus: {phase: Ready, replicas: 2}", "spec: {image: i, " + defaults + "}\nstatus: {phase: Ready, availableReplicas: 2}"},
		"a status of v1beta1's": {"spec: {image: i, persistent: false}\nstatus: {replicas: 2, selector: x, v1beta1: {replicas: 3, readyReplicas: 1}}", "spec: {image: i, " + defaults + "}\nstatus: {availableReplicas: 2, selector: x, replicas: 3, readyReplicas: 1}"},
	} {
		t.Run(name, func(t *testing.T) {
			old, latest := manifest(t, oldHead+tc.old), manifest(t, newHead+tc.latest)
			if diff := cmp.Diff(latest, there(t, c, old)); diff != "" {
				t.Errorf("in v1beta1: %s", diff)
			}
			if diff := cmp.Diff(old, c.ToV1alpha1(latest)); diff != "" {
				t.Errorf("in v1alpha1: %s", diff)
			}
		})
	}
}

// rich says more than v1alpha1 can.
const rich = newHead + `
spec:
  image: i
  replicas: 2
  version: 1.2.3
  ports: [{name: metrics, port: 9090, protocol: TCP}, {name: http, port: 80, protocol: TCP}, {name: dns, port: 53, protocol: UDP}]
  storage: {size: 1Gi, className: fast, mountPath: /var/lib, retain: true}
  env: [{name: A, value: "<&> é"}]
  tenant: shop
`

// What a client of v1alpha1 changes is changed, and everything else stays.
func TestConverter_TakesEditsFieldByField(t *testing.T) {
	c := converter(t)
	for name, tc := range map[string]struct {
		edit func(spec map[string]any)
		want string // instead of what
		is   string
	}{
		"nothing":                {func(map[string]any) {}, "", ""},
		"the image":              {func(s map[string]any) { s["image"] = "j" }, "image: i\n", "image: j\n"},
		"the replicas":           {func(s map[string]any) { s["replicas"] = int64(5) }, "replicas: 2", "replicas: 5"},
		"no replicas":            {func(s map[string]any) { delete(s, "replicas") }, "  replicas: 2\n", ""},
		"the port":               {func(s map[string]any) { s["port"] = int64(81) }, "port: 80,", "port: 81,"},
		"no port":                {func(s map[string]any) { delete(s, "port") }, "{name: http, port: 80, protocol: TCP}, ", ""},
		"the size":               {func(s map[string]any) { s["storageSize"] = "2Gi" }, "size: 1Gi", "size: 2Gi"},
		"no volume":              {func(s map[string]any) { s["persistent"] = false; delete(s, "storageSize") }, "  storage: {size: 1Gi, className: fast, mountPath: /var/lib, retain: true}\n", ""},
		"the image and the port": {func(s map[string]any) { s["image"], s["port"] = "j", int64(81) }, "image: i\n", "image: j\n"},
	} {
		t.Run(name, func(t *testing.T) {
			old := throughJSON(t, c.ToV1alpha1(manifest(t, rich)))
			tc.edit(old["spec"].(map[string]any))
			wanted := strings.Replace(rich, tc.want, tc.is, 1)
			if name == "the image and the port" {
				wanted = strings.Replace(wanted, "port: 80,", "port: 81,", 1)
			}
			if diff := cmp.Diff(manifest(t, wanted), there(t, c, old)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, tc := range map[string]struct{ spec, set, want string }{
		"a first port":                  {"{image: i, args: [x]}", "port", "{image: i, args: [x], ports: [{name: http, port: 81, protocol: TCP}]}"},
		"the only port, renamed":        {"{image: i, ports: [{name: postgres, port: 5432}]}", "port", "{image: i, ports: [{name: postgres, port: 81}]}"},
		"the first of several":          {"{image: i, ports: [{name: a, port: 1}, {name: b, port: 2}]}", "port", "{image: i, ports: [{name: a, port: 81}, {name: b, port: 2}]}"},
		"the last port":                 {"{image: i, args: [x], ports: [{name: a, port: 1}]}", "no port", "{image: i, args: [x]}"},
		"a volume where there was none": {"{image: i, args: [x]}", "volume", "{image: i, args: [x], storage: {size: 3Gi, mountPath: /data}}"},
	} {
		t.Run(name, func(t *testing.T) {
			old := throughJSON(t, c.ToV1alpha1(manifest(t, newHead+"spec: "+tc.spec)))
			spec := old["spec"].(map[string]any)
			switch tc.set {
			case "port":
				spec["port"] = int64(81)
			case "no port":
				delete(spec, "port")
			case "volume":
				spec["persistent"], spec["storageSize"] = true, "3Gi"
			}
			if diff := cmp.Diff(manifest(t, newHead+"spec: "+tc.want), there(t, c, old)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An annotation that the operator did not make counts for nothing, and stays, so that
// admission sees it.
func TestConverter_BelievesNoGarbage(t *testing.T) {
	c := converter(t)
	for name, value := range map[string]string{
		"no JSON": "x", "a list": "[]", "a text": `"a"`, "a number": "1", "cut off": `{"image":"a","ports":[`, "nothing": "null",
		"a field of another type": `{"image":"a","env":5}`, "a number that does not fit": `{"replicas":99999999999}`,
		"deep nesting": strings.Repeat(`{"a":`, 100_000), "two objects": `{}{}`,
	} {
		t.Run(name, func(t *testing.T) {
			old := manifest(t, oldHead+"spec: {image: i, replicas: 1, persistent: false}")
			old["metadata"].(map[string]any)["annotations"] = map[string]any{conversion.Annotation: value}
			got := there(t, c, old)
			if diff := cmp.Diff(manifest(t, newHead+"spec: {image: i, replicas: 1, "+defaults+"}")["spec"], got["spec"]); diff != "" {
				t.Error(diff)
			}
			if nested(got, "metadata", "annotations")[conversion.Annotation] != value {
				t.Error("the annotation is gone, and nobody would learn of it")
			}
			if err := conversion.Leftover(map[string]string{conversion.Annotation: value}); err == nil || err.Field != "metadata.annotations[sluice.dev/v1beta1-spec]" {
				t.Errorf("Leftover: %v", err)
			}
		})
	}
	if err := conversion.Leftover(map[string]string{conversion.Annotation: `{"image":"a"}`}); err == nil {
		t.Error("v1beta1 may have the annotation")
	}
	if err := conversion.Leftover(map[string]string{"other": "x"}); err != nil {
		t.Error(err)
	}
}

// An annotation that a v1beta1 object has, whoever put it there, does not reach v1alpha1.
func TestConverter_MakesTheAnnotationAnew(t *testing.T) {
	c := converter(t)
	for _, spec := range []string{"{image: i, " + defaults + "}", "{image: i, args: [x]}"} {
		latest := manifest(t, newHead+"spec: "+spec)
		latest["metadata"].(map[string]any)["annotations"] = map[string]any{conversion.Annotation: `{"image":"forged","tenant":"forged"}`, "kept": "yes"}
		old := c.ToV1alpha1(latest)
		if strings.Contains(text(t, old), "forged") || nested(old, "metadata", "annotations")["kept"] != "yes" {
			t.Errorf("got %s", text(t, old))
		}
	}
}

// No annotation may be larger than what the API server takes; it would fail every list.
func TestConverter_RefusesToWriteWhatItCouldNotKeep(t *testing.T) {
	c := converter(t)
	large := func(size int) map[string]any {
		w := manifest(t, newHead+"spec: {image: i, config: {mountPath: /etc, files: {}}}\nstatus: {phase: Ready, replicas: 1}")
		nested(w, "spec", "config", "files")["a"] = strings.Repeat("x", size)
		nested(w, "metadata")["annotations"] = map[string]any{"other": strings.Repeat("y", 100<<10)}
		return w
	}
	fits := large(150 << 10)
	if diff := cmp.Diff(fits, there(t, c, throughJSON(t, c.ToV1alpha1(fits)))); diff != "" {
		t.Errorf("150 KiB: %s", diff)
	}
	old := throughJSON(t, c.ToV1alpha1(large(160<<10)))
	if nested(old, "metadata", "annotations")[conversion.Annotation] != nil || nested(old, "spec")["image"] != "i" {
		t.Error("260 KiB of annotations, which the API server does not take")
	}
	if got, err := c.ToV1beta1(old); err == nil || !strings.Contains(err.Error(), "written only in sluice.dev/v1beta1") {
		t.Errorf("the rest of the spec is lost: %v, %v", got["spec"], err)
	}
}

func TestConverter_ChecksWhatWasWrittenInV1alpha1(t *testing.T) {
	c := converter(t)
	// What older rules let through: a size, a name, a version; and two ports of one number.
	stored := strings.NewReplacer("size: 1Gi", "size: 0Gi", "name: metrics", "name: metrics--a", "version: 1.2.3", "version: latest").Replace(rich)
	twice := strings.Replace(rich, "port: 9090", "port: 80", 1)
	for name, tc := range map[string]struct{ old, latest, field string }{
		"a create":                {"", rich, ""},
		"nothing":                 {rich, rich, ""},
		"the image":               {rich, strings.Replace(rich, "image: i\n", "image: j\n", 1), ""},
		"the port":                {rich, strings.Replace(rich, "port: 80,", "port: 81,", 1), ""},
		"another port":            {rich, strings.Replace(rich, "port: 9090,", "port: 9091,", 1), "metadata.annotations[sluice.dev/v1beta1-spec]"},
		"the rest is dropped":     {rich, newHead + "spec: {image: i, replicas: 2, storage: {size: 1Gi, mountPath: /data}, tenant: shop}", "metadata.annotations[sluice.dev/v1beta1-spec]"},
		"the tenant":              {rich, strings.Replace(rich, "tenant: shop", "tenant: bank", 1), "spec"},
		"a larger volume":         {rich, strings.Replace(rich, "size: 1Gi", "size: 2Gi", 1), ""},
		"a smaller volume":        {rich, strings.Replace(rich, "size: 1Gi", "size: 1Mi", 1), "spec.storage.size"},
		"no volume any more":      {rich, newHead + "spec: {image: i, tenant: shop}", "spec"},
		"too many replicas":       {"", newHead + "spec: {image: i, replicas: 101}", "spec.replicas"},
		"an unknown field":        {"", newHead + "spec: {image: i, unknown: 1}", "spec.unknown"},
		"a rule across fields":    {"", newHead + "spec: {image: i, dependsOn: [{name: a}]}", "<nil>"},
		"what was stored before":  {stored, stored, ""},
		"its image":               {stored, strings.Replace(stored, "image: i\n", "image: j\n", 1), ""},
		"one of its good ports":   {stored, strings.Replace(stored, "port: 80,", "port: 81,", 1), ""},
		"its size, to another 0":  {stored, strings.Replace(stored, "size: 0Gi", "size: 0Ti", 1), "spec.storage.size"},
		"its size, to a good one": {stored, strings.Replace(stored, "size: 0Gi", "size: 1Gi", 1), ""},
		"a second fault":          {stored, strings.Replace(stored, "replicas: 2", "replicas: 101", 1), "spec.replicas"},
		"a number twice":          {stored, strings.Replace(stored, "name: http, port: 80", "name: http, port: 9090", 1), "spec.ports"},
		"one number of two":       {twice, strings.Replace(twice, "name: http, port: 80", "name: http, port: 81", 1), ""},
		"the image beside them":   {twice, strings.Replace(twice, "image: i\n", "image: j\n", 1), ""},
		"a Secret by mount & env": {"", newHead + "spec: {image: i, secrets: [{name: a, mountPath: /a, envFrom: true}]}", "spec.secrets[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			var before map[string]any
			if tc.old != "" {
				before = manifest(t, tc.old)
			}
			errs := c.Written(t.Context(), manifest(t, tc.latest), before)
			if tc.field == "" {
				if len(errs) > 0 {
					t.Errorf("refused: %v", errs)
				}
				return
			}
			for _, e := range errs {
				if e.Field == tc.field {
					return
				}
			}
			t.Errorf("got %v, want a refusal of %s", errs, tc.field)
		})
	}
}

// A field that both versions have is held to the same in both.
func TestSchemas_AgreeOnWhatBothCanSay(t *testing.T) {
	raw, err := crds.Files.ReadFile("sluice.dev_workloads.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		t.Fatal(err)
	}
	specs := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, v := range crd.Spec.Versions {
		specs[v.Name] = v.Schema.OpenAPIV3Schema.Properties["spec"]
	}
	old, latest := specs["v1alpha1"].Properties, specs["v1beta1"].Properties
	for name, pair := range map[string][2]apiextensionsv1.JSONSchemaProps{
		"image":       {old["image"], latest["image"]},
		"replicas":    {old["replicas"], latest["replicas"]},
		"port":        {old["port"], latest["ports"].Items.Schema.Properties["port"]},
		"storageSize": {old["storageSize"], latest["storage"].Properties["size"]},
	} {
		for i := range pair {
			pair[i].Description = ""
			for j := range pair[i].XValidations {
				pair[i].XValidations[j].Message = ""
			}
		}
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
