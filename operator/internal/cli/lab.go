package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/internal/clone"
)

func labCommand() *cobra.Command {
	c := &cobra.Command{Use: "lab", Short: "Run a local cluster, without Docker or root"}
	c.AddCommand(labUpCommand())
	return c
}

// labUpCommand takes the flags of bin/lab and has their defaults in its help; bin/lab is
// given those that were set.
func labUpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster that runs Sluice from an overlay, until interrupted",
		Long: `Start etcd, kube-apiserver, kube-controller-manager, a node that only pretends to run
pods, an OCI registry in memory with sample images, and the operator. The images are signed
but for shop/hello:1.0.0, and have the evidence that the Gates of the overlay demand; the
keys, of this one lab, are in its folder. Needs
a clone of the repository, at or above the working directory, in which "make build tools"
has run: it runs bin/lab of that clone, as make would what is in its Makefile.`,
		Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			var args []string
			for _, name := range []string{"overlay", "dir", "manager"} {
				if f := c.Flags().Lookup(name); f.Changed {
					args = append(args, "--"+name+"="+f.Value.String())
				}
			}
			if c.Context().Err() != nil {
				return nil // interrupted, as the lab may be at any time
			}
			return becomeLab(args)
		},
	}
	c.Flags().String("overlay", "kustomize/overlays/dev", "overlay to apply, below the repository's root")
	c.Flags().String("dir", "", "folder for kubeconfig and logs (default: temporary)")
	c.Flags().String("manager", "", "operator binary (default: bin/manager)")
	return c
}

// becomeLab has the clone's bin/lab take this process over, with its streams and signals.
// The cluster's parts would be half of a command that checks manifests. It returns only
// what kept it from that.
func becomeLab(args []string) error {
	root, err := clone.Root()
	if err != nil {
		return usage("%w", err)
	}
	program := filepath.Join(root, "bin", "lab")
	if info, err := os.Stat(program); err == nil && ofOthers(info) {
		return usage("%s belongs to another user: run it by its path if you trust it, or make build in a clone of your own", program)
	}
	err = syscall.Exec(program, append([]string{program}, args...), os.Environ())
	if errors.Is(err, fs.ErrNotExist) {
		return usage("%s is not there: run make build", program)
	}
	return &exit{code: ExitUndecided, err: fmt.Errorf("run %s: %w", program, err)}
}
