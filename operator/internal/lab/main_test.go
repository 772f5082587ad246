package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shared is the cluster of all tests that do not stop one themselves.
var shared *Cluster

// asParent has the test binary start a cluster, print its process ids and wait to be
// killed; asManager has it play an operator. See TestCluster_DiesWithItsParent and
// TestCluster_RunsADeployment.
const (
	asParent  = "SLUICE_LAB_TEST_PARENT"
	asManager = "SLUICE_LAB_TEST_MANAGER"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	switch {
	case os.Getenv(asParent) != "":
		parentMain()
	case os.Getenv(asManager) != "":
		managerMain()
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) (code int) {
	c, err := startHere(os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = c
	for _, p := range c.Processes() {
		rss, err := p.RSS()
		fmt.Fprintf(os.Stderr, "%s holds %d MiB (%v)\n", p.Name(), rss>>20, err)
	}
	code = m.Run()
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func startHere(log *os.File) (*Cluster, error) {
	tools, err := ToolsDir()
	if err != nil {
		return nil, err
	}
	return Start(context.Background(), Options{ToolsDir: tools, Log: log})
}

// parentMain never returns: it is killed.
func parentMain() {
	c, err := startHere(os.Stderr)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var pids []string
	for _, p := range c.Processes() {
		pids = append(pids, fmt.Sprint(p.PID()))
	}
	fmt.Println(strings.Join(pids, " "), c.Dir())
	fmt.Println(c.Wait(context.Background()))
	os.Exit(1)
}

// eventually waits until condition returns nil, and fails with what it last said.
func eventually(t *testing.T, what string, condition func(ctx context.Context) error) {
	t.Helper()
	last := errors.New("not looked at")
	begin := time.Now()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 60*time.Second, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waited %s until %s: %v", time.Since(begin).Round(time.Second), what, last)
	}
	t.Logf("%s after %s", what, time.Since(begin).Round(time.Millisecond))
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := shared.client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}
