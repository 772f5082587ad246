package attest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sigstore/rekor-tiles/v2/pkg/client"
	"github.com/sigstore/rekor-tiles/v2/pkg/client/write"
	rekor "github.com/sigstore/rekor/pkg/client"
	"github.com/sigstore/rekor/pkg/generated/client/entries"
	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Keyless signs as whoever an identity token is of: each time with a new key, for which a
// Sigstore instance issues a certificate, and which is thrown away. Errors never show the
// token.
type Keyless struct {
	token    string
	services Services
	root     []byte
}

// NewKeyless signs with a token of audience sigstore. What it signs is to be verified
// against trusted_root.json.
func NewKeyless(token string, services Services, trustedRoot []byte) (*Keyless, error) {
	if err := validateToken(token); err != nil {
		return nil, err
	}
	if err := services.Validate(); err != nil {
		return nil, err
	}
	return &Keyless{token: token, services: services, root: trustedRoot}, nil
}

// Bundle is a sigstore bundle (v0.3, JSON) around an in-toto statement, with a certificate,
// and what the services say of its time. It takes at most limits.Signing.
func (k *Keyless) Bundle(ctx context.Context, statement []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Signing)
	defer cancel()
	raw, err := k.bundle(ctx, statement)
	if err != nil {
		return nil, fmt.Errorf("signing evidence: %w", k.hidden(err))
	}
	return raw, nil
}

func (k *Keyless) bundle(ctx context.Context, statement []byte) ([]byte, error) {
	keypair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return nil, err
	}
	options := sign.BundleOptions{
		Context: ctx,
		CertificateProvider: authority{sign.NewFulcio(&sign.FulcioOptions{
			BaseURL: strings.TrimSuffix(k.services.Fulcio, "/"), Timeout: limits.SigstoreCall, Retries: limits.SigstoreRetries, Transport: guard{ctx},
		})},
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: k.token},
	}
	for _, url := range k.services.TimestampAuthorities {
		options.TimestampAuthorities = append(options.TimestampAuthorities, sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{
			URL: url, Timeout: limits.SigstoreCall, Retries: limits.SigstoreRetries, Transport: guard{ctx},
		}))
	}
	for _, l := range k.services.Logs {
		log, err := l.client()
		if err != nil {
			return nil, err
		}
		options.TransparencyLogs = append(options.TransparencyLogs, log)
	}
	signed, err := sign.Bundle(&sign.DSSEData{Data: statement, PayloadType: statementMediaType}, keypair, options)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(signed)
}

// authority says what a token has to be where it gives no certificate for one: its own
// answers do not tell.
type authority struct{ sign.CertificateProvider }

// GetCertificate implements sign.CertificateProvider.
func (a authority) GetCertificate(ctx context.Context, keypair sign.Keypair, options *sign.CertificateProviderOptions) ([]byte, error) {
	der, err := a.CertificateProvider.GetCertificate(ctx, keypair, options)
	if err != nil {
		return nil, fmt.Errorf("no certificate for the identity token (it has to be of audience %s, of an issuer that is known there, and not have run out): %w", Audience, err)
	}
	return der, nil
}

// hidden is an error in which the token does not stand: a service may send back what it
// was sent, as a whole or in part.
func (k *Keyless) hidden(err error) error {
	secrets := []any{redact.Opaque(k.token)}
	for _, part := range strings.Split(k.token, ".") {
		secrets = append(secrets, redact.Opaque(part))
	}
	return errors.New(redact.SecretsOf(secrets...).Text(err.Error(), limits.MessageBytes))
}

// Authority is who a Gate has to name for a bundle that this signed: the identity in its
// certificate, to the letter.
func (k *Keyless) Authority(raw []byte) (gate.Authority, error) {
	var b bundle.Bundle
	if err := b.UnmarshalJSON(raw); err != nil {
		return gate.Authority{}, fmt.Errorf("reading the bundle: %w", err)
	}
	content, err := b.VerificationContent()
	if err != nil {
		return gate.Authority{}, fmt.Errorf("reading the bundle: %w", err)
	}
	if content.Certificate() == nil {
		return gate.Authority{}, errors.New("the bundle has no certificate")
	}
	who, err := certificate.SummarizeCertificate(content.Certificate())
	if err != nil {
		return gate.Authority{}, fmt.Errorf("reading the certificate: %w", err)
	}
	return gate.Authority{Name: "own", Keyless: &gate.Keyless{Issuer: who.Issuer, Subject: who.SubjectAlternativeName, TrustedRoot: k.root}}, nil
}

// client of a log. Neither of the two takes a transport, so that an answer of theirs is
// bounded by time and not in bytes; no secret is sent to them.
func (l Log) client() (*sign.Rekor, error) {
	options := &sign.RekorOptions{BaseURL: l.URL, Version: l.Version, Timeout: limits.SigstoreCall, Retries: limits.SigstoreRetries}
	if l.Version == tiles {
		writer, err := write.NewWriter(l.URL, client.WithTimeout(limits.SigstoreCall))
		if err != nil {
			return nil, fmt.Errorf("log %s: %w", l.URL, err)
		}
		options.ClientV2 = writer
		return sign.NewRekor(options), nil
	}
	answers, err := rekor.GetRekorClient(l.URL, rekor.WithRetryCount(limits.SigstoreRetries))
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", l.URL, err)
	}
	options.Client = whole{answers.Entries}
	return sign.NewRekor(options), nil
}

// whole refuses an answer of a log with parts missing, which what reads it does not expect.
type whole struct{ sign.RekorClient }

// CreateLogEntry implements sign.RekorClient.
func (w whole) CreateLogEntry(params *entries.CreateLogEntryParams, options ...entries.ClientOption) (*entries.CreateLogEntryCreated, error) {
	answer, err := w.RekorClient.CreateLogEntry(params, options...)
	if err != nil {
		return nil, fmt.Errorf("the transparency log: %w", err)
	}
	if !complete(answer.Payload[answer.ETag]) {
		return nil, errors.New("the transparency log did not answer with the entry and its proof")
	}
	return answer, nil
}

func complete(e models.LogEntryAnon) bool {
	v := e.Verification
	if e.LogID == nil || e.LogIndex == nil || e.IntegratedTime == nil || v == nil || v.InclusionProof == nil {
		return false
	}
	p := v.InclusionProof
	return p.RootHash != nil && p.LogIndex != nil && p.TreeSize != nil && p.Checkpoint != nil
}
