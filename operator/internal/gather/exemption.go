package gather

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// exemptions of the Gates that judge a subject. Workloads of the operator's namespace have
// none: who may exempt must not loosen what guards the guard.
func (j *Judge) exemptions(ctx context.Context, s *subject, gates []read) ([]gate.Exemption, error) {
	if len(gates) == 0 || s.ref.Namespace == j.source.OwnNamespace() {
		return nil, nil
	}
	all, err := j.source.Exemptions(ctx)
	if err != nil {
		return nil, fmt.Errorf("list Exemptions: %w", err)
	}
	out := make([]gate.Exemption, 0, len(all))
	for i := range all {
		out = append(out, exemption(&all[i]))
	}
	return out, nil
}

func exemption(e *v1beta1.Exemption) gate.Exemption {
	out := gate.Exemption{
		Name: e.Name, Reason: e.Spec.Reason, Expires: e.Spec.Expires.UTC().Format(time.RFC3339), Until: e.Spec.Expires.Unix(),
		Gates: e.Spec.Gates, Policies: e.Spec.Policies, Images: e.Spec.Images,
	}
	for _, o := range e.Spec.Objects {
		out.Objects = append(out.Objects, pattern(o))
	}
	return out
}

func pattern(o v1beta1.ExemptedObject) gate.ObjectPattern {
	return gate.ObjectPattern{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// until is when the first of the exemptions ends that were applied, and the verdicts change
// without an event; zero when none were.
func until(verdicts []gate.Verdict) time.Time {
	var first time.Time
	for _, v := range verdicts {
		for _, e := range v.Exemptions {
			at, err := time.Parse(time.RFC3339, e.Expires)
			if err == nil && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	return first
}

// active counts the exemptions that have not expired, on each scrape. NaN says that they
// could not be counted.
func (j *Judge) active() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_exemptions_active", Help: "Exemptions that have not expired.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), limits.Scrape)
		defer cancel()
		all, err := j.source.Exemptions(ctx)
		if err != nil {
			return math.NaN()
		}
		n := 0
		for i := range all {
			if !Expired(&all[i], j.source.Now()) {
				n++
			}
		}
		return float64(n)
	})
}

// Expired says whether an exemption has no effect any more.
func Expired(e *v1beta1.Exemption, now time.Time) bool { return now.Unix() >= e.Spec.Expires.Unix() }

// ValidateExemption says everything that is wrong with an Exemption beyond its schema,
// with field paths. ownNamespace is the operator's.
func ValidateExemption(e *v1beta1.Exemption, ownNamespace string) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	for i, name := range e.Spec.Policies {
		if err := gate.ValidateExemptedPolicy(name); err != nil {
			errs = append(errs, field.Invalid(spec.Child("policies").Index(i), name, err.Error()))
		}
	}
	for i, o := range e.Spec.Objects {
		at := spec.Child("objects").Index(i)
		if err := gate.ValidateObjectPattern(pattern(o)); err != nil {
			errs = append(errs, field.Invalid(at.Child("name"), o.Name, err.Error()))
		}
		if o.Namespace == ownNamespace {
			errs = append(errs, field.Forbidden(at.Child("namespace"), "nothing in the operator's namespace "+ownNamespace+" can be exempted"))
		}
	}
	for i, image := range e.Spec.Images {
		if err := gate.ValidateImagePattern(image); err != nil {
			errs = append(errs, field.Invalid(spec.Child("images").Index(i), image, err.Error()))
		}
	}
	return errs
}

// DoubtExemption says, with field paths, what in an Exemption is likely to be without effect.
func DoubtExemption(e *v1beta1.Exemption) []string {
	var doubts []string
	for i, name := range e.Spec.Policies {
		if doubt := policy.Doubt(name); doubt != "" {
			doubts = append(doubts, fmt.Sprintf("%s: %s; as it is, it exempts nothing", field.NewPath("spec", "policies").Index(i), doubt))
		}
	}
	return doubts
}
