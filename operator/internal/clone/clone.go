// Package clone finds the clone of Sluice's repository that a command runs in.
package clone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// module stands in the go.mod of a clone, and in no other repository's.
const module = "github.com/sluice-dev/sluice"

// Root is the clone's folder, which is the working directory or above it. Other modules
// below it are passed by: hack/tools has some. Where there is none the error says so.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	for !isOurs(dir) {
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod at or above the working directory is of module " + module + ": run this in a clone of the repository")
		}
		dir = filepath.Dir(dir)
	}
	return dir, nil
}

// isOurs goes by what nobody else has: others have a kustomize/base too, and go.mod.
func isOurs(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && modfile.ModulePath(text) == module
}
