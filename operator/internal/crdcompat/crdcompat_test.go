package crdcompat_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
	"github.com/sluice-dev/sluice/operator/internal/crdcompat"
)

func parse(t testing.TB, raw string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(raw), crd); err != nil {
		t.Fatalf("%v:\n%s", err, raw)
	}
	return crd
}

func compare(t testing.TB, old, now string) []crdcompat.Finding {
	t.Helper()
	return crdcompat.Compare([]*apiextensionsv1.CustomResourceDefinition{parse(t, old)}, []*apiextensionsv1.CustomResourceDefinition{parse(t, now)})
}

// thing is a CRD whose spec has the field x with this schema.
func thing(x string) string { return withSpec("{type: object, properties: {x: " + x + "}}") }

func withSpec(spec string) string {
	return `
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList, shortNames: [th], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    selectableFields: [{jsonPath: .spec.x}]
    additionalPrinterColumns: [{name: X, type: string, jsonPath: .spec.x}]
    schema: {openAPIV3Schema: {type: object, properties: {spec: ` + spec + `}}}
`
}

func said(findings []crdcompat.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, strings.Join(strings.Fields(fmt.Sprint(f.Severity, " ", f.Rule, " ", f.Path)), " "))
	}
	return out
}

func TestCompare_Fields(t *testing.T) {
	for name, c := range map[string]struct {
		old, now string
		want     []string
	}{
		"the same":                            {"{type: string}", "{type: string}", nil},
		"another description":                 {"{type: string}", "{type: string, description: b}", nil},
		"a field that is new":                 {"{type: object}", "{type: object, properties: {a: {type: string, maxLength: 1, enum: [a]}}}", nil},
		"a field that is gone":                {"{type: object, properties: {a: {type: string}}}", "{type: object}", []string{"breaking field-removed spec.x.a"}},
		"a field that is kept unchecked":      {"{type: object, properties: {a: {type: string}}}", "{type: object, x-kubernetes-preserve-unknown-fields: true}", []string{"warning field-removed spec.x.a"}},
		"a field that becomes a map's":        {"{type: object, properties: {a: {type: string}}}", "{type: object, additionalProperties: {type: string}}", []string{"warning field-removed spec.x.a"}},
		"a field where anything was":          {"{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}", []string{"warning field-typed spec.x.a"}},
		"another type":                        {"{type: string}", "{type: integer}", []string{"breaking type-changed spec.x"}},
		"a type that is wider":                {"{type: integer}", "{type: number}", []string{"warning type-changed spec.x"}},
		"a type that is narrower":             {"{type: number}", "{type: integer}", []string{"breaking type-changed spec.x"}},
		"a text that may be a number too":     {"{type: string}", "{x-kubernetes-int-or-string: true}", []string{"warning type-changed spec.x"}},
		"a number that may not be a text":     {"{x-kubernetes-int-or-string: true}", "{type: integer}", []string{"breaking type-changed spec.x"}},
		"an object that may be anything":      {"{type: object, properties: {a: {type: string}}}", "{x-kubernetes-preserve-unknown-fields: true}", []string{"warning type-changed spec.x", "warning field-removed spec.x.a"}},
		"a maximum":                           {"{type: integer}", "{type: integer, maximum: 5}", []string{"breaking bound-tightened spec.x"}},
		"a lower maximum":                     {"{type: integer, maximum: 6}", "{type: integer, maximum: 5}", []string{"breaking bound-tightened spec.x"}},
		"a higher maximum":                    {"{type: integer, maximum: 6}", "{type: integer, maximum: 7}", nil},
		"no maximum any more":                 {"{type: integer, maximum: 6}", "{type: integer}", nil},
		"a minimum":                           {"{type: integer}", "{type: integer, minimum: 0}", []string{"breaking bound-tightened spec.x"}},
		"a higher minimum":                    {"{type: integer, minimum: 0}", "{type: integer, minimum: 1}", []string{"breaking bound-tightened spec.x"}},
		"a lower minimum":                     {"{type: integer, minimum: 0}", "{type: integer, minimum: -1}", nil},
		"a maximum that is outside":           {"{type: integer, maximum: 6}", "{type: integer, maximum: 6, exclusiveMaximum: true}", []string{"breaking bound-tightened spec.x"}},
		"a higher maximum that is outside":    {"{type: integer, maximum: 6}", "{type: integer, maximum: 7, exclusiveMaximum: true}", nil},
		"a length":                            {"{type: string, maxLength: 9, minLength: 1}", "{type: string, maxLength: 8, minLength: 2}", []string{"breaking bound-tightened spec.x", "breaking bound-tightened spec.x"}},
		"a length of at least nothing":        {"{type: string}", "{type: string, minLength: 0}", nil},
		"items":                               {"{type: array, items: {type: string}}", "{type: array, items: {type: string}, maxItems: 3, minItems: 1}", []string{"breaking bound-tightened spec.x", "breaking bound-tightened spec.x"}},
		"properties":                          {"{type: object, additionalProperties: {type: string}}", "{type: object, additionalProperties: {type: string}, maxProperties: 3}", []string{"breaking bound-tightened spec.x"}},
		"multiples":                           {"{type: integer, multipleOf: 4}", "{type: integer, multipleOf: 3}", []string{"breaking bound-tightened spec.x"}},
		"smaller multiples":                   {"{type: integer, multipleOf: 4}", "{type: integer, multipleOf: 2}", nil},
		"a pattern":                           {"{type: string}", "{type: string, pattern: a}", []string{"breaking pattern-changed spec.x"}},
		"another pattern":                     {"{type: string, pattern: a}", "{type: string, pattern: b}", []string{"breaking pattern-changed spec.x"}},
		"no pattern any more":                 {"{type: string, pattern: a}", "{type: string}", []string{"info pattern-changed spec.x"}},
		"a format":                            {"{type: string}", "{type: string, format: date-time}", []string{"breaking format-changed spec.x"}},
		"a wider format":                      {"{type: integer, format: int32}", "{type: integer, format: int64}", nil},
		"no format any more":                  {"{type: string, format: date}", "{type: string}", []string{"info format-changed spec.x"}},
		"an enum":                             {"{type: string}", "{type: string, enum: [a]}", []string{"breaking enum-changed spec.x"}},
		"a value fewer and one more":          {"{type: string, enum: [a, b]}", "{type: string, enum: [b, c]}", []string{"breaking enum-changed spec.x", "info enum-changed spec.x"}},
		"values in another order":             {"{type: string, enum: [a, b]}", "{type: string, enum: [b, a]}", nil},
		"no enum any more":                    {"{type: string, enum: [a, b]}", "{type: string}", []string{"info enum-changed spec.x"}},
		"a default":                           {"{type: string}", "{type: string, default: a}", []string{"warning default-changed spec.x"}},
		"another default":                     {"{type: string, default: a}", "{type: string, default: b}", []string{"breaking default-changed spec.x"}},
		"no default any more":                 {"{type: string, default: a}", "{type: string}", []string{"breaking default-changed spec.x"}},
		"a default in another order":          {"{type: object, default: {a: 1, b: 2}}", "{type: object, default: {b: 2, a: 1}}", nil},
		"null":                                {"{type: string, nullable: true}", "{type: string}", []string{"breaking nullable-lost spec.x"}},
		"null that is new":                    {"{type: string}", "{type: string, nullable: true}", nil},
		"something required":                  {"{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string}}, required: [a]}", []string{"breaking required-changed spec.x.a"}},
		"something new that is required":      {"{type: object}", "{type: object, properties: {a: {type: string}}, required: [a]}", []string{"breaking required-changed spec.x.a"}},
		"something required that has a value": {"{type: object}", "{type: object, properties: {a: {type: string, default: b}}, required: [a]}", []string{"info required-changed spec.x.a"}},
		"something that is not required":      {"{type: object, properties: {a: {type: string}}, required: [a]}", "{type: object, properties: {a: {type: string}}}", []string{"info required-changed spec.x.a"}},
		"unknown fields":                      {"{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object}", []string{"breaking unknown-fields-pruned spec.x"}},
		"an embedded object":                  {"{type: object, x-kubernetes-embedded-resource: true}", "{type: object}", []string{"breaking embedded-resource-changed spec.x"}},
		"a list that becomes a map":           {"{type: array, items: {type: object}}", "{type: array, items: {type: object}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}", []string{"breaking list-type-changed spec.x"}},
		"a map that becomes a list":           {"{type: array, items: {type: string}, x-kubernetes-list-type: set}", "{type: array, items: {type: string}, x-kubernetes-list-type: atomic}", []string{"warning list-type-changed spec.x"}},
		"atomic, as is the default":           {"{type: array, items: {type: string}}", "{type: array, items: {type: string}, x-kubernetes-list-type: atomic}", nil},
		"other keys":                          {"{type: array, items: {type: object}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}", "{type: array, items: {type: object}, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b]}", []string{"breaking list-type-changed spec.x"}},
		"a map that is atomic":                {"{type: object}", "{type: object, x-kubernetes-map-type: atomic}", []string{"warning list-type-changed spec.x"}},
		"a rule":                              {"{type: string}", "{type: string, x-kubernetes-validations: [{rule: self != ''}]}", []string{"warning rule-changed spec.x"}},
		"a rule that is gone":                 {"{type: string, x-kubernetes-validations: [{rule: self != ''}]}", "{type: string}", []string{"info rule-changed spec.x"}},
		"a rule with another message":         {"{type: string, x-kubernetes-validations: [{rule: self != '', message: a}]}", "{type: string, x-kubernetes-validations: [{rule: self != '', message: b}]}", nil},
		"allOf":                               {"{type: string}", "{type: string, allOf: [{maxLength: 1}]}", []string{"breaking composition-changed spec.x"}},
		"an anyOf that is wider":              {"{type: string, anyOf: [{maxLength: 1}]}", "{type: string, anyOf: [{maxLength: 1}, {minLength: 3}]}", nil},
		"an anyOf that is narrower":           {"{type: string, anyOf: [{maxLength: 1}, {minLength: 3}]}", "{type: string, anyOf: [{minLength: 3}]}", []string{"breaking composition-changed spec.x"}},
		"an anyOf where none was":             {"{type: string}", "{type: string, anyOf: [{minLength: 3}]}", []string{"breaking composition-changed spec.x"}},
		"oneOf":                               {"{type: string, oneOf: [{minLength: 3}]}", "{type: string, oneOf: [{minLength: 3}, {maxLength: 1}]}", []string{"breaking composition-changed spec.x"}},
		"not":                                 {"{type: string}", "{type: string, not: {enum: [a]}}", []string{"breaking composition-changed spec.x"}},
		"a list's items":                      {"{type: array, items: {type: object, properties: {a: {type: string}}}}", "{type: array, items: {type: object, properties: {a: {type: integer}}}}", []string{"breaking type-changed spec.x[].a"}},
		"a map's values":                      {"{type: object, additionalProperties: {type: string}}", "{type: object, additionalProperties: {type: integer}}", []string{"breaking type-changed spec.x{}"}},
		"a map of anything":                   {"{type: object, additionalProperties: true}", "{type: object, additionalProperties: {type: integer}}", []string{"breaking field-typed spec.x{}"}},
		"a map that is closed":                {"{type: object, additionalProperties: {type: string}}", "{type: object}", []string{"breaking field-removed spec.x{}"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := said(compare(t, thing(c.old), thing(c.now))); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCompare_Definitions(t *testing.T) {
	base := thing("{type: string}")
	// other is base with one text in place of another, which has to be there.
	other := func(pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(base, pairs[i]) {
				t.Fatalf("%q is not in the definition", pairs[i])
			}
		}
		return strings.NewReplacer(pairs...).Replace(base)
	}
	two := base + "  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}\n"
	hook := "  conversion: {strategy: Webhook}\n"
	for name, c := range map[string]struct {
		old, now string
		want     []string
	}{
		"a version more":                {base, two, nil},
		"a version that is gone":        {two, base, []string{"breaking version-removed"}},
		"a version that is not served":  {base, other("served: true", "served: false"), []string{"breaking version-removed"}},
		"the stored version is gone":    {base, other("name: v1\n", "name: v3\n"), []string{"breaking version-removed"}},
		"what was not served is gone":   {strings.Replace(two, "v2, served: true", "v2, served: false", 1), base, []string{"warning version-removed"}},
		"another version is stored":     {two, strings.NewReplacer("storage: true", "storage: false", "storage: false", "storage: true").Replace(two), []string{"warning storage-moved"}},
		"a deprecation":                 {base, other("served: true", "deprecated: true\n    served: true"), []string{"info version-deprecated"}},
		"another scope":                 {base, other("Namespaced", "Cluster"), []string{"breaking scope-changed spec.scope"}},
		"another kind":                  {base, other("kind: Thing,", "kind: Other,"), []string{"breaking name-changed spec.names.kind"}},
		"another plural":                {base, other("plural: things", "plural: thingies"), []string{"breaking name-changed spec.names.plural"}},
		"another group":                 {base, other("group: example.com", "group: example.org"), []string{"breaking name-changed spec.group"}},
		"a short name fewer":            {base, other("shortNames: [th]", "shortNames: []"), []string{"warning name-changed spec.names.shortNames"}},
		"a category fewer":              {base, other("categories: [all]", "categories: []"), []string{"info name-changed spec.names.categories"}},
		"no status any more":            {base, other("status: {}, ", ""), []string{"breaking subresource-changed status"}},
		"a status":                      {other("status: {}, ", ""), base, []string{"breaking subresource-changed status"}},
		"no subresource any more":       {base, other("    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}\n", ""), []string{"breaking subresource-changed scale", "breaking subresource-changed status"}},
		"another scale":                 {base, other(".spec.replicas", ".spec.count"), []string{"warning subresource-changed scale"}},
		"no selectable field any more":  {base, other("[{jsonPath: .spec.x}]", "[]"), []string{"breaking selectable-field-removed .spec.x"}},
		"a column fewer":                {base, other("[{name: X, type: string, jsonPath: .spec.x}]", "[]"), []string{"info column-removed .spec.x"}},
		"unknown fields are dropped":    {base + "  preserveUnknownFields: true\n", base, []string{"breaking unknown-fields-pruned spec.preserveUnknownFields"}},
		"no conversion of two versions": {two + hook, two, []string{"breaking conversion-lost spec.conversion"}},
		"no conversion of one version":  {base + hook, base, []string{"info conversion-lost spec.conversion"}},
		"the definition is another one": {base, other("name: things.example.com", "name: others.example.com"), []string{"breaking crd-removed"}},
		"a field of the second version": {strings.Replace(two, "openAPIV3Schema: {type: object}", "openAPIV3Schema: {type: object, properties: {a: {type: string}}}", 1), two, []string{"breaking field-removed a"}},
		"a rule over the whole":         {base, other("openAPIV3Schema: {type: object,", "openAPIV3Schema: {type: object, x-kubernetes-validations: [{rule: 'true'}],"), []string{"warning rule-changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := said(compare(t, c.old, c.now)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCompare_OurOwnDefinitionsAgainstThemselvesAreNothing(t *testing.T) {
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v: %v", files, err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		raw, err := crds.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parse(t, string(raw)))
	}
	if got := crdcompat.Compare(all, all); len(got) != 0 {
		t.Errorf("findings: %v", said(got))
	}
	// That nothing is found is not for want of looking: each field that goes is found.
	for i, crd := range all {
		fields := crd.Spec.Versions[len(crd.Spec.Versions)-1].Schema.OpenAPIV3Schema.Properties["spec"].Properties
		for name := range fields {
			changed := crd.DeepCopy()
			spec := changed.Spec.Versions[len(crd.Spec.Versions)-1].Schema.OpenAPIV3Schema.Properties["spec"]
			delete(spec.Properties, name)
			now := slices.Clone(all)
			now[i] = changed
			if got := said(crdcompat.Compare(all, now)); !slices.Contains(got, "breaking field-removed spec."+name) {
				t.Errorf("%s without spec.%s: %v", crd.Name, name, got)
			}
		}
	}
}

func TestAllow(t *testing.T) {
	findings := compare(t, thing("{type: string, enum: [a, b], pattern: a}"), thing("{type: string, enum: [b], pattern: b}"))
	entries, err := crdcompat.ParseAllowed([]byte(`allow:
- {crd: things.example.com, version: v1, path: spec.x, rule: enum-changed, reason: nobody used it}
- {crd: things.example.com, version: v2, rule: pattern-changed, reason: another version}
`))
	if err != nil {
		t.Fatal(err)
	}
	marked, unused := crdcompat.Allow(findings, entries)
	if len(unused) != 1 || unused[0].Version != "v2" {
		t.Errorf("unused: %v", unused)
	}
	var blocks []string
	for _, f := range marked {
		if f.Blocks(crdcompat.Breaking) {
			blocks = append(blocks, f.Rule)
		}
	}
	if !slices.Equal(blocks, []string{"pattern-changed"}) {
		t.Errorf("blocks: %v", blocks)
	}
	if findings[0].Allowed != "" {
		t.Error("the findings that were given are changed")
	}
}

func TestParseAllowed_SaysWhatIsWrong(t *testing.T) {
	for raw, want := range map[string]string{
		"allow: [{crd: a, rule: enum-changed}]":                "allow[0].reason",
		"allow: [{rule: enum-changed, reason: a}]":             "allow[0].crd",
		"allow: [{crd: a, rule: nothing, reason: a}]":          `no rule "nothing"`,
		"allow: [{crd: a, rule: enum-changed, resaon: typed}]": "resaon",
		"alow: []": "alow",
	} {
		if _, err := crdcompat.ParseAllowed([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func FuzzCompare(f *testing.F) {
	for _, s := range []string{"{type: string, enum: [a]}", "{type: object, additionalProperties: true}", "{x-kubernetes-int-or-string: true}", "{type: array, items: {type: integer, multipleOf: 0}}",
		"{type: object, properties: {a: {type: object, properties: {b: {type: string, default: 1e999}}}}, required: [c]}"} {
		f.Add(s, "{type: string}")
		f.Add("{type: object, x-kubernetes-preserve-unknown-fields: true}", s)
	}
	f.Fuzz(func(t *testing.T, old, now string) {
		was, is := definition(old), definition(now)
		if was == nil || is == nil {
			return
		}
		for _, same := range [][]*apiextensionsv1.CustomResourceDefinition{{was}, {is}} {
			if got := crdcompat.Compare(same, same); len(got) > 0 && got[0].Rule != "too-deep" {
				t.Fatalf("against itself: %+v", got)
			}
		}
		before, _ := json.Marshal(was)
		first := crdcompat.Compare([]*apiextensionsv1.CustomResourceDefinition{was}, []*apiextensionsv1.CustomResourceDefinition{is})
		again := crdcompat.Compare([]*apiextensionsv1.CustomResourceDefinition{was}, []*apiextensionsv1.CustomResourceDefinition{is})
		if !reflect.DeepEqual(first, again) {
			t.Fatalf("not the same twice: %+v and %+v", first, again)
		}
		if after, _ := json.Marshal(was); string(before) != string(after) {
			t.Fatal("it changes what it compares")
		}
	})
}

// definition is a CRD whose schema is this text; nil where it is none.
func definition(schema string) *apiextensionsv1.CustomResourceDefinition {
	props := &apiextensionsv1.JSONSchemaProps{}
	if yaml.Unmarshal([]byte(schema), props) != nil {
		return nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = "things.example.com"
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}}}
	return crd
}
