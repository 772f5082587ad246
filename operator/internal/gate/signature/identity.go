package signature

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// identity is a keyless authority, ready to verify with and safe for concurrent use.
type identity struct {
	issuer, subject matcher
	// wanted is the same for sigstore-go, which compares once more.
	wanted verify.CertificateIdentity
	root   *trustedRoot
	// attempts, the strictest first.
	attempts []attempt
}

// attempt is one set of things that a signature has to have.
type attempt struct {
	options []verify.VerifierOption
	// lacks names what the trusted root lists and this attempt does without.
	lacks []string
	// logged says that a log entry is asked for.
	logged bool
}

const (
	lacksLogEntry = "a transparency log entry"
	lacksSCT      = "a certificate log's promise (SCT)"
)

func newIdentity(k gate.Keyless) (*identity, error) {
	if err := ValidateKeyless(k); err != nil {
		return nil, err
	}
	i := &identity{}
	var err error
	if i.issuer, err = newMatcher("issuer", k.Issuer, k.IssuerRegExp); err != nil {
		return nil, err
	}
	if i.subject, err = newMatcher("subject", k.Subject, k.SubjectRegExp); err != nil {
		return nil, err
	}
	i.wanted, err = verify.NewShortCertificateIdentity(i.issuer.exact, i.issuer.source(), i.subject.exact, i.subject.source())
	if err != nil {
		return nil, fmt.Errorf("the identity cannot be used: %w", err)
	}
	if i.root, err = readTrustedRoot(k.TrustedRoot); err != nil {
		return nil, err
	}
	i.attempts = attemptsFor(i.root, k)
	return i, nil
}

// attemptsFor asks for what the root lists: an entry in one of its logs if there are
// any, a promise of one of its certificate logs if there are any, and a verified time in
// any case. Without a time the certificate, which is valid for ten minutes, could be
// judged by today's date alone.
func attemptsFor(r *trustedRoot, k gate.Keyless) []attempt {
	log, sct := len(r.RekorLogs()) > 0, len(r.CTLogs()) > 0
	attempts := []attempt{newAttempt(log, sct)}
	if log && k.IgnoreTransparencyLog {
		attempts = append(attempts, newAttempt(false, sct, lacksLogEntry))
	}
	if sct && k.IgnoreCertificateLog {
		attempts = append(attempts, newAttempt(log, false, lacksSCT))
	}
	if log && k.IgnoreTransparencyLog && sct && k.IgnoreCertificateLog {
		attempts = append(attempts, newAttempt(false, false, lacksLogEntry, lacksSCT))
	}
	return attempts
}

func newAttempt(log, sct bool, lacks ...string) attempt {
	a := attempt{options: []verify.VerifierOption{verify.WithObserverTimestamps(1)}, lacks: lacks, logged: log}
	if log {
		a.options = append(a.options, verify.WithTransparencyLog(1))
	}
	if sct {
		a.options = append(a.options, verify.WithSignedCertificateTimestamps(1))
	}
	return a
}

// accepts says who made a signature or attestation, if it is one whom the authority
// names. The error is the reason of the strictest attempt.
func (i *identity) accepts(ctx context.Context, s *stored, image digest) (acceptance, error) {
	if err := s.cannotBeAccepted(); err != nil {
		return acceptance{}, err
	}
	made, err := i.made(ctx, s, func() verify.ArtifactPolicyOption { return artifactOf(s) })
	if err != nil {
		return acceptance{}, err
	}
	return made, s.concerns(image)
}

func (i *identity) signed(ctx context.Context, s *stored) bool {
	_, err := i.made(ctx, s, verify.WithoutArtifactUnsafe)
	return err == nil
}

// made says by whom, if by whom the authority names. Each attempt reads the artifact.
func (i *identity) made(ctx context.Context, s *stored, artifact func() verify.ArtifactPolicyOption) (acceptance, error) {
	who, err := i.names(s)
	if err != nil {
		return acceptance{}, err
	}
	var reason error
	for _, a := range i.attempts {
		if ctx.Err() != nil {
			return acceptance{}, context.Cause(ctx)
		}
		err := guarded(func() error { return i.verify(s, a, artifact()) })
		if err == nil {
			return acceptance{signer: who, identity: who, lacks: a.lacks}, nil
		}
		if reason == nil {
			reason = err
		}
	}
	return acceptance{}, reason
}

// names compares the certificate's identity before anything costly is done with it. A
// certificate for several names is refused: which of them signed could be read in more
// than one way, and Fulcio issues none.
func (i *identity) names(s *stored) (string, error) {
	switch {
	case s.uncertified != nil:
		return "", s.uncertified
	case s.certificate == nil:
		return "", errors.New("it is signed with a key and has no certificate")
	}
	summary, err := certificate.SummarizeCertificate(s.certificate)
	if err != nil {
		return "", fmt.Errorf("reading the certificate's identity: %w", err)
	}
	if n := len(cryptoutils.GetSubjectAlternateNames(s.certificate)); n != 1 {
		return "", fmt.Errorf("its certificate is for %d names", n)
	}
	who := fmt.Sprintf("%s (%s)", summary.SubjectAlternativeName, summary.Issuer)
	if !i.issuer.matches(summary.Issuer) || !i.subject.matches(summary.SubjectAlternativeName) {
		return "", fmt.Errorf("it is signed by %s", who)
	}
	return who, nil
}

func (i *identity) verify(s *stored, a attempt, artifact verify.ArtifactPolicyOption) error {
	if a.logged && s.unlogged != nil {
		return s.unlogged
	}
	v, err := verify.NewVerifier(i.root.stamping(s.stamped), a.options...)
	if err != nil {
		return fmt.Errorf("preparing to verify: %w", err)
	}
	entity := view{stored: s, by: bundle.NewCertificate(s.certificate)}
	result, err := v.Verify(entity, verify.NewPolicy(artifact, verify.WithCertificateIdentity(i.wanted)))
	if err != nil {
		return err
	}
	if a.logged {
		return i.root.logsWereValid(s.entries, earliest(result.VerifiedTimestamps))
	}
	return nil
}

func earliest(stamps []verify.TimestampVerificationResult) time.Time {
	var t time.Time
	for _, s := range stamps {
		if t.IsZero() || s.Timestamp.Before(t) {
			t = s.Timestamp
		}
	}
	return t
}
