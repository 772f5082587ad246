package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

var images = []testCase{
	{1, "no signature, only the attestation that the Gate asks for", gate.OutcomeAllow, provenance, attestationOnly},
	{2, "no referrers API; the fallback index gives the empty config's type", gate.OutcomeAllow, "", fallbackIndex},
	{3, "key-signed by cosign v3: one bundle in a referrer", gate.OutcomeAllow, "release-key", bundleByKey},
	{4, "an ephemeral container with an unsigned image", gate.OutcomeDeny, "spec.ephemeralContainers[0].image", ephemeral},
	{5, "signed and named by tag where a digest is demanded", gate.OutcomeDeny, "demands a digest", tagOnly},
	{6, "a valid certificate whose identity matches nothing", gate.OutcomeDeny, "", otherIdentity},
	{7, "the signature is deleted and the image judged again", gate.OutcomeDeny, "", signatureDeleted},
	{8, "an index signed as a whole, with children for other platforms", gate.OutcomeAllow, "", indexSigned},
	{9, "an unsigned index whose children are signed, with signedBy: children", gate.OutcomeAllow, "", childrenSigned},
	{10, "an unsigned image volume", gate.OutcomeDeny, "spec.volumes[0].image.reference", imageVolume},
	{11, "a failed scan by the trusted identity where a signature is asked for", gate.OutcomeDeny, "", scanIsNoSignature},
	{12, "60 referrers of other types before the right one", gate.OutcomeAllow, "", manyReferrers},
	{13, "a trusted root in a file, and no call outside the registry", gate.OutcomeAllow, "", rootInFile},
	{14, "two authorities required, one signed", gate.OutcomeDeny, "audit-key", oneOfTwo},
	{15, "allowed by a glob without a signature, with no registry call", gate.OutcomeAllow, "", staticAllow},
}

func attestationOnly(ctx context.Context, b *bench) (gate.Verdict, error) {
	b.rule.Require = require("none")
	b.rule.Attestations = []v1beta1.AttestationRule{{PredicateType: provenance}}
	digest, err := b.push()
	if err != nil {
		return gate.Verdict{}, err
	}
	predicate := map[string]any{"runDetails": map[string]any{"builder": map[string]any{"id": "https://ci.example.com"}}}
	if err := b.key.AttestBundle(b.repository(), digest, provenance, predicate); err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1")
}

func fallbackIndex(ctx context.Context, b *bench) (gate.Verdict, error) {
	b.use(testkit.RegistryOptions{EmptyArtifactTypes: true})
	return bundleByKey(ctx, b)
}

func bundleByKey(ctx context.Context, b *bench) (gate.Verdict, error) {
	if _, err := b.signed(); err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1")
}

// signed pushes an image and signs it with the key, by a bundle.
func (b *bench) signed() (string, error) {
	digest, err := b.push()
	if err != nil {
		return "", err
	}
	return digest, b.key.SignBundle(b.repository(), digest)
}

// unsigned pushes another image.
func (b *bench) unsigned() (string, error) {
	image := b.registry.Host() + "/shop/unsigned:1"
	_, err := testkit.PushImage(image, "unsigned")
	return image, err
}

func ephemeral(ctx context.Context, b *bench) (gate.Verdict, error) {
	if _, err := b.signed(); err != nil {
		return gate.Verdict{}, err
	}
	other, err := b.unsigned()
	if err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1", func(spec map[string]any) {
		spec["ephemeralContainers"] = []any{map[string]any{"name": "debug", "image": other}}
	})
}

func imageVolume(ctx context.Context, b *bench) (gate.Verdict, error) {
	if _, err := b.signed(); err != nil {
		return gate.Verdict{}, err
	}
	other, err := b.unsigned()
	if err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1", func(spec map[string]any) {
		spec["volumes"] = []any{map[string]any{"name": "data", "image": map[string]any{"reference": other}}}
	})
}

func tagOnly(ctx context.Context, b *bench) (gate.Verdict, error) {
	b.rule.RequireDigest = true
	return bundleByKey(ctx, b)
}

var workflow = testkit.Identity{Subject: "https://git.example.com/shop/app/release.yml@refs/tags/v1", Issuer: "https://issuer.example.com"}

// keyless makes the rule ask for an identity, and signs as the workflow.
func (b *bench) keyless(subject string) (file string, err error) {
	sigstore, err := testkit.NewSigstore()
	if err != nil {
		return "", err
	}
	if file, err = rootFile(sigstore); err != nil {
		return "", err
	}
	b.rule.Authorities = []v1beta1.Authority{{Name: "workflow", Keyless: &v1beta1.Keyless{
		Issuer: workflow.Issuer, SubjectRegExp: subject, TrustedRoot: &v1beta1.TrustedRoot{File: file},
	}}}
	digest, err := b.push()
	if err != nil {
		return file, err
	}
	return file, sigstore.SignBundle(workflow, b.repository(), digest)
}

