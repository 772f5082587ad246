package signature

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/tlog"

	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

// rekorBundle is the annotation dev.sigstore.cosign/bundle: a Rekor entry and the log's
// promise to include it.
type rekorBundle struct {
	SignedEntryTimestamp []byte
	Payload              struct {
		Body           string `json:"body"`
		IntegratedTime int64  `json:"integratedTime"`
		LogIndex       int64  `json:"logIndex"`
		LogID          string `json:"logID"`
	}
}

func readRekorBundle(raw []byte) (*tlog.Entry, error) {
	var b rekorBundle
	if err := readJSON(raw, &b); err != nil {
		return nil, fmt.Errorf("reading its log entry: %w", err)
	}
	body, err := base64.StdEncoding.DecodeString(b.Payload.Body)
	if err != nil {
		return nil, errors.New("reading its log entry: the body is not base64")
	}
	if err := fewParts("log entry", body); err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(b.Payload.LogID)
	if err != nil {
		return nil, errors.New("reading its log entry: the log's id is not hexadecimal")
	}
	if len(b.SignedEntryTimestamp) == 0 {
		return nil, errors.New("its log entry has no promise of the log")
	}
	var kind struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
	}
	if err := readJSON(body, &kind); err != nil {
		return nil, fmt.Errorf("reading its log entry's body: %w", err)
	}
	entry, err := tlog.ParseTransparencyLogEntry(&rekor.TransparencyLogEntry{
		LogIndex:          b.Payload.LogIndex,
		LogId:             &protocommon.LogId{KeyId: id},
		KindVersion:       &rekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion},
		IntegratedTime:    b.Payload.IntegratedTime,
		InclusionPromise:  &rekor.InclusionPromise{SignedEntryTimestamp: b.SignedEntryTimestamp},
		CanonicalizedBody: body,
	})
	if err != nil {
		return nil, fmt.Errorf("reading its log entry: %w", err)
	}
	return entry, nil
}

// readTimestamp reads the annotation dev.sigstore.cosign/rfc3161timestamp.
func readTimestamp(raw []byte) ([]byte, error) {
	var t struct{ SignedRFC3161Timestamp []byte }
	if err := readJSON(raw, &t); err != nil {
		return nil, fmt.Errorf("reading its timestamp: %w", err)
	}
	return t.SignedRFC3161Timestamp, nil
}

func readJSON(raw []byte, into any) error {
	if err := strictjson.Check(raw, strictjson.Everywhere); err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
