package promote

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Workload is one of an environment, with what it is pinned to, or runs.
type Workload struct {
	Namespace, Name string
	Image           images.Reference
	Version         string
	// Resolved says that nothing pins the image, and its digest is what the tag led to.
	Resolved bool
}

// String is namespace/name.
func (w Workload) String() string { return w.Namespace + "/" + w.Name }

func (w Workload) called(name string) bool { return name == w.Name || name == w.String() }

// Take is a Workload of the target, and what it is to run.
type Take struct {
	Target Workload
	// Source is the Workload that is promoted. Where an image was named, it is the target
	// with that image.
	Source Workload
}

// Done says that the target pins all this already. A tag beside the same digest does not
// change what runs.
func (t Take) Done() bool {
	return t.Target.Image.Digest == t.Source.Image.Digest && t.Target.Version == t.Version()
}

// Version that the target is to have: the source's, where both have one.
func (t Take) Version() string {
	if t.Source.Version == "" || t.Target.Version == "" {
		return t.Target.Version
	}
	return t.Source.Version
}

// Plan is what a promotion takes over.
type Plan struct {
	Takes []Take
	// Left are Workloads that the source has and the target does not, by namespace/name.
	Left []string
}

// Select plans a promotion of the named Workloads, or of all that both environments have.
// Namespaces may differ between environments, so that Workloads belong together by name,
// and by namespace too where one name stands in several.
func Select(from, to []Workload, names []string) (Plan, error) {
	chosen, err := named(from, names, "the environment that is promoted from")
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	for _, source := range chosen {
		target, err := counterpart(source, from, to)
		switch {
		case err != nil:
			return Plan{}, err
		case target == nil && len(names) > 0:
			return Plan{}, fmt.Errorf("the overlay that is promoted to has no Workload %s: add it there first, since a promotion changes what is there", source.Name)
		case target == nil:
			plan.Left = append(plan.Left, source.String())
		default:
			plan.Takes = append(plan.Takes, Take{Target: *target, Source: source})
		}
	}
	return plan, plan.validate()
}

// Rollback plans to run one image, by its digest, in the named Workloads, or in all that
// run another build of it.
func Rollback(image images.Reference, to []Workload, names []string) (Plan, error) {
	if !image.Pinned() {
		return Plan{}, errors.New("--image has to name a digest, such as registry.example.com/shop/web@sha256:…: a tag can be moved")
	}
	chosen, err := named(to, names, "the overlay")
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	for _, target := range chosen {
		if target.Image.Repository != image.Repository {
			if len(names) > 0 {
				return Plan{}, fmt.Errorf("workload %s runs %s, and not %s: a promotion does not change the repository of an image", target, target.Image.Repository, image.Repository)
			}
			continue
		}
		source := target
		source.Image = image
		source.Version = versionOf(image.Tag, target.Version)
		plan.Takes = append(plan.Takes, Take{Target: target, Source: source})
	}
	if len(plan.Takes) == 0 {
		return Plan{}, fmt.Errorf("no Workload of the overlay runs an image of %s", image.Repository)
	}
	return plan, plan.validate()
}