func otherIdentity(ctx context.Context, b *bench) (gate.Verdict, error) {
	file, err := b.keyless(`^https://git\.example\.com/shop/app/release\.yml@refs/heads/main$`)
	defer os.Remove(file)
	if err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1")
}

func rootInFile(ctx context.Context, b *bench) (gate.Verdict, error) {
	file, err := b.keyless(`^https://git\.example\.com/shop/app/release\.yml@refs/tags/v.+$`)
	defer os.Remove(file)
	if err != nil {
		return gate.Verdict{}, err
	}
	verdict, err := b.pod(ctx, b.repository()+":1")
	if n := b.outside.Load(); err == nil && n > 0 {
		err = fmt.Errorf("%d calls to a TUF repository", n)
	}
	return verdict, err
}

func signatureDeleted(ctx context.Context, b *bench) (gate.Verdict, error) {
	digest, err := b.push()
	if err != nil {
		return gate.Verdict{}, err
	}
	if err := b.key.SignTag(b.repository(), digest); err != nil {
		return gate.Verdict{}, err
	}
	before, err := b.pod(ctx, b.repository()+":1")
	if err != nil {
		return before, err
	}
	if before.Outcome != gate.OutcomeAllow {
		return before, fmt.Errorf("it is not even allowed while signed: %s", before.Canonical())
	}
	tag, err := name.ParseReference(b.repository() + ":" + testkit.SignatureTag(digest))
	if err != nil {
		return before, err
	}
	if err := remote.Delete(tag); err != nil {
		return before, err
	}
	b.now = b.now.Add(limits.CacheTTL + time.Second)
	return b.pod(ctx, b.repository()+":1")
}

// index pushes an index of two platforms and returns its digest and its children's.
func (b *bench) index() (digest string, children []string, err error) {
	index, err := testkit.Index("app")
	if err != nil {
		return "", nil, err
	}
	if digest, err = testkit.Push(b.repository()+":1", index); err != nil {
		return "", nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", nil, err
	}
	for _, m := range manifest.Manifests {
		children = append(children, m.Digest.String())
	}
	return digest, children, nil
}

func indexSigned(ctx context.Context, b *bench) (gate.Verdict, error) {
	digest, _, err := b.index()
	if err != nil {
		return gate.Verdict{}, err
	}
	if err := b.key.SignBundle(b.repository(), digest); err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1")
}

func childrenSigned(ctx context.Context, b *bench) (gate.Verdict, error) {
	b.rule.SignedBy = v1beta1.SignedByChildren
	_, children, err := b.index()
	if err != nil {
		return gate.Verdict{}, err
	}
	for _, child := range children {
		if err := b.key.SignBundle(b.repository(), child); err != nil {
			return gate.Verdict{}, err
		}
	}
	return b.pod(ctx, b.repository()+":1")
}

func scanIsNoSignature(ctx context.Context, b *bench) (gate.Verdict, error) {
	digest, err := b.push()
	if err != nil {
		return gate.Verdict{}, err
	}
	if err := b.key.AttestBundle(b.repository(), digest, vulnScan, map[string]any{"result": "FAILED"}); err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1")
}

func manyReferrers(ctx context.Context, b *bench) (gate.Verdict, error) {
	digest, err := b.push()
	if err != nil {
		return gate.Verdict{}, err
	}
	for i := range 60 {
		kind := fmt.Sprintf("https://other.example.com/%02d", i)
		if err := b.other.AttestBundle(b.repository(), digest, kind, map[string]any{"n": i}); err != nil {
			return gate.Verdict{}, err
		}
	}
	if err := b.key.SignBundle(b.repository(), digest); err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1")
}

func oneOfTwo(ctx context.Context, b *bench) (gate.Verdict, error) {
	b.rule.Authorities = append(b.rule.Authorities, byKey("audit-key", b.other))
	b.rule.Require = require("all")
	return bundleByKey(ctx, b)
}

func staticAllow(ctx context.Context, b *bench) (gate.Verdict, error) {
	b.rule = v1beta1.ImageRule{Match: b.registry.Host() + "/base/*", Require: require("none")}
	verdict, err := b.pod(ctx, b.registry.Host()+"/base/pause:3.10")
	if n := b.registry.Requests(); err == nil && n > 0 {
		err = fmt.Errorf("%d calls to the registry", n)
	}
	return verdict, err
}
