package promote

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Note is something to look at before a promotion is merged. It blocks nothing.
type Note struct {
	// Workload as namespace/name, or the environment where it is about more than one.
	Workload string `json:"workload"`
	// Area is one word: image, version, schema, storage, replicas, ports, secrets,
	// variables, config, rollout or commits.
	Area string `json:"area"`
	Text string `json:"text"`
}

// State is a Workload as one overlay has it at one time.
type State struct {
	// APIVersion that it is written in.
	APIVersion string
	// Workload in the version that is judged, its defaults set; nil where it is not known.
	Workload *v1beta1.Workload
}

// notes collects those of one Workload.
type notes struct {
	workload string
	list     []Note
}

func (n *notes) add(area, format string, args ...any) {
	n.list = append(n.list, Note{n.workload, area, fmt.Sprintf(format, args...)})
}

// Notes compares the target before and after, and with what the evidence is of: the
// source, which passed in another shape than the one that the target gives it.
func Notes(t Take, before, after, source State) []Note {
	n := &notes{workload: t.Target.String()}
	n.images(t)
	if after.Workload == nil {
		return n.list
	}
	n.schema(before, after, source)
	spec := after.Workload.Spec
	if before.Workload != nil {
		n.changed(before.Workload.Spec, spec)
	}
	n.standing(t, spec)
	if source.Workload != nil {
		n.unlike(source.Workload.Spec, spec)
	}
	if len(n.list) > limits.PromotionNotes {
		more := len(n.list) - limits.PromotionNotes
		n.list = n.list[:limits.PromotionNotes]
		n.add("more", "%d notes more (limits.PromotionNotes); compare the two overlays with sluice diff", more)
	}
	return n.list
}

// versions are those before and after, "" where they are not known.
func (t Take) versions() (was, is string) {
	have, want := t.Target, t.Source
	if have.Version == "" && versionForm.MatchString(have.Image.Tag) && versionForm.MatchString(want.Image.Tag) {
		return have.Image.Tag, want.Image.Tag // no version is set, and the tags are some
	}
	return have.Version, t.Version()
}

func (n *notes) images(t Take) {
	have, want := t.Target, t.Source
	if have.Image.Repository != want.Image.Repository {
		n.add("image", "the repository differs: %s was promoted from, %s is pulled from; the digest has to be in both", want.Image.Repository, have.Image.Repository)
	}
	if want.Resolved {
		n.add("image", "nothing pins it where it comes from: its digest is what tag %s led to just now", want.Image.TagToResolve())
	}
	was, is := t.versions()
	switch {
	case older(is, was):
		n.add("version", "%s is older than %s: data that the newer one wrote may not be read by it", is, was)
	case was != "" && majorOf(is) != majorOf(was):
		n.add("version", "a new major version: from %s to %s", was, is)
	case have.Version != "" && want.Version == "":
		n.add("version", "it stays %s, since that of the new image is not known", have.Version)
	}
}

func (n *notes) schema(before, after, source State) {
	const current = "v1beta1"
	if before.APIVersion != "" && before.APIVersion != after.APIVersion {
		n.add("schema", "its apiVersion becomes %s, and was %s", after.APIVersion, before.APIVersion)
	}
	if !strings.HasSuffix(after.APIVersion, "/"+current) {
		n.add("schema", "it is written in %s, the old version: what only %s has cannot be set there", after.APIVersion, current)
	}
	if source.APIVersion != "" && source.APIVersion != after.APIVersion {
		n.add("schema", "it passed as %s, and is %s here", source.APIVersion, after.APIVersion)
	}
}

// changed is what the change itself does to the Workload beside its image.
func (n *notes) changed(was, is v1beta1.WorkloadSpec) {
	switch {
	case was.Storage == nil && is.Storage != nil, was.Storage != nil && is.Storage == nil:
		n.add("storage", "storage is added or removed, which the API server refuses: it takes a new Workload")
	case was.Storage != nil:
		n.storage(*was.Storage, *is.Storage)
	}
	old, now := replicas(was), replicas(is)
	switch {
	case now == 0 && old > 0:
		n.add("replicas", "from %d to 0: nothing runs any more", old)
	case old > 0 && (now*2 < old || now > old+old/2+old%2):
		n.add("replicas", "from %d to %d, which is more than half of them", old, now)
	}
	if gone := missing(ports(was), ports(is)); len(gone) > 0 {
		n.add("ports", "no longer served: %s", strings.Join(gone, ", "))
	}
	if added := missing(secrets(is), secrets(was)); len(added) > 0 {
		n.add("secrets", "newly used, and waited for until there: %s", strings.Join(added, ", "))
	}
	if old, now := strategy(was), strategy(is); old != now {
		n.add("rollout", "the strategy becomes %s, and was %s", now, old)
	}
}

