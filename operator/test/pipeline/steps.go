package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

func build(ctx context.Context, p *pipeline) error {
	var refs []string
	for range 2 {
		if err := p.targets(ctx, "image-oci"); err != nil {
			return err
		}
		ref, err := p.pushed("image")
		if err != nil {
			return err
		}
		refs = append(refs, ref)
	}
	if refs[0] != refs[1] {
		return fmt.Errorf("the same commit gave %s and %s", refs[0], refs[1])
	}
	p.image = refs[0]
	stepwise.Saw(p.image)
	return nil
}

func pack(ctx context.Context, p *pipeline) (err error) {
	if err := p.targets(ctx, "chart-oci", "bundle-oci"); err != nil {
		return err
	}
	if p.chart, err = p.pushed("chart"); err != nil {
		return err
	}
	if p.bundle, err = p.pushed("bundle"); err != nil {
		return err
	}
	manifests, err := p.rendered(ctx)
	if err != nil {
		return err
	}
	repository, digest, _ := strings.Cut(p.image, "@")
	if want := repository + ":" + version + "@" + digest; !strings.Contains(manifests, want) {
		return fmt.Errorf("the chart that was pushed does not run %s", want)
	}
	csv, err := os.ReadFile(filepath.Join(p.dist, "bundle", "manifests", "sluice.clusterserviceversion.yaml"))
	if err != nil {
		return err
	}
	if strings.Count(string(csv), "@"+digest) < 3 { // Deployment, relatedImages, containerImage
		return fmt.Errorf("the bundle does not run %s", p.image)
	}
	stepwise.Saw("both run that digest")
	return nil
}

// rendered is what the chart renders to, as it comes from the registry.
func (p *pipeline) rendered(ctx context.Context) (string, error) {
	return p.must(ctx, "", p.tool("helm"), "template", "sluice", "oci://"+p.repository+"/charts/sluice", "--version="+version, "--plain-http", "--namespace=sluice-system", "--set=namespace.create=true")
}

func sign(ctx context.Context, p *pipeline) error {
	keys := strings.TrimSuffix(p.key(), ".key")
	if _, err := p.must(ctx, "", p.tool("cosign"), "generate-key-pair", "--output-key-prefix="+keys); err != nil {
		return err
	}
	if err := p.targets(ctx, "sign"); err != nil {
		return err
	}
	for _, ref := range []string{p.image, p.chart, p.bundle} {
		if _, err := p.must(ctx, "", p.sluice(), "verify", ref, "--key="+keys+".pub"); err != nil {
			return err
		}
	}
	stepwise.Saw("sluice verify accepts the signatures")
	return nil
}

// demands is a Gate over the operator's own Deployment: it has to be signed, with an SBOM of
// more than a hundred packages, and with provenance of this commit.
const demands = `apiVersion: sluice.dev/v1beta1
kind: Gate
metadata: {name: platform}
spec:
  environment: platform
  match: {kinds: [Deployment]}
  policies: [{builtin: restricted}, {builtin: secrets}, {builtin: supply_chain}, {builtin: network}, {builtin: reliability}]
  parameters: {reliability: {minReplicas: 2}, supply_chain: {allowedRegistries: [%[1]s], requireDigest: true}}
  images:
    - match: %[1]s/**
      requireDigest: true
      authorities: [{name: release-key, key: {inline: %[2]q}}]
      attestations:
        - predicateType: https://spdx.dev/Document
          policy: |
            package sbom
            deny contains "fewer than a hundred packages" if count(input.predicate.packages) < 100
        - predicateType: https://slsa.dev/provenance/v1
          policy: |
            package provenance
            commits contains d.digest.gitCommit if some d in input.predicate.buildDefinition.resolvedDependencies
            deny contains "it is of another commit" if not %[3]q in commits
  unmatchedImages: Deny
`

func judge(ctx context.Context, p *pipeline) error {
	public, err := os.ReadFile(strings.TrimSuffix(p.key(), ".key") + ".pub")
	if err != nil {
		return err
	}
	commit, err := p.must(ctx, "", "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	gate := fmt.Sprintf(demands, p.repository, public, strings.TrimSpace(commit))
	if err := os.WriteFile(p.gate(), []byte(gate), 0o600); err != nil {
		return err
	}
	manifests, err := p.rendered(ctx)
	if err != nil {
		return err
	}
	if _, err := p.must(ctx, manifests, p.sluice(), "check", "-", "--gate="+p.gate()); err != nil {
		return err
	}
	stepwise.Saw("signature, SBOM and provenance are what the Gate demands")
	return p.refused(ctx, manifests)
}

// refused has the same manifests name the bundle, which is signed and has no SBOM, and an
// image that nobody signed.
func (p *pipeline) refused(ctx context.Context, manifests string) error {
	digest, err := testkit.PushImage(p.repository+"/manager:unsigned", "unsigned")
	if err != nil {
		return err
	}
	_, good, _ := strings.Cut(p.image, "@")
	_, bundle, _ := strings.Cut(p.bundle, "@")
	for what, other := range map[string]string{
		"has no attestation": strings.ReplaceAll(strings.ReplaceAll(manifests, good, bundle), "/manager:", "/bundle:"),
		"has no signature":   strings.ReplaceAll(manifests, good, digest),
	} {
		out, err := p.run(ctx, other, p.sluice(), "check", "-", "--gate="+p.gate())
		if err != nil {
			return err
		}
		if out.Code != 1 || !strings.Contains(out.Stdout, what) {
			return fmt.Errorf("an image that %s: exit code %d and not 1\n%s%s", what, out.Code, out.Stdout, out.Stderr)
		}
		stepwise.Saw("one that " + what + " is denied")
	}
	return nil
}

func definitions(ctx context.Context, p *pipeline) error {
	if err := p.targets(ctx, "crd-check"); err != nil {
		return err
	}
	stepwise.Saw("make crd-check")
	return nil
}
