package gather_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gather"
)

// TestCluster_ReadsReferencesOnlyInItsOwnNamespace: there are no readers behind it, so
// that asking one would panic.
func TestCluster_ReadsReferencesOnlyInItsOwnNamespace(t *testing.T) {
	c := &gather.Cluster{OperatorNamespace: "sluice-system"}
	_, secret := c.Secret(context.Background(), "shop", "a")
	_, configMap := c.ConfigMap(context.Background(), "", "a")
	_, registrySecret := c.RegistrySecret(context.Background(), "shop", "a")
	for _, err := range []error{secret, configMap, registrySecret} {
		if err == nil || !strings.Contains(err.Error(), "operator's namespace sluice-system") {
			t.Errorf("error: %v", err)
		}
	}
}
