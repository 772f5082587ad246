package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/report"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

type verifyOptions struct {
	registryFlags
	keys     []string
	identity gate.Keyless
	root     string
	all      bool
	format   string
}

func verifyCommand(s streams) *cobra.Command {
	var o verifyOptions
	c := &cobra.Command{
		Use:   "verify IMAGE",
		Short: "Verify the signatures of one image as a Gate would",
		Example: `  sluice verify registry.example.com/shop/cache:7.2.4 --key cosign.pub
  sluice verify registry.example.com/shop/cache:7.2.4 --certificate-oidc-issuer https://token.actions.githubusercontent.com \
    --certificate-identity-regexp '^https://github\.com/shop/[a-z-]+/\.github/workflows/release\.yml@refs/tags/v.+$'`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), s, args[0])
		},
	}
	c.Flags().StringSliceVar(&o.keys, "key", nil, "PEM file, or URI of a key management service, with the public key of an authority (repeatable)")
	c.Flags().StringVar(&o.identity.Subject, "certificate-identity", "", "subject of the signer's certificate, exactly")
	c.Flags().StringVar(&o.identity.SubjectRegExp, "certificate-identity-regexp", "", "anchored RE2 pattern that the subject has to match in full")
	c.Flags().StringVar(&o.identity.Issuer, "certificate-oidc-issuer", "", "issuer of the signer's identity, exactly")
	c.Flags().StringVar(&o.identity.IssuerRegExp, "certificate-oidc-issuer-regexp", "", "anchored RE2 pattern that the issuer has to match in full")
	c.Flags().StringVar(&o.root, "trusted-root", "", "trusted_root.json to verify certificates against (default: that of the public Sigstore)")
	c.Flags().BoolVar(&o.all, "all", false, "require a signature by every authority, and not by any of them")
	c.Flags().StringVar(&o.format, "format", "text", "text or json")
	o.register(c)
	return c
}

func (o *verifyOptions) run(ctx context.Context, s streams, image string) error {
	if o.format != "text" && o.format != "json" {
		return usage("--format=%s: there are text and json", o.format)
	}
	rule, err := o.rule(ctx)
	if err != nil {
		return err
	}
	ref, err := images.Parse(image)
	if err != nil {
		return usage("%w", err)
	}
	rule.Match = ref.Repository
	found := gate.Image{
		Ref: image, Repository: ref.Repository, Tag: ref.Tag, Pinned: ref.Pinned(), Digest: ref.Digest,
		Locations: []gate.Location{{Object: "Image/" + image}},
	}
	config := gate.Config{Mode: gate.Enforce, Images: []gate.ImageRule{rule}, DenyUnmatched: true}
	client, err := o.client()
	if err != nil {
		return err
	}
	check := signature.New()
	enough := func(ctx context.Context, image *gate.Image) bool {
		return check.Enough(ctx, []gate.Config{config}, image)
	}
	gather.Evidence(ctx, client, enough, []gate.Config{config}, &found, nil, nil)
	in := &gate.Input{
		Gate:   config,
		Object: gate.ObjectRef{Kind: "Image", Name: image},
		Images: []gate.Image{found},
	}
	v := gate.NewChain(check).Decide(ctx, in)
	if o.format == "json" {
		_, err = fmt.Fprintln(s.out, string(report.JSON([]gate.Verdict{v})))
	} else {
		err = s.text().Object(s.out, report.Judged{File: image, Verdicts: []gate.Verdict{v}})
	}
	if err != nil {
		return usage("write the result: %w", err)
	}
	return exitOf([]gate.Verdict{v})
}

func (o *verifyOptions) rule(ctx context.Context) (gate.ImageRule, error) {
	rule := gate.ImageRule{Require: gate.Requirement{Count: 1}}
	if o.all {
		rule.Require = gate.Requirement{All: true}
	}
	loader := trust.New(trust.Options{})
	for _, from := range o.keys {
		a, err := keyAuthority(ctx, loader, from)
		if err != nil {
			return rule, err
		}
		rule.Authorities = append(rule.Authorities, a)
	}
	if o.identity.Subject+o.identity.SubjectRegExp+o.identity.Issuer+o.identity.IssuerRegExp != "" {
		a, err := o.identityAuthority(ctx, loader)
		if err != nil {
			return rule, err
		}
		rule.Authorities = append(rule.Authorities, a)
	}
	if len(rule.Authorities) == 0 {
		return rule, usage("--key or --certificate-identity is required: without one anyone's signature would do")
	}
	return rule, nil
}

func keyAuthority(ctx context.Context, loader *trust.Loader, from string) (gate.Authority, error) {
	if strings.Contains(from, "://") {
		pem, err := loader.KMS(ctx, from)
		if err != nil {
			return gate.Authority{}, &exit{code: ExitUndecided, err: fmt.Errorf("--key=%s: %w", from, err)}
		}
		return gate.Authority{Name: from, PublicKeyPEM: pem}, nil
	}
	pem, err := os.ReadFile(from)
	if err != nil {
		return gate.Authority{}, usage("--key: %w", err)
	}
	if err := signature.ValidateKey(string(pem)); err != nil {
		return gate.Authority{}, usage("--key=%s: %w", from, err)
	}
	return gate.Authority{Name: strings.TrimSuffix(filepath.Base(from), filepath.Ext(from)), PublicKeyPEM: string(pem)}, nil
}

func (o *verifyOptions) identityAuthority(ctx context.Context, loader *trust.Loader) (gate.Authority, error) {
	identity := o.identity
	if err := signature.ValidateIdentity(identity); err != nil {
		return gate.Authority{}, usage("--certificate-identity and --certificate-oidc-issuer: %w", err)
	}
	var root string
	var err error
	if o.root != "" {
		root, err = loader.File(o.root)
	} else {
		root, err = loader.PublicRoot(ctx)
	}
	if err != nil {
		return gate.Authority{}, &exit{code: ExitUndecided, err: fmt.Errorf("trusted root: %w", err)}
	}
	identity.TrustedRoot = []byte(root)
	if err := signature.ValidateKeyless(identity); err != nil {
		return gate.Authority{}, usage("--trusted-root: %w", err)
	}
	return gate.Authority{Name: "certificate", Keyless: &identity}, nil
}
