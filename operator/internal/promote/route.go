// Package promote decides what a promotion takes from one environment to the next, what
// may stand in its way, and what its pull request says. It is pure: what was read goes in,
// a plan and a text come out.
package promote

import (
	"fmt"
	"slices"
	"strings"
)

// Chain has, for each environment, those that its Gates demand evidence of.
type Chain map[string][]string

// Predecessor is the environment that one is promoted from: the one that its Gates name.
// It is "" where they name none, or more than one.
func (c Chain) Predecessor(to string) string {
	if len(c[to]) == 1 {
		return c[to][0]
	}
	return ""
}

// SkipError says that environments were left out.
type SkipError struct {
	From, To string
	// Missing are the environments between, in the order in which they are gone through. It
	// is empty where the Gates do not lead from From to To at all.
	Missing []string
	// Demanded are those that the Gates of To name.
	Demanded []string
}

func (e *SkipError) Error() string {
	demanded := strings.Join(e.Demanded, " and ")
	if len(e.Missing) == 0 {
		return fmt.Sprintf("%s is not promoted to %s: the Gate of %s demands evidence of %s (spec.requirePromotionFrom.environment); promote from there", e.From, e.To, e.To, demanded)
	}
	return fmt.Sprintf("%s is not promoted to %s directly: %s comes between; promote to %s first", e.From, e.To, strings.Join(e.Missing, ", then "), e.Missing[0])
}

// Route refuses to leave an environment out. Where the Gates of to name none before it,
// who asks is believed.
func (c Chain) Route(from, to string) error {
	if from == to {
		return fmt.Errorf("--from and --to are both %s: name the environment before it, or an earlier image with --image", to)
	}
	demanded := c[to]
	if len(demanded) == 0 || slices.Contains(demanded, from) {
		return nil
	}
	return &SkipError{From: from, To: to, Missing: c.between(from, to), Demanded: demanded}
}

// between goes back from to, the shortest way, and returns what is passed before from.
func (c Chain) between(from, to string) []string {
	after := map[string]string{to: ""}
	for queue := []string{to}; len(queue) > 0; queue = queue[1:] {
		for _, before := range c[queue[0]] {
			if _, seen := after[before]; seen {
				continue
			}
			after[before] = queue[0]
			if before != from {
				queue = append(queue, before)
				continue
			}
			var missing []string
			for at := after[from]; at != to; at = after[at] {
				missing = append(missing, at)
			}
			return missing
		}
	}
	return nil
}
