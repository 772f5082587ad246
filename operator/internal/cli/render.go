package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

func renderCommand(s streams) *cobra.Command {
	var root string
	c := &cobra.Command{
		Use:     "render PATH...",
		Short:   "Print the objects that Workloads become, images as written",
		Example: "  sluice render kustomize/overlays/dev | less",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, paths []string) error {
			return renderAll(c.Context(), s, root, paths)
		},
	}
	c.Flags().StringVar(&root, "root", "", "folder that bases and symlinks may not leave (default: the Git work tree)")
	return c
}

func renderAll(ctx context.Context, s streams, root string, paths []string) error {
	in, err := readInput(ctx, s, root, paths, nil, nil)
	if err != nil {
		return err
	}
	if len(in.workloads) == 0 {
		return usage("no Workload in %v: nothing was rendered", paths)
	}
	for _, sub := range in.workloads {
		if sub.workload == nil {
			return refused(fmt.Sprintf("%s: Workload %s/%s is not valid:", sub.file, sub.object.GetNamespace(), sub.object.GetName()), sub.invalid)
		}
		children, err := render.Children(sub.workload)
		if err != nil {
			return usage("%s: Workload %s/%s: %s", sub.file, sub.workload.Namespace, sub.workload.Name,
				gather.Secrets(sub.object.Object).Text(err.Error(), limits.ErrorBytes))
		}
		for _, child := range children {
			raw, err := yaml.Marshal(child)
			if err != nil {
				return usage("%s: %w", sub.file, err)
			}
			if _, err := fmt.Fprintf(s.out, "---\n%s", raw); err != nil {
				return usage("write: %w", err)
			}
		}
	}
	return nil
}
