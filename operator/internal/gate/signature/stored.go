package signature

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	cosigntypes "github.com/sigstore/cosign/v2/pkg/types"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

// stored is one signature or attestation as a registry holds it, read but not verified.
// All three formats become one of these and are verified by sigstore-go.
//
// cosign's own VerifyImageSignature is not used for its tag format. With a trusted root
// it (v2.6.5) checks the chain at the certificate's first second and not at a verified
// time, falls back on the clock where there is none, and panics on a timestamp that does
// not verify, on a log entry whose body is not text and on one whose key is not PEM:
// whoever may push a signature could stop the process.
type stored struct {
	// claim that was signed (FormatCosignTag).
	claim []byte
	// payload of the envelope, and what it says (FormatBundle, FormatAttestationTag).
	payload   []byte
	statement *statement
	content   verify.SignatureContent
	// certificate of the signer, nil if it came without. What stands above it has to be in the
	// trusted root: a chain that came with it is not looked at, in a bundle either.
	certificate *x509.Certificate
	// keyed says that a key may have made it.
	keyed      bool
	entries    []*tlog.Entry
	timestamps [][]byte
	// stamped is what the timestamps may be about beside the signature.
	stamped []byte
	// unlogged says why the log entries do not count.
	unlogged error
	// uncertified says why certificate and timestamp do not count.
	uncertified error
	// problem says why nobody can accept it.
	problem error
	// unreadable says why the statement in the envelope cannot be read. Whose it is can be
	// told all the same; hint is the type that it seems to be of, "" where that is not clear.
	unreadable error
	hint       string
}

// cannotBeAccepted says why not, before anything is verified.
func (s *stored) cannotBeAccepted() error {
	return cmp.Or(s.problem, s.unreadable)
}

// isSignature holds for a claim and for a statement with cosign's predicate for image
// signatures. Every other statement is an attestation, even if the same key made it:
// that a scan was run, or that it failed, does not say that the image may run.
func (s *stored) isSignature() bool {
	return s.claim != nil || s.statement != nil && s.statement.predicateType == cosigntypes.CosignSignPredicateType
}

// evidence is what a registry holds for one digest, by what it is and not by where it
// was found.
type evidence struct {
	signatures   []*stored
	attestations []*stored
	// unreadable are envelopes around statements that cannot be read.
	unreadable []*stored
	// unread may be either.
	unread []gate.Unread
}

// unreadOf are the reasons why things that may be of a predicate type were not read. It
// takes their labels at their word: who labels his own evidence as something else hides
// it, which he could as well not have stored.
func (e *evidence) unreadOf(predicateType string) []string {
	var reasons []string
	for _, u := range e.unread {
		if u.Predicate == "" || u.Predicate == predicateType {
			reasons = append(reasons, u.Reason)
		}
	}
	return sorted(reasons)
}

// readEvidence reads what the registry holds. What cannot be read is kept as something
// that nobody accepts: anyone who may push can put garbage there, and garbage must
// neither stop a good image nor pass for no signature at all. A plain signature over
// bytes is neither signature nor attestation and is left out: cosign makes those of
// files (sign-blob), so the key's owner vouched for a file and not for an image.
//
// Once ctx is over it stops: whoever asks finds that out there.
func readEvidence(ctx context.Context, lists ...[]gate.Signature) evidence {
	var e evidence
	bundles := map[[sha256.Size]byte]bool{}
	for _, list := range lists {
		for i := range list {
			if ctx.Err() != nil {
				return e
			}
			r := &list[i]
			if r.Unread != nil {
				e.unread = append(e.unread, *r.Unread)
				continue
			}
			if r.Format == gate.FormatBundle {
				sum := sha256.Sum256(r.Bundle)
				if bundles[sum] {
					continue
				}
				bundles[sum] = true
			}
			e.add(r)
		}
	}
	return e
}

var errMessage = errors.New("it is a signature over bytes and says nothing of an image")

