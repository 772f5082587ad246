// Command demo starts a cluster that runs Sluice from kustomize/overlays/dev and shows
// the gate at work, step by step. Each step is checked: a wrong outcome fails it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// patience is how long any one thing may take to come true.
const patience = 60 * time.Second

func main() {
	// The cluster's clients log to a global logger, which prints a stack when nobody set it.
	log.SetLogger(logr.Discard())
	keep := flag.Bool("keep", false, "leave the cluster running at the end, until Ctrl-C")
	flag.Parse()
	stepwise.Main(func(ctx context.Context) error { return run(ctx, *keep) })
}

func run(ctx context.Context, keep bool) (err error) {
	d, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = d.stage.Failed(err)
		} else if stopErr := d.stage.Stop(); err == nil {
			err = stopErr
		}
	}()
	if err := stepwise.Take(ctx, d, steps); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	fmt.Print(d.directions())
	return d.stage.Cluster.Wait(ctx) // Ctrl-C is no failure; a program that ended by itself is
}

// directions say how to go on in the cluster from another shell. The last step deleted
// every Workload, so they begin with some to look at.
func (d *demo) directions() string {
	return fmt.Sprintf(`
The cluster is left running until Ctrl-C; the operator's log is %[1]s. In another shell, here:
  export KUBECONFIG=%[2]s
  %[3]s apply -k kustomize/base/fleet   # two Workloads with signed images
  %[3]s get workloads -n shop
  bin/sluice check operator/test/demo/overlay --gate kustomize/overlays/dev --gate %[4]s --registry-mirror %[5]s=%[6]s
`, d.stage.Manager.Log(), d.stage.Cluster.Kubeconfig(), d.kubectl, d.signer, stage.Registry, d.stage.RegistryAddress)
}

// demo is what the steps share.
type demo struct {
	root            string
	sluice, kubectl string
	stage           *stage.Stage
	client          client.Client
	// signer is a manifest with the public key, for the CLI's --gate.
	signer string
}

// images that the overlay of the demo names besides the sample fleet's.
var signed, unsigned = []string{"shop/ledger:2.0.1", "shop/scanner:1.4.0"}, []string{"shop/report:0.9.0"}

func start(ctx context.Context) (*demo, error) {
	root, err := clone.Root()
	if err != nil {
		return nil, err
	}
	d := &demo{root: root, sluice: filepath.Join(root, "bin", "sluice"), kubectl: filepath.Join(root, "bin", "tools", "kubectl")}
	fmt.Println("Starting a cluster that runs Sluice from kustomize/overlays/dev")
	d.stage, err = stage.Up(ctx, stage.Options{Root: root, Overlay: "kustomize/overlays/dev", Manager: filepath.Join(root, "bin", "manager"), Log: indented{os.Stdout}})
	if err != nil {
		return nil, err
	}
	if err := d.prepare(); err != nil {
		return nil, d.stage.Failed(err)
	}
	rss, err := d.stage.Manager.RSS()
	if err != nil {
		return nil, d.stage.Failed(err)
	}
	fmt.Printf("   the operator is ready and holds %d MiB\n", rss>>20)
	return d, nil
}

func (d *demo) prepare() error {
	var err error
	if d.client, err = client.New(d.stage.Cluster.Config(), client.Options{}); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	for _, image := range signed {
		if err := d.stage.PushSigned(image); err != nil {
			return err
		}
	}
	for _, image := range unsigned {
		if _, err := d.stage.Push(image); err != nil {
			return err
		}
	}
	manifest, err := d.stage.SignerManifest().MarshalJSON()
	if err != nil {
		return fmt.Errorf("signer manifest: %w", err)
	}
	d.signer = filepath.Join(d.stage.Cluster.Dir(), "signer.json")
	return os.WriteFile(d.signer, manifest, 0o600)
}

type indented struct{ to *os.File }

func (i indented) Write(p []byte) (int, error) {
	if _, err := fmt.Fprintf(i.to, "   %s", p); err != nil {
		return 0, err
	}
	return len(p), nil
}
