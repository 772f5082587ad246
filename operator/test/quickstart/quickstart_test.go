// Package quickstart runs docs/quickstart.md.
package quickstart

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/clone"
)

const page = "docs/quickstart.md"

// patience is for all of the page, the lab included: 20 s on two cores.
const patience = 3 * time.Minute

// step is a block of commands, and what the page says that they print.
type step struct {
	line     int
	commands string
	prints   *string
}

// TestQuickstart_DoesWhatItSays runs the page's commands in order in one shell, in a new
// folder and against a lab of its own, as a reader would.
func TestQuickstart_DoesWhatItSays(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	steps := stepsOf(string(text))
	if len(steps) < 10 {
		t.Fatalf("%s has %d steps", page, len(steps))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exports := startLab(ctx, t, root)
	for i, r := range run(ctx, t, root, exports, steps) {
		s := steps[i]
		switch {
		case s.prints == nil && r.code != 0:
			t.Errorf("%s:%d: exit code %d:\n%s\n%s", page, s.line, r.code, s.commands, r.printed)
		case s.prints != nil && !says(*s.prints, r.printed):
			t.Errorf("%s:%d: this prints\n%s\nand not\n%s", page, s.line, r.printed, *s.prints)
		}
	}
}

// stepsOf finds the blocks of sh, each with the block of text behind it.
func stepsOf(text string) []step {
	var steps []step
	var block []string
	language, open := "", false
	for i, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && !open:
			language, open, block = fence, true, nil
		case isFence && language == "sh":
			steps, open = append(steps, step{line: i - len(block), commands: strings.Join(block, "\n")}), false
		case isFence:
			if language == "text" && len(steps) > 0 {
				printed := strings.Join(block, "\n")
				steps[len(steps)-1].prints = &printed
			}
			open = false
		case open:
			block = append(block, line)
		}
	}
	return steps
}

// says holds what was printed against what stands in the page: … stands for anything in a
// line, and by itself for any lines.
func says(page, printed string) bool {
	var pattern strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(page), "\n") {
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(strings.TrimSpace(printed) + "\n")
}

func TestSays_HoldsAPageToWhatIsPrinted(t *testing.T) {
	for name, c := range map[string]struct {
		page, printed string
		want          bool
	}{
		"the same":                      {"a\nb", "a\nb\n", true},
		"another line":                  {"a\nb", "a\nc\n", false},
		"a line more":                   {"a\nb", "a\nb\nc\n", false},
		"a line less":                   {"a\nb", "a\n", false},
		"a digest":                      {"is sha256:… here", "is sha256:0f here", true},
		"not over lines":                {"is … here", "is\nhere", false},
		"any lines":                     {"a\n…\nd", "a\nb\nc\nd", true},
		"no lines":                      {"a\n…\nd", "a\nd", true},
		"a pattern's letters are plain": {"a.c", "abc", false},
	} {
		if got := says(c.page, c.printed); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// startLab starts a lab as the page does, and returns the line that a reader pastes.
func startLab(ctx context.Context, t *testing.T, root string) string {
	t.Helper()
	var log bytes.Buffer
	lab, stop := context.WithCancel(ctx)
	c := exec.CommandContext(lab, filepath.Join(root, "bin", "sluice"), "lab", "up", "--dir", t.TempDir())
	c.Dir, c.Stderr = root, &log
	c.WaitDelay = time.Minute // after the time is over, to end all that it started
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		stop()
		t.Fatalf("start the lab (run `make build tools` first): %v", err)
	}
	exports, err := bufio.NewReader(out).ReadString('\n')
	t.Cleanup(func() {
		stop()
		_ = c.Wait() // tells of the context, however the lab ended
		if code := c.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the lab ended with exit code %d: %s", code, log.String())
		} else if t.Failed() {
			t.Log(log.String())
		}
	})
	if err != nil {
		t.Fatalf("start the lab (run `make build tools` first): %v", err)
	}
	return exports
}

type result struct {
	printed string
	code    int
}

// run runs all steps in one shell, which a variable or a folder of one lasts in.
func run(ctx context.Context, t *testing.T, root, exports string, steps []step) []result {
	t.Helper()
	mark := "end-" + rand.Text()
	script := exports
	for _, s := range steps {
		script += s.commands + "\necho " + mark + " $?\n"
	}
	c := exec.CommandContext(ctx, "sh")
	c.Dir, c.Stdin = t.TempDir(), strings.NewReader(script)
	bin := filepath.Join(root, "bin")
	c.Env = append(os.Environ(), "HOME="+t.TempDir(), "SLUICE="+root, "PATH="+bin+":"+filepath.Join(bin, "tools")+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	var results []result
	rest := string(out)
	for range steps {
		printed, after, found := strings.Cut(rest, mark+" ")
		code, next, _ := strings.Cut(after, "\n")
		if !found {
			break
		}
		r := result{printed: printed}
		_, _ = fmt.Sscan(code, &r.code)
		results, rest = append(results, r), next
	}
	if len(results) != len(steps) {
		t.Errorf("%d of %d steps came to an end (%v); the last printed %s", len(results), len(steps), err, rest)
	}
	return results
}
