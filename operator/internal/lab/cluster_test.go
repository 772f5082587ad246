package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// alive says whether a process runs. One that ended and waits for its parent to notice
// does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// clientOf is a client with the rights of a kubeconfig.
func clientOf(t *testing.T, kubeconfig string) client.Client {
	t.Helper()
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(access, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newAccount makes a ServiceAccount that may read ConfigMaps of its namespace.
func newAccount(t *testing.T) (namespace string) {
	t.Helper()
	ns := newNamespace(t)
	meta := metav1.ObjectMeta{Namespace: ns, Name: "manager"}
	create(t,
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "manager"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "manager"}},
		})
	return ns
}

func TestCluster_KubeconfigForHasOnlyTheRightsOfItsAccount(t *testing.T) {
	ns := newAccount(t)
	path, err := shared.KubeconfigFor(t.Context(), ns, "manager")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig has mode %v (%v), want 0600: it holds a token", info.Mode(), err)
	}
	manager := clientOf(t, path)
	rootCA := client.ObjectKey{Namespace: ns, Name: "kube-root-ca.crt"}
	eventually(t, "the account may read what its Role grants", func(ctx context.Context) error {
		return manager.Get(ctx, rootCA, &corev1.ConfigMap{})
	})
	cases := map[string]func() error{
		"the same kind elsewhere": func() error {
			return manager.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "kube-root-ca.crt"}, &corev1.ConfigMap{})
		},
		"another verb": func() error {
			return manager.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: rootCA.Name}})
		},
		"another kind": func() error {
			return manager.List(t.Context(), &corev1.SecretList{}, client.InNamespace(ns))
		},
	}
	for name, try := range cases {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want it forbidden", name, err)
		}
	}
}

func TestCluster_KubeconfigForNeedsTheAccount(t *testing.T) {
	_, err := shared.KubeconfigFor(t.Context(), "default", "nobody")
	if err == nil || !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "default/nobody") {
		t.Errorf("got %v, want not found with the account's name", err)
	}
}

func TestCluster_AdminKubeconfigWorks(t *testing.T) {
	if err := clientOf(t, shared.Kubeconfig()).List(t.Context(), &corev1.SecretList{}); err != nil {
		t.Error(err)
	}
}

// managerMain stands in for the operator: it does what it may with its KUBECONFIG, says
// so, and runs until SIGTERM.
func managerMain() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	access, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	c, err := client.New(access, client.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	key := client.ObjectKey{Namespace: os.Getenv("POD_NAMESPACE"), Name: "kube-root-ca.crt"}
	fmt.Println("own namespace:", c.Get(ctx, key, &corev1.ConfigMap{}))
	key.Namespace = "default"
	fmt.Println("forbidden elsewhere:", apierrors.IsForbidden(c.Get(ctx, key, &corev1.ConfigMap{})))
	_, set := os.LookupEnv("SLUICE_LAB_TEST_SECRET")
	fmt.Println("args:", os.Args[1:], "sees the user's environment:", set)
	<-ctx.Done()
	fmt.Println("stopped")
	os.Exit(0)
}

func managerDeployment(namespace string) *appsv1.Deployment {
	d := deployment(namespace, "sluice", 1)
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	d.Spec.Template.Spec.ServiceAccountName = "manager"
	d.Spec.Template.Spec.Containers[0].Args = []string{"--namespace=$(WHERE)", "--id=$(POD_NAME)", "--price=$$(5)", "--keep=$(UNKNOWN)"}
	d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "WHERE", ValueFrom: field("metadata.namespace")},
		{Name: "POD_NAME", ValueFrom: field("metadata.name")},
		{Name: asManager, Value: "for $(WHERE)"},
		{Name: "KUBECONFIG", Value: "/not/there"},
	}
	return d
}

