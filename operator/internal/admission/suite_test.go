package admission_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
	"github.com/sluice-dev/sluice/operator/api/v1alpha1"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/admission"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/schema"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

const (
	operatorNamespace = "sluice-system"
	configuration     = "sluice"
	definition        = "workloads.sluice.dev"
	certificateSecret = "sluice-webhook-certificate"
	environmentLabel  = "sluice.dev/environment"
	patience          = 30 * time.Second
	poll              = 20 * time.Millisecond
)

// What the suite stands on: an API server that asks the webhooks, the webhooks on a
// server with certificates of the rotation, and a real registry.
var (
	access  *rest.Config
	scheme  = runtime.NewScheme()
	api     client.Client
	depot   *testkit.Registry
	signer  *testkit.Key
	address string
	judge   *gather.Judge
	cached  client.Reader
	root    = filepath.Join("..", "..", "..")
)

func TestMain(m *testing.M) {
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (code int, err error) {
	logf.SetLogger(logr.Discard())
	env := &envtest.Environment{
		BinaryAssetsDirectory: filepath.Join(root, "bin", "tools"),
		CRDDirectoryPaths:     []string{filepath.Join(root, "kustomize", "base", "crds")},
		ErrorIfCRDPathMissing: true,
	}
	if access, err = env.Start(); err != nil {
		return 1, fmt.Errorf("start the control plane (run `make tools` first): %w", err)
	}
	defer func() { _ = env.Stop() }()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 1, err
		}
	}
	if api, err = client.New(access, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	depot = testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	defer depot.Close()
	if signer, err = testkit.NewKey(); err != nil {
		return 1, err
	}
	stop, err := serve()
	if err != nil {
		return 1, err
	}
	if err := prepare(); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, stop()
}

// freePort asks the kernel for a port that is free now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// serve runs rotation and webhooks as cmd/manager does. The first certificate is made
// while there is neither Secret nor webhook configuration.
func serve() (stop func() error, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	rotation := &admission.Rotation{
		Client: api, Secret: client.ObjectKey{Namespace: operatorNamespace, Name: certificateSecret}, Configuration: configuration, Definition: definition,
		Hosts: []string{"sluice-webhook.sluice-system.svc", "127.0.0.1"}, Now: time.Now,
	}
	m, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, TLSOpts: []func(*tls.Config){
			func(t *tls.Config) { t.GetCertificate = rotation.GetCertificate },
		}}),
	})
	if err != nil {
		return nil, err
	}
	if err := api.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}); err != nil {
		return nil, err
	}
	references, err := cache.New(access, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{operatorNamespace: {}}})
	if err != nil {
		return nil, err
	}
	if err := m.Add(references); err != nil {
		return nil, err
	}
	if err := rotation.SetupWithManager(m, references, m.GetCache()); err != nil {
		return nil, err
	}
	judge = gather.NewJudge(&gather.Cluster{
		Cache: m.GetClient(), References: references, Live: m.GetAPIReader(), OperatorNamespace: operatorNamespace,
	}, registry.New(registry.Options{}), trust.New(trust.Options{}))
	cached = m.GetClient()
	decoder := webhookadmission.NewDecoder(scheme)
	counted := metrics.New(prometheus.NewRegistry())
	schemas, err := schema.Load(crds.Files)
	if err != nil {
		return nil, err
	}
	converter, err := conversion.New(schemas)
	if err != nil {
		return nil, err
	}
	err = admission.Register(m.GetWebhookServer(),
		&admission.Workloads{Judge: judge, Decoder: decoder, Converter: converter, Cache: m.GetClient(), Live: m.GetAPIReader(), Metrics: counted},
		&admission.Objects{Judge: judge, Metrics: counted},
		&admission.Gates{Decoder: decoder, OperatorNamespace: operatorNamespace},
		&admission.Exemptions{Decoder: decoder, OperatorNamespace: operatorNamespace, Now: time.Now})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	serving := func(context.Context) (bool, error) {
		return rotation.Ready(nil) == nil && m.GetWebhookServer().StartedChecker()(nil) == nil, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, serving); err != nil {
		cancel()
		return nil, fmt.Errorf("the webhooks do not come up: %w", err)
	}
	return func() error { cancel(); return <-ended }, nil
}

// prepare applies the webhook configuration as it is shipped, pointed at this process,
// and a Gate for each mode.
func prepare() error {
	ctx := context.Background()
	if err := api.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "release-signer", Namespace: operatorNamespace},
		StringData: map[string]string{"cosign.pub": signer.PublicPEM},
	}); err != nil {
		return err
	}
	for mode, name := range map[v1beta1.GateMode]string{v1beta1.GateModeEnforce: "enforce", v1beta1.GateModeWarn: "warn", v1beta1.GateModeAudit: "audit"} {
		if err := api.Create(ctx, gateFor(name, mode)); err != nil {
			return err
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{environmentLabel: name}}}
		if err := api.Create(ctx, ns); err != nil {
			return err
		}
	}
	config, err := shipped()
	if err != nil {
		return err
	}
	if err := api.Create(ctx, config); err != nil {
		return err
	}
	if err := convert(ctx); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := api.Get(ctx, client.ObjectKey{Name: definition}, crd); err != nil || len(crd.Spec.Conversion.Webhook.ClientConfig.CABundle) == 0 {
			return false, err
		}
		return injected(ctx, configuration)
	})
}

