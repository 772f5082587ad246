package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/scaffold"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// overlays serves the images of the sample fleet and checks what a pull request to the
// overlays would be checked for, before and after the environment before has attested them.
// The reports are written to the folder SARIF, if that is set.
func overlays(ctx context.Context, p *pipeline) error {
	if err := p.targets(ctx, "overlays"); err != nil {
		return err
	}
	if err := p.serve(); err != nil {
		return err
	}
	folder, before := filepath.Join("kustomize", "overlays"), ""
	for _, environment := range scaffold.Environments {
		if before != "" {
			out, err := p.check(ctx, folder, environment, "text")
			if err != nil {
				return err
			}
			if want := lacks(before); out.Code != 1 || !strings.Contains(out.Stdout, want) {
				return fmt.Errorf("overlay %s without evidence of %s: exit code %d, and not 1 because %q\n%s%s", environment, before, out.Code, want, out.Stdout, out.Stderr)
			}
			if err := p.attest(ctx, folder, before); err != nil {
				return err
			}
		}
		if err := p.passes(ctx, folder, environment, os.Getenv("SARIF")); err != nil {
			return err
		}
		before = environment
	}
	stepwise.Saw("dev passes; ci, e2e and prod are denied before the environment before them attests the images, and pass after")
	return nil
}

// lacks is what a Gate says of an image that has no evidence of an environment.
func lacks(environment string) string {
	return "image has no evidence that it passed environment " + environment
}

// serve pushes and signs the images of the sample fleet, and makes the keys that the
// overlays' Gates name: of the release, and of each environment.
func (p *pipeline) serve() error {
	if err := os.MkdirAll(p.keys(), 0o700); err != nil {
		return err
	}
	var err error
	if p.release, err = p.newKey(stage.SignerSecret); err != nil {
		return err
	}
	for _, environment := range scaffold.Environments {
		key, err := p.newKey(stage.AttestorSecret(environment))
		if err != nil {
			return err
		}
		if err := os.WriteFile(p.attestor(environment), []byte(key.PrivatePEM), 0o600); err != nil {
			return err
		}
	}
	_, err = stage.PushFleet(p.registry, p.release)
	return err
}

// newKey makes a key, and writes the Secret with its public half.
func (p *pipeline) newKey(secret string) (*testkit.Key, error) {
	key, err := testkit.NewKey()
	if err != nil {
		return nil, err
	}
	manifest, err := stage.KeyManifest(secret, key).MarshalJSON()
	if err != nil {
		return nil, err
	}
	return key, os.WriteFile(filepath.Join(p.keys(), secret+".json"), manifest, 0o600)
}

// keys is a folder with the public keys that the overlays' Gates name; attestor is where
// the whole key of an environment is.
func (p *pipeline) keys() string { return filepath.Join(p.dist, "keys") }
func (p *pipeline) attestor(environment string) string {
	return filepath.Join(p.dist, environment+".key")
}
func (p *pipeline) mirror() string { return "--registry-mirror=" + stage.Registry + "=" + p.registry }

// check checks one overlay. Each is another cluster's, so that they are not checked as one.
func (p *pipeline) check(ctx context.Context, folder, environment, format string) (stepwise.Output, error) {
	return p.run(ctx, "", p.sluice(), "check", filepath.Join(folder, environment), "--gate="+p.keys(), "--format="+format, p.mirror())
}

// passes wants an overlay to pass, and its report without findings. The report is written to
// the folder reports, if that is set.
func (p *pipeline) passes(ctx context.Context, folder, environment, reports string) error {
	out, err := p.check(ctx, folder, environment, "sarif")
	if err != nil {
		return err
	}
	if reports != "" { // also of what does not pass
		err := errors.Join(os.MkdirAll(reports, 0o755), os.WriteFile(filepath.Join(reports, environment+".sarif"), []byte(out.Stdout), 0o644))
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

// attest signs with an environment's key that every image of its overlay passed there, by
// the verdict of its Gate.
func (p *pipeline) attest(ctx context.Context, folder, environment string) error {
	out, err := stepwise.Must(p.check(ctx, folder, environment, "json"))
	if err != nil {
		return fmt.Errorf("overlay %s: %w", environment, err)
	}
	verdict := filepath.Join(p.dist, "verdict-"+environment+".json")
	if err := os.WriteFile(verdict, []byte(out), 0o600); err != nil {
		return err
	}
	var verdicts []gate.Verdict
	if err := json.Unmarshal([]byte(out), &verdicts); err != nil {
		return fmt.Errorf("verdict over overlay %s: %w: %s", environment, err, out)
	}
	attested := map[string]bool{}
	for _, v := range verdicts {
		for _, i := range v.Images {
			name, _, _ := strings.Cut(i.Image, "@")
			if image := name + "@" + i.Digest; !attested[image] {
				attested[image] = true
				if _, err := p.must(ctx, "", p.sluice(), "attest", image, "--environment="+environment, "--key="+p.attestor(environment), "--verdict="+verdict, p.mirror()); err != nil {
					return err
				}
			}
		}
	}
	if len(attested) != fleetImages {
		return fmt.Errorf("overlay %s: %d images are attested, and the fleet has %d", environment, len(attested), fleetImages)
	}
	return nil
}

// fleetImages is how many images the sample fleet has: two Workloads', and a backup's.
const fleetImages = 3
