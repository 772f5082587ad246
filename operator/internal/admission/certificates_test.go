package admission_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/admission"
)

const day = 24 * time.Hour

// replica is one process' rotation, with a clock that is moved by hand.
type replica struct {
	*admission.Rotation
	t   *testing.T
	now time.Time
}

// newReplica rotates a Secret of the test's own.
func newReplica(t *testing.T, hosts ...string) *replica {
	t.Helper()
	name := "certificate-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	name = name[:min(len(name), 60)]
	r := &replica{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.Rotation = &admission.Rotation{
		Client: api, Secret: client.ObjectKey{Namespace: operatorNamespace, Name: strings.Trim(name, "-")}, Configuration: "none", Definition: "none",
		Hosts: append([]string{"sluice-webhook.sluice-system.svc", "sluice-webhook.sluice-system.svc.cluster.local", "127.0.0.1"}, hosts...),
		Now:   func() time.Time { return r.now },
	}
	return r
}

func (r *replica) ensure() time.Time {
	r.t.Helper()
	due, err := r.Ensure(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return due
}

func (r *replica) secret() *corev1.Secret {
	r.t.Helper()
	s := &corev1.Secret{}
	if err := api.Get(r.t.Context(), r.Secret, s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// served is the certificate that a client is shown.
func (r *replica) served() *x509.Certificate {
	r.t.Helper()
	pair, err := r.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		r.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		r.t.Fatal(err)
	}
	return cert
}

// trusted says why a client that trusts the bundle would not trust the certificate.
func trusted(cert *x509.Certificate, bundle []byte, now time.Time, hosts ...string) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return fmt.Errorf("no certificate in the bundle %q", bundle)
	}
	for _, h := range hosts {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: h, CurrentTime: now}); err != nil {
			return fmt.Errorf("%s: %w", h, err)
		}
	}
	return nil
}

func authorities(bundle []byte) int { return bytes.Count(bundle, []byte("BEGIN CERTIFICATE")) }

func TestRotation_MakesACertificateForEveryHost(t *testing.T) {
	r := newReplica(t, "webhook.example.com", "::1")
	if r.Ready(nil) == nil {
		t.Error("ready without a certificate")
	}
	due := r.ensure()
	if err := trusted(r.served(), r.secret().Data["ca.crt"], r.now, r.Hosts...); err != nil {
		t.Error(err)
	}
	if trusted(r.served(), r.secret().Data["ca.crt"], r.now, "other.example.com") == nil {
		t.Error("good for a host it was not asked for")
	}
	// 90 days and the hour that clocks may differ by, two thirds of it.
	if want := r.now.Add(-time.Hour).Add((90*day + time.Hour) * 2 / 3); due.Sub(want).Abs() > time.Second {
		t.Errorf("due %s, want %s", due, want)
	}
	if r.Ready(nil) != nil || r.secret().Type != corev1.SecretTypeTLS {
		t.Errorf("ready: %v, type %s", r.Ready(nil), r.secret().Type)
	}
	before := r.secret().ResourceVersion
	r.now = due.Add(-time.Minute)
	r.ensure()
	if r.secret().ResourceVersion != before {
		t.Error("renewed before it is due")
	}
	// A second process takes what is there.
	second := newReplica(t, "webhook.example.com")
	second.ensure()
	if !second.served().Equal(r.served()) || r.secret().ResourceVersion != before {
		t.Error("a second process made its own")
	}
}

func TestRotation_RenewsInTime(t *testing.T) {
	r := newReplica(t)
	due := r.ensure()
	first, authority := r.served(), r.secret().Data["ca.crt"]
	r.now = due.Add(time.Second)
	r.ensure()
	if r.served().Equal(first) {
		t.Error("not renewed after two thirds of its life")
	}
	if !bytes.Equal(authority, r.secret().Data["ca.crt"]) {
		t.Error("the authority changed with it")
	}
}

