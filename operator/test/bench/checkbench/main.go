// Command checkbench times `sluice check` on a thousand Workloads and 16 policies beside
// `kustomize build` alone and `kustomize build | conftest test`, in turn in one run, and
// prints a table: as it is the first time, again when nothing has changed, and on an
// overlay that changes every object; and the policies alone. It exits 1 where a figure is past
// its bound.
package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const (
	workloads = 1000
	rounds    = 10
)

// groups of the library have 16 policies together, each of which sees the Workload and all of
// its children.
var groups = []string{"restricted", "tenancy"}

// policies is how many those are: a group has one in each file that is not shared.
func policies() int {
	n := 0
	for _, name := range groups {
		set, _ := policy.Builtin(name)
		for file := range set.Modules {
			if path.Dir(file) != "lib" {
				n++
			}
		}
	}
	return n
}

// cost of one run: until it ended, processor time, and peak resident memory of the largest
// process in KiB.
type cost struct {
	wall, cpu time.Duration
	peak      int64
}

// figure is the best of all rounds, and the largest peak: the machine has other things to do.
type figure struct {
	name string
	run  func() (cost, error)
	cost
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "checkbench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: checkbench SLUICE KUSTOMIZE CONFTEST JUDGEBENCH")
	}
	dir, err := os.MkdirTemp("", "checkbench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := fleet(dir); err != nil {
		return err
	}
	programs, err := copies(dir, args[:3])
	if err != nil {
		return err
	}
	figures := commands(dir, programs[0], programs[1], programs[2])
	bare, full := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range rounds {
		for _, f := range figures {
			c, err := f.run()
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			if f.wall == 0 {
				f.cost = c
			}
			f.cost = cost{min(f.wall, c.wall), min(f.cpu, c.cpu), max(f.peak, c.peak)}
		}
		a, b, err := judging(args[3], filepath.Join(dir, "fleet"))
		if err != nil {
			return fmt.Errorf("%s: %w", args[3], err)
		}
		bare, full = min(bare, a), min(full, b)
	}
	return table(figures, full-bare)
}

// judging is how long it takes to judge the fleet without policies and with them, and nothing
// else. Another program finds that: peaks of memory that are taken here begin at that of this
// one, which has little in it.
func judging(program, fleet string) (without, with time.Duration, err error) {
	cmd := exec.Command(program, fleet)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, err
	}
	words := strings.Fields(string(out))
	if len(words) != 2 {
		return 0, 0, fmt.Errorf("it prints %q in place of two durations", out)
	}
	a, wrong := time.ParseDuration(words[0])
	b, err := time.ParseDuration(words[1])
	return a, b, errors.Join(wrong, err)
}

// copies of the programs, made one after the other: how much of a program is resident depends
// on how the system came to hold its file, which a linker leaves in other pieces than cp.
func copies(dir string, programs []string) ([]string, error) {
	var out []string
	for _, from := range programs {
		to := filepath.Join(dir, "bin-"+filepath.Base(from))
		if err := copyFile(to, from); err != nil {
			return nil, err
		}
		out = append(out, to)
	}
	return out, nil
}

// copyFile holds little of the file at a time: the peak of what is started later begins at
// that of this process.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// commands are what is timed, in the order of the table. What is kept is deleted before the
// first of two checks, which then has to keep it anew.
func commands(dir, sluice, kustomize, conftest string) []*figure {
	in := func(name string) string { return filepath.Join(dir, name) }
	build := func(overlay string) func() (cost, error) {
		return func() (cost, error) { return timed(exec.Command(kustomize, "build", in(overlay))) }
	}
	again := func(overlay, gate string) func() (cost, error) {
		return func() (cost, error) {
			return timed(exec.Command(sluice, "check", in(overlay), "--root", in("fleet"), "--gate", in(gate), "--cache-dir", in("kept")))
		}
	}
	check := func(overlay, gate string) func() (cost, error) {
		return func() (cost, error) {
			if err := os.RemoveAll(in("kept")); err != nil {
				return cost{}, err
			}
			return again(overlay, gate)()
		}
	}
	return []*figure{
		{name: "kustomize build", run: build("fleet/overlay")},
		{name: "kustomize build | conftest test", run: func() (cost, error) {
			return piped(exec.Command(kustomize, "build", in("fleet/overlay")), exec.Command(conftest, "test", "--policy", in("policy"), "-"))
		}},
		{name: "sluice check, no policies", run: check("fleet/overlay", "fleet/none")},
		{name: "sluice check", run: check("fleet/overlay", "fleet/gate")},
		{name: "sluice check, again", run: again("fleet/overlay", "fleet/gate")},
		{name: "kustomize build, labels on all", run: build("fleet/labels")},
		{name: "sluice check, labels on all", run: check("fleet/labels", "fleet/gate")},
	}
}

