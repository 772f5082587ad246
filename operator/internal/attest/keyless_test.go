package attest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const someToken = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"

// sigstore-go's client of Fulcio gives its requests no context.
func TestKeyless_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-over
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	k, err := NewKeyless(someToken, Services{Fulcio: server.URL, Logs: []Log{{URL: server.URL, Version: RekorV1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Bundle(ctx, []byte("{}")); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("%v", err)
	}
}

func TestServices_SaysWhatIsWrong(t *testing.T) {
	log := []Log{{URL: "https://log.example.com", Version: RekorV1}}
	for says, s := range map[string]Services{
		"no certificate authority":                   {Logs: log},
		"nobody says when":                           {Fulcio: "https://ca.example.com"},
		"nobody says when it":                        {Fulcio: "https://ca.example.com", Logs: []Log{{URL: "https://log.example.com", Version: tiles}}},
		"limits.SigstoreServices":                    {Fulcio: "https://ca.example.com", Logs: log, TimestampAuthorities: make([]string, limits.SigstoreServices)},
		`"ca.example.com" is no URL`:                 {Fulcio: "ca.example.com", Logs: log},
		"plain HTTP is for loopback":                 {Fulcio: "http://localhost.example.com", Logs: log},
		`"https://a:xxxxx@ca.example.com" is no URL`: {Fulcio: "https://a:hunter2@ca.example.com", Logs: log},
		"what is given is no URL":                    {Fulcio: "https://ca.example.com", Logs: []Log{{URL: "https://a:hunter2@%zz", Version: RekorV1}}},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", says, err)
		}
	}
	for _, url := range []string{"https://ca.example.com", "http://localhost:5555", "http://127.0.0.1", "http://[::1]:80"} {
		if err := (Services{Fulcio: url, Logs: log}).Validate(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestReadServices_TakesThoseThatAreInUseThen(t *testing.T) {
	service := func(name, start, end string) string {
		return fmt.Sprintf(`{"url":"https://%s.example.com","majorApiVersion":1,"validFor":{"start":%q,"end":%q},"operator":"example.com"}`, name, start, end)
	}
	config := fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json","caUrls":[%s,%s],"rekorTlogUrls":[%s],"rekorTlogConfig":{"selector":"ANY"}}`,
		service("new", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"), service("old", "2024-01-01T00:00:00Z", "2026-01-01T00:00:00Z"), service("log", "2024-01-01T00:00:00Z", "2027-01-01T00:00:00Z"))
	for at, want := range map[string]string{"2025-06-01T00:00:00Z": "https://old.example.com", "2026-06-01T00:00:00Z": "https://new.example.com", "2028-01-01T00:00:00Z": ""} {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadServices(config, when)
		if got.Fulcio != want || (err == nil) != (want != "") {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
	}
}
