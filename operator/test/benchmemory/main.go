// Command benchmemory measures the memory of bin/manager while it judges images with as much
// evidence beside them as whoever may push can store: every limit of package limits is gone
// up to, in registries that keep the last byte of each answer back, so that all is held at
// the same time. It fails where the peak is too near to what the manager's container has.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/internal/clone"
)

func main() {
	// The cluster's clients log to a global logger, which prints a stack when nobody set it.
	log.SetLogger(logr.Discard())
	o := options{}
	flag.IntVar(&o.decisions, "decisions", 200, "decisions that are asked for at a time, as many as an API server waits for")
	flag.IntVar(&o.owners, "namespaces", 40, "namespaces that they are spread over")
	flag.IntVar(&o.hosts, "hosts", 64, "registries that their images are spread over: as many as one Gate may name")
	flag.DurationVar(&o.each, "for", 20*time.Second, "how long each scenario is gone on with")
	flag.StringVar(&o.only, "only", "", "scenarios to measure, such as much,attested (default: all, and all at once)")
	flag.BoolVar(&o.leads, "leader-elect", true, "the operator's --leader-elect: false keeps one from ending that cannot renew its Lease any more")
	flag.StringVar(&o.manager, "manager", "", "the operator's binary (default: bin/manager)")
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
	root, err := clone.Root()
	if err != nil {
		return err
	}
	o.root = root
	if o.manager == "" {
		o.manager = filepath.Join(root, "bin", "manager")
	}
	all, err := measure(ctx, o, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Print(table(all))
	return check(all)
}
