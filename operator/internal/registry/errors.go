package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Error says what a registry did not give, and why. That something is absent is no
// Error, but for the image itself.
type Error struct {
	// Op is what was tried, such as "look up tag 1.2".
	Op string
	// Host is the registry.
	Host string
	// Repository is the full name, registry/repository.
	Repository string
	// Status of the registry's answer; 0 when there was none.
	Status int
	// Err is the cause where it was not the status.
	Err error
	// RetryAfter is how long there is no use in trying again, as far as that is known.
	RetryAfter time.Duration
}

const opLogin = "log in to the registry"

// Error is one line without anything that differs from try to try, so that two gates
// which meet the same failure say the same.
func (e *Error) Error() string {
	return e.What() + ": " + e.Remedy()
}

// What is Error without what to do about it, for whoever says that in its own place.
func (e *Error) What() string {
	return fmt.Sprintf("%s: cannot %s: %s", e.Repository, e.Op, e.reason())
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// notFound says that the registry has no such image.
func (e *Error) notFound() bool { return e.Status == http.StatusNotFound }

func (e *Error) reason() string {
	var wait *waitError
	if e.Status != 0 && !errors.As(e.Err, &wait) {
		return fmt.Sprintf("the registry answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return plain(e.Err)
}

// Remedy says what to do about it.
func (e *Error) Remedy() string {
	var over *limitError
	var refused *refusedError
	var broken *contentError
	var wait *waitError
	switch {
	case errors.As(e.Err, &wait):
		return wait.remedy
	case (e.Op == opAttach || e.Op == opPushBundle) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden):
		return "use credentials that may push to this repository"
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return "check the image pull secret for this registry and that it may read this repository"
	case e.Status == http.StatusNotFound && e.Op == opBundle:
		return "check the name and the digest, and push the policies first"
	case e.Status == http.StatusNotFound:
		return "check the name, and push the image first"
	case e.Status == http.StatusTooManyRequests:
		return "wait and try again, or log in for a higher rate limit"
	case errors.As(e.Err, &over):
		return "remove what is not needed from the repository"
	case errors.As(e.Err, &refused):
		return refused.remedy
	case untrusted(e.Err):
		return "look whether it is the registry that answers, and where its authority is one's own, give that with --registry-ca-file"
	case errors.As(e.Err, &broken):
		return "push it again, and look for a proxy that changes content"
	}
	return "check that the registry is up and reachable, and try again"
}

// limitError is a bound that was exceeded.
type limitError struct {
	name string
	text string
}

func (e *limitError) Error() string { return fmt.Sprintf("%s (%s)", e.text, e.name) }

// refusedError is a connection that Sluice does not make.
type refusedError struct{ text, remedy string }

func (e *refusedError) Error() string { return e.text }

// waitError is a request that is not made, as it is too early for it.
type waitError struct {
	text, remedy string
	// status with which the registry asked for time; 0 if it did not.
	status int
	after  time.Duration
}

func (e *waitError) Error() string { return e.text }

func notHTTPS() error {
	return &refusedError{
		text:   "it does not answer over HTTPS, and plain HTTP is not allowed for it",
		remedy: "serve the registry over HTTPS, or allow plain HTTP for this host with --insecure-registry",
	}
}

// contentError is an answer that is not what it should be.
type contentError struct{ text string }

func (e *contentError) Error() string { return e.text }

// madeSo is an error that whoever stored the content made, under a digest that is right:
// the registry did its part. Anybody who may push can make such content, so that it must
// not keep the rest from being read.
type madeSo struct{ error }

func (e madeSo) Unwrap() error { return e.error }

// plain takes addresses, ports and URLs with tokens out of a network error's text.
func plain(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s (limits.RegistryCall)", limits.RegistryCall)
	case errors.Is(err, context.Canceled):
		return "the call was given up"
	case errors.As(err, &dns):
		return "its name does not resolve"
	case untrusted(err):
		return "its certificate is not trusted"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return "the answer was cut off"
	}
	if own := ownError(err); own != nil {
		return own.Error()
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return "the connection failed: " + root(op.Err).Error()
	}
	var u *url.Error
	if errors.As(err, &u) {
		return root(u.Err).Error()
	}
	return "the request failed"
}

func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

// ownError finds an error of this package under those that net/http put around it.
func ownError(err error) error {
	var refused *refusedError
	var over *limitError
	var broken *contentError
	var wait *waitError
	switch {
	case errors.As(err, &wait):
		return wait
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &over):
		return over
	case errors.As(err, &broken):
		return broken
	}
	return nil
}

func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
