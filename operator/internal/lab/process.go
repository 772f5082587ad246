package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Process is a program that the lab runs. It dies with the process that started it (on
// Linux even when that one is killed), and writes its output to a file.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	stop sync.Mutex
	done chan struct{}
	err  error // how it ended; set before done is closed
}

// startProcess runs the program at path. env is the whole environment of the process.
func startProcess(name, path string, args, env []string, log string) (*Process, error) {
	path, err := filepath.Abs(path) // it runs in another folder
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer out.Close() // the child has its own descriptor
	cmd := exec.Command(path, args...)
	cmd.Env = env
	cmd.Dir = filepath.Dir(log)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = dieWithParent()
	p := &Process{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// run starts the command and waits for it on one thread: Linux sends the parent-death
// signal when the thread that forked ends, and Go ends idle threads at will.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// Name of the program.
func (p *Process) Name() string { return p.name }

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the path of the file with the output of the process.
func (p *Process) Log() string { return p.log }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait blocks until the process has ended. The error is an *exec.ExitError when it
// ended with another code than 0 or by a signal.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Stop sends SIGTERM, waits for the end, and sends SIGKILL after limits.LabStop. It
// returns an error only when the process had to be killed. It may be called again.
func (p *Process) Stop() error {
	p.stop.Lock()
	defer p.stop.Unlock()
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	deadline := time.NewTimer(limits.LabStop)
	defer deadline.Stop()
	select {
	case <-p.done:
		return nil
	case <-deadline.C:
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("%s did not end within %s of SIGTERM and was killed; its log is %s", p.name, limits.LabStop, p.log)
}

func (p *Process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, p.name, err)
	}
	return nil
}

// Ended describes a process that ended before it was asked to, with the end of its log. Done
// has to be closed.
func (p *Process) Ended() error {
	how := "exited with code 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended by itself (%s); the end of %s:\n%s", p.name, how, p.log, p.tail())
}

// tail returns the last whole lines of the log.
func (p *Process) tail() string {
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > limits.LabLogTail {
		if _, err := f.Seek(-limits.LabLogTail, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, limits.LabLogTail))
	if err != nil {
		return err.Error()
	}
	if _, after, cut := strings.Cut(string(text), "\n"); cut && len(text) == limits.LabLogTail {
		return after
	}
	return string(text)
}