// A replica that has not seen the new authority yet still serves under the old one.
func TestRotation_TrustsTheOldAuthorityUntilItExpires(t *testing.T) {
	r := newReplica(t)
	r.ensure()
	oldBundle := r.secret().Data["ca.crt"]
	for authorities(r.secret().Data["ca.crt"]) == 1 {
		old := r.served()
		r.now = r.ensure().Add(time.Second)
		r.ensure()
		bundle := r.secret().Data["ca.crt"]
		if err := trusted(r.served(), bundle, r.now, r.Hosts...); err != nil {
			t.Fatal(err)
		}
		if err := trusted(old, bundle, r.now, r.Hosts...); err != nil {
			t.Fatalf("the certificate before is not trusted any more: %v", err)
		}
		if r.now.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) > 300*day {
			t.Fatal("the authority is never renewed")
		}
	}
	bundle := r.secret().Data["ca.crt"]
	if !bytes.HasSuffix(bundle, oldBundle) || authorities(bundle) != 2 {
		t.Error("the bundle does not hold the authority before")
	}
	if trusted(r.served(), oldBundle, r.now, r.Hosts...) == nil {
		t.Error("the new certificate is the old authority's")
	}
	r.now = r.now.Add(260 * day)
	r.ensure()
	if got := r.secret().Data["ca.crt"]; authorities(got) != 2 || bytes.Contains(got, oldBundle) {
		t.Errorf("%d authorities; the expired one is kept", authorities(got))
	}
}

func TestRotation_RepairsASecret(t *testing.T) {
	other := newReplica(t)
	other.Secret.Name = "certificate-other"
	other.ensure()
	foreign := other.secret().Data
	garbage := []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	for name, damage := range map[string]func(map[string][]byte){
		"nothing in it":                  func(d map[string][]byte) { clear(d) },
		"no text in the certificate":     func(d map[string][]byte) { d["tls.crt"] = nil },
		"garbage for the certificate":    func(d map[string][]byte) { d["tls.crt"] = garbage },
		"garbage for the key":            func(d map[string][]byte) { d["tls.key"] = []byte("\x00") },
		"a key of another certificate":   func(d map[string][]byte) { d["tls.key"] = foreign["tls.key"] },
		"a certificate of another chain": func(d map[string][]byte) { d["tls.crt"], d["tls.key"] = foreign["tls.crt"], foreign["tls.key"] },
		"no authority":                   func(d map[string][]byte) { d["ca.crt"] = nil },
		"garbage for the authority":      func(d map[string][]byte) { d["ca.crt"] = garbage },
		"no key of the authority":        func(d map[string][]byte) { d["ca.key"] = nil },
		"the key of another authority":   func(d map[string][]byte) { d["ca.key"] = foreign["ca.key"] },
		"another authority":              func(d map[string][]byte) { d["ca.crt"] = foreign["ca.crt"] },
		"an authority that is none":      func(d map[string][]byte) { d["ca.crt"], d["ca.key"] = d["tls.crt"], d["tls.key"] },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplica(t)
			r.ensure()
			s := r.secret()
			damage(s.Data)
			for _, key := range []string{"tls.crt", "tls.key"} {
				if s.Data[key] == nil {
					s.Data[key] = []byte{} // a Secret of this type has to have both
				}
			}
			if err := api.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			r.ensure()
			s = r.secret()
			if err := trusted(r.served(), s.Data["ca.crt"], r.now, r.Hosts...); err != nil {
				t.Error(err)
			}
			block, _ := pem.Decode(s.Data["tls.crt"])
			if block == nil || !bytes.Equal(block.Bytes, r.served().Raw) {
				t.Error("what is served is not what the Secret holds")
			}
			r.ensure()
			if again := r.secret(); again.ResourceVersion != s.ResourceVersion {
				t.Error("repaired once more")
			}
		})
	}
}

