package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/live"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/standing"
)

// statusFlags are those of the commands that show Workloads of a cluster.
type statusFlags struct {
	clusterFlags
	all    bool
	format string
}

func (f *statusFlags) register(c *cobra.Command) {
	f.clusterFlags.register(c)
	c.Flags().StringVar(&f.format, "format", "text", "text or json")
	oneOf(c, "format", formatText, formatJSON)
}

func (f *statusFlags) registerAll(c *cobra.Command) {
	c.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "Workloads of all namespaces")
}

// connect returns the cluster and the namespace that is meant.
func (f *statusFlags) connect() (*live.Cluster, string, error) {
	if f.format != "text" && f.format != "json" {
		return nil, "", usage("--format=%s: there are text and json", f.format)
	}
	c, err := live.Connect(f.Options)
	if err != nil {
		return nil, "", usage("%w", err)
	}
	if f.all {
		return c, "", nil
	}
	return c, c.Namespace, nil
}

// unreachable is an error of the cluster: nothing is known.
func unreachable(err error) error { return &exit{code: ExitUndecided, err: err} }

func statusCommand(s streams) *cobra.Command {
	var f statusFlags
	var follow bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how the Workloads of a cluster stand: phase, verdict, digest, signer, drift",
		Long: `Show a row for each Workload. A phase with * is of an older spec than the one that is there.

Exit codes: 0 shown, 2 wrong flags, 3 the cluster did not answer.`,
		Example: "  sluice status -A\n  sluice status -n shop -w",
		Args:    takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return showStatus(c.Context(), s, &f, follow)
		},
	}
	f.register(c)
	f.registerAll(c)
	c.Flags().BoolVarP(&follow, "watch", "w", false, "go on with a row for each change, until interrupted")
	return c
}

// printer writes rows, in a table or as JSON.
type printer struct {
	out   io.Writer
	json  bool
	table *standing.Table
}

func (p *printer) rows(rows []standing.Row, follow bool) error {
	if p.json && !follow {
		return json.NewEncoder(p.out).Encode(append([]standing.Row{}, rows...))
	}
	if !p.json {
		var err error
		if p.table, err = standing.NewTable(p.out, rows); err != nil {
			return err
		}
	}
	for _, row := range rows {
		if err := p.row(row); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) row(row standing.Row) error {
	if p.json {
		return json.NewEncoder(p.out).Encode(row)
	}
	return p.table.Row(row)
}

func showStatus(ctx context.Context, s streams, f *statusFlags, follow bool) error {
	c, namespace, err := f.connect()
	if err != nil {
		return err
	}
	list, version, err := c.Workloads(ctx, namespace)
	if err != nil {
		return unreachable(err)
	}
	var rows []standing.Row
	for i := range list {
		rows = append(rows, standing.RowOf(&list[i]))
	}
	if len(rows) == 0 && f.format == "text" && !follow {
		say(s.err, "sluice: ", "no Workload in "+orAll(namespace))
		return nil
	}
	p := &printer{out: s.out, json: f.format == "json"}
	if err := p.rows(rows, follow); err != nil {
		return usage("write: %w", err)
	}
	if !follow {
		return nil
	}
	shown := map[string]standing.Row{}
	for _, row := range rows {
		shown[row.Namespace+"/"+row.Name] = row
	}
	return followRows(ctx, c, namespace, version, p, shown)
}

func orAll(namespace string) string {
	if namespace == "" {
		return "any namespace"
	}
	return "namespace " + namespace
}

// followRows writes a row for each change of one, until the context ends. Servers end a
// watch now and then: it goes on from the last version that was seen, and from a new list
// where the server has forgotten that.
func followRows(ctx context.Context, c *live.Cluster, namespace, version string, p *printer, shown map[string]standing.Row) error {
	for ctx.Err() == nil {
		began, seen := time.Now(), version
		w, err := c.Watch(ctx, namespace, version)
		if err == nil {
			version, err = drain(ctx, w, version, p, shown)
			w.Stop()
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			var list []v1beta1.Workload
			if list, version, err = c.Workloads(ctx, namespace); err == nil {
				for i := range list {
					if err := news(&list[i], p, shown); err != nil {
						return err
					}
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			return unreachable(err)
		}
		if version == seen && time.Since(began) < limits.WatchPause {
			rest(ctx, limits.WatchPause)
		}
	}
	return nil
}

// rest is for a server that ends each watch at once.
func rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// drain reads a watch to its end, and returns the last version in it.
func drain(ctx context.Context, w watch.Interface, version string, p *printer, shown map[string]standing.Row) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case event, open := <-w.ResultChan():
			if !open {
				return version, nil
			}
			if event.Type == watch.Error {
				return version, apierrors.FromObject(event.Object)
			}
			workload, ok := event.Object.(*v1beta1.Workload)
			if !ok {
				continue
			}
			version = workload.ResourceVersion
			var err error
			switch event.Type {
			case watch.Added, watch.Modified:
				err = news(workload, p, shown)
			case watch.Deleted:
				delete(shown, workload.Namespace+"/"+workload.Name)
				gone := standing.RowOf(workload)
				gone.Phase, gone.Current = "Deleted", true
				err = p.row(gone)
			}
			if err != nil {
				return version, err
			}
		}
	}
}

