package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	// Results of tests are none of the developer's.
	caches, err := os.MkdirTemp("", "sluice-test-*")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_CACHE_HOME", caches)
	code := m.Run()
	os.RemoveAll(caches)
	if stop != nil {
		stop()
	}
	os.Exit(code)
}

// stop ends the API server, where a test has started it.
var stop func()

// server is one API server for all tests that need a cluster.
var server = sync.OnceValues(func() (*envtest.Environment, error) {
	env := &envtest.Environment{
		BinaryAssetsDirectory: filepath.Join("..", "..", "..", "bin", "tools"),
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "..", "kustomize", "base", "crds")},
		ErrorIfCRDPathMissing: true,
	}
	_, err := env.Start()
	stop = func() { _ = env.Stop() }
	return env, err
})

// site is a namespace of its own in the cluster, and a kubeconfig for it.
type site struct {
	t          *testing.T
	api        client.Client
	namespace  string
	kubeconfig string
}

func newSite(t *testing.T) site {
	t.Helper()
	env, err := server()
	if err != nil {
		t.Fatalf("start the control plane (run `make tools` first): %v", err)
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := site{t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if s.api, err = client.New(env.Config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	s.create(ns)
	s.namespace = ns.Name
	k := clientcmdapi.NewConfig()
	k.Clusters["a"] = &clientcmdapi.Cluster{Server: env.Config.Host, CertificateAuthorityData: env.Config.CAData}
	k.AuthInfos["a"] = &clientcmdapi.AuthInfo{ClientCertificateData: env.Config.CertData, ClientKeyData: env.Config.KeyData}
	k.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a", Namespace: s.namespace}
	k.CurrentContext = "a"
	if err := clientcmd.WriteToFile(*k, s.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s site) create(o client.Object) {
	s.t.Helper()
	if err := s.api.Create(s.t.Context(), o); err != nil {
		s.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// workload stores one whose status is what change makes of that of a Ready one.
func (s site) workload(name string, change func(*v1beta1.Workload)) *v1beta1.Workload {
	s.t.Helper()
	w := &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}, Spec: v1beta1.WorkloadSpec{Image: "registry.example.com/shop/" + name + ":1"}}
	s.create(w)
	s.status(w, change)
	return w
}

func (s site) status(w *v1beta1.Workload, change func(*v1beta1.Workload)) {
	s.t.Helper()
	w.Status = v1beta1.WorkloadStatus{
		ObservedGeneration: w.Generation, Phase: v1beta1.PhaseReady, Replicas: 1, ReadyReplicas: 1,
		Images:     []v1beta1.ImageStatus{{Image: w.Spec.Image, Digest: digest, SignedBy: "release-key"}},
		Gate:       &v1beta1.GateStatus{Gate: "prod", Verdict: "Allow"},
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}},
	}
	if change != nil {
		change(w)
	}
	if err := s.api.Status().Update(s.t.Context(), w); err != nil {
		s.t.Fatal(err)
	}
}

func (s site) run(args ...string) output {
	s.t.Helper()
	return (&desk{}).run("", append(args, "--kubeconfig", s.kubeconfig)...)
}

// denied and driftedNow are two ways in which a Workload stands.
func denied(w *v1beta1.Workload) {
	w.Status.Phase = v1beta1.PhaseBlocked
	w.Status.Images = nil
	w.Status.Gate = &v1beta1.GateStatus{Gate: "prod", Verdict: "Deny", Violations: []v1beta1.ViolationStatus{{
		Policy: "signature", Severity: "critical", Object: "Deployment/shop/web", Path: "spec.template.spec.containers[0].image",
		Message: "image has no signature", Remedy: "sign it:\x1b[2J cosign sign",
	}}}
	w.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Denied", Message: "gate prod denies it", LastTransitionTime: metav1.Now()}}
}

func driftedNow(w *v1beta1.Workload) {
	w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: "Drifted", Status: metav1.ConditionTrue, Reason: "Drifted", Message: "somebody", LastTransitionTime: metav1.Now()})
	w.Status.Drift = &v1beta1.DriftStatus{Changes: []v1beta1.DriftChange{{Object: "Deployment/shop/cache", Path: "spec.replicas", Change: "Modified"}}}
}

