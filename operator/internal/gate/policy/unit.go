package policy

import (
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// unit is what is compiled and evaluated as one: a source by itself, so that none can add
// rules to another; or all groups of the library that a Gate names, which share functions, and
// so share what those work out of an input.
type unit []gate.PolicySet

// unitsOf are the units of a Gate's policies, the library first.
func unitsOf(policies []gate.PolicySet) []unit {
	var library unit
	seen := map[string]bool{}
	units := make([]unit, 1, len(policies)+1)
	for _, set := range policies {
		switch {
		case set.Unavailable != "" || !isBuiltin(set):
			units = append(units, unit{set})
		case !seen[set.Name]:
			seen[set.Name] = true
			library = append(library, set)
		}
	}
	if library == nil {
		return units[1:]
	}
	// In whatever order a Gate names them, they are compiled and kept once.
	slices.SortFunc(library, func(a, b gate.PolicySet) int { return strings.Compare(a.Name, b.Name) })
	units[0] = library
	return units
}

// ours says whether these are policies that come with Sluice, whose input is the envelope.
func (u unit) ours() bool { return isBuiltin(u[0]) }

// isBuiltin says whether a set is a group of the library, and not only called as one.
func isBuiltin(set gate.PolicySet) bool {
	known, ok := Builtin(set.Name)
	return ok && known.Digest() == set.Digest()
}

// digest tells units of other content apart.
func (u unit) digest() string {
	sums := make([]string, 0, len(u))
	for _, set := range u {
		sums = append(sums, set.Digest())
	}
	return strings.Join(sums, " ")
}

// undecided says the same of every set.
func (u unit) undecided(in *gate.Input, message, remedy string) gate.Findings {
	var all gate.Findings
	for _, set := range u {
		all.Undecided = append(all.Undecided, undecided(set.Name, in, message, remedy))
	}
	return all
}

// doubts are the warnings of how sets were verified.
func (u unit) doubts(in *gate.Input) []gate.Finding {
	var all []gate.Finding
	for _, set := range u {
		for _, d := range set.Doubts {
			all = append(all, gate.Finding{
				Policy: set.Name, Severity: gate.SeverityMedium, Object: in.Object.String(), Message: d.Message, Remedy: d.Remedy,
			})
		}
	}
	return all
}
