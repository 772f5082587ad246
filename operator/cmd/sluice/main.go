// Command sluice judges, renders and verifies before anything is merged, and starts a local
// cluster to try it on. As kubectl-sluice on PATH it is also `kubectl sluice`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/collector"
)

func main() {
	collector.Pace()
	// A cluster's clients log to a global logger, which prints a stack when nobody set it.
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// What waits for a file, such as a named pipe, sees no context: the second signal ends it.
	context.AfterFunc(ctx, stop)
	code := cli.MainAs(ctx, os.Args[0], os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
