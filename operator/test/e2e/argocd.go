package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// argoNamespace is where Argo CD is.
const argoNamespace = "argocd"

// argo is a running Argo CD.
type argo struct {
	// bin has the one program under the names that it goes by.
	bin string
	// address of its API, host:port.
	address string
	// settings is the ConfigMap argocd-cm in a file, for its command's own use.
	settings string
}

// startArgo installs Argo CD into the hub by its own manifests and our component, and runs
// its parts as processes in place of their Deployments, each with the rights of its own
// ServiceAccount.
func (w *world) startArgo(ctx context.Context) error {
	w.argo = &argo{bin: filepath.Join(w.dir, "bin")}
	if err := w.argo.linkPrograms(filepath.Join(w.root, "bin", "tools")); err != nil {
		return err
	}
	objects, err := w.argoManifests(ctx)
	if err != nil {
		return err
	}
	if err := w.hub().stage.Cluster.Apply(ctx, objects); err != nil {
		return err
	}
	return w.runArgo(ctx)
}

func (a *argo) linkPrograms(tools string) error {
	if err := os.MkdirAll(a.bin, 0o700); err != nil {
		return err
	}
	links := map[string]string{"kustomize": "kustomize"}
	for _, name := range []string{"argocd", "argocd-server", "argocd-repo-server", "argocd-application-controller", "argocd-applicationset-controller"} {
		links[name] = "argocd"
	}
	for name, tool := range links {
		if _, err := os.Stat(filepath.Join(tools, tool)); err != nil {
			return fmt.Errorf("%w: run `make e2e`, which builds it", err)
		}
		if err := os.Symlink(filepath.Join(tools, tool), filepath.Join(a.bin, name)); err != nil {
			return err
		}
	}
	return nil
}

// argoManifests are what a team applies that installs Argo CD with our component, without
// what would run pods.
func (w *world) argoManifests(ctx context.Context) ([]*unstructured.Unstructured, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-cd/v3")
	list.Dir = filepath.Join(w.root, "hack", "tools", "argocd")
	where, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("find the manifests of Argo CD: %w", err)
	}
	dir := filepath.Join(w.dir, "install")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	base, err := filepath.Rel(dir, filepath.Join(strings.TrimSpace(string(where)), "manifests", "cluster-install"))
	if err != nil {
		return nil, err
	}
	component, err := filepath.Rel(dir, filepath.Join(w.root, "kustomize", "argocd", "config"))
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("namespace: %s\nresources: [%q, namespace.yaml]\ncomponents: [%q]\n", argoNamespace, base, component)
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + argoNamespace + "}\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "namespace.yaml"), []byte(namespace), 0o600)); err != nil {
		return nil, err
	}
	built, err := stepwise.Must(w.command(ctx, dir, nil, filepath.Join(w.argo.bin, "kustomize"), "build", "."))
	if err != nil {
		return nil, err
	}
	return w.argo.install(w.dir, built)
}

// install leaves the controllers of pods out, gives the API's secret its key, and keeps the
// settings in a file.
func (a *argo) install(dir, built string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(built), 1<<20)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("manifests of Argo CD: %w", err)
		}
		switch {
		case o.GetKind() == "Deployment" || o.GetKind() == "StatefulSet":
			continue
		case o.GetName() == "argocd-secret":
			o.Object["stringData"] = map[string]any{"server.secretkey": "of no secret: this Argo CD asks nobody who they are"}
		case o.GetName() == "argocd-cm":
			raw, err := o.MarshalJSON()
			if err != nil {
				return nil, err
			}
			a.settings = filepath.Join(dir, "argocd-cm.json")
			if err := os.WriteFile(a.settings, raw, 0o600); err != nil {
				return nil, err
			}
		}
		out = append(out, o)
	}
}

// runArgo runs the parts that deliver: cache, repository server, both controllers, and the
// API for webhooks and actions.
func (w *world) runArgo(ctx context.Context) error {
	ports, err := lab.FreePorts(9)
	if err != nil {
		return err
	}
	cache, repo, repoMetrics, metrics, setMetrics, setProbe, setHook, api, apiMetrics := ports[0], ports[1], ports[2], ports[3], ports[4], ports[5], ports[6], ports[7], ports[8]
	w.argo.address = api
	env, err := w.argoEnvironment()
	if err != nil {
		return err
	}
	if err := w.runCache(cache, env); err != nil {
		return err
	}
	// The controller of ApplicationSets answers its probe with nothing, so its metrics have
	// to do.
	repoFlags := []string{"--repo-server-plaintext", "--loglevel=info"}
	for _, part := range []struct {
		name  string
		args  []string
		ready string
	}{
		{"argocd-repo-server", []string{"--redis=" + cache, "--address=127.0.0.1", "--port=" + port(repo), "--metrics-address=127.0.0.1", "--metrics-port=" + port(repoMetrics), "--disable-tls"}, repoMetrics + "/healthz"},
		// It serves its metrics on every address of the machine: there is no flag.
		{"argocd-application-controller", append([]string{"--redis=" + cache, "--repo-server=" + repo, "--metrics-port=" + port(metrics), "--namespace=" + argoNamespace, "--app-resync=60"}, repoFlags...), metrics + "/healthz"},
		{"argocd-applicationset-controller", []string{"--argocd-repo-server=" + repo, "--repo-server-plaintext", "--namespace=" + argoNamespace, "--metrics-addr=" + setMetrics, "--probe-addr=" + setProbe, "--webhook-addr=" + setHook}, setMetrics + "/metrics"},
		{"argocd-server", append([]string{"--redis=" + cache, "--repo-server=" + repo, "--address=127.0.0.1", "--port=" + port(api), "--metrics-port=" + port(apiMetrics), "--namespace=" + argoNamespace, "--disable-auth", "--insecure"}, repoFlags...), api + "/healthz"},
	} {
		own, err := w.hub().stage.Cluster.KubeconfigFor(ctx, argoNamespace, part.name)
		if err != nil {
			return err
		}
		with := maps.Clone(env)
		with["KUBECONFIG"] = own
		p, err := w.hub().stage.Cluster.Run(part.name, filepath.Join(w.argo.bin, part.name), part.args, with)
		if err != nil {
			return err
		}
		if err := eventually(ctx, part.name+" is ready", healthy(p, "http://"+part.ready)); err != nil {
			return err
		}
	}
	return nil
}

