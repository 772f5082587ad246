// Package stage sets the lab up as a cluster that runs Sluice from an overlay: control
// plane, registry with signed images, the operator with its own rights, its webhooks,
// Gate and Workloads.
package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// Registry is the registry's name in manifests; the lab dials its own in its place.
const Registry = "registry.example.com"

// Names of the overlays' objects.
const (
	OperatorNamespace = "sluice-system"
	SignerSecret      = "release-signer"
	Deployment        = "sluice-manager"
)

// Options of a stage.
type Options struct {
	// Root of the repository.
	Root string
	// Overlay below Root, such as kustomize/overlays/dev.
	Overlay string
	// Manager is the operator's binary, and ManagerArgs its flags besides those that place
	// it in the lab.
	Manager     string
	ManagerArgs []string
	// AuditUsers are users of whom the cluster's audit log has every request.
	AuditUsers []string
	// Front plays the Service before the operator's webhooks: it is told where the first
	// replica will serve them (host:port) and its health (a URL), and returns where the API
	// server asks (a port of 127.0.0.1). Nil: it asks that replica.
	Front func(webhooks, health string) (string, error)
	// Older is what stands in the cluster before the overlay comes: the definitions of an
	// older release, and objects that were made under it.
	Older []*unstructured.Unstructured
	// RegistryAddress of a registry that runs already and is dialled for Registry; empty: one
	// is started, with the images of the sample fleet, a key that signed them, and the keys
	// and the evidence that the overlay's Gates name.
	RegistryAddress string
	// Dir for kubeconfig and logs; empty: temporary.
	Dir string
	// Log gets a line per step.
	Log io.Writer
}

// Stage is what is running.
type Stage struct {
	Cluster *lab.Cluster
	// RegistryAddress is the host:port to dial for Registry.
	RegistryAddress string
	// Key that signed the sample images and that the overlay's Gate trusts; nil where the
	// registry is somebody else's.
	Key *testkit.Key
	// Attestors are the keys of environments, by name: of those whose evidence the overlay's
	// Gates sign or demand. None where the registry is somebody else's.
	Attestors map[string]*testkit.Key
	// Manager is the operator's process, and ManagerURL where its health, and MetricsURL
	// where its metrics are.
	Manager                *lab.Process
	ManagerURL, MetricsURL string
	// WebhookURL is where the API server asks the webhooks.
	WebhookURL string

	stopRegistry func()
	// local are the addresses of the operator's webhooks, its health and its metrics.
	local []string
	// runManager starts a process of the operator at such addresses.
	runManager func(ctx context.Context, local []string) (*lab.Process, error)
}

// Replica is a further process of the operator.
type Replica struct {
	*lab.Process
	// Webhooks is the host:port of its webhooks, and URL where its health is.
	Webhooks, URL string
}

// Up starts everything and returns when the operator answers and the overlay is applied.
// On an error what was started is stopped.
func Up(ctx context.Context, o Options) (*Stage, error) {
	s := &Stage{}
	if err := s.up(ctx, o); err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(err, s.Stop())
		}
		return nil, s.Failed(err)
	}
	return s, nil
}

// Failed stops everything after a failure, and leaves the logs where they are: it adds to the
// error where that is.
func (s *Stage) Failed(err error) error {
	if s.Cluster == nil {
		return errors.Join(err, s.Stop())
	}
	s.Cluster.KeepLogs()
	return errors.Join(err, s.Stop(), fmt.Errorf("the logs are left in %s", s.Cluster.Dir()))
}

// Stop stops everything; it is safe to call at any time.
func (s *Stage) Stop() error {
	var err error
	if s.Cluster != nil {
		err = s.Cluster.Stop()
	}
	if s.stopRegistry != nil {
		s.stopRegistry()
	}
	return err
}

func (s *Stage) up(ctx context.Context, o Options) error {
	tools, err := lab.ToolsDir()
	if err != nil {
		return err
	}
	objects, err := Objects(o.Root, o.Overlay)
	if err != nil {
		return err
	}
	if s.local, err = lab.FreePorts(3); err != nil {
		return err
	}
	front := s.local[0]
	if o.Front != nil {
		if front, err = o.Front(front, "http://"+s.local[1]); err != nil {
			return fmt.Errorf("front of the webhooks: %w", err)
		}
	}
	s.WebhookURL, s.ManagerURL, s.MetricsURL = "https://"+front, "http://"+s.local[1], "http://"+s.local[2]+"/metrics"
	lab.RedirectWebhooks(objects, s.WebhookURL)
	definitions, platform, guarded := parts(objects)
	first := definitions
	if len(o.Older) > 0 {
		first, platform = o.Older, append(definitions, platform...)
	}
	s.Cluster, err = lab.Start(ctx, lab.Options{ToolsDir: tools, Dir: o.Dir, Definitions: first, AuditUsers: o.AuditUsers, Log: o.Log})
	if err != nil {
		return err
	}
	if s.RegistryAddress = o.RegistryAddress; s.RegistryAddress == "" {
		keys, err := s.startRegistry(guarded)
		if err != nil {
			return err
		}
		platform = append(platform, keys...)
	}
	return s.install(ctx, o, platform, guarded)
}

