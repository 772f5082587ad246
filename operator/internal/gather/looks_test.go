package gather_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// slow is a registry that holds back what it is asked for evidence, and counts who waits.
type slow struct {
	*registry.Client
	asked, waits atomic.Int64
	end          chan struct{}
}

func (s *slow) Evidence(context.Context, string, string, gate.Want, func(registry.Evidence) bool, authn.Keychain) (registry.Evidence, error) {
	s.asked.Add(1)
	s.waits.Add(1)
	defer s.waits.Add(-1)
	<-s.end
	return registry.Evidence{}, nil
}

// However many images an object names, a few are looked at at a time, and all in the end.
func TestJudge_LooksAtAFewImagesOfAnObjectAtATime(t *testing.T) {
	s := newStand(t)
	s.files.GateList[0].Spec.Match.Kinds = []v1beta1.JudgedKind{"Pod"}
	var containers []any
	for i := range limits.ImagesPerObject {
		image := fmt.Sprintf("%s/shop/web-%d@%s", s.registry.Host(), i, testkit.DigestOf("web"))
		containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": image})
	}
	synctest.Test(t, func(t *testing.T) {
		from := &slow{Client: registry.New(registry.Options{}), end: make(chan struct{})}
		judge := gather.NewJudge(s.files, from, trust.New(trust.Options{}))
		judged := make(chan gather.Judgement)
		go func() {
			judged <- judge.Object(t.Context(), map[string]any{
				"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{"containers": containers},
			}, "shop")
		}()
		synctest.Wait()
		if n := from.waits.Load(); n != limits.LooksPerObject {
			t.Errorf("%d are looked at at a time", n)
		}
		close(from.end)
		if j := <-judged; from.asked.Load() != limits.ImagesPerObject || j.Verdicts[0].Outcome != gate.OutcomeDeny {
			t.Errorf("%d are looked at: %s", from.asked.Load(), j.Verdicts[0].Outcome)
		}
	})
}
