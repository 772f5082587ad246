package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// Of 5 and 12 this is what the gate decides; what becomes of a workload that runs is tested
// with the reconciler.
var promotionCases = []testCase{
	{1, "evidence for digest A presented for digest B", gate.OutcomeDeny, "is about another digest", otherDigest},
	{2, "evidence signed by the ci key, naming e2e as verifier", gate.OutcomeDeny, "is signed by nobody that spec.requirePromotionFrom.authorities", byCI},
	{3, "evidence older than within, or dated in the future", gate.OutcomeDeny, "is older than 1h0m0s", outOfTime},
	{4, "evidence whose result is FAILED, also no signature of its key", gate.OutcomeDeny, "says that the image failed there", failedThere},
	{5, "the registry answers 500 while evidence is fetched; exit 3", gate.OutcomeError, "evidence of environment e2e could not be read", registryDown},
	{6, "the index is attested, the pod pulls a platform child", gate.OutcomeAllow, `"promotedFrom":"e2e"`, childOfIndex},
	{11, "evidence exists, and the next environment's own policies deny", gate.OutcomeDeny, `"policy":"restricted`, ownPolicies},
	{12, "a rollback to a digest whose evidence is past within", gate.OutcomeDeny, "is older than 1h0m0s", rollback},
	{12, "such a rollback, and evidence of the environment itself by spec.attest.authorities", gate.OutcomeAllow, `"promotedFrom":"e2e"`, rollbackToWhatRan},
}

// promoted makes the Gate demand evidence of e2e by the other key, and returns a signed image.
func (b *bench) promoted() (digest string, err error) {
	b.promotion = &v1beta1.RequirePromotionFrom{
		Environment: "e2e", Within: &metav1.Duration{Duration: time.Hour}, Authorities: []v1beta1.Authority{byKey("e2e-attestor", b.other)},
	}
	return b.signed()
}

// attest runs the command.
func (b *bench) attest(ctx context.Context, k *testkit.Key, image string, more ...string) error {
	dir, done, err := folder(map[string]string{"cosign.key": k.PrivatePEM})
	if err != nil {
		return err
	}
	defer done()
	args := append([]string{"attest", image, "--environment=e2e", "--key=" + filepath.Join(dir, "cosign.key")}, more...)
	var out bytes.Buffer
	if code := cli.Main(ctx, args, strings.NewReader(""), &out, &out); code != cli.ExitPass {
		return fmt.Errorf("exit code %d: %s", code, out.String())
	}
	return nil
}

func otherDigest(ctx context.Context, b *bench) (gate.Verdict, error) {
	digest, err := b.promoted()
	if err != nil {
		return gate.Verdict{}, err
	}
	statement, err := evidence.Summary{
		Subjects: []string{testkit.DigestOf("another")}, Verifier: evidence.Verifier("e2e"), Time: b.now, Result: evidence.Passed,
	}.Statement()
	if err != nil {
		return gate.Verdict{}, err
	}
	if err := b.other.AttestStatement(b.repository(), digest, evidence.PredicateType, statement); err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1")
}

func byCI(ctx context.Context, b *bench) (gate.Verdict, error) {
	if _, err := b.promoted(); err != nil {
		return gate.Verdict{}, err
	}
	if err := b.attest(ctx, b.key, b.repository()+":1"); err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1")
}

func outOfTime(ctx context.Context, b *bench) (gate.Verdict, error) {
	if _, err := b.promoted(); err != nil {
		return gate.Verdict{}, err
	}
	if err := b.attest(ctx, b.other, b.repository()+":1"); err != nil {
		return gate.Verdict{}, err
	}
	now := b.now
	for _, c := range []struct {
		later time.Duration
		right gate.Outcome
		says  string
	}{{-time.Hour, gate.OutcomeDeny, "is dated in the future"}, {time.Minute, gate.OutcomeAllow, ""}} {
		b.now = now.Add(c.later)
		v, err := b.pod(ctx, b.repository()+":1")
		if err == nil {
			err = hold(v, c.right, c.says)
		}
		if err != nil {
			return v, err
		}
	}
	b.now = now.Add(2 * time.Hour)
	return b.pod(ctx, b.repository()+":1")
}

