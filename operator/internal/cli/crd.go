package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/sluice-dev/sluice/operator/internal/crdcompat"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

func crdCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "crd", Short: "Look after CustomResourceDefinitions"}
	c.AddCommand(crdCheckCommand(s))
	return c
}

type crdCheckOptions struct {
	root, allow, format, failOn string
}

func crdCheckCommand(s streams) *cobra.Command {
	var o crdCheckOptions
	c := &cobra.Command{
		Use:   "check OLD NEW",
		Short: "Find changes between two states of CRDs that break objects, manifests or clients",
		Long: `Compare the CustomResourceDefinitions in OLD with those in NEW. Each is a file, a folder,
a folder with a kustomization, or REV:PATH in the Git repository of the working directory.

A change that is meant goes into a file for --allow, with the reason:

  allow:
    - {crd: things.example.com, version: v1, path: spec.size, rule: field-removed, reason: never worked}

Exit codes: 0 nothing breaking that is not allowed, 1 something, 2 wrong input or flags.`,
		Example: "  sluice crd check v0.1.0:kustomize/base/crds kustomize/base/crds",
		Args:    takes(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), s, args[0], args[1])
		},
	}
	c.Flags().StringVar(&o.allow, "allow", "", "YAML file with changes that are meant, and why")
	c.Flags().StringVar(&o.failOn, "fail-on", string(crdcompat.Breaking), "breaking or warning: the least severe change that fails")
	c.Flags().StringVar(&o.format, "format", "text", "text or json")
	oneOf(c, "fail-on", string(crdcompat.Breaking), string(crdcompat.Warning))
	oneOf(c, "format", formatText, formatJSON)
	c.Flags().StringVar(&o.root, "root", "", "folder that bases and symlinks may not leave (default: the Git work tree)")
	return c
}

func (o *crdCheckOptions) run(ctx context.Context, s streams, old, now string) error {
	if o.format != "text" && o.format != "json" {
		return usage("--format=%s: there are text and json", o.format)
	}
	from := crdcompat.Severity(o.failOn)
	if from != crdcompat.Breaking && from != crdcompat.Warning {
		return usage("--fail-on=%s: there are breaking and warning", o.failOn)
	}
	allowed, err := readAllowed(o.allow)
	if err != nil {
		return err
	}
	before, err := definitions(ctx, s, o.root, old)
	if err != nil {
		return err
	}
	after, err := definitions(ctx, s, o.root, now)
	if err != nil {
		return err
	}
	findings, unused := crdcompat.Allow(crdcompat.Compare(before, after), allowed)
	for _, e := range unused {
		say(s.err, "sluice: --allow: ", fmt.Sprintf("nothing is allowed by %q: take it off the list", e))
	}
	if err := writeCompatibility(s.out, o.format, findings); err != nil {
		return usage("write the result: %w", err)
	}
	for _, f := range findings {
		if f.Blocks(from) {
			return &exit{code: ExitDenied}
		}
	}
	return nil
}

func readAllowed(file string) ([]crdcompat.Entry, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, usage("--allow: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limits.SourceFileBytes))
	if err != nil {
		return nil, usage("--allow: %w", err)
	}
	entries, err := crdcompat.ParseAllowed(raw)
	if err != nil {
		return nil, usage("--allow=%s: %w", file, err)
	}
	return entries, nil
}

// definitions reads CRDs; objects of other kinds are left out.
func definitions(ctx context.Context, s streams, root, name string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	objects, err := readSource(ctx, s, root, name)
	if err != nil {
		return nil, err
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	seen := map[string]string{}
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if o.GetAPIVersion() != apiextensionsv1.SchemeGroupVersion.String() {
			return nil, usage("%s: %s is of %s; only %s is compared", o.File, o.GetName(), o.GetAPIVersion(), apiextensionsv1.SchemeGroupVersion)
		}
		if first, again := seen[o.GetName()]; again {
			return nil, usage("%s: %s stands in %s too", o.File, o.GetName(), first)
		}
		seen[o.GetName()] = o.File
		crd := &apiextensionsv1.CustomResourceDefinition{}
		raw, err := o.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(raw, crd)
		}
		if err != nil {
			return nil, usage("%s: %s is not a CustomResourceDefinition: %w", o.File, o.GetName(), err)
		}
		out = append(out, crd)
	}
	if len(out) == 0 {
		return nil, usage("%s: no CustomResourceDefinition in it: nothing was compared", name)
	}
	return out, nil
}

func writeCompatibility(w io.Writer, format string, findings []crdcompat.Finding) error {
	counts := map[crdcompat.Severity]int{}
	allowed := 0
	for _, f := range findings {
		if f.Allowed != "" {
			allowed++
			continue
		}
		counts[f.Severity]++
	}
	if format == "json" {
		if findings == nil {
			findings = []crdcompat.Finding{}
		}
		return json.NewEncoder(w).Encode(map[string]any{
			"breaking": counts[crdcompat.Breaking], "warning": counts[crdcompat.Warning], "info": counts[crdcompat.Info],
			"allowed": allowed, "findings": findings,
		})
	}
	for _, f := range findings {
		if err := writeFinding(w, f); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d breaking, %d warnings, %d to know of, %d allowed\n",
		counts[crdcompat.Breaking], counts[crdcompat.Warning], counts[crdcompat.Info], allowed)
	return err
}

func writeFinding(w io.Writer, f crdcompat.Finding) error {
	grade := strings.ToUpper(string(f.Severity))
	if f.Allowed != "" {
		grade = "ALLOWED"
	}
	where := strings.Join(strings.Fields(f.CRD+" "+f.Version+" "+f.Path), " ")
	lines := []string{fmt.Sprintf("%-8s  %s [%s]", grade, where, f.Rule), "          " + f.Message}
	switch {
	case f.Allowed != "":
		lines = append(lines, "          allowed: "+f.Allowed)
	case f.Remedy != "":
		lines = append(lines, "          to do: "+f.Remedy)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, redact.Text(line, limits.ErrorBytes)); err != nil {
			return err
		}
	}
	return nil
}
