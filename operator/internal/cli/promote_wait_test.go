package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// unproven has e2e run an image that it has not attested.
func (r *route) unproven(t *testing.T) {
	t.Helper()
	r.overlay(t, "e2e", "web", "1.0.0", r.older, "")
	r.commitAll(t)
}

func TestPromote_WhatOnlyWaitsIsToldApart(t *testing.T) {
	opens := time.Now().UTC().AddDate(0, 0, 3)
	closed := fmt.Sprintf("  promotionWindows: [{kind: Allow, schedule: '0 0 %d %d *', duration: 1m}]\n", opens.Day(), opens.Month())
	const never = "  promotionWindows: [{kind: Deny, schedule: '0 0 * * *', duration: 48h}]\n"
	for name, c := range map[string]struct {
		set func(*testing.T, *route)
		// code with --not-yet-ok; without it the exit code is always was.
		code, was int
		says      string
	}{
		"evidence of the environment before": {func(t *testing.T, r *route) { r.unproven(t) }, 0, 1,
			"not yet: Workload/shop/web has no evidence of environment e2e; its condition Promoted there says how far it is"},
		"a window": {func(t *testing.T, r *route) { r.gateOf(t, "prod", closed); r.commitAll(t) }, 0, 1,
			"not yet: prod takes no promotions now, but from " + opens.Format("Mon 2006-01-02")},
		"a window that does not open": {func(t *testing.T, r *route) { r.gateOf(t, "prod", never); r.commitAll(t) }, 1, 1,
			"no time was found at which it does"},
		"evidence, and a rule is broken": {func(t *testing.T, r *route) {
			r.gateOf(t, "prod", "  policies: [{builtin: reliability}]\n  parameters: {reliability: {minReplicas: 2}}\n")
			r.unproven(t)
		}, 1, 1, "the gate of prod denies it"},
		"evidence that is there, and does not count": {func(t *testing.T, r *route) {
			r.write(t, "other.key", r.other.PrivatePEM)
			r.unproven(t)
			r.run("", "attest", r.app()+"@"+r.older, "--environment=e2e", "--key", "@other.key").must(t, 0)
		}, 1, 1, "is signed by nobody"},
		"a registry that does not answer": {func(t *testing.T, r *route) { r.unproven(t); r.registry.Override(nil, testkit.Status(500)) }, 3, 3,
			"the registry answered 500"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoute(t)
			r.write(t, ".git/info/exclude", "*.key\n")
			c.set(t, r)
			check := r.untouched(t)
			r.promote("--to=prod").must(t, c.was, c.says)
			said := r.promote("--to=prod", "--not-yet-ok")
			said.must(t, c.code, c.says)
			if waits := strings.Contains(said.out, "\nnot yet: "); waits != (c.code == 0) {
				t.Errorf("it is told as something that waits: %t\n%s", waits, said.out)
			}
			var out struct {
				Verdict string
				NotYet  []string
				Text    string
			}
			said = r.promote("--to=prod", "--not-yet-ok", "--format=json")
			if err := json.Unmarshal([]byte(said.out), &out); said.code != c.code || err != nil && said.out != "" {
				t.Errorf("%v: %+v", err, said)
			}
			if (len(out.NotYet) == 1) != (c.code == 0) || out.Verdict == "Allow" || out.Verdict == "" && out.Text != "" {
				t.Errorf("%+v", out)
			}
			said = r.promote("--to=prod", "--not-yet-ok", "--format=markdown")
			if waits := strings.Contains(said.err, "sluice: not yet: "); said.code != c.code || waits != (c.code == 0) {
				t.Errorf("it is told beside the text: %t\n%+v", waits, said)
			}
			check()
		})
	}
}

func TestPromote_WaitsForNothingThatWasNamedByHand(t *testing.T) {
	r := newRoute(t)
	check := r.untouched(t)
	r.promote("--to=prod", "--image="+r.app()+":1.0.0@"+r.older, "--not-yet-ok").must(t, 1, "no evidence", "the gate of prod denies it")
	r.promote("--to=prod", "--draft", "--not-yet-ok").must(t, 2, "--not-yet-ok has no part in it")
	check()
}
