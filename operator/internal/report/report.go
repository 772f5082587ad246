// Package report turns verdicts into what people and machines read.
package report

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// JSON is the verdicts as a JSON array of their canonical forms.
func JSON(verdicts []gate.Verdict) []byte {
	parts := make([][]byte, 0, len(verdicts))
	for _, v := range verdicts {
		parts = append(parts, v.Canonical())
	}
	return append(append([]byte("["), bytes.Join(parts, []byte(","))...), ']')
}

// Denial is what the API server tells a user whose write was refused: every reason, one
// a line.
func Denial(verdicts []gate.Verdict) string {
	var b strings.Builder
	for _, v := range verdicts {
		if !v.Outcome.Blocks() {
			continue
		}
		word := "denied by gate " + v.Gate
		if v.Gate == "" {
			word = "denied"
		}
		if v.Outcome == gate.OutcomeError {
			word = strings.TrimSpace("gate "+v.Gate) + " could not decide, and blocks until it can"
		}
		fmt.Fprintf(&b, "%s %s", v.Object, word)
		for _, f := range v.Violations {
			b.WriteString("\n- " + Line(f))
		}
		b.WriteString("\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// Line is one finding: policy, where, what, and what to do.
func Line(f gate.Finding) string {
	where := f.Object
	if f.Path != "" {
		where += " " + f.Path
	}
	line := fmt.Sprintf("[%s] %s: %s: %s", f.Severity, f.Policy, where, f.Message)
	if f.Remedy != "" {
		line += "; to do: " + f.Remedy
	}
	return line
}

// Warnings is the lines that a user is warned with when the write goes through, and what
// was exempted, whatever becomes of the write.
func Warnings(verdicts []gate.Verdict) []string {
	var out []string
	for _, v := range verdicts {
		out = append(out, exemptions(v)...)
		findings := v.Warnings
		switch v.Outcome {
		case gate.OutcomeAllow:
			// A Gate in mode Audit only records what it found.
			continue
		case gate.OutcomeWarn:
			findings = append(append([]gate.Finding(nil), findings...), v.Violations...)
		}
		for _, f := range findings {
			out = append(out, "gate "+v.Gate+": "+Line(f))
		}
	}
	return out
}
