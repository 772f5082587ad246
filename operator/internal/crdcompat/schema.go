package crdcompat

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

type props = apiextensionsv1.JSONSchemaProps

// The types that a field has besides those of JSON schema.
const (
	typeIntOrString = "int-or-string"
	typeAny         = "any"
)

func typeOf(s *props) string {
	switch {
	case s.XIntOrString:
		return typeIntOrString
	case s.Type == "":
		return typeAny
	}
	return s.Type
}

// schema compares one field and all below it. depth is how many levels are above it.
func (c *comparison) schema(path string, old, now *props, depth int) {
	if depth > limits.SchemaDepth {
		c.add(ruleTooDeep, Breaking, path, "the schema nests deeper than %d (limits.SchemaDepth): what is below was not compared", limits.SchemaDepth)
		return
	}
	if !c.types(path, old, now) {
		return
	}
	c.values(path, old, now)
	c.bounds(path, old, now)
	c.shape(path, old, now)
	c.rules(path, old, now)
	c.compositions(path, old, now)
	c.properties(path, old, now, depth)
	c.additional(path, old, now, depth)
	c.items(path, old, now, depth)
}

// types says whether the two can be compared further.
func (c *comparison) types(path string, old, now *props) bool {
	was, is := typeOf(old), typeOf(now)
	switch {
	case was == is:
		return true
	case is == typeAny, is == typeIntOrString && (was == "integer" || was == "string"), was == "integer" && is == "number":
		c.add(ruleTypeChanged, Warning, path, "the type was %s and is %s: what was valid still is, but a client that reads the field has to know both", was, is)
		return true
	}
	c.add(ruleTypeChanged, Breaking, path, "the type was %s and is %s", was, is)
	return false
}

// values compares what single values may be, besides bounds.
func (c *comparison) values(path string, old, now *props) {
	if old.Nullable && !now.Nullable {
		c.add(ruleNullableLost, Breaking, path, "null was accepted, and is not")
	}
	switch {
	case old.Pattern == now.Pattern:
	case now.Pattern == "":
		c.add(rulePattern, Info, path, "the pattern %s is gone", old.Pattern)
	case old.Pattern == "":
		c.add(rulePattern, Breaking, path, "the value has to match %s from now on", now.Pattern)
	default:
		c.add(rulePattern, Breaking, path, "the pattern was %s and is %s", old.Pattern, now.Pattern)
	}
	switch {
	case old.Format == now.Format, old.Format == "int32" && now.Format == "int64", old.Format == "float" && now.Format == "double":
	case now.Format == "":
		c.add(ruleFormat, Info, path, "the format %s is gone", old.Format)
	default:
		c.add(ruleFormat, Breaking, path, "the format was %q and is %q", old.Format, now.Format)
	}
	c.enum(path, old.Enum, now.Enum)
	c.defaults(path, old.Default, now.Default)
}

func (c *comparison) enum(path string, old, now []apiextensionsv1.JSON) {
	was, is := texts(old), texts(now)
	switch {
	case len(is) == 0 && len(was) == 0:
	case len(is) == 0:
		c.add(ruleEnum, Info, path, "any value is accepted, and not only %s", strings.Join(was, ", "))
	case len(was) == 0:
		c.add(ruleEnum, Breaking, path, "only %s are accepted from now on", strings.Join(is, ", "))
	default:
		for _, gone := range missing(was, is) {
			c.add(ruleEnum, Breaking, path, "%s is not accepted any more", gone)
		}
		for _, added := range missing(is, was) {
			c.add(ruleEnum, Info, path, "%s is accepted now; a client that reads the field may not know it", added)
		}
	}
}

func (c *comparison) defaults(path string, old, now *apiextensionsv1.JSON) {
	switch was, is := text(old), text(now); {
	case was == is:
	case was == "":
		c.add(ruleDefault, Warning, path, "what left the field out had none, and gets %s", is)
	case is == "":
		c.add(ruleDefault, Breaking, path, "what leaves the field out got %s, and gets nothing", was)
	default:
		c.add(ruleDefault, Breaking, path, "what leaves the field out got %s, and gets %s", was, is)
	}
}

func texts(values []apiextensionsv1.JSON) []string {
	var out []string
	for i := range values {
		out = append(out, text(&values[i]))
	}
	return out
}

// text is a value as JSON with its keys in order; empty for none.
func text(v *apiextensionsv1.JSON) string {
	if v == nil {
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(v.Raw))
	decoder.UseNumber() // a large number is not rounded
	var content any
	if decoder.Decode(&content) != nil {
		return string(v.Raw)
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return string(v.Raw)
	}
	return string(raw)
}

