package trust_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// vault answers like the transit engine of HashiCorp Vault, for one key.
func vault(t *testing.T, pem string, calls *atomic.Int64) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("X-Vault-Token") != "letmein" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.URL.Path != "/v1/transit/keys/release" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{
			"latest_version": 1, "keys": map[string]any{"1": map[string]any{"public_key": pem}},
		}})
	}))
	t.Cleanup(server.Close)
	t.Setenv("VAULT_ADDR", server.URL)
	t.Setenv("VAULT_TOKEN", "letmein")
}

func publicPEM(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := cryptoutils.MarshalPublicKeyToPEM(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem)
}

func TestLoader_ReadsAKeyFromVaultOnceAndAgainWhenItIsOld(t *testing.T) {
	var calls atomic.Int64
	want := publicPEM(t)
	vault(t, want, &calls)
	now := time.Now()
	l := trust.New(trust.Options{Now: func() time.Time { return now }})
	for range 3 {
		got, err := l.KMS(t.Context(), "hashivault://release")
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("got %q", got)
		}
	}
	once := calls.Load()
	now = now.Add(limits.KeyTTL + time.Second)
	if _, err := l.KMS(t.Context(), "hashivault://release"); err != nil {
		t.Fatal(err)
	}
	if calls.Load() != 2*once {
		t.Errorf("%d calls for the first three reads, %d after the key was old", once, calls.Load())
	}
}

func TestLoader_RefusesKeysThatItCannotRead(t *testing.T) {
	var calls atomic.Int64
	vault(t, publicPEM(t), &calls)
	bin := t.TempDir()
	program := filepath.Join(bin, "sigstore-kms-evil")
	witness := filepath.Join(bin, "ran")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+witness+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	l := trust.New(trust.Options{})
	for name, uri := range map[string]string{
		"a key that is not there":                       "hashivault://other",
		"a scheme that nobody serves":                   "nokms://release",
		"a scheme that names a program on this machine": "evil://release",
		"no scheme": "release",
	} {
		t.Run(name, func(t *testing.T) {
			if pem, err := l.KMS(t.Context(), uri); err == nil {
				t.Errorf("got %q", pem)
			}
		})
	}
	if _, err := os.Stat(witness); err == nil {
		t.Error("the program ran")
	}
}

func TestLoader_DoesNotKeepErrors(t *testing.T) {
	var calls atomic.Int64
	vault(t, publicPEM(t), &calls)
	t.Setenv("VAULT_TOKEN", "wrong")
	l := trust.New(trust.Options{})
	if _, err := l.KMS(t.Context(), "hashivault://release"); err == nil {
		t.Fatal("a wrong token was taken")
	}
	t.Setenv("VAULT_TOKEN", "letmein")
	if _, err := l.KMS(t.Context(), "hashivault://release"); err != nil {
		t.Error(err)
	}
}

// trustedRoot is that of a Sigstore in memory.
func trustedRoot(t *testing.T) []byte {
	t.Helper()
	sigstore, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := root.NewTrustedRoot(root.TrustedRootMediaType01, sigstore.FulcioCertificateAuthorities(),
		sigstore.CTLogs(), sigstore.TimestampingAuthorities(), sigstore.RekorLogs())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// repository is a TUF repository with one content for each of the two targets.
func repository(t *testing.T, target []byte, calls *atomic.Int64) (url string, anchor []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signature.LoadSigner(private, crypto.Hash(0))
	if err != nil {
		t.Fatal(err)
	}
	key, err := metadata.KeyFromPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	expires := time.Now().Add(time.Hour)
	anchored := metadata.Root(expires)
	for _, role := range []string{metadata.ROOT, metadata.TARGETS, metadata.SNAPSHOT, metadata.TIMESTAMP} {
		if err := anchored.Signed.AddKey(key, role); err != nil {
			t.Fatal(err)
		}
	}
	targets := metadata.Targets(expires)
	content := map[string][]byte{}
	for _, name := range []string{"trusted_root.json", "signing_config.v0.2.json"} {
		file, err := metadata.TargetFile().FromBytes(name, target, "sha256")
		if err != nil {
			t.Fatal(err)
		}
		targets.Signed.Targets[name] = file
		content["/targets/"+fmt.Sprintf("%x", []byte(file.Hashes["sha256"]))+"."+name] = target
	}
	anchor = signedBytes(t, anchored, signer)
	for path, body := range map[string][]byte{
		"/1.root.json":     anchor,
		"/1.targets.json":  signedBytes(t, targets, signer),
		"/1.snapshot.json": signedBytes(t, metadata.Snapshot(expires), signer),
		"/timestamp.json":  signedBytes(t, metadata.Timestamp(expires), signer),
	} {
		content[path] = body
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, ok := content[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return server.URL, anchor
}

func signedBytes[T metadata.Roles](t *testing.T, m *metadata.Metadata[T], signer signature.Signer) []byte {
	t.Helper()
	if _, err := m.Sign(signer); err != nil {
		t.Fatal(err)
	}
	raw, err := m.ToBytes(false)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestLoader_FetchesThePublicRootWhenFirstAsked(t *testing.T) {
	want := trustedRoot(t)
	var calls atomic.Int64
	url, anchor := repository(t, want, &calls)
	l := trust.New(trust.Options{Repository: url, Anchor: anchor})
	if calls.Load() != 0 {
		t.Fatalf("%d calls before anyone asked", calls.Load())
	}
	got, err := l.PublicRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Fatalf("got %.80q", got)
	}
	first := calls.Load()
	if _, err := l.PublicRoot(t.Context()); err != nil || calls.Load() != first {
		t.Errorf("asked again: %d calls, then %d, %v", first, calls.Load(), err)
	}
}

func TestLoader_FetchesWhereThePublicServicesAre(t *testing.T) {
	var calls atomic.Int64
	url, anchor := repository(t, []byte("services"), &calls)
	if got, err := trust.New(trust.Options{Repository: url, Anchor: anchor}).PublicServices(t.Context()); err != nil || got != "services" {
		t.Errorf("got %.80q, %v", got, err)
	}
	_, other := repository(t, []byte("services"), &calls)
	if got, err := trust.New(trust.Options{Repository: url, Anchor: other}).PublicServices(t.Context()); err == nil {
		t.Errorf("got %.80q", got)
	}
}

func TestLoader_RefusesARootThatTheAnchorDoesNotVouchFor(t *testing.T) {
	var calls atomic.Int64
	url, _ := repository(t, trustedRoot(t), &calls)
	_, other := repository(t, trustedRoot(t), &calls)
	l := trust.New(trust.Options{Repository: url, Anchor: other})
	if got, err := l.PublicRoot(t.Context()); err == nil {
		t.Errorf("got %.80q", got)
	}
}

func TestLoader_GivesUpOnARepositoryThatHangs(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	var calls atomic.Int64
	_, anchor := repository(t, nil, &calls)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := trust.New(trust.Options{Repository: server.URL, Anchor: anchor})
	if _, err := l.PublicRoot(ctx); err == nil {
		t.Error("an answer from a repository that does not answer")
	}
}

func TestLoader_ReadsARootFromAFile(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, content string) string {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pipe := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	l := trust.New(trust.Options{})
	if _, err := l.File(write("trusted_root.json", string(trustedRoot(t)))); err != nil {
		t.Error(err)
	}
	for name, file := range map[string]string{
		"a file that is not there":     filepath.Join(folder, "absent"),
		"a file that is too large":     write("large", strings.Repeat(" ", limits.TrustedRootBytes+1)),
		"a folder":                     folder,
		"a pipe that nobody writes to": pipe,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := l.File(file); err == nil {
				t.Errorf("got %.80q", got)
			}
		})
	}
}
