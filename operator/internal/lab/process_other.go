//go:build !linux

package lab

import (
	"fmt"
	"runtime"
	"syscall"
)

// dieWithParent is for Linux; elsewhere the children get the terminal's interrupt, as
// they are in the process group of their parent.
func dieWithParent() *syscall.SysProcAttr { return nil }

// RSS is the resident memory of the process in bytes; on Linux only.
func (p *Process) RSS() (int64, error) {
	return 0, fmt.Errorf("memory of %s: not known on %s", p.name, runtime.GOOS)
}

// PeakRSS is the most that RSS has been, in bytes; on Linux only.
func (p *Process) PeakRSS() (int64, error) { return p.RSS() }

// ForgetPeakRSS has PeakRSS counted from now on; on Linux only.
func (p *Process) ForgetPeakRSS() error { _, err := p.RSS(); return err }

// OwnRSS is what of RSS is no file's, such as the program's own, in bytes; on Linux only.
func (p *Process) OwnRSS() (int64, error) { return p.RSS() }
