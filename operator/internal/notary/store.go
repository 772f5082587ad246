// Package notary stores what environments say of images: evidence is made, signed, and put
// beside the images in their registry, by whoever asks for it once, and by a Notary for
// the operator as often as it takes.
package notary

import (
	"context"
	"fmt"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/sluice-dev/sluice/operator/internal/attest"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/registry"
)

// Registry holds images, and evidence beside them.
type Registry interface {
	Evidence(ctx context.Context, repository, digest string, want gate.Want, enough func(registry.Evidence) bool, keys authn.Keychain) (registry.Evidence, error)
	Attach(ctx context.Context, repository, digest string, bundle []byte, predicateType string, keys authn.Keychain) error
}

// Matter is what evidence is about: an image, by repository and "sha256:<hex>", in an
// environment, under the rules that policyDigest stands for ("" where that is not known).
type Matter struct {
	Environment, PolicyDigest, Repository, Digest string
}

// Summary says that the image passed, at a time.
func (m Matter) Summary(at time.Time) evidence.Summary {
	return evidence.Summary{
		Subjects: []string{m.Digest}, Verifier: evidence.Verifier(m.Environment), Time: at, Resource: "oci://" + m.Repository + "@" + m.Digest, Result: evidence.Passed,
		Policy: evidence.Resource{URI: "https://sluice.dev/environments/" + m.Environment + "/policy", Digest: m.PolicyDigest},
	}
}

// Exemptions are those of a verdict, as they travel with evidence.
func Exemptions(v gate.Verdict) []evidence.Exemption {
	var out []evidence.Exemption
	for _, e := range v.Exemptions {
		out = append(out, evidence.Exemption{Name: e.Name, Reason: e.Reason, Expires: e.Expires, Policy: e.Policy, Message: e.Message})
	}
	return out
}

// Subjects are the image, and where it is an index those in it: a pod may name one of them,
// and nothing in the registry leads from it to the index.
func Subjects(ctx context.Context, from Registry, repository, digest string, keys authn.Keychain) ([]string, error) {
	held, err := from.Evidence(ctx, repository, digest, gate.Want{Children: true}, nil, keys)
	if err != nil {
		return nil, err
	}
	subjects := []string{digest}
	for _, c := range held.Children {
		subjects = append(subjects, c.Digest)
	}
	return subjects, nil
}

// Store signs a summary and stores it beside each of the images. It says how many have it,
// also when it fails; to do it again does no harm.
func Store(ctx context.Context, in Registry, signer *attest.Signer, repository string, s evidence.Summary, beside []string, keys authn.Keychain) (int, error) {
	statement, err := s.Statement()
	if err != nil {
		return 0, err
	}
	bundle, err := signer.Bundle(statement)
	if err != nil {
		return 0, err
	}
	for i, subject := range beside {
		if err := in.Attach(ctx, repository, subject, bundle, evidence.PredicateType, keys); err != nil {
			return i, fmt.Errorf("%d of %d images have the evidence: %w", i, len(beside), err)
		}
	}
	return len(beside), nil
}
