package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/overlaylint"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/scaffold"
)

func lintCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "lint", Short: "Find what is wrong although it builds"}
	c.AddCommand(lintOverlaysCommand(s))
	return c
}

type lintOptions struct {
	root, format, failOn string
	pinned, expected     []string
}

func lintOverlaysCommand(s streams) *cobra.Command {
	var o lintOptions
	c := &cobra.Command{
		Use:   "overlays [DIR]",
		Short: "Find parts of overlays without effect, tags, and differences between environments",
		Long: `Look at each overlay in DIR, one folder for each environment:

  error    patches that match nothing or change nothing
  error    images: entries that match nothing or change nothing
  error    images of Workloads by tag, in the environments of --pinned
  warning  files that no kustomization reads
  warning  fields of Workloads that differ between environments, besides the usual ones:
           ` + strings.Join(overlaylint.Expected, ", ") + `
  warning  Workloads that some environments do not have

Exit codes: 0 nothing, 1 something of --fail-on, 2 wrong input or flags.`,
		Example: "  sluice lint overlays\n  sluice lint overlays kustomize/overlays --expect spec.env --fail-on warning",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("lint overlays takes the one folder that holds the overlays, and not each of them: try %s", filepath.Dir(filepath.Clean(args[0])))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir := defaultOverlays()
			if len(args) > 0 {
				dir = args[0]
			}
			return o.run(c.Context(), s, dir)
		},
	}
	c.Flags().StringSliceVar(&o.pinned, "pinned", []string{"ci", "e2e", "prod"}, "environments where images have to be named by digest")
	c.Flags().StringSliceVar(&o.expected, "expect", nil, "further field of Workloads that is there to differ, such as spec.env (repeatable)")
	c.Flags().StringVar(&o.failOn, "fail-on", overlaylint.Error, "error or warning: the least severe finding that fails")
	c.Flags().StringVar(&o.format, "format", "text", "text or json")
	oneOf(c, "fail-on", overlaylint.Error, overlaylint.Warning)
	oneOf(c, "format", formatText, formatJSON)
	c.Flags().StringVar(&o.root, "root", "", "folder that bases and symlinks may not leave (default: the Git work tree)")
	return c
}

// defaultOverlays is where a fleet has its overlays, or where this repository has.
func defaultOverlays() string {
	if _, err := os.Stat("overlays"); err == nil {
		return "overlays"
	}
	return filepath.Join("kustomize", "overlays")
}

func (o *lintOptions) run(ctx context.Context, s streams, dir string) error {
	switch {
	case o.format != "text" && o.format != "json":
		return usage("--format=%s: there are text and json", o.format)
	case o.failOn != overlaylint.Error && o.failOn != overlaylint.Warning:
		return usage("--fail-on=%s: there are error and warning", o.failOn)
	}
	names, err := environmentsOf(dir)
	if err != nil {
		return err
	}
	findings, err := o.findings(ctx, s, dir, names)
	if err != nil {
		return err
	}
	overlaylint.Sort(findings)
	if o.format == "json" {
		err = json.NewEncoder(s.out).Encode(append([]overlaylint.Finding{}, findings...))
	} else {
		err = writeLint(s.out, len(names), findings)
	}
	if err != nil {
		return usage("write the result: %w", err)
	}
	for _, f := range findings {
		if f.Severity == overlaylint.Error || o.failOn == overlaylint.Warning {
			return &exit{code: ExitDenied}
		}
	}
	return nil
}

// environmentsOf lists the folders that are overlays, in the order in which a change goes
// through them.
func environmentsOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, usage("%w", err)
	}
	var names []string
	for _, e := range entries {
		for _, file := range konfig.RecognizedKustomizationFileNames() {
			if _, err := os.Stat(filepath.Join(dir, e.Name(), file)); err == nil {
				names = append(names, e.Name())
				break
			}
		}
	}
	if len(names) == 0 {
		return nil, usage("%s: no folder in it has a kustomization: nothing was looked at", dir)
	}
	order := func(name string) int {
		if i := slices.Index(scaffold.Environments, name); i >= 0 {
			return i
		}
		return len(scaffold.Environments)
	}
	slices.SortStableFunc(names, func(a, b string) int { return order(a) - order(b) })
	return names, nil
}