func TestStatus_ShowsARowForEachWorkload(t *testing.T) {
	s := newSite(t)
	s.run("status").must(t, 0, "no Workload in namespace "+s.namespace)
	s.run("status", "--format", "json").must(t, 0, "[]")
	s.workload("web", nil)
	s.workload("bad", denied)
	s.workload("cache", driftedNow)
	s.create(&v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: s.namespace}, Spec: v1beta1.WorkloadSpec{Image: "a"}})
	got := s.run("status")
	got.must(t, 0, "NAMESPACE", "SIGNER")
	rows := map[string][]string{}
	for line := range strings.Lines(got.out) {
		cells := strings.Fields(line)
		rows[cells[1]] = cells[2:]
	}
	for name, want := range map[string]string{
		"web": "Ready 1/1 prod Allow 0123456789ab release-key 0", "bad": "Blocked 1/1 prod Deny - - 0",
		"cache": "Ready 1/1 prod Allow 0123456789ab release-key 1", "new": "-* 0/1 - - - - 0",
	} {
		if row := strings.Join(rows[name], " "); row != want {
			t.Errorf("%s: %q, want %q", name, row, want)
		}
	}
	s.run("status", "-A").must(t, 0, s.namespace, "cache")
	var parsed []map[string]any
	if err := json.Unmarshal([]byte(s.run("status", "-n", s.namespace, "--format=json").out), &parsed); err != nil || len(parsed) != 4 {
		t.Errorf("%v: %v", err, parsed)
	}
	s.run("status", "--format", "xml").must(t, 2, "--format=xml")
	(&desk{}).run("", "status", "--kubeconfig", "gone").must(t, 2, "kubeconfig")
}

func TestStatus_AClusterThatDoesNotAnswerIsNoStatus(t *testing.T) {
	k := clientcmdapi.NewConfig()
	k.Clusters["a"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	k.Contexts["a"] = &clientcmdapi.Context{Cluster: "a"}
	k.CurrentContext = "a"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*k, file); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status"}, {"why", "web"}, {"drift", "-A"}} {
		(&desk{}).run("", append(args, "--kubeconfig", file)...).must(t, 3, "127.0.0.1:1")
	}
}

func TestStatus_SaysWhichKubeconfigIsMissing(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", none)
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // in a pod its own cluster would be taken
	for _, args := range [][]string{{"status"}, {"why", "web"}, {"drift", "-A"}} {
		(&desk{}).run("", args...).must(t, 2, "kubeconfig: there is none, or nothing in it, at "+none+": set KUBECONFIG or give --kubeconfig")
	}
}

// lines is a writer that hands each line on.
type lines struct{ out chan string }

func (l lines) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		l.out <- string(line)
	}
	return len(p), nil
}

func TestStatus_WatchTellsOfEachChangeOnce(t *testing.T) {
	s := newSite(t)
	w := s.workload("web", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := make(chan string, 100)
	ended := make(chan int)
	go func() {
		ended <- cli.Main(ctx, []string{"status", "-w", "--kubeconfig", s.kubeconfig}, nil, lines{out}, io.Discard)
	}()
	next := func(want string) {
		t.Helper()
		select {
		case line := <-out:
			if !strings.Contains(line, want) {
				t.Fatalf("the next line is %q and not about %q", line, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("no line about %q", want)
		}
	}
	next("NAMESPACE")
	next("Ready")
	// What is not in the row is no news.
	s.status(w, func(w *v1beta1.Workload) { w.Status.Selector = "a=b" })
	s.status(w, denied)
	next("Blocked")
	s.workload("other", nil)
	next("other") // with no status yet
	next("other")
	if err := s.api.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	next("Deleted")
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if len(out) != 0 {
		t.Errorf("it says more: %q", <-out)
	}
}

func TestWhy_ExplainsAWorkloadOrWhatItOwns(t *testing.T) {
	s := newSite(t)
	w := s.workload("web", denied)
	yes := true
	owned := func(kind, version, name, owner string, uid types.UID) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAPIVersion("v1")
		u.SetKind(kind)
		u.SetName(name)
		u.SetNamespace(s.namespace)
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: version, Kind: owner, Name: w.Name, UID: uid, Controller: &yes}})
		s.create(u)
		return u
	}
	owned("ConfigMap", v1beta1.GroupVersion.String(), "web-config", "Workload", w.UID)
	s.create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: s.namespace, OwnerReferences: []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: "Workload", Name: w.Name, UID: w.UID, Controller: &yes}}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "a"}}}},
		},
	})
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "alone", Namespace: s.namespace}})
	s.create(&corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "web.1", Namespace: s.namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Workload", Name: "web", Namespace: s.namespace},
		Type:           "Warning", Reason: "GateDenied", Message: "gate prod denied it", LastTimestamp: metav1.NewTime(time.Now().Add(-time.Minute)), Count: 3,
	})
	for _, what := range []string{"web", "workload/web", "wl/web", "configmap/web-config", "ConfigMap/web-config", "cm/web-config", "Deploy/web", "deployment.apps/web"} {
		got := s.run("why", what)
		got.must(t, 0, "Workload "+s.namespace+"/web is Blocked: its current spec is not applied", "gate prod denies it.", "Gate prod: Deny", "[critical] signature",
			"what:  image has no signature", "to do: sign it:", "Ready is False (Denied)", "Warning GateDenied (3): gate prod denied it", "1m")
		if strings.Contains(got.out, "\x1b") {
			t.Errorf("a terminal would obey: %q", got.out)
		}
	}
	for _, what := range []string{"gone", "configmap/alone", "configmap/gone", "nothing/web", "cm/gone", "configmap.apps/web-config"} {
		s.run("why", what).must(t, 2, "there is no")
	}
	var e map[string]any
	if err := json.Unmarshal([]byte(s.run("why", "web", "--format=json").out), &e); err != nil || e["phase"] != "Blocked" || e["summary"] == "" {
		t.Errorf("%v: %v", err, e)
	}
	s.workload("fine", nil)
	s.run("why", "fine").must(t, 0, "is Ready: it runs as its spec says", digest+", signed by release-key")
	s.create(&v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: s.namespace}, Spec: v1beta1.WorkloadSpec{Image: "a"}})
	s.run("why", "new").must(t, 0, "no operator has looked at it")
}