func failedThere(ctx context.Context, b *bench) (gate.Verdict, error) {
	if _, err := b.promoted(); err != nil {
		return gate.Verdict{}, err
	}
	b.rule.Authorities = []v1beta1.Authority{byKey("e2e-attestor", b.other)}
	if err := b.attest(ctx, b.other, b.repository()+":1", "--failed"); err != nil {
		return gate.Verdict{}, err
	}
	v, err := b.pod(ctx, b.repository()+":1")
	if err == nil && !strings.Contains(string(v.Canonical()), "image has no signature") {
		err = fmt.Errorf("it is counted as a signature: %s", v.Canonical())
	}
	return v, err
}

func registryDown(ctx context.Context, b *bench) (gate.Verdict, error) {
	digest, err := b.promoted()
	if err != nil {
		return gate.Verdict{}, err
	}
	b.registry.Override(nil, testkit.Status(http.StatusInternalServerError))
	key, err := os.CreateTemp("", "cosign-*.pub")
	if err != nil {
		return gate.Verdict{}, err
	}
	defer os.Remove(key.Name())
	if _, err := key.WriteString(b.other.PublicPEM); err != nil {
		return gate.Verdict{}, errors.Join(err, key.Close())
	}
	if err := key.Close(); err != nil {
		return gate.Verdict{}, err
	}
	files := map[string]string{
		"overlay/kustomization.yaml": "resources: [web.yaml]\n",
		"overlay/web.yaml":           strings.Replace(webWorkload, "registry.example.com/shop/web:1", b.repository()+"@"+digest, 1),
		"gate/gate.yaml": allGate + "  unmatchedImages: Allow\n  requirePromotionFrom:\n    environment: e2e\n    authorities:\n    - key:\n        inline: |\n          " +
			strings.ReplaceAll(strings.TrimSpace(b.other.PublicPEM), "\n", "\n          ") + "\n" + shopSpace,
	}
	if err := check(ctx, files, cli.ExitUndecided, "evidence of environment e2e could not be read"); err != nil {
		return gate.Verdict{}, err
	}
	return b.pod(ctx, b.repository()+":1")
}

func childOfIndex(ctx context.Context, b *bench) (gate.Verdict, error) {
	if _, err := b.promoted(); err != nil {
		return gate.Verdict{}, err
	}
	index, children, err := b.index()
	if err != nil {
		return gate.Verdict{}, err
	}
	for _, digest := range append([]string{index}, children...) {
		if err := b.key.SignBundle(b.repository(), digest); err != nil {
			return gate.Verdict{}, err
		}
	}
	if err := b.attest(ctx, b.other, b.repository()+"@"+index); err != nil {
		return gate.Verdict{}, err
	}
	whole, err := b.pod(ctx, b.repository()+"@"+index)
	if err == nil {
		err = hold(whole, gate.OutcomeAllow, "")
	}
	if err != nil {
		return whole, err
	}
	return b.pod(ctx, b.repository()+"@"+children[0])
}

func ownPolicies(ctx context.Context, b *bench) (gate.Verdict, error) {
	if _, err := b.promoted(); err != nil {
		return gate.Verdict{}, err
	}
	b.policies = []v1beta1.PolicySource{{Builtin: "restricted"}}
	if err := b.attest(ctx, b.other, b.repository()+":1"); err != nil {
		return gate.Verdict{}, err
	}
	v, err := b.pod(ctx, b.repository()+":1")
	if err == nil && (len(v.Images) != 1 || v.Images[0].PromotedFrom != "e2e") {
		err = fmt.Errorf("the evidence does not count: %s", v.Canonical())
	}
	return v, err
}

func rollback(ctx context.Context, b *bench) (gate.Verdict, error) {
	if _, err := b.promoted(); err != nil {
		return gate.Verdict{}, err
	}
	if err := b.attest(ctx, b.other, b.repository()+":1"); err != nil {
		return gate.Verdict{}, err
	}
	b.now = b.now.Add(2 * time.Hour)
	return b.pod(ctx, b.repository()+":1")
}

func rollbackToWhatRan(ctx context.Context, b *bench) (gate.Verdict, error) {
	b.attests = &v1beta1.Attest{Key: v1beta1.PrivateKey{KMS: "hashivault://case"}, Authorities: []v1beta1.Authority{byKey("case-attestor", b.key)}}
	if v, err := rollback(ctx, b); err != nil || v.Outcome != gate.OutcomeDeny {
		return v, fmt.Errorf("before there is evidence of the environment itself: %s, %w", v.Canonical(), err)
	}
	if err := b.attest(ctx, b.key, b.repository()+":1", "--environment=case"); err != nil {
		return gate.Verdict{}, err
	}
	// Longer than it is remembered that it was not there.
	b.now = b.now.Add(time.Minute)
	return b.pod(ctx, b.repository()+":1")
}
