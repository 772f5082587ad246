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
)

type verifyOptions struct {
	registryFlags
	keys   []string
	all    bool
	format string
}

func verifyCommand(s streams) *cobra.Command {
	var o verifyOptions
	c := &cobra.Command{
		Use:     "verify IMAGE --key FILE",
		Short:   "Verify the signatures of one image as a Gate would",
		Example: "  sluice verify registry.example.com/shop/cache:7.2.4 --key cosign.pub",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), s, args[0])
		},
	}
	c.Flags().StringSliceVar(&o.keys, "key", nil, "PEM file with the public key of an authority (repeatable)")
	c.Flags().BoolVar(&o.all, "all", false, "require a signature by every key, and not by any of them")
	c.Flags().StringVar(&o.format, "format", "text", "text or json")
	o.register(c)
	return c
}

func (o *verifyOptions) run(ctx context.Context, s streams, image string) error {
	if o.format != "text" && o.format != "json" {
		return usage("--format=%s: there are text and json", o.format)
	}
	rule, err := o.rule()
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
	gather.Evidence(ctx, o.client(), &found, nil, nil)
	in := &gate.Input{
		Gate:   gate.Config{Mode: gate.Enforce, Images: []gate.ImageRule{rule}, DenyUnmatched: true},
		Object: gate.ObjectRef{Kind: "Image", Name: image},
		Images: []gate.Image{found},
	}
	v := gate.NewChain(signature.New()).Decide(ctx, in)
	if o.format == "json" {
		_, err = fmt.Fprintln(s.out, string(report.JSON([]gate.Verdict{v})))
	} else {
		err = report.Text(s.out, image, v)
	}
	if err != nil {
		return usage("write the result: %w", err)
	}
	return exitOf([]result{{verdicts: []gate.Verdict{v}}})
}

func (o *verifyOptions) rule() (gate.ImageRule, error) {
	rule := gate.ImageRule{Require: gate.Requirement{Count: 1}}
	if o.all {
		rule.Require = gate.Requirement{All: true}
	}
	if len(o.keys) == 0 {
		return rule, usage("--key is required: without a key anyone's signature would do")
	}
	for _, file := range o.keys {
		pem, err := os.ReadFile(file)
		if err != nil {
			return rule, usage("--key: %w", err)
		}
		if err := signature.ValidateKey(string(pem)); err != nil {
			return rule, usage("--key=%s: %w", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		rule.Authorities = append(rule.Authorities, gate.Authority{Name: name, PublicKeyPEM: string(pem)})
	}
	return rule, nil
}
