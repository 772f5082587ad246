package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// results are what a run found.
type results struct {
	options
	// created is how long the Workloads took to be created, admission included, and ready
	// until all of them were Ready.
	created, ready time.Duration
	// What the operator did in each phase.
	empty, fill, rest, restart reading
	// told is how many statuses were written of Workloads that took longer to start than
	// limits.ProgressPause.
	told int
	// plain is what writing the children alone took. childrenEach is how many there are for
	// each Workload.
	plain                  tally
	plainWrote, plainReady time.Duration
	childrenEach           int
}

// beyond is how many writes a Workload may take besides those of its children: the
// finalizer and the status. One that starts slowly may take one more for each time that its
// progress is told.
const beyond = 2

// check compares the counts with their targets.
func (r *results) check() error {
	var errs []error
	if n := r.plain.children; n != r.childrenEach*r.workloads || r.plain.refused > 0 {
		errs = append(errs, fmt.Errorf("plain client-go wrote %d children of %d Workloads, %d refused", n, r.workloads, r.plain.refused))
	}
	if want := r.childrenEach * r.workloads; r.fill.tally.children != want {
		errs = append(errs, fmt.Errorf("the operator wrote children %d times and there are %d", r.fill.tally.children, want))
	}
	if most := (r.childrenEach+beyond)*r.workloads + r.told; r.fill.tally.objects() > most {
		errs = append(errs, fmt.Errorf("the operator wrote to objects %d times for %d Workloads, target %d", r.fill.tally.objects(), r.workloads, most))
	}
	if most := r.workloads + r.told; r.fill.tally.events > most {
		errs = append(errs, fmt.Errorf("the operator wrote %d events of %d Workloads, target %d", r.fill.tally.events, r.workloads, most))
	}
	if n := r.fill.failed + r.rest.failed + r.restart.failed; n > 0 {
		errs = append(errs, fmt.Errorf("%v reconciles failed, target 0", n))
	}
	if n := r.rest.tally.writes(); n > 0 {
		errs = append(errs, fmt.Errorf("the operator wrote %d times while nothing had changed, target 0", n))
	}
	if n := r.restart.tally.writes(); n > 0 {
		errs = append(errs, fmt.Errorf("the operator wrote %d times after it was started again, target 0", n))
	}
	return errors.Join(errs...)
}

// table is for people, and for docs/performance.md.
func (r *results) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n%d Workloads with %d children each, --workers=%d --kube-api-qps=%d, %d cores\n\n", r.workloads, r.childrenEach, r.workers, r.qps, runtime.NumCPU())
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	line := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprintf(w, "%v\t", c)
		}
		fmt.Fprintln(w)
	}
	n := float64(r.workloads)
	each := func(count int) string { return fmt.Sprintf("%.2f", float64(count)/n) }
	line("", "operator", "plain client-go", "ratio")
	line("until all are Ready", seconds(r.ready), seconds(r.plainReady), ratio(r.ready.Seconds(), r.plainReady.Seconds()))
	line("of that, Workloads created / children written", seconds(r.created), seconds(r.plainWrote), "")
	line("writes to objects per Workload", each(r.fill.tally.objects()), each(r.plain.objects()), ratio(float64(r.fill.tally.objects()), float64(r.plain.objects())))
	line("  children", each(r.fill.tally.children), each(r.plain.children), "")
	line("  finalizer", each(r.fill.tally.metadata), "", "")
	line("  status", each(r.fill.tally.status), "", "")
	line("    of that, of slow starts", each(r.told), "", "")
	line("events per Workload", each(r.fill.tally.events), "", "")
	line("refused, among all these", each(r.fill.tally.refused), each(r.plain.refused), "")
	fmt.Fprintln(w)
	line("operator", "empty", "created", "judged again", "started again")
	all := []reading{r.empty, r.fill, r.rest, r.restart}
	row := func(name string, value func(reading) any) {
		cells := []any{name}
		for _, p := range all {
			cells = append(cells, value(p))
		}
		line(cells...)
	}
	row("until quiet", func(p reading) any { return seconds(p.took) })
	row("reconciles", func(p reading) any { return p.reconciles })
	row("  that failed", func(p reading) any { return p.failed })
	row("CPU", func(p reading) any { return fmt.Sprintf("%.1f s", p.cpu) })
	row("writes about Workloads", func(p reading) any { return p.tally.writes() })
	row("writes for itself", func(p reading) any { return p.tally.own })
	row("reads: get", func(p reading) any { return p.tally.gets })
	row("  list", func(p reading) any { return p.tally.lists })
	row("  watch", func(p reading) any { return p.tally.watches })
	row("requests to the registry", func(p reading) any { return p.registry })
	row("memory", func(p reading) any { return mebibytes(p.rss) })
	row("  at most", func(p reading) any { return mebibytes(p.highest) })
	row("  heap in use", func(p reading) any { return mebibytes(int64(p.heap)) })
	row("  per Workload", func(p reading) any { return fmt.Sprintf("%.0f KiB", float64(p.rss-r.empty.rss)/n/1024) })
	_ = w.Flush() // into memory
	return out.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}
