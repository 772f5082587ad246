package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/promotion"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

type historyOptions struct {
	registryFlags
	keys   []string
	gates  []string
	root   string
	format string
}

// chain is what is known of one image.
type chain struct {
	Image    string `json:"image"`
	Digest   string `json:"digest"`
	Evidence []step `json:"evidence"`
	// Links are the Gates, and whether each finds the proof that it demands.
	Links []link `json:"links"`
}

// step is one piece of evidence, verified or not.
type step struct {
	Environment  string               `json:"environment"`
	Time         string               `json:"time"`
	Result       evidence.Result      `json:"result"`
	PolicyDigest string               `json:"policyDigest"`
	Levels       []string             `json:"levels"`
	Exemptions   []evidence.Exemption `json:"exemptions"`
	// SignedBy are the authorities of its environment that signed it; none where it proves
	// nothing.
	SignedBy []string `json:"signedBy"`
	// Identities are those of their certificates, as "<subject> (<issuer>)".
	Identities []string `json:"identities"`
}

type link struct {
	From    string       `json:"from"`
	To      string       `json:"to"`
	Gate    string       `json:"gate"`
	Verdict gate.Outcome `json:"verdict"`
	Message string       `json:"message,omitempty"`
}

func historyCommand(s streams) *cobra.Command {
	var o historyOptions
	c := &cobra.Command{
		Use:   "history IMAGE",
		Short: "Show which environments an image passed, by signed evidence",
		Long: `Show the evidence that is stored beside IMAGE: environments, times and policy digests.

With --gate each Gate says whether it finds the proof that it demands, and a signature
counts for the environment alone that the Gate names its authorities for. With --key a
signature by any of the keys counts, for whatever environment.`,
		Example: "  sluice history registry.example.com/shop/web:1.2 --gate gates/\n  sluice history registry.example.com/shop/web@sha256:… --key e2e.pub --format json",
		Args:    takes(1, 1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), s, args[0]) },
	}
	c.Flags().StringSliceVar(&o.keys, "key", nil, "PEM file, or URI of a key management service, with the public key of an authority (repeatable)")
	c.Flags().StringSliceVar(&o.gates, "gate", nil, "file or folder with Gates and what they refer to (repeatable)")
	c.Flags().StringVar(&o.root, "root", "", "folder that bases and symlinks may not leave (default: the Git work tree)")
	c.Flags().StringVar(&o.format, "format", formatText, "text, json or mermaid")
	oneOf(c, "format", formatText, formatJSON, "mermaid")
	o.register(c)
	return c
}

var historyFormats = map[string]func(chain, io.Writer) error{
	formatText: chain.text, "mermaid": chain.mermaid,
	"json": func(c chain, w io.Writer) error { return json.NewEncoder(w).Encode(c) },
}

func (o *historyOptions) run(ctx context.Context, s streams, image string) error {
	write, ok := historyFormats[o.format]
	if !ok {
		return usage("--format=%s: there are text, json and mermaid", o.format)
	}
	ref, err := images.Parse(image)
	if err != nil {
		return usage("%w", err)
	}
	configs, err := o.demands(ctx, s)
	if err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	out, err := chainOf(ctx, client, configs, image, ref)
	if err != nil {
		return err
	}
	if err := write(out, s.out); err != nil {
		return usage("write the result: %w", err)
	}
	return out.outcome()
}

// chainOf reads what lies beside an image, and asks each of the Gates.
func chainOf(ctx context.Context, client *registry.Client, configs []gate.Config, image string, ref images.Reference) (chain, error) {
	found := gate.Image{
		Ref: image, Repository: ref.Repository, Tag: ref.Tag, Pinned: ref.Pinned(), Digest: ref.Digest,
		Locations: []gate.Location{{Object: "Image/" + image}},
	}
	everything := func(context.Context, *gate.Image) bool { return false }
	gather.Evidence(ctx, client, everything, configs, &found, nil, nil)
	if found.Unavailable != "" {
		return chain{}, &exit{code: ExitUndecided, err: fmt.Errorf("%s: %s", image, found.Unavailable)}
	}
	return follow(ctx, configs, &found)
}

