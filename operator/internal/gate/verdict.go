package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"sort"
)

// Outcome of a decision.
type Outcome string

// The outcomes, from best to worst.
const (
	OutcomeAllow Outcome = "Allow"
	OutcomeWarn  Outcome = "Warn"
	// OutcomeError: could not decide. It blocks like Deny, for another reason.
	OutcomeError Outcome = "Error"
	OutcomeDeny  Outcome = "Deny"
)

// Blocks says whether nothing may be applied or admitted under this outcome. One that is
// not known, the zero value included, blocks.
func (o Outcome) Blocks() bool { return o != OutcomeAllow && o != OutcomeWarn }

// WorseThan orders outcomes: Allow, Warn, Error, Deny, and what is none of them.
func (o Outcome) WorseThan(other Outcome) bool { return o.badness() > other.badness() }

func (o Outcome) badness() int {
	for i, known := range []Outcome{OutcomeAllow, OutcomeWarn, OutcomeError, OutcomeDeny} {
		if o == known {
			return i
		}
	}
	return 4
}

// ImageOutcome is what was found about one image.
type ImageOutcome string

// The image outcomes.
const (
	// ImageVerified: the authorities that the rule requires have signed the digest.
	ImageVerified ImageOutcome = "Verified"
	// ImageUnsigned: the registry holds no signature for the digest.
	ImageUnsigned ImageOutcome = "Unsigned"
	// ImageUntrusted: there are signatures, and not by enough of the authorities.
	ImageUntrusted ImageOutcome = "Untrusted"
	// ImageError: could not find out.
	ImageError ImageOutcome = "Error"
	// ImageAllowed: the Gate asks for no signature of this image.
	ImageAllowed ImageOutcome = "Allowed"
)

// Severities of findings. Policies may use any word; these are the ones of the library.
const (
	SeverityCritical = "critical"
	SeverityHigh     = "high"
	SeverityMedium   = "medium"
	SeverityLow      = "low"
	// SeverityError marks a finding that says the gate could not decide.
	SeverityError = "error"
)

// Finding is one thing that a check found.
type Finding struct {
	Policy   string `json:"policy"`
	Severity string `json:"severity"`
	// Object as Kind/namespace/name.
	Object string `json:"object"`
	// Path of the field inside Object; empty when the finding is about all of it.
	Path    string `json:"path"`
	Message string `json:"message"`
	// Remedy says what to do.
	Remedy string `json:"remedy,omitempty"`
}

// ImageResult is what was found about one image.
type ImageResult struct {
	Image   string       `json:"image"`
	Digest  string       `json:"digest"`
	Outcome ImageOutcome `json:"outcome"`
	// Authority whose signature was accepted; several are joined with ",".
	Authority string `json:"authority"`
	// Identity of the signer, for keyless signatures.
	Identity string `json:"identity"`
	// Attestations that were accepted, by predicate type.
	Attestations []string `json:"attestations"`
	// PromotedFrom is the environment that the image has evidence of, where the Gate demands
	// some.
	PromotedFrom string `json:"promotedFrom,omitempty"`
}

// Verdict is the decision of one Gate over one object. Its canonical JSON is an API.
type Verdict struct {
	Outcome      Outcome       `json:"verdict"`
	Gate         string        `json:"gate"`
	Object       ObjectRef     `json:"object"`
	PolicyDigest string        `json:"policyDigest"`
	Violations   []Finding     `json:"violations"`
	Warnings     []Finding     `json:"warnings"`
	Images       []ImageResult `json:"images"`
	// Exemptions are what would have been violations, had nobody exempted it.
	Exemptions []Exempted `json:"exemptions"`
}

// Canonical is the verdict as JSON with sorted keys and lists and no insignificant
// space. It holds no time, no host and nothing of where it was decided, so that two
// gates which agree give the same bytes.
func (v Verdict) Canonical() []byte { return canonical(v) }

// Digest is the SHA-256 of the canonical JSON, as "sha256:<hex>": two gates agree when
// theirs are equal.
func (v Verdict) Digest() string { return digest(v) }

// Worst returns the verdict with the worst outcome, the first of them if several are
// equally bad. It is what a user is shown when several Gates judged one object. Of none
// it is the zero Verdict, which blocks.
func Worst(verdicts []Verdict) Verdict {
	var worst Verdict
	for i, v := range verdicts {
		if i == 0 || v.Outcome.WorseThan(worst.Outcome) {
			worst = v
		}
	}
	return worst
}

func (v *Verdict) normalise() {
	sortFindings(v.Violations)
	sortFindings(v.Warnings)
	v.Violations, v.Warnings = compact(v.Violations), compact(v.Warnings)
	for _, i := range v.Images {
		sort.Strings(i.Attestations)
	}
	slices.SortFunc(v.Images, compareImages)
}

// compareImages orders by every field: two checks may speak of one image.
func compareImages(a, b ImageResult) int {
	return cmp.Or(
		cmp.Compare(a.Image, b.Image), cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Outcome, b.Outcome),
		cmp.Compare(a.Authority, b.Authority), cmp.Compare(a.Identity, b.Identity), slices.Compare(a.Attestations, b.Attestations), cmp.Compare(a.PromotedFrom, b.PromotedFrom),
	)
}

func sortFindings(f []Finding) {
	slices.SortFunc(f, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Object, b.Object), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Policy, b.Policy),
			cmp.Compare(a.Message, b.Message), cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Remedy, b.Remedy),
		)
	})
}

// compact drops findings that say the same thing twice from a sorted list.
func compact(f []Finding) []Finding {
	out := make([]Finding, 0, len(f))
	for i, x := range f {
		if i == 0 || x != f[i-1] {
			out = append(out, x)
		}
	}
	return out
}

// canonical marshals v with object keys sorted. It panics on values that have no JSON,
// which the types here cannot hold: maps of parameters come from decoded JSON.
func canonical(v any) []byte {
	var tree any
	dec := json.NewDecoder(bytes.NewReader(plain(v)))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		panic("gate: own JSON does not parse: " + err.Error())
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		panic("gate: own JSON does not encode: " + err.Error())
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}

// plain marshals v, its keys in the order of its fields. It panics as canonical does.
func plain(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("gate: value without JSON: " + err.Error())
	}
	return raw
}
