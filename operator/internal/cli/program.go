package cli

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// program identifies what runs, with all that is built into it: schemas, policies,
// Kustomize and the rest. The toolchain's own build ID is a hash of the content; where
// there is none, the whole executable is read.
var program = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	if id := buildID(path); id != "" {
		return "build " + id, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if n, err := io.Copy(h, io.LimitReader(f, limits.ProgramBytes+1)); err != nil || n > limits.ProgramBytes {
		return "", fmt.Errorf("read %s: more than %d bytes (limits.ProgramBytes), or %w", path, limits.ProgramBytes, err)
	}
	return "sha256 " + hex.EncodeToString(h.Sum(nil)), nil
})

// buildID is the note that the Go linker writes into an ELF file; "" where there is none.
func buildID(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	note := f.Section(".note.go.buildid")
	if note == nil || note.Size > limits.BuildNoteBytes {
		return ""
	}
	raw, err := note.Data()
	// Sizes of name and description and the type, in 4 bytes each, and "Go" in four.
	if err != nil || len(raw) <= 16 {
		return ""
	}
	return string(raw[16:])
}