// convert applies what the CRD is shipped with for its conversion, pointed at this
// process: controller-gen writes none, and envtest reads its files alone.
func convert(ctx context.Context) error {
	built, err := overlay.Read(root, filepath.Join(root, "kustomize", "base", "crds"), nil)
	if err != nil {
		return err
	}
	for _, o := range built {
		if o.GetName() != definition {
			continue
		}
		lab.RedirectWebhooks([]*unstructured.Unstructured{o.Unstructured}, "https://"+address)
		return api.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.Unstructured), client.FieldOwner("kubectl"), client.ForceOwnership)
	}
	return fmt.Errorf("kustomize/base/crds has no %s", definition)
}

func injected(ctx context.Context, name string) (bool, error) {
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := api.Get(ctx, client.ObjectKey{Name: name}, config); err != nil {
		return false, err
	}
	for _, w := range config.Webhooks {
		if len(w.ClientConfig.CABundle) == 0 {
			return false, nil
		}
	}
	return true, nil
}

func shipped() (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	raw, err := os.ReadFile(filepath.Join(root, "kustomize", "base", "webhook", "configuration.yaml"))
	if err != nil {
		return nil, err
	}
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(raw, config); err != nil {
		return nil, err
	}
	for i := range config.Webhooks {
		c := &config.Webhooks[i].ClientConfig
		url := "https://" + address + *c.Service.Path
		c.URL, c.Service = &url, nil
	}
	return config, nil
}

// gateFor guards the namespaces of an environment: signed images, and no mutable tags as
// a warning.
func gateFor(environment string, mode v1beta1.GateMode) *v1beta1.Gate {
	return &v1beta1.Gate{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.GateKind},
		ObjectMeta: metav1.ObjectMeta{Name: environment},
		Spec: v1beta1.GateSpec{
			Environment: environment, Mode: mode, UnmatchedImages: v1beta1.UnmatchedImagesDeny,
			Match: v1beta1.GateMatch{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{environmentLabel: environment}}},
			Images: []v1beta1.ImageRule{{
				Match: depot.Host() + "/**",
				Authorities: []v1beta1.Authority{{Name: "release-key", Key: &v1beta1.PublicKey{Secret: &v1beta1.SecretKeyRef{
					NamespacedName: v1beta1.NamespacedName{Name: "release-signer", Namespace: operatorNamespace}, Key: "cosign.pub",
				}}}},
			}},
		},
	}
}

func push(t *testing.T, repository string, signed bool) string {
	t.Helper()
	image := depot.Host() + "/" + repository
	digest, err := testkit.PushImage(image+":1", repository)
	if err != nil {
		t.Fatal(err)
	}
	if signed {
		if err := signer.SignTag(image, digest); err != nil {
			t.Fatal(err)
		}
	}
	return image + ":1"
}

func workload(namespace, name, image string) *v1beta1.Workload {
	one := int32(1)
	return &v1beta1.Workload{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.WorkloadKind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1beta1.WorkloadSpec{Image: image, Replicas: &one, DeletionPolicy: v1beta1.DeletionPolicyDelete},
	}
}

// review is what the API server would ask about o, of a kind and subresource.
func review(t *testing.T, operation admissionv1.Operation, subresource string, o, old any) *admissionv1.AdmissionReview {
	t.Helper()
	r := &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: types.UID("u-1"), Operation: operation, SubResource: subresource},
	}
	if named, ok := o.(client.Object); ok {
		r.Request.Name, r.Request.Namespace = named.GetName(), named.GetNamespace()
	}
	r.Request.Object.Raw = encoded(t, o)
	if old != nil {
		r.Request.OldObject.Raw = encoded(t, old)
	}
	return r
}

func encoded(t *testing.T, o any) []byte {
	t.Helper()
	if raw, ok := o.(string); ok {
		return []byte(raw)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// ask posts a review, over TLS that has to satisfy the authority in the Secret.
func ask(t *testing.T, path string, r *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return post(t, path, "application/json", raw)
}

func post(t *testing.T, path, contentType string, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	status, raw := send(t, path, contentType, body)
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(raw, answer); err != nil || answer.Response == nil {
		t.Fatalf("%s answers %d %q: %v", path, status, raw, err)
	}
	return answer.Response
}

// send posts over TLS that has to satisfy the authority in the Secret.
func send(t *testing.T, path, contentType string, body []byte) (status int, answer []byte) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: operatorNamespace, Name: certificateSecret}, secret); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		t.Fatal("no authority in the Secret")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	defer transport.CloseIdleConnections()
	http := &http.Client{Transport: transport, Timeout: patience}
	response, err := http.Post("https://"+address+path, contentType, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, raw
}
