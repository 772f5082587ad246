package packaging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/lab"
)

// cluster is a control plane without the operator, and the environment that kubectl, helm
// and make reach it by.
func cluster(t *testing.T) []string {
	t.Helper()
	ctrl.SetLogger(logr.Discard()) // the lab's node is one of its managers
	tools, err := lab.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := lab.Start(ctx, lab.Options{ToolsDir: tools})
	if err != nil {
		t.Fatalf("start the lab (run `make tools` first): %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	home := t.TempDir() // helm keeps caches, and nothing of the user's may count
	return []string{"KUBECONFIG=" + c.Kubeconfig(), "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}
}

// gone waits until kubectl does not find an object any more.
func gone(t *testing.T, env []string, args ...string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, stderr, err := run(t, env, "kubectl", append([]string{"get"}, args...)...)
		if err != nil && !strings.Contains(stderr, "NotFound") {
			return false, errors.New(stderr)
		}
		return err != nil, nil
	})
	if err != nil {
		t.Errorf("%v is still there: %v", args, err)
	}
}

var definitions = []string{"exemptions.sluice.dev", "gates.sluice.dev", "workloads.sluice.dev"}

// TestMake_InstallsAndRemovesTheOperator runs the Makefile's targets against the current
// context, as its user would, twice: what is there already is no error.
func TestMake_InstallsAndRemovesTheOperator(t *testing.T) {
	env := cluster(t)
	for range 2 {
		must(t, env, "make", "install")
		must(t, env, "kubectl", append([]string{"wait", "--for=condition=Established", "--timeout=60s", "crd"}, definitions...)...)
		must(t, env, "make", "deploy")
	}
	installed := []string{
		"--namespace=sluice-system", "deployment/sluice-manager", "service/sluice-webhook", "service/sluice-metrics", "poddisruptionbudget/sluice-manager",
		"networkpolicy/sluice-manager", "serviceaccount/sluice-manager", "rolebinding/sluice-manager",
	}
	must(t, env, "kubectl", append([]string{"get"}, installed...)...)
	must(t, env, "kubectl", "get", "validatingwebhookconfiguration/sluice", "clusterrole/sluice-manager", "clusterrolebinding/sluice-manager")
	for range 2 {
		must(t, env, "make", "undeploy")
	}
	for _, o := range installed[1:] {
		gone(t, env, installed[0], o)
	}
	for _, o := range []string{"validatingwebhookconfiguration/sluice", "clusterrole/sluice-manager", "clusterrolebinding/sluice-manager"} {
		gone(t, env, o)
	}
	must(t, env, "kubectl", append([]string{"get", "crd"}, definitions...)...)
}

// TestChart_InstallsUpgradesAndLeavesTheCRDs has helm talk to a real API server.
func TestChart_InstallsUpgradesAndLeavesTheCRDs(t *testing.T) {
	env := cluster(t)
	must(t, env, "kubectl", "create", "namespace", "platform")
	release := []string{"sluice", chart, "--namespace=platform", "--wait=hookOnly"}
	must(t, env, "helm", append([]string{"install"}, release...)...)
	where := must(t, env, "kubectl", "get", "crd", "workloads.sluice.dev", "-o=jsonpath={.spec.conversion.webhook.clientConfig.service.namespace}")
	if where != "platform" {
		t.Errorf("Workloads are converted in namespace %q", where)
	}
	must(t, env, "helm", append([]string{"upgrade", "--set=operator.workers=8", "--set=replicas=3"}, release...)...)
	args := must(t, env, "kubectl", "get", "deployment", "sluice-manager", "--namespace=platform", "-o=jsonpath={.spec.replicas} {.spec.template.spec.containers[0].args}")
	if args != `3 ["--workers=8"]` {
		t.Errorf("after the upgrade the Deployment has %s", args)
	}
	must(t, env, "helm", "uninstall", "sluice", "--namespace=platform")
	gone(t, env, "--namespace=platform", "deployment/sluice-manager")
	gone(t, env, "validatingwebhookconfiguration/sluice")
	must(t, env, "kubectl", append([]string{"get", "crd"}, definitions...)...)
}

// TestBundle_IsWhatTheBaseSays reads the rights, the webhooks and the examples of the
// ClusterServiceVersion. That it was generated from this base, make verify tells.
func TestBundle_IsWhatTheBaseSays(t *testing.T) {
	_, stderr, err := run(t, nil, "operator-verify", "manifests", "bundle", "--object_validate", "--operatorhub_validate")
	if err != nil || strings.Contains(stderr, "level=error") {
		t.Errorf("operator-verify: %v\n%s", err, stderr)
	}
	csv := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(read(t, "bundle", "manifests", "sluice.clusterserviceversion.yaml"), &csv.Object); err != nil {
		t.Fatal(err)
	}
	base := objects(t, must(t, nil, "kustomize", "build", "kustomize/base"))
	for field, role := range map[string]string{"clusterPermissions": "ClusterRole//sluice-manager", "permissions": "Role/sluice-system/sluice-manager"} {
		granted, _, err := unstructured.NestedSlice(csv.Object, "spec", "install", "spec", field)
		if err != nil || len(granted) != 1 {
			t.Fatalf("%s: %v, %v", field, granted, err)
		}
		if diff := cmp.Diff(base[role]["rules"], granted[0].(map[string]any)["rules"]); diff != "" {
			t.Errorf("%s (-base +bundle):\n%s", field, diff)
		}
	}
	webhooks, _, _ := unstructured.NestedSlice(csv.Object, "spec", "webhookdefinitions")
	var paths []string
	for _, w := range webhooks {
		paths = append(paths, fmt.Sprint(w.(map[string]any)["webhookPath"]))
	}
	slices.Sort(paths)
	if want := []string{"/convert", "/validate-exemption", "/validate-gate", "/validate-workload"}; !slices.Equal(paths, want) {
		t.Errorf("webhooks at %v", paths)
	}
}

// TestBundle_ItsExamplesAreTaken has an API server with the bundle's CRDs hold the examples
// against their schema. There is no operator to convert or to judge them.
func TestBundle_ItsExamplesAreTaken(t *testing.T) {
	env := cluster(t)
	csv := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(read(t, "bundle", "manifests", "sluice.clusterserviceversion.yaml"), &csv.Object); err != nil {
		t.Fatal(err)
	}
	for _, name := range definitions {
		must(t, env, "kubectl", "create", "--filename=bundle/manifests/"+name+"_customresourcedefinition.yaml")
	}
	must(t, env, "kubectl", append([]string{"wait", "--for=condition=Established", "--timeout=60s", "crd"}, definitions...)...)
	must(t, env, "kubectl", "create", "namespace", "shop")
	var examples []map[string]any
	if err := json.Unmarshal([]byte(csv.GetAnnotations()["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	if len(examples) != 4 {
		t.Errorf("%d examples; there are three kinds, one of them in two versions", len(examples))
	}
	for _, e := range examples {
		file := t.TempDir() + "/example.json"
		writeJSON(t, file, e)
		must(t, env, "kubectl", "create", "--dry-run=server", "--validate=strict", "--filename="+file)
	}
}
