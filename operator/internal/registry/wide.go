package registry

import (
	"context"
	"errors"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// extent is how many bytes of a document are read, and that limit's name.
type extent struct {
	bytes int64
	name  string
}

var (
	usual = extent{limits.DocumentBytes, "limits.DocumentBytes"}
	most  = extent{limits.ManifestBytes, "limits.ManifestBytes"}
)

// wide has a document read and taken apart by f: as one of usual size, and where it is larger
// once more, in turn with others that are. An object names many images, and a manifest or a
// list of referrers may be as large for each of them, so that those that came in at a time
// would take the memory of the process.
func wide[T any](ctx context.Context, s *session, f func(extent) (T, error)) (T, error) {
	got, err := f(usual)
	if over := new(limitError); !errors.As(err, &over) || over.name != usual.name {
		return got, err
	}
	owner := ownerOf(ctx)
	if !s.wide.wait(ctx, owner) {
		var zero T
		return zero, s.failed("read a large manifest", 0, &waitError{
			text:   "others that are as large are read (" + s.wide.name + ")",
			remedy: "try again; remove from the repository what nobody needs",
		})
	}
	defer s.wide.leave(owner)
	return f(most)
}