// argoEnvironment keeps Argo CD's files in the folder of the run.
func (w *world) argoEnvironment() (map[string]string, error) {
	env := map[string]string{
		"PATH": w.argo.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME": w.dir,
		"GIT_CONFIG_NOSYSTEM": "1", "ARGOCD_GPG_ENABLED": "false", "ARGOCD_FAKE_IN_CLUSTER": "true",
		"ARGOCD_ASK_PASS_SOCK": filepath.Join(w.dir, "ask-pass.sock"),
	}
	for _, name := range []string{"ARGOCD_SSH_DATA_PATH", "ARGOCD_TLS_DATA_PATH", "ARGOCD_GPG_DATA_PATH", "ARGOCD_GNUPGHOME", "TMPDIR"} {
		env[name] = filepath.Join(w.dir, "argocd", strings.ToLower(name))
		if err := os.MkdirAll(env[name], 0o700); err != nil {
			return nil, err
		}
	}
	return env, os.WriteFile(filepath.Join(env["ARGOCD_SSH_DATA_PATH"], "ssh_known_hosts"), nil, 0o600)
}

// runCache runs Redis where it is installed, and else a server that speaks like it.
func (w *world) runCache(address string, env map[string]string) error {
	program, args := filepath.Join(w.root, "bin", "tools", "miniredis"), []string{address}
	if found, err := exec.LookPath("redis-server"); err == nil {
		program, args = found, []string{"--bind", "127.0.0.1", "--port", port(address), "--save", "", "--appendonly", "no", "--dir", w.dir}
	}
	fmt.Printf("   the cache of Argo CD is %s\n", filepath.Base(program))
	_, err := w.hub().stage.Cluster.Run("argocd-redis", program, args, env)
	return err
}

func port(address string) string {
	_, p, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // it comes from lab.FreePorts
	}
	return p
}

// healthy is a condition that holds when a process answers, and tells when it ended.
func healthy(p *lab.Process, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended; its log is %s", p.Name(), p.Log())
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", url, response.Status)
		}
		return errors.Join(err, response.Body.Close())
	}
}

// registerClusters gives Argo CD a Secret for each cluster, with the label that the
// ApplicationSet goes by, and with no more rights there than a fleet needs.
func (w *world) registerClusters(ctx context.Context) error {
	access, err := stage.Objects(w.root, "kustomize/argocd/cluster")
	if err != nil {
		return err
	}
	var secrets []*unstructured.Unstructured
	for _, e := range w.environments {
		if err := e.stage.Cluster.Apply(ctx, access); err != nil {
			return err
		}
		secret, err := e.registration(ctx)
		if err != nil {
			return err
		}
		secrets = append(secrets, secret)
	}
	return w.hub().stage.Cluster.Apply(ctx, secrets)
}

func (e *environment) registration(ctx context.Context) (*unstructured.Unstructured, error) {
	file, err := e.stage.Cluster.KubeconfigFor(ctx, stage.OperatorNamespace, "argocd-fleet")
	if err != nil {
		return nil, err
	}
	own, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{"bearerToken": own.BearerToken, "tlsClientConfig": map[string]any{"caData": own.CAData}})
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "cluster-" + e.name, "namespace": argoNamespace, "labels": map[string]any{
			"argocd.argoproj.io/secret-type": "cluster", "sluice.dev/environment": e.name,
		}},
		"stringData": map[string]any{"name": e.name, "server": own.Host, "config": string(config)},
	}}, nil
}

// argocd runs Argo CD's command against its API.
func (w *world) argocd(ctx context.Context, args ...string) (stepwise.Output, error) {
	return w.command(ctx, w.dir, []string{"KUBECONFIG=" + w.hub().stage.Cluster.Kubeconfig()}, filepath.Join(w.argo.bin, "argocd"), args...)
}
