// Command e2e delivers an image to production as a team would: four clusters that run
// Sluice, the fleet repository that sluice init writes, and a real Argo CD that syncs it.
// Nothing gets anywhere but by a merge. Every step is checked: a wrong outcome fails it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// patience is how long any one thing may take to come true. Argo CD tries again after 5,
// 10 and 20 s what was refused.
const patience = 2 * time.Minute

func main() {
	// The clusters' clients log to a global logger, which prints a stack when nobody set it.
	log.SetLogger(logr.Discard())
	keep := flag.Bool("keep", false, "leave everything running at the end, until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nFAILED: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, keep bool) (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.tellLogs()
		}
		if stopErr := w.stop(); err == nil {
			err = stopErr
		}
		err = errors.Join(err, w.clean(err == nil))
	}()
	begin := time.Now()
	var table []string
	for i, step := range steps {
		fmt.Printf("\n%d. %s\n", i+1, step.title)
		began := time.Now()
		if err := step.run(ctx, w); err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, step.title, err)
		}
		table = append(table, fmt.Sprintf("%7.1f s  %s", time.Since(began).Seconds(), step.title))
	}
	fmt.Printf("\nAll %d steps came out as they should:\n", len(steps))
	for _, line := range table {
		fmt.Println(line)
	}
	fmt.Printf("%7.1f s  in all\n", time.Since(begin).Seconds())
	if !keep {
		return nil
	}
	fmt.Print(w.directions())
	<-ctx.Done()
	return nil
}