// demandsOf are those of some Gates that ask for evidence, by name.
func demandsOf(ctx context.Context, gates []v1beta1.Gate, files *gather.Files, loader *trust.Loader) []gate.Config {
	var configs []gate.Config
	for i := range gates {
		if c, ok := gather.Promotion(ctx, &gates[i], files, loader); ok {
			configs = append(configs, c)
		}
	}
	slices.SortFunc(configs, func(a, b gate.Config) int { return cmp.Compare(a.Name, b.Name) })
	return configs
}

// demands are the Gates that ask for evidence, or one that takes any by the keys.
func (o *historyOptions) demands(ctx context.Context, s streams) ([]gate.Config, error) {
	loader := trust.New(trust.Options{})
	var configs []gate.Config
	if len(o.gates) > 0 {
		// As check takes them: overlays of a fleet are clusters of their own, each with its Gate.
		r, err := readGates(ctx, s, o.root, o.gates)
		if err != nil {
			return nil, err
		}
		for _, w := range r.worlds {
			for _, c := range demandsOf(ctx, w.files.GateList, w.files, loader) {
				// One that is shared is in each world; with other keys it is another.
				if !slices.ContainsFunc(configs, func(known gate.Config) bool { return reflect.DeepEqual(c, known) }) {
					configs = append(configs, c)
				}
			}
		}
	}
	if len(o.keys) > 0 {
		byKeys := gate.Config{Promotion: &gate.Promotion{}}
		for _, from := range o.keys {
			a, err := keyAuthority(ctx, loader, from)
			if err != nil {
				return nil, err
			}
			byKeys.Promotion.Authorities = append(byKeys.Promotion.Authorities, a)
		}
		configs = append(configs, byKeys)
	}
	if len(configs) == 0 {
		return nil, usage("--key is required, or --gate with a Gate that has spec.requirePromotionFrom: without one anyone's evidence would do")
	}
	return configs, nil
}

// follow reads the evidence, and asks each Gate.
func follow(ctx context.Context, configs []gate.Config, image *gate.Image) (chain, error) {
	out := chain{Image: image.Ref, Digest: image.Digest, Evidence: []step{}, Links: []link{}}
	signatures := signature.New()
	steps := map[string]*step{}
	for _, c := range configs {
		held := signatures.Statements(ctx, c.Promotion.Authorities, image, evidence.PredicateType)
		if why := slices.Concat(held.Unread, held.Unusable); len(why) > 0 {
			return out, &exit{code: ExitUndecided, err: fmt.Errorf("%s: %s", image.Ref, strings.Join(why, "; "))}
		}
		for _, statement := range append(held.Accepted, held.Strangers...) {
			note(steps, c.Promotion.Environment, statement)
		}
		own := signatures.Statements(ctx, c.Promotion.Own, image, evidence.PredicateType)
		for _, statement := range own.Accepted {
			note(steps, c.Environment, statement)
		}
		if c.Name != "" {
			out.Links = append(out.Links, judged(ctx, signatures, c, image))
		}
	}
	for _, s := range steps {
		for _, list := range []*[]string{&s.SignedBy, &s.Identities} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		out.Evidence = append(out.Evidence, *s)
	}
	slices.SortFunc(out.Evidence, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Result, b.Result), slices.Compare(a.SignedBy, b.SignedBy))
	})
	return out, nil
}

// note keeps a statement, once whoever asks, with who signed it where that is for the
// environment that they sign for; "" for any.
func note(steps map[string]*step, signsFor string, statement gate.Statement) {
	summary, err := evidence.Parse(statement.Payload)
	if err != nil {
		return
	}
	environment, ok := summary.Environment()
	if !ok {
		environment = summary.Verifier
	}
	s := steps[string(statement.Payload)]
	if s == nil {
		s = &step{
			Environment: environment, Time: summary.Time.Format(time.RFC3339), Result: summary.Result, PolicyDigest: summary.Policy.Digest,
			Levels: append([]string{}, summary.Levels...), Exemptions: append([]evidence.Exemption{}, summary.Exemptions...), SignedBy: []string{}, Identities: []string{},
		}
		steps[string(statement.Payload)] = s
	}
	if signsFor == "" || ok && signsFor == environment {
		s.SignedBy = append(s.SignedBy, statement.By...)
		s.Identities = append(s.Identities, statement.Identities...)
	}
}

