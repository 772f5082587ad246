package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

func renderCommand(s streams) *cobra.Command {
	var root string
	c := &cobra.Command{
		Use:     "render PATH...",
		Short:   "Print the objects that Workloads become, images as written",
		Example: "  sluice render kustomize/overlays/dev | less",
		Args:    takes(1, anyNumber),
		RunE: func(c *cobra.Command, paths []string) error {
			return renderAll(c.Context(), s, root, paths)
		},
	}
	c.Flags().StringVar(&root, "root", "", "folder that bases and symlinks may not leave (default: the Git work tree)")
	return c
}

func renderAll(ctx context.Context, s streams, root string, paths []string) error {
	r, err := read(ctx, s, root, paths, nil, "")
	if err != nil {
		return err
	}
	rendered := 0
	for _, w := range r.worlds {
		for _, sub := range w.workloads {
			if err := renderOne(s, admit(ctx, w.converter, sub)); err != nil {
				return err
			}
			rendered++
		}
	}
	if rendered == 0 {
		return usage("no Workload in %v: nothing was rendered", paths)
	}
	return nil
}

// renderOne prints the children of one Workload.
func renderOne(s streams, sub subject) error {
	if sub.workload == nil {
		return refused(fmt.Sprintf("%s: Workload %s/%s is not valid:", sub.file, sub.object.GetNamespace(), sub.object.GetName()), sub.invalid)
	}
	children, err := render.Children(sub.workload)
	if err != nil {
		return usage("%s: Workload %s/%s: %s", sub.file, sub.workload.Namespace, sub.workload.Name,
			gather.Secrets(sub.object.Object).Text(err.Error(), limits.ErrorBytes))
	}
	for _, child := range children {
		raw, err := manifest(child)
		if err != nil {
			return usage("%s: %w", sub.file, err)
		}
		if _, err := fmt.Fprintf(s.out, "---\n%s", raw); err != nil {
			return usage("write: %w", err)
		}
	}
	return nil
}

// manifest is an object as YAML. What a CI system would obey, were it to show it in a log,
// makes it JSON, which is YAML too, without those characters in a row.
func manifest(object map[string]any) ([]byte, error) {
	raw, err := yaml.Marshal(object)
	if err != nil || !slices.ContainsFunc(strings.Split(string(raw), "\n"), redact.Obeyed) {
		return raw, err
	}
	if raw, err = json.Marshal(object); err != nil {
		return nil, err
	}
	return append(bytes.ReplaceAll(raw, []byte("##"), []byte(`#\u0023`)), '\n'), nil
}
