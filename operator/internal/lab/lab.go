// Package lab runs a real Kubernetes control plane on this machine, without Docker and
// without root: etcd, kube-apiserver and kube-controller-manager as child processes, and
// a stand-in node that plays scheduler and kubelet. Everything listens on loopback.
//
// It starts the processes itself and not through controller-runtime's envtest: that one
// puts every child into a process group of its own, where it outlives a parent that is
// killed, and knows nothing of a context, a log or a controller manager.
//
// The node is a controller-runtime manager. A program that uses this package has to call
// that library's log.SetLogger, or it prints a warning with a stack after 30 seconds.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab/node"
)

// toolsVariable overrides where ToolsDir looks.
const toolsVariable = "SLUICE_TOOLS_DIR"

// Options of a cluster.
type Options struct {
	// ToolsDir holds etcd, kube-apiserver, kube-controller-manager and kubectl.
	ToolsDir string
	// Dir gets the kubeconfigs and logs, which stay there, and the data, which Stop
	// removes. Empty: a new temporary folder, removed by Stop as a whole
	// unless KeepLogs was called.
	Dir string
	// Definitions are CRDs to apply before the controllers start. Garbage collection
	// learns of a CRD that comes later only when it looks again, every 30 s, and leaves
	// the children of a deleted owner that long.
	Definitions []*unstructured.Unstructured
	// AuditUsers are users of whom every request is in the audit log, reads included.
	AuditUsers []string
	// Log gets one line per step. Nil: silence.
	Log io.Writer
}

// Cluster is a running control plane with one node.
type Cluster struct {
	tools, dir, data string
	temporary        bool
	log              io.Writer
	etcdURL          string
	config           *rest.Config
	client           client.Client
	node             *node.Node
	nodeLog          *os.File

	mu        sync.Mutex
	processes []*Process // in the order of their start
	launched  int        // Deployments run, to tell their processes apart
	stopping  bool
	failed    chan error // the first process that ended by itself

	stopOnce sync.Once
	stopErr  error
}

// ToolsDir finds the folder with the programs of the control plane: $SLUICE_TOOLS_DIR,
// or bin/tools of the clone that the working directory is in.
func ToolsDir() (string, error) {
	if dir := os.Getenv(toolsVariable); dir != "" {
		return dir, nil
	}
	root, err := clone.Root()
	if err != nil {
		return "", fmt.Errorf("find the folder of the tools: %w, or set %s", err, toolsVariable)
	}
	return filepath.Join(root, "bin", "tools"), nil
}

// Start starts a cluster and returns when pods can be created and will run. The context
// bounds the start; the cluster lives until Stop. When it fails, nothing is left running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if err := checkTools(o.ToolsDir); err != nil {
		return nil, err
	}
	c := &Cluster{tools: o.ToolsDir, log: o.Log, failed: make(chan error, 1)}
	if c.log == nil {
		c.log = io.Discard
	}
	if err := c.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start the lab: %w", err), c.Stop())
	}
	return c, nil
}

func checkTools(dir string) error {
	for _, tool := range []string{etcdTool, apiserverTool, controllerTool, kubectlTool} {
		info, err := os.Stat(filepath.Join(dir, tool))
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is not in %s: run `make tools`", tool, dir)
		}
		if err != nil {
			return fmt.Errorf("look for %s: %w", tool, err)
		}
		if info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s in %s is not a program: run `make tools`", tool, dir)
		}
	}
	return nil
}

func (c *Cluster) start(ctx context.Context, o Options) error {
	if err := c.makeFolders(o.Dir); err != nil {
		return err
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	f, err := writeFiles(c.data, ca)
	if err != nil {
		return err
	}
	begin := time.Now()
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{etcdTool, func() error { return c.startEtcd(ctx, f) }},
		{apiserverTool, func() error { return c.startAPIServer(ctx, f, ca, o.AuditUsers) }},
		{fmt.Sprintf("admin access, with %d definitions,", len(o.Definitions)), func() error { return c.connect(ctx, o.Definitions) }},
		{controllerTool, func() error { return c.startControllers(ctx, f, ca) }},
		{"node " + node.Name, func() error { return c.startNode(ctx) }},
	} {
		began := time.Now()
		if err := step.run(); err != nil {
			return err
		}
		c.say("%s is ready after %s", step.name, since(began))
	}
	c.say("the cluster is ready after %s: export KUBECONFIG=%s", since(begin), c.Kubeconfig())
	return nil
}

