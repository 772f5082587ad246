// Package scaffold writes a fleet repository to start from: overlays for four environments
// with their Gates, policies with tests, and what checks, promotes and syncs them. It is
// pure: options in, files out.
package scaffold

import (
	"bytes"
	"embed"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/sluice-dev/sluice/kustomize/argocd"
	workloadkustomize "github.com/sluice-dev/sluice/kustomize/components/workload-kustomize"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/images"
)

// Environments in the order in which a change goes through them.
var Environments = []string{"dev", "ci", "e2e", "prod"}

// Options are the choices of a fleet.
type Options struct {
	// Name of the fleet: its namespace, and the name of its Argo CD project.
	Name string
	// Registry with a path, such as registry.example.com/shop: where its images come from.
	Registry string
	// Image of the first Workload, by digest.
	Image string
	// KeyPEM is the public key of the signer. Without one it is Issuer and Subject.
	KeyPEM          string
	Issuer, Subject string
	// Attestors are the public keys that the environments sign evidence with, by environment:
	// one for each, or none. With them each Gate signs for what does well in its environment,
	// and demands what the one before signed.
	Attestors map[string]string
	// TrustedRoot is a trusted_root.json; empty means the public Sigstore's.
	TrustedRoot string
	// ArgoCD writes an AppProject and an ApplicationSet that sync from Repository, a URL.
	ArgoCD     bool
	Repository string
	// Workflows writes workflows of GitHub Actions that install Version of the sluice command.
	Workflows bool
	Version   string
}

var (
	// They are large for what they say, and for one command alone.
	label   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]([a-z0-9-]{0,50}[a-z0-9])?$`) })
	version = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+/-]{0,127}$`) })
)

// Faults names every choice that does not do, by its flag. That the image has a digest is
// for Files to see.
func (o Options) Faults() []error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !label().MatchString(o.Name) {
		add("--name=%q has to be a DNS label that starts with a letter", o.Name)
	}
	registry, err := images.Parse(o.Registry + "/any")
	known := err == nil && registry.Repository == o.Registry+"/any"
	if !known {
		add("--registry=%q has to be a registry with a path, such as registry.example.com/shop", o.Registry)
	}
	// Without a registry there is no image to speak of, unless one was given.
	switch image, err := images.Parse(o.Image); {
	case err != nil && (known || o.Image != ""):
		add("--image: %w", err)
	case known && !strings.HasPrefix(image.Repository, o.Registry+"/"):
		add("--image=%q is not below --registry=%q", o.Image, o.Registry)
	}
	if err := o.authorityFault(); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, o.attestorFaults()...)
	if u, err := url.Parse(o.Repository); o.ArgoCD && (err != nil || u.Host == "" && !strings.Contains(o.Repository, "@")) {
		add("--repository=%q has to be the URL that Argo CD clones the fleet from; leave Argo CD out with --no-argocd", o.Repository)
	}
	if o.Workflows && !version().MatchString(o.Version) {
		add("--sluice-version=%q has to be a version, a branch or a commit", o.Version)
	}
	return faults
}

func (o Options) authorityFault() error {
	switch keyless := o.Issuer != "" || o.Subject != ""; {
	case o.KeyPEM != "" && keyless:
		return errors.New("give --key, or --issuer and --subject, and not both")
	case o.KeyPEM != "":
		if err := signature.ValidateKey(o.KeyPEM); err != nil {
			return fmt.Errorf("--key: %w", err)
		}
	case keyless:
		if err := signature.ValidateIdentity(gate.Keyless{Issuer: o.Issuer, Subject: o.Subject}); err != nil {
			return fmt.Errorf("--issuer and --subject: %w", err)
		}
	default:
		return errors.New("--key, or --issuer and --subject, is required: without one nobody's signature counts")
	}
	return nil
}

// attestorFaults are those of each key, and of two that are one. A key speaks for one
// environment: its whole is in that one's cluster, where whoever reads it signs for all
// that the key counts for.
func (o Options) attestorFaults() []error {
	if len(o.Attestors) == 0 {
		return nil
	}
	var faults []error
	for i, environment := range Environments {
		key := o.Attestors[environment]
		if err := signature.ValidateKey(key); err != nil {
			faults = append(faults, fmt.Errorf("--attestors: %s: %w", KeyFile(environment), err))
			continue
		}
		if signature.SameKey(key, o.KeyPEM) {
			faults = append(faults, fmt.Errorf("--attestors: %s is the key of --key: whoever reads it in the cluster of %s could sign images; make a key pair of its own for it", KeyFile(environment), environment))
		}
		for _, other := range Environments[:i] {
			if signature.SameKey(key, o.Attestors[other]) {
				faults = append(faults, fmt.Errorf("--attestors: %s and %s are one key: a key speaks for one environment; make a key pair of its own for each", KeyFile(other), KeyFile(environment)))
			}
		}
	}
	return faults
}

