package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
)

func TestRun_ExitsAsSluiceDoes(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		args []string
		dir  string
		code int
		said string
	}{
		"help":                      {t.Context(), []string{"--help"}, "", cli.ExitPass, "overlay to apply"},
		"a flag that there is not":  {t.Context(), []string{"--nothing"}, "", cli.ExitUsage, "nothing"},
		"a word":                    {t.Context(), []string{"now"}, "", cli.ExitUsage, `sluice: "now" is one word too many`},
		"no clone":                  {t.Context(), nil, t.TempDir(), cli.ExitUsage, "sluice: no go.mod at or above"},
		"an overlay that is not":    {t.Context(), []string{"--overlay=kustomize/overlays/none"}, "", cli.ExitUndecided, "sluice: "},
		"a Ctrl-C before it stands": {over, []string{"--dir=" + t.TempDir()}, "", cli.ExitPass, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.dir != "" {
				t.Chdir(tc.dir)
			}
			var out, said bytes.Buffer
			if code := run(tc.ctx, tc.args, &out, &said); code != tc.code || !strings.Contains(said.String(), tc.said) || out.Len() > 0 {
				t.Errorf("code %d, %q, %q", code, out.String(), said.String())
			}
		})
	}
}

// A lab that fails says so in lines that can be read, and the log that it names is there.
func TestRun_LeavesTheLogsOfALabThatFails(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	manager := filepath.Join(t.TempDir(), "manager")
	if err := os.WriteFile(manager, []byte("#!/bin/sh\necho no port\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	if code := run(t.Context(), []string{"--manager=" + manager}, &out, &said); code != cli.ExitUndecided {
		t.Fatalf("code %d: %s", code, said.String())
	}
	left, err := filepath.Glob(filepath.Join(folder, "sluice-lab-*", "sluice-manager-*.log"))
	if err != nil || len(left) != 1 {
		t.Fatalf("%v, %v: %s", left, err, said.String())
	}
	for _, want := range []string{"\nsluice: wait for the operator to be ready: sluice-manager-lab-1 ended by itself (exit status 3); the end of " + left[0] + ":\n  no port\n", "\n  the logs are left in " + filepath.Dir(left[0]) + "\n"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q: %s", want, said.String())
		}
	}
	if data, err := filepath.Glob(filepath.Join(filepath.Dir(left[0]), "data-*")); err != nil || len(data) > 0 {
		t.Errorf("data is left: %v, %v", data, err)
	}
}

func TestEnded_KeepsTheLinesOfALogApart(t *testing.T) {
	var said bytes.Buffer
	ended(&said, cli.ExitUndecided, errors.New("etcd ended by itself; the end of its log:\nfirst\n\x1b[2Jsecond\n"))
	if got, want := said.String(), "sluice: etcd ended by itself; the end of its log:\n  first\n  \\x1b[2Jsecond\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
