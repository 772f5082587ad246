package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/admission"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// options of a run.
type options struct {
	decisions, owners, hosts int
	each                     time.Duration
	only                     string
	leads                    bool
	// root of the repository, the operator's binary, and where logs are kept.
	root, manager, dir string
}

// container is the memory that the manager's container has, in MiB (kustomize/base), and most
// what of it the manager may take at its peak.
const container, most = 512, container * 95 / 100

// bench is what the scenarios share.
type bench struct {
	options
	stage  *stage.Stage
	evil   *hostile
	client *http.Client
	// unanswered are questions without an answer.
	unanswered int
}

// figures of one scenario, in MiB.
type figures struct {
	name string
	// peak is what was resident at most (VmHWM), own what of it is no file's, and heap what
	// the heap had in use at most, where that was looked at.
	peak, own, heap, stacks float64
	// answers were held back at a time.
	answers int64
	// decided are all questions, of which some were allowed and some had no answer.
	decided, allowed, unanswered int
	// ended says that the operator did.
	ended bool
}

// measure runs every scenario against one process of the operator, so that what one leaves in its
// memory is there for the next.
func measure(ctx context.Context, o options, log io.Writer) (all []figures, err error) {
	b := &bench{options: o}
	b.stage, err = stage.Up(ctx, stage.Options{Root: o.root, Overlay: "kustomize/overlays/dev", Manager: o.manager, Dir: o.dir, Log: log, ManagerArgs: []string{fmt.Sprint("--leader-elect=", o.leads)}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stage.Stop()) }()
	ways, err := scenarios(b.stage.Key)
	if err != nil {
		return nil, err
	}
	if b.evil, err = serve(ways, o.hosts); err != nil {
		return nil, err
	}
	defer b.evil.stop()
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	rest, err := b.watch(ctx, func(context.Context) (int, int, error) { return 0, 0, nil })
	if err != nil {
		return nil, err
	}
	rest.name = "at rest"
	return b.runAll(ctx, ways, append(all, rest), log)
}

// runAll measures those scenarios that are asked for, one after the other, and then together.
func (b *bench) runAll(ctx context.Context, ways []scenario, all []figures, log io.Writer) ([]figures, error) {
	runs := map[string][]scenario{together: ways}
	var names []string
	for _, s := range ways {
		names, runs[s.name] = append(names, s.name), []scenario{s}
	}
	for _, name := range append(names, together) {
		if b.only != "" && !slices.Contains(strings.Split(b.only, ","), name) {
			continue
		}
		_, _ = fmt.Fprintln(log, name)
		f, err := b.watch(ctx, func(ctx context.Context) (int, int, error) { return b.attack(ctx, runs[name]) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w; the operator's log is %s", name, err, b.stage.Manager.Log())
		}
		f.name = name
		all = append(all, f)
	}
	return all, nil
}

// together is all scenarios at once.
const together = "all at once"

// prepare makes the namespaces and their Gate, and a client that asks the operator's webhooks.
func (b *bench) prepare(ctx context.Context) error {
	g := gate(b.evil.hosts)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(g)
	if err != nil {
		return fmt.Errorf("write the Gate: %w", err)
	}
	objects := []*unstructured.Unstructured{{Object: content}}
	for i := range b.owners {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": owner(i), "labels": map[string]any{"bench": "memory"}},
		}})
	}
	if err := b.stage.Cluster.Apply(ctx, objects); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(b.stage.Cluster.Config())
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	secret, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(stage.OperatorNamespace).
		Get(ctx, "sluice-webhook-certificate", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the webhooks' authority: %w", err)
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", "ca.crt")
	authority, err := base64.StdEncoding.DecodeString(encoded)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(authority) {
		return errors.New("read the webhooks' authority: there is none in the Secret")
	}
	b.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, MaxIdleConnsPerHost: b.decisions,
	}}
	return nil
}

func owner(i int) string { return fmt.Sprint("tenant-", i) }

// gate demands what has the most of an image read, of images in some registries: signatures, and
// an SBOM that a policy likes.
func gate(hosts []string) *v1beta1.Gate {
	var rules []v1beta1.ImageRule
	for _, host := range hosts {
		rules = append(rules, v1beta1.ImageRule{
			Match: host + "/**",
			Authorities: []v1beta1.Authority{{Name: "release", Key: &v1beta1.PublicKey{Secret: &v1beta1.SecretKeyRef{
				NamespacedName: v1beta1.NamespacedName{Name: stage.SignerSecret, Namespace: stage.OperatorNamespace}, Key: "cosign.pub",
			}}}},
			Attestations: []v1beta1.AttestationRule{{
				PredicateType: sbom, Policy: "package sboms\ndeny contains \"no packages\" if count(input.predicate.packages) < 10\n",
			}},
		})
	}
	return &v1beta1.Gate{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.GateKind},
		ObjectMeta: metav1.ObjectMeta{Name: "memory"},
		Spec: v1beta1.GateSpec{
			Environment: "dev", Mode: v1beta1.GateModeEnforce,
			Match: v1beta1.GateMatch{
				Kinds: []v1beta1.JudgedKind{"Pod"}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"bench": "memory"}},
			},
			UnmatchedImages: v1beta1.UnmatchedImagesDeny,
			Images:          rules,
		},
	}
}

