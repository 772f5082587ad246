package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// pluginName is what kubectl looks for on PATH.
const pluginName = "kubectl-sluice"

// displayName is how the command was called: kubectl runs a plugin by its file's name.
func displayName(program string) string {
	base := strings.TrimSuffix(filepath.Base(program), ".exe")
	if base == pluginName {
		return "kubectl sluice"
	}
	return "sluice"
}

func docsCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "docs", Short: "Write the documentation of the command"}
	c.AddCommand(&cobra.Command{
		Use:   "man DIR",
		Short: "Write a man page for each command into DIR",
		Args:  takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return usage("%w", err)
			}
			root := c.Root()
			// The header has the month, or that of SOURCE_DATE_EPOCH.
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, &doc.GenManHeader{Title: "SLUICE", Section: "1", Source: "Sluice", Manual: "Sluice"}, args[0]); err != nil {
				return usage("write man pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "*.1"))
			if err != nil {
				return usage("%w", err)
			}
			_, err = fmt.Fprintf(s.out, "%d pages; read one: man -l %s\n", len(pages), filepath.Join(args[0], "sluice.1"))
			return err
		},
	})
	return c
}
