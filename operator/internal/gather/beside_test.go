package gather_test

import (
	"net/http"
	"testing"
	"time"

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
