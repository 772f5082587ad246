package registry

import (
	"context"
	"errors"
	"time"

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

// exceeded says whether an error is that a document is larger.
func (e extent) exceeded(err error) bool {
	over := new(limitError)
	return errors.As(err, &over) && over.name == e.name
}

// wide has a document read and taken apart by f: as one of usual size, and where it is larger
// once more, in turn with others that are. An object names many images, and a manifest or a
// list of referrers may be as large for each of them, so that those that came in at a time
// would take the memory of the process.
func wide[T any](ctx context.Context, s *session, f func(extent) (T, error)) (T, error) {
	got, err := f(usual)
	if !usual.exceeded(err) {
		return got, err
	}
	return inWideTurn(ctx, s, func() (T, error) { return f(most) })
}

// recallWide is recall of what wide reads. One of usual size is read once for all who ask, and a
// larger one once for each owner: nobody waits for the turn of another.
func recallWide[T any](ctx context.Context, l *look, what string, age time.Duration, online bool, read func(context.Context, extent) (T, int, error)) (T, error) {
	got, err := recall(ctx, l, l.c.found, what, age, online, func(ctx context.Context) (T, int, error) { return read(ctx, usual) })
	if !usual.exceeded(err) {
		return got, err
	}
	group := "large\x00" + ownerOf(ctx) + "\x00"
	return recallOnce(ctx, l, l.c.found, what, group, age, online, func(ctx context.Context) (value T, bytes int, err error) {
		value, err = inWideTurn(ctx, l.s, func() (value T, err error) {
			value, bytes, err = read(ctx, most)
			return value, err
		})
		return value, bytes, err
	})
}

// inWideTurn runs f when it is the turn of the context's owner.
func inWideTurn[T any](ctx context.Context, s *session, f func() (T, error)) (T, error) {
	owner := ownerOf(ctx)
	if !s.wide.wait(ctx, owner) {
		var zero T
		return zero, s.failed("read a large manifest", 0, &waitError{
			text:   "others that are as large are read (" + s.wide.name + ")",
			remedy: "try again; remove from the repository what nobody needs",
		})
	}
	defer s.wide.leave(owner)
	return f()
}
