package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// TestOverlays_ProdRunsWhatPassedE2EAndNothingElse applies kustomize/overlays/prod to a
// cluster: its fleet, which e2e attested, runs, and a signed image without evidence does not.
func TestOverlays_ProdRunsWhatPassedE2EAndNothingElse(t *testing.T) {
	p := newProd(t)
	for _, name := range []string{"cache", "orders-db"} {
		p.ready(t, name, "")
	}

	const newer = "shop/cache:7.3.0"
	digest, err := p.stage.Push(newer)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.stage.Sign(newer, digest); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"spec":{"image":"%s/%s@%s"}}`, stage.Registry, newer, digest)
	err = p.patch(t.Context(), "cache", patch)
	if err == nil || !strings.Contains(err.Error(), "image has no evidence that it passed environment e2e") {
		t.Errorf("a signed image without evidence: %v", err)
	}

	repository := p.stage.RegistryAddress + "/shop/cache"
	if err := summary(p.stage.Attestors["e2e"], repository, digest, "e2e", evidence.Passed, time.Minute); err != nil {
		t.Fatal(err)
	}
	p.await(t, "the image is taken once e2e attested it", func(ctx context.Context) error { return p.patch(ctx, "cache", patch) })
	p.ready(t, "cache", digest)
}

// prod is a cluster that runs kustomize/overlays/prod.
type prod struct {
	stage  *stage.Stage
	client client.Client
}

func newProd(t *testing.T) *prod {
	t.Helper()
	p := &prod{}
	p.stage, p.client = up(t, stage.Options{Overlay: "kustomize/overlays/prod"})
	return p
}

func (p *prod) await(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := p.stage.Await(t.Context(), what, check); err != nil {
		t.Fatal(err)
	}
}

// ready waits until a Workload is Ready by evidence of e2e, with an image of that digest if
// one is given, and prod is about to attest it in its turn.
func (p *prod) ready(t *testing.T, name, digest string) {
	t.Helper()
	p.await(t, name+" is Ready", func(ctx context.Context) error {
		u, w := workloadOf(name), &v1beta1.Workload{}
		if err := p.client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, w); err != nil {
			return err
		}
		promised := meta.FindStatusCondition(w.Status.Conditions, v1beta1.ConditionPromoted)
		if w.Status.Phase != v1beta1.PhaseReady || w.Status.ObservedGeneration != w.Generation ||
			promised == nil || promised.Status != metav1.ConditionFalse || promised.Reason != "Soaking" {
			return fmt.Errorf("phase %s in generation %d of %d, Promoted: %+v", w.Status.Phase, w.Status.ObservedGeneration, w.Generation, promised)
		}
		found := digest == ""
		for _, image := range w.Status.Images {
			if image.PromotedFrom != "e2e" {
				return fmt.Errorf("image %s is promoted from %q", image.Image, image.PromotedFrom)
			}
			found = found || image.Digest == digest
		}
		if !found || len(w.Status.Images) == 0 {
			return fmt.Errorf("images are %+v", w.Status.Images)
		}
		return nil
	})
}

func (p *prod) patch(ctx context.Context, name, patch string) error {
	return p.client.Patch(ctx, workloadOf(name), client.RawPatch(types.MergePatchType, []byte(patch)))
}

// workloadOf is a Workload of the sample fleet by its name.
func workloadOf(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	u.SetNamespace("shop")
	u.SetName(name)
	return u
}