// attack asks for decisions over a scenario's pods, as many at a time as there are, for as long
// as each scenario takes.
func (b *bench) attack(ctx context.Context, ways []scenario) (decided, allowed int, err error) {
	end := time.Now().Add(b.each)
	var group errgroup.Group
	var mu sync.Mutex
	for i := range b.decisions {
		group.Go(func() error {
			for round := 0; time.Now().Before(end); round++ {
				ok, err := b.ask(ctx, ways[(i/b.owners+i)%len(ways)], owner(i%b.owners), round*b.decisions+i)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				mu.Lock()
				switch {
				case err != nil:
					b.unanswered++
				case ok:
					allowed++
				}
				decided++
				mu.Unlock()
			}
			return nil
		})
	}
	err = group.Wait()
	return decided, allowed, err
}

// ask is one question of the API server's, and whether the answer is yes.
func (b *bench) ask(ctx context.Context, s scenario, namespace string, i int) (bool, error) {
	pod, err := b.evil.pod(s, namespace, i)
	if err != nil {
		return false, fmt.Errorf("write a pod: %w", err)
	}
	raw, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(fmt.Sprint("u-", i)), Operation: admissionv1.Create, Name: fmt.Sprint("p", i), Namespace: namespace,
			Object: runtime.RawExtension{Raw: pod},
		},
	})
	if err != nil {
		return false, fmt.Errorf("write a review: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.stage.WebhookURL+admission.PathObjects, bytes.NewReader(raw))
	if err != nil {
		return false, fmt.Errorf("ask the webhook: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := b.client.Do(request)
	if err != nil {
		return false, fmt.Errorf("ask the webhook: %w", err)
	}
	defer response.Body.Close()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Response == nil {
		return false, fmt.Errorf("the webhook answers %s: %w", response.Status, err)
	}
	return answer.Response.Allowed, nil
}

// watch measures the manager while something is done.
func (b *bench) watch(ctx context.Context, do func(context.Context) (decided, allowed int, err error)) (f figures, err error) {
	m := b.stage.Manager
	if err := m.ForgetPeakRSS(); err != nil {
		return f, err
	}
	b.evil.most.Store(0)
	b.unanswered = 0
	over := make(chan struct{})
	var sampling sync.WaitGroup
	every := func(pause time.Duration, look func()) {
		sampling.Go(func() {
			for tick := time.NewTicker(pause); ; {
				look()
				select {
				case <-tick.C:
				case <-over:
					tick.Stop()
					return
				}
			}
		})
	}
	// One that has ended has neither: that is told below.
	every(20*time.Millisecond, func() {
		own, _ := m.OwnRSS()
		peak, _ := m.PeakRSS()
		f.own, f.peak = max(f.own, mib(own)), max(f.peak, mib(peak))
	})
	every(500*time.Millisecond, func() {
		if found, err := b.stage.Metrics(ctx); err == nil {
			f.heap = max(f.heap, mib(found.Sum("go_memstats_heap_inuse_bytes", "", "")))
			f.stacks = max(f.stacks, mib(found.Sum("go_memstats_stack_inuse_bytes", "", "")))
		}
	})
	f.decided, f.allowed, err = do(ctx)
	close(over)
	sampling.Wait()
	peak, _ := m.PeakRSS()
	f.peak, f.answers = max(f.peak, mib(peak)), b.evil.most.Load()
	f.unanswered = b.unanswered
	select {
	case <-b.stage.Manager.Done():
		f.ended = true
		return f, errors.Join(err, b.stage.StartManager(ctx))
	default:
		return f, err
	}
}

// mib is so many bytes in MiB.
func mib[T int64 | float64](bytes T) float64 { return float64(bytes) / (1 << 20) }

// table is all of it in Markdown.
func table(all []figures) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| evidence | peak | of that, no file's | heap in use | stacks | answers at a time | decisions | allowed |")
	fmt.Fprintln(&b, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, f := range all {
		fmt.Fprintf(&b, "| %s | %.0f MiB | %.0f MiB | %.0f MiB | %.0f MiB | %d | %d | %d |\n", f.name, f.peak, f.own, f.heap, f.stacks, f.answers, f.decided, f.allowed)
	}
	return b.String()
}

// check says which scenario took too much.
func check(all []figures) error {
	for _, f := range all {
		if f.ended {
			return fmt.Errorf("%s: the operator ended at %.0f MiB", f.name, f.peak)
		}
		if f.unanswered > 0 {
			return fmt.Errorf("%s: %d of %d questions had no answer", f.name, f.unanswered, f.decided)
		}
		if f.peak > most {
			return fmt.Errorf("%s: the operator takes %.0f MiB, and should take no more than %d of the %d that it has", f.name, f.peak, most, container)
		}
	}
	return nil
}
