package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// admissionReads is what a verdict at admission takes of the cluster: of Secrets and
// ConfigMaps those that Gates may name. Workloads are not waited for: a replica may have to
// convert them before it can list them.
var admissionReads = []string{"gates ", "exemptions ", "namespaces ", "secrets " + stage.OperatorNamespace, "configmaps " + stage.OperatorNamespace}

// reads says whether admission reads objects of a kind, wherever they are.
func reads(resource string) bool {
	return slices.ContainsFunc(admissionReads, func(what string) bool { return strings.HasPrefix(what, resource+" ") })
}

// ownCertificate is the Secret that a replica looks at for itself.
const ownCertificate = "sluice-webhook-certificate"

// watched is how often a replica has begun to watch each of them.
func (r *replicas) watched(t *testing.T, by *replica) map[string]int {
	t.Helper()
	r.log.read(t)
	out := map[string]int{}
	for _, e := range r.log.watches {
		if what := e.ObjectRef.Resource + " " + e.ObjectRef.Namespace; credential(e) == by.credential && e.ObjectRef.Name != ownCertificate && slices.Contains(admissionReads, what) {
			out[what]++
		}
	}
	return out
}

// standsBy checks that a replica is warm once it says that it is ready, though it does not
// lead and nobody has asked it anything: it watches all that admission reads, gives verdicts
// without asking the API server for any of it, and writes nothing. It is one more, which is
// not behind the Service, and ends with the test.
func (r *replicas) standsBy(t *testing.T) {
	p, err := r.stage.StartReplica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := r.replica(t, p.Process)
	before := r.watched(t, other)
	for _, what := range admissionReads {
		if before[what] == 0 {
			t.Errorf("the standby does not watch %s", what)
		}
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	// A verdict takes the Gates, the labels of the namespace, and the Secret with the key.
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sluice.dev/v1beta1", "kind": "Workload", "spec": map[string]any{"image": signedImage},
		"metadata": map[string]any{"name": "asked", "namespace": led},
	}}
	if err := r.client.Create(t.Context(), w, client.DryRunAll); err != nil { // for the defaults
		t.Fatal(err)
	}
	from := len(r.log.read(t))
	for image, allowed := range map[string]bool{signedImage: true, unsignedImage: false} {
		if err := unstructured.SetNestedField(w.Object, image, "spec", "image"); err != nil {
			t.Fatal(err)
		}
		if got := review(t, p.Webhooks, w); got.Allowed != allowed || !allowed && !strings.Contains(got.Result.Message, "signature") {
			t.Errorf("%s: allowed is %t: %+v", image, got.Allowed, got.Result)
		}
	}
	// The log has it once it has what was asked after it.
	r.await(t, "the standby looks at the Lease", func(ctx context.Context) error {
		if !slices.ContainsFunc(r.log.read(t)[from:], func(e *auditv1.Event) bool {
			return credential(e) == other.credential && e.ObjectRef.Resource == "leases"
		}) {
			return errors.New("it has not")
		}
		return nil
	})
	if now := r.watched(t, other); !maps.Equal(now, before) {
		t.Errorf("the standby watches %v since it was asked, and %v before", now, before)
	}
	for i, e := range r.log.read(t) {
		switch ref := e.ObjectRef; {
		case credential(e) != other.credential || ref.Name == ownCertificate:
		case i >= from && e.Verb != "watch" && reads(ref.Resource), writes(e) && ref.Namespace == led:
			t.Errorf("the standby: %s %s %s/%s", e.Verb, ref.Resource, ref.Namespace, ref.Name)
		}
	}
}

// review asks one replica for a verdict on a new Workload, as the API server does.
func review(t *testing.T, webhooks string, w *unstructured.Unstructured) *admissionv1.AdmissionResponse {
	t.Helper()
	raw, err := w.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	dry := true
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "standby", Operation: admissionv1.Create, Namespace: w.GetNamespace(), Name: w.GetName(), DryRun: &dry,
			Kind:     metav1.GroupVersionKind{Group: "sluice.dev", Version: "v1beta1", Kind: "Workload"},
			Resource: metav1.GroupVersionResource{Group: "sluice.dev", Version: "v1beta1", Resource: "workloads"},
			UserInfo: authenticationv1.UserInfo{Username: "somebody"}, Object: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// Who answers is known by the address: the certificate is for the Service.
	direct := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+webhooks+"/validate-workload", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := direct.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var out admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil || out.Response == nil {
		t.Fatalf("%s: %v", response.Status, err)
	}
	return out.Response
}
