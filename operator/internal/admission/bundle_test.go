package admission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/admission"
	"github.com/sluice-dev/sluice/operator/internal/bundle"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// TestWorkloads_AreJudgedByABundleOfAPrivateRegistry reads it with the Secret that the Gate
// names, in the operator's namespace; and once it was verified, without the registry.
func TestWorkloads_AreJudgedByABundleOfAPrivateRegistry(t *testing.T) {
	private := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(private.Close)
	policies, err := bundle.Pack(map[string]string{"main.rego": "package main\n\ndeny contains \"the bundle says no\" if input.workload.spec.replicas > 3\n"})
	if err != nil {
		t.Fatal(err)
	}
	repository := private.Host() + "/policies/prod"
	if err := registry.New(registry.Options{}).PushBundle(t.Context(), repository, "", policies, nil); err != nil {
		t.Fatal(err)
	}
	if err := signer.SignBundle(repository, policies.Digest()); err != nil {
		t.Fatal(err)
	}
	tokens := testkit.NewTokenServer(testkit.TokenOptions{User: "alice", Password: "hunter2"})
	t.Cleanup(tokens.Close)
	private.RequireTokens(tokens)

	g := gateFor("bundled", v1beta1.GateModeEnforce)
	bundled(repository + "@" + policies.Digest())(g)
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bundled", Labels: map[string]string{environmentLabel: "bundled"}}}
	for _, o := range []client.Object{g, space} {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	few := workload("bundled", "web", push(t, "shop/bundled", true))
	asked := func(w *v1beta1.Workload, code int32, says string) {
		t.Helper()
		got := ask(t, admission.PathWorkload, review(t, "CREATE", "", w, nil))
		if got.Allowed != (code == 0) || code != 0 && got.Result.Code != code || says != "" && !strings.Contains(got.Result.Message, says) {
			t.Errorf("allowed %t with %+v", got.Allowed, got.Result)
		}
	}
	asked(few, 503, "Secret "+operatorNamespace+"/policy-reader: it does not exist")

	config, err := json.Marshal(map[string]any{"auths": map[string]authn.AuthConfig{private.Host(): {Username: "alice", Password: "hunter2"}}})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "policy-reader", Namespace: operatorNamespace},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	}
	if err := api.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	asked(few, 0, "")
	asked(scaledTo(few, 4), 403, "the bundle says no")
	private.Close()
	asked(few, 0, "")
	asked(scaledTo(few, 4), 403, "the bundle says no")
}

// bundled has a Gate judge by a bundle that is read with a Secret.
func bundled(ref string) func(*v1beta1.Gate) {
	return judgesBy(func(b *v1beta1.PolicyBundle) {
		b.Ref, b.RegistrySecret = ref, &v1beta1.NamespacedName{Name: "policy-reader", Namespace: operatorNamespace}
	})
}
