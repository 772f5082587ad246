package gate

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Exemption lets through for a time what a rule denies. A finding is covered when its
// policy is named, and its object and its image where any are named.
type Exemption struct {
	Name   string
	Reason string
	// Expires as it is told, in RFC 3339; Until is the same in seconds since 1970. From
	// then on the exemption is as if it were not there.
	Expires string
	Until   int64
	// Gates and Policies by name.
	Gates    []string
	Policies []string
	// Objects that are judged; empty: any.
	Objects []ObjectPattern
	// Images as patterns, see matchImage; empty: any, and none.
	Images []string
}

// ObjectPattern names objects. In Name a * stands for any number of characters.
type ObjectPattern struct{ Kind, Namespace, Name string }

func (p ObjectPattern) matches(o ObjectRef) bool {
	return p.Kind == o.Kind && p.Namespace == o.Namespace && matchSegment(p.Name, o.Name)
}

// Exempted is a finding that would have been a violation, and what covers it.
type Exempted struct {
	// Name of the exemption.
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Expires string `json:"expires"`
	// Policy, Severity, Object, Path and Message are those of the finding.
	Policy   string `json:"policy"`
	Severity string `json:"severity"`
	Object   string `json:"object"`
	Path     string `json:"path"`
	// Image that the finding is about, as written; empty when it is about none.
	Image   string `json:"image,omitempty"`
	Message string `json:"message"`
}

// Finding is what was exempted, as it would have been found.
func (e Exempted) Finding() Finding {
	return Finding{Policy: e.Policy, Severity: e.Severity, Object: e.Object, Path: e.Path, Message: e.Message}
}

// never are policies whose findings no exemption covers: who makes them has not judged
// the object, so that nothing would be left that did.
var never = map[string]string{
	policyGate: "it says that no Gate matches, or counts findings",
	"schema":   "an object that the API server refuses cannot be judged",
	"render":   "what does not render cannot be judged",
	"drift":    "what such a rule leaves to others is not judged",
}

// ValidateExemptedPolicy says why findings of a policy cannot be exempted.
func ValidateExemptedPolicy(name string) error {
	if reason, ok := never[name]; ok {
		return fmt.Errorf("findings of %s cannot be exempted: %s", name, reason)
	}
	return nil
}

var onlyWildcards = regexp.MustCompile(`^[*/]*$`)

// anyDigest stands behind the @ of a pattern for whatever digest.
const anyDigest = digests.Prefix + "*"

// ValidateImagePattern says why an exemption cannot name images by a pattern.
func ValidateImagePattern(pattern string) error {
	repository, digest, pinned := strings.Cut(pattern, "@")
	if onlyWildcards.MatchString(repository) {
		return fmt.Errorf("%q would exempt every image: name a repository, such as registry.example.com/shop/orders-db", pattern)
	}
	if err := ValidateMatch(repository); err != nil {
		return err
	}
	if _, path, _ := strings.Cut(repository, "/"); onlyWildcards.MatchString(path) {
		return fmt.Errorf("%q would exempt every image of the registry: name a repository, such as registry.example.com/shop/orders-db", pattern)
	}
	if pinned && digest != anyDigest && !digests.Valid(digest) {
		return fmt.Errorf("%q: behind @ stands sha256:<64 hexadecimal digits>, or sha256:* for any digest", pattern)
	}
	return nil
}

// matchImage matches an image against registry/repository as matchRepository has it, and
// @sha256:… behind it against the digest that is judged, be it written or what the tag
// stands for. An image whose digest is not known has none that matches.
func matchImage(pattern string, image Image) bool {
	repository, digest, pinned := strings.Cut(pattern, "@")
	if !matchRepository(repository, image.Repository) {
		return false
	}
	return !pinned || image.Digest != "" && matchSegment(digest, image.Digest)
}

