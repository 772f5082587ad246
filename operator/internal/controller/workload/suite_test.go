package workload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const (
	operatorNamespace = "sluice-system"
	environmentLabel  = "sluice.dev/environment"
	environment       = "test"
	// patience is how long any one thing may take to come true.
	patience = 30 * time.Second
)

// What the suite stands on: a real API server without controllers, and a real registry.
var (
	access *rest.Config
	scheme = runtime.NewScheme()
	api    client.WithWatch
	depot  *testkit.Registry
	signer *testkit.Key
)

func TestMain(m *testing.M) {
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (int, error) {
	logf.SetLogger(logr.Discard())
	env := &envtest.Environment{
		BinaryAssetsDirectory: filepath.Join("..", "..", "..", "..", "bin", "tools"),
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "..", "..", "kustomize", "base", "crds")},
		ErrorIfCRDPathMissing: true,
	}
	// The default has 254 addresses, and each Service of the suite takes one.
	env.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	var err error
	if access, err = env.Start(); err != nil {
		return 1, fmt.Errorf("start the control plane (run `make tools` first): %w", err)
	}
	defer func() { _ = env.Stop() }()
	access.QPS, access.Burst = 500, 1000
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return 1, err
	}
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return 1, err
	}
	if api, err = client.NewWithWatch(access, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	depot = testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	defer depot.Close()
	if signer, err = testkit.NewKey(); err != nil {
		return 1, err
	}
	if err := prepare(); err != nil {
		return 1, err
	}
	inspector, err := startInspector()
	if err != nil {
		return 1, err
	}
	stop, err := startManager()
	if err != nil {
		return 1, err
	}
	code := m.Run()
	return code, firstError(stop(), inspector.stop())
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func prepare() error {
	ctx := context.Background()
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}},
		keySecret("release-signer", signer),
		gateFor(environment, "release-signer"),
	} {
		if err := api.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func keySecret(name string, key *testkit.Key) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: operatorNamespace},
		StringData: map[string]string{"cosign.pub": key.PublicPEM},
	}
}

// gateFor guards the namespaces of an environment, and takes images signed by the key.
func gateFor(environment, secret string) *v1beta1.Gate {
	return &v1beta1.Gate{
		ObjectMeta: metav1.ObjectMeta{Name: environment},
		Spec: v1beta1.GateSpec{
			Environment: environment,
			Match:       v1beta1.GateMatch{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{environmentLabel: environment}}},
			Images: []v1beta1.ImageRule{{
				Match: depot.Host() + "/**",
				Authorities: []v1beta1.Authority{{Name: "release-key", Key: &v1beta1.PublicKey{Secret: &v1beta1.SecretKeyRef{
					NamespacedName: v1beta1.NamespacedName{Name: secret, Namespace: operatorNamespace}, Key: "cosign.pub",
				}}}},
			}},
		},
	}
}

// namespace makes a namespace of the test's own.
func namespace(t *testing.T, environment string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if environment != "" {
		ns.Labels = map[string]string{environmentLabel: environment}
	}
	create(t, ns)
	return ns.Name
}

func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), o); err != nil {
		t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

// push stores an image, and returns its name and digest.
func push(t *testing.T, repository, content string) (image, digest string) {
	t.Helper()
	image = depot.Host() + "/" + repository
	digest, err := testkit.PushImage(image, content)
	if err != nil {
		t.Fatal(err)
	}
	return image, digest
}

// pushSigned stores an image that the suite's key has signed.
func pushSigned(t *testing.T, repository string) (image, digest string) {
	t.Helper()
	image, digest = push(t, repository, repository)
	sign(t, signer, image, digest)
	return image, digest
}

func sign(t *testing.T, key *testkit.Key, image, digest string) {
	t.Helper()
	repository := image[:strings.LastIndexByte(image, ':')]
	if err := key.SignTag(repository, digest); err != nil {
		t.Fatal(err)
	}
}
