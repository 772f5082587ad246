package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// parameterSchema is the part of JSON schema that parameters need.
type parameterSchema struct {
	Dialect     string          `json:"$schema"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	// Of objects: no other properties than these.
	Properties           map[string]*parameterSchema `json:"properties"`
	AdditionalProperties *bool                       `json:"additionalProperties"`
	// Of arrays.
	Items    *parameterSchema `json:"items"`
	MaxItems *int             `json:"maxItems"`
	// Of integers.
	Minimum *float64 `json:"minimum"`
	Maximum *float64 `json:"maximum"`
	// Of strings.
	MinLength int      `json:"minLength"`
	Enum      []string `json:"enum"`
	// Format "regex" is a regular expression as Rego has them: RE2.
	Format string `json:"format"`
}

// validate refuses schemas that would accept what they do not describe.
func (s *parameterSchema) validate() error {
	switch s.Type {
	case "object":
		if s.AdditionalProperties == nil || *s.AdditionalProperties {
			return fmt.Errorf("an object has to have additionalProperties: false")
		}
		for name, property := range s.Properties {
			if property.Description == "" {
				return fmt.Errorf("%s has no description", name)
			}
			if err := property.validate(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if len(property.Default) == 0 {
				continue
			}
			var value any
			if err := json.Unmarshal(property.Default, &value); err != nil {
				return fmt.Errorf("%s: default: %w", name, err)
			}
			if problems := property.check(name, value); len(problems) > 0 {
				return fmt.Errorf("%s: default: %s", name, problems[0].Message)
			}
		}
	case "array":
		if s.Items == nil || s.MaxItems == nil {
			return fmt.Errorf("an array has to have items and maxItems")
		}
		return s.Items.validate()
	case "integer":
		if s.Minimum == nil || s.Maximum == nil {
			return fmt.Errorf("an integer has to have minimum and maximum")
		}
	case "string", "boolean":
	default:
		return fmt.Errorf("type %q is not known", s.Type)
	}
	return nil
}

// check says what is wrong with a value of decoded JSON at a path.
func (s *parameterSchema) check(at string, value any) []Problem {
	wrong := func(format string, args ...any) []Problem { return []Problem{{at, fmt.Sprintf(format, args...)}} }
	switch value := value.(type) {
	case map[string]any:
		if s.Type == "object" {
			return s.checkObject(at, value)
		}
	case []any:
		if s.Type == "array" {
			return s.checkArray(at, value)
		}
	case string:
		if s.Type == "string" {
			return s.checkString(at, value)
		}
	case bool:
		if s.Type == "boolean" {
			return nil
		}
	case float64:
		if s.Type != "integer" || value != math.Trunc(value) {
			break
		}
		if value < *s.Minimum || value > *s.Maximum {
			return wrong("%v is out of bounds: write a number from %v to %v", value, *s.Minimum, *s.Maximum)
		}
		return nil
	}
	return wrong("this is %s: write %s", kindOf(value), s.wanted())
}

func (s *parameterSchema) checkObject(at string, value map[string]any) []Problem {
	var found []Problem
	for _, name := range sortedKeys(value) {
		path := at + "." + name
		if property, ok := s.Properties[name]; ok {
			found = append(found, property.check(path, value[name])...)
			continue
		}
		message := fmt.Sprintf("%s has no parameter %q", at, name)
		names := sortedKeys(s.Properties)
		if near, ok := nearest(name, names); ok {
			message += ": write " + near
		} else if len(names) > 0 {
			message += ": it has " + strings.Join(names, ", ")
		} else {
			message = fmt.Sprintf("%s takes no parameters: remove it", at)
		}
		found = append(found, Problem{path, message})
	}
	return found
}

func (s *parameterSchema) checkArray(at string, value []any) []Problem {
	if len(value) > *s.MaxItems {
		return []Problem{{at, fmt.Sprintf("it has %d items: write at most %d", len(value), *s.MaxItems)}}
	}
	var found []Problem
	for i, item := range value {
		found = append(found, s.Items.check(fmt.Sprintf("%s[%d]", at, i), item)...)
	}
	return found
}

func (s *parameterSchema) checkString(at, value string) []Problem {
	switch {
	case len(value) < s.MinLength:
		return []Problem{{at, "this is empty: write a value or remove it"}}
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, value):
		message := fmt.Sprintf("there is no %q", value)
		if near, ok := nearest(value, s.Enum); ok {
			return []Problem{{at, message + ": write " + near}}
		}
		return []Problem{{at, message + ": write one of " + strings.Join(s.Enum, ", ")}}
	case s.Format == "regex":
		if _, err := regexp.Compile(value); err != nil {
			return []Problem{{at, fmt.Sprintf("this is no regular expression: %v", err)}}
		}
	}
	return nil
}

// describe is the type with its bounds, for a table.
func (s *parameterSchema) describe() string {
	switch {
	case s.Type == "array":
		return fmt.Sprintf("list of %ss, at most %d", s.Items.Type, *s.MaxItems)
	case s.Type == "integer":
		return fmt.Sprintf("integer from %v to %v", *s.Minimum, *s.Maximum)
	case s.Format == "regex":
		return "regular expression (RE2)"
	case len(s.Enum) > 0:
		return strings.Join(s.Enum, ", ")
	}
	return s.Type
}

// wanted names the type in words.
func (s *parameterSchema) wanted() string {
	switch s.Type {
	case "object":
		return "an object, as name: value"
	case "array":
		return "a list of " + s.Items.Type + "s, as [a, b]"
	case "integer":
		return "a whole number, without quotes"
	case "boolean":
		return "true or false, without quotes"
	}
	return "text"
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "text"
	case bool:
		return "a boolean"
	}
	return "a number"
}
