package report_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

type found gate.Findings

func (f found) Evaluate(context.Context, *gate.Input) gate.Findings { return gate.Findings(f) }

var (
	denial  = gate.Finding{Policy: "signature", Severity: "critical", Object: "Deployment/shop/web", Path: "spec", Message: "not signed", Remedy: "sign it"}
	warning = gate.Finding{Policy: "style", Severity: "low", Object: "Deployment/shop/web", Message: "not nice"}
	object  = gate.ObjectRef{Kind: "Workload", Name: "web", Namespace: "shop"}
)

func verdict(name string, mode gate.Mode, f gate.Findings) gate.Verdict {
	return gate.NewChain(found(f)).Decide(context.Background(), &gate.Input{Gate: gate.Config{Name: name, Mode: mode}, Object: object})
}

func both() gate.Findings {
	return gate.Findings{Deny: []gate.Finding{denial}, Warn: []gate.Finding{warning}}
}

func TestJSON(t *testing.T) {
	a, b := verdict("a", gate.Enforce, both()), verdict("b", gate.Enforce, gate.Findings{})
	for _, c := range []struct {
		verdicts []gate.Verdict
		want     string
	}{
		{nil, "[]"}, {[]gate.Verdict{a}, "[" + string(a.Canonical()) + "]"},
		{[]gate.Verdict{a, b}, "[" + string(a.Canonical()) + "," + string(b.Canonical()) + "]"},
	} {
		if got := string(report.JSON(c.verdicts)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestDenial_SaysEveryReasonOfEveryGateThatBlocks(t *testing.T) {
	got := report.Denial([]gate.Verdict{
		verdict("prod", gate.Enforce, both()), verdict("watch", gate.Warn, both()), verdict("pass", gate.Enforce, gate.Findings{}),
		verdict("open", gate.Enforce, gate.Findings{Undecided: []gate.Finding{warning}}), gate.NoGate(object), gate.CouldNotDecide(object, "no answer", "wait"),
	})
	want := `Workload/shop/web denied by gate prod
- [critical] signature: Deployment/shop/web spec: not signed; to do: sign it
Workload/shop/web gate open could not decide, and blocks until it can
- [error] style: Deployment/shop/web: not nice
Workload/shop/web denied
- [critical] gate: Workload/shop/web metadata.namespace: no Gate matches this object in namespace shop; to do: label the namespace so that a Gate's spec.match selects it, or create a Gate that does
Workload/shop/web gate could not decide, and blocks until it can
- [error] gate: Workload/shop/web: no answer; to do: wait`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWarnings_GoByTheMode(t *testing.T) {
	const denied, warned = "gate g: [critical] signature: Deployment/shop/web spec: not signed; to do: sign it", "gate g: [low] style: Deployment/shop/web: not nice"
	for mode, want := range map[gate.Mode][]string{gate.Enforce: {warned}, gate.Warn: {warned, denied}, gate.Audit: nil} {
		if got := report.Warnings([]gate.Verdict{verdict("g", mode, both())}); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: %q", mode, got)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