var versionForm = regexp.MustCompile(`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// versionOf is the version that goes with a tag, where the tag is one; else it is not known.
func versionOf(tag, have string) string {
	if have == "" || !versionForm.MatchString(tag) {
		return ""
	}
	bare := strings.TrimPrefix(tag, "v")
	if strings.HasPrefix(have, "v") {
		return "v" + bare
	}
	return bare
}

func (p Plan) validate() error {
	if len(p.Takes) > limits.PromotionWorkloads {
		return fmt.Errorf("%d Workloads, more than %d (limits.PromotionWorkloads): name some with --workload", len(p.Takes), limits.PromotionWorkloads)
	}
	for i, t := range p.Takes {
		for _, other := range p.Takes[:i] {
			if other.Target.String() == t.Target.String() {
				return fmt.Errorf("workloads %s and %s are both %s where they are promoted to: name one with --workload NAMESPACE/NAME", other.Source, t.Source, t.Target)
			}
		}
	}
	slices.SortFunc(p.Takes, func(a, b Take) int { return cmp.Compare(a.Target.String(), b.Target.String()) })
	slices.Sort(p.Left)
	return nil
}

// Undone are the takes that change something.
func (p Plan) Undone() []Take {
	return slices.DeleteFunc(slices.Clone(p.Takes), Take.Done)
}

// named are the Workloads of a list that names choose; without names, all.
func named(list []Workload, names []string, where string) ([]Workload, error) {
	if len(names) == 0 {
		return list, nil
	}
	var out []Workload
	for _, name := range names {
		found := matching(list, name)
		switch {
		case len(found) == 0:
			return nil, fmt.Errorf("--workload=%s: %s has none of that name", name, where)
		case len(found) > 1:
			return nil, fmt.Errorf("--workload=%s: %s has it as %s and %s: name its namespace too", name, where, found[0], found[1])
		}
		if !slices.ContainsFunc(out, func(w Workload) bool { return w.String() == found[0].String() }) {
			out = append(out, found[0])
		}
	}
	return out, nil
}

func matching(list []Workload, name string) []Workload {
	return slices.DeleteFunc(slices.Clone(list), func(w Workload) bool { return !w.called(name) })
}

// counterpart of a source in the target, nil where there is none.
func counterpart(source Workload, from, to []Workload) (*Workload, error) {
	if same := matching(to, source.String()); len(same) == 1 {
		return &same[0], nil
	}
	found := matching(to, source.Name)
	switch {
	case len(found) == 0:
		return nil, nil
	case len(found) > 1:
		return nil, fmt.Errorf("workload %s is %s and %s where it is promoted to: give it the same namespace in both", source, found[0], found[1])
	case len(matching(from, source.Name)) > 1:
		return nil, fmt.Errorf("workload %s stands in several namespaces, and only %s where it is promoted to: name one with --workload NAMESPACE/NAME", source.Name, found[0])
	}
	return &found[0], nil
}

// older says whether a version comes before another by SemVer; not where one is none.
func older(a, b string) bool {
	a, b = canonical(a), canonical(b)
	return a != "" && b != "" && semver.Compare(a, b) < 0
}

func majorOf(version string) string { return semver.Major(canonical(version)) }

func canonical(version string) string {
	v := "v" + strings.TrimPrefix(version, "v")
	if !semver.IsValid(v) {
		return ""
	}
	return v
}

// Running is what a Workload of a cluster runs, if it is well and its status is of the spec
// that is there now.
func Running(w *v1beta1.Workload) (Workload, error) {
	out := Workload{Namespace: w.Namespace, Name: w.Name, Version: w.Spec.Version}
	ready := meta.FindStatusCondition(w.Status.Conditions, v1beta1.ConditionReady)
	switch {
	case w.DeletionTimestamp != nil:
		return out, fmt.Errorf("workload %s is being deleted", out)
	case w.Status.ObservedGeneration != w.Generation:
		return out, fmt.Errorf("workload %s: the operator has not seen its last change (status is of generation %d, spec of %d): wait until it has", out, w.Status.ObservedGeneration, w.Generation)
	case w.Status.Phase != v1beta1.PhaseReady || ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != w.Generation:
		why := ""
		if ready != nil && ready.Message != "" {
			why = ": " + ready.Message
		}
		return out, fmt.Errorf("workload %s is %s, and not Ready%s; only what runs well is promoted", out, cmp.Or(string(w.Status.Phase), "without a phase"), why)
	}
	ref, err := images.Parse(w.Spec.Image)
	if err != nil {
		return out, fmt.Errorf("workload %s: spec.image: %w", out, err)
	}
	for _, image := range w.Status.Images {
		switch {
		case image.Image != w.Spec.Image || !digests.Valid(image.Digest):
		case ref.Pinned() && ref.Digest != image.Digest:
			return out, fmt.Errorf("workload %s: its status says that %s runs, and %s is pinned: somebody else than the operator wrote it", out, image.Digest, w.Spec.Image)
		default:
			ref.Digest = image.Digest
		}
	}
	if !ref.Pinned() {
		return out, fmt.Errorf("workload %s: its status names no digest for %s", out, w.Spec.Image)
	}
	out.Image = ref
	return out, nil
}
