package signature

import (
	"bytes"
	"crypto"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

// logBody is what a Rekor entry of any kind that is verified here says about content.
type logBody struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Spec       struct {
		// Rekor v1: hashedrekord 0.0.1, dsse 0.0.1, intoto 0.0.2.
		Data        struct{ Hash logSum } `json:"data"`
		PayloadHash logSum                `json:"payloadHash"`
		Content     struct {
			PayloadHash logSum `json:"payloadHash"`
		} `json:"content"`
		// Rekor v2: hashedrekord 0.0.2, which is for envelopes too.
		HashedRekordV002 struct{ Data tileSum } `json:"hashedRekordV002"`
	} `json:"spec"`
}

type logSum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"value"`
}

type tileSum struct {
	Algorithm string `json:"algorithm"`
	Digest    []byte `json:"digest"`
}

var hashes = map[string]crypto.Hash{
	"sha256": crypto.SHA256, "sha384": crypto.SHA384, "sha512": crypto.SHA512,
	"SHA2_256": crypto.SHA256, "SHA2_384": crypto.SHA384, "SHA2_512": crypto.SHA512,
}

// loggedContent compares the content hash of a log entry with what was signed: whoever holds a
// key can make one that signs two texts with one signature, and would have logged the other
// one. sigstore-go compares too; an entry that can be read in two ways is refused before.
func (s *stored) loggedContent(body []byte) error {
	if err := strictjson.Check(body, strictjson.Everywhere); err != nil {
		return fmt.Errorf("reading the log entry: %w", err)
	}
	var b logBody
	if err := json.Unmarshal(body, &b); err != nil {
		return fmt.Errorf("reading the log entry: %w", err)
	}
	algorithm, digest, err := b.content()
	if err != nil {
		return err
	}
	hash, known := hashes[algorithm]
	if !known {
		return fmt.Errorf("the log entry is of hash algorithm %.20q", algorithm)
	}
	h := hash.New()
	h.Write(s.hashedBy(b.Kind))
	if !bytes.Equal(h.Sum(nil), digest) {
		return errors.New("the log entry is about other content")
	}
	return nil
}

func (b *logBody) content() (algorithm string, digest []byte, err error) {
	var v1 logSum
	switch b.Kind + " " + b.APIVersion {
	case "hashedrekord 0.0.2":
		return b.Spec.HashedRekordV002.Data.Algorithm, b.Spec.HashedRekordV002.Data.Digest, nil
	case "hashedrekord 0.0.1":
		v1 = b.Spec.Data.Hash
	case "dsse 0.0.1":
		v1 = b.Spec.PayloadHash
	case "intoto 0.0.2":
		v1 = b.Spec.Content.PayloadHash
	default:
		return "", nil, fmt.Errorf("log entries of kind %.30q, version %.10q are not supported", b.Kind, b.APIVersion)
	}
	digest, err = hex.DecodeString(v1.Value)
	if err != nil {
		return "", nil, errors.New("reading the log entry: its hash is not hexadecimal")
	}
	return v1.Algorithm, digest, nil
}

// hashedBy is what a log entry of a kind hashes: entries for envelopes the payload,
// hashedrekord the very bytes that were signed.
func (s *stored) hashedBy(kind string) []byte {
	switch {
	case s.claim != nil:
		return s.claim
	case kind == "hashedrekord":
		return dsse.PAE(statementMediaType, s.payload)
	}
	return s.payload
}
