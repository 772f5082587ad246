package cli_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
)

// asCommand in the environment has the test's program be sluice.
const asCommand = "SLUICE_TEST_AS_COMMAND"

// labIn is `sluice lab up` in a folder below a clone whose bin/lab is the script, or none.
func labIn(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"go.mod": "module github.com/sluice-dev/sluice\n", "docs/page.md": ""}
	if script != "" {
		files["bin/lab"] = "#!/bin/sh\n" + script
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, append([]string{"lab", "up"}, args...)...)
	c.Env, c.Dir = append(os.Environ(), asCommand+"=1"), filepath.Join(root, "docs")
	return c
}

func TestLabUp_IsTheClonesProgram(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		args   []string
		code   int
		out    string
		said   string
	}{
		"its flags, where it was called":   {`echo "$(basename "$PWD"):" "$@"`, []string{"--dir", "a b", "--overlay=x=y", "--manager="}, 0, "docs: --overlay=x=y --dir=a b --manager=\n", ""},
		"no flags":                         {`echo $# "$(cat)"`, nil, 0, "0 read\n", ""},
		"its exit code and standard error": {`echo no >&2; exit 3`, nil, cli.ExitUndecided, "", "no\n"},
		"one that is not built":            {"", nil, cli.ExitUsage, "", "bin/lab is not there: run make build"},
		"a flag that there is not":         {`echo ran`, []string{"--nothing"}, cli.ExitUsage, "", "unknown flag: --nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, said bytes.Buffer
			c := labIn(t, tc.script, tc.args...)
			c.Stdin, c.Stdout, c.Stderr = strings.NewReader("read"), &out, &said
			err := c.Run()
			if c.ProcessState == nil {
				t.Fatal(err)
			}
			if code := c.ProcessState.ExitCode(); code != tc.code || out.String() != tc.out || !strings.Contains(said.String(), tc.said) {
				t.Errorf("code %d, %q, %q", code, out.String(), said.String())
			}
		})
	}
}

func TestLabUp_OutsideACloneSaysSo(t *testing.T) {
	c := labIn(t, "echo ran")
	c.Dir = t.TempDir()
	out, _ := c.CombinedOutput()
	if code := c.ProcessState.ExitCode(); code != cli.ExitUsage || !bytes.Contains(out, []byte("run this in a clone of the repository")) {
		t.Errorf("code %d, %s", code, out)
	}
}

// Somebody else may have put a bin/lab above the working directory, as in /tmp.
func TestLabUp_RunsNoProgramOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	c := labIn(t, "echo ran")
	program := filepath.Join(c.Dir, "..", "bin", "lab")
	if err := os.Chown(program, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	out, _ := c.CombinedOutput()
	if code := c.ProcessState.ExitCode(); code != cli.ExitUsage || !bytes.Contains(out, []byte("belongs to another user")) {
		t.Errorf("code %d, %s", code, out)
	}
}

// Ctrl-C goes to all of a terminal's group, a manager's SIGTERM to the one process that it
// started; the lab has to have either once, since the second ends it before it has cleaned up.
func TestLabUp_IsSignalledOnce(t *testing.T) {
	const counts = `trap 'echo INT' INT
trap 'echo TERM' TERM
echo started
while read -r line; do echo "$line"; done
read -r line || echo end`
	for name, tc := range map[string]struct {
		signal syscall.Signal
		group  bool
		want   string
	}{
		"Ctrl-C":                   {syscall.SIGINT, true, "INT"},
		"SIGTERM to one process":   {syscall.SIGTERM, false, "TERM"},
		"SIGINT to one process":    {syscall.SIGINT, false, "INT"},
		"SIGTERM to a whole group": {syscall.SIGTERM, true, "TERM"},
	} {
		t.Run(name, func(t *testing.T) {
			c := labIn(t, counts)
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			pipe, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			out := bufio.NewReader(pipe)
			if line, err := out.ReadString('\n'); line != "started\n" {
				t.Fatal(line, err)
			}
			to := c.Process.Pid
			if tc.group {
				to = -to
			}
			if err := syscall.Kill(to, tc.signal); err != nil {
				t.Fatal(err)
			}
			if line, err := out.ReadString('\n'); line != tc.want+"\n" {
				t.Fatal(line, err)
			}
			// What comes after a line that it reads came by a second signal.
			if _, err := io.WriteString(in, "after\n"); err != nil {
				t.Fatal(err)
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(out)
			if err != nil || strings.Contains(string(rest), tc.want) {
				t.Errorf("%v: the lab has the signal twice: %s", err, rest)
			}
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
