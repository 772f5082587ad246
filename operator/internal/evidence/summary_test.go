package evidence

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

var both = [2]string{"sha256:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("b", 64)}

func full() Summary {
	return Summary{
		Subjects: both[:], Verifier: Verifier("e2e"), Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Resource: "oci://registry.example.com/shop/web", Policy: Resource{URI: "https://sluice.dev/gates/e2e", Digest: both[1]},
		Inputs: []Resource{{URI: "oci://registry.example.com/shop/web", Digest: both[0]}}, Result: Passed, Levels: []string{"SLSA_BUILD_LEVEL_2"},
		Exemptions: []Exemption{{Name: "hotfix", Reason: "incident 4711", Expires: "2026-12-24T00:00:00Z", Policy: "signature", Message: "not signed"}},
	}
}

func statement(t testing.TB, s Summary) []byte {
	t.Helper()
	raw, err := s.Statement()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestSummary_ReadsBackWhatItWrote(t *testing.T) {
	read, err := Parse(statement(t, full()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(), read); diff != "" {
		t.Error(diff)
	}
	if e, ok := read.Environment(); e != "e2e" || !ok {
		t.Errorf("its environment is %q, %t", e, ok)
	}
	if one, other := statement(t, full()), statement(t, read); !bytes.Equal(one, other) {
		t.Errorf("the same gives other bytes: %s %s", one, other)
	}
}

func TestSummary_SaysOfLevelsWhatTheSpecificationKnows(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Summary)
		want   []string
	}{
		"as they were verified":  {func(*Summary) {}, []string{"SLSA_BUILD_LEVEL_2"}},
		"nobody looked at any":   {func(s *Summary) { s.Levels = nil }, []string{"SLSA_BUILD_LEVEL_UNEVALUATED"}},
		"a failure":              {func(s *Summary) { s.Result, s.Levels = Failed, nil }, []string{"FAILED"}},
		"a failure has no level": {func(s *Summary) { s.Result = Failed }, []string{"FAILED"}},
	} {
		s := full()
		c.change(&s)
		read, err := Parse(statement(t, s))
		if diff := cmp.Diff(c.want, read.Levels); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestSummary_RefusesToSayWhatNobodyCouldRead(t *testing.T) {
	for name, change := range map[string]func(*Summary){
		"no subject":             func(s *Summary) { s.Subjects = nil },
		"a tag for a digest":     func(s *Summary) { s.Subjects = []string{"latest"} },
		"no time":                func(s *Summary) { s.Time = time.Time{} },
		"another result":         func(s *Summary) { s.Result = "passed" },
		"a digest in capitals":   func(s *Summary) { s.Policy.Digest = strings.ToUpper(both[0]) },
		"too many levels":        func(s *Summary) { s.Levels = make([]string, limits.EvidenceEntries+1) },
		"more than may be read":  func(s *Summary) { s.Resource = strings.Repeat("x", limits.EvidenceStatementBytes) },
		"more images than fit":   func(s *Summary) { s.Subjects = make([]string, limits.EvidenceSubjects+1) },
		"nobody who verified it": func(s *Summary) { s.Verifier = "" },
	} {
		s := full()
		change(&s)
		if raw, err := s.Statement(); err == nil {
			t.Errorf("%s: %s", name, raw)
		}
	}
}

func TestParse_RefusesWhatTwoReadersMayReadDifferently(t *testing.T) {
	good := string(statement(t, full()))
	for name, change := range map[string][2]string{
		"a result twice":                 {`"verificationResult":"PASSED"`, `"verificationResult":"FAILED","verificationResult":"PASSED"`},
		"a result twice, in capitals":    {`"verificationResult":"PASSED"`, `"verificationResult":"FAILED","VerificationResult":"PASSED"`},
		"a result by another name":       {`"verificationResult"`, `"verificationresult"`},
		"a verifier by another name":     {`"id"`, `"ID"`},
		"a time in words":                {"2026-03-04T05:06:07Z", "yesterday"},
		"another statement":              {statementType, "https://in-toto.io/Statement/v9"},
		"another predicate":              {PredicateType, "https://slsa.dev/provenance/v1"},
		"a subject that is no digest":    {strings.Repeat("a", 64), strings.Repeat("a", 63)},
		"something after the end":        {`"_type"`, `"_type":"x"}{"_type"`},
		"a subject without a digest":     {`{"digest":{"sha256":"` + strings.Repeat("a", 64) + `"}}`, `{"name":"web"}`},
		"exemptions that are not a list": {`"https://sluice.dev/exemptions":[`, `"https://sluice.dev/exemptions":7,"x":[`},
		"a predicate that is no object":  {`"predicate":{`, `"predicate":[],"other":{`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		if s, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s: it is read as %+v", name, s)
		}
	}
	if _, err := Parse([]byte(strings.Replace(good, `"_type"`, `"slsaVersion":"1.0","_type"`, 1))); err != nil {
		t.Errorf("a field that is not known: %v", err)
	}
}

func TestSummary_EnvironmentIsThatOfTheVerifierToTheLetter(t *testing.T) {
	for verifier, want := range map[string]bool{
		Verifier("e2e"): true, "https://sluice.dev/environments/": false, "https://sluice.dev/environments/e2e/../prod": false,
		"https://sluice.dev.example.com/environments/e2e": false, "https://sluice.dev/environments/E2E": false,
		"https://sluice.dev/environments/e2e\n": false, "http://sluice.dev/environments/e2e": false,
	} {
		if _, ok := (Summary{Verifier: verifier}).Environment(); ok != want {
			t.Errorf("%q is an environment: %t", verifier, ok)
		}
	}
}

// What is read can be written, and says the same when it is read again.
func FuzzParse(f *testing.F) {
	f.Add(statement(f, full()))
	f.Add([]byte(fmt.Sprintf(`{"_type":%q,"predicateType":%q,"subject":[],"predicate":{}}`, statementType, PredicateType)))
	f.Add([]byte(`{"predicate":{"verifier":{"id":1}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Parse(raw)
		if err != nil {
			return
		}
		s.Time = s.Time.Truncate(time.Second)
		again, err := s.Statement()
		if err != nil {
			return // what has grown over the limit, by escapes
		}
		read, err := Parse(again)
		if err != nil {
			t.Fatalf("%s is not read: %v", again, err)
		}
		if twice := statement(t, read); !bytes.Equal(again, twice) {
			t.Errorf("%s reads as %s", again, twice)
		}
	})
}
