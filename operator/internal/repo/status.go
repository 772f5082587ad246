package repo

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// Status is where a work tree stands.
type Status struct {
	// Branch that is checked out, "" where none is.
	Branch string
	// Head is the commit that is checked out, "" before the first one.
	Head string
	// Dirty are the files that differ from Head, in the index or in the work tree, and those
	// that Git does not know and is not told to ignore, by their path below Top.
	Dirty []string
}

// Status looks at the work tree. A file that Git is told to take for unchanged is.
func (r *Repository) Status(ctx context.Context) (Status, error) {
	out, err := r.Run(ctx, nil, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
	if err != nil {
		return Status{}, err
	}
	var s Status
	for entry := range strings.SplitSeq(string(out), "\x00") {
		kind, rest, _ := strings.Cut(entry, " ")
		// How many fields come before the path.
		fields := map[string]int{"1": 7, "u": 9, "?": 0}
		switch n, ok := fields[kind]; {
		case entry == "":
		case ok:
			parts := strings.SplitN(rest, " ", n+1)
			if len(parts) != n+1 {
				return Status{}, fmt.Errorf("git status: %q is not understood", entry)
			}
			s.Dirty = append(s.Dirty, parts[n])
		case strings.HasPrefix(entry, "# branch.oid ") && !strings.HasSuffix(entry, "(initial)"):
			s.Head = strings.TrimPrefix(entry, "# branch.oid ")
		case strings.HasPrefix(entry, "# branch.head ") && !strings.HasSuffix(entry, "(detached)"):
			s.Branch = strings.TrimPrefix(entry, "# branch.head ")
		}
	}
	return s, nil
}

// In are the dirty files in a folder below Top.
func (s Status) In(folder string) []string {
	folder = path.Clean(folder)
	var out []string
	for _, file := range s.Dirty {
		if folder == "." || file == folder || strings.HasPrefix(file, folder+"/") {
			out = append(out, file)
		}
	}
	return out
}
