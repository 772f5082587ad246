package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// registryFlags are the flags of every command that reads registries.
type registryFlags struct {
	mirrors    map[string]string
	insecure   []string
	tokenHosts []string
	addresses  []string
	caFiles    []string
	google     bool
	amazon     bool
	azure      bool
}

func (f *registryFlags) register(c *cobra.Command) {
	c.Flags().StringToStringVar(&f.mirrors, "registry-mirror", nil, "where a registry host is dialled, as `HOST=HOST:PORT` (repeatable)")
	c.Flags().StringSliceVar(&f.insecure, "insecure-registry", nil, "registry host where plain HTTP is allowed; loopback always is")
	c.Flags().StringSliceVar(&f.tokenHosts, "registry-token-host", nil, "host of a token server that may be given credentials although it is at another site than its registry")
	c.Flags().StringSliceVar(&f.addresses, "registry-allow-address", nil, "IP or CIDR of a registry at a link-local or metadata address, which is not dialled otherwise")
	c.Flags().StringSliceVar(&f.caFiles, "registry-ca-file", nil, "PEM file with a further certificate authority for registries")
	c.Flags().BoolVar(&f.google, "google-credentials", false, "where the docker login has nothing for gcr.io and pkg.dev: Google's credentials of this machine")
	c.Flags().BoolVar(&f.amazon, "amazon-credentials", false, "where it has nothing for private registries of Amazon ECR: Amazon's credentials of this machine")
	c.Flags().BoolVar(&f.azure, "azure-credentials", false, "where it has nothing for azurecr.io, azurecr.cn and azurecr.us: Azure's credentials of this machine")
}

// client reads registries with the user's own docker login.
func (f *registryFlags) client() (*registry.Client, error) {
	options, err := f.options()
	if err != nil {
		return nil, err
	}
	return registry.New(options), nil
}

func (f *registryFlags) options() (registry.Options, error) {
	transport, err := registry.WithAuthorities(f.caFiles)
	if err != nil {
		return registry.Options{}, usage("--registry-ca-file: %w", err)
	}
	addresses, err := registry.ParseAddresses(f.addresses)
	if err != nil {
		return registry.Options{}, usage("--registry-allow-address: %w", err)
	}
	return registry.Options{
		Mirrors: f.mirrors, Insecure: f.insecure, TokenHosts: f.tokenHosts, Addresses: addresses, Keychain: authn.DefaultKeychain, Transport: transport,
		Google: f.google, Amazon: f.amazon, Azure: f.azure,
	}, nil
}

type checkOptions struct {
	registryFlags
	recordFlags
	gates  []string
	root   string
	format string
	// changed is the base of a Git range; only what it touches is judged.
	changed string
	// cacheDir is the folder where results are kept; "" for that of the user.
	cacheDir string
	noCache  bool
}

func checkCommand(s streams) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use:   "check PATH...",
		Short: "Judge the Workloads of overlays, folders and files by a Gate",
		Long: `Judge every Workload in PATH by the Gates that match its namespace.

PATH is a folder with a kustomization, another folder, a file, or - for standard input.
Gates, Exemptions, Namespaces (their labels decide which Gate applies) and the ConfigMaps
and Secrets that Gates name are taken from PATH and from --gate. Dependencies among the
Workloads may not be a cycle. Of several overlays that each bring a Gate, as those of a
fleet do, each is judged by its own, apart from the others.

With --changed only objects are judged whose files, or the files of their overlay, differ
from a Git branch, tag or commit, in commits since then or in the work tree. Where a Gate
or something that rules refer to differs, everything is judged.

With --offline no registry is asked: what was recorded of the images, by --record of this
command or of verify, is verified anew. What is not in that file cannot be decided.`,
		Example: "  sluice check kustomize/overlays/dev\n  sluice check deploy/ --gate gates/prod.yaml --format json\n  sluice check overlays/* --changed origin/main --format github",
		Args:    takes(1, anyNumber),
		RunE: func(c *cobra.Command, paths []string) error {
			facts, err := o.open(c, &o.registryFlags)
			if err != nil {
				return err
			}
			return facts.close(c.Context(), s, o.run(c.Context(), s, facts, paths))
		},
	}
	c.Flags().StringSliceVar(&o.gates, "gate", nil, "file or folder with Gates, Exemptions and what they refer to (repeatable)")
	c.Flags().StringVar(&o.root, "root", "", "folder that bases and symlinks may not leave (default: the Git work tree)")
	c.Flags().StringVar(&o.format, "format", formatText, formatNames())
	oneOf(c, "format", strings.Split(formatNames(), ", ")...)
	c.Flags().StringVar(&o.changed, "changed", "", "judge only what differs from this Git branch, tag or commit, or all if rules differ")
	c.Flags().StringVar(&o.cacheDir, "cache-dir", "", "folder where results are kept that nothing has changed for (default: sluice in the user's cache folder)")
	c.Flags().BoolVar(&o.noCache, "no-cache", false, "judge again whatever was kept, and keep nothing")
	o.registryFlags.register(c)
	o.recordFlags.register(c)
	return c
}

