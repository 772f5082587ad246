package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// event is a line of an audit log.
func event(user, verb, stage, resource, subresource, namespace string, code string) string {
	return `{"kind":"Event","stage":"` + stage + `","verb":"` + verb + `","user":{"username":"` + user + `"},"objectRef":{"resource":"` + resource +
		`","subresource":"` + subresource + `","namespace":"` + namespace + `","name":"w"},"responseStatus":{"code":` + code + `}}` + "\n"
}

func TestLedger_CountsWhatOneUserAsked(t *testing.T) {
	const done = "ResponseComplete"
	log := event(operatorUser, "patch", done, "services", "", "operator-00", "201") +
		event(operatorUser, "patch", done, "workloads", "", "operator-00", "200") +
		event(operatorUser, "patch", done, "workloads", "status", "operator-00", "409") +
		event(operatorUser, "create", done, "events", "", "operator-00", "201") +
		event(operatorUser, "delete", done, "configmaps", "", "operator-00", "200") +
		event(operatorUser, "update", done, "leases", "", "sluice-system", "200") +
		event(operatorUser, "create", done, "events", "", "sluice-system", "201") +
		event(operatorUser, "get", done, "services", "", "operator-00", "404") +
		event(operatorUser, "list", done, "gates", "", "", "200") +
		event(operatorUser, "watch", "ResponseStarted", "gates", "", "", "200") +
		event(operatorUser, "watch", done, "gates", "", "", "200") +
		event("lab-admin", "patch", done, "services", "", "operator-00", "200")
	file := filepath.Join(t.TempDir(), "audit.log")
	half := strings.LastIndex(log, `"verb"`) // in the middle of the last line
	if err := os.WriteFile(file, []byte(log[:half]), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &ledger{path: file}
	first, err := l.next()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := l.next()
	if err != nil {
		t.Fatal(err)
	}
	if len(second) != 1 || second[0].user != "lab-admin" {
		t.Errorf("the line that was half written is read as %+v", second)
	}
	want := tally{children: 2, metadata: 1, status: 1, events: 1, refused: 1, own: 2, gets: 1, lists: 1, watches: 1}
	got := count(append(first, second...), operatorUser)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(tally{})); diff != "" {
		t.Error(diff)
	}
	if got.writes() != 5 || got.objects() != 4 || got.reads() != 3 {
		t.Errorf("%d writes, %d of them to objects, %d reads", got.writes(), got.objects(), got.reads())
	}
}

func TestLedger_RefusesWhatItCannotRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte("{\"verb\":\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&ledger{path: file}).next(); err == nil {
		t.Error("a line that is no JSON counts for nothing")
	}
}

func TestProgressTold_AllowsOneWriteInAPause(t *testing.T) {
	status := func(at time.Duration) request {
		return request{user: operatorUser, verb: "patch", resource: "workloads/status", namespace: "operator-00", name: "w", at: time.Unix(0, 0).Add(at)}
	}
	finalizer := status(0)
	finalizer.resource = "workloads"
	const pause = limits.ProgressPause
	for name, tc := range map[string]struct {
		requests []request
		told     int
		fails    bool
	}{
		"nothing":                              {nil, 0, false},
		"a start that is soon over":            {[]request{finalizer, status(time.Millisecond)}, 0, false},
		"a start that is told once":            {[]request{finalizer, status(pause), status(pause + 1)}, 1, false},
		"a start that is told twice":           {[]request{finalizer, status(pause), status(2 * pause), status(2*pause + 1)}, 2, false},
		"progress that is told too soon":       {[]request{finalizer, status(pause - 1), status(pause)}, 0, true},
		"progress that is told again too soon": {[]request{finalizer, status(pause), status(pause + 1), status(pause + 2)}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			told, err := progressTold(tc.requests)
			if told != tc.told || (err != nil) != tc.fails {
				t.Errorf("got %d, %v", told, err)
			}
		})
	}
}

func TestResults_FailOnCountsAboveTheirTargets(t *testing.T) {
	fine := func() *results {
		return &results{
			options: options{workloads: 10}, childrenEach: 6, told: 1, plain: tally{children: 60},
			fill: reading{tally: tally{children: 60, metadata: 10, status: 11, events: 11, gets: 60, own: 5}},
		}
	}
	if err := fine().check(); err != nil {
		t.Errorf("what is on target fails: %v", err)
	}
	for name, change := range map[string]func(*results){
		"a child that is written twice":        func(r *results) { r.fill.tally.children++ },
		"a child that is not written":          func(r *results) { r.fill.tally.children-- },
		"a status too many":                    func(r *results) { r.fill.tally.status++ },
		"a finalizer too many":                 func(r *results) { r.fill.tally.metadata++ },
		"an event too many":                    func(r *results) { r.fill.tally.events++ },
		"a write at rest":                      func(r *results) { r.rest.tally.status++ },
		"an event at rest":                     func(r *results) { r.rest.tally.events++ },
		"a write after a start":                func(r *results) { r.restart.tally.children++ },
		"a reconcile that failed":              func(r *results) { r.fill.failed++ },
		"a child that plain client-go lacks":   func(r *results) { r.plain.children-- },
		"a write of plain client-go's refused": func(r *results) { r.plain.refused++ },
	} {
		t.Run(name, func(t *testing.T) {
			r := fine()
			change(r)
			if r.check() == nil {
				t.Error("it passes")
			}
		})
	}
}
