package resultcache

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// surplus are the files to delete: drafts that were left behind, and the oldest entries
// beyond what there is room for.
func surplus(files []fs.FileInfo, now time.Time) []string {
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	var out []string
	var count int
	var size int64
	for _, f := range files {
		if filepath.Ext(f.Name()) == temporary {
			if now.Sub(f.ModTime()) > limits.ResultDraft {
				out = append(out, f.Name())
			}
			continue
		}
		count++
		size += f.Size()
		if count > limits.Results || size > limits.ResultsBytes {
			out = append(out, f.Name())
		}
	}
	return out
}
