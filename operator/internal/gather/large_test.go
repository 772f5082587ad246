package gather_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

const (
	sbom = "https://spdx.dev/Document"
	vuln = "https://cosign.sigstore.dev/attestation/vuln/v1"
)

// packages is an SBOM of about so many bytes.
func packages(bytes int) map[string]any {
	var list []any
	for i := 0; bytes > 0; i++ {
		p := map[string]any{"SPDXID": fmt.Sprint("SPDXRef-", i), "licenseConcluded": strings.Repeat("x", 800)}
		list = append(list, p)
		bytes -= 850
	}
	return map[string]any{"spdxVersion": "SPDX-2.3", "packages": list}
}

type attest func(s *stand, by *testkit.Key, predicateType string, predicate any) error

func inBundle(s *stand, by *testkit.Key, predicateType string, predicate any) error {
	return by.AttestBundle(s.repository(), s.digest, predicateType, predicate)
}

func underTag(s *stand, by *testkit.Key, predicateType string, predicate any) error {
	return by.AttestTag(s.repository(), s.digest, predicateType, predicate)
}

func (s *stand) repository() string { return s.registry.Host() + "/shop/signed" }

// junk stores a bundle of so many bytes under a label, as anybody who may push can.
func (s *stand) junk(bytes int, label string) error {
	content := fmt.Appendf(make([]byte, bytes-20), "%020d", s.registry.Requests())
	return testkit.StoreBundle(s.repository(), s.digest, content, label)
}

// demand makes the Gate ask for an attestation, and for a signature too.
func (s *stand) demand(predicateType, policy string) {
	rule := &s.files.GateList[0].Spec.Images[0]
	rule.Attestations = []v1beta1.AttestationRule{{PredicateType: predicateType, Policy: policy}}
}

// A statement may have 16 MiB, in both formats, and a policy sees all of it.
func TestJudge_LargeAttestations(t *testing.T) {
	const none = "package sboms\ndeny contains \"no packages\" if count(input.predicate.packages) < 10000\n"
	for title, store := range map[string]attest{"in a bundle": inBundle, "under the .att tag": underTag} {
		for name, c := range map[string]struct {
			bytes  int
			policy string
			want   gate.Outcome
			says   string
		}{
			"10 MiB":                         {10 << 20, none, gate.OutcomeAllow, ""},
			"10 MiB that the policy refuses": {10 << 20, strings.Replace(none, "10000", "1000000", 1), gate.OutcomeDeny, "no packages"},
			"near the limit of 16 MiB":       {limits.StatementBytes - 1<<20, "", gate.OutcomeAllow, ""},
		} {
			t.Run(name+" "+title, func(t *testing.T) {
				s := newStand(t)
				s.demand(sbom, c.policy)
				if err := store(s, s.key, sbom, packages(c.bytes)); err != nil {
					t.Fatal(err)
				}
				j := s.judge(workload(s.image("signed")), nil)
				if got := j.Verdicts[0].Outcome; got != c.want || !strings.Contains(findings(j), c.says) {
					t.Errorf("%s: %s", got, findings(j))
				}
			})
		}
	}
}

