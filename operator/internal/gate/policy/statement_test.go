package policy

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const severities = `package vulnerabilities
deny contains msg if {
	some v in input.predicate.scanner.result
	v.score > 7.5
	msg := sprintf("%s is %v", [v.id, v.score])
}
violation contains {"msg": "no scanner is named"} if not input.predicate.scanner.uri
warn contains "old" if true`

func statement(t testing.TB, text string) any {
	t.Helper()
	var out any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEvaluate_SaysWhatTheRulesDeny(t *testing.T) {
	for title, tc := range map[string]struct {
		input string
		want  []string
	}{
		"nothing": {`{"predicate":{"scanner":{"uri":"trivy","result":[{"id":"CVE-1","score":7.5}]}}}`, nil},
		"one":     {`{"predicate":{"scanner":{"uri":"trivy","result":[{"id":"CVE-1","score":9.8}]}}}`, []string{"CVE-1 is 9.8"}},
		"deny and violation, in the order of rules": {`{"predicate":{"scanner":{"result":[{"id":"CVE-2","score":8},{"id":"CVE-1","score":9}]}}}`,
			[]string{"CVE-1 is 9", "CVE-2 is 8", "no scanner is named"}},
		"text in place of an object": {`{"predicate":"SPDXVersion: 2.3"}`, []string{"no scanner is named"}},
	} {
		t.Run(title, func(t *testing.T) {
			got, err := Evaluate(t.Context(), severities, statement(t, tc.input))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEvaluate_IsAnErrorWhereNothingWasDecided(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for title, tc := range map[string]struct {
		ctx          context.Context
		module, want string
	}{
		"no Rego":             {t.Context(), "package", "the policy does not compile: policy.rego:1"},
		"a clock":             {t.Context(), "package p\ndeny contains \"no\" if time.now_ns() > 0", "function time.now_ns is not available to policies"},
		"a network":           {t.Context(), "package p\ndeny contains \"no\" if http.send({})", "function http.send is not available to policies"},
		"only warnings":       {t.Context(), "package p\nwarn contains \"no\" if true", "the policy only warns"},
		"no rule":             {t.Context(), "package p\nallow if true", "defines deny"},
		"an error in a rule":  {t.Context(), "package p\ndeny contains \"no\" if 1 / input.zero > 1", "divide by zero"},
		"a result of no kind": {t.Context(), "package p\ndeny contains 1 if true", "gives a value of type number"},
		"an endless rule":     {t.Context(), "package p\ndeny contains \"no\" if count(numbers.range(1, 1000000000000)) > 0", "limits.PolicyBuiltinBytes"},
		"no time left":        {cancelled, severities, "cancel"},
	} {
		t.Run(title, func(t *testing.T) {
			denies, err := Evaluate(tc.ctx, tc.module, statement(t, `{"zero":0}`))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want %q", denies, err, tc.want)
			}
		})
	}
}

func TestCompileStatement_RefusesWhatCannotDeny(t *testing.T) {
	if err := CompileStatement(severities); err != nil {
		t.Error(err)
	}
	for _, module := range []string{"", "package p", "package p\nwarn contains \"no\" if true", "package p\ndeny contains \"no\" if rand.intn(\"a\", 2) == 1"} {
		if err := CompileStatement(module); err == nil {
			t.Errorf("%q is accepted", module)
		}
	}
}

func TestEvaluate_IsSafeForConcurrentUse(t *testing.T) {
	input := statement(t, `{"predicate":{"scanner":{"uri":"trivy","result":[{"id":"CVE-1","score":9.8}]}}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := Evaluate(t.Context(), severities, input); err != nil || len(got) != 1 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	wg.Wait()
}