func (c *comparison) bounds(path string, old, now *props) {
	lower(c, path, "minimum", old.Minimum, now.Minimum, math.Inf(-1))
	upper(c, path, "maximum", old.Maximum, now.Maximum)
	lower(c, path, "minLength", old.MinLength, now.MinLength, 0)
	upper(c, path, "maxLength", old.MaxLength, now.MaxLength)
	lower(c, path, "minItems", old.MinItems, now.MinItems, 0)
	upper(c, path, "maxItems", old.MaxItems, now.MaxItems)
	lower(c, path, "minProperties", old.MinProperties, now.MinProperties, 0)
	upper(c, path, "maxProperties", old.MaxProperties, now.MaxProperties)
	for _, edge := range []struct {
		name     string
		was, is  bool
		old, now *float64
	}{
		{"exclusiveMinimum", old.ExclusiveMinimum, now.ExclusiveMinimum, old.Minimum, now.Minimum},
		{"exclusiveMaximum", old.ExclusiveMaximum, now.ExclusiveMaximum, old.Maximum, now.Maximum},
	} {
		if !edge.was && edge.is && edge.old != nil && edge.now != nil && *edge.old == *edge.now {
			c.add(ruleBound, Breaking, path, "%s: %v itself was accepted, and is not", edge.name, *edge.now)
		}
	}
	if now.MultipleOf != nil && (old.MultipleOf == nil || *old.MultipleOf != *now.MultipleOf && math.Mod(*old.MultipleOf, *now.MultipleOf) != 0) {
		c.add(ruleBound, Breaking, path, "multipleOf: only multiples of %v are accepted from now on", *now.MultipleOf)
	}
	if !old.UniqueItems && now.UniqueItems {
		c.add(ruleBound, Breaking, path, "uniqueItems: an item may stand in the list only once from now on")
	}
}

// lower reports a lower bound that went up; none is what a bound is worth that is not set.
func lower[T int64 | float64](c *comparison, path, name string, old, now *T, none T) {
	was := none
	if old != nil {
		was = *old
	}
	if now != nil && *now > was {
		c.add(ruleBound, Breaking, path, "%s was %s and is %v", name, orNone(old), *now)
	}
}

func upper[T int64 | float64](c *comparison, path, name string, old, now *T) {
	if now != nil && (old == nil || *now < *old) {
		c.add(ruleBound, Breaking, path, "%s was %s and is %v", name, orNone(old), *now)
	}
}

