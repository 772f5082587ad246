package signature

import (
	"context"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// Artifact holds something in a registry that is no image of the object, such as a policy
// bundle, to a rule as images are held to it: by the same code, and with the same memory. It is
// what is said of it, and where the Gate says by whom it has to be signed. image has its
// repository, its digest and what the registry holds for that; where the findings neither deny
// nor leave it open, it is signed as the rule demands.
func (c *Check) Artifact(ctx context.Context, what, where string, image *gate.Image, rule gate.ImageRule) gate.Findings {
	r := c.newRun(ctx, &gate.Input{})
	r.what, r.where = what, where
	r.verify(image, rule)
	return r.findings
}