func (e *evidence) add(r *gate.Signature) {
	s := &stored{}
	err := guarded(func() error { return s.read(r) })
	switch {
	case errors.Is(err, errMessage):
		return
	case err != nil:
		s = &stored{problem: err}
	}
	if s.unreadable != nil {
		e.unreadable = append(e.unreadable, s)
	}
	if broken := s.problem != nil || s.unreadable != nil; s.isSignature() || broken && r.Format != gate.FormatAttestationTag {
		e.signatures = append(e.signatures, s)
	} else {
		e.attestations = append(e.attestations, s)
	}
}

// guarded turns a panic of a library into an error: what anybody may push must never
// bring the process down.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("verifying it failed: %v", p)
		}
	}()
	return f()
}

func (s *stored) read(r *gate.Signature) error {
	switch r.Format {
	case gate.FormatBundle:
		return s.readBundle(r.Bundle)
	case gate.FormatCosignTag:
		return s.readClaim(r)
	case gate.FormatAttestationTag:
		return s.readEnvelope(r)
	}
	return fmt.Errorf("its format %.40q is not known", r.Format)
}

func (s *stored) readBundle(raw []byte) error {
	if len(raw) > limits.AttestationBytes {
		return fmt.Errorf("the bundle has more than %d bytes (limits.AttestationBytes)", limits.AttestationBytes)
	}
	if err := fewParts("bundle", raw); err != nil {
		return err
	}
	b, err := parseBundle(raw)
	if err != nil {
		return err
	}
	content, ok := b.Content.(*protobundle.Bundle_DsseEnvelope)
	if !ok {
		return errMessage
	}
	by, err := b.VerificationContent()
	if err != nil {
		return fmt.Errorf("reading the bundle's certificate: %w", err)
	}
	s.certificate, s.keyed = by.Certificate(), by.PublicKey() != nil
	if s.timestamps, err = b.Timestamps(); err != nil {
		return fmt.Errorf("reading the bundle's timestamps: %w", err)
	}
	e := content.DsseEnvelope
	sigs := make([]dsse.Signature, 0, 1)
	for _, sig := range e.GetSignatures() {
		sigs = append(sigs, dsse.Signature{KeyID: sig.GetKeyid(), Sig: base64.StdEncoding.EncodeToString(sig.GetSig())})
	}
	if err := s.setEnvelope(e.GetPayload(), e.GetPayloadType(), sigs); err != nil {
		return err
	}
	entries, err := b.TlogEntries()
	if err != nil {
		return fmt.Errorf("reading the bundle's log entries: %w", err)
	}
	s.setEntries(entries)
	return nil
}

// parseBundle reads a bundle, and looks at how long what it holds in base64 is before it is taken
// apart: a log entry takes fifty times what it has in bytes, and a certificate thirty times.
func parseBundle(raw []byte) (*bundle.Bundle, error) {
	var parsed protobundle.Bundle
	if err := protojson.Unmarshal(raw, &parsed); err != nil {
		return nil, fmt.Errorf("reading the bundle: %w", err)
	}
	material := parsed.GetVerificationMaterial()
	err := shortCertificate(material.GetCertificate().GetRawBytes())
	for _, c := range material.GetX509CertificateChain().GetCertificates() {
		err = cmp.Or(err, shortCertificate(c.GetRawBytes()))
	}
	for _, e := range material.GetTlogEntries() {
		err = cmp.Or(err, short("log entry", e.GetCanonicalizedBody()), fewParts("log entry", e.GetCanonicalizedBody()), short("log's checkpoint", e.GetInclusionProof().GetCheckpoint().GetEnvelope()))
	}
	for _, t := range material.GetTimestampVerificationData().GetRfc3161Timestamps() {
		err = cmp.Or(err, short("timestamp", t.GetSignedTimestamp()))
	}
	if err != nil {
		return nil, err
	}
	b, err := bundle.NewBundle(&parsed)
	if err != nil {
		return nil, fmt.Errorf("reading the bundle: %w", err)
	}
	return b, nil
}

// short refuses what is longer than its like may be in annotations.
func short[T string | []byte](what string, content T) error {
	if len(content) > limits.SignatureAnnotationBytes {
		return fmt.Errorf("the bundle's %s has more than %d bytes (limits.SignatureAnnotationBytes)", what, limits.SignatureAnnotationBytes)
	}
	return nil
}

