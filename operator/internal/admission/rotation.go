package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// The rights of the rotation. The webhook configuration and the CRD are named, so that the
// operator cannot touch anyone else's; so is the Secret, by the default of
// --webhook-certificate-secret: whoever sets another name there names it in the Role too.
// Which Secrets may be created cannot be bounded by name: the API server decides on that
// before it has the object, and with it the name.
//
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=workloads.sluice.dev,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=sluice,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",namespace=sluice-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=sluice-system,resources=secrets,resourceNames=sluice-webhook-certificate,verbs=update

// Keys of the Secret that holds the webhook's certificates. ca.crt holds the authority
// in use first, and the one before it until that expires, so that a replica which still
// serves with the old certificate is trusted.
const (
	keyAuthorityCert = "ca.crt"
	keyAuthorityKey  = "ca.key"
)

// Rotation makes the certificates that the webhooks serve with, keeps them in a Secret
// that all replicas share, renews them in time, and tells the API server whom to trust.
// Every replica runs it; a write that another replica made first is read and not
// repeated.
type Rotation struct {
	// Client reads and writes the Secret, the webhook configuration and the CRD, past any
	// cache.
	Client client.Client
	// Secret that holds the certificates.
	Secret client.ObjectKey
	// Configuration is the name of the ValidatingWebhookConfiguration to inject into.
	Configuration string
	// Definition is the name of the CRD to inject into, for its conversion webhook.
	Definition string
	// Hosts that the certificate is for, the Service's name first.
	Hosts []string
	// Now is the clock.
	Now func() time.Time

	serving atomic.Pointer[tls.Certificate]
}

// GetCertificate is for tls.Config.
func (r *Rotation) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := r.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("the webhook's certificate is not there yet")
}

// Ready is a readiness check: without a certificate no admission request is answered.
func (r *Rotation) Ready(*http.Request) error {
	_, err := r.GetCertificate(nil)
	return err
}

// SetupWithManager runs the rotation on every replica, on changes of the Secret and of
// the webhook configuration or the CRD, and when a certificate is due. references is the
// cache of the operator's own namespace, configurations that of webhook configurations and
// of the metadata of CRDs.
func (r *Rotation) SetupWithManager(m ctrl.Manager, references, configurations cache.Cache) error {
	everywhere := false
	one := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: r.Secret}}
	}
	// Neither Secret nor configuration may be there at first, and then there is no event.
	start := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{NamespacedName: r.Secret})
		return nil
	})
	return ctrl.NewControllerManagedBy(m).Named("webhook-certificates").
		WatchesRawSource(start).
		WatchesRawSource(source.Kind(references, client.Object(&corev1.Secret{}), handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, o client.Object) []reconcile.Request {
				if client.ObjectKeyFromObject(o) != r.Secret {
					return nil
				}
				return one(ctx, o)
			}))).
		WatchesRawSource(source.Kind(configurations, client.Object(&admissionregistrationv1.ValidatingWebhookConfiguration{}), handler.EnqueueRequestsFromMapFunc(one))).
		WatchesRawSource(source.Kind(configurations, client.Object(Definition()), handler.EnqueueRequestsFromMapFunc(one))).
		WithOptions(controller.Options{NeedLeaderElection: &everywhere, RateLimiter: retries()}).
		Complete(r)
}

// retries is how soon is tried again what failed. The usual pause grows to a quarter of an
// hour: admission would be down for as long after the cause is gone, and the alert about
// reconciles that fail would see none in between.
func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](limits.CertificateRetryFirst, limits.CertificateRetry)
}

// Definition is an empty CRD for metadata-only reads.
func Definition() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return m
}

// Prepare makes sure of a certificate before the manager starts. Later would be too late
// while Workloads are stored in an older version: no controller runs, and no certificate
// is made, before the caches are filled, and to fill them the API server has to convert.
func (r *Rotation) Prepare(ctx context.Context) error {
	// Some seconds in all: each replica of an upgrade writes once, and reads what is there.
	patience := wait.Backoff{Steps: 10, Duration: 50 * time.Millisecond, Factor: 1.5, Jitter: 0.5}
	return retry.OnError(patience, another, func() error {
		_, err := r.Ensure(ctx)
		return err
	})
}

// another says whether another replica was first. What it wrote is as good.
func another(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// Reconcile implements reconcile.Reconciler.
func (r *Rotation) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	due, err := r.Ensure(ctx)
	if another(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: max(due.Sub(r.Now()), time.Second)}, nil
}

// Ensure brings certificate, Secret, webhook configuration and CRD up to date, and says
// when it is due again.
func (r *Rotation) Ensure(ctx context.Context) (time.Time, error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, r.Secret, secret)
	if client.IgnoreNotFound(err) != nil {
		return time.Time{}, fmt.Errorf("get Secret %s: %w", r.Secret, err)
	}
	missing := err != nil
	due, changed, err := r.renew(secret)
	if err != nil {
		return time.Time{}, err
	}
	if changed {
		logf.FromContext(ctx).Info("Renewing webhook certificates", "secret", r.Secret.String(), "due", due)
		if err := r.store(ctx, secret, missing); err != nil {
			return time.Time{}, err
		}
	}
	cert, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return time.Time{}, fmt.Errorf("certificate in Secret %s: %w", r.Secret, err)
	}
	// The API server has to trust the new authority before a certificate of it is served.
	if err := errors.Join(r.inject(ctx, secret.Data[keyAuthorityCert]), r.injectDefinition(ctx, secret.Data[keyAuthorityCert])); err != nil {
		return time.Time{}, err
	}
	r.serving.Store(&cert)
	return due, nil
}

