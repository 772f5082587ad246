// Package stepwise is for programs that show something in steps and check each of them.
package stepwise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Main runs a program until it ends, or is told to by a signal. An error is its failure.
func Main(run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nFAILED: "+err.Error())
		os.Exit(1)
	}
}

// Step is one thing to see, on what all steps share.
type Step[T any] struct {
	Title string
	Run   func(context.Context, T) error
}

// Take takes the steps in turn, and prints how long each took. The first error ends it.
func Take[T any](ctx context.Context, on T, steps []Step[T]) error {
	begin := time.Now()
	var table []string
	for i, step := range steps {
		fmt.Printf("\n%d. %s\n", i+1, step.Title)
		began := time.Now()
		if err := step.Run(ctx, on); err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, step.Title, err)
		}
		table = append(table, fmt.Sprintf("%7.1f s  %s", time.Since(began).Seconds(), step.Title))
	}
	fmt.Printf("\nAll %d steps came out as they should:\n%s\n%7.1f s  in all\n", len(steps), strings.Join(table, "\n"), time.Since(begin).Seconds())
	return nil
}

// Saw says what was seen.
func Saw(what string) { fmt.Println("   OK: " + what) }

// OK is Saw, to end a step with.
func OK(format string, args ...any) error {
	Saw(fmt.Sprintf(format, args...))
	return nil
}

// Output is how a program ended.
type Output struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a program. A code other than 0 is no error: the steps judge it.
func Run(c *exec.Cmd) (Output, error) {
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return Output{}, fmt.Errorf("run %s: %w", c.Path, err)
	}
	return Output{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}, nil
}

// Must is Run where nothing but success will do; it returns the standard output.
func Must(out Output, err error) (string, error) {
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", out.Code, strings.TrimSpace(out.Stderr+out.Stdout))
	}
	return out.Stdout, err
}
