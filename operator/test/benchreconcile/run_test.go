package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/internal/clone"
)

// TestMeasure_FewWorkloadsStayWithinTheTargets is the whole run, with few enough Workloads
// for every day.
func TestMeasure_FewWorkloadsStayWithinTheTargets(t *testing.T) {
	log.SetLogger(logr.Discard())
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	o := options{workloads: 25, workers: 16, qps: 500, root: root, manager: filepath.Join(root, "bin", "manager"), dir: t.TempDir()}
	var said strings.Builder
	r, err := measure(t.Context(), o, &said)
	if err != nil {
		t.Fatalf("%v (run `make build tools` first)\n%s", err, said.String())
	}
	t.Log(r.table())
	if err := r.check(); err != nil {
		t.Error(err)
		operatorLog, err := os.ReadFile(filepath.Join(o.dir, "sluice-manager-lab-1.log"))
		t.Logf("the operator's log ends with (%v): %s", err, operatorLog[max(0, len(operatorLog)-4000):])
	}
	// Zeros are only worth something where the same count is able to see the rest.
	if r.childrenEach != 6 || r.empty.tally.watches == 0 || r.restart.tally.watches == 0 || r.rest.tally.own+r.restart.tally.own == 0 {
		t.Errorf("%d children each, %d and %d watches at two starts, %d and %d writes for itself: the audit log does not show what the operator does",
			r.childrenEach, r.empty.tally.watches, r.restart.tally.watches, r.rest.tally.own, r.restart.tally.own)
	}
	if r.rest.reconciles < 25 || r.restart.reconciles < 25 || r.restart.registry == 0 {
		t.Errorf("judged %v times while nothing changed and %v after a start, with %v requests to the registry: want each Workload judged",
			r.rest.reconciles, r.restart.reconciles, r.restart.registry)
	}
}
