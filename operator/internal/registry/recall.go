package registry

import (
	"context"
	"errors"
	"time"
)

// recall takes from memory what is not older than age, and from the registry what is.
func recall[T any](ctx context.Context, l *look, from *memory, what string, age time.Duration, online bool, read func(context.Context) (T, int, error)) (T, error) {
	return recallOnce(ctx, l, from, what, "", age, online, read)
}

// recallOnce is recall that reads once for all who ask for the same at the same time and are of
// the same group.
func recallOnce[T any](ctx context.Context, l *look, from *memory, what, group string, age time.Duration, online bool, read func(context.Context) (T, int, error)) (T, error) {
	key := l.s.key(what)
	if kept, ok := from.get(key, age); ok {
		return kept.(T), nil
	}
	if !online {
		var zero T
		return zero, errNotKept
	}
	l.asked.Store(true)
	for {
		in := l.c.reads
		if group != "" {
			in = nil // it has turns of its own
		}
		got, err := shareIn(ctx, l.c, l.s, in, group+what, func(ctx context.Context) (T, error) {
			if kept, ok := from.get(key, age); ok {
				// Another flight landed between our look and the start of this one.
				return kept.(T), nil
			}
			value, bytes, err := read(ctx)
			if err == nil {
				from.put(key, value, bytes)
			}
			return value, err
		})
		// Somebody else's decision may have ended before what it asked for was begun.
		if !errors.Is(err, errOver) || isOver(ctx) {
			return got, err
		}
	}
}
