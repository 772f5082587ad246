// Command lab is what `sluice lab up` becomes: a cluster on this machine that runs Sluice
// from an overlay, until interrupted. Exit codes and messages are those of sluice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

func main() {
	// The cluster's clients log to a global logger, which prints a stack when nobody set it.
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends what does not stop by the first.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs a lab until the context ends, and returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	o := stage.Options{Log: errOut}
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&o.Overlay, "overlay", "kustomize/overlays/dev", "overlay to apply, below the repository's root")
	flags.StringVar(&o.Dir, "dir", "", "folder for kubeconfig and logs (default: temporary)")
	flags.StringVar(&o.Manager, "manager", "", "operator binary (default: bin/manager)")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return cli.ExitPass
	case err != nil:
		return cli.ExitUsage // the flags have said what is wrong
	case flags.NArg() > 0:
		return ended(errOut, cli.ExitUsage, fmt.Errorf("%q is one word too many: the lab takes flags only", flags.Arg(0)))
	}
	var err error
	if o.Root, err = clone.Root(); err != nil {
		return ended(errOut, cli.ExitUsage, err)
	}
	if o.Manager == "" {
		o.Manager = filepath.Join(o.Root, "bin", "manager")
	}
	if err := up(ctx, o, out, errOut); err != nil {
		return ended(errOut, cli.ExitUndecided, err)
	}
	return cli.ExitPass
}

// ended says why the lab ends, in lines that no terminal takes for a command: the end of a
// program's log is among them.
func ended(errOut io.Writer, code int, err error) int {
	prefix := "sluice: "
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(errOut, prefix+redact.Text(strings.TrimSuffix(line, "\n"), limits.ErrorBytes))
		prefix = "  "
	}
	return code
}

// up runs the lab until the context or one of its programs ends. The former is no error.
func up(ctx context.Context, o stage.Options, out, errOut io.Writer) error {
	st, err := stage.Up(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := furnish(st); err != nil {
		return st.Failed(err)
	}
	fmt.Fprintf(out, "export KUBECONFIG=%s LAB=%s REGISTRY=%s COSIGN_PASSWORD=\n", st.Cluster.Kubeconfig(), st.Cluster.Dir(), st.RegistryAddress)
	fmt.Fprintf(errOut, "registry %s is at %s; the operator's log is %s\nStop with Ctrl-C.\n", stage.Registry, st.RegistryAddress, st.Manager.Log())
	if err := st.Cluster.Wait(ctx); err != nil && ctx.Err() == nil {
		return st.Failed(err)
	}
	return st.Stop()
}

// furnish adds what somebody needs who tries it out: an image that nobody signed, the key
// to sign it with, those of the environments that the Gate names, and the manifest of the
// Secrets that it has public halves from.
func furnish(st *stage.Stage) error {
	if _, err := st.Push("shop/hello:1.0.0"); err != nil {
		return err
	}
	var signer []byte
	for _, secret := range st.PublicKeys() {
		document, err := yaml.Marshal(secret.Object)
		if err != nil {
			return fmt.Errorf("signer.yaml: %w", err)
		}
		signer = append(append(signer, "---\n"...), document...)
	}
	files := map[string][]byte{"cosign.key": []byte(st.Key.PrivatePEM), "cosign.pub": []byte(st.Key.PublicPEM), "signer.yaml": signer}
	for environment, key := range st.Attestors {
		files[stage.AttestorSecret(environment)+".key"] = []byte(key.PrivatePEM)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(st.Cluster.Dir(), name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