// KeyFile is the name of the file of --attestors with an environment's public key, as
// `cosign generate-key-pair --output-key-prefix ENVIRONMENT` calls it.
func KeyFile(environment string) string { return environment + ".pub" }

// soaks are how long a Workload has to do well in an environment before that signs for its
// images: those of our own overlays.
var soaks = map[string]string{"dev": "10m", "ci": "10m", "e2e": "30m", "prod": "1h"}

//go:embed all:templates
var templates embed.FS

// Files are the repository's, by path.
func Files(o Options) (map[string][]byte, error) {
	if err := errors.Join(o.Faults()...); err != nil {
		return nil, err
	}
	if image, err := images.Parse(o.Image); err != nil || !image.Pinned() {
		return nil, errors.Join(err, fmt.Errorf("--image=%q has no digest: ci, e2e and prod demand one", o.Image))
	}
	f := files{options: o, out: map[string][]byte{}}
	err := fs.WalkDir(templates, "templates", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return f.template(strings.TrimPrefix(name, "templates/"))
	})
	if err == nil {
		err = errors.Join(f.component(), f.access())
	}
	return f.out, err
}

type files struct {
	options Options
	out     map[string][]byte
}

// component is the one of our own repository.
func (f files) component() error {
	names, err := fs.Glob(workloadkustomize.Files, "*.yaml")
	if err != nil {
		return err
	}
	for _, name := range names {
		if f.out["components/workload-kustomize/"+name], err = workloadkustomize.Files.ReadFile(name); err != nil {
			return err
		}
	}
	return nil
}

// access is that of our own repository, for the fleet's own namespace.
func (f files) access() error {
	if !f.options.ArgoCD {
		return nil
	}
	before, after, ok := bytes.Cut(argocd.Access, []byte("resourceNames: [shop]"))
	if !ok {
		return errors.New("kustomize/argocd/cluster/access.yaml does not list the namespace shop")
	}
	name, err := quote(f.options.Name)
	f.out["argocd/cluster/access.yaml"] = slices.Concat(before, []byte("resourceNames: ["+name+"]"), after)
	return err
}

// template fills one file in; those below overlays/ENV once for each environment. A
// folder of a template that starts with dot- is hidden.
func (f files) template(name string) error {
	target := strings.ReplaceAll(name, "dot-", ".")
	switch {
	case strings.HasPrefix(name, "argocd/") && !f.options.ArgoCD, strings.HasPrefix(name, "dot-github/") && !f.options.Workflows:
		return nil
	case !strings.HasPrefix(name, "overlays/ENV/"):
		return f.fill(name, target, "")
	}
	for _, environment := range Environments {
		if err := f.fill(name, strings.Replace(target, "ENV", environment, 1), environment); err != nil {
			return err
		}
	}
	return nil
}

// values are what templates see.
type values struct {
	Options
	Environment string
	// Strict environments demand digests, and Reliable ones two replicas.
	Strict, Reliable  bool
	Repo, Tag, Digest string // of the image
	// Before and After are the environments next to this one, if there are any.
	Before, After, Soak string
}

func (f files) fill(name, target, environment string) error {
	raw, err := templates.ReadFile(path.Join("templates", name))
	if err != nil {
		return err
	}
	t, err := template.New(name).Delims("[[", "]]").Option("missingkey=error").Funcs(template.FuncMap{"quote": quote, "indent": indent, "publicKey": publicKey}).Parse(string(raw))
	if err != nil {
		return err
	}
	image, err := images.Parse(f.options.Image)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	v := values{
		Options: f.options, Environment: environment, Strict: environment != "dev", Reliable: environment == "e2e" || environment == "prod",
		Repo: image.Repository, Tag: image.Tag, Digest: image.Digest, Soak: soaks[environment],
	}
	if i := slices.Index(Environments, environment); i >= 0 {
		around := slices.Concat([]string{""}, Environments, []string{""})
		v.Before, v.After = around[i], around[i+2]
	}
	if err := t.Execute(&out, v); err != nil {
		return err
	}
	f.out[target] = out.Bytes()
	return nil
}

// quote is a text as JSON, which is YAML too, whatever is in it.
func quote(s string) (string, error) {
	raw, err := json.Marshal(s)
	return string(raw), err
}

// publicKey is the key of a PEM file and nothing else that stands there.
func publicKey(text string) (string, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return "", errors.New("not a PEM public key")
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})), nil
}

// indent is a block of text, each line behind n spaces.
func indent(n int, s string) string {
	space := strings.Repeat(" ", n)
	return space + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+space)
}
