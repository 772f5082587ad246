package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	webhookadmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/admission"
	"github.com/sluice-dev/sluice/operator/internal/controller/workload"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/leader"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
	"github.com/sluice-dev/sluice/operator/internal/notary"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/schema"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// definition is the CRD whose conversion webhook the operator serves.
const definition = "workloads.sluice.dev"

func run(ctx context.Context, log logr.Logger, c config) error {
	access, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	access.QPS, access.Burst = float32(c.qps), int(2*c.qps)
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1beta1.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))

	rotation := &admission.Rotation{
		Secret:        client.ObjectKey{Namespace: c.namespace, Name: c.certificates},
		Configuration: c.configuration, Definition: definition, Hosts: c.webhookHosts(), Now: time.Now,
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	fenced, lock, err := election(access, c, end)
	if err != nil {
		return err
	}
	o := options(c, scheme, rotation)
	o.LeaderElectionResourceLockInterface = lock
	m, err := ctrl.NewManager(fenced, o)
	if err != nil {
		return fmt.Errorf("make manager: %w", err)
	}
	if rotation.Client, err = client.New(access, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	references, err := ownNamespace(m, access, c, scheme)
	if err != nil {
		return err
	}
	if c.certificateDir == "" {
		if err := errors.Join(rotation.Prepare(ctx), rotation.SetupWithManager(m, references, m.GetCache())); err != nil {
			return fmt.Errorf("set up certificates: %w", err)
		}
	}
	if err := wire(ctx, m, c, references, scheme); err != nil {
		return err
	}
	primed, err := prime(ctx, m, references)
	if err != nil {
		return err
	}
	if err := checks(m, c, primed, rotation); err != nil {
		return err
	}
	log.Info("Starting manager", "namespace", c.namespace, "workers", c.workers)
	if err := m.Start(ctx); err != nil {
		return err
	}
	if err := context.Cause(ctx); errors.Is(err, leader.ErrLost) {
		return err
	}
	return nil
}

// election is the Lease, and the access by which only its holder writes. What replicas
// write for themselves, such as certificates, goes by the other access. end is told when
// another took the Lease over; without leader election there is none.
func election(access *rest.Config, c config, end func(error)) (*rest.Config, resourcelock.Interface, error) {
	if !c.leaderElection {
		return access, nil, nil
	}
	lock, err := leader.NewLock(access, c.namespace, c.lease(), c.renewDeadline, end)
	if err != nil {
		return nil, nil, fmt.Errorf("leader election: %w", err)
	}
	fenced := rest.CopyConfig(access)
	fenced.Wrap(lock.Fence)
	return fenced, lock, nil
}

// wire connects the one engine to admission and to the reconciler.
func wire(ctx context.Context, m ctrl.Manager, c config, references cache.Cache, scheme *runtime.Scheme) error {
	registryClient, err := newRegistry(c)
	if err != nil {
		return err
	}
	crmetrics.Registry.MustRegister(registryClient.Collectors()...)
	counted := metrics.New(crmetrics.Registry)
	loader := trust.New(trust.Options{})
	judge := gather.NewJudge(&gather.Cluster{
		Cache: m.GetClient(), References: references, Live: m.GetAPIReader(), OperatorNamespace: c.namespace,
	}, registryClient, loader)
	crmetrics.Registry.MustRegister(judge.Collectors()...)

	schemas, err := schema.Load(crds.Files)
	if err != nil {
		return fmt.Errorf("load schemas: %w", err)
	}
	converter, err := conversion.New(schemas)
	if err != nil {
		return err
	}
	decoder := webhookadmission.NewDecoder(scheme)
	err = admission.Register(m.GetWebhookServer(),
		&admission.Workloads{Judge: judge, Decoder: decoder, Converter: converter, Cache: m.GetClient(), Live: m.GetAPIReader(), Metrics: counted},
		&admission.Objects{Judge: judge, Metrics: counted},
		&admission.Gates{Decoder: decoder, OperatorNamespace: c.namespace},
		&admission.Exemptions{Decoder: decoder, OperatorNamespace: c.namespace, Now: time.Now})
	if err != nil {
		return err
	}

	names, err := workload.NewNames(m.GetConfig(), scheme, m.GetRESTMapper())
	if err != nil {
		return err
	}
	if err := m.Add(names); err != nil {
		return fmt.Errorf("add the cache of Secrets and ConfigMaps: %w", err)
	}
	r := &workload.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Names: names, Judge: judge,
		Notary: notary.New(notary.Options{Registry: registryClient, Keys: loader, Now: time.Now, Count: workload.Counts(m.GetClient(), counted)}),
		Events: m.GetEventRecorder("sluice"), Metrics: counted,
		Analysis: c.analysis, Now: time.Now, Shard: c.shard, ProgressPause: limits.ProgressPause,
	}
	if err := r.SetupWithManager(ctx, m, references, names, workload.Pace{Workers: c.workers, RetryBase: c.retryBase, RetryMax: c.retryMax}); err != nil {
		return fmt.Errorf("set up the Workload controller: %w", err)
	}
	return nil
}