// shortCertificate refuses one that is long: of the names in it each takes thirty times its bytes,
// and those of all signatures of an image are held at a time.
func shortCertificate(der []byte) error {
	if len(der) > limits.CertificateBytes {
		return fmt.Errorf("its certificate has more than %d bytes (limits.CertificateBytes)", limits.CertificateBytes)
	}
	return nil
}

// fewParts refuses what is around a statement and has many parts: a log entry that takes three
// bytes in a bundle takes hundreds in memory.
func fewParts(what string, raw []byte) error {
	if strictjson.Parts(raw) > limits.EnvelopeParts {
		return fmt.Errorf("the %s has more than %d parts, an object or a list counting for eight (limits.EnvelopeParts)", what, limits.EnvelopeParts)
	}
	return nil
}

// readClaim reads a "simple signing" payload with what cosign puts into annotations
// beside it.
func (s *stored) readClaim(r *gate.Signature) error {
	signature, err := base64.StdEncoding.DecodeString(r.Base64)
	if err != nil || len(signature) == 0 {
		return errors.New("its signature is not base64")
	}
	if len(r.Payload) > limits.SignatureBlobBytes {
		return fmt.Errorf("the claim has more than %d bytes (limits.SignatureBlobBytes)", limits.SignatureBlobBytes)
	}
	if err := fewParts("claim", r.Payload); err != nil {
		return err
	}
	if err := strictjson.Check(r.Payload, strictjson.Everywhere); err != nil {
		return fmt.Errorf("reading the claim: %w", err)
	}
	s.claim = r.Payload
	s.keyed, s.uncertified = true, s.readAnnotations(r)
	s.content = newMessage(s.claim, signature, s.entries)
	return nil
}

func (s *stored) readEnvelope(r *gate.Signature) error {
	if len(r.Payload) > limits.AttestationBytes {
		return fmt.Errorf("the envelope has more than %d bytes (limits.AttestationBytes)", limits.AttestationBytes)
	}
	if err := fewParts("envelope", r.Payload); err != nil {
		return err
	}
	if err := strictjson.Check(r.Payload, strictjson.Everywhere); err != nil {
		return fmt.Errorf("reading the envelope: %w", err)
	}
	var e dsse.Envelope
	if err := json.Unmarshal(r.Payload, &e); err != nil {
		return fmt.Errorf("reading the envelope: %w", err)
	}
	payload, err := e.DecodeB64Payload()
	if err != nil {
		return fmt.Errorf("reading the envelope's payload: %w", err)
	}
	if err := s.setEnvelope(payload, e.PayloadType, e.Signatures); err != nil {
		return err
	}
	// cosign has the whole envelope timestamped in this format, and the signature alone
	// in bundles.
	s.stamped = r.Payload
	s.keyed, s.uncertified = true, s.readAnnotations(r)
	return nil
}

func (s *stored) setEnvelope(payload []byte, kind string, sigs []dsse.Signature) (err error) {
	if kind != statementMediaType {
		return fmt.Errorf("the envelope holds %.80q and not an in-toto statement (%s)", kind, statementMediaType)
	}
	if len(sigs) != 1 {
		return fmt.Errorf("the envelope has %d signatures in place of one, so that it is not clear who made it: store one envelope per signer", len(sigs))
	}
	signature, err := base64.StdEncoding.DecodeString(sigs[0].Sig)
	if err != nil {
		return errors.New("the envelope's signature is not base64")
	}
	s.payload = payload
	content := &envelope{
		kind: kind, payload: payload, signatures: sigs,
		signature: signature,
	}
	s.content = content
	if s.statement, s.unreadable = readStatement(payload); s.unreadable != nil {
		s.hint = gate.PredicateType(payload)
		return nil
	}
	content.statement = s.statement.verified
	return nil
}

