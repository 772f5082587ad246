// Command pipeline runs on this machine what the release and promotion workflows run, by
// the same make targets, against a registry on loopback, and checks what comes of it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// version that is released: it is no release of anybody's.
const version = "0.0.1-pipeline"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nFAILED: "+err.Error())
		os.Exit(1)
	}
}

// pipeline is what the steps share.
type pipeline struct {
	root, dist, registry, repository string
	// image, chart and bundle that were pushed, by digest.
	image, chart, bundle string
	env                  []string
}

func run(ctx context.Context) error {
	root, err := stage.Root()
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
		"COSIGN_PASSWORD=", "DIST=" + dist, "VERSION=" + version, "REPOSITORY=" + p.repository, "HELM_FLAGS=--plain-http",
		"PLATFORMS=" + platforms(),
		"SIGN=--yes --key=" + p.key() + " --tlog-upload=false --use-signing-config=false --allow-http-registry",
		"HELM_CACHE_HOME=" + dist, "HELM_CONFIG_HOME=" + dist, "HELM_DATA_HOME=" + dist,
	}
	return p.steps(ctx)
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

func (p *pipeline) steps(ctx context.Context) error {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	begin := time.Now()
	for i, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"Build the image and push it, twice to the same digest", p.build},
		{"Pack the chart and the OLM bundle for that digest, and push them", p.pack},
		{"Sign all three, attest the image's SBOM and provenance", p.sign},
		{"The gate takes the chart's Deployment, and no image that lacks any of it", p.judge},
		{"The overlays are in order, and pass their Gates", p.overlays},
		{"The CRDs break nothing that the last release accepted", p.definitions},
		{"Evidence of ci and e2e is signed, and found by the next Gate", p.promote},
	} {
		fmt.Printf("%d. %s\n", i+1, step.title)
		start := time.Now()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, step.title, err)
		}
		fmt.Fprintf(w, "%.1f s\t  %s\n", time.Since(start).Seconds(), step.title)
	}
	fmt.Fprintf(w, "%.1f s\t  in all\n", time.Since(begin).Seconds())
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("\n%s\nReleased, checked, and gone with the registry:\n  %s\n  %s\n  %s\n", table.String(), p.image, p.chart, p.bundle)
	return nil
}

// output is how a program ended.
type output struct {
	stdout, stderr string
	code           int
}

// run runs a program in the root of the repository.
func (p *pipeline) run(ctx context.Context, stdin, name string, args ...string) (output, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = p.root
	c.Env = append(os.Environ(), p.env...)
	c.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return output{}, fmt.Errorf("run %s: %w", name, err)
	}
	return output{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}, nil
}

// must is run where nothing but success will do.
func (p *pipeline) must(ctx context.Context, stdin, name string, args ...string) (string, error) {
	out, err := p.run(ctx, stdin, name, args...)
	if err != nil {
		return "", err
	}
	if out.code != 0 {
		return "", fmt.Errorf("%s %s: exit code %d\n%s%s", filepath.Base(name), strings.Join(args, " "), out.code, out.stdout, out.stderr)
	}
	return out.stdout, nil
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

func say(text string) { fmt.Println("   OK: " + text) }
