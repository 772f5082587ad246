package promotion

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// returning judges an image whose evidence is too old, and nothing else: where it ran in
// the Gate's own environment before, it may come back, or go on running. That is said by
// statements in the same place, so that nothing more is fetched. Nil: it has no evidence
// that is too old, or none that it ran here; why says what came closest to that.
func (c *Check) returning(ctx context.Context, cfg gate.Config, image *gate.Image, before []gate.Statement, now int64) (found *judged, why string) {
	demand := cfg.Promotion
	if len(demand.Own) == 0 {
		return nil, ""
	}
	old := aged(before, demand, now)
	if len(old) == 0 {
		return nil, ""
	}
	own := &gate.Promotion{Environment: cfg.Environment}
	a := c.verifier.Statements(ctx, demand.Own, image, evidence.PredicateType)
	if a.Late {
		late := tooLate("spec.attest")
		return &late, ""
	}
	var here []judged
	var faults []fault
	both := false
	for _, s := range a.Accepted {
		summary, f := read(s.Payload, own, now)
		if f.rank == none {
			// Who signs for the environment before is not believed of this one, under whatever
			// name the Gate has the key or the identity twice.
			if slices.ContainsFunc(before, func(b gate.Statement) bool { return bytes.Equal(b.Payload, s.Payload) }) {
				both = true
				continue
			}
			here = append(here, passed(cfg.Environment, s, summary))
			continue
		}
		faults = append(faults, f)
	}
	if len(here) > 0 {
		proof := slices.MinFunc(old, fewerWarnings)
		proof.warnings = append(proof.warnings, slices.MinFunc(here, fewerWarnings).warnings...)
		return &proof, ""
	}
	if unread, open := unusable(cfg, own, "spec.attest.authorities", a, now); open {
		return &unread, ""
	}
	if both {
		return nil, "who signed that it ran in environment " + cfg.Environment + " signs for environment " + demand.Environment + " too: give each environment a key of its own"
	}
	if faults = slices.DeleteFunc(faults, func(f fault) bool { return f.rank >= elsewhere }); len(faults) > 0 {
		return nil, slices.MinFunc(faults, func(a, b fault) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.message, b.message)) }).message
	}
	return nil, "it has no evidence of environment " + cfg.Environment + " itself by spec.attest.authorities of gate " + cfg.Name
}

// aged are the statements that only their age keeps from being the proof.
func aged(statements []gate.Statement, demand *gate.Promotion, now int64) []judged {
	var out []judged
	for _, s := range statements {
		if summary, f := read(s.Payload, demand, now); f.rank == expired {
			out = append(out, passed(demand.Environment, s, summary))
		}
	}
	return out
}
