// Package notary stores what environments say of images: evidence is made, signed, and put
// beside the images in their registry, by whoever asks for it once, and by a Notary for
// the operator as often as it takes.
package notary

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
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

// Signer signs evidence.
type Signer interface {
	// Bundle is a sigstore bundle around an in-toto statement.
	Bundle(ctx context.Context, statement []byte) ([]byte, error)
	// Authority is who a Gate has to name for such a bundle to count.
	Authority(bundle []byte) (gate.Authority, error)
}

// Signed is evidence that verifies.
type Signed struct {
	Bundle []byte
	// By is who signed it.
	By gate.Authority
}

// Sign signs a summary, and verifies it as a Gate would: what nobody can verify is an error,
// and is not to be stored.
func Sign(ctx context.Context, signer Signer, s evidence.Summary) (Signed, error) {
	statement, err := s.Statement()
	if err != nil {
		return Signed{}, err
	}
	bundle, err := signer.Bundle(ctx, statement)
	if err != nil {
		return Signed{}, err
	}
	by, err := signer.Authority(bundle)
	if err != nil {
		return Signed{}, fmt.Errorf("nothing is stored: %w", err)
	}
	image := &gate.Image{Digest: s.Subjects[0], Attestations: []gate.Signature{{Format: gate.FormatBundle, Bundle: bundle}}}
	held := signature.New().Statements(ctx, []gate.Authority{by}, image, evidence.PredicateType)
	if len(held.Accepted) == 0 {
		why := slices.Concat(held.Unusable, held.Unread, held.Reasons)
		return Signed{}, fmt.Errorf("nothing is stored: no Gate could verify what was signed: %s", redact.Text(strings.Join(why, "; "), limits.MessageBytes))
	}
	return Signed{Bundle: bundle, By: by}, nil
}

// Store stores evidence beside each of the images. It says how many have it, also when it
// fails; to do it again does no harm.
func Store(ctx context.Context, in Registry, repository string, bundle []byte, beside []string, keys authn.Keychain) (int, error) {
	for i, subject := range beside {
		if err := in.Attach(ctx, repository, subject, bundle, evidence.PredicateType, keys); err != nil {
			return i, fmt.Errorf("%d of %d images have the evidence: %w", i, len(beside), err)
		}
	}
	return len(beside), nil
}