// Whoever may push cannot stop what is satisfied without him; where it is not, or where
// his may be a newer scan, the decision says what it could not read.
func TestJudge_BlobsThatAreTooLarge(t *testing.T) {
	const over = limits.AttestationBytes + 1
	small := packages(1 << 10)
	for name, c := range map[string]struct {
		prepare func(*stand) error
		want    gate.Outcome
		says    string
	}{
		"a signature, and a large one beside it":         {func(s *stand) error { return s.junk(limits.SignatureBlobBytes+1, testkit.PredicateSign) }, gate.OutcomeAllow, ""},
		"a signature, and a large thing without a label": {func(s *stand) error { return s.junk(over, "") }, gate.OutcomeAllow, ""},
		"an SBOM, and a large one beside it": {func(s *stand) error {
			s.demand(sbom, "")
			return first(s.junk(over, sbom), inBundle(s, s.key, sbom, small))
		}, gate.OutcomeAllow, ""},
		"an SBOM under the tag, and a large one in a bundle": {func(s *stand) error {
			s.demand(sbom, "")
			return first(s.junk(over, sbom), underTag(s, s.key, sbom, small))
		}, gate.OutcomeAllow, ""},
		"no SBOM but a large one": {func(s *stand) error {
			s.demand(sbom, "")
			return s.junk(over, sbom)
		}, gate.OutcomeError, "(limits.AttestationBytes)"},
		"no SBOM but a large thing without a label": {func(s *stand) error {
			s.demand(sbom, "")
			return s.junk(over, "")
		}, gate.OutcomeError, "(limits.AttestationBytes)"},
		"an SBOM by another, and a large scan": {func(s *stand) error {
			s.demand(sbom, "")
			return first(s.junk(over, vuln), inBundle(s, s.other, sbom, small))
		}, gate.OutcomeDeny, sbom},
		"a scan, and a large one that may be newer": {func(s *stand) error {
			s.demand(vuln, "")
			return first(s.junk(over, vuln), inBundle(s, s.key, vuln, map[string]any{}))
		}, gate.OutcomeError, "(limits.AttestationBytes)"},
		"an SBOM of too many parts for a policy": {func(s *stand) error {
			s.demand(sbom, notOurs)
			return inBundle(s, s.key, sbom, manyParts())
		}, gate.OutcomeError, "(limits.StatementParts)"},
		"an SBOM of too many parts for a policy, under the tag": {func(s *stand) error {
			s.demand(sbom, notOurs)
			return underTag(s, s.key, sbom, manyParts())
		}, gate.OutcomeError, "ask for it without a policy"},
		"an SBOM of too many parts for a policy, and a small one": {func(s *stand) error {
			s.demand(sbom, notOurs)
			return first(inBundle(s, s.key, sbom, manyParts()), inBundle(s, s.key, sbom, small))
		}, gate.OutcomeAllow, ""},
		"an SBOM of too many parts for a policy, by another": {func(s *stand) error {
			s.demand(sbom, notOurs)
			return inBundle(s, s.other, sbom, manyParts())
		}, gate.OutcomeDeny, sbom},
		"an SBOM of too many names": {func(s *stand) error {
			s.demand(sbom, "")
			return inBundle(s, s.key, sbom, manyNames())
		}, gate.OutcomeDeny, "one by authority release-key cannot be read (reading the statement: its JSON has more than 100000 names in one object (limits.StatementNames))"},
		"an SBOM of too many names by another": {func(s *stand) error {
			s.demand(sbom, "")
			return inBundle(s, s.other, sbom, manyNames())
		}, gate.OutcomeDeny, "accepts; attest it"},
		"an SBOM of many parts that only has to be there": {func(s *stand) error {
			s.demand(sbom, "")
			return inBundle(s, s.key, sbom, manyParts())
		}, gate.OutcomeAllow, ""},
		"three large ones by another before a small one": {func(s *stand) error {
			s.demand(sbom, "")
			return first(s.junk(20<<20, sbom), s.junk(20<<20, sbom), s.junk(20<<20, sbom), inBundle(s, s.key, sbom, small))
		}, gate.OutcomeAllow, ""},
		"three large ones before one that is no smaller": {func(s *stand) error {
			s.demand(sbom, "")
			return first(s.junk(15<<20, sbom), s.junk(15<<20, sbom), s.junk(15<<20, sbom), inBundle(s, s.key, sbom, packages(14<<20)))
		}, gate.OutcomeError, "(limits.EvidenceBytes)"},
		"a large one where all keys have to sign, and one did": {func(s *stand) error {
			rule := &s.files.GateList[0].Spec.Images[0]
			rule.Require = &intstr.IntOrString{Type: intstr.String, StrVal: "all"}
			rule.Authorities = append(rule.Authorities, v1beta1.Authority{Name: "other", Key: &v1beta1.PublicKey{Inline: s.other.PublicPEM}})
			return s.junk(limits.SignatureBlobBytes+1, testkit.PredicateSign)
		}, gate.OutcomeError, "(limits.SignatureBlobBytes)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			if err := c.prepare(s); err != nil {
				t.Fatal(err)
			}
			j := s.judge(workload(s.image("signed")), nil)
			if got := j.Verdicts[0].Outcome; got != c.want || !strings.Contains(findings(j), c.says) {
				t.Errorf("%s: %s", got, findings(j))
			}
		})
	}
}

