package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/scaffold"
)

type initOptions struct {
	registryFlags
	scaffold.Options
	key, trustedRoot      string
	attestors             string
	noArgoCD, noWorkflows bool
}

func initCommand(s streams) *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use:   "init DIR",
		Short: "Write a fleet repository to start from, which passes its own check",
		Long: `Write overlays for dev, ci, e2e and prod with their Gates, a first Workload, policies with
tests, workflows and Argo CD's files into DIR, which has to be empty or not there.

With --attestors each environment signs for what did well in it, and ci, e2e and prod
demand what the one before signed. Until an image has that, they are denied.

What no flag says is asked for on a terminal. The tag of --image is looked up, since ci,
e2e and prod demand a digest.`,
		Example: "  sluice init fleet --name shop --registry registry.example.com/shop --image registry.example.com/shop/web:1.0.0 --key cosign.pub --no-argocd\n" +
			"  sluice init fleet --name shop --registry registry.example.com/shop --key cosign.pub --attestors keys --no-argocd",
		Args: takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			// A variable that is not set must not make a fleet that demands less.
			if c.Flags().Changed("attestors") && o.attestors == "" {
				return usage("--attestors is empty: name a folder, or leave the flag out")
			}
			return o.run(c.Context(), s, args[0])
		},
	}
	c.Flags().StringVar(&o.Name, "name", "", "name of the fleet, and of its namespace")
	c.Flags().StringVar(&o.Registry, "registry", "", "registry with a path that its images come from")
	c.Flags().StringVar(&o.Image, "image", "", "image of the first Workload (default: web:1.0.0 of the registry)")
	c.Flags().StringVar(&o.key, "key", "", "PEM file with the signer's public key")
	c.Flags().StringVar(&o.Issuer, "issuer", "", "in place of a key: issuer of the signer's identity")
	c.Flags().StringVar(&o.Subject, "subject", "", "in place of a key: subject of the signer's certificate")
	c.Flags().StringVar(&o.trustedRoot, "trusted-root", "", "trusted_root.json to verify certificates against (default: that of the public Sigstore)")
	c.Flags().StringVar(&o.attestors, "attestors", "", "folder with dev.pub, ci.pub, e2e.pub and prod.pub, the public keys that the environments sign with")
	c.Flags().StringVar(&o.Repository, "repository", "", "URL that Argo CD clones the fleet from")
	c.Flags().BoolVar(&o.noArgoCD, "no-argocd", false, "leave Argo CD's files out")
	c.Flags().BoolVar(&o.noWorkflows, "no-workflows", false, "leave the workflows of GitHub Actions out")
	c.Flags().StringVar(&o.Version, "sluice-version", ownVersion(), "version of sluice that the workflows install")
	o.register(c)
	return c
}

// ownVersion is the version that this program was installed as; one that was built from a
// clone has none.
func ownVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") && !strings.Contains(info.Main.Version, "+") {
		return info.Main.Version
	}
	return "main"
}

func (o *initOptions) run(ctx context.Context, s streams, dir string) error {
	if err := vacant(dir); err != nil {
		return err
	}
	o.ArgoCD, o.Workflows = !o.noArgoCD, !o.noWorkflows
	if err := o.ask(s); err != nil {
		return err
	}
	for _, file := range []struct {
		flag, name string
		into       *string
	}{{"--key", o.key, &o.KeyPEM}, {"--trusted-root", o.trustedRoot, &o.TrustedRoot}} {
		if err := readFile(file.name, file.into); err != nil {
			return usage("%s: %w", file.flag, err)
		}
	}
	if err := o.readAttestors(); err != nil {
		return err
	}
	if o.Image == "" && o.Registry != "" {
		o.Image = o.Registry + "/web:1.0.0"
	}
	if faults := o.Faults(); len(faults) > 0 {
		return missing(faults)
	}
	if err := o.pin(ctx); err != nil {
		return err
	}
	files, err := scaffold.Files(o.Options)
	if err != nil {
		return usage("%w", err)
	}
	if err := writeFiles(dir, files); err != nil {
		return usage("%w", err)
	}
	_, err = io.WriteString(s.out, o.next(len(files), redact.Text(dir, limits.ErrorBytes)))
	return err
}

// missing names all that is wrong at once.
func missing(faults []error) error {
	e := &exit{code: ExitUsage, err: errors.New("what is needed to write a fleet is not there, or not right")}
	for _, fault := range faults {
		e.details = append(e.details, fault.Error())
	}
	return e
}

