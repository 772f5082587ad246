package main

import (
	"bytes"
	"context"
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