func (o *checkOptions) run(ctx context.Context, s streams, facts *facts, paths []string) error {
	write, ok := formats[o.format]
	if !ok {
		return usage("--format=%s: there are %s", o.format, formatNames())
	}
	k := o.keeper(s, paths)
	defer k.close()
	if was := k.find(ctx, facts.client); was != nil {
		s.tell(was.warnings)
		fmt.Fprint(s.err, was.told)
		say(s.err, "sluice: ", fmt.Sprintf("nothing has changed: the verdicts over %d objects are those that were kept; --no-cache judges them again", len(was.judged)))
		return was.finish(s, write)
	}
	from, keys := newAsked(facts.client), &fetching{Keys: facts.keys}
	was, now, err := o.judge(ctx, s, paths, from, keys)
	if err != nil {
		return err
	}
	outcome := now.finish(s, write)
	k.keep(was, now, from, keys)
	return outcome
}

// judge reads everything and judges it.
func (o *checkOptions) judge(ctx context.Context, s streams, paths []string, from gather.Registry, keys gather.Keys) (*reading, *checked, error) {
	r, err := read(ctx, s, o.root, paths, o.gates, o.changed)
	if err != nil {
		return nil, nil, err
	}
	if apart := r.apart(); len(apart) > 0 {
		say(r.worlds[0].told, "sluice: ", fmt.Sprintf("judged apart, as in clusters of their own, since each brings a Gate: %s; what is to count in all of them goes into --gate", shorten(apart)))
	}
	if astray := r.astray(); len(astray) > 0 {
		say(r.worlds[0].told, "sluice: ", fmt.Sprintf("Exemptions for Gates that none of the files has, and so for nothing here: %s", shorten(astray)))
	}
	out, passed := &checked{warnings: r.warnings}, 0
	for _, w := range r.worlds {
		n, err := out.judge(ctx, s, w, gather.NewJudgeSharing(r.policies, w.files, from, keys), placed(o.format))
		if err != nil {
			return nil, nil, err
		}
		passed += n
	}
	if passed > 0 {
		say(s.err, "sluice: ", fmt.Sprintf("%d objects are as they are in %s, and are not judged", passed, o.changed))
	}
	if len(out.judged) == 0 && passed == 0 {
		return nil, nil, usage("no Workload in %v, and nothing else that a Gate names: nothing was judged", paths)
	}
	return r, out, nil
}

// judge judges what belongs together, and returns how many objects were passed over.
func (c *checked) judge(ctx context.Context, s streams, w *world, judge *gather.Judge, placed bool) (int, error) {
	w.explain(s)
	results, passed := judgeAll(ctx, judge, s, w.input, w.scope, placed)
	if ctx.Err() != nil {
		// Verdicts that were cut off would tell of policies and registries that are fine.
		return 0, &exit{code: ExitUndecided, err: errInterrupted}
	}
	refused, err := disorder(w.dependents)
	if err != nil {
		return 0, err
	}
	if missing := w.files.Missing(); len(missing) > 0 {
		say(w.told, "sluice: ", fmt.Sprintf("Gates name what none of the files has: %s; name one that has it with --gate", shorten(missing)))
	}
	c.add(results)
	c.refused, c.wrong = append(c.refused, refused...), append(c.wrong, w.wrong()...)
	c.told += w.notes.String()
	return passed, nil
}

// finish writes the result; its error is the outcome.
func (c *checked) finish(s streams, write func(streams, report.Run) error) error {
	if err := write(s, c.run()); err != nil {
		return usage("write the result: %w", err)
	}
	return c.outcome()
}

// outcome of all. What the cluster would refuse too, whatever its verdict, is a denial; an
// overlay that does not do what it says is wrong input.
func (c *checked) outcome() error {
	var all []gate.Verdict
	for _, j := range c.judged {
		all = append(all, j.Verdicts...)
	}
	var err error
	if len(all) > 0 { // with --changed there may be none
		err = exitOf(all)
	}
	switch code := codeOf(err); {
	case len(c.refused) > 0:
		return faulty(ExitDenied, "refused for spec.dependsOn", append(slices.Clone(c.refused), c.wrong...))
	case len(c.wrong) > 0 && code == ExitDenied:
		return faulty(ExitDenied, "the overlay does not do what it says, besides", c.wrong)
	case len(c.wrong) > 0:
		return faulty(ExitUsage, "the overlay does not do what it says", c.wrong)
	}
	return err
}

func faulty(code int, text string, faults []report.Fault) error {
	e := &exit{code: code, err: errors.New(text)}
	for _, f := range faults {
		e.details = append(e.details, f.Place.String()+": "+f.Message)
	}
	return e
}

// invalid is the verdict over a manifest that the API server would refuse before any
// gate is asked.
func invalid(sub subject) gate.Verdict {
	object := gate.ObjectRef{
		APIVersion: sub.object.GetAPIVersion(), Kind: sub.object.GetKind(),
		Name: sub.object.GetName(), Namespace: sub.object.GetNamespace(),
	}
	in := &gate.Input{Object: object, Gate: gate.Config{Mode: gate.Enforce}}
	for _, e := range sub.invalid {
		in.Refused = append(in.Refused, gate.Finding{
			Policy: "schema", Severity: gate.SeverityHigh, Object: object.String(), Path: e.Field,
			Message: e.ErrorBody(), Remedy: "see `kubectl explain workload`",
		})
	}
	return gate.NewChain().Decide(context.Background(), in)
}

// exitOf lets a denial win over an open question: it is sure already.
func exitOf(all []gate.Verdict) error {
	switch worst := gate.Worst(all).Outcome; {
	case !worst.Blocks():
		return nil
	case worst == gate.OutcomeDeny:
		return &exit{code: ExitDenied}
	}
	return &exit{code: ExitUndecided}
}
