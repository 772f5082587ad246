package policy

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheckParameters_SaysWhatIsWrongAndWhatToWrite(t *testing.T) {
	cases := map[string]struct {
		groups     string
		others     bool
		parameters string
		path, says string
	}{
		"a misspelt parameter":            {"reliability", false, `{"reliability": {"minReplica": 2}}`, "reliability.minReplica", "write minReplicas"},
		"a parameter in other case":       {"reliability", false, `{"reliability": {"minreplicas": 2}}`, "reliability.minreplicas", "write minReplicas"},
		"a parameter of another group":    {"reliability", false, `{"reliability": {"allowedRegistries": []}}`, "reliability.allowedRegistries", "it has criticalEnvironments, minReplicas"},
		"a parameter of a group without":  {"gitops", false, `{"gitops": {"x": 1}}`, "gitops.x", "gitops takes no parameters"},
		"a number in quotes":              {"reliability", false, `{"reliability": {"minReplicas": "2"}}`, "reliability.minReplicas", "this is text: write a whole number, without quotes"},
		"half a replica":                  {"reliability", false, `{"reliability": {"minReplicas": 1.5}}`, "reliability.minReplicas", "write a whole number"},
		"no replica":                      {"reliability", false, `{"reliability": {"minReplicas": 0}}`, "reliability.minReplicas", "from 1 to 100"},
		"null in place of a number":       {"reliability", false, `{"reliability": {"minReplicas": null}}`, "reliability.minReplicas", "this is null"},
		"text in place of a list":         {"supply_chain", false, `{"supply_chain": {"allowedRegistries": "a"}}`, "supply_chain.allowedRegistries", "write a list of strings"},
		"a list with a number":            {"supply_chain", false, `{"supply_chain": {"allowedRegistries": ["a", 1]}}`, "supply_chain.allowedRegistries[1]", "this is a number: write text"},
		"a list with nothing in it":       {"supply_chain", false, `{"supply_chain": {"allowedRegistries": [""]}}`, "supply_chain.allowedRegistries[0]", "this is empty"},
		"a group that is no object":       {"supply_chain", false, `{"supply_chain": ["a"]}`, "supply_chain", "this is a list: write an object"},
		"a misspelt group":                {"reliability supply_chain", false, `{"supplychain": {}}`, "supplychain", "write supply_chain"},
		"a group that the Gate has not":   {"reliability", false, `{"supply_chain": {}}`, "supply_chain", "add {builtin: supply_chain} to spec.policies"},
		"a name like no group":            {"reliability", false, `{"house": {}}`, "house", "it uses reliability"},
		"a name and no group":             {"", false, `{"house": {}}`, "house", "remove it"},
		"a misspelt group beside others":  {"reliability", true, `{"reliabilty": {}}`, "reliabilty", "almost the name of group reliability"},
		"a group in dashes beside others": {"supply_chain", true, `{"supply-chain": {}}`, "supply-chain", "write supply_chain"},
		"a long name":                     {"reliability", false, `{"` + strings.Repeat("x", 500) + `": {}}`, strings.Repeat("x", 500), "it uses reliability"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found := CheckParameters(strings.Fields(c.groups), c.others, decoded(t, c.parameters))
			if len(found) != 1 || found[0].Path != c.path || !strings.Contains(found[0].Message, c.says) {
				t.Fatalf("got %+v, want %q at %s", found, c.says, c.path)
			}
		})
	}
}

func TestCheckParameters_AcceptsWhatPoliciesRead(t *testing.T) {
	for name, c := range map[string]struct {
		groups     []string
		others     bool
		parameters string
	}{
		"none":                             {[]string{"reliability"}, false, `{}`},
		"a group without any":              {[]string{"gitops"}, false, `{"gitops": {}}`},
		"those of two groups":              {[]string{"reliability", "supply_chain"}, false, `{"reliability": {"minReplicas": 2}, "supply_chain": {"allowedRegistries": ["a.example.com/x"]}}`},
		"those of policies of one's own":   {[]string{"data"}, true, `{"date": {"x": 1}, "house": ["anything"]}`},
		"a group's name, where it is free": {nil, true, `{"reliability": {"x": 1}}`},
	} {
		if found := CheckParameters(c.groups, c.others, decoded(t, c.parameters)); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

func TestReadSchema_RefusesWhatWouldNotHold(t *testing.T) {
	for text, says := range map[string]string{
		`{"type": "object"}`: "additionalProperties",
		`{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}}`:                                                                  "a has no description",
		`{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "number", "description": "d"}}}`:                                              `type "number"`,
		`{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "integer", "minimum": 1, "description": "d"}}}`:                               "minimum and maximum",
		`{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "array", "description": "d"}}}`:                                               "items and maxItems",
		`{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 2, "description": "d", "default": "2"}}}`: "default: this is text",
		`{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string", "description": "d", "multipleOf": 3}}}`:                             "multipleOf",
		`{"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string", "description": "d", "pattern": "^a$"}}} {}`:                         "pattern",
	} {
		if _, err := readSchema([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", text, err, says)
		}
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
