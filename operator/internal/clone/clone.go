// Package clone finds the clone of the repository that a command runs in.
package clone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Root is the clone's folder, which is the working directory or above it.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "kustomize", "base", "kustomization.yaml")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("kustomize/base is not at or above the working directory: run this in a clone of the repository")
		}
		dir = filepath.Dir(dir)
	}
}
