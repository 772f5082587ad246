package workload

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
)

// Counts is notary.Options.Count: it counts in set what became of evidence. gates is the
// cache that the controller watches Gates by. An order may outlive the Gate that had it
// written by minutes; it is not counted then, or the series would come back for good.
func Counts(gates client.Reader, set *metrics.Set) func(gate, result string) {
	return func(gate, result string) {
		set.Attested(gate, result, func() bool {
			// What cannot be read may be there.
			return !apierrors.IsNotFound(gates.Get(context.Background(), client.ObjectKey{Name: gate}, &v1beta1.Gate{}))
		})
	}
}

// forgetGate takes the series of a Gate away that is deleted. The cache has it no more by then,
// so that Counts, which looks there, brings none back.
func (r *Reconciler) forgetGate() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		r.Metrics.Forget(e.Object.GetName())
	}}
}
