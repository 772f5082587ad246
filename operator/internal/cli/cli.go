// Package cli is the sluice command: the gate in the pull request.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Exit codes, the same for every command.
const (
	ExitPass = 0
	// ExitDenied: the rules say no.
	ExitDenied = 1
	// ExitUsage: the input or the flags are wrong.
	ExitUsage = 2
	// ExitUndecided: could not decide, such as when a registry does not answer.
	ExitUndecided = 3
)

// exit is an error that carries an exit code; its text may be empty when all was said.
type exit struct {
	code int
	err  error
	// details stand below the text, one a line.
	details []string
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// codeOf is the exit code that an error stands for.
func codeOf(err error) int {
	if err == nil {
		return ExitPass
	}
	if e := new(exit); errors.As(err, &e) {
		return e.code
	}
	return ExitUsage
}

func usage(format string, args ...any) error {
	return &exit{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// refused is a usage error with everything that is wrong with an object.
func refused(text string, errs field.ErrorList) error {
	e := &exit{code: ExitUsage, err: errors.New(text)}
	for _, err := range errs {
		e.details = append(e.details, err.Error())
	}
	return e
}

// streams is where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
	// told are the warnings of sources that were given, of which several may share a base, by
	// where and what: one file may have several names.
	told map[[2]string]bool
}

// warn writes what is to be known of what was read, and was not written yet. That is what
// it returns.
func (s streams) warn(warnings []overlay.Warning) (written []string) {
	for _, w := range warnings {
		if key := [2]string{filepath.Join(w.Root, w.Path), w.Text}; !s.told[key] {
			s.told[key] = true
			written = append(written, w.String())
		}
	}
	s.tell(written)
	return written
}

// tell writes warnings.
func (s streams) tell(warnings []string) {
	for _, w := range warnings {
		say(s.err, "sluice: warning: ", w)
	}
}

// Main runs the command and returns its exit code.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return MainAs(ctx, "sluice", args, in, out, errOut)
}

// MainAs is Main for a program that was called by another name, such as by kubectl.
func MainAs(ctx context.Context, program string, args []string, in io.Reader, out, errOut io.Writer) int {
	in = untilDone(ctx, in)
	s := streams{in: in, out: out, err: errOut, told: map[[2]string]bool{}}
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "One gate for Workloads: the same verdict in the pull request, at admission and on every reconcile",
		Long:          "sluice judges manifests with the rules of a Gate before they are merged.\n\nExit codes: 0 pass, 1 denied, 2 wrong input or flags, 3 could not decide.",
		SilenceErrors: true, SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: displayName(program)},
		Version:     version(),
	}
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	root.AddCommand(checkCommand(s), renderCommand(s), verifyCommand(s), attestCommand(s), historyCommand(s), diffCommand(s), promoteCommand(s), lintCommand(s), crdCommand(s), policyCommand(s),
		statusCommand(s), whyCommand(s), driftCommand(s), initCommand(s), labCommand(), docsCommand(s))
	plainHelp(root)
	err := misnamed(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return ExitPass
	}
	var e *exit
	if !errors.As(err, &e) {
		// Everything that a command itself reports is an exit: this is cobra on flags.
		e = &exit{code: ExitUsage, err: fmt.Errorf("%w; see %s --help", err, displayName(program))}
	}
	if errors.Is(err, errInterrupted) {
		// Nothing is wrong with what was given; as after an interrupt anywhere else, it is open.
		e.code = ExitUndecided
	}
	if text := e.Error(); text != "" {
		say(errOut, "sluice: ", text)
	}
	for _, detail := range e.details {
		// The dash keeps a file that is called ::error::… from being a command to GitHub.
		say(errOut, "  - ", detail)
	}
	return e.code
}

// anyNumber of arguments.
const anyNumber = -1

// takes holds a command to how many arguments it takes, and names them as its Use does.
func takes(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		names := strings.Fields(c.Use)[1:]
		switch {
		case len(args) < least:
			return usage("%s is missing: call it as %s, or see %s --help", strings.Join(names[len(args):], " "), c.UseLine(), c.CommandPath())
		case most == 0 && len(args) > 0:
			return usage("%q is one word too many: %s takes flags only, see %[2]s --help", args[0], c.CommandPath())
		case most != anyNumber && len(args) > most:
			return usage("%q is one word too many: %s takes %s, see %[2]s --help", args[most], c.CommandPath(), strings.Join(names, " and "))
		}
		return nil
	}
}

// say writes one line. File names and manifests are not ours, and neither a terminal nor
// the log of a CI system may take them for commands.
func say(w io.Writer, prefix, text string) {
	fmt.Fprintln(w, prefix+redact.Text(text, limits.ErrorBytes))
}
