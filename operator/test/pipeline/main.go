// Command pipeline runs on this machine what the release and promotion workflows run, by
// the same make targets, against a registry on loopback, and checks what comes of it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// version that is released: it is no release of anybody's.
const version = "0.0.1-pipeline"

func main() { stepwise.Main(run) }

// pipeline is what the steps share.
type pipeline struct {
	root, dist, registry, repository string
	// image, chart and bundle that were pushed, by digest.
	image, chart, bundle string
	env                  []string
	// release is the key that signs the sample fleet's images.
	release *testkit.Key
}

func run(ctx context.Context) error {
	root, err := clone.Root()
	if err != nil {
		return err
	}
	address, stop, err := lab.StartRegistry()
	if err != nil {
		return err
	}
	defer stop()
	dist, err := os.MkdirTemp("", "sluice-pipeline-")
	if err != nil {
		return fmt.Errorf("folder of the pipeline: %w", err)
	}
	defer os.RemoveAll(dist)
	p := &pipeline{root: root, dist: dist, registry: address, repository: address + "/sluice"}
	p.env = []string{
		"LC_ALL=C", // make's words for an error are looked for
		"COSIGN_PASSWORD=", "DIST=" + dist, "VERSION=" + version, "REPOSITORY=" + p.repository, "HELM_FLAGS=--plain-http",
		"PLATFORMS=" + platforms(),
		"SIGN=--yes --key=" + p.key() + " --tlog-upload=false --use-signing-config=false --allow-http-registry",
		"HELM_CACHE_HOME=" + dist, "HELM_CONFIG_HOME=" + dist, "HELM_DATA_HOME=" + dist,
	}
	if err := stepwise.Take(ctx, p, steps); err != nil {
		return err
	}
	fmt.Printf("\nReleased, checked, and gone with the registry:\n  %s\n  %s\n  %s\n", p.image, p.chart, p.bundle)
	return nil
}

// platforms to build for: this machine's, or PLATFORMS. Another one takes some minutes with
// empty caches.
func platforms() string {
	if asked := os.Getenv("PLATFORMS"); asked != "" {
		return asked
	}
	return "linux/" + runtime.GOARCH
}

func (p *pipeline) key() string  { return filepath.Join(p.dist, "cosign.key") }
func (p *pipeline) gate() string { return filepath.Join(p.dist, "gate.yaml") }

var steps = []stepwise.Step[*pipeline]{
	{Title: "Build the image and push it, twice to the same digest", Run: build},
	{Title: "Pack the chart and the OLM bundle for that digest, and push them", Run: pack},
	{Title: "Sign all three, attest the image's SBOM and provenance", Run: sign},
	{Title: "The gate takes the chart's Deployment, and no image that lacks any of it", Run: judge},
	{Title: "The overlays are in order, and pass their Gates with evidence of the environment before", Run: overlays},
	{Title: "The CRDs break nothing that the last release accepted", Run: definitions},
	{Title: "An image gets from dev to prod, attested in each environment before the next takes it", Run: promote},
}

// run runs a program in the root of the repository.
func (p *pipeline) run(ctx context.Context, stdin, name string, args ...string) (stepwise.Output, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = p.root
	c.Env = append(os.Environ(), p.env...)
	c.Stdin = strings.NewReader(stdin)
	return stepwise.Run(c)
}

// must is run where nothing but success will do.
func (p *pipeline) must(ctx context.Context, stdin, name string, args ...string) (string, error) {
	out, err := stepwise.Must(p.run(ctx, stdin, name, args...))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return out, nil
}

// targets runs make targets whose variables are in the environment.
func (p *pipeline) targets(ctx context.Context, targets ...string) error {
	_, err := p.must(ctx, "", "make", append([]string{"--no-print-directory"}, targets...)...)
	return err
}

func (p *pipeline) tool(name string) string { return filepath.Join(p.root, "bin", "tools", name) }
func (p *pipeline) sluice() string          { return filepath.Join(p.root, "bin", "sluice") }

// pushed reads the reference that a target wrote.
func (p *pipeline) pushed(name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(p.dist, name+".txt"))
	if err != nil {
		return "", err
	}
	ref := strings.TrimSpace(string(raw))
	if !strings.HasPrefix(ref, p.repository+"/") || !strings.Contains(ref, "@sha256:") {
		return "", fmt.Errorf("%s was pushed as %q, want a digest below %s", name, ref, p.repository)
	}
	return ref, nil
}