// notOurs is a policy that every predicate passes that does not say that it is refused.
const notOurs = "package sboms\ndeny contains \"it is refused\" if input.predicate.refused\n"

// manyNames is an object with more names than are remembered.
func manyNames() map[string]any {
	names := map[string]any{}
	for i := range limits.StatementNames + 1 {
		names[fmt.Sprint("name-", i)] = i
	}
	return names
}

// manyParts is a predicate of 5 MiB that takes more memory than a policy gets.
func manyParts() map[string]any {
	return map[string]any{"files": make([][]int, limits.StatementParts)}
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Its author's newest scan is fetched and counts also where nobody can tell its type.
func TestJudge_AScanThatCannotBeRead(t *testing.T) {
	statement := func(s *stand, more string) []byte {
		return []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + strings.TrimPrefix(s.digest, "sha256:") + `"}}],"predicateType":"` + vuln + `"` + more + `}`)
	}
	var names strings.Builder
	for i := range limits.StatementNames {
		fmt.Fprintf(&names, `"%d":0,`, i)
	}
	for name, c := range map[string]struct{ more, says string }{
		"deep nesting":     {`,"predicate":` + strings.Repeat("[", 500) + strings.Repeat("]", 500), "cannot be read"},
		"nobody's nesting": {`,"predicate":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "cannot be read"},
		"a type twice":     {`,"predicateType":"` + sbom + `"`, "cannot be read"},
		"too many names":   {`,"predicate":{` + names.String() + `"more":0}`, "(limits.StatementNames)"},
		"too many parts":   {`,"predicate":[0` + strings.Repeat(",[]", limits.StatementParts/9+1) + `]`, "(limits.StatementParts); attest less in one statement, such as packages without their files\n"},
	} {
		for by, want := range map[string]gate.Outcome{"its author": gate.OutcomeError, "a stranger": gate.OutcomeAllow} {
			t.Run(name+" by "+by, func(t *testing.T) {
				s := newStand(t)
				s.demand(vuln, "")
				s.files.GateList[0].Spec.Images[0].Require = &intstr.IntOrString{Type: intstr.String, StrVal: "none"}
				signer := s.key
				if by == "a stranger" {
					signer = s.other
				}
				bundle, err := signer.SignPayload("application/vnd.in-toto+json", statement(s, c.more))
				err = first(err, inBundle(s, s.key, vuln, map[string]any{}), testkit.StoreBundle(s.repository(), s.digest, bundle, vuln))
				if err != nil {
					t.Fatal(err)
				}
				j := s.judge(workload(s.image("signed")), nil)
				if got := j.Verdicts[0].Outcome; got != want || want == gate.OutcomeError && !strings.Contains(findings(j)+"\n", c.says) {
					t.Errorf("%s: %s", got, findings(j))
				}
			})
		}
	}
}

// Whoever may push can store as much beside each image as is read of one. What is read for
// one object stays within bounds all the same, or a few pods would end the process.
func TestJudge_ImagesOfAnObjectShareWhatIsRead(t *testing.T) {
	s := newStand(t)
	s.files.GateList[0].Spec.Match.Kinds = []v1beta1.JudgedKind{"Pod"}
	blob := bytes.Repeat([]byte("x"), limits.SignatureBlobBytes)
	var containers []any
	for image := range 6 {
		repository := fmt.Sprintf("%s/shop/junk-%d", s.registry.Host(), image)
		digest, err := testkit.PushImage(repository+":1", "junk")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			copy(blob, fmt.Sprintf("%2d", i))
			if err := testkit.StoreBundle(repository, digest, blob, testkit.PredicateSign); err != nil {
				t.Fatal(err)
			}
		}
		containers = append(containers, map[string]any{"name": "app", "image": repository + "@" + digest})
	}
	judge := gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{}))
	read := func(containers []any) (gather.Judgement, int) {
		s.registry.ResetCounts()
		j := judge.Object(t.Context(), map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{"containers": containers},
		}, "shop")
		return j, s.registry.Counts()["GET blobs"]
	}
	if j, n := read(containers); n<<20 > limits.ObjectEvidenceBytes || j.Verdicts[0].Outcome != gate.OutcomeError || !strings.Contains(findings(j), "(limits.ObjectEvidenceBytes)") {
		t.Errorf("%d MiB are read: %s: %s", n, j.Verdicts[0].Outcome, findings(j))
	}
	// Alone the image has all that there is for one, and the turn of the first is over.
	if j, n := read(append(containers[:1:1], map[string]any{"name": "b", "image": s.image("signed")})); n < 4 || j.Verdicts[0].Outcome != gate.OutcomeDeny {
		t.Errorf("%d MiB are read: %s", n, findings(j))
	}
}

// Whoever may have images judged whose evidence is much and slow to read holds up his own
// namespace, and no other.
func TestJudge_MuchEvidenceOfOneNamespaceDoesNotKeepOthersFromTheirs(t *testing.T) {
	s := newStand(t)
	s.files.Tenants = true
	s.files.Namespaces["evil"] = s.files.Namespaces["shop"]
	if err := s.junk(limits.LargeEvidence, testkit.PredicateSign); err != nil {
		t.Fatal(err)
	}
	s.demand(sbom, "")
	if err := inBundle(s, s.key, sbom, packages(5<<20)); err != nil {
		t.Fatal(err)
	}
	began, enough := make(chan struct{}, 64), make(chan struct{})
	s.registry.Override(func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/evil-") && strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet
	},
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			began <- struct{}{}
			<-enough
		}))
	judge := gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{}))
	ctx, end := context.WithCancel(t.Context())
	var hostile sync.WaitGroup
	for i := range 4 * limits.LargeDecisions {
		w := workload(fmt.Sprintf("%s/shop/evil-%d:1", s.registry.Host(), i))
		digest, err := testkit.PushImage(w.Spec.Image, w.Spec.Image)
		if err != nil {
			t.Fatal(err)
		}
		if err := testkit.StoreBundle(strings.TrimSuffix(w.Spec.Image, ":1"), digest, bytes.Repeat([]byte("x"), limits.LargeEvidence+1), sbom); err != nil {
			t.Fatal(err)
		}
		w.Namespace = "evil"
		hostile.Go(func() { judge.Workload(ctx, w, nil) })
	}
	<-began
	for until := time.Now().Add(time.Minute); s.registry.Counts()["GET referrers"] < 4*limits.LargeDecisions && time.Now().Before(until); {
		runtime.Gosched()
	}
	j := judge.Workload(t.Context(), workload(s.image("signed")), nil)
	if j.Verdicts[0].Outcome != gate.OutcomeAllow {
		t.Errorf("%s: %s", j.Verdicts[0].Outcome, findings(j))
	}
	end()
	close(enough)
	hostile.Wait()
}

// On the command line nobody is held up by himself: what is judged of one namespace is looked at
// side by side.
func TestJudge_OnTheCommandLineANamespaceHasAllTurns(t *testing.T) {
	s := newStand(t)
	s.files.OperatorNamespace = "sluice-system"
	s.demand(sbom, "")
	began, enough := make(chan struct{}, 64), make(chan struct{})
	s.registry.Override(func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet
	},
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			began <- struct{}{}
			<-enough
		}))
	judge := gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{}))
	var all sync.WaitGroup
	for i := range limits.LargeDecisions {
		w := workload(fmt.Sprintf("%s/shop/large-%d:1", s.registry.Host(), i))
		digest, err := testkit.PushImage(w.Spec.Image, w.Spec.Image)
		if err != nil {
			t.Fatal(err)
		}
		if err := testkit.StoreBundle(strings.TrimSuffix(w.Spec.Image, ":1"), digest, bytes.Repeat([]byte("x"), limits.LargeEvidence+1), sbom); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { judge.Workload(t.Context(), w, nil) })
	}
	defer all.Wait()
	defer close(enough)
	for i := range limits.LargeDecisions {
		select {
		case <-began:
		case <-time.After(limits.RegistryCall - time.Second):
			t.Fatalf("%d are read side by side", i)
		}
	}
}