func (o *lintOptions) findings(ctx context.Context, s streams, dir string, names []string) ([]overlaylint.Finding, error) {
	kinds, err := known()
	if err != nil {
		return nil, err
	}
	var all []overlaylint.Finding
	var environments []overlaylint.Environment
	for _, name := range names {
		found, e, err := o.environment(ctx, s, kinds.Converter, filepath.Join(dir, name), name)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		environments = append(environments, e)
	}
	differences, err := overlaylint.Differences(environments, append(slices.Clone(overlaylint.Expected), o.expected...))
	if err != nil {
		return nil, usage("%w", err)
	}
	return append(all, differences...), nil
}

func (o *lintOptions) environment(ctx context.Context, s streams, converter *conversion.Converter, folder, name string) ([]overlaylint.Finding, overlaylint.Environment, error) {
	e := overlaylint.Environment{Name: name}
	f, err := overlay.Open(o.root, folder)
	if err != nil {
		return nil, e, usage("%w", err)
	}
	defer f.Close()
	found, err := overlaylint.Dead(f)
	if err != nil {
		return nil, e, usage("%w", err)
	}
	built, err := f.Build("", nil)
	s.warn(f.Warnings())
	if err != nil {
		return nil, e, usage("%w", err)
	}
	for _, object := range built.Objects {
		if object.GroupVersionKind().Group != v1beta1.GroupVersion.Group || object.GetKind() != v1beta1.WorkloadKind {
			continue
		}
		w, err := lintedWorkload(ctx, converter, object)
		if err != nil {
			return nil, e, err
		}
		e.Workloads = append(e.Workloads, w)
	}
	if slices.Contains(o.pinned, name) {
		tags, err := overlaylint.Pins(e)
		if err != nil {
			return nil, e, usage("%w", err)
		}
		found = append(found, tags...)
	}
	return found, e, nil
}

func lintedWorkload(ctx context.Context, converter *conversion.Converter, object overlay.Object) (overlaylint.Workload, error) {
	sub := admit(ctx, converter, subject{file: object.File, object: object.Unstructured})
	name := fmt.Sprintf("%s: Workload %s/%s", sub.file, object.GetNamespace(), object.GetName())
	if sub.workload == nil {
		return overlaylint.Workload{}, refused(name+" is not valid:", sub.invalid)
	}
	children, err := render.Children(sub.workload)
	if err != nil {
		return overlaylint.Workload{}, usage("%s: %s", name, gather.Secrets(object.Object).Text(err.Error(), limits.ErrorBytes))
	}
	var content *unstructured.Unstructured
	if content, err = unstructuredOf(sub.workload); err != nil {
		return overlaylint.Workload{}, usage("%s: %w", name, err)
	}
	return overlaylint.Workload{File: sub.file, Object: content, Children: children}, nil
}

func writeLint(w io.Writer, environments int, findings []overlaylint.Finding) error {
	errors := 0
	for _, f := range findings {
		if f.Severity == overlaylint.Error {
			errors++
		}
		where := strings.Join(strings.Fields(f.File+" "+f.Object+" "+f.Path), " ")
		for _, line := range []string{
			fmt.Sprintf("%-7s  %s [%s]", strings.ToUpper(f.Severity), where, f.Rule),
			"         " + f.Message, "         to do: " + f.Remedy,
		} {
			if _, err := fmt.Fprintln(w, redact.Text(line, limits.ErrorBytes)); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "%d overlays: %d errors, %d warnings\n", environments, errors, len(findings)-errors)
	return err
}
