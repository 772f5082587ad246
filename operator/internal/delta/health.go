package delta

import (
	"fmt"

	"github.com/argoproj/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Health is how well a child is, in gitops-engine's words.
type Health struct {
	// Status is Healthy, Progressing, Degraded, Suspended, Missing or Unknown.
	Status string
	// Message says why, when it is not Healthy.
	Message string
}

// The health statuses that decide a phase.
const (
	Healthy       = string(health.HealthStatusHealthy)
	Progressing   = string(health.HealthStatusProgressing)
	Degraded      = string(health.HealthStatusDegraded)
	HealthMissing = string(health.HealthStatusMissing)
)

// HealthOf judges one child; kinds that have no notion of health are Healthy once they
// exist.
func HealthOf(live *unstructured.Unstructured) (Health, error) {
	h, err := health.GetResourceHealth(live, nil)
	if err != nil {
		return Health{}, fmt.Errorf("health of %s %s/%s: %w", live.GetKind(), live.GetNamespace(), live.GetName(), err)
	}
	if h == nil {
		return Health{Status: Healthy}, nil
	}
	return Health{Status: string(h.Status), Message: h.Message}, nil
}

// Worse says whether health status b is worse than a.
func Worse(a, b string) bool {
	return health.IsWorse(health.HealthStatusCode(a), health.HealthStatusCode(b))
}
