package gather_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// A cache in front of a registry that is down goes on to serve what it has by digest, and
// fails for every tag. What it has is signed all the same.
func TestJudge_TagsThatFailDoNotMakeTheRegistryCountAsDown(t *testing.T) {
	s := newStand(t)
	repository := s.registry.Host() + "/shop/later"
	later, err := testkit.PushImage(repository+":1", "later")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.key.SignBundle(repository, later); err != nil {
		t.Fatal(err)
	}
	s.registry.Override(testkit.PathContains("/manifests/1"), testkit.Status(http.StatusBadGateway))
	judge := gather.NewJudge(s.files, registry.New(registry.Options{}), trust.New(trust.Options{}))
	for range limits.RegistryFailures + 2 {
		if j := judge.Workload(t.Context(), workload(s.image("signed")+"@"+s.digest), nil); j.Verdicts[0].Outcome != gate.OutcomeAllow {
			t.Fatal(findings(j))
		}
	}
	if j := judge.Workload(t.Context(), workload(repository+"@"+later), nil); j.Verdicts[0].Outcome != gate.OutcomeAllow {
		t.Error(findings(j))
	}
}

// A verdict that goes back and forth is a status, and an event, each time.
func TestJudge_AWarningOfATagStaysWhileItCannotBeLookedUp(t *testing.T) {
	s := newStand(t)
	if _, err := testkit.PushImage(s.image("signed"), "moved"); err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	judge := gather.NewJudge(s.files, registry.New(registry.Options{Now: now}), trust.New(trust.Options{}))
	failing := map[string]http.Handler{"502": testkit.Status(http.StatusBadGateway), "nothing": testkit.Hang()}
	for _, answer := range []string{"", "502", "", "nothing", "502", ""} {
		s.registry.Restore()
		if answer != "" {
			s.registry.Override(testkit.PathContains("/manifests/1"), failing[answer])
		}
		j := judge.Workload(t.Context(), workload(s.image("signed")+"@"+s.digest), nil)
		if got := findings(j); j.Verdicts[0].Outcome != gate.OutcomeWarn || !strings.Contains(got, "tag 1 stands for sha256:") {
			t.Errorf("with %q: %s %s", answer, j.Verdicts[0].Outcome, got)
		}
		passed.Add(int64(limits.CacheTTL))
	}
}

// Nobody waits for long to be told of a tag: the time is the decision's.
func TestJudge_ATagThatIsNotAnsweredIsNotWaitedForLong(t *testing.T) {
	s := newStand(t)
	s.registry.Override(testkit.PathContains("/manifests/1"), testkit.Hang())
	began := time.Now()
	j := s.judge(workload(s.image("signed")+"@"+s.digest), nil)
	if took := time.Since(began); j.Verdicts[0].Outcome != gate.OutcomeAllow || took >= limits.RegistryCall {
		t.Errorf("after %s: %s", took, findings(j))
	}
}

// counting counts what is read of the API server.
type counting struct {
	*gather.Files
	read []string
}

func (c *counting) PullSecret(ctx context.Context, namespace, name string) ([]byte, error) {
	c.read = append(c.read, name)
	return c.Files.PullSecret(ctx, namespace, name)
}

// Each is a request to the API server, of which there are so many a second for everybody.
func TestJudge_ReadsFewPullSecretsAndEachOnce(t *testing.T) {
	s := newStand(t)
	from := &counting{Files: s.files}
	judge := gather.NewJudge(from, registry.New(registry.Options{}), trust.New(trust.Options{}))
	w := workload(s.image("signed"))
	named := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("{name: s%d}", i))
		}
		return strings.Join(list, ", ")
	}
	add := func(n int) []v1beta1.Patch {
		return []v1beta1.Patch{{
			Target: &v1beta1.PatchTarget{Kind: "Deployment"},
			Patch:  "- {op: add, path: /spec/template/spec/imagePullSecrets, value: [" + named(n) + "]}\n",
		}}
	}
	w.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s1"}}
	w.Spec.Patches = add(limits.PullSecrets)
	if j := judge.Workload(t.Context(), w, nil); j.Verdicts[0].Outcome != gate.OutcomeAllow || len(from.read) != limits.PullSecrets || from.read[0] != "s1" {
		t.Errorf("read %q: %s", from.read, findings(j))
	}
	from.read = nil
	w.Spec.Patches = add(limits.PullSecrets + 1)
	j := judge.Workload(t.Context(), w, nil)
	if got := findings(j); j.Verdicts[0].Outcome != gate.OutcomeError || len(from.read) > 0 || !strings.Contains(got, "33 image pull Secrets, more than 32 (limits.PullSecrets)") || strings.Contains(got, "registry answers") {
		t.Errorf("read %q: %s", from.read, got)
	}
}