// judged is what a Gate says of the image's way to it.
func judged(ctx context.Context, signatures *signature.Check, c gate.Config, image *gate.Image) link {
	v := gate.NewChain(promotion.New(signatures)).Decide(ctx, &gate.Input{
		Gate: c, Object: gate.ObjectRef{Kind: "Image", Name: image.Ref}, Images: []gate.Image{*image}, Now: time.Now().Unix(),
	})
	l := link{From: c.Promotion.Environment, To: c.Environment, Gate: c.Name, Verdict: v.Outcome}
	for _, f := range slices.Concat(v.Violations, v.Warnings) {
		l.Message = f.Message
		break
	}
	return l
}

// outcome denies where a link does not hold, or where there is nothing that was verified.
func (c chain) outcome() error {
	verified := slices.ContainsFunc(c.Evidence, func(s step) bool { return len(s.SignedBy) > 0 })
	for _, l := range c.Links {
		if l.Verdict.Blocks() {
			return &exit{code: map[bool]int{true: ExitDenied, false: ExitUndecided}[l.Verdict == gate.OutcomeDeny]}
		}
	}
	if !verified {
		return &exit{code: ExitDenied, err: fmt.Errorf("%s: no evidence by any of the authorities", c.Image)}
	}
	return nil
}

// shown makes what stands in evidence safe for a terminal.
func shown(s string) string { return redact.Text(s, limits.MessageBytes) }

func (s step) by() string {
	if len(s.SignedBy) == 0 {
		return "NOT VERIFIED"
	}
	by := "signed by " + strings.Join(s.SignedBy, ", ")
	if len(s.Identities) > 0 {
		by += ", as " + strings.Join(s.Identities, ", ")
	}
	return by
}

func (c chain) text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", shown(c.Image), c.Digest)
	for _, s := range c.Evidence {
		fmt.Fprintf(&b, "  %s  %s  %s  %s  policy %s\n", s.Time, shown(s.Environment), s.Result, shown(s.by()), cmp.Or(s.PolicyDigest, "not named"))
		for _, e := range s.Exemptions {
			fmt.Fprintf(&b, "    but for %s, by Exemption %s (%s)\n", shown(e.Policy), shown(e.Name), shown(e.Reason))
		}
	}
	for _, l := range c.Links {
		fmt.Fprintf(&b, "  %s -> %s  %s", l.From, l.To, l.Verdict)
		if l.Message != "" {
			fmt.Fprintf(&b, "  %s", shown(l.Message))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mermaid is a flow chart of the links, and of the environments that there is evidence of.
// Environments are names that cannot break out of it; what evidence calls one otherwise is
// left out.
func (c chain) mermaid(w io.Writer) error {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for _, l := range c.Links {
		arrow := "-->"
		if l.Verdict.Blocks() {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "  %s %s|%s| %s\n", "env_"+l.From+"["+l.From+"]", arrow, l.Verdict, "env_"+l.To+"["+l.To+"]")
	}
	said := map[string]string{}
	for _, s := range c.Evidence {
		if evidence.ValidateEnvironment(s.Environment) != nil {
			continue
		}
		by := "NOT VERIFIED"
		if len(s.SignedBy) > 0 {
			by = "verified"
		}
		said[s.Environment] += fmt.Sprintf("<br/>%s %s %s", s.Time, s.Result, by)
	}
	// What a node is called last is what it is called.
	for _, environment := range slices.Sorted(maps.Keys(said)) {
		fmt.Fprintf(&b, "  env_%s[\"%s%s\"]\n", environment, environment, said[environment])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
