package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// trustedRoot is trusted_root.json, read. It is not changed after that.
type trustedRoot struct {
	*root.TrustedRoot
	// message is what timestamps may be about beside the signature, nil for nothing.
	message []byte
}

// stamping is the root for timestamps over the signature or over a message around it.
func (t *trustedRoot) stamping(message []byte) *trustedRoot {
	return &trustedRoot{TrustedRoot: t.TrustedRoot, message: message}
}

// TimestampingAuthorities implements root.TrustedMaterial.
func (t *trustedRoot) TimestampingAuthorities() []root.TimestampingAuthority {
	inner := t.TrustedRoot.TimestampingAuthorities()
	out := make([]root.TimestampingAuthority, 0, len(inner))
	for _, a := range inner {
		if a, ok := a.(*root.SigstoreTimestampingAuthority); ok {
			out = append(out, timestampAuthority{SigstoreTimestampingAuthority: a, message: t.message})
		}
	}
	return out
}

func readTrustedRoot(raw []byte) (*trustedRoot, error) {
	if len(raw) > limits.TrustedRootBytes {
		return nil, fmt.Errorf("trustedRoot has %d bytes, more than %d (limits.TrustedRootBytes)", len(raw), limits.TrustedRootBytes)
	}
	if len(raw) == 0 {
		return nil, errors.New("trustedRoot is empty: give trusted_root.json, as `cosign trusted-root create` writes it or TUF distributes it")
	}
	t := &trustedRoot{}
	err := guarded(func() error {
		p, err := root.NewTrustedRootProtobuf(raw)
		if err != nil {
			return err
		}
		if err := checkRoot(p); err != nil {
			return err
		}
		t.TrustedRoot, err = root.NewTrustedRootFromProtobuf(p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("trustedRoot cannot be used: %w", err)
	}
	return t, nil
}

// checkRoot bounds a trusted root, and refuses one under which nothing could ever be
// accepted: a user should learn that from the Gate and not from a denied image.
func checkRoot(p *prototrustroot.TrustedRoot) error {
	lists := []struct {
		name string
		n    int
	}{
		{"certificateAuthorities", len(p.GetCertificateAuthorities())}, {"timestampAuthorities", len(p.GetTimestampAuthorities())},
		{"tlogs", len(p.GetTlogs())}, {"ctlogs", len(p.GetCtlogs())},
	}
	for _, l := range lists {
		if l.n > limits.TrustedRootEntries {
			return fmt.Errorf("%s has %d entries, more than %d (limits.TrustedRootEntries)", l.name, l.n, limits.TrustedRootEntries)
		}
	}
	if lists[0].n == 0 {
		return errors.New("it lists no certificateAuthorities, so that no identity can be verified")
	}
	if lists[1].n == 0 && lists[2].n == 0 {
		return errors.New("it lists neither tlogs nor timestampAuthorities, so that no signature has a time that can be verified")
	}
	for _, authorities := range [][]*prototrustroot.CertificateAuthority{p.GetCertificateAuthorities(), p.GetTimestampAuthorities()} {
		for _, a := range authorities {
			if n := len(a.GetCertChain().GetCertificates()); n > limits.CertificateChain {
				return fmt.Errorf("the chain of %.80q has %d certificates, more than %d (limits.CertificateChain)", a.GetUri(), n, limits.CertificateChain)
			}
		}
	}
	return nil
}

// logsWereValid holds entries without a promise to the validity of the log's key.
// sigstore-go does so for entries with one. A timestamp is made before the entry, so
// that one after the key's end means that the key was used after its end.
func (t *trustedRoot) logsWereValid(entries []*tlog.Entry, signed time.Time) error {
	for _, e := range entries {
		log := t.RekorLogs()[hex.EncodeToString([]byte(e.LogKeyID()))]
		if log == nil || e.HasInclusionPromise() || log.ValidityPeriodEnd.IsZero() {
			continue
		}
		if signed.After(log.ValidityPeriodEnd) {
			return errors.New("its log entry is of a log whose key was no longer valid")
		}
	}
	return nil
}

// timestampAuthority verifies RFC 3161 timestamps of what was stored in two ways: of a
// signature, and of message where there is one.
type timestampAuthority struct {
	*root.SigstoreTimestampingAuthority
	message []byte
}

// Verify implements root.TimestampingAuthority. The authority's certificates are held to the
// time in the token: no clock is read.
func (a timestampAuthority) Verify(token, signature []byte) (*root.Timestamp, error) {
	t, err := a.SigstoreTimestampingAuthority.Verify(token, signature)
	if err != nil && a.message != nil {
		t, err = a.SigstoreTimestampingAuthority.Verify(token, a.message)
	}
	return t, err
}

// identities keeps keyless identities that were used before, ready to verify with: a
// trusted root costs more to read than a signature to verify.
var identities = identityCache{entries: map[identityKey]*identity{}}

type identityCache struct {
	mu      sync.Mutex
	entries map[identityKey]*identity
}

type identityKey struct {
	issuer, issuerRegExp, subject, subjectRegExp string
	root                                         [sha256.Size]byte
	ignoreLog, ignoreSCT                         bool
}

func (c *identityCache) get(k *gate.Keyless) (*identity, error) {
	key := identityKey{
		issuer: k.Issuer, issuerRegExp: k.IssuerRegExp, subject: k.Subject, subjectRegExp: k.SubjectRegExp,
		root: sha256.Sum256(k.TrustedRoot), ignoreLog: k.IgnoreTransparencyLog, ignoreSCT: k.IgnoreCertificateLog,
	}
	c.mu.Lock()
	known := c.entries[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	made, err := newIdentity(*k)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= limits.Identities {
		clear(c.entries)
	}
	c.entries[key] = made
	return made, nil
}
