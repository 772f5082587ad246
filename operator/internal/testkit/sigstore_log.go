package testkit

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/digitorus/timestamp"
	ssldsse "github.com/secure-systems-lab/go-securesystemslib/dsse"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	rekortiles "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	"github.com/sigstore/rekor/pkg/pki"
	rekortypes "github.com/sigstore/rekor/pkg/types"
	"github.com/sigstore/rekor/pkg/types/dsse"
	_ "github.com/sigstore/rekor/pkg/types/dsse/v0.0.1" // so that dsse entries can be made
	"github.com/sigstore/rekor/pkg/types/hashedrekord"
	_ "github.com/sigstore/rekor/pkg/types/hashedrekord/v0.0.1" // so that hashedrekord entries can be made
	rekorutil "github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore/pkg/signature"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/protobuf/encoding/protojson"
)

// made is what was just signed, for log and timestamp authority.
type made struct {
	certificate *x509.Certificate
	signature   []byte
	// claim, or envelope (JSON) with its payload.
	claim, envelope, payload []byte
	// digest of what was signed, where nothing else of it is known.
	digest []byte
}

// sum is the SHA-256 of the bytes that were signed.
func (m made) sum() []byte {
	switch {
	case m.digest != nil:
		return m.digest
	case m.claim != nil:
		sum := sha256.Sum256(m.claim)
		return sum[:]
	}
	sum := sha256.Sum256(ssldsse.PAE(inTotoMediaType, m.payload))
	return sum[:]
}

// logged enters what was made into the transparency log of the version asked for.
func (s *Sigstore) logged(m made, tiles bool) (*protorekor.TransparencyLogEntry, error) {
	entry := &protorekor.TransparencyLogEntry{}
	var err error
	key := s.rekor
	if tiles {
		key = s.tiles
		err = tileBody(m, entry)
	} else {
		err = rekorBody(m, entry)
		entry.IntegratedTime = time.Now().Unix()
	}
	if err != nil {
		return nil, fmt.Errorf("making a log entry: %w", err)
	}
	id, err := keyID(key)
	if err != nil {
		return nil, err
	}
	entry.LogId = &protocommon.LogId{KeyId: id[:]}
	signer, err := signature.LoadECDSASignerVerifier(key, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("loading a log's key: %w", err)
	}
	if !tiles {
		if err := promiseInclusion(entry, signer); err != nil {
			return nil, err
		}
	}
	return entry, proveInclusion(entry, signer, tiles)
}

// rekorBody is the body of version 1: hashedrekord for a claim, dsse for an envelope.
func rekorBody(m made, entry *protorekor.TransparencyLogEntry) error {
	ctx := context.Background()
	properties := rekortypes.ArtifactProperties{PublicKeyBytes: [][]byte{certificatesPEM(m.certificate)}, PKIFormat: string(pki.X509)}
	kind, version := dsse.KIND, dsse.New().DefaultVersion()
	if m.claim != nil {
		kind, version = hashedrekord.KIND, hashedrekord.New().DefaultVersion()
		sum := sha256.Sum256(m.claim)
		properties.ArtifactHash, properties.SignatureBytes = hex.EncodeToString(sum[:]), m.signature
	} else {
		properties.ArtifactBytes = m.envelope
	}
	proposed, err := rekortypes.NewProposedEntry(ctx, kind, version, properties)
	if err != nil {
		return err
	}
	implementation, err := rekortypes.CreateVersionedEntry(proposed)
	if err != nil {
		return err
	}
	entry.KindVersion = &protorekor.KindVersion{Kind: kind, Version: version}
	entry.CanonicalizedBody, err = rekortypes.CanonicalizeEntry(ctx, implementation)
	return err
}

// tileBody is the body of version 2, which knows one kind: that of an envelope has the digest
// of what its signature is over.
func tileBody(m made, entry *protorekor.TransparencyLogEntry) error {
	signed := &rekortiles.Signature{Content: m.signature, Verifier: &rekortiles.Verifier{
		Verifier:   &rekortiles.Verifier_X509Certificate{X509Certificate: &protocommon.X509Certificate{RawBytes: m.certificate.Raw}},
		KeyDetails: protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
	}}
	body := &rekortiles.Entry{Kind: "hashedrekord", ApiVersion: "0.0.2", Spec: &rekortiles.Spec{Spec: &rekortiles.Spec_HashedRekordV002{
		HashedRekordV002: &rekortiles.HashedRekordLogEntryV002{
			Data: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: m.sum()}, Signature: signed,
		},
	}}}
	entry.KindVersion = &protorekor.KindVersion{Kind: body.Kind, Version: body.ApiVersion}
	text, err := protojson.Marshal(body)
	if err == nil {
		entry.CanonicalizedBody, err = jsoncanonicalizer.Transform(text)
	}
	return err
}

// promiseInclusion signs body, time and place, as version 1 does at once.
func promiseInclusion(entry *protorekor.TransparencyLogEntry, log signature.Signer) error {
	// encoding/json sorts the names of a map, which makes this canonical.
	text, err := json.Marshal(map[string]any{
		"body": entry.CanonicalizedBody, "integratedTime": entry.IntegratedTime,
		"logIndex": entry.LogIndex, "logID": hex.EncodeToString(entry.LogId.KeyId),
	})
	if err != nil {
		return fmt.Errorf("promising inclusion: %w", err)
	}
	promise, err := log.SignMessage(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("promising inclusion: %w", err)
	}
	entry.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: promise}
	return nil
}

// proveInclusion proves that the entry is in a log of its own, in which it is the only
// one.
func proveInclusion(entry *protorekor.TransparencyLogEntry, log signature.Signer, tiles bool) error {
	root := sha256.Sum256(append([]byte{0}, entry.CanonicalizedBody...))
	var checkpoint []byte
	var err error
	if tiles {
		var signer note.Signer
		if signer, err = rekornote.NewNoteSigner(context.Background(), tilesHost, log); err == nil {
			text := fmt.Sprintf("%s\n1\n%s\n", tilesHost, base64.StdEncoding.EncodeToString(root[:]))
			checkpoint, err = note.Sign(&note.Note{Text: text}, signer)
		}
	} else {
		checkpoint, err = rekorutil.CreateAndSignCheckpoint(context.Background(), rekorHost, 1, 1, root[:], log)
	}
	if err != nil {
		return fmt.Errorf("signing a checkpoint: %w", err)
	}
	entry.InclusionProof = &protorekor.InclusionProof{
		RootHash: root[:], TreeSize: 1, Checkpoint: &protorekor.Checkpoint{Envelope: string(checkpoint)},
	}
	return nil
}

// stamped has the timestamp authority sign that message was there at a time.
func (s *Sigstore) stamped(message []byte, at time.Time) ([]byte, error) {
	if at.IsZero() {
		at = time.Now()
	}
	sum := sha256.Sum256(message)
	return s.stampedHash(sum[:], at)
}

func (s *Sigstore) stampedHash(sum []byte, at time.Time) ([]byte, error) {
	template := timestamp.Timestamp{
		HashAlgorithm: crypto.SHA256, HashedMessage: sum, Time: at,
		Policy: []int{1, 3, 6, 1, 4, 1, 57264, 2},
	}
	response, err := template.CreateResponseWithOpts(s.tsa.below, crypto.Signer(s.tsa.key), crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("making a timestamp: %w", err)
	}
	return response, nil
}

func signWith(key *ecdsa.PrivateKey, message []byte) ([]byte, error) {
	signer, err := signature.LoadECDSASigner(key, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	raw, err := signer.SignMessage(bytes.NewReader(message))
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return raw, nil
}
