//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/cli"
)

// asProgram makes the test binary the command itself.
const asProgram = "SLUICE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// A command whose standard input never ends is told to end once.
func TestMain_TheFirstSignalEndsWhatWaitsForStandardInput(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		for _, args := range [][]string{{"check", "-"}, {"render", "-"}, {"diff", "-", "--against", "-"}, {"policy", "import", "-"}} {
			t.Run(strings.Join(args, " ")+" and "+s.String(), func(t *testing.T) {
				var said bytes.Buffer
				command := exec.CommandContext(t.Context(), self, args...)
				command.Env, command.Stdout, command.Stderr = append(os.Environ(), asProgram+"=1"), &said, &said
				input, err := command.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				// More than a pipe holds: once it is written, the program reads.
				if _, err := input.Write(bytes.Repeat([]byte("#\n"), 1<<20)); err != nil {
					t.Fatalf("it does not read: %v: %s", err, said.String())
				}
				if err := command.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
				giveUp := time.AfterFunc(30*time.Second, func() { _ = command.Process.Kill() })
				defer giveUp.Stop()
				var ended *exec.ExitError
				if err := command.Wait(); !errors.As(err, &ended) || ended.ExitCode() != cli.ExitUndecided {
					t.Fatalf("want exit code %d: %v: %s", cli.ExitUndecided, err, said.String())
				}
				if !strings.Contains(said.String(), "standard input: interrupted") {
					t.Errorf("it says %s", said.String())
				}
			})
		}
	}
}
