// Command rolloutdocs writes the phases and their transitions into the page that it is
// given: docs/rollout.md.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/sluice-dev/sluice/operator/internal/rollout"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rolloutdocs:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: rolloutdocs PAGE")
	}
	page, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	text, err := rollout.Docs(string(page))
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return os.WriteFile(args[0], []byte(text), 0o644)
}
