package signature

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// judgement gathers what is said about one image, so that a user gets all reasons at
// once: the missing signature and the missing attestation.
type judgement struct {
	image  *gate.Image
	rule   gate.ImageRule
	digest digest
	reached
}

// reached is what was decided, without who asked and where the image is named.
type reached struct {
	// authorities whose signatures were accepted, and identities of their certificates.
	authorities, identities []string
	// attesters and attestedBy are the same for attestations.
	attesters, attestedBy []string
	attestations          []string
	deny, undecided       []said
	warnings              []warning
}

// said is one finding in the making.
type said struct {
	// outcome that it makes of the image, where it denies.
	outcome         gate.ImageOutcome
	message, remedy string
}

func (r *reached) lists() []*[]string {
	return []*[]string{&r.authorities, &r.identities, &r.attesters, &r.attestedBy, &r.attestations}
}

// clone shares nothing: lists are sorted in place.
func (r reached) clone() reached {
	for _, l := range r.lists() {
		*l = slices.Clone(*l)
	}
	r.deny, r.undecided, r.warnings = slices.Clone(r.deny), slices.Clone(r.undecided), slices.Clone(r.warnings)
	return r
}

// size of its texts, in bytes.
func (r *reached) size() int {
	n := 0
	for _, l := range r.lists() {
		for _, s := range *l {
			n += len(s)
		}
	}
	for _, s := range r.deny {
		n += len(s.message) + len(s.remedy)
	}
	for _, w := range r.warnings {
		n += len(w.authority) + len(w.lacks)
	}
	return n
}

// conclude reports. Attestations that were accepted are told in any case; who signed
// only when that was enough.
func (r *run) conclude(j *judgement) {
	result := gate.ImageResult{Outcome: j.outcome(), Attestations: sorted(j.attestations)}
	if result.Outcome == gate.ImageVerified {
		authorities, identities := j.authorities, j.identities
		if j.rule.Require.None {
			authorities, identities = j.attesters, j.attestedBy
		}
		result.Authority, result.Identity = strings.Join(sorted(authorities), ","), strings.Join(sorted(identities), ",")
	}
	r.result(j.image, result)
	for _, s := range j.deny {
		r.findings.Deny = append(r.findings.Deny, r.at(j.image, gate.SeverityCritical, s)...)
	}
	for _, s := range j.undecided {
		r.findings.Undecided = append(r.findings.Undecided, r.at(j.image, gate.SeverityCritical, s)...)
	}
	for _, w := range j.warned() {
		r.findings.Warn = append(r.findings.Warn, r.at(j.image, gate.SeverityMedium, said{
			message: fmt.Sprintf("authority %s is accepted without %s", w.authority, w.lacks),
			remedy:  "have its signatures logged, and take " + w.setting() + " out of the authority",
		})...)
	}
}

// outcome is the worst of what was said.
func (j *judgement) outcome() gate.ImageOutcome {
	worst := gate.ImageVerified
	if len(j.undecided) > 0 {
		worst = gate.ImageError
	}
	for _, s := range j.deny {
		if worst != gate.ImageUntrusted {
			worst = s.outcome
		}
	}
	return worst
}

func (j *judgement) warned() []warning {
	slices.SortFunc(j.warnings, func(a, b warning) int {
		return strings.Compare(a.authority+"\x00"+a.lacks, b.authority+"\x00"+b.lacks)
	})
	return slices.Compact(j.warnings)
}

func (w warning) setting() string {
	if w.lacks == lacksLogEntry {
		return "ignoreTransparencyLog"
	}
	return "ignoreCertificateLog"
}