func (n *notes) storage(was, is v1beta1.Storage) {
	if was.ClassName != is.ClassName {
		n.add("storage", "the class of its volumes changes from %q to %q, which the API server refuses", was.ClassName, is.ClassName)
	}
	old, errOld := resource.ParseQuantity(was.Size)
	now, errNow := resource.ParseQuantity(is.Size)
	switch {
	case errOld != nil || errNow != nil:
	case now.Cmp(old) < 0:
		n.add("storage", "its volumes shrink from %s to %s, which no volume can", was.Size, is.Size)
	case now.Cmp(old) > 0:
		n.add("storage", "its volumes grow from %s to %s, where the class allows that", was.Size, is.Size)
	}
	if was.MountPath != is.MountPath {
		n.add("storage", "its volumes are mounted at %s, and were at %s", is.MountPath, was.MountPath)
	}
}

// standing is what every new image does to a Workload of this shape.
func (n *notes) standing(t Take, is v1beta1.WorkloadSpec) {
	switch {
	case t.Target.Image.Digest == t.Source.Image.Digest:
		return
	case replicas(is) == 0:
		n.add("replicas", "none: the new image is not tried before it is scaled up")
	case replicas(is) == 1 && is.Storage != nil:
		n.add("replicas", "one with a volume: it is away while it is replaced")
	}
	if is.Storage != nil {
		n.add("storage", "what the new image writes to its volumes is not taken back when the image is")
	}
}

// unlike is in what other shape the image passed.
func (n *notes) unlike(source, is v1beta1.WorkloadSpec) {
	switch {
	case source.Storage == nil && is.Storage != nil:
		n.add("storage", "it passed without volumes, and has some here")
	case source.Storage != nil && is.Storage == nil:
		n.add("storage", "it passed with volumes, and has none here")
	case is.Storage != nil && source.Storage.ClassName != is.Storage.ClassName:
		n.add("storage", "it passed on volumes of class %q, and has %q here", source.Storage.ClassName, is.Storage.ClassName)
	}
	if replicas(source) == 1 && replicas(is) > 1 {
		n.add("replicas", "it passed alone, and runs as %d here", replicas(is))
	}
	for _, c := range []struct {
		area, says   string
		source, here []string
	}{
		{"ports", "it passed serving what is not served here", ports(source), ports(is)},
		{"secrets", "it passed with Secrets that it does not use here", secrets(source), secrets(is)},
		{"variables", "it passed with variables that are not set here", variables(source), variables(is)},
		{"config", "it passed with files that are not there here", files(source), files(is)},
	} {
		if gone := missing(c.source, c.here); len(gone) > 0 {
			n.add(c.area, "%s: %s", c.says, strings.Join(gone, ", "))
		}
	}
	if passed, here := strategy(source), strategy(is); passed != here {
		n.add("rollout", "it passed by %s, and is rolled out by %s here", passed, here)
	}
}

// missing are the entries of a list that another one does not have.
func missing(of, in []string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(s string) bool { return slices.Contains(in, s) })
}

func replicas(s v1beta1.WorkloadSpec) int32 {
	if s.Replicas == nil {
		return 1
	}
	return *s.Replicas
}

func strategy(s v1beta1.WorkloadSpec) v1beta1.RolloutStrategy {
	if s.Rollout == nil || s.Rollout.Strategy == "" {
		return v1beta1.RolloutRollingUpdate
	}
	return s.Rollout.Strategy
}

func ports(s v1beta1.WorkloadSpec) []string {
	var out []string
	for _, p := range s.Ports {
		out = append(out, fmt.Sprintf("%s (%d)", p.Name, p.Port))
	}
	return out
}

// secrets are the names of all that the container is given, in whatever way.
func secrets(s v1beta1.WorkloadSpec) []string {
	names := map[string]bool{}
	for _, ref := range s.Secrets {
		names[ref.Name] = true
	}
	for _, e := range s.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			names[e.ValueFrom.SecretKeyRef.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func variables(s v1beta1.WorkloadSpec) []string {
	var out []string
	for _, e := range s.Env {
		out = append(out, e.Name)
	}
	return out
}

func files(s v1beta1.WorkloadSpec) []string {
	if s.Config == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.Config.Files))
}
