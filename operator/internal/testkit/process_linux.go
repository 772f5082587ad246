package testkit

import "syscall"

// dieWithParent has the kernel kill a child when its parent is gone: a test binary that
// runs into its timeout stops nothing by itself.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
