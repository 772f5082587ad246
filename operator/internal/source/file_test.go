package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Files are read in the order of their objects; what was read of all of them would be many
// times what they hold. What is asked for in another order is not read over and over.
func TestFile_FewStayReadAndNoneIsReadThreeTimes(t *testing.T) {
	const n, size = 100, limits.SourceReadBytes / 10
	files := map[string][]byte{}
	for i := range n {
		files[fmt.Sprintf("%d.yaml", i)] = fmt.Appendf(nil, "a: %d # %s\n", i, strings.Repeat("x", size))
	}
	files["large.yaml"] = []byte("a: b # " + strings.Repeat("x", 2*limits.SourceReadBytes))
	s := New(files, "", func(name string) string { return name })
	first := map[string]*file{}
	for i := range n {
		name := fmt.Sprintf("%d.yaml", i)
		first[name] = s.file(name)
		if first[name].parsed(); s.file(name) != first[name] {
			t.Fatalf("%s is read twice in a row", name)
		}
	}
	if got := s.lately.Len() + len(s.held); got > 10 {
		t.Errorf("%d of %d files stay read", got, n)
	}
	if large := s.file("large.yaml"); s.file("large.yaml") != large {
		t.Error("a file that is larger than all that stays is read twice in a row")
	}
	again := map[string]*file{}
	for range 3 {
		for name := range first {
			f := s.file(name)
			if known := again[name]; known != nil && f != known {
				t.Fatalf("%s is read a third time", name)
			}
			again[name] = f
		}
	}
}
