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
func (p *Process) RSS() (int64, error) { return p.memory("VmRSS:") }

// PeakRSS is the most that RSS has been, in bytes.
func (p *Process) PeakRSS() (int64, error) { return p.memory("VmHWM:") }

// ForgetPeakRSS has PeakRSS counted from now on.
func (p *Process) ForgetPeakRSS() error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0o200); err != nil {
		return fmt.Errorf("memory of %s: %w", p.name, err)
	}
	return nil
}

// OwnRSS is what of RSS is no file's, such as the program's own, in bytes.
func (p *Process) OwnRSS() (int64, error) { return p.memory("RssAnon:") }

// memory reads a line of proc(5)'s status, which counts in KiB.
func (p *Process) memory(name string) (int64, error) {
	path := fmt.Sprintf("/proc/%d/status", p.PID())
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != name {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("memory of %s: %w", p.name, err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("memory of %s: %s has no %s", p.name, path, name)
}
