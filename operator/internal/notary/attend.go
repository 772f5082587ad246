package notary

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/sluice-dev/sluice/operator/internal/attest"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
)

// attend looks for what an order asks for beside the image, and beside each image of an
// index, and writes it where it is missing.
func (n *Notary) attend(ctx context.Context, o Order, write bool) (Standing, string, error) {
	signer, err := n.signer(ctx, o.Key)
	if err != nil {
		return Failed, ResultFailed, fmt.Errorf("the key to sign with: %w", err)
	}
	keys, err := o.Keychain(ctx)
	if err != nil {
		return Failed, ResultFailed, fmt.Errorf("the credentials to store with: %w", err)
	}
	subjects, err := n.subjects(ctx, o.Matter, keys)
	if err != nil {
		return Failed, ResultFailed, err
	}
	missing, err := n.missing(ctx, o.Matter, signer, subjects, keys)
	switch {
	case err != nil:
		return Failed, ResultFailed, err
	case len(missing) == 0:
		return Present, ResultPresent, nil
	case !write:
		return Absent, "", nil
	}
	s := o.Summary(n.options.Now())
	s.Subjects, s.Exemptions = subjects, o.Exemptions
	signed, err := Sign(ctx, signer, s)
	if err != nil {
		return Failed, ResultFailed, err
	}
	if _, err := Store(ctx, n.options.Registry, o.Repository, signed.Bundle, missing, keys); err != nil {
		return Failed, ResultFailed, err
	}
	return Present, ResultWritten, nil
}

func (n *Notary) subjects(ctx context.Context, m Matter, keys authn.Keychain) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Gather)
	defer cancel()
	return Subjects(ctx, n.options.Registry, m.Repository, m.Digest, keys)
}

// missing are those of the images that have no such evidence: by the key, of the
// environment, passed, under the same rules. What cannot be read may be it.
func (n *Notary) missing(ctx context.Context, m Matter, signer *attest.Signer, subjects []string, keys authn.Keychain) ([]string, error) {
	authorities := []gate.Authority{{Name: "own", PublicKeyPEM: signer.PublicKeyPEM()}}
	var out []string
	for _, digest := range subjects {
		there := func(so registry.Evidence) bool {
			image := &gate.Image{Repository: m.Repository, Digest: digest, Attestations: so.Attestations}
			return slices.ContainsFunc(n.verifier.Statements(ctx, authorities, image, evidence.PredicateType).Accepted, m.said)
		}
		found, err := n.ask(ctx, m.Repository, digest, there, keys)
		if err != nil {
			return nil, err
		}
		if !found {
			out = append(out, digest)
		}
	}
	return out, nil
}

// turnsOwner is whose turns it takes: what is attested must not hold up all decisions.
const turnsOwner = "attestations"

func (n *Notary) ask(ctx context.Context, repository, digest string, there func(registry.Evidence) bool, keys authn.Keychain) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Gather)
	defer cancel()
	// Whoever may push can have this read as much as a decision does.
	ctx, over := registry.InTurn(ctx, turnsOwner, 1)
	defer over()
	held, err := n.options.Registry.Evidence(ctx, repository, digest, gate.Want{Predicates: []string{evidence.PredicateType}}, there, keys)
	return err == nil && there(held), err
}

// said says whether a statement says what is to be said.
func (m Matter) said(statement gate.Statement) bool {
	s, err := evidence.Parse(statement.Payload)
	if err != nil {
		return false
	}
	environment, ok := s.Environment()
	return ok && environment == m.Environment && s.Result == evidence.Passed && s.Policy.Digest == m.PolicyDigest
}

// signer is kept for limits.KeyTTL: to decrypt a key as cosign does takes a second.
func (n *Notary) signer(ctx context.Context, k Key) (*attest.Signer, error) {
	if kept, ok := n.signers.Get(k.ID); ok {
		return kept.(*attest.Signer), nil
	}
	var signer *attest.Signer
	var err error
	switch {
	case k.KMS != "":
		signer, err = n.options.Keys.Signer(ctx, k.KMS)
	case len(k.Text) > 0:
		signer, err = attest.NewSigner(k.Text, k.Password)
	default:
		err = errors.New("there is none")
	}
	if err != nil {
		return nil, err
	}
	n.signers.Add(k.ID, signer, limits.KeyTTL)
	return signer, nil
}