// makeFolders makes the folder for the data anew, so that no earlier file is ever
// overwritten or removed.
func (c *Cluster) makeFolders(dir string) (err error) {
	if dir == "" {
		c.temporary = true
		dir, err = os.MkdirTemp("", "sluice-lab-")
	} else if dir, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("folder of the lab: %w", err)
	}
	c.dir = dir
	if c.data, err = os.MkdirTemp(dir, "data-"); err != nil {
		return fmt.Errorf("folder of the lab's data: %w", err)
	}
	return nil
}

// connect makes the admin's client and kubeconfig, and applies the first objects.
func (c *Cluster) connect(ctx context.Context, definitions []*unstructured.Unstructured) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("scheme of the lab's client: %w", err)
	}
	admin, err := client.New(c.config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("client of the lab: %w", err)
	}
	c.client = admin
	if err := writeKubeconfig(c.Kubeconfig(), c.config, "default"); err != nil {
		return err
	}
	return c.Apply(ctx, definitions)
}

func (c *Cluster) startNode(ctx context.Context) (err error) {
	out, err := os.Create(filepath.Join(c.dir, node.Name+".log"))
	if err != nil {
		return fmt.Errorf("log of the node: %w", err)
	}
	c.nodeLog = out
	log := funcr.New(func(prefix, args string) { _, _ = fmt.Fprintln(out, prefix, args) }, funcr.Options{LogTimestamp: true})
	if c.node, err = node.Start(ctx, c.config, log); err != nil {
		return err
	}
	go c.watch(c.node.Done(), func() error { return fmt.Errorf("the node ended by itself: %w", c.node.Stop()) })
	return nil
}

// own has Stop stop p. A process that is started while the cluster stops is ended here.
func (c *Cluster) own(p *Process) error {
	c.mu.Lock()
	stopping := c.stopping
	if !stopping {
		c.processes = append(c.processes, p)
	}
	c.mu.Unlock()
	if stopping {
		return errors.Join(fmt.Errorf("%s: the cluster is stopped", p.name), p.Stop())
	}
	return nil
}

// watch reports a part of the cluster that ends by itself.
func (c *Cluster) watch(done <-chan struct{}, ended func() error) {
	<-done
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return
	}
	select {
	case c.failed <- ended():
	default: // an earlier one is the cause
	}
}

// Config is the access of a cluster admin, without rate limits.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the path of a cluster admin's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Dir is the folder with kubeconfigs and logs.
func (c *Cluster) Dir() string { return c.dir }

// Processes that the cluster started, in order: the control plane (etcd, kube-apiserver,
// kube-controller-manager) first. Those that ended are among them.
func (c *Cluster) Processes() []*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Process(nil), c.processes...)
}

// Wait blocks until ctx is done (nil) or a part of the control plane, or a Deployment that
// was run, ended by itself (an error with the end of its log).
func (c *Cluster) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.failed:
		return err
	}
}

// Stop ends everything that the cluster started, the last first, and removes its data.
// It may be called again and returns the same result.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		c.mu.Lock()
		c.stopping = true
		c.mu.Unlock()
		c.stopErr = c.stop()
	})
	return c.stopErr
}

// KeepLogs has Stop leave the kubeconfigs and logs of a temporary folder there too: they are
// for a lab that failed, since what says so names them.
func (c *Cluster) KeepLogs() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.temporary = false
}

func (c *Cluster) stop() error {
	var errs []error
	if c.node != nil {
		errs = append(errs, c.node.Stop())
	}
	if c.nodeLog != nil {
		errs = append(errs, c.nodeLog.Close())
	}
	processes := c.Processes()
	for i := len(processes) - 1; i >= 0; i-- {
		errs = append(errs, processes[i].Stop())
	}
	remove := c.data
	c.mu.Lock()
	if c.temporary {
		remove = c.dir
	}
	c.mu.Unlock()
	if remove != "" {
		errs = append(errs, os.RemoveAll(remove))
	}
	return errors.Join(errs...)
}

// say writes one line. A lab whose reader is gone still has to run and stop.
func (c *Cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.log, format+"\n", args...)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }
