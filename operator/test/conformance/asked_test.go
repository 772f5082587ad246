package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// clients is how many ask for verdicts at a time.
	clients = 3
	// patience is for how long one waits for a verdict.
	patience = 2 * time.Second
)

// asked is what clients of the API server were told who create Workloads, dry, again and
// again: one that the Gate allows, and one that it denies.
type asked struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu sync.Mutex
	// right verdicts; silent answers, which are refusals because no replica gave a verdict;
	// and requests that nobody answered for as long as a client waits.
	right, silent, late int
	why                 string
	wrong               []string
	last                time.Time
	// gap is the longest time between two right verdicts.
	gap time.Duration
}

// ask begins to ask until stop.
func (r *replicas) ask(t *testing.T) *asked {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &asked{cancel: cancel, last: time.Now()}
	for i := range clients {
		a.done.Go(func() {
			pace := time.NewTicker(200 * time.Millisecond)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				r.askOnce(ctx, a, fmt.Sprintf("allowed-%d-%d", i, n), signedImage, true)
				r.askOnce(ctx, a, fmt.Sprintf("denied-%d-%d", i, n), unsignedImage, false)
				select {
				case <-ctx.Done():
				case <-pace.C:
				}
			}
		})
	}
	t.Cleanup(a.stop)
	return a
}

// askOnce waits for less long than a webhook may take: who asks kubectl does not wait for
// ever either, and the API server ends its own request with that of its client.
func (r *replicas) askOnce(ctx context.Context, a *asked, name, image string, allowed bool) {
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sluice.dev/v1beta1", "kind": "Workload", "spec": map[string]any{"image": image},
		"metadata": map[string]any{"name": name, "namespace": led},
	}}
	patient, done := context.WithTimeout(ctx, patience)
	defer done()
	err := r.client.Create(patient, w, client.DryRunAll)
	if ctx.Err() == nil {
		a.note(name, allowed, err)
	}
}

func (a *asked) note(name string, allowed bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	denied := apierrors.IsForbidden(err) && strings.Contains(err.Error(), `"workloads.sluice.dev" denied the request`)
	switch {
	case allowed && err == nil, !allowed && denied:
		a.right++
		a.gap, a.last = max(a.gap, time.Since(a.last)), time.Now()
	case err == nil, denied:
		a.wrong = append(a.wrong, fmt.Sprintf("%s: %v", name, err))
	case errors.Is(err, context.DeadlineExceeded):
		a.late++
	default:
		a.silent++
		a.why = err.Error()
	}
}

// soFar is how many right verdicts there have been.
func (a *asked) soFar() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.right
}

// stop ends it; it may be called again.
func (a *asked) stop() {
	a.cancel()
	a.done.Wait()
}

// judged checks that everything the API server let through, from a place in its log on, was
// judged: the webhook writes its verdicts into it.
func (r *replicas) judged(t *testing.T, from int) {
	t.Helper()
	admitted := 0
	for _, e := range r.log.read(t)[from:] {
		if e.Verb != "create" || e.ObjectRef.Resource != "workloads" || e.ObjectRef.Namespace != led || e.ResponseStatus.Code >= 300 {
			continue
		}
		admitted++
		if e.Annotations["workloads.sluice.dev/verdicts"] == "" {
			t.Errorf("%s was admitted without a verdict", e.RequestURI)
		}
	}
	if admitted == 0 {
		t.Error("nothing was admitted")
	}
}
