package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
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

// overlays serves the images of the sample fleet and checks what a pull request to the
// overlays would be checked for. The reports are written to the folder SARIF, if that is set.
func overlays(ctx context.Context, p *pipeline) error {
	if err := p.targets(ctx, "overlays"); err != nil {
		return err
	}
	signer, err := p.fleet()
	if err != nil {
		return err
	}
	for _, environment := range []string{"dev", "ci", "e2e", "prod"} {
		if err := p.passes(ctx, environment, signer); err != nil {
			return err
		}
	}
	stepwise.Saw("dev, ci, e2e and prod pass")
	return nil
}

// passes checks one overlay. Each is another cluster's, so that they are not checked as one.
func (p *pipeline) passes(ctx context.Context, environment, signer string) error {
	out, err := p.run(ctx, "", p.sluice(), "check", "kustomize/overlays/"+environment, "--gate="+signer, "--format=sarif",
		"--registry-mirror="+stage.Registry+"="+p.registry)
	if err != nil {
		return err
	}
	if folder := os.Getenv("SARIF"); folder != "" { // also of what does not pass
		err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, environment+".sarif"), []byte(out.Stdout), 0o644))
		if err != nil {
			return err
		}
	}
	if out.Code != 0 {
		return fmt.Errorf("overlay %s does not pass: exit code %d\n%s%s", environment, out.Code, out.Stdout, out.Stderr)
	}
	var log struct {
		Version string
		Runs    []struct{ Results []any }
	}
	if err := json.Unmarshal([]byte(out.Stdout), &log); err != nil || log.Version != "2.1.0" || len(log.Runs) != 1 || len(log.Runs[0].Results) != 0 {
		return fmt.Errorf("the report over %s is no SARIF 2.1.0 without findings (%w): %s", environment, err, out.Stdout)
	}
	return nil
}

// fleet pushes and signs the images of the sample fleet, and writes the key that the
// overlays' Gates name.
func (p *pipeline) fleet() (string, error) {
	key, err := testkit.NewKey()
	if err != nil {
		return "", err
	}
	for _, image := range []string{"orders-db:15.3.0", "cache:7.2.4", "backup:1.2.0"} {
		digest, err := testkit.PushImage(p.registry+"/shop/"+image, "shop/"+image)
		if err != nil {
			return "", err
		}
		name, _, _ := strings.Cut(image, ":")
		if err := key.SignTag(p.registry+"/shop/"+name, digest); err != nil {
			return "", err
		}
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": stage.SignerSecret, "namespace": stage.OperatorNamespace},
		"stringData": map[string]any{"cosign.pub": key.PublicPEM},
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(p.dist, "signer.yaml")
	return file, os.WriteFile(file, manifest, 0o600)
}

func definitions(ctx context.Context, p *pipeline) error {
	if err := p.targets(ctx, "crd-check"); err != nil {
		return err
	}
	stepwise.Saw("make crd-check")
	return nil
}

// promotions is a Gate that wants the image from an environment.
const promotions = `apiVersion: sluice.dev/v1beta1
kind: Gate
metadata: {name: %[1]s}
spec:
  environment: %[1]s
  match: {kinds: [Deployment]}
  images: [{match: "%[4]s/**", requireDigest: true, authorities: [{name: release-key, key: {inline: %[3]q}}]}]
  requirePromotionFrom: {environment: %[2]s, authorities: [{name: attestor, key: {inline: %[3]q}}]}
`

// promote signs for each environment what the Gate of the next demands. Before, that Gate
// denies.
func promote(ctx context.Context, p *pipeline) error {
	public, err := os.ReadFile(strings.TrimSuffix(p.key(), ".key") + ".pub")
	if err != nil {
		return err
	}
	for _, step := range []struct{ from, to string }{{"ci", "e2e"}, {"e2e", "prod"}} {
		gate := filepath.Join(p.dist, step.to+".yaml")
		if err := os.WriteFile(gate, []byte(fmt.Sprintf(promotions, step.to, step.from, public, p.repository)), 0o600); err != nil {
			return err
		}
		for _, attested := range []bool{false, true} {
			if attested {
				if _, err := p.must(ctx, "", p.sluice(), "attest", p.image, "--environment="+step.from, "--key="+p.key()); err != nil {
					return err
				}
			}
			out, err := p.run(ctx, "", p.sluice(), "history", p.image, "--gate="+gate)
			if err != nil {
				return err
			}
			if want := map[bool]int{false: 1, true: 0}[attested]; out.Code != want {
				return errors.Join(fmt.Errorf("history for Gate %s, evidence of %s signed: %t: exit code %d and not %d", step.to, step.from, attested, out.Code, want),
					errors.New(out.Stdout+out.Stderr))
			}
		}
		stepwise.Saw("Gate " + step.to + " denies it before and takes it after evidence of " + step.from)
	}
	return nil
}