// startRegistry starts a registry with what is guarded in it, and returns the Secrets with
// the keys that the Gates name.
func (s *Stage) startRegistry(guarded []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var err error
	if s.RegistryAddress, s.stopRegistry, err = lab.StartRegistry(); err != nil {
		return nil, err
	}
	if s.Key, err = testkit.NewKey(); err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	fleet, err := PushFleet(s.RegistryAddress, s.Key)
	if err != nil {
		return nil, err
	}
	attestors, err := s.attest(fleet, guarded)
	return append(attestors, s.SignerManifest()), err
}

// PushSigned pushes a small image under repository:tag and signs it with the Key.
func (s *Stage) PushSigned(image string) error {
	_, err := PushSigned(s.RegistryAddress, image, s.Key)
	return err
}

// Push pushes a small image and returns its digest.
func (s *Stage) Push(image string) (string, error) { return push(s.RegistryAddress, image) }

// Sign signs an image by digest with the Key, in cosign's tag format.
func (s *Stage) Sign(image, digest string) error {
	return sign(s.RegistryAddress, image, digest, s.Key)
}

// Await asks until check has nothing to say any more, for a minute and a half. Its error has
// what was said last, and where the operator's log is.
func (s *Stage) Await(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 90*time.Second, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w; the operator's log is %s", what, errors.Join(err, last), s.Manager.Log())
	}
	return nil
}

// Objects builds an overlay below root.
func Objects(root, name string) ([]*unstructured.Unstructured, error) {
	read, err := overlay.Read(root, filepath.Join(root, name), nil)
	if err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, 0, len(read))
	for _, o := range read {
		out = append(out, o.Unstructured)
	}
	return out, nil
}

// parts tells definitions, platform and what is guarded apart: Gates and Workloads are
// admitted by the operator, which has to run first.
func parts(objects []*unstructured.Unstructured) (definitions, platform, guarded []*unstructured.Unstructured) {
	for _, o := range objects {
		switch {
		case o.GetKind() == "CustomResourceDefinition":
			definitions = append(definitions, o)
		case o.GroupVersionKind().Group == v1beta1.GroupVersion.Group:
			guarded = append(guarded, o)
		default:
			platform = append(platform, o)
		}
	}
	return definitions, platform, guarded
}

// install applies the platform, runs the operator with its own rights, and applies what
// it guards.
func (s *Stage) install(ctx context.Context, o Options, platform, guarded []*unstructured.Unstructured) error {
	if err := s.Cluster.Apply(ctx, platform); err != nil {
		return err
	}
	deployment, err := operatorDeployment(platform)
	if err != nil {
		return err
	}
	s.runManager = func(ctx context.Context, local []string) (*lab.Process, error) {
		_, webhookPort, err := net.SplitHostPort(local[0])
		if err != nil {
			return nil, fmt.Errorf("port of the webhooks: %w", err)
		}
		args := append([]string{
			"--webhook-bind-address=127.0.0.1", "--webhook-port=" + webhookPort, "--webhook-host=127.0.0.1",
			"--health-probe-bind-address=" + local[1], "--metrics-bind-address=" + local[2],
			"--registry-mirror=" + Registry + "=" + s.RegistryAddress,
		}, o.ManagerArgs...)
		return s.Cluster.RunDeployment(ctx, o.Manager, deployment, lab.RunOptions{ExtraArgs: args})
	}
	if err := s.StartManager(ctx); err != nil {
		return err
	}
	return s.Cluster.Apply(ctx, guarded)
}

// StartManager runs the operator, as Up does and as it may be done again once Manager was
// stopped, and returns when it is ready.
func (s *Stage) StartManager(ctx context.Context) error {
	var err error
	if s.Manager, err = s.runManager(ctx, s.local); err != nil {
		return err
	}
	return ready(ctx, s.Manager, s.ManagerURL)
}

// StartReplica runs the operator once more, beside Manager, and returns when it is ready.
func (s *Stage) StartReplica(ctx context.Context) (*Replica, error) {
	local, err := lab.FreePorts(3)
	if err != nil {
		return nil, err
	}
	p, err := s.runManager(ctx, local)
	if err != nil {
		return nil, err
	}
	r := &Replica{Process: p, Webhooks: local[0], URL: "http://" + local[1]}
	return r, ready(ctx, p, r.URL)
}

// SignerManifest is the Secret with the public key that the overlays' Gates name.
func (s *Stage) SignerManifest() *unstructured.Unstructured {
	return KeyManifest(SignerSecret, s.Key)
}

func operatorDeployment(objects []*unstructured.Unstructured) (*appsv1.Deployment, error) {
	for _, o := range objects {
		if o.GetKind() == "Deployment" && o.GetName() == Deployment {
			d := &appsv1.Deployment{}
			return d, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d)
		}
	}
	return nil, fmt.Errorf("the overlay has no Deployment %s", Deployment)
}

// ready waits until a process of the operator answers, or tells why it ended.
func ready(ctx context.Context, p *lab.Process, url string) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.Done():
			return false, p.Ended()
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("wait for the operator to be ready: %w; its log is %s", err, p.Log())
	}
	return nil
}
