package admission

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// However long it has failed, such as on rights that someone took away: the alert about
// reconciles looks at ten minutes, and admission waits for what comes next.
func TestRotation_TriesAgainWithinAMinute(t *testing.T) {
	pauses := retries()
	first := pauses.When(reconcile.Request{})
	var last time.Duration
	for range 100 {
		last = pauses.When(reconcile.Request{})
	}
	if first > time.Second || last > time.Minute || last < 10*time.Second {
		t.Errorf("at first after %s, and in the end after %s", first, last)
	}
}
