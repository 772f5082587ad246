// Command e2e delivers an image to production as a team would: four clusters that run
// Sluice, the fleet repository that sluice init writes, and a real Argo CD that syncs it.
// Nothing gets anywhere but by a merge. Every step is checked: a wrong outcome fails it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// patience is how long any one thing may take to come true. Argo CD tries again after 5,
// 10 and 20 s what was refused.
const patience = 2 * time.Minute

func main() {
	// The clusters' clients log to a global logger, which prints a stack when nobody set it.
	log.SetLogger(logr.Discard())
	keep := flag.Bool("keep", false, "leave everything running at the end, until Ctrl-C")
	flag.Parse()
	stepwise.Main(func(ctx context.Context) error { return run(ctx, *keep) })
}

func run(ctx context.Context, keep bool) (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() {
		interrupted := ctx.Err() != nil
		if err != nil && !interrupted {
			w.tellLogs()
		}
		if stopErr := w.stop(); err == nil {
			err = stopErr
		}
		err = errors.Join(err, w.clean(err == nil || interrupted))
	}()
	if err := stepwise.Take(ctx, w, steps); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	fmt.Print(w.directions())
	<-ctx.Done()
	return nil
}