// renew replaces in the Secret what is missing, unusable or due.
func (r *Rotation) renew(secret *corev1.Secret) (due time.Time, changed bool, err error) {
	now := r.Now()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	authority := pair{cert: secret.Data[keyAuthorityCert], key: secret.Data[keyAuthorityKey]}
	renewAuthority := authorityDue(authority)
	if !renewAuthority.After(now) {
		if authority, err = newAuthority(now); err != nil {
			return due, false, err
		}
		secret.Data[keyAuthorityKey] = authority.key
		secret.Data[keyAuthorityCert] = append(bytes.Clone(authority.cert), stillValid(secret.Data[keyAuthorityCert], now)...)
		renewAuthority, changed = authorityDue(authority), true
	}
	serving := pair{cert: secret.Data[corev1.TLSCertKey], key: secret.Data[corev1.TLSPrivateKeyKey]}
	due = servingDue(serving, secret.Data[keyAuthorityCert], r.Hosts, now)
	if changed || !due.After(now) {
		if serving, err = newServing(now, r.names(serving, now), authority); err != nil {
			return due, false, err
		}
		secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = serving.cert, serving.key
		due, changed = servingDue(serving, authority.cert, r.Hosts, now), true
	}
	if renewAuthority.Before(due) {
		due = renewAuthority
	}
	return due, changed, nil
}

// names are the hosts, and those of a certificate that is replaced before it is due: while
// replicas run with different flags each would otherwise undo what the other made.
func (r *Rotation) names(before pair, now time.Time) []string {
	names := slices.Clone(r.Hosts)
	cert, err := usable(before)
	if err != nil || !renewAt(cert).After(now) {
		return names
	}
	also := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		also = append(also, ip.String())
	}
	for _, name := range also {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// stillValid is the first certificate of a bundle while it has not expired.
func stillValid(bundle []byte, now time.Time) []byte {
	cert, err := parseCertificate(bundle)
	if err != nil || now.After(cert.NotAfter) {
		return nil
	}
	end := bytes.Index(bundle, []byte("-----END CERTIFICATE-----"))
	return append(bytes.Clone(bundle[:end]), []byte("-----END CERTIFICATE-----\n")...)
}

func (r *Rotation) store(ctx context.Context, secret *corev1.Secret, missing bool) error {
	if !missing {
		if err := r.Client.Update(ctx, secret); err != nil {
			return fmt.Errorf("update Secret %s: %w", r.Secret, err)
		}
		return nil
	}
	secret.ObjectMeta = metav1.ObjectMeta{Name: r.Secret.Name, Namespace: r.Secret.Namespace}
	secret.Type = corev1.SecretTypeTLS
	if err := r.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("create Secret %s: %w", r.Secret, err)
	}
	return nil
}

// inject sets the CA bundle in the webhook configuration. One that does not exist is not
// made: whether admission is asked is the cluster administrator's decision.
func (r *Rotation) inject(ctx context.Context, bundle []byte) error {
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: r.Configuration}, config)
	if apierrors.IsNotFound(err) {
		logf.FromContext(ctx).Info("No webhook configuration: admission does not ask the gate", "configuration", r.Configuration)
		return nil
	}
	if err != nil {
		return fmt.Errorf("get ValidatingWebhookConfiguration %s: %w", r.Configuration, err)
	}
	before := config.DeepCopy()
	same := true
	for i := range config.Webhooks {
		same = same && bytes.Equal(config.Webhooks[i].ClientConfig.CABundle, bundle)
		config.Webhooks[i].ClientConfig.CABundle = bundle
	}
	if same {
		return nil
	}
	if err := r.Client.Patch(ctx, config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch ValidatingWebhookConfiguration %s: %w", r.Configuration, err)
	}
	return nil
}

// injectDefinition sets the CA bundle of the CRD's conversion webhook. One without has
// nothing to convert, or converts elsewhere.
func (r *Rotation) injectDefinition(ctx context.Context, bundle []byte) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: r.Definition}, crd)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get CustomResourceDefinition %s: %w", r.Definition, err)
	}
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
		logf.FromContext(ctx).Info("No conversion webhook: one API version is served rightly, and no other", "definition", r.Definition)
		return nil
	}
	if bytes.Equal(conversion.Webhook.ClientConfig.CABundle, bundle) {
		return nil
	}
	before := crd.DeepCopy()
	conversion.Webhook.ClientConfig.CABundle = bundle
	if err := r.Client.Patch(ctx, crd, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch CustomResourceDefinition %s: %w", r.Definition, err)
	}
	return nil
}
