package registry

import (
	"context"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// flight is one read from a registry that all who ask for the same at the same time wait for.
type flight struct {
	// done is closed when value and err are there.
	done  chan struct{}
	value any
	err   error
}

// share runs f once for all callers that ask for the same at the same time. It runs on
// its own time: a caller that gives up takes nothing from the others. A caller that has
// less time left than the registry wants to wait is told so at once.
//
// limits.Reads of them run at a time, for all registries. Whoever begins one waits for that
// with his own turn, so that nobody waits for what another owner's many reads wait for.
func share[T any](ctx context.Context, c *Client, s *session, what string, f func(context.Context) (T, error)) (T, error) {
	return shareIn(ctx, c, s, c.reads, what, f)
}

// shareIn is share where so many run at a time as there are turns; nil where f waits for
// turns of its own.
func shareIn[T any](ctx context.Context, c *Client, s *session, in *turns, what string, f func(context.Context) (T, error)) (T, error) {
	var zero T
	running, err := c.fly(ctx, s, in, what, func(ctx context.Context) (any, error) { return f(ctx) })
	if err != nil {
		return zero, err
	}
	for {
		wait, asked, news := s.account.wait(c.now())
		if wait > 0 && endsWithin(ctx, wait) {
			return zero, s.failed("wait for the registry", asked.status, asked.in(wait))
		}
		select {
		case <-running.done:
			value, _ := running.value.(T)
			return value, running.err
		case <-ctx.Done():
			return zero, ctx.Err()
		case <-news:
		}
	}
}

// fly begins f, or returns what is under way for the same.
func (c *Client) fly(ctx context.Context, s *session, in *turns, what string, f func(context.Context) (any, error)) (*flight, error) {
	key, owner := s.key(what), ownerOf(ctx)
	if known := c.flying(key); known != nil {
		return known, nil
	}
	leave := func() {}
	if in != nil {
		if !in.wait(ctx, owner) {
			return nil, s.failed("read from the registry", 0, &waitError{
				text:   "as many answers of registries are read as may be at a time (" + in.name + ")",
				remedy: "try again; see that the registries of all images answer soon",
			})
		}
		leave = func() { in.leave(owner) }
	}
	if err := ctx.Err(); err != nil { // nobody would wait for it
		leave()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.flights[key]; known != nil { // it was begun meanwhile
		leave()
		return known, nil
	}
	begun := &flight{done: make(chan struct{})}
	c.flights[key] = begun
	go func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.Gather)
		defer cancel()
		begun.value, begun.err = f(own)
		c.mu.Lock()
		delete(c.flights, key)
		c.mu.Unlock()
		leave()
		close(begun.done)
	}()
	return begun, nil
}

// flying is what is under way for a key, nil for nothing.
func (c *Client) flying(key string) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flights[key]
}

// inLook runs f when it is the turn of the context's owner to look at an image. A decision that
// has a turn for evidence needs none to look, and waits for none any more once it gets that: those
// who wait for the same turn may have all looks. They are limits.EvidenceDecisions, with
// limits.LooksPerObject each.
func inLook[T any](ctx context.Context, c *Client, s *session, f func() (T, error)) (T, error) {
	owner := ownerOf(ctx)
	until, end := context.WithCancel(ctx)
	defer end()
	has := hasTurn(ctx)
	defer context.AfterFunc(has, end)()
	switch {
	case has.Err() != nil:
		return f()
	case c.looks.wait(until, owner):
		defer c.looks.leave(owner)
		return f()
	case has.Err() != nil && ctx.Err() == nil:
		return f()
	}
	var zero T
	return zero, s.failed(opEvidence, 0, &waitError{
		text:   "as many images are looked at as may be at a time (" + c.looks.name + ")",
		remedy: "try again; see that the registries of all images answer soon",
	})
}

// apart takes so many bytes from a registry apart with f, a few documents at a time and nothing
// beside what is large: until what counts is picked out, it takes many times what it has in
// bytes. Nobody waits for a registry meanwhile.
func apart[T any](s *session, bytes int, f func() (T, error)) (T, error) {
	share := int64(1)
	if bytes > limits.SignatureBlobBytes {
		share = limits.DocumentsParsed
	}
	_ = s.parsing.Acquire(context.Background(), share) // which fails where its context ends
	defer s.parsing.Release(share)
	return f()
}
