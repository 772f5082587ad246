package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestInterruptible_ReadsWhatIsThere(t *testing.T) {
	text := strings.Repeat("0123456789", stdinBytes/4)
	for name, from := range map[string]io.Reader{
		"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "with the end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(untilDone(t.Context(), from))
			if err != nil || string(got) != text {
				t.Errorf("read %d of %d bytes, %v", len(got), len(text), err)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(untilDone(t.Context(), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// late gives what it has once it is told to.
type late struct{ asked, given chan struct{} }

func (l late) Read(p []byte) (int, error) {
	close(l.asked)
	<-l.given
	return copy(p, "too late"), io.EOF
}

// What arrives after the end is nobody's, and does not land in a buffer that was given back.
func TestInterruptible_LeavesTheBufferAloneOnceItHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	from := late{make(chan struct{}), make(chan struct{})}
	r := untilDone(ctx, from)
	ended := make(chan error, 1)
	p := make([]byte, 8)
	go func() {
		_, err := r.Read(p)
		ended <- err
	}()
	<-from.asked
	cancel()
	if err := <-ended; !errors.Is(err, errInterrupted) {
		t.Fatalf("got %v", err)
	}
	close(from.given)
	if n, err := r.Read(p); n != 0 || !errors.Is(err, errInterrupted) {
		t.Errorf("read %d, %v", n, err)
	}
	if !bytes.Equal(p, make([]byte, 8)) {
		t.Errorf("it was written: %q", p)
	}
}
