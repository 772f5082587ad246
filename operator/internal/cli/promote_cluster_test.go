package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

func TestPromote_FromWhatRunsInTheCluster(t *testing.T) {
	s := newSite(t) // which is started from the folder of the test
	r := newRoute(t)
	r.attest(t, r.older)
	for _, environment := range []string{"e2e", "dev"} {
		s.create(&v1beta1.Gate{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + environment}, Spec: v1beta1.GateSpec{Environment: environment}})
	}
	w := &v1beta1.Workload{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: s.namespace}, Spec: v1beta1.WorkloadSpec{Image: r.app() + ":1.0.0", Version: "1.0.0"}}
	promote := func() output {
		return r.promote("--from=e2e", "--to=prod", "--from-cluster", "--kubeconfig="+s.kubeconfig, "--namespace="+s.namespace, "--dry-run", "--format=markdown")
	}
	promote().must(t, 1, "the cluster has no Workload "+s.namespace+"/web")
	s.create(w)
	well := func(w *v1beta1.Workload) {
		w.Status.Images[0].Digest = r.older
		w.Status.Gate.Gate = s.namespace + "-e2e"
		w.Status.Conditions[0].ObservedGeneration = w.Generation
	}
	s.status(w, well)
	// What is committed in e2e is newer: what runs counts.
	promote().must(t, 0, "as read from `the cluster of e2e`", "`1.0.0@"+r.older[:19]+" (1.0.0)`")
	for name, c := range map[string]struct {
		change func(*v1beta1.Workload)
		code   int
		says   string
	}{
		"it is not Ready":                {func(w *v1beta1.Workload) { w.Status.Phase = v1beta1.PhaseDegraded }, 1, "is Degraded, and not Ready"},
		"its last change was not seen":   {func(w *v1beta1.Workload) { w.Status.ObservedGeneration-- }, 1, "has not seen its last change"},
		"its digest is not known":        {func(w *v1beta1.Workload) { w.Status.Images = nil }, 1, "names no digest"},
		"it is of another environment":   {func(w *v1beta1.Workload) { w.Status.Gate.Gate = s.namespace + "-dev" }, 2, "of environment dev, and not of e2e"},
		"its Gate is not there any more": {func(w *v1beta1.Workload) { w.Status.Gate.Gate = "gone" }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.status(w, func(w *v1beta1.Workload) { well(w); c.change(w) })
			promote().must(t, c.code, c.says)
		})
	}
	k := clientcmdapi.NewConfig()
	k.Clusters["a"], k.Contexts["a"], k.CurrentContext = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}, &clientcmdapi.Context{Cluster: "a"}, "a"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*k, file); err != nil {
		t.Fatal(err)
	}
	r.promote("--to=prod", "--from-cluster", "--kubeconfig="+file).must(t, 3, "127.0.0.1:1")
}

func TestPromote_RefusesFlagsThatDoNotGoTogether(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"", "--to is required"},
		{"--to=../x", "is no name of an environment"},
		{"--to=prod --format=xml", "there are text, json and markdown"},
		{"--to=prod --from-cluster --image=a@sha256:0", "--from-cluster has no part in it"},
		{"--to=prod --context=a", "are for --from-cluster"},
	} {
		(&desk{}).run("", append([]string{"promote"}, strings.Fields(c.args)...)...).must(t, 2, c.says)
	}
	t.Chdir(t.TempDir())
	(&desk{}).run("", "promote", "--to=prod").must(t, 2, "works in a Git repository")
}
