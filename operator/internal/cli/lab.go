package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

func labCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "lab", Short: "Run a local cluster, without Docker or root"}
	c.AddCommand(labUpCommand(s))
	return c
}

func labUpCommand(s streams) *cobra.Command {
	var overlay, dir, manager string
	c := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster that runs Sluice from an overlay, until interrupted",
		Long: `Start etcd, kube-apiserver, kube-controller-manager, a node that only pretends to run
pods, an OCI registry in memory with sample images, and the operator. The images are signed
but for shop/hello:1.0.0; the key, of this one lab, is in its folder. Needs
a clone of the repository in which "make build tools" has run.`,
		Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			root, err := stage.Root()
			if err != nil {
				return usage("%w", err)
			}
			if manager == "" {
				manager = filepath.Join(root, "bin", "manager")
			}
			return labUp(c.Context(), s, stage.Options{Root: root, Overlay: overlay, Manager: manager, Dir: dir, Log: s.err})
		},
	}
	c.Flags().StringVar(&overlay, "overlay", "kustomize/overlays/dev", "overlay to apply, below the repository's root")
	c.Flags().StringVar(&dir, "dir", "", "folder for kubeconfig and logs (default: temporary)")
	c.Flags().StringVar(&manager, "manager", "", "operator binary (default: bin/manager)")
	return c
}

func labUp(ctx context.Context, s streams, o stage.Options) error {
	st, err := stage.Up(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return &exit{code: ExitUndecided, err: err}
	}
	if err := furnish(st); err != nil {
		return &exit{code: ExitUndecided, err: errors.Join(err, st.Stop())}
	}
	fmt.Fprintf(s.out, "export KUBECONFIG=%s LAB=%s REGISTRY=%s COSIGN_PASSWORD=\n", st.Cluster.Kubeconfig(), st.Cluster.Dir(), st.RegistryAddress)
	fmt.Fprintf(s.err, "registry %s is at %s; the operator's log is %s\nStop with Ctrl-C.\n", stage.Registry, st.RegistryAddress, st.Manager.Log())
	waited := st.Cluster.Wait(ctx)
	if err := st.Stop(); err != nil {
		return &exit{code: ExitUndecided, err: err}
	}
	if ctx.Err() == nil && waited != nil {
		return &exit{code: ExitUndecided, err: waited}
	}
	return nil
}

// furnish adds what somebody needs who tries it out: an image that nobody signed, the key
// to sign it with, and the manifest of the Secret that the Gate has the public half from.
func furnish(st *stage.Stage) error {
	if _, err := st.Push("shop/hello:1.0.0"); err != nil {
		return err
	}
	signer, err := yaml.Marshal(st.SignerManifest().Object)
	if err != nil {
		return fmt.Errorf("signer.yaml: %w", err)
	}
	for name, content := range map[string][]byte{
		"cosign.key": []byte(st.Key.PrivatePEM), "cosign.pub": []byte(st.Key.PublicPEM), "signer.yaml": signer,
	} {
		if err := os.WriteFile(filepath.Join(st.Cluster.Dir(), name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
