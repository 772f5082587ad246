package strictjson_test

import (
	"encoding/json"
	"strings"
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

func TestFields_CopiesNothing(t *testing.T) {
	raw := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `","b":1}`)
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := strictjson.Fields(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	if got := result.AllocedBytesPerOp(); got > 4<<10 {
		t.Errorf("%d bytes are allocated", got)
	}
}
