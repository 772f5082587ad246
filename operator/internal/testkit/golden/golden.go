// Package golden compares what a test made with a file that is reviewed. It is apart from
// testkit, whose programs are not to have its flag.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Compare fails a test where got is not the content of testdata/name. With the flag -update
// it writes that file first.
func Compare(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if got != string(want) {
		t.Errorf("it differs from %s; look at the difference after go test -update:\n%s", file, got)
	}
}
