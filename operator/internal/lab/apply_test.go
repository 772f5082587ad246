package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// decode reads the objects of a stream of YAML documents.
func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
}

// definitions are the CRDs of the operator.
func definitions(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	paths, err := filepath.Glob("../../../kustomize/base/crds/sluice.dev_*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no CRDs in kustomize/base/crds (%v)", err)
	}
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, decode(t, string(text))...)
	}
	return objects
}

const fleet = `
apiVersion: sluice.dev/v1beta1
kind: Workload
metadata: {name: web, namespace: shop}
spec: {image: "registry.example/shop/web:1"}
---
apiVersion: sluice.dev/v1beta1
kind: Gate
metadata: {name: dev}
spec: {environment: dev}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: rules, namespace: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: nowhere}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`

func TestCluster_AppliesDefinitionsAndTheirObjectsInOneCall(t *testing.T) {
	// The worst order: each object before what it needs.
	objects := append(decode(t, fleet), definitions(t)...)
	if err := shared.Apply(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	if err := shared.Apply(t.Context(), objects); err != nil {
		t.Fatalf("apply once more: %v", err)
	}
	w := &unstructured.Unstructured{}
	w.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	if err := shared.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, w); err != nil {
		t.Fatal(err)
	}
	if fields := w.GetManagedFields(); len(fields) != 1 || fields[0].Manager != "kubectl" {
		t.Errorf("the Workload is managed by %+v, want kubectl alone", fields)
	}
	if err := shared.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "nowhere"}, &corev1.ConfigMap{}); err != nil {
		t.Errorf("an object without namespace has to land in default: %v", err)
	}
	if objects[3].GetNamespace() != "" {
		t.Errorf("Apply changed the object it was given: %v", objects[3])
	}
}

func TestCluster_ApplyNamesTheObjectThatIsRefused(t *testing.T) {
	cases := map[string]struct{ manifest, want string }{
		"a kind nobody defined":  {"{apiVersion: example.com/v1, kind: Nothing, metadata: {name: thing}}", "apply Nothing thing: "},
		"a missing namespace":    {"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: not-there}}", "apply ConfigMap not-there/c: "},
		"a field of wrong type":  {"{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: many}}", "apply Service s: "},
		"a name that is illegal": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: Not_Legal}}", "apply ConfigMap Not_Legal: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := shared.Apply(t.Context(), decode(t, c.manifest))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want an error that starts with %q", err, c.want)
			}
		})
	}
}

const webhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: sluice}
webhooks:
- name: gate.sluice.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {caBundle: "", service: {name: sluice, namespace: sluice-system, path: /gate}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  namespaceSelector: {matchLabels: {lab-test: webhooks}}
- name: other.sluice.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://127.0.0.1:1/other"}
  namespaceSelector: {matchLabels: {lab-test: nobody}}
`

func TestCluster_ApplyKeepsAnInjectedBundle(t *testing.T) {
	objects := decode(t, webhooks)
	RedirectWebhooks(objects, "https://127.0.0.1:9")
	if err := shared.Apply(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	live := &admissionv1.ValidatingWebhookConfiguration{}
	get := func() {
		t.Helper()
		if err := shared.client.Get(t.Context(), client.ObjectKey{Name: "sluice"}, live); err != nil {
			t.Fatal(err)
		}
	}
	get()
	t.Cleanup(func() {
		if err := shared.client.Delete(context.Background(), live); err != nil {
			t.Error(err)
		}
	})
	if got := live.Webhooks[0].ClientConfig; got.URL == nil || *got.URL != "https://127.0.0.1:9/gate" || got.Service != nil {
		t.Errorf("the webhook calls %+v, want the path of its Service on the URL", got)
	}
	if got := live.Webhooks[1].ClientConfig.URL; got == nil || *got != "https://127.0.0.1:1/other" {
		t.Errorf("a webhook with a URL was redirected to %v", got)
	}
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	live.Webhooks[0].ClientConfig.CABundle = ca.pem
	if err := shared.client.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if err := shared.Apply(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	get()
	if string(live.Webhooks[0].ClientConfig.CABundle) != string(ca.pem) {
		t.Error("the second Apply wiped the caBundle that was injected")
	}
}

func TestCluster_ApplyTriesAgainWhileAWebhookIsSilent(t *testing.T) {
	objects := decode(t, webhooks)
	objects[0].SetName("silent")
	RedirectWebhooks(objects, "https://127.0.0.1:9")
	guarded := decode(t, "{apiVersion: v1, kind: Namespace, metadata: {name: guarded, labels: {lab-test: webhooks}}}")
	if err := shared.Apply(t.Context(), append(objects, guarded...)); err != nil {
		t.Fatal(err)
	}
	remove := func() error { return shared.client.Delete(context.Background(), objects[0].DeepCopy()) }
	t.Cleanup(func() {
		if err := remove(); !apierrors.IsNotFound(err) {
			t.Errorf("the webhook had to be gone: %v", err)
		}
	})
	refused := &corev1.ConfigMap{}
	refused.Namespace, refused.Name = "guarded", "refused"
	eventually(t, "the webhook is asked and silent", func(ctx context.Context) error {
		refused.Name += "x"
		if err := shared.client.Create(ctx, refused.DeepCopy()); !webhookSilent(err) {
			return errors.New("it was not asked")
		}
		return nil
	})
	applied := make(chan error)
	go func() {
		applied <- shared.Apply(t.Context(), decode(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: late, namespace: guarded}}"))
	}()
	select {
	case err := <-applied:
		t.Fatalf("Apply returned before its webhook went: %v", err)
	default:
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if err := <-applied; err != nil {
		t.Errorf("Apply gave up: %v", err)
	}
}

func TestRedirectWebhooks_TurnsAConversionWebhookToo(t *testing.T) {
	objects := decode(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: a.example.com}
spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: eA==, service: {name: s, namespace: n, path: /convert}}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: untouched}
data: {webhooks: text}
`)
	untouched := objects[1].DeepCopy()
	RedirectWebhooks(objects, "https://127.0.0.1:9443")
	got, _, _ := unstructured.NestedMap(objects[0].Object, "spec", "conversion", "webhook", "clientConfig")
	if len(got) != 1 || got["url"] != "https://127.0.0.1:9443/convert" {
		t.Errorf("got %v, want the url alone", got)
	}
	if !strings.Contains(untouched.GetKind(), "ConfigMap") || objects[1].Object["data"].(map[string]any)["webhooks"] != "text" {
		t.Errorf("an object without webhooks was changed: %v", objects[1])
	}
}
