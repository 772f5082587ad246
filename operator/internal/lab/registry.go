package lab

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// StartRegistry serves an OCI registry from memory over plain HTTP on loopback, with
// the referrers API. It returns its address (host:port). stop ends it, may be called
// again, and what was pushed is gone.
func StartRegistry() (addr string, stop func(), err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("registry on loopback: %w", err)
	}
	silent := log.New(io.Discard, "", 0)
	server := &http.Server{
		Handler:           registry.New(registry.WithReferrersSupport(true), registry.Logger(silent)),
		ReadHeaderTimeout: limits.RegistryCall,
		ErrorLog:          silent,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic(fmt.Sprintf("registry on %s: %v", l.Addr(), err)) // a listener of our own that fails is a bug
		}
	}()
	return l.Addr().String(), sync.OnceFunc(func() {
		_ = server.Close() // closes connections; there is nothing to flush
		<-done
	}), nil
}
