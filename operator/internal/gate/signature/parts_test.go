package signature

import (
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Anybody who may push can store MiB of log entries of three bytes each, or of names: they are
// refused before any of it is decoded.
func TestStored_RefusesManyPartsBeforeTheyAreDecoded(t *testing.T) {
	entries := strings.Repeat("{},", limits.EnvelopeParts/9) + "{}"
	for title, tc := range map[string]struct {
		stored gate.Signature
		says   string
	}{
		"a bundle":    {gate.Signature{Format: gate.FormatBundle, Bundle: []byte(`{"verificationMaterial":{"tlogEntries":[` + entries + `]}}`)}, "limits.EnvelopeParts"},
		"an envelope": {gate.Signature{Format: gate.FormatAttestationTag, Payload: []byte(`{"signatures":[` + entries + `]}`)}, "limits.EnvelopeParts"},
		"a claim":     {gate.Signature{Format: gate.FormatCosignTag, Base64: "YQ==", Payload: []byte(`{"critical":[` + entries + `]}`)}, "limits.EnvelopeParts"},
	} {
		t.Run(title, func(t *testing.T) {
			var err error
			allocated := testing.AllocsPerRun(1, func() {
				err = (&stored{}).read(&tc.stored)
			})
			if err == nil || !strings.Contains(err.Error(), tc.says) || allocated > 20 {
				t.Errorf("%v after %f allocations", err, allocated)
			}
		})
	}
}

// A statement has as many parts as the largest SBOMs, and not as many as there is room for.
func TestReadStatement_HasSoManyParts(t *testing.T) {
	text := func(lists int) []byte {
		return []byte(`{"_type":"` + statementV1 + `","predicateType":"x","subject":[],"predicate":[0` + strings.Repeat(",[]", lists) + `]}`)
	}
	if s, err := readStatement(text(limits.StatementParts/9 - 10)); err != nil || s.predicateType != "x" {
		t.Errorf("one below the limit: %v", err)
	}
	many := text(limits.StatementParts/9 + 10)
	var err error
	if allocated := testing.AllocsPerRun(1, func() { _, err = readStatement(many) }); err == nil || !strings.Contains(err.Error(), "limits.StatementParts") || allocated > 20 {
		t.Errorf("%v after %f allocations", err, allocated)
	}
}
