package strictjson

import (
	"encoding/json"
	"testing"
)

// Go's JSON takes the long s for an s: it would read the second list here.
func TestCheck_RefusesNamesThatGoTakesForTheSame(t *testing.T) {
	for _, raw := range []string{
		`{"signatures":[{"sig":"one"}],"ſignatures":[{"sig":"two"}]}`,
		`{"kind":1,"Kind":2}`,
		`{"Kind":1,"kind":2}`,
	} {
		if err := Check([]byte(raw), Everywhere); err == nil {
			t.Errorf("%s is read", raw)
		}
	}
	if err := Check([]byte(`{"kind":1,"kinds":2,"ß":3,"ss":4}`), Everywhere); err != nil {
		t.Error(err)
	}
}

// What passes the strict reader is JSON for everybody else, and one document.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[{"c":null}]}`, `{"a":1,"A":2}`, `[1,2`, `"a" "b"`, "", "nul", `{"a":{"a":{}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if Check(raw, Everywhere) != nil {
			return
		}
		if !json.Valid(raw) {
			t.Errorf("%q is no JSON", raw)
		}
		if err := Check(raw, 1); err != nil {
			t.Errorf("%q is refused where less is asked: %v", raw, err)
		}
	})
}
