// Command policydocs prints docs/policies.md.
package main

import (
	"fmt"
	"os"

	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
)

func main() {
	text, err := policy.Docs()
	if err != nil {
		fmt.Fprintln(os.Stderr, "policydocs:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}
