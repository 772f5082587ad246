package signature

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Anybody who may push can store MiB of log entries of three bytes each, or of names: they are
// refused before any of it is decoded.
func TestStored_RefusesManyPartsBeforeTheyAreDecoded(t *testing.T) {
	entries := strings.Repeat("{},", limits.EnvelopeParts/9) + "{}"
	entry := fmt.Sprintf(`{"Payload":{"body":%q},"SignedEntryTimestamp":"YQ=="}`, base64.StdEncoding.EncodeToString([]byte(`{"spec":[`+entries+`]}`)))
	if _, err := readRekorBundle([]byte(entry)); err == nil || !strings.Contains(err.Error(), "limits.EnvelopeParts") {
		t.Errorf("a log entry: %v", err)
	}
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

// What a policy asks of a statement is decoded, with as many parts as the largest SBOMs have, and
// not with as many as there is room for. Where nothing asks, it may have them.
func TestStatement_DecodesSoManyParts(t *testing.T) {
	read := func(lists int) *statement {
		s, err := readStatement([]byte(`{"_type":"` + statementV1 + `","predicateType":"x","subject":[],"predicate":[0` + strings.Repeat(",[]", lists) + `]}`))
		if err != nil || s.predicateType != "x" {
			t.Fatalf("%d lists: %v", lists, err)
		}
		return s
	}
	if _, err := read(limits.StatementParts/9 - 10).document(); err != nil {
		t.Errorf("one below the limit: %v", err)
	}
	many := read(limits.StatementParts/9 + 10)
	var err error
	if allocated := testing.AllocsPerRun(1, func() { _, err = many.document() }); !errors.Is(err, errParts) || allocated > 20 {
		t.Errorf("%v after %f allocations", err, allocated)
	}
	if _, err := readStatement([]byte(`{"_type":"` + statementV1 + `","predicateType":"x","subject":[0` + strings.Repeat(",[]", limits.StatementParts/9) + `]}`)); !errors.Is(err, errParts) {
		t.Errorf("subjects: %v", err)
	}
}

// What a bundle holds in base64 has no parts that could be counted, and takes fifty times what it
// has in bytes once it is taken apart: 800 MiB for a log entry of 15 MiB.
func TestStored_RefusesWhatIsLongInABundleBeforeItIsTakenApart(t *testing.T) {
	const long = 4 << 20
	inBase64 := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	entry := inBase64(`{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{"data":[` + strings.Repeat(`{"a":1},`, long/8) + `1]}}`)
	zeros := inBase64(strings.Repeat("x", long))
	tooLong := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: make([]byte, limits.CertificateBytes+1)})
	if _, err := readCertificate(tooLong); err == nil || !strings.Contains(err.Error(), "limits.CertificateBytes") {
		t.Errorf("a certificate in annotations: %v", err)
	}
	for title, tc := range map[string]struct{ material, says string }{
		"a log entry":   {`"publicKey":{"hint":"a"},"tlogEntries":[{"canonicalizedBody":"YQ=="},{"canonicalizedBody":"` + entry + `"}]`, "log entry has more than 65536 bytes (limits.SignatureAnnotationBytes)"},
		"by other name": {`"publicKey":{"hint":"a"},"tlogEntries":[{"canonicalized\u005fbody":"` + entry + `"}]`, "log entry has more than 65536 bytes (limits.SignatureAnnotationBytes)"},
		"a checkpoint":  {`"publicKey":{"hint":"a"},"tlogEntries":[{"inclusionProof":{"checkpoint":{"envelope":"` + zeros + `"}}}]`, "checkpoint has more than 65536 bytes (limits.SignatureAnnotationBytes)"},
		"a certificate": {`"certificate":{"rawBytes":"` + zeros + `"}`, "certificate has more than 8192 bytes (limits.CertificateBytes)"},
		"a chain":       {`"x509CertificateChain":{"certificates":[{"rawBytes":"` + zeros + `"}]}`, "certificate has more than 8192 bytes (limits.CertificateBytes)"},
		"a timestamp":   {`"publicKey":{"hint":"a"},"timestampVerificationData":{"rfc3161Timestamps":[{"signedTimestamp":"` + zeros + `"}]}`, "timestamp has more than 65536 bytes (limits.SignatureAnnotationBytes)"},
	} {
		t.Run(title, func(t *testing.T) {
			raw := fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{%s},"dsseEnvelope":{"payload":"e30=","payloadType":%q,"signatures":[{"sig":"YQ=="}]}}`, tc.material, statementMediaType)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := (&stored{}).read(&gate.Signature{Format: gate.FormatBundle, Bundle: raw})
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v", err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 5*uint64(len(raw)) {
				t.Errorf("%d bytes are allocated for %d", n, len(raw))
			}
		})
	}
}
