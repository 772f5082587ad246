// Command benchreconcile measures the operator under many Workloads that are created at
// once: how long they take to be Ready, what the operator asks of the API server for each,
// what it writes when nothing changes and when it is started again, and how much memory it
// takes. The same children are then written by plain client-go, to compare with.
//
// Requests are counted in the API server's audit log, not by who sends them. A count that
// is above its target fails the command; times and memory are only told.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/internal/clone"
)

// maxWorkloads keeps the audit log, at 30 KB for each, below the size where it is rotated.
const maxWorkloads = 2000

func main() {
	// The cluster's clients log to a global logger, which prints a stack when nobody set it.
	log.SetLogger(logr.Discard())
	o := options{}
	flag.IntVar(&o.workloads, "n", 1000, "Workloads to create")
	flag.IntVar(&o.workers, "workers", 16, "the operator's --workers, and how many children plain client-go writes at a time")
	flag.IntVar(&o.qps, "kube-api-qps", 500, "the operator's --kube-api-qps, and that of plain client-go")
	flag.StringVar(&o.dir, "dir", "", "folder that keeps the logs (default: a temporary one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nFAILED: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.workloads < 1 || o.workloads > maxWorkloads {
		return fmt.Errorf("-n=%d: has to be between 1 and %d", o.workloads, maxWorkloads)
	}
	root, err := clone.Root()
	if err != nil {
		return err
	}
	o.root, o.manager = root, filepath.Join(root, "bin", "manager")
	r, err := measure(ctx, o, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Print(r.table())
	return r.check()
}