// options bound what is cached: children by the operator's label, webhook configurations
// and CRDs by the one name, namespaces by metadata (see the controller's watches).
func options(c config, scheme *runtime.Scheme, rotation *admission.Rotation) ctrl.Options {
	objects := workload.CacheByObject()
	objects[&admissionregistrationv1.ValidatingWebhookConfiguration{}] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", c.configuration)}
	objects[admission.Definition()] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", definition)}
	tlsOptions := []func(*tls.Config){func(t *tls.Config) {
		t.MinVersion = tls.VersionTLS13
		// As the API server asks Services. With HTTP/2, as it asks loopback, all requests are on
		// one connection, and hang with it when the replica at its end does.
		t.NextProtos = []string{"http/1.1"}
	}}
	if c.certificateDir == "" {
		tlsOptions = append(tlsOptions, func(t *tls.Config) { t.GetCertificate = rotation.GetCertificate })
	}
	grace := 20 * time.Second
	return ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cache.Options{ByObject: objects, DefaultTransform: cache.TransformStripManagedFields()},
		Client:                        client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		Metrics:                       server.Options{BindAddress: c.metricsAddress},
		HealthProbeBindAddress:        c.healthAddress,
		LeaderElection:                c.leaderElection,
		LeaderElectionID:              c.lease(),
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &c.leaseDuration,
		RenewDeadline:                 &c.renewDeadline,
		RetryPeriod:                   &c.retryPeriod,
		GracefulShutdownTimeout:       &grace,
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: c.webhookAddress, Port: c.webhookPort, CertDir: c.certificateDir, TLSOpts: tlsOptions,
		}),
	}
}

// ownNamespace is the cache of the Secrets and ConfigMaps that Gates may name. It is
// apart from that of the controller, which holds only metadata of those elsewhere.
func ownNamespace(m ctrl.Manager, access *rest.Config, c config, scheme *runtime.Scheme) (cache.Cache, error) {
	references, err := cache.New(access, cache.Options{
		Scheme: scheme, Mapper: m.GetRESTMapper(), DefaultNamespaces: map[string]cache.Config{c.namespace: {}},
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache of namespace %s: %w", c.namespace, err)
	}
	if err := m.Add(everywhere{references}); err != nil {
		return nil, fmt.Errorf("add the cache of namespace %s: %w", c.namespace, err)
	}
	return references, nil
}

// everywhere runs a cache also on replicas that do not lead: their webhooks read it.
type everywhere struct{ cache.Cache }

func (everywhere) NeedLeaderElection() bool { return false }

// GetCache makes the manager start it with the caches, before the controllers that wait
// for it.
func (e everywhere) GetCache() cache.Cache { return e.Cache }

// prime names what admission reads, so that every replica has it before it is ready: one
// that does not lead runs no controller that would ask for it, and the first admission
// request would have to wait for it. It returns what has to be there before a replica is
// ready: Workloads are not among it, since while some are stored in an older version they
// can be listed only once this replica is ready and converts them.
func prime(ctx context.Context, m ctrl.Manager, references cache.Cache) ([]cache.Informer, error) {
	var primed []cache.Informer
	for _, o := range []struct {
		cache cache.Cache
		kind  client.Object
	}{
		{m.GetCache(), &v1beta1.Workload{}}, {m.GetCache(), &v1beta1.Gate{}}, {m.GetCache(), &v1beta1.Exemption{}}, {m.GetCache(), workload.Metadata("Namespace")},
		{references, &corev1.Secret{}}, {references, &corev1.ConfigMap{}},
	} {
		informer, err := o.cache.GetInformer(ctx, o.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", o.kind, err)
		}
		if _, stored := o.kind.(*v1beta1.Workload); !stored {
			primed = append(primed, informer)
		}
	}
	return primed, nil
}

// checks are of what admission and conversion need.
func checks(m ctrl.Manager, c config, primed []cache.Informer, rotation *admission.Rotation) error {
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add health check: %w", err)
	}
	ready := map[string]healthz.Checker{
		"webhook": m.GetWebhookServer().StartedChecker(),
		"caches": func(*http.Request) error {
			for _, informer := range primed {
				if !informer.HasSynced() {
					return errors.New("caches are not filled yet")
				}
			}
			return nil
		},
	}
	if c.certificateDir == "" {
		ready["certificate"] = rotation.Ready
	}
	for name, check := range ready {
		if err := m.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("add readiness check %s: %w", name, err)
		}
	}
	return nil
}

func newRegistry(c config) (*registry.Client, error) {
	transport, err := registry.WithAuthorities(c.registryCAFiles)
	if err != nil {
		return nil, fmt.Errorf("--registry-ca-file: %w", err)
	}
	return registry.New(registry.Options{
		Mirrors: c.mirrors, Insecure: c.insecure, TokenHosts: c.tokenHosts, Addresses: c.addresses, Google: c.google, Amazon: c.amazon, Azure: c.azure, Transport: transport,
	}), nil
}
