package signature

import "testing"

// Go's JSON takes the long s for an s: it would read the second list here.
func TestCheckJSON_RefusesNamesThatGoTakesForTheSame(t *testing.T) {
	for _, raw := range []string{
		`{"signatures":[{"sig":"one"}],"ſignatures":[{"sig":"two"}]}`,
		`{"kind":1,"Kind":2}`,
		`{"Kind":1,"kind":2}`,
	} {
		if err := checkJSON([]byte(raw), everywhere); err == nil {
			t.Errorf("%s is read", raw)
		}
	}
	if err := checkJSON([]byte(`{"kind":1,"kinds":2,"ß":3,"ss":4}`), everywhere); err != nil {
		t.Error(err)
	}
}
