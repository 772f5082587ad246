package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// The field's predicate types that the cases use.
const (
	provenance = "https://slsa.dev/provenance/v1"
	vulnScan   = "https://cosign.sigstore.dev/attestation/vuln/v1"
)

// bench is a registry, signers, and one Gate over everything in the registry.
type bench struct {
	registry *testkit.Registry
	key      *testkit.Key
	other    *testkit.Key
	rule     v1beta1.ImageRule
	// promotion and policies that the Gate demands, if any, and what it attests.
	promotion *v1beta1.RequirePromotionFrom
	attests   *v1beta1.Attest
	policies  []v1beta1.PolicySource
	now       time.Time
	judge     *gather.Judge
	// outside counts requests to a TUF repository that nobody should ask.
	outside atomic.Int64
	tuf     *httptest.Server
	// again judges each pod once more from a recording of the registry.
	again bool
}

func newBench() (*bench, error) {
	keys, err := twoKeys()
	if err != nil {
		return nil, err
	}
	b := &bench{now: time.Now(), key: keys[0], other: keys[1]}
	b.tuf = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.outside.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	b.use(testkit.RegistryOptions{Referrers: true})
	return b, nil
}

// twoKeys are the same for every bench: making one takes a fifth of a second, since its
// private half is encrypted.
var twoKeys = sync.OnceValues(func() ([2]*testkit.Key, error) {
	key, err := testkit.NewKey()
	if err != nil {
		return [2]*testkit.Key{}, err
	}
	other, err := testkit.NewKey()
	return [2]*testkit.Key{key, other}, err
})

// use replaces the registry by one of another kind.
func (b *bench) use(options testkit.RegistryOptions) {
	if b.registry != nil {
		b.registry.Close()
	}
	b.registry = testkit.NewRegistry(options)
	b.rule = v1beta1.ImageRule{Match: b.registry.Host() + "/**", Authorities: []v1beta1.Authority{byKey("release-key", b.key)}}
}

func (b *bench) close() {
	b.registry.Close()
	b.tuf.Close()
}

func byKey(name string, k *testkit.Key) v1beta1.Authority {
	return v1beta1.Authority{Name: name, Key: &v1beta1.PublicKey{Inline: k.PublicPEM}}
}

// repository is where the image of a case lives.
func (b *bench) repository() string { return b.registry.Host() + "/shop/app" }

// push pushes an image and returns its digest.
func (b *bench) push() (string, error) { return testkit.PushImage(b.repository()+":1", "app") }

func (b *bench) gate() v1beta1.Gate {
	return v1beta1.Gate{
		ObjectMeta: metav1.ObjectMeta{Name: "case"},
		Spec: v1beta1.GateSpec{
			Environment: "case", Mode: v1beta1.GateModeEnforce, UnmatchedImages: v1beta1.UnmatchedImagesDeny,
			Match:  v1beta1.GateMatch{Kinds: []v1beta1.JudgedKind{"Pod"}},
			Images: []v1beta1.ImageRule{b.rule}, RequirePromotionFrom: b.promotion, Attest: b.attests, Policies: b.policies,
		},
	}
}

// pod judges a pod with the image in its one container, changed by the edits. The engine,
// with its memory of the registry, is kept from one call to the next.
func (b *bench) pod(ctx context.Context, image string, edits ...func(spec map[string]any)) (gate.Verdict, error) {
	now := func() time.Time { return b.now }
	keys := trust.New(trust.Options{Repository: b.tuf.URL, Anchor: []byte("{}")})
	if b.judge == nil {
		var err error
		if b.judge, err = b.judgeBy(registry.New(registry.Options{Now: now}), keys); err != nil {
			return gate.Verdict{}, err
		}
	}
	spec := map[string]any{"containers": []any{map[string]any{"name": "app", "image": image}}}
	for _, edit := range edits {
		edit(spec)
	}
	verdict, err := verdictOver(ctx, b.judge, spec)
	if err != nil || !b.again {
		return verdict, err
	}
	recording := registry.NewRecording(b.now)
	recorder := registry.New(registry.Options{Now: now, Record: recording})
	offline := registry.New(registry.Options{Now: now, Offline: recording, MaxAge: time.Hour})
	for _, from := range []struct {
		client *registry.Client
		keys   gather.Keys
	}{{recorder, keys}, {offline, &trust.Offline{}}} {
		judge, err := b.judgeBy(from.client, from.keys)
		if err != nil {
			return verdict, err
		}
		same, err := verdictOver(ctx, judge, spec)
		if err != nil {
			return verdict, err
		}
		// Of a registry that is down there is nothing to record, and other words for it.
		unknown := verdict.Outcome == gate.OutcomeError && same.Outcome == gate.OutcomeError
		if !unknown && !bytes.Equal(same.Canonical(), verdict.Canonical()) {
			return verdict, fmt.Errorf("from a recording the verdict is %s and not %s", same.Canonical(), verdict.Canonical())
		}
		if missing := recorder.Complete(ctx); !unknown && len(missing) > 0 {
			return verdict, fmt.Errorf("the recording is not complete: %v", missing)
		}
	}
	return verdict, nil
}

// judgeBy makes the engine over what a registry, or a recording of it, has.
func (b *bench) judgeBy(client *registry.Client, keys gather.Keys) (*gather.Judge, error) {
	files := &gather.Files{GateList: []v1beta1.Gate{b.gate()}, Namespaces: map[string]map[string]string{"shop": {}}, Clock: func() time.Time { return b.now }}
	if errs := gather.ValidateGate(&files.GateList[0]); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return gather.NewJudge(files, client, keys), nil
}

func verdictOver(ctx context.Context, judge *gather.Judge, spec map[string]any) (gate.Verdict, error) {
	j := judge.Object(ctx, map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "app", "namespace": "shop"}, "spec": spec,
	}, "shop")
	if len(j.Verdicts) != 1 {
		return gate.Verdict{}, fmt.Errorf("%d verdicts", len(j.Verdicts))
	}
	return j.Verdicts[0], nil
}

// hold compares a verdict with what is right.
func hold(v gate.Verdict, right gate.Outcome, says string) error {
	if v.Outcome != right {
		return fmt.Errorf("the verdict is %s", v.Canonical())
	}
	if !strings.Contains(string(v.Canonical()), says) {
		return fmt.Errorf("the verdict does not say %q: %s", says, v.Canonical())
	}
	return nil
}

func require(s string) *intstr.IntOrString {
	v := intstr.FromString(s)
	return &v
}

// rootFile writes a trusted root to a file; the caller removes it.
func rootFile(s *testkit.Sigstore) (string, error) {
	raw, err := s.TrustedRootJSON()
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "trusted_root-*.json")
	if err != nil {
		return "", err
	}
	if _, err := f.Write(raw); err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}
