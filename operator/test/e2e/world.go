package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/scaffold"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// fleetName is the fleet's name, and that of its namespace.
const fleetName = "shop"

// environment is a cluster of its own: so the fleet is the one that sluice init writes,
// and the key that signs for an environment is in no other one.
type environment struct {
	name   string
	stage  *stage.Stage
	client client.Client
	// key signs that an image passed this environment, and keyFile is it in a file.
	key     *testkit.Key
	keyFile string
	// revisions were merged and have been synced here, the last one last.
	revisions []string
}

// application is the name that the fleet's ApplicationSet gives.
func (e *environment) application() string { return fleetName + "-" + e.name + "-" + e.name }

// world is what the steps share.
type world struct {
	root, dir string
	// environments in the order in which a change goes through them. Argo CD runs in the
	// cluster of the first.
	environments []*environment

	registry     string // host:port
	stopRegistry func()
	release      *testkit.Key // signs images
	repository   *repository
	argo         *argo
	// first is what runs everywhere to begin with, second what is delivered.
	first, second release
}

// release is an image of the fleet's Workload.
type release struct{ tag, digest string }

func (r release) String() string { return repositoryOfImage + ":" + r.tag + "@" + r.digest }

const repositoryOfImage = stage.Registry + "/" + fleetName + "/web"

func newWorld() (*world, error) {
	root, err := clone.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-e2e-")
	if err != nil {
		return nil, fmt.Errorf("folder of the run: %w", err)
	}
	w := &world{root: root, dir: dir}
	for _, name := range scaffold.Environments {
		w.environments = append(w.environments, &environment{name: name})
	}
	return w, nil
}

func (w *world) environment(name string) *environment {
	for _, e := range w.environments {
		if e.name == name {
			return e
		}
	}
	panic("there is no environment " + name) // a mistake in a step
}

// hub is the cluster that Argo CD runs in.
func (w *world) hub() *environment { return w.environments[0] }

// startClusters starts a cluster for each environment, side by side, with one registry for
// all.
func (w *world) startClusters(ctx context.Context) error {
	var err error
	if w.registry, w.stopRegistry, err = lab.StartRegistry(); err != nil {
		return err
	}
	if w.release, err = testkit.NewKey(); err != nil {
		return err
	}
	failures := make([]error, len(w.environments))
	var all sync.WaitGroup
	for i, e := range w.environments {
		all.Go(func() { failures[i] = w.startCluster(ctx, e) })
	}
	all.Wait()
	return errors.Join(failures...)
}

func (w *world) startCluster(ctx context.Context, e *environment) error {
	began := time.Now()
	var err error
	if e.key, err = testkit.NewKey(); err != nil {
		return err
	}
	e.keyFile = filepath.Join(w.dir, e.name+".key")
	if err := os.WriteFile(e.keyFile, []byte(e.key.PrivatePEM), 0o600); err != nil {
		return err
	}
	e.stage, err = stage.Up(ctx, stage.Options{
		Root: w.root, Overlay: "kustomize/base", Manager: filepath.Join(w.root, "bin", "manager"),
		RegistryAddress: w.registry, Dir: filepath.Join(w.dir, e.name), Log: io.Discard,
	})
	if err != nil {
		return fmt.Errorf("cluster %s: %w", e.name, err)
	}
	if e.client, err = client.New(e.stage.Cluster.Config(), client.Options{}); err != nil {
		return fmt.Errorf("cluster %s: %w", e.name, err)
	}
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": stage.AttestorSecret(e.name), "namespace": stage.OperatorNamespace},
		"stringData": map[string]any{"cosign.key": e.key.PrivatePEM, "cosign.password": ""},
	}}
	if err := e.stage.Cluster.Apply(ctx, []*unstructured.Unstructured{secret}); err != nil {
		return fmt.Errorf("cluster %s: %w", e.name, err)
	}
	fmt.Printf("   cluster %s runs Sluice after %.1f s\n", e.name, time.Since(began).Seconds())
	return nil
}

// stop stops everything; it is safe to call at any time.
func (w *world) stop() error {
	failures := make([]error, len(w.environments))
	var all sync.WaitGroup
	for i, e := range w.environments {
		if e.stage != nil {
			all.Go(func() { failures[i] = e.stage.Stop() })
		}
	}
	all.Wait()
	if w.stopRegistry != nil {
		w.stopRegistry()
	}
	if w.repository != nil {
		w.repository.stop()
	}
	return errors.Join(failures...)
}

// clean removes the folder of the run, which is kept for its logs after a failure.
func (w *world) clean(all bool) error {
	if all {
		return os.RemoveAll(w.dir)
	}
	fmt.Fprintln(os.Stderr, "\nThe logs are in "+w.dir)
	return nil
}

// toldOfLog is how much of the end of a log is shown after a failure.
const toldOfLog = 3 << 10

// tellLogs shows the end of the logs of Argo CD. Errors name those of the operators.
func (w *world) tellLogs() {
	var logs []string
	for _, e := range w.environments {
		if e.stage == nil || e.stage.Cluster == nil {
			continue
		}
		for _, p := range e.stage.Cluster.Processes() {
			if strings.HasPrefix(p.Name(), "argocd-") {
				logs = append(logs, p.Log())
			}
		}
	}
	for _, name := range logs {
		fmt.Fprintf(os.Stderr, "\nThe end of %s:\n%s", name, tail(name, toldOfLog))
	}
}

// tail is the end of a file, in whole lines.
func tail(name string, size int64) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error() + "\n"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > size {
		if _, err := f.Seek(-size, io.SeekEnd); err != nil {
			return err.Error() + "\n"
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, size))
	if err != nil {
		return err.Error() + "\n"
	}
	if _, rest, cut := strings.Cut(string(text), "\n"); cut && int64(len(text)) == size {
		return rest
	}
	return string(text)
}

// eventually waits until a condition holds. Its last word on why not is in the error.
func eventually(ctx context.Context, what string, condition func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := condition(ctx)
		if err == nil || ctx.Err() == nil { // what the end of the time cut off says nothing
			last = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted while waiting for: %s", what)
	}
	return fmt.Errorf("waited %s for: %s: %w", patience, what, last)
}

func (w *world) directions() string {
	var out strings.Builder
	fmt.Fprintf(&out, "\nEverything is left running until Ctrl-C. In another shell:\n")
	for _, e := range w.environments {
		fmt.Fprintf(&out, "  KUBECONFIG=%s %s get workloads -n %s   # %s\n", e.stage.Cluster.Kubeconfig(), filepath.Join(w.root, "bin", "tools", "kubectl"), fleetName, e.name)
	}
	fmt.Fprintf(&out, "Argo CD is at http://%s, and the fleet in %s\n", w.argo.address, w.repository.dir)
	return out.String()
}
