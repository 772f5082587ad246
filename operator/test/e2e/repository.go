package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// repository is the fleet's: a bare one that a server on loopback hands out, as a forge
// would, and a working copy of it.
type repository struct {
	// dir of the working copy.
	dir string
	url string
	git func(ctx context.Context, dir string, args ...string) (string, error)

	server *http.Server
	done   chan struct{}
}

// serveRepository makes an empty repository and serves it by Git's own server.
func (w *world) serveRepository(ctx context.Context) error {
	r := &repository{dir: filepath.Join(w.dir, "fleet"), done: make(chan struct{})}
	r.git = func(ctx context.Context, dir string, args ...string) (string, error) {
		out, err := stepwise.Must(w.command(ctx, dir, nil, "git", args...))
		if err != nil {
			err = fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(out), err
	}
	forge := filepath.Join(w.dir, "forge")
	if _, err := r.git(ctx, w.dir, "init", "-q", "--bare", "--initial-branch=main", filepath.Join(forge, "fleet.git")); err != nil {
		return err
	}
	if _, err := r.git(ctx, forge, "-C", "fleet.git", "config", "http.receivepack", "true"); err != nil {
		return err
	}
	programs, err := r.git(ctx, w.dir, "--exec-path")
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("forge on loopback: %w", err)
	}
	r.url = "http://" + l.Addr().String() + "/fleet.git"
	silent := log.New(io.Discard, "", 0)
	r.server = &http.Server{
		Handler: &cgi.Handler{
			Path:   filepath.Join(programs, "git-http-backend"),
			Env:    []string{"GIT_PROJECT_ROOT=" + forge, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.dir, "GIT_CONFIG_NOSYSTEM=1"},
			Logger: silent, Stderr: io.Discard,
		},
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent,
	}
	go func() {
		defer close(r.done)
		if err := r.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic(fmt.Sprintf("forge on %s: %v", l.Addr(), err)) // a listener of our own that fails is a bug
		}
	}()
	w.repository = r
	return nil
}

func (r *repository) stop() {
	_ = r.server.Close() // closes connections; there is nothing to flush
	<-r.done
}

// publish makes a repository of the working copy's files, and main of it.
func (r *repository) publish(ctx context.Context) (string, error) {
	for _, args := range [][]string{
		{"init", "-q", "--initial-branch=main"},
		{"remote", "add", "origin", r.url},
		{"add", "--all"},
		{"commit", "-q", "-m", "a fleet"},
		{"push", "-q", "--set-upstream", "origin", "main"},
	} {
		if _, err := r.git(ctx, r.dir, args...); err != nil {
			return "", err
		}
	}
	return r.git(ctx, r.dir, "rev-parse", "HEAD")
}

// change is what a branch holds, and what is asked of it before it is merged.
type change struct {
	title string
	edit  func(context.Context) error
	// branch that edit makes and commits to; empty where it only edits.
	branch string
	// review is what the pull request's checks say; nil where nobody asked.
	review func(context.Context) error
}

// merge makes a branch with a change, merges it into main and pushes that, as a merged pull
// request would have it, and tells Argo CD. It returns main's new commit.
func (w *world) merge(ctx context.Context, c change) (string, error) {
	r := w.repository
	branch := c.branch
	if branch == "" {
		branch = strings.ReplaceAll(c.title, " ", "-")
		if _, err := r.git(ctx, r.dir, "switch", "-q", "--create", branch); err != nil {
			return "", err
		}
	}
	if err := c.edit(ctx); err != nil {
		return "", err
	}
	if _, err := r.git(ctx, r.dir, "switch", "-q", branch); err != nil {
		return "", err
	}
	if c.review != nil {
		if err := c.review(ctx); err != nil {
			return "", err
		}
	}
	commands := [][]string{
		{"commit", "-q", "--all", "-m", c.title},
		{"switch", "-q", "main"},
		{"merge", "-q", "--no-ff", "-m", "merge: " + c.title, branch},
		{"branch", "-q", "--delete", branch},
		{"push", "-q"},
	}
	if c.branch != "" {
		commands = commands[1:]
	}
	for _, args := range commands {
		if _, err := r.git(ctx, r.dir, args...); err != nil {
			return "", err
		}
	}
	revision, err := r.git(ctx, r.dir, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	fmt.Printf("   merged %.10s: %s\n", revision, c.title)
	return revision, w.argo.tellOfPush(ctx, r.url, revision)
}

// tellOfPush is the webhook of a forge.
func (a *argo) tellOfPush(ctx context.Context, url, revision string) error {
	payload, err := json.Marshal(map[string]any{
		"ref": "refs/heads/main", "after": revision,
		"repository": map[string]any{"html_url": strings.TrimSuffix(url, ".git"), "default_branch": "main"},
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.address+"/api/webhook", bytes.NewReader(payload))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-GitHub-Event", "push")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("webhook of Argo CD: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("webhook of Argo CD: %s", response.Status)
	}
	return nil
}

// write writes a file of the working copy.
func (r *repository) write(name, text string) error {
	return os.WriteFile(filepath.Join(r.dir, filepath.FromSlash(name)), []byte(text), 0o644)
}

func (r *repository) read(name string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(r.dir, filepath.FromSlash(name)))
	return string(raw), err
}
