package redact

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Replace returns a copy of an object in which each value that SecretsOf takes for a
// secret is what by makes of it, however short: data of Secrets, variables with a secret's
// name, and passwords in URLs. kubectl's copy of the object is replaced as a whole.
func Replace(object map[string]any, by func(string) string) map[string]any {
	out, _ := replaced(object, by).(map[string]any)
	return out
}

func replaced(v any, by func(string) string) any {
	switch t := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		// In order, so that by is asked in the same order each time.
		for _, key := range slices.Sorted(maps.Keys(t)) {
			out[key] = replaced(t[key], by)
		}
		replaceIn(out, by)
		return out
	case []any:
		out := make([]any, len(t))
		for i, x := range t {
			out[i] = replaced(x, by)
		}
		return out
	}
	return v
}

// replaceIn changes one map in place; what is below it is done.
func replaceIn(m map[string]any, by func(string) string) {
	if m["kind"] == "Secret" {
		for _, field := range []string{"data", "stringData"} {
			content, _ := m[field].(map[string]any)
			for _, key := range slices.Sorted(maps.Keys(content)) {
				content[key] = by(field + ":" + textOf(content[key]))
			}
		}
	}
	if value, ok := m["value"].(string); ok {
		name, _ := m["name"].(string)
		path, _ := m["path"].(string)
		switch {
		case secretName.MatchString(name) && !aboutSecret.MatchString(name),
			strings.Contains(path, "/env/") && strings.HasSuffix(path, "/value"):
			m["value"] = by(value)
		case strings.Contains(value, "@"):
			m["value"] = withoutPassword(value, by)
		}
	}
	if copied, ok := m[lastApplied].(string); ok {
		m[lastApplied] = by(copied)
	}
}

func textOf(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	raw, _ := json.Marshal(v) // what cannot be written is masked all the same
	return string(raw)
}

func withoutPassword(value string, by func(string) string) string {
	u, err := url.Parse(value)
	if err != nil || u.User == nil {
		return value
	}
	if _, ok := u.User.Password(); !ok {
		return value
	}
	userinfo := u.User.String()
	return strings.Replace(value, userinfo+"@", by(userinfo)+"@", 1)
}