// news writes the row of a Workload if it is another than the one that was shown.
func news(w *v1beta1.Workload, p *printer, shown map[string]standing.Row) error {
	row, key := standing.RowOf(w), w.Namespace+"/"+w.Name
	if shown[key] == row {
		return nil
	}
	shown[key] = row
	return p.row(row)
}

func whyCommand(s streams) *cobra.Command {
	var f statusFlags
	c := &cobra.Command{
		Use:   "why NAME|KIND/NAME",
		Short: "Explain why a Workload stands as it does, and what to do",
		Long: `Explain a Workload from its status and its events: the verdict with what to do, conditions,
drift, the rollout. KIND/NAME may be anything that a Workload owns, such as pod/web-0.

Exit codes: 0 explained, 2 there is no such Workload, 3 the cluster did not answer.`,
		Example: "  sluice why web -n shop\n  sluice why pod/orders-db-0",
		Args:    takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return explain(c.Context(), s, &f, args[0])
		},
	}
	f.register(c)
	return c
}

func explain(ctx context.Context, s streams, f *statusFlags, what string) error {
	c, namespace, err := f.connect()
	if err != nil {
		return err
	}
	kind, name, ok := strings.Cut(what, "/")
	if !ok {
		kind, name = v1beta1.WorkloadKind, what
	}
	w, err := c.Owner(ctx, kind, namespace, name)
	if err != nil {
		return unreachable(err)
	}
	if w == nil {
		return usage("there is no %s %s in namespace %s that is a Workload or belongs to one", kind, name, namespace)
	}
	events, err := c.Events(ctx, w)
	if err != nil {
		// Who may not read events still gets the rest.
		say(s.err, "sluice: ", err.Error())
	}
	e := standing.Why(w, events)
	if f.format == "json" {
		err = json.NewEncoder(s.out).Encode(e)
	} else {
		err = e.Text(s.out, time.Now())
	}
	if err != nil {
		return usage("write: %w", err)
	}
	return nil
}

func driftCommand(s streams) *cobra.Command {
	var f statusFlags
	c := &cobra.Command{
		Use:   "drift",
		Short: "List the fields of children that somebody changed in the cluster",
		Long: `List what differs now from what was applied, by Workload. What was put back is not listed.

Exit codes: 0 no drift, 1 drift, 2 wrong flags, 3 the cluster did not answer.`,
		Args: takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return showDrift(c.Context(), s, &f)
		},
	}
	f.register(c)
	f.registerAll(c)
	return c
}

// drifted is the drift of one Workload.
type drifted struct {
	Namespace string                `json:"namespace"`
	Name      string                `json:"name"`
	Changes   []v1beta1.DriftChange `json:"changes"`
}

func showDrift(ctx context.Context, s streams, f *statusFlags) error {
	c, namespace, err := f.connect()
	if err != nil {
		return err
	}
	list, _, err := c.Workloads(ctx, namespace)
	if err != nil {
		return unreachable(err)
	}
	found := []drifted{}
	for i := range list {
		if changes := standing.Drifted(&list[i]); len(changes) > 0 {
			found = append(found, drifted{list[i].Namespace, list[i].Name, changes})
		}
	}
	if f.format == "json" {
		err = json.NewEncoder(s.out).Encode(found)
	} else {
		err = writeDrift(s.out, len(list), found)
	}
	if err != nil {
		return usage("write: %w", err)
	}
	if len(found) > 0 {
		return &exit{code: ExitDenied}
	}
	return nil
}

func writeDrift(w io.Writer, looked int, found []drifted) error {
	for _, d := range found {
		for _, c := range d.Changes {
			line := fmt.Sprintf("%s/%s: %s %s: %s", d.Namespace, d.Name, c.Object, c.Path, c.Change)
			if _, err := fmt.Fprintln(w, redact.Text(line, limits.ErrorBytes)); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d Workloads drift\n", len(found), looked)
	return err
}
