package analysis

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
)

func TestCondition_Fails(t *testing.T) {
	for _, c := range []struct {
		failIf string
		fails  []float64
		passes []float64
	}{
		{"> 0.01", []float64{0.0100001, 1, math.Inf(1)}, []float64{0.01, 0, -1, math.Inf(-1)}},
		{">= 0.01", []float64{0.01, 1}, []float64{0.00999}},
		{"< 99.9", []float64{99.89, -1}, []float64{99.9, 100}},
		{"<= -1.5e-3", []float64{-0.0015, -1}, []float64{0}},
		{"==0", []float64{0, math.Copysign(0, -1)}, []float64{1e-300}},
		{"!=1", []float64{0, 1.0000001}, []float64{1}},
	} {
		condition, err := ParseFailIf(c.failIf)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range append(c.fails, math.NaN()) {
			if !condition.Fails(v) {
				t.Errorf("%v does not fail %s", v, c.failIf)
			}
		}
		for _, v := range c.passes {
			if condition.Fails(v) {
				t.Errorf("%v fails %s", v, c.failIf)
			}
		}
	}
}

func TestParseFailIf_SaysWhatIsWrong(t *testing.T) {
	for text, says := range map[string]string{
		"":            "one of >= <= == != > <",
		"0.01":        "one of >= <=",
		"= 1":         "one of >= <=",
		" > 1":        "one of >= <=",
		">":           "not a decimal number",
		"> ":          "not a decimal number",
		">  1":        "not a decimal number",
		"> 1 ":        "not a decimal number",
		"> NaN":       "not a decimal number",
		"> Inf":       "not a decimal number",
		"> 0x10":      "not a decimal number",
		"> 1_000":     "not a decimal number",
		"> 1e999":     "not a decimal number",
		"> 1%":        "not a decimal number",
		">> 1":        "not a decimal number",
		"> 1 or true": "not a decimal number",
	} {
		if _, err := ParseFailIf(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// pattern is that of failIf in the CRD.
func pattern(t testing.TB) *regexp.Regexp {
	t.Helper()
	raw, err := crds.Files.ReadFile("sluice.dev_workloads.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	stored := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	field := *crd.Spec.Versions[stored].Schema.OpenAPIV3Schema
	for _, name := range []string{"spec", "rollout", "canary", "analysis", "metrics"} {
		field = field.Properties[name]
	}
	failIf := field.Items.Schema.Properties["failIf"]
	if failIf.Pattern == "" || failIf.MaxLength == nil || *failIf.MaxLength != 64 {
		t.Fatalf("failIf in the CRD: %+v", failIf)
	}
	return regexp.MustCompile(failIf.Pattern)
}

// What the API server takes is understood here, and what is understood reads the same when
// it is written out again.
func FuzzParseFailIf(f *testing.F) {
	for _, seed := range []string{"> 0.01", ">=1", "< -1e-9", "<= +99.99", "== 0", "!=1E+10", "> 1e99", "> .5", "> 5.", "> NaN", ">  1", "", "> 00001"} {
		f.Add(seed)
	}
	taken := pattern(f)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseFailIf(text)
		if len(text) <= 64 && taken.MatchString(text) && err != nil {
			t.Fatalf("the CRD takes %q: %v", text, err)
		}
		if err != nil {
			return
		}
		again, err := ParseFailIf(c.String())
		if err != nil || again != c {
			t.Fatalf("%q is written out as %q, which is %+v, %v", text, c.String(), again, err)
		}
		if math.IsNaN(c.bound) || math.IsInf(c.bound, 0) {
			t.Fatalf("%q has the bound %v", text, c.bound)
		}
		for _, v := range []float64{c.bound, c.bound - 1, c.bound + 1, 0} {
			opposite := map[string]string{">": "<=", "<=": ">", "<": ">=", ">=": "<", "==": "!=", "!=": "=="}[c.operator]
			if c.Fails(v) == (Condition{operator: opposite, bound: c.bound}).Fails(v) {
				t.Fatalf("%v: %s and its opposite agree", v, c)
			}
		}
	})
}
