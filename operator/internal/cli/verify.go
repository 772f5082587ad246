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
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/parallel"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

type verifyOptions struct {
	registryFlags
	recordFlags
	keys     []string
	identity gate.Keyless
	root     string
	all      bool
	format   string
}

func verifyCommand(s streams) *cobra.Command {
	var o verifyOptions
	c := &cobra.Command{
		Use:   "verify IMAGE...",
		Short: "Verify the signatures of images as a Gate would",
		Long: `Verify the signatures of images as a Gate would.

With --record all that registries hold for them is written to a file, attestations and the
images of an index included, by which check judges with --offline. It says what there was
and not what it was worth: whoever reads it verifies all anew.`,
		Example: `  sluice verify registry.example.com/shop/cache:7.2.4 --key cosign.pub
  sluice verify registry.example.com/shop/cache:7.2.4 --certificate-oidc-issuer https://token.actions.githubusercontent.com \
    --certificate-identity-regexp '^https://github\.com/shop/[a-z-]+/\.github/workflows/release\.yml@refs/tags/v.+$'
  sluice verify registry.example.com/shop/cache:7.2.4 --key cosign.pub --record signatures.jsonl`,
		Args: takes(1, anyNumber),
		RunE: func(c *cobra.Command, args []string) error {
			facts, err := o.open(c, &o.registryFlags)
			if err != nil {
				return err
			}
			return facts.close(c.Context(), s, o.run(c.Context(), s, facts, args))
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
	oneOf(c, "format", formatText, formatJSON)
	o.registryFlags.register(c)
	o.recordFlags.register(c)
	return c
}

func (o *verifyOptions) run(ctx context.Context, s streams, facts *facts, names []string) error {
	if o.format != "text" && o.format != "json" {
		return usage("--format=%s: there are text and json", o.format)
	}
	rule, err := o.rule(ctx, facts.keys)
	if err != nil {
		return err
	}
	refs := make([]images.Reference, len(names))
	for i, image := range names {
		if refs[i], err = images.Parse(image); err != nil {
			return usage("%w", err)
		}
	}
	verdicts := make([]gate.Verdict, len(names))
	parallel.Do(limits.CheckParallel, len(names), func(i int) {
		verdicts[i] = verifyOne(ctx, facts, rule, names[i], refs[i])
	})
	if err := o.write(s, names, verdicts); err != nil {
		return usage("write the result: %w", err)
	}
	return exitOf(verdicts)
}

func verifyOne(ctx context.Context, facts *facts, rule gate.ImageRule, image string, ref images.Reference) gate.Verdict {
	ctx, cancel := context.WithTimeout(ctx, limits.Gather)
	defer cancel()
	rule.Match = ref.Repository
	found := gate.Image{
		Ref: image, Repository: ref.Repository, Tag: ref.Tag, Pinned: ref.Pinned(), Digest: ref.Digest,
		Locations: []gate.Location{{Object: "Image/" + image}},
	}
	config := gate.Config{Mode: gate.Enforce, Images: []gate.ImageRule{rule}, DenyUnmatched: true}
	check := signature.New()
	enough := func(ctx context.Context, image *gate.Image) bool {
		return check.Enough(ctx, []gate.Config{config}, image)
	}
	gather.Evidence(ctx, facts.client, enough, []gate.Config{config}, &found, nil, nil)
	return gate.NewChain(check).Decide(ctx, &gate.Input{
		Gate:   config,
		Object: gate.ObjectRef{Kind: "Image", Name: image},
		Images: []gate.Image{found},
	})
}

func (o *verifyOptions) write(s streams, names []string, verdicts []gate.Verdict) error {
	if o.format == "json" {
		_, err := fmt.Fprintln(s.out, string(report.JSON(verdicts)))
		return err
	}
	for i, v := range verdicts {
		if err := s.text().Object(s.out, report.Judged{File: names[i], Verdicts: []gate.Verdict{v}}); err != nil {
			return err
		}
	}
	return nil
}

func (o *verifyOptions) rule(ctx context.Context, keys gather.Keys) (gate.ImageRule, error) {
	rule := gate.ImageRule{Require: gate.Requirement{Count: 1}}
	if o.all {
		rule.Require = gate.Requirement{All: true}
	}
	for _, from := range o.keys {
		a, err := keyAuthority(ctx, keys, from)
		if err != nil {
			return rule, err
		}
		rule.Authorities = append(rule.Authorities, a)
	}
	if o.identity.Subject+o.identity.SubjectRegExp+o.identity.Issuer+o.identity.IssuerRegExp != "" {
		a, err := o.identityAuthority(ctx, keys)
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

func keyAuthority(ctx context.Context, keys gather.Keys, from string) (gate.Authority, error) {
	if strings.Contains(from, "://") {
		pem, err := keys.KMS(ctx, from)
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

func (o *verifyOptions) identityAuthority(ctx context.Context, keys gather.Keys) (gate.Authority, error) {
	identity := o.identity
	if err := signature.ValidateIdentity(identity); err != nil {
		return gate.Authority{}, usage("--certificate-identity and --certificate-oidc-issuer: %w", err)
	}
	var root string
	var err error
	if o.root != "" {
		root, err = keys.File(o.root)
	} else {
		root, err = keys.PublicRoot(ctx)
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