// next is what was written, what it demands, and what to do about it.
func (o *initOptions) next(files int, dir string) string {
	if len(o.Attestors) == 0 {
		return fmt.Sprintf("%d files are in %s. Next:\n  cd %[2]s && git init && sluice check overlays/prod\n"+
			"No environment demands signed evidence of the one before: give --attestors, a folder with a public key for each, to have that.\n", files, dir)
	}
	return fmt.Sprintf("%d files are in %s. ci, e2e and prod are denied until the image has evidence of the environment before. The operators sign it,\n"+
		"each with the key in Secret ENV-attestor of its cluster (README.md), or you do, environment by environment. Next:\n"+
		"  cd %[2]s && git init && sluice check overlays/dev\n"+
		"  sluice attest %s --environment dev --key KEYS/dev.key && sluice check overlays/ci\n", files, dir, o.Image)
}

// readAttestors reads the key of each environment from the folder that was named, if any.
func (o *initOptions) readAttestors() error {
	if o.attestors == "" {
		return nil
	}
	var faults []error
	o.Attestors = map[string]string{}
	for _, environment := range scaffold.Environments {
		var key string
		if err := readFile(filepath.Join(o.attestors, scaffold.KeyFile(environment)), &key); err != nil {
			faults = append(faults, fmt.Errorf("--attestors: %w", err))
		}
		o.Attestors[environment] = key
	}
	if len(faults) > 0 {
		return missing(faults)
	}
	return nil
}

// vacant refuses a folder that has anything in it.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return usage("%w", err)
	case len(entries) > 0:
		return usage("%s is not empty: name a folder that is, or that is not there", dir)
	}
	return nil
}

// readFile reads a key or a root; no name, no file.
func readFile(name string, into *string) error {
	if name == "" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limits.TrustedRootBytes+1))
	if err != nil {
		return err
	}
	if len(raw) > limits.TrustedRootBytes {
		return fmt.Errorf("%s is larger than %d bytes (limits.TrustedRootBytes)", name, limits.TrustedRootBytes)
	}
	*into = string(raw)
	return nil
}

// ask asks for what has to be known and no flag says, where there is somebody to ask.
func (o *initOptions) ask(s streams) error {
	if !isTerminal(s.in) {
		return nil
	}
	in := bufio.NewReader(io.LimitReader(s.in, limits.SourceFileBytes))
	noKey, noURL := o.key == "" && o.Issuer == "" && o.Subject == "", o.ArgoCD && o.Repository == ""
	// A fleet without attestors is whole: that alone is nothing to hold a script up for.
	asks := o.Name == "" || o.Registry == "" || o.Image == "" || noKey || noURL
	for _, q := range []struct {
		text string
		into *string
		when bool
	}{
		{"Name of the fleet, which is its namespace too: ", &o.Name, o.Name == ""},
		{"Registry with a path, such as registry.example.com/shop: ", &o.Registry, o.Registry == ""},
		{"Image of the first Workload (empty: web:1.0.0 of the registry): ", &o.Image, o.Image == ""},
		{"File with the signer's public key (empty: signed by identity): ", &o.key, noKey},
		{"Folder with dev.pub, ci.pub, e2e.pub and prod.pub, which the environments sign with (empty: none demands evidence): ", &o.attestors, asks && o.attestors == ""},
		{"URL that Argo CD clones the fleet from (empty: no Argo CD): ", &o.Repository, noURL},
	} {
		if err := prompt(s, in, q.text, q.into, q.when); err != nil {
			return err
		}
	}
	o.ArgoCD = o.ArgoCD && o.Repository != ""
	identity := o.key == ""
	if err := prompt(s, in, "Issuer of the signer's identity: ", &o.Issuer, identity && o.Issuer == ""); err != nil {
		return err
	}
	return prompt(s, in, "Subject of the signer's certificate: ", &o.Subject, identity && o.Subject == "")
}

func prompt(s streams, in *bufio.Reader, text string, into *string, when bool) error {
	if !when {
		return nil
	}
	if _, err := fmt.Fprint(s.err, text); err != nil {
		return usage("ask: %w", err)
	}
	line, err := in.ReadString('\n')
	if err != nil {
		return usage("no answer: %w", err)
	}
	*into = strings.TrimSpace(line)
	return nil
}

// pin looks the digest of the first image up. What is wrong with the image otherwise is
// said when it is validated.
func (o *initOptions) pin(ctx context.Context) error {
	ref, err := images.Parse(o.Image)
	if err != nil || ref.Pinned() {
		return nil
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.Gather)
	defer cancel()
	digest, err := client.Resolve(ctx, ref, authn.DefaultKeychain)
	if err != nil {
		return &exit{code: ExitUndecided, err: fmt.Errorf("--image=%s: its digest is not known: %w, or give --image with its digest", o.Image, err)}
	}
	o.Image += "@" + digest
	return nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		target := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(files[name])
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