// shape compares what is kept and how parts are merged.
func (c *comparison) shape(path string, old, now *props) {
	if deref(old.XPreserveUnknownFields) && !deref(now.XPreserveUnknownFields) {
		c.add(rulePruned, Breaking, path, "fields that the schema does not know were kept, and are dropped")
	}
	if old.XEmbeddedResource != now.XEmbeddedResource {
		c.add(ruleEmbedded, Breaking, path, "x-kubernetes-embedded-resource was %t and is %t", old.XEmbeddedResource, now.XEmbeddedResource)
	}
	was, is := orDefault(old.XListType, "atomic"), orDefault(now.XListType, "atomic")
	switch {
	case was != is && is == "atomic":
		c.add(ruleListType, Warning, path, "the list was a %s and is atomic: who applies a part of it now replaces the whole", was)
	case was != is:
		c.add(ruleListType, Breaking, path, "the list was %s and is a %s: items that are there twice are refused, and parts of it are merged", was, is)
	case is == "map" && !reflect.DeepEqual(sorted(old.XListMapKeys), sorted(now.XListMapKeys)):
		c.add(ruleListType, Breaking, path, "items were told apart by %s, and are by %s", strings.Join(old.XListMapKeys, ", "), strings.Join(now.XListMapKeys, ", "))
	}
	if was, is := orDefault(old.XMapType, "granular"), orDefault(now.XMapType, "granular"); was != is {
		c.add(ruleListType, Warning, path, "the map was %s and is %s: that decides who owns a part of it", was, is)
	}
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

func orDefault(p *string, value string) string {
	if p == nil || *p == "" {
		return value
	}
	return *p
}

// rules compares CEL rules by their text.
func (c *comparison) rules(path string, old, now *props) {
	was, is := map[string]bool{}, map[string]bool{}
	for _, r := range old.XValidations {
		was[strings.TrimSpace(r.Rule)] = true
	}
	for _, r := range now.XValidations {
		is[strings.TrimSpace(r.Rule)] = true
	}
	for _, r := range slices.Sorted(maps.Keys(is)) {
		if !was[r] {
			c.add(ruleCEL, Warning, path, "a rule is new and may refuse what was accepted: %s", r)
		}
	}
	for _, r := range slices.Sorted(maps.Keys(was)) {
		if !is[r] {
			c.add(ruleCEL, Info, path, "a rule is gone: %s", r)
		}
	}
}

// compositions compares allOf, anyOf, oneOf and not, by their text: which values they let
// through cannot be told in general.
func (c *comparison) compositions(path string, old, now *props) {
	before, after := written(old.AllOf), written(now.AllOf)
	for _, s := range missing(after, before) {
		c.add(ruleComposition, Breaking, path, "allOf: a schema is new: %s", s)
	}
	before, after = written(old.AnyOf), written(now.AnyOf)
	switch gone := missing(before, after); {
	case len(after) == 0 || len(before) > 0 && len(gone) == 0:
	case len(before) == 0:
		c.add(ruleComposition, Breaking, path, "anyOf: one of %d schemas has to fit from now on", len(after))
	default:
		c.add(ruleComposition, Breaking, path, "anyOf: a schema is gone or has changed: %s", gone[0])
	}
	before, after = written(old.OneOf), written(now.OneOf)
	if len(after) > 0 && !slices.Equal(sorted(before), sorted(after)) {
		c.add(ruleComposition, Breaking, path, "oneOf: the schemas of which exactly one has to fit have changed")
	}
	if now.Not != nil && !reflect.DeepEqual(old.Not, now.Not) {
		c.add(ruleComposition, Breaking, path, "not: what is refused has changed")
	}
}

func written(schemas []props) []string {
	var out []string
	for _, s := range schemas {
		raw, err := json.Marshal(s)
		if err != nil {
			raw = []byte(err.Error())
		}
		out = append(out, string(raw))
	}
	return out
}

func (c *comparison) properties(path string, old, now *props, depth int) {
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		was, below := old.Properties[name], join(path, name)
		is, ok := now.Properties[name]
		switch {
		case ok:
			c.schema(below, &was, &is, depth+1)
		case deref(now.XPreserveUnknownFields) || allows(now.AdditionalProperties):
			c.add(ruleFieldRemoved, Warning, below, "the field is not described any more, and what is in it is kept unchecked")
		default:
			c.add(ruleFieldRemoved, Breaking, below, "the field is gone: manifests that set it are refused or it is dropped, and stored values are lost")
		}
	}
	if deref(old.XPreserveUnknownFields) || allows(old.AdditionalProperties) {
		for _, name := range slices.Sorted(maps.Keys(now.Properties)) {
			if _, ok := old.Properties[name]; !ok {
				c.add(ruleFieldTyped, Warning, join(path, name), "objects could hold anything here, and what they hold has to fit the schema from now on")
			}
		}
	}
	for _, name := range missing(now.Required, old.Required) {
		if field, ok := now.Properties[name]; ok && field.Default != nil {
			c.add(ruleRequired, Info, join(path, name), "the field is required, and has a default")
			continue
		}
		c.add(ruleRequired, Breaking, join(path, name), "the field is required from now on")
	}
	for _, name := range missing(old.Required, now.Required) {
		if _, ok := now.Properties[name]; ok {
			c.add(ruleRequired, Info, join(path, name), "the field is not required any more; a client that reads it may find none")
		}
	}
}

func allows(a *apiextensionsv1.JSONSchemaPropsOrBool) bool {
	return a != nil && (a.Allows || a.Schema != nil)
}

func (c *comparison) additional(path string, old, now *props, depth int) {
	switch o, n := old.AdditionalProperties, now.AdditionalProperties; {
	case !allows(o):
	case !allows(n) && deref(now.XPreserveUnknownFields):
		c.add(ruleFieldRemoved, Warning, path+"{}", "the values of the map are not described any more, and are kept unchecked")
	case !allows(n):
		c.add(ruleFieldRemoved, Breaking, path+"{}", "keys of one's own are not kept any more")
	case o.Schema == nil && n.Schema != nil:
		c.add(ruleFieldTyped, Breaking, path+"{}", "any value was accepted, and it has to be %s from now on", typeOf(n.Schema))
	case o.Schema != nil && n.Schema != nil:
		c.schema(path+"{}", o.Schema, n.Schema, depth+1)
	}
}

func (c *comparison) items(path string, old, now *props, depth int) {
	switch o, n := old.Items, now.Items; {
	case n == nil || n.Schema == nil:
	case o == nil || o.Schema == nil:
		c.add(ruleFieldTyped, Breaking, path+"[]", "any item was accepted, and it has to be %s from now on", typeOf(n.Schema))
	default:
		c.schema(path+"[]", o.Schema, n.Schema, depth+1)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
