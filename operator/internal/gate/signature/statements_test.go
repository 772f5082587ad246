package signature

import (
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestStatements_SortsByWhoSignedWhatAboutWhat(t *testing.T) {
	const kind = "https://slsa.dev/verification_summary/v1"
	stranger := person("https://github.com/other/web/.github/workflows/release.yaml@refs/heads/main", ciIssuer)
	image := &gate.Image{Digest: webDigest, Signatures: []gate.Signature{
		keylessBundle(t, sigstores()[0], ci(), webDigest),
		{Unread: &gate.Unread{Reason: "of another type", Predicate: "https://example.com/sbom"}},
	}, Attestations: []gate.Signature{
		statementBy(t, ci(), false, webDigest, kind, nil),
		statementBy(t, ci(), true, webDigest, kind, nil),
		statementBy(t, stranger, false, webDigest, kind, nil),
		statementBy(t, ci(), false, testkit.DigestOf("other"), kind, nil),
		statementBy(t, stranger, false, testkit.DigestOf("other"), kind, nil),
		statementBy(t, ci(), false, webDigest, "https://example.com/other", nil),
	}}
	got := New().Statements(t.Context(), []gate.Authority{keylessCI(t, nil), {Name: "lost", Unavailable: "no such Secret"}}, image, kind)
	if len(got.Accepted) != 2 || len(got.Strangers) != 1 || len(got.Elsewhere) != 1 || len(got.Unread) != 0 || got.Late {
		t.Errorf("%d accepted, %d by strangers, %d elsewhere, unread %v, late %t", len(got.Accepted), len(got.Strangers), len(got.Elsewhere), got.Unread, got.Late)
	}
	for _, s := range got.Accepted {
		if strings.Join(s.By, ",") != "ci" || strings.Join(s.Identities, ",") != ciName || !strings.Contains(string(s.Payload), kind) {
			t.Errorf("%+v", s)
		}
	}
	if len(got.Unusable) != 1 || !strings.Contains(got.Unusable[0], "no such Secret") || len(got.Reasons) == 0 {
		t.Errorf("unusable %v, reasons %v", got.Unusable, got.Reasons)
	}
}

func TestStatements_TellsWhatAnAuthorityIsAcceptedWithout(t *testing.T) {
	const kind = "https://slsa.dev/verification_summary/v1"
	authority := keylessCI(t, func(k *gate.Keyless) { k.IgnoreTransparencyLog = true })
	image := &gate.Image{Digest: webDigest, Attestations: []gate.Signature{statementBy(t, ci(testkit.PartLog), false, webDigest, kind, nil)}}
	got := New().Statements(t.Context(), []gate.Authority{authority}, image, kind)
	if len(got.Accepted) != 1 || len(got.Accepted[0].Lacks) != 1 || !strings.HasPrefix(got.Accepted[0].Lacks[0], "authority ci is accepted without ") {
		t.Errorf("%+v", got)
	}
}