func TestRotation_OfManyReplicasEndsWithOneSecret(t *testing.T) {
	var replicas []*replica
	for range 8 {
		replicas = append(replicas, newReplica(t))
	}
	var group sync.WaitGroup
	for _, r := range replicas {
		group.Go(func() {
			for {
				result, err := r.Reconcile(context.Background(), ctrl.Request{})
				if err != nil {
					t.Error(err)
					return
				}
				if result.RequeueAfter > time.Second {
					return
				}
			}
		})
	}
	group.Wait()
	for _, r := range replicas {
		r.ensure()
		if !r.served().Equal(replicas[0].served()) {
			t.Error("two replicas serve different certificates")
		}
	}
	if err := trusted(replicas[0].served(), replicas[0].secret().Data["ca.crt"], replicas[0].now, replicas[0].Hosts...); err != nil {
		t.Error(err)
	}
}

// While an upgrade that changes flags rolls out, two hosts are asked for.
func TestRotation_OfReplicasWithDifferentHostsSettles(t *testing.T) {
	a, b := newReplica(t, "a.example.com"), newReplica(t, "b.example.com")
	a.ensure()
	b.ensure()
	a.ensure()
	settled := a.secret().ResourceVersion
	for range 3 {
		a.ensure()
		b.ensure()
	}
	if a.secret().ResourceVersion != settled {
		t.Error("each undoes what the other made")
	}
	if err := trusted(a.served(), a.secret().Data["ca.crt"], a.now, append(a.Hosts, b.Hosts...)...); err != nil {
		t.Error(err)
	}
	// The next one that is due names only what is asked for.
	a.now = a.ensure().Add(time.Second)
	a.ensure()
	if diff := cmp.Diff([]string{"sluice-webhook.sluice-system.svc", "sluice-webhook.sluice-system.svc.cluster.local", "a.example.com"}, a.served().DNSNames); diff != "" {
		t.Error(diff)
	}
}

func TestRotation_TellsTheAPIServerWhomToTrust(t *testing.T) {
	r := newReplica(t)
	r.Configuration = "certificates.test"
	fail, none, url := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, "https://127.0.0.1:1/"
	hook := func(name string) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name: name, AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
		}
	}
	r.ensure() // one that is missing is no error
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: r.Configuration},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{hook("a.example.com"), hook("b.example.com")},
	}
	if err := api.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), config) })
	r.ensure()
	check := func(when string) string {
		t.Helper()
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			t.Fatal(err)
		}
		for _, w := range config.Webhooks {
			if !bytes.Equal(w.ClientConfig.CABundle, r.secret().Data["ca.crt"]) {
				t.Errorf("%s: bundle %q", when, w.ClientConfig.CABundle)
			}
		}
		return config.ResourceVersion
	}
	version := check("at first")
	r.ensure()
	if check("at rest") != version {
		t.Error("written again")
	}
	config.Webhooks[1].ClientConfig.CABundle = nil
	if err := api.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	r.ensure()
	check("after it was wiped")
	r.now = r.now.Add(250 * day)
	r.ensure()
	check("after the authority was renewed")
}

func TestRotation_LooksAgainByItsOwnClock(t *testing.T) {
	r := newReplica(t)
	r.now = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	result, err := r.Reconcile(t.Context(), ctrl.Request{})
	if err != nil || result.RequeueAfter < 59*day || result.RequeueAfter > 61*day {
		t.Errorf("again in %s, %v", result.RequeueAfter, err)
	}
}

func TestRotation_ServesNothingThatTheAPIServerWasNotTold(t *testing.T) {
	r := newReplica(t)
	r.Client = failing{r.Client}
	if _, err := r.Ensure(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if r.Ready(nil) == nil {
		t.Error("serves a certificate whose authority nobody was told")
	}
}

// failing cannot read webhook configurations.
type failing struct{ client.Client }

func (f failing) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
		return apierrors.NewInternalError(fmt.Errorf("etcd is away"))
	}
	return f.Client.Get(ctx, key, o, opts...)
}