// readAnnotations reads certificate, log entry and timestamp. None of them concerns a key,
// which may have signed whatever is attached.
func (s *stored) readAnnotations(r *gate.Signature) (err error) {
	if len(r.Certificate) > 0 {
		if s.certificate, err = readCertificate(r.Certificate); err != nil {
			return err
		}
	}
	if len(r.RekorBundle) > 0 {
		entry, err := readRekorBundle(r.RekorBundle)
		if err != nil {
			s.unlogged = err
		} else {
			s.setEntries([]*tlog.Entry{entry})
		}
	}
	if len(r.Timestamp) > 0 {
		timestamp, err := readTimestamp(r.Timestamp)
		if err != nil {
			return err
		}
		s.timestamps = [][]byte{timestamp}
	}
	return nil
}

func (s *stored) setEntries(entries []*tlog.Entry) {
	s.entries = entries
	for _, e := range entries {
		if err := s.loggedContent(e.TransparencyLogEntry().GetCanonicalizedBody()); err != nil {
			s.unlogged = err
			return
		}
	}
}

func readCertificate(text []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("its certificate is not one PEM block of type CERTIFICATE")
	}
	if err := shortCertificate(block.Bytes); err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading its certificate: %w", err)
	}
	return certificate, nil
}

// message is a signature over bytes for sigstore-go.
type message struct{ *bundle.MessageSignature }

// newMessage gives the digest of the claim by the function that its log entry has it by, since
// sigstore-go compares them: that of an entry for a P-384 key may be SHA-384. What is signed
// are the bytes of the claim, whatever an entry says.
func newMessage(claim, signature []byte, entries []*tlog.Entry) message {
	function, name := crypto.SHA256, "sha256"
	for _, e := range entries {
		_, named, _ := e.GetHashedRekordDigest()
		if known, ok := hashes[named]; ok {
			function, name = known, named
		}
	}
	hash := function.New()
	hash.Write(claim)
	return message{bundle.NewMessageSignature(hash.Sum(nil), name, signature)}
}

func (m message) EnvelopeContent() verify.EnvelopeContent { return nil }

func (m message) MessageSignatureContent() verify.MessageSignatureContent { return m.MessageSignature }

// envelope is a DSSE envelope for sigstore-go, with the statement that was read here.
type envelope struct {
	kind       string
	payload    []byte
	signatures []dsse.Signature
	signature  []byte
	statement  *intoto.Statement
}

func (e *envelope) Signature() []byte                                       { return e.signature }
func (e *envelope) EnvelopeContent() verify.EnvelopeContent                 { return e }
func (e *envelope) MessageSignatureContent() verify.MessageSignatureContent { return nil }
func (e *envelope) Statement() (*intoto.Statement, error)                   { return e.statement, nil }

// RawEnvelope is encoded each time: kept, it would take more than the payload for as long as the
// image is judged.
func (e *envelope) RawEnvelope() *dsse.Envelope {
	return &dsse.Envelope{PayloadType: e.kind, Payload: base64.StdEncoding.EncodeToString(e.payload), Signatures: e.signatures}
}

// view shows sigstore-go what is stored as made by a key or by a certificate.
type view struct {
	*stored
	by verify.VerificationContent
}

func (v view) HasInclusionPromise() bool                                { return true }
func (v view) HasInclusionProof() bool                                  { return true }
func (v view) SignatureContent() (verify.SignatureContent, error)       { return v.content, nil }
func (v view) Timestamps() ([][]byte, error)                            { return v.timestamps, nil }
func (v view) TlogEntries() ([]*tlog.Entry, error)                      { return v.entries, nil }
func (v view) VerificationContent() (verify.VerificationContent, error) { return v.by, nil }

// Version names none: for the known ones sigstore-go tries a second scheme for P-384
// certificates, and tells the process's standard error each time.
func (v view) Version() (string, error) { return "", nil }

// byKey is the verification content of what a key signed; which one is the authority's
// matter.
type byKey struct{}

func (byKey) CompareKey(any, root.TrustedMaterial) bool        { return false }
func (byKey) ValidAtTime(time.Time, root.TrustedMaterial) bool { return true }
func (byKey) Certificate() *x509.Certificate                   { return nil }
func (byKey) Intermediates() []*x509.Certificate               { return nil }
func (byKey) PublicKey() verify.PublicKeyProvider              { return byKey{} }
func (byKey) Hint() string                                     { return "" }
