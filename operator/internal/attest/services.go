package attest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Services are the parts of a Sigstore instance that sign, by URL.
type Services struct {
	// Fulcio is the certificate authority, without the path of its API.
	Fulcio string
	// Logs and TimestampAuthorities, the latter with their path; at least one of either.
	Logs                 []Log
	TimestampAuthorities []string
}

// Log is a transparency log, Rekor, with the version of its API.
type Log struct {
	URL     string
	Version uint32
}

// The versions of Rekor: the second gives no time, and needs a timestamp authority.
const (
	// RekorV1 is what a URL alone stands for.
	RekorV1 uint32 = 1
	tiles   uint32 = 2
)

// ReadServices reads signing_config.v0.2.json, and picks the services that are to be used at
// a time.
func ReadServices(raw []byte, now time.Time) (Services, error) {
	config, err := root.NewSigningConfigFromJSON(raw)
	if err != nil {
		return Services{}, fmt.Errorf("it is no signing configuration: %w", err)
	}
	var out Services
	fulcio, err := root.SelectService(config.FulcioCertificateAuthorityURLs(), sign.FulcioAPIVersions, now)
	if err != nil {
		return Services{}, fmt.Errorf("caUrls: %w", err)
	}
	out.Fulcio = fulcio.URL
	if all := config.RekorLogURLs(); len(all) > 0 {
		logs, err := root.SelectServices(all, config.RekorLogURLsConfig(), sign.RekorAPIVersions, now)
		if err != nil {
			return Services{}, fmt.Errorf("rekorTlogUrls: %w", err)
		}
		for _, l := range logs {
			out.Logs = append(out.Logs, Log{URL: l.URL, Version: l.MajorAPIVersion})
		}
	}
	if all := config.TimestampAuthorityURLs(); len(all) > 0 {
		stamps, err := root.SelectServices(all, config.TimestampAuthorityURLsConfig(), sign.TimestampAuthorityAPIVersions, now)
		if err != nil {
			return Services{}, fmt.Errorf("tsaUrls: %w", err)
		}
		for _, s := range stamps {
			out.TimestampAuthorities = append(out.TimestampAuthorities, s.URL)
		}
	}
	return out, out.Validate()
}

// Validate says why evidence cannot be signed with the services.
func (s Services) Validate() error {
	if s.Fulcio == "" {
		return errors.New("no certificate authority is named")
	}
	urls := append([]string{s.Fulcio}, s.TimestampAuthorities...)
	stamped := len(s.TimestampAuthorities) > 0
	for _, l := range s.Logs {
		urls = append(urls, l.URL)
		stamped = stamped || l.Version == RekorV1
	}
	if !stamped {
		return errors.New("neither a transparency log of version 1 nor a timestamp authority is named, so that nobody says when it was signed")
	}
	if len(urls) > limits.SigstoreServices {
		return fmt.Errorf("%d services are named, more than %d (limits.SigstoreServices)", len(urls), limits.SigstoreServices)
	}
	for _, raw := range urls {
		if err := validateURL(raw); err != nil {
			return err
		}
	}
	return nil
}

// validateURL holds what a token is sent to to HTTPS, but on loopback.
func validateURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("what is given is no URL")
	case u.Host == "" || u.User != nil:
		return fmt.Errorf("%.200q is no URL of a service", u.Redacted())
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%.200q is not https://: plain HTTP is for loopback", u.Redacted())
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guard sends requests that end with a context, whatever context they have of their own, and
// reads limits.SigstoreAnswerBytes of the answer. What is sent may hold a token: an answer
// that leads elsewhere is not followed.
type guard struct{ ctx context.Context }

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	defer context.AfterFunc(g.ctx, func() { cancel(context.Cause(g.ctx)) })()
	response, err := http.DefaultTransport.RoundTrip(req.Clone(ctx))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		return nil, fmt.Errorf("it answers %d and leads elsewhere: name the address of the service itself", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limits.SigstoreAnswerBytes+1))
	if err != nil {
		return nil, err
	}
	if len(body) > limits.SigstoreAnswerBytes {
		return nil, fmt.Errorf("its answer has more than %d bytes (limits.SigstoreAnswerBytes)", limits.SigstoreAnswerBytes)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}