// exempt takes the findings that an exemption covers out of those of the checks. What
// could not be decided is not asked about: an outage is not a rule.
func exempt(in *Input, f Findings) (Findings, []Exempted) {
	open := concerning(in)
	if len(open) == 0 || len(f.Deny) == 0 {
		return f, nil
	}
	if more := len(open) - limits.Exemptions; more > 0 {
		open = open[:limits.Exemptions]
		f.Warn = append(slices.Clone(f.Warn), Finding{
			Policy: policyGate, Severity: SeverityMedium, Object: in.Object.String(),
			Message: fmt.Sprintf("%d exemptions concern this object beyond %d (limits.Exemptions), and have no effect", more, limits.Exemptions),
			Remedy:  "delete exemptions that nobody needs",
		})
	}
	about := imagesByLocation(in.Images)
	var left []Finding
	var covered []Exempted
	for _, finding := range f.Deny {
		images := about[Location{Object: finding.Object, Path: finding.Path}]
		i := slices.IndexFunc(open, func(e *Exemption) bool { return e.covers(finding, images) })
		if i < 0 {
			left = append(left, finding)
			continue
		}
		covered = append(covered, exempted(open[i], finding, images))
	}
	f.Deny = left
	return f, covered
}

// concerning are the exemptions that may cover findings of this object. The one that ends
// last comes first: when another ends that covers the same, nothing changes.
func concerning(in *Input) []*Exemption {
	var out []*Exemption
	for i := range in.Exemptions {
		if e := &in.Exemptions[i]; e.concerns(in) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *Exemption) int { return cmp.Or(cmp.Compare(b.Until, a.Until), cmp.Compare(a.Name, b.Name)) })
	return out
}

func (e *Exemption) concerns(in *Input) bool {
	if in.Now >= e.Until || !slices.Contains(e.Gates, in.Gate.Name) || len(e.Objects)+len(e.Images) == 0 {
		return false
	}
	return len(e.Objects) == 0 || slices.ContainsFunc(e.Objects, func(p ObjectPattern) bool { return p.matches(in.Object) })
}

// covers says whether a finding is of a policy that is named and, where images are, about
// some of those. Of several images at one place all have to be named.
func (e *Exemption) covers(f Finding, about []Image) bool {
	if !slices.Contains(e.Policies, f.Policy) || never[f.Policy] != "" {
		return false
	}
	if len(e.Images) == 0 {
		return true
	}
	for _, image := range about {
		if !slices.ContainsFunc(e.Images, func(pattern string) bool { return matchImage(pattern, image) }) {
			return false
		}
	}
	return len(about) > 0
}

func imagesByLocation(images []Image) map[Location][]Image {
	out := map[Location][]Image{}
	for _, image := range images {
		for _, l := range image.Locations {
			out[l] = append(out[l], image)
		}
	}
	return out
}

func exempted(e *Exemption, f Finding, about []Image) Exempted {
	refs := make([]string, 0, len(about))
	for _, image := range about {
		refs = append(refs, image.Ref)
	}
	return Exempted{
		Name: e.Name, Reason: e.Reason, Expires: e.Expires, Image: strings.Join(refs, ","),
		Policy: f.Policy, Severity: f.Severity, Object: f.Object, Path: f.Path, Message: f.Message,
	}
}

// told makes what is exempted safe to print, sorts it and bounds its number.
func told(in []Exempted, secrets *redact.Secrets, judged ObjectRef) []Exempted {
	out := make([]Exempted, 0, len(in))
	for _, e := range in {
		out = append(out, Exempted{
			Name: text(e.Name), Reason: text(e.Reason), Expires: text(e.Expires), Image: text(e.Image),
			Policy: text(e.Policy), Severity: text(e.Severity), Object: text(e.Object), Path: text(e.Path),
			Message: secrets.Text(e.Message, limits.MessageBytes),
		})
	}
	slices.SortFunc(out, func(a, b Exempted) int {
		return cmp.Or(
			cmp.Compare(a.Object, b.Object), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Message, b.Message),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Image, b.Image),
		)
	})
	out = slices.Compact(out)
	if len(out) <= limits.Findings {
		return out
	}
	kept := limits.Findings - 1
	rest := out[kept]
	// The rest may end at other times: the first to end is the one to tell.
	for _, e := range out[kept:] {
		rest.Expires = min(rest.Expires, e.Expires)
	}
	rest.Policy, rest.Object, rest.Path, rest.Image = policyGate, judged.String(), "", ""
	rest.Message = fmt.Sprintf("and %d more that are exempted (limits.Findings)", len(out)-kept)
	return append(out[:kept:kept], rest)
}

// ValidateObjectPattern says why an exemption cannot name objects so.
func ValidateObjectPattern(p ObjectPattern) error {
	if strings.Trim(p.Name, "*") == "" {
		return errors.New("it would exempt every object of the namespace: name one")
	}
	return nil
}
