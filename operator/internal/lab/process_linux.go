package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent has the kernel kill the child when its parent is gone: a test binary
// that runs into its timeout stops nothing by itself.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// RSS is the resident memory of the process in bytes.
func (p *Process) RSS() (int64, error) {
	path := fmt.Sprintf("/proc/%d/statm", p.PID())
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("memory of %s: %w", p.name, err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("memory of %s: %s holds %q, want the resident pages second", p.name, path, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("memory of %s: %w", p.name, err)
	}
	return pages * int64(os.Getpagesize()), nil
}