func TestDrift_IsWhatDiffersNow(t *testing.T) {
	s := newSite(t)
	s.workload("web", func(w *v1beta1.Workload) {
		// Put back, and told of.
		driftedNow(w)
		w.Status.Conditions[1].Status = metav1.ConditionFalse
	})
	s.run("drift").must(t, 0, "0 of 1 Workloads drift")
	s.workload("cache", driftedNow)
	s.run("drift").must(t, 1, s.namespace+"/cache: Deployment/shop/cache spec.replicas: Modified", "1 of 2 Workloads drift")
	s.run("drift", "--format=json").must(t, 1, `"path":"spec.replicas"`)
}

func TestDiff_AgainstTheCluster(t *testing.T) {
	s := newSite(t)
	d := &desk{dir: t.TempDir()}
	manifest := strings.Replace(head, "namespace: shop", "namespace: "+s.namespace, 1) + "registry.example.com/shop/web:1\n  replicas: 2\n"
	settings := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: " + s.namespace + "}\ndata: {a: b}\n"
	d.write(t, "web.yaml", manifest+settings)
	diff := func() output {
		return d.run("", "diff", "@web.yaml", "--against", "cluster", "--kubeconfig", s.kubeconfig)
	}
	diff().must(t, 1, "Workload/"+s.namespace+"/web added", "Deployment/"+s.namespace+"/web added", "ConfigMap/"+s.namespace+"/settings added")
	w := s.workload("web", func(w *v1beta1.Workload) {})
	two := int32(2)
	w.Spec.Replicas = &two
	if err := s.api.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	s.status(w, nil)
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: s.namespace, Labels: map[string]string{"seen": "yes"}}, Data: map[string]string{"a": "b"}})
	s.children(w)
	diff().must(t, 0)
	deployment := &unstructured.Unstructured{}
	deployment.SetAPIVersion("apps/v1")
	deployment.SetKind("Deployment")
	if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(w), deployment); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(deployment.Object, int64(5), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	got := diff()
	got.must(t, 1, "Deployment/"+s.namespace+"/web changed", "-  replicas: 5", "+  replicas: 2")
	if strings.Contains(got.out, "ConfigMap") || strings.Contains(got.out, "Workload/") {
		t.Errorf("more differs than was changed:\n%s", got.out)
	}
	d.write(t, "web.yaml", manifest+strings.Replace(settings, "a: b", "a: c", 1))
	diff().must(t, 1, "-  a: b", "+  a: c")
}

// children applies what the operator would: the digest in place of the tag, and its mark.
func (s site) children(w *v1beta1.Workload) {
	s.t.Helper()
	children, err := render.Children(w)
	if err != nil {
		s.t.Fatal(err)
	}
	yes := true
	for _, content := range children {
		u := &unstructured.Unstructured{Object: content}
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: "Workload", Name: w.Name, UID: w.UID, Controller: &yes}})
		if u.GetKind() == "Deployment" {
			containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
			containers[0].(map[string]any)["image"] = "registry.example.com/shop/web@" + digest
			_ = unstructured.SetNestedSlice(u.Object, containers, "spec", "template", "spec", "containers")
			_ = unstructured.SetNestedField(u.Object, "0f", "spec", "template", "metadata", "annotations", "sluice.dev/referenced")
		}
		s.create(u)
	}
}
