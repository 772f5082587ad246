package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Prometheus is a Prometheus server on loopback. It dies with the process that started it,
// on Linux even when that one is killed.
type Prometheus struct {
	// URL that its API is served under.
	URL string

	cmd  *exec.Cmd
	done chan struct{}
}

// listening is what Prometheus logs once its port is open.
var listening = regexp.MustCompile(`msg="Listening on" .*address=(\S+)`)

// StartPrometheus starts the program at binary (bin/tools/prometheus), which scrapes /metrics
// of each target, a host and port, every 500 ms as the job "targets", and evaluates the
// rules in dir/rules as often. It keeps its data in dir and takes a port that is free. It
// returns when queries are answered, or an error after limits.LabReady.
func StartPrometheus(ctx context.Context, binary, dir string, targets ...string) (*Prometheus, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.LabReady)
	defer cancel()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(scrapes(targets)), 0o600); err != nil {
		return nil, fmt.Errorf("start prometheus: %w", err)
	}
	p := &Prometheus{
		cmd: exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0",
			"--scrape.discovery-reload-interval=100ms"), // the first scrape would be after 5 s
		done: make(chan struct{}),
	}
	p.cmd.SysProcAttr = dieWithParent()
	log, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start prometheus: %w", err)
	}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start prometheus (build it with make bin/tools/prometheus): %w", err)
	}
	if err := p.ready(ctx, log); err != nil {
		p.Stop()
		return nil, fmt.Errorf("start prometheus: %w", err)
	}
	return p, nil
}

func scrapes(targets []string) string {
	var b strings.Builder
	b.WriteString("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [rules/*.yaml]\nscrape_configs:\n- job_name: targets\n  static_configs:\n  - targets: [")
	for _, t := range targets {
		fmt.Fprintf(&b, "%q, ", t)
	}
	b.WriteString("]\n")
	return b.String()
}

// start runs the program and its wait on one thread: Linux sends the signal of a parent's
// death when the thread that forked ends.
func (p *Prometheus) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_, _ = p.cmd.Process.Wait() // how it ends does not matter to who stops it
		close(p.done)
	}()
	return <-started
}

// ready reads the port from the log, and then waits until the API answers.
func (p *Prometheus) ready(ctx context.Context, log io.Reader) error {
	found, last := make(chan string, 1), make(chan string, 1)
	go func() {
		line := ""
		for lines := bufio.NewScanner(log); lines.Scan(); {
			line = lines.Text()
			if m := listening.FindStringSubmatch(line); m != nil {
				found <- m[1]
				break
			}
		}
		last <- line
		_, _ = io.Copy(io.Discard, log)
	}()
	select {
	case address := <-found:
		p.URL = "http://" + address
	case <-p.done:
		return errors.New("it ended by itself: " + <-last)
	case <-ctx.Done():
		return errors.New("it does not listen: " + context.Cause(ctx).Error())
	}
	poll := time.NewTicker(limits.LabPoll)
	defer poll.Stop()
	for {
		if p.answers(ctx) {
			return nil
		}
		select {
		case <-poll.C:
		case <-p.done:
			return errors.New("it ended by itself")
		case <-ctx.Done():
			return errors.New("it does not get ready: " + context.Cause(ctx).Error())
		}
	}
}

func (p *Prometheus) answers(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/-/ready", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Stop kills the server and waits for its end: nothing of it is kept.
func (p *Prometheus) Stop() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}
