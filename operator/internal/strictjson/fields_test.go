package strictjson_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

var documents = []string{
	`null`, ` null `, `{}`, " {\n} ", `[]`, `1`, `"{"`, ``,
	`{"a":1}`, ` { "a" : 1 , "b":[1,{"c":"}"}] ,"d":"a\",\\"} `, `{"\u0061":{},"":null,"x,y:z":"q"}`,
	`{"a":{"b":{"c":[[],{}]}},"e":-1.5e3,"f":true}`, `{"a":"\\","b":"\\\"","c":[{"d":"]"}]}`,
}

// What is found is what encoding/json finds, in every document that is taken as strict.
func TestFields_AreThoseOfEncodingJSON(t *testing.T) {
	for _, raw := range documents {
		same(t, []byte(raw))
	}
}

func FuzzFields(f *testing.F) {
	for _, raw := range documents {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { same(t, raw) })
}

func same(t *testing.T, raw []byte) {
	t.Helper()
	got, err := strictjson.Fields(raw)
	if strictjson.Check(raw, 1) != nil {
		return
	}
	var want map[string]json.RawMessage
	if wrong := json.Unmarshal(raw, &want); (wrong == nil) != (err == nil) {
		t.Fatalf("%q: %v, and not %v", raw, err, wrong)
	}
	if diff := cmp.Diff(want, got); err == nil && diff != "" {
		t.Errorf("%q: %s", raw, diff)
	}
}

// A field is a part of the document, with no room behind it that an append would write into.
func TestFields_ArePartsOfTheDocument(t *testing.T) {
	raw := []byte(`{"a": "x" , "b":1}`)
	fields, err := strictjson.Fields(raw)
	if err != nil {
		t.Fatal(err)
	}
	a := fields["a"]
	if len(a) != 3 || &a[0] != &raw[6] || cap(a) != len(a) {
		t.Errorf("%q, with room for %d", a, cap(a))
	}
}
