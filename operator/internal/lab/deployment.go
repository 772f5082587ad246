package lab

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-dev/sluice/operator/internal/lab/node"
)

// RunOptions of a Deployment that runs on this machine.
type RunOptions struct {
	// ExtraArgs follow the container's own, so that with flags the last one counts.
	ExtraArgs []string
	// Env adds to the container's environment and overrides it.
	Env map[string]string
}

// RunDeployment plays the kubelet for one replica of a Deployment: it runs binary on
// this machine with the arguments and environment of the first container and with the
// rights of the Deployment's ServiceAccount, which has to exist. The process finds the
// API server by KUBECONFIG. Volumes, probes, resources and the image are not looked at.
// It returns when the process runs; what readiness means, the caller knows. Stop of the
// cluster stops the process too.
func (c *Cluster) RunDeployment(ctx context.Context, binary string, d *appsv1.Deployment, o RunOptions) (*Process, error) {
	pod := d.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		return nil, fmt.Errorf("run Deployment %s/%s: spec.template.spec.containers is empty", d.Namespace, d.Name)
	}
	account := pod.ServiceAccountName
	if account == "" {
		account = "default"
	}
	kubeconfig, err := c.KubeconfigFor(ctx, d.Namespace, account)
	if err != nil {
		return nil, fmt.Errorf("run Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	name := c.nextPod(d.Name)
	vars := map[string]string{"POD_NAME": name, "POD_NAMESPACE": d.Namespace}
	own := slices.DeleteFunc(slices.Clone(pod.Containers[0].Env), func(v corev1.EnvVar) bool {
		_, overridden := o.Env[v.Name]
		return overridden
	})
	if err := addEnv(vars, own, downward(d, name, account)); err != nil {
		return nil, fmt.Errorf("run Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	maps.Copy(vars, o.Env)
	vars["KUBECONFIG"] = kubeconfig
	var args []string
	for _, arg := range slices.Concat(pod.Containers[0].Args, o.ExtraArgs) {
		args = append(args, expand(arg, vars))
	}
	env := systemEnv()
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, key+"="+vars[key])
	}
	p, err := c.run(name, binary, args, env)
	if err != nil {
		return nil, fmt.Errorf("run Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	c.say("%s runs as process %d, with its log in %s", name, p.PID(), p.Log())
	return p, nil
}

// Run runs another program until the cluster stops, with its log in the cluster's folder.
// env adds to what the lab's programs know of their environment, and overrides it.
func (c *Cluster) Run(name, path string, args []string, env map[string]string) (*Process, error) {
	all := systemEnv()
	for _, key := range slices.Sorted(maps.Keys(env)) {
		all = append(all, key+"="+env[key]) // of two the later one counts
	}
	return c.run(name, path, args, all)
}

// run runs a program that the cluster owns: Stop ends it, and Wait tells when it ended by
// itself.
func (c *Cluster) run(name, path string, args, env []string) (*Process, error) {
	p, err := startProcess(name, path, args, env, filepath.Join(c.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	if err := c.own(p); err != nil {
		return nil, err
	}
	go c.watch(p.Done(), p.Ended)
	return p, nil
}

// nextPod names a replica.
func (c *Cluster) nextPod(deployment string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launched++
	return fmt.Sprintf("%s-lab-%d", deployment, c.launched)
}

// downward is what the downward API knows, by field path.
func downward(d *appsv1.Deployment, pod, account string) map[string]string {
	return map[string]string{
		"metadata.name":           pod,
		"metadata.namespace":      d.Namespace,
		"spec.nodeName":           node.Name,
		"spec.serviceAccountName": account,
		"status.podIP":            "127.0.0.1",
		"status.hostIP":           "127.0.0.1",
	}
}

// addEnv resolves the variables of a container in order, as later ones may use earlier
// ones. A source that cannot be resolved is an error: the process would run with less
// than its Deployment says.
func addEnv(vars map[string]string, env []corev1.EnvVar, fields map[string]string) error {
	for i, v := range env {
		switch {
		case v.ValueFrom == nil:
			vars[v.Name] = expand(v.Value, vars)
		case v.ValueFrom.FieldRef != nil:
			value, known := fields[v.ValueFrom.FieldRef.FieldPath]
			if !known {
				return fmt.Errorf("env[%d] (%s): the lab does not know the field %q", i, v.Name, v.ValueFrom.FieldRef.FieldPath)
			}
			vars[v.Name] = value
		default:
			return fmt.Errorf("env[%d] (%s): the lab resolves value and fieldRef only; give it in RunOptions.Env", i, v.Name)
		}
	}
	return nil
}

var reference = regexp.MustCompile(`\$(\$|\([^()]+\))`)

// expand replaces $(NAME) as a kubelet does: an unknown name stays as it is, and $$
// stands for one dollar sign.
func expand(text string, vars map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, ok := vars[strings.TrimSuffix(strings.TrimPrefix(found, "$("), ")")]; ok {
			return value
		}
		return found
	})
}
