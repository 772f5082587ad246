package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// told is a test that notes its failure.
type told struct {
	testing.TB
	failed string
}

func (t *told) Helper()                           {}
func (t *told) Errorf(format string, args ...any) { t.failed = fmt.Sprintf(format, args...) }
func (t *told) Fatalf(format string, args ...any) { t.Errorf(format, args...) }

func TestCompare_FailsWhereTheFileDiffersAndWritesItWhenTold(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("testdata", 0o700); err != nil {
		t.Fatal(err)
	}
	compare := func(got string) string {
		inner := &told{TB: t}
		Compare(inner, "a.txt", got)
		return inner.failed
	}
	if compare("one") == "" {
		t.Error("a file that is not there does")
	}
	*update = true
	t.Cleanup(func() { *update = false })
	if failed := compare("one"); failed != "" {
		t.Error(failed)
	}
	*update = false
	if failed := compare("one"); failed != "" {
		t.Error(failed)
	}
	if compare("two") == "" {
		t.Error("another text does")
	}
	if raw, err := os.ReadFile(filepath.Join("testdata", "a.txt")); err != nil || string(raw) != "one" {
		t.Errorf("it holds %q, %v", raw, err)
	}
}
