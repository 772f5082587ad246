package conformance

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	workloadkustomize "github.com/sluice-dev/sluice/kustomize/components/workload-kustomize"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// Whatever a Gate refers to is renamed with it: a field that the component does not know is
// passed by in silence, and the Gate then looks for a key that is not there.
func TestComponents_NameEveryReferenceOfAGate(t *testing.T) {
	raw, err := workloadkustomize.Files.ReadFile("fields.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var fields struct {
		NameReference []struct {
			Kind       string `json:"kind"`
			FieldSpecs []struct {
				Kind string `json:"kind"`
				Path string `json:"path"`
			} `json:"fieldSpecs"`
		} `json:"nameReference"`
	}
	if err := yaml.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, n := range fields.NameReference {
		for _, s := range n.FieldSpecs {
			if s.Kind == v1beta1.GateKind {
				known = append(known, n.Kind+" "+s.Path)
			}
		}
	}
	wanted := referencesOf(reflect.TypeFor[v1beta1.GateSpec](), "spec")
	if len(wanted) < 10 {
		t.Fatalf("found only %v", wanted)
	}
	slices.Sort(known)
	slices.Sort(wanted)
	if !slices.Equal(known, wanted) {
		t.Errorf("fields.yaml has\n  %s\nand a Gate\n  %s", strings.Join(known, "\n  "), strings.Join(wanted, "\n  "))
	}
}

// referencesOf are the Secrets and ConfigMaps that a type refers to, as kind and path.
func referencesOf(of reflect.Type, path string) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	switch of {
	case reflect.TypeFor[v1beta1.SecretKeyRef]():
		return []string{"Secret " + path}
	case reflect.TypeFor[v1beta1.ConfigMapKeyRef]():
		return []string{"ConfigMap " + path}
	case reflect.TypeFor[v1beta1.NamespacedName]():
		if strings.HasSuffix(strings.ToLower(path), "secret") {
			return []string{"Secret " + path}
		}
		return []string{"ConfigMap " + path}
	}
	if of.Kind() != reflect.Struct || !strings.HasSuffix(of.PkgPath(), "/api/v1beta1") {
		return nil
	}
	var out []string
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := path
		if name != "" {
			at += "/" + name
		}
		out = append(out, referencesOf(f.Type, at)...)
	}
	return out
}