// table prints the figures and how long the policies take alone, and says which are past their
// bounds.
func table(figures []*figure, alone time.Duration) error {
	build, pipe, bare, ours, again, labels, labelled := figures[0], figures[1], figures[2], figures[3], figures[4], figures[5], figures[6]
	fmt.Printf("%d Workloads, %d policies, best of %d rounds\n%-34s %9s %9s %9s %8s\n", workloads, policies(), rounds, "", "wall", "of build", "CPU", "peak")
	for i, f := range figures {
		of := build
		if i >= 5 {
			of = labels
		}
		fmt.Printf("%-34s %7.2f s %8.2fx %7.2f s %4d MiB\n", f.name, f.wall.Seconds(), f.wall.Seconds()/of.wall.Seconds(), f.cpu.Seconds(), f.peak>>10)
	}
	// The difference has, besides, that they are compiled, that their garbage is collected in
	// the little memory a check takes, and the noise of two starts.
	within := ours.wall - bare.wall
	fmt.Printf("%-34s %7.2f s %8.2fx\n", "policies, with and without", within.Seconds(), within.Seconds()/build.wall.Seconds())
	fmt.Printf("%-34s %7.2f s %8.2fx\n", "policies alone, in one process", alone.Seconds(), alone.Seconds()/build.wall.Seconds())
	var past []string
	if ours.wall.Seconds() > 1.1*build.wall.Seconds() {
		past = append(past, "sluice check takes more than 1.1 times kustomize build")
	}
	if labelled.wall.Seconds() > 1.1*labels.wall.Seconds() {
		past = append(past, "sluice check takes more than 1.1 times kustomize build where all objects get labels")
	}
	if alone > 200*time.Millisecond {
		past = append(past, "the policies alone take more than 0.2 s")
	}
	if within.Seconds() > 0.35*build.wall.Seconds() {
		past = append(past, "the check takes more than 0.35 times kustomize build longer with policies")
	}
	if again.wall > 300*time.Millisecond {
		past = append(past, "sluice check takes more than 0.3 s when nothing has changed")
	}
	if max(ours.peak, labelled.peak) >= pipe.peak {
		past = append(past, "sluice check takes more memory than conftest")
	}
	if len(past) > 0 {
		return errors.New(strings.Join(past, "; "))
	}
	return nil
}

// timed runs a command that has to succeed.
func timed(cmd *exec.Cmd) (cost, error) {
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("%w: %s", err, said.String())
	}
	return cost{time.Since(start), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), peak(cmd)}, nil
}

func piped(from, to *exec.Cmd) (cost, error) {
	out, err := from.StdoutPipe()
	if err != nil {
		return cost{}, err
	}
	to.Stdin = out
	start := time.Now()
	if err := from.Start(); err != nil {
		return cost{}, err
	}
	c, err := timed(to)
	if err = errors.Join(err, from.Wait()); err != nil {
		return cost{}, err
	}
	return cost{time.Since(start), c.cpu + from.ProcessState.UserTime() + from.ProcessState.SystemTime(), max(c.peak, peak(from))}, nil
}

func peak(cmd *exec.Cmd) int64 {
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss
}

// fleet writes the Workloads, overlays over them, Gates with and without policies, and as
// many policies for conftest.
func fleet(dir string) error {
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(in(name)), 0o755), os.WriteFile(in(name), []byte(content), 0o600))
	}
	var failed error
	for i := range policies() {
		failed = errors.Join(failed, write(fmt.Sprintf("policy/p%d.rego", i), fmt.Sprintf(rego, i)))
	}
	return errors.Join(failed,
		testkit.WriteFleet(in("fleet"), workloads),
		write("fleet/labels/kustomization.yaml", "resources: [../base]\nlabels: [{pairs: {team: shop}}]\n"),
		testkit.WriteGate(in("fleet/gate"), groups...),
		testkit.WriteGate(in("fleet/none")))
}

// rego is what conftest is given: one look at the Workload, where ours look at each of
// its children.
const rego = `package main

deny contains msg if {
	input.kind == "Workload"
	input.spec.replicas > 100 + %[1]d
	msg := sprintf("%%s: too many replicas", [input.metadata.name])
}
`
