package schema_test

import (
	"io/fs"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
)

// Whoever has kubectl and no page of ours finds each kind, sees how it stands, and reads
// what its fields are for.
func TestDefinitions_TellKubectlWhatItAsks(t *testing.T) {
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v: %v", files, err)
	}
	taken := map[string]string{}
	for _, file := range files {
		raw, err := crds.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			t.Fatal(err)
		}
		names := crd.Spec.Names
		if len(names.ShortNames) == 0 || !slices.Contains(names.Categories, "sluice") {
			t.Errorf("%s: short names %v, categories %v", names.Kind, names.ShortNames, names.Categories)
		}
		for _, short := range names.ShortNames {
			if other := taken[short]; other != "" {
				t.Errorf("%s is short for %s and %s", short, other, names.Kind)
			}
			taken[short] = names.Kind
		}
		for _, v := range crd.Spec.Versions {
			if len(v.AdditionalPrinterColumns) < 2 {
				t.Errorf("%s %s shows %v", names.Kind, v.Name, v.AdditionalPrinterColumns)
			}
			spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
			for field, schema := range spec.Properties {
				if schema.Description == "" {
					t.Errorf("%s %s: spec.%s is not explained", names.Kind, v.Name, field)
				}
			}
		}
	}
}
