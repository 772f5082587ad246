package bench

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// fleet writes an overlay over n Workloads, and a Gate with 16 policies or more, and returns
// the arguments that check it.
func fleet(t testing.TB, n int) []string {
	t.Helper()
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	if err := errors.Join(testkit.WriteFleet(dir, n), testkit.WriteGate(gate, "restricted", "tenancy")); err != nil {
		t.Fatal(err)
	}
	return []string{"check", "--no-cache", filepath.Join(dir, "overlay"), "--root", dir, "--gate", gate}
}

// BenchmarkCheck_AThousandWorkloads is all of `sluice check` but the start of the process.
func BenchmarkCheck_AThousandWorkloads(b *testing.B) {
	args := fleet(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if code := cli.Main(b.Context(), args, strings.NewReader(""), io.Discard, io.Discard); code != cli.ExitPass {
			b.Fatalf("exit code %d", code)
		}
	}
}

// What is measured is a fleet that passes, all of it.
func TestFleet_PassesItsGate(t *testing.T) {
	var out strings.Builder
	code := cli.Main(t.Context(), append(fleet(t, 3), "--format", "json"), strings.NewReader(""), &out, &out)
	if code != cli.ExitPass || strings.Count(out.String(), `"verdict":"Allow"`) != 3 {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}
