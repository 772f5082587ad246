package schema

import (
	"math"
	"regexp"
	"unicode/utf8"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// sure is a schema compiled to one question: is a value valid beyond doubt? Where it is not
// sure, which an unusual keyword is enough for, the API server's own validator is asked. That
// one builds itself anew for every field of every object, and says nothing of an object that
// is right; without this it was a third of what a check allocates.
type sure struct {
	// doubt: something is asked for here that this does not know.
	doubt      bool
	kind       string
	properties map[string]*sure
	others     *sure
	required   []string
	items      *sure
	enum       map[string]bool
	pattern    *regexp.Regexp
	// Bounds of a number, of a string's length in characters, and of how many.
	min, max    float64
	least, most int64
	// open: fields that no schema describes are allowed.
	open bool
}

// compileRoot is compileSure for an object with metadata, which is checked elsewhere.
func compileRoot(s *structural.Structural) *sure {
	out := compileSure(s)
	if metadata := out.properties["metadata"]; metadata != nil {
		metadata.open = true
	}
	return out
}

// compileSure reads a structural schema.
func compileSure(s *structural.Structural) *sure {
	out := &sure{kind: s.Type, open: s.XPreserveUnknownFields, min: math.Inf(-1), max: math.Inf(1), most: math.MaxInt64}
	out.doubt = s.XEmbeddedResource
	if len(s.Properties) > 0 {
		out.properties = make(map[string]*sure, len(s.Properties))
		for name := range s.Properties {
			property := s.Properties[name]
			out.properties[name] = compileSure(&property)
		}
	}
	if s.AdditionalProperties != nil {
		if out.others, out.open = nil, out.open || s.AdditionalProperties.Bool; s.AdditionalProperties.Structural != nil {
			out.others = compileSure(s.AdditionalProperties.Structural)
		}
	}
	if s.Items != nil {
		out.items = compileSure(s.Items)
	}
	if s.XIntOrString {
		out.kind = "int-or-string"
	}
	out.validations(s.ValueValidation, s.XIntOrString)
	return out
}

func (s *sure) validations(v *structural.ValueValidation, intOrString bool) {
	if v == nil {
		return
	}
	// Every schema of an int-or-string has anyOf with the two types.
	s.doubt = s.doubt || len(v.AllOf)+len(v.OneOf) > 0 || v.Not != nil || len(v.AnyOf) > 0 && !intOrString ||
		v.UniqueItems || v.MultipleOf != nil || v.ExclusiveMinimum || v.ExclusiveMaximum
	switch v.Format {
	case "", "int64":
	case "int32":
		s.min, s.max = math.MinInt32, math.MaxInt32
	default:
		s.doubt = true
	}
	if v.Minimum != nil {
		s.min = max(s.min, *v.Minimum)
	}
	if v.Maximum != nil {
		s.max = min(s.max, *v.Maximum)
	}
	for _, bound := range []*int64{v.MinLength, v.MinItems, v.MinProperties} {
		if bound != nil {
			s.least = max(s.least, *bound)
		}
	}
	for _, bound := range []*int64{v.MaxLength, v.MaxItems, v.MaxProperties} {
		if bound != nil {
			s.most = min(s.most, *bound)
		}
	}
	if v.Pattern != "" {
		var err error
		s.pattern, err = regexp.Compile(v.Pattern)
		s.doubt = s.doubt || err != nil
	}
	s.required = v.Required
	for _, e := range v.Enum {
		text, ok := e.Object.(string)
		if s.doubt = s.doubt || !ok; s.enum == nil {
			s.enum = map[string]bool{}
		}
		s.enum[text] = true
	}
}

// valid says whether a value, as decoded from JSON, is valid beyond doubt.
func (s *sure) valid(value any) bool {
	if s.doubt {
		return false
	}
	switch s.kind {
	case "object":
		return s.object(value)
	case "array":
		list, ok := value.([]any)
		if !ok || !s.many(len(list)) || s.items == nil {
			return false
		}
		for _, item := range list {
			if !s.items.valid(item) {
				return false
			}
		}
		return true
	case "string":
		return s.text(value)
	case "integer":
		n, ok := value.(int64)
		return ok && s.number(float64(n))
	case "number":
		if n, ok := value.(int64); ok {
			return s.number(float64(n))
		}
		n, ok := value.(float64)
		return ok && s.number(n)
	case "boolean":
		_, ok := value.(bool)
		return ok && s.enum == nil
	case "int-or-string":
		if n, ok := value.(int64); ok {
			return s.enum == nil && s.number(float64(n))
		}
		return s.text(value)
	}
	return false
}

func (s *sure) object(value any) bool {
	object, ok := value.(map[string]any)
	if !ok || !s.many(len(object)) || s.enum != nil {
		return false
	}
	for _, name := range s.required {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	for name, field := range object {
		schema := s.properties[name]
		if schema == nil {
			schema = s.others
		}
		if schema == nil && !s.open || schema != nil && !schema.valid(field) {
			return false
		}
	}
	return true
}

func (s *sure) text(value any) bool {
	text, ok := value.(string)
	return ok && s.many(utf8.RuneCountInString(text)) && (s.pattern == nil || s.pattern.MatchString(text)) && (s.enum == nil || s.enum[text])
}

func (s *sure) many(n int) bool { return int64(n) >= s.least && int64(n) <= s.most }

func (s *sure) number(n float64) bool { return n >= s.min && n <= s.max && s.enum == nil }
