package cli

import (
	"context"
	"errors"
	"io"
)

// errInterrupted is what reading standard input ends with when the command is told to end.
var errInterrupted = errors.New("interrupted before it ended: call the command again")

// stdinBytes is read at a time: half of what a pipe holds on Linux.
const stdinBytes = 32 << 10

// interruptible reads from until a context ends: a pipe that nobody writes to, or a
// terminal, would hold the command up otherwise. What waits is then left behind, with a
// buffer of its own, until the process ends; nothing that it reads is seen by anyone. It is
// for one reader at a time.
type interruptible struct {
	ctx    context.Context
	from   io.Reader
	buffer []byte
}

// untilDone has in end with its context; a nil reader stays one.
func untilDone(ctx context.Context, in io.Reader) io.Reader {
	if in == nil {
		return nil
	}
	return &interruptible{ctx: ctx, from: in}
}

// Read implements io.Reader; its error is errInterrupted once the context has ended.
func (r *interruptible) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, errInterrupted // the buffer may still be written to
	}
	if r.buffer == nil {
		r.buffer = make([]byte, stdinBytes)
	}
	type result struct {
		n   int
		err error
	}
	into, done := r.buffer[:min(len(p), len(r.buffer))], make(chan result, 1)
	go func() {
		n, err := r.from.Read(into)
		done <- result{n, err}
	}()
	select {
	case <-r.ctx.Done():
		return 0, errInterrupted
	case got := <-done:
		return copy(p, into[:got.n]), got.err
	}
}