func TestCluster_RunsADeployment(t *testing.T) {
	t.Setenv("SLUICE_LAB_TEST_SECRET", "of the user")
	ns := newAccount(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := shared.RunDeployment(t.Context(), self, managerDeployment(ns), RunOptions{ExtraArgs: []string{"--in=$(WHERE)"}})
	if err != nil {
		t.Fatal(err)
	}
	wants := []string{
		"own namespace: <nil>",
		"forbidden elsewhere: true",
		"args: [--namespace=" + ns + " --id=" + p.Name() + " --price=$(5) --keep=$(UNKNOWN) --in=" + ns + "] sees the user's environment: false",
	}
	eventually(t, "the manager has said what it sees", func(context.Context) error {
		text, err := os.ReadFile(p.Log())
		for _, want := range wants {
			if err == nil && !strings.Contains(string(text), want) {
				err = fmt.Errorf("its log is %q, want %q", text, want)
			}
		}
		return err
	})
	if rss, err := p.RSS(); err != nil || rss < 1<<20 || rss > 1<<30 {
		t.Errorf("it holds %d bytes (%v), want some MiB", rss, err)
	} else if most, err := p.PeakRSS(); err != nil || most < rss/2 || most > 1<<30 { // the two are not read at once
		t.Errorf("it held %d bytes at most (%v), and now %d", most, err, rss)
	}
	if err := errors.Join(p.Stop(), p.Stop(), p.Wait()); err != nil {
		t.Errorf("a manager that ends on SIGTERM: %v", err)
	}
	if text := p.tail(); !strings.HasSuffix(text, "stopped\n") {
		t.Errorf("its log ends in %q: it was not asked to stop", text)
	}
}

func TestCluster_RunDeploymentRefusesWhatItCannotPlay(t *testing.T) {
	ns := newAccount(t)
	cases := map[string]struct {
		change func(d *appsv1.Deployment)
		binary string
		want   string
	}{
		"a ServiceAccount that is not there": {
			func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "nobody" }, "/bin/true", "nobody",
		},
		"a variable from a Secret": {
			func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Env[0].ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}
			}, "/bin/true", "env[0] (WHERE)",
		},
		"a field nobody knows": {
			func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath = "metadata.uid"
			}, "/bin/true", `"metadata.uid"`,
		},
		"no container":               {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil }, "/bin/true", "containers is empty"},
		"a binary that is not there": {func(*appsv1.Deployment) {}, "/not/there", "/not/there"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := managerDeployment(ns)
			c.change(d)
			_, err := shared.RunDeployment(t.Context(), c.binary, d, RunOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ns+"/sluice") {
				t.Errorf("got %v, want an error with the Deployment and %q", err, c.want)
			}
		})
	}
}

func TestCluster_StopLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, err := startHere(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	d := deployment("default", "sleeper", 1)
	d.Spec.Template.Spec.Containers[0].Args = []string{"600"}
	extra, err := c.RunDeployment(t.Context(), "/bin/sleep", d, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	processes := c.Processes()
	if len(processes) != 4 || processes[3] != extra {
		t.Fatalf("got %d processes, want three and the Deployment's", len(processes))
	}
	for _, p := range processes {
		if !alive(p.PID()) {
			t.Errorf("%s does not run", p.Name())
		}
	}
	if err := errors.Join(c.Stop(), c.Stop()); err != nil {
		t.Error(err)
	}
	for _, p := range processes {
		if alive(p.PID()) {
			t.Errorf("%s is left", p.Name())
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v (%v)", left, err)
	}
	if _, err := c.RunDeployment(t.Context(), "/bin/sleep", d, RunOptions{}); err == nil {
		t.Error("a stopped cluster ran a Deployment")
	}
}

func TestCluster_DiesWithItsParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), asParent+"=yes")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) != 4 {
		t.Fatalf("the parent said %q (%v), want three process ids and a folder", line, err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(fields[3]) }) // a parent that is killed cannot
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	for _, field := range fields[:3] {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "process "+field+" has ended", func(context.Context) error {
			if alive(pid) {
				return errors.New("it runs")
			}
			return nil
		})
	}
}

func TestCluster_WaitReportsAPartThatEnded(t *testing.T) {
	dir := t.TempDir()
	tools, err := ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), Options{ToolsDir: tools, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ctx); err != nil {
		t.Errorf("Wait on a healthy cluster: %v", err)
	}
	d := deployment("default", "sleeper", 1)
	d.Spec.Template.Spec.Containers[0].Args = []string{"600"}
	sleeper, err := c.RunDeployment(t.Context(), "/bin/sleep", d, RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Process{sleeper, c.Processes()[2]} {
		if err := p.signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), p.Name()+" ended by itself (signal: killed)") {
			t.Errorf("got %v, want the end of %s", err, p.Name())
		}
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	want := "audit.log default.default.kubeconfig etcd.log kube-apiserver.log kube-controller-manager.log kubeconfig lab-node.log sleeper-lab-1.log"
	if got := strings.Join(left, " "); got != want {
		t.Errorf("a folder that was given holds %q after Stop, want %q", got, want)
	}
}
