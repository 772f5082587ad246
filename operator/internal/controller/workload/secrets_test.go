package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// talkative is a Gate whose policy prints the whole object in the mode's own way.
func talkative(t *testing.T, mode v1beta1.GateMode) string {
	t.Helper()
	policy := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "talkative-", Namespace: operatorNamespace},
		Data: map[string]string{"p.rego": `package main
deny contains sprintf("the object is %v", [input.object])
deny contains sprintf("%s is %s", [v.name, v.value]) if { walk(input, [_, v]); v.name; v.value }
`},
	}
	create(t, policy)
	g := gateFor("talkative", "release-signer")
	g.Name, g.GenerateName, g.Spec.Mode = "", "talkative-", mode
	g.Spec.Match.NamespaceSelector.MatchLabels[environmentLabel] = policy.Name
	g.Spec.Policies = []v1beta1.PolicySource{{ConfigMap: &v1beta1.NamespacedName{Name: policy.Name, Namespace: operatorNamespace}}}
	create(t, g)
	t.Cleanup(func() {
		_ = api.Delete(context.Background(), g)
		_ = api.Delete(context.Background(), policy)
	})
	return policy.Name
}

// Whatever stops a reconcile may quote the manifest: a policy, the API server, a webhook.
func TestReconcile_ShowsNoSecrets(t *testing.T) {
	const password, token = "hunter2 hunter2", "tok-0123456789"
	refusal := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New(text))
	}
	for title, tc := range map[string]struct {
		mode v1beta1.GateMode
		// fails the apply of the Deployment.
		fails error
		// says is what has to be told all the same.
		says string
	}{
		"a policy that denies":          {v1beta1.GateModeEnforce, nil, "PASSWORD is (masked)"},
		"a policy that warns":           {v1beta1.GateModeWarn, nil, "PASSWORD is (masked)"},
		"a webhook that refuses":        {v1beta1.GateModeWarn, refusal("env PASSWORD=" + password + " TOKEN=" + token), "env PASSWORD=(masked) TOKEN=(masked)"},
		"an API server that fails":      {v1beta1.GateModeWarn, fmt.Errorf("500: %q and %s", password, token), `500: "(masked)" and (masked)`},
		"an API server that is at odds": {v1beta1.GateModeWarn, apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "web", errors.New(password+token)), "(masked)"},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t)
			b.namespace = namespace(t, talkative(t, tc.mode))
			w := b.workload("web", full, func(w *v1beta1.Workload) {
				w.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"env":[{"name":"PASSWORD","value":"` + password + `"}]}}`}
				w.Spec.Env = []corev1.EnvVar{{Name: "PASSWORD", Value: password}}
				w.Spec.Patches = []v1beta1.Patch{{Target: &v1beta1.PatchTarget{Kind: "Deployment"},
					Patch: `[{"op":"add","path":"/spec/template/spec/containers/0/env/-","value":{"name":"TOKEN","value":"` + token + `"}}]`}}
			})
			b.refuse = func(write string) error {
				if write == "apply Deployment" {
					return tc.fails
				}
				return nil
			}
			var logged strings.Builder
			sink := logr.FromSlogHandler(slog.NewJSONHandler(&logged, nil)) // as the manager logs
			for range 2 {
				_, err := b.r.Reconcile(logf.IntoContext(t.Context(), sink), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w)})
				if err != nil {
					sink.Error(err, "Reconciler error")
				}
			}
			b.read(w)
			status, err := json.Marshal(w.Status)
			if err != nil {
				t.Fatal(err)
			}
			told := logged.String() + strings.Join(b.told(), "\n") + string(status)
			if !strings.Contains(strings.ReplaceAll(told, `\"`, `"`), tc.says) {
				t.Errorf("it is not said that %s:\n%s", tc.says, told)
			}
			for _, secret := range []string{"hunter2", token} {
				if i := strings.Index(told, secret); i >= 0 {
					t.Errorf("it is shown: %s", told[max(0, i-200):min(len(told), i+100)])
				}
			}
		})
	}
}
