package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/sluice-dev/sluice/operator/internal/clone"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/scaffold"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// deliverer is whom Argo CD syncs a fleet as.
const deliverer = "argocd-fleet"

// TestArgoCD_InAFleetsClusterItMayWriteTheFleetAndNothingElse asks a real API server what
// the roles that sluice init writes, those of kustomize/argocd/cluster, come to.
func TestArgoCD_InAFleetsClusterItMayWriteTheFleetAndNothingElse(t *testing.T) {
	root, err := clone.Root()
	if err != nil {
		t.Fatal(err)
	}
	api := bareServer(t, root)
	fleet, access := initialised(t, "orders")
	for _, o := range append([]*unstructured.Unstructured{namespaceNamed(stage.OperatorNamespace), namespaceNamed("orders")}, access...) {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}

	held := 0
	for _, o := range fleet {
		resource := authorizationv1.ResourceAttributes{Group: o.GroupVersionKind().Group, Resource: strings.ToLower(o.GetKind()) + "s", Namespace: o.GetNamespace(), Name: o.GetName()}
		for _, verb := range []string{"create", "patch", "update", "delete"} {
			if resource.Verb = verb; !allowed(t, api, resource) {
				t.Errorf("a fleet of sluice init has %s %s in %q, which it may not %s", o.GetKind(), o.GetName(), o.GetNamespace(), verb)
			}
		}
		held++
	}
	if held < 4*len(scaffold.Environments) {
		t.Errorf("%d objects were looked at", held)
	}

	others := []authorizationv1.ResourceAttributes{
		{Resource: "namespaces", Name: "kube-system"}, {Resource: "namespaces", Name: stage.OperatorNamespace},
		{Resource: "namespaces", Name: "shop"},
		{Resource: "configmaps", Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		{Resource: "configmaps", Namespace: "orders", Name: "words"},
		{Resource: "secrets", Namespace: stage.OperatorNamespace, Name: stage.SignerSecret},
		{Group: "sluice.dev", Resource: "exemptions", Name: "all"},
		{Group: "apps", Resource: "deployments", Namespace: "orders", Name: "web"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: deliverer},
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations", Name: "sluice"},
	}
	for _, resource := range others {
		for _, verb := range []string{"create", "patch", "update", "delete", "deletecollection"} {
			if resource.Verb = verb; verb == "create" && resource.Resource == "namespaces" {
				continue // cannot be bounded by name
			}
			if allowed(t, api, resource) {
				t.Errorf("it may %s %s %s in %q", verb, resource.Resource, resource.Name, resource.Namespace)
			}
		}
	}

	// The command of docs/argocd.md for a fleet with ConfigMaps of its own.
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "argocd-fleet-configmaps", Namespace: "orders"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "argocd-fleet-configmaps"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: deliverer, Namespace: stage.OperatorNamespace}},
	}
	if err := api.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	own := authorizationv1.ResourceAttributes{Verb: "patch", Resource: "configmaps", Namespace: "orders", Name: "words"}
	if !allowed(t, api, own) {
		t.Error("with the role bound in its namespace it may not write ConfigMaps there")
	}
}

// bareServer is an API server that runs nothing.
func bareServer(t *testing.T, root string) client.Client {
	t.Helper()
	env := &envtest.Environment{BinaryAssetsDirectory: filepath.Join(root, "bin", "tools")}
	config, err := env.Start()
	if err != nil {
		t.Fatalf("start the control plane (run `make tools` first): %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	api, err := client.New(quiet(config), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func namespaceNamed(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	u.SetName(name)
	return u
}

// allowed says whether Argo CD may.
func allowed(t *testing.T, api client.Client, what authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + stage.OperatorNamespace + ":" + deliverer,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + stage.OperatorNamespace, "system:authenticated"}, ResourceAttributes: &what,
	}}
	if err := api.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	if review.Status.EvaluationError != "" {
		t.Fatal(review.Status.EvaluationError)
	}
	return review.Status.Allowed
}

// initialised is what a new fleet with attestors has in its overlays, and what Argo CD may
// do for it.
func initialised(t *testing.T, name string) (fleet []overlay.Object, access []*unstructured.Unstructured) {
	t.Helper()
	keys, err := fleetKeys()
	if err != nil {
		t.Fatal(err)
	}
	attestors := map[string]string{}
	for _, environment := range scaffold.Environments {
		attestors[environment] = keys[stage.AttestorSecret(environment)].PublicPEM
	}
	files, err := scaffold.Files(scaffold.Options{
		Name: name, Registry: "registry.example.com/shop", Image: "registry.example.com/shop/web:1.0.0@" + testkit.DigestOf("web"),
		KeyPEM: keys[stage.SignerSecret].PublicPEM, Attestors: attestors, ArgoCD: true, Repository: "https://git.example.com/platform/fleet.git",
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, environment := range scaffold.Environments {
		objects, err := overlay.Read(dir, filepath.Join(dir, "overlays", environment), nil)
		if err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, objects...)
	}
	if access, err = stage.Objects(dir, filepath.Join("argocd", "cluster", "access.yaml")); err != nil {
		t.Fatal(err)
	}
	return fleet, access
}
