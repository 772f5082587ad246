package signature

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	intoto "github.com/in-toto/attestation/go/v1"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

const (
	statementV1  = "https://in-toto.io/Statement/v1"
	statementV01 = "https://in-toto.io/Statement/v0.1"
	// statementMediaType is the payload type of a DSSE envelope around a statement.
	statementMediaType = "application/vnd.in-toto+json"
)

// statement is an in-toto statement, v1 or v0.1. It is read in one place and once, with
// exact names: what is verified, what is compared and what a policy sees is the same.
type statement struct {
	kind          string
	predicateType string
	subject       json.RawMessage
	predicate     json.RawMessage
	// verified is the part that sigstore-go compares with the image's digest.
	verified *intoto.Statement
}

// errParts is what a statement has that takes more memory to decode than there is. It may be as
// it should be all the same.
var errParts = fmt.Errorf("it has more than %d parts, an object or a list counting for eight (limits.StatementParts)", limits.StatementParts)

func readStatement(raw []byte) (*statement, error) {
	if len(raw) > limits.StatementBytes {
		return nil, fmt.Errorf("the statement has more than %d bytes (limits.StatementBytes)", limits.StatementBytes)
	}
	if err := strictjson.Check(raw, 1); err != nil {
		return nil, fmt.Errorf("reading the statement: %w", err)
	}
	fields, err := strictjson.Fields(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the statement: %w", err)
	}
	s := &statement{subject: fields["subject"], predicate: fields["predicate"]}
	if json.Unmarshal(fields["_type"], &s.kind) != nil || json.Unmarshal(fields["predicateType"], &s.predicateType) != nil {
		return nil, errors.New("reading the statement: _type and predicateType have to be text")
	}
	switch {
	case s.kind != statementV1 && s.kind != statementV01:
		return nil, fmt.Errorf("the statement is of type %.80q, which is not in-toto v1 or v0.1", s.kind)
	case s.predicateType == "":
		return nil, errors.New("the statement has no predicateType")
	}
	subjects, err := readSubjects(s.subject)
	if err != nil {
		return nil, fmt.Errorf("reading the statement's subject: %w", err)
	}
	s.verified = &intoto.Statement{Type: s.kind, PredicateType: s.predicateType, Subject: subjects}
	return s, nil
}

// readSubjects keeps the SHA-256 digests, which are what images go by. Others may be in
// any writing; sigstore-go would refuse a statement for one that is not hex.
func readSubjects(raw json.RawMessage) ([]*intoto.ResourceDescriptor, error) {
	if strictjson.Parts(raw) > limits.StatementParts {
		return nil, errParts
	}
	if err := strictjson.Check(raw, strictjson.Everywhere); err != nil {
		return nil, err
	}
	var subjects []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &subjects); err != nil {
		return nil, errors.New("it is not a list of objects")
	}
	var out []*intoto.ResourceDescriptor
	for i, s := range subjects {
		var digests map[string]string
		if err := json.Unmarshal(s["digest"], &digests); s["digest"] != nil && err != nil {
			return nil, fmt.Errorf("the digest of subject[%d] is not an object of texts", i)
		}
		digest, ok := digests["sha256"]
		if !ok {
			continue
		}
		if sum, err := hex.DecodeString(digest); err != nil || len(sum) != 32 {
			return nil, fmt.Errorf("the sha256 of subject[%d] is not 64 hexadecimal digits", i)
		}
		out = append(out, &intoto.ResourceDescriptor{Digest: map[string]string{"sha256": digest}})
	}
	return out, nil
}

// isAbout says whether the image is among the subjects.
func (s *statement) isAbout(image digest) bool {
	return slices.ContainsFunc(s.verified.Subject, func(d *intoto.ResourceDescriptor) bool {
		raw, err := hex.DecodeString(d.Digest["sha256"])
		return err == nil && bytes.Equal(raw, image.raw)
	})
}

// document is the statement as a policy sees it.
func (s *statement) document() (map[string]any, error) {
	subject, err := decode(s.subject)
	if err != nil {
		return nil, fmt.Errorf("reading the statement's subject: %w", err)
	}
	predicate, err := s.decodedPredicate()
	if err != nil {
		return nil, err
	}
	return map[string]any{"_type": s.kind, "predicateType": s.predicateType, "subject": subject, "predicate": predicate}, nil
}

// decodedPredicate is nil when the statement has none. It is decoded each time: kept, those of
// all statements of an image would be held at a time, at many times their size.
func (s *statement) decodedPredicate() (any, error) {
	if s.predicate == nil {
		return nil, nil
	}
	predicate, err := decode(s.predicate)
	if err != nil {
		return nil, fmt.Errorf("reading the predicate: %w", err)
	}
	return predicate, nil
}

// decode keeps numbers as they are written: a float would round a large one.
func decode(raw json.RawMessage) (any, error) {
	if strictjson.Parts(raw) > limits.StatementParts {
		return nil, errParts
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err := dec.Decode(&v)
	return v, err
}
