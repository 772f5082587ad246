package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// Marks between which Docs writes.
const (
	docsBegin = "<!-- begin: written by make generate from operator/internal/rollout/table.go -->\n"
	docsEnd   = "<!-- end -->\n"
)

// Docs is the page with the table in it, as a diagram and as text, in place of what stood
// between the marks.
func Docs(page string) (string, error) {
	before, rest, ok := strings.Cut(page, docsBegin)
	if !ok {
		return "", errors.New("the page has no line " + strings.TrimSpace(docsBegin))
	}
	_, after, ok := strings.Cut(rest, docsEnd)
	if !ok {
		return "", errors.New("the page has no line " + strings.TrimSpace(docsEnd) + " below that")
	}
	return before + docsBegin + diagram() + "\n" + tableText() + docsEnd + after, nil
}

// diagram is the table in Mermaid. An event that leads from all over to one phase is drawn
// once, from a box that stands for them.
func diagram() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    state \"any phase but Paused and Deleting\" as Any\n    [*] --> " + string(initial) + "\n")
	var edges []string
	labels := map[string][]string{}
	add := func(from string, to v1beta1.Phase, e Event) {
		edge := from + " --> " + string(to)
		if labels[edge] == nil {
			edges = append(edges, edge)
		}
		labels[edge] = append(labels[edge], string(e))
	}
	for _, e := range events {
		for _, to := range states {
			from := movers(e, to)
			if sweeping(from, to) {
				add("Any", to, e)
				from = slices.DeleteFunc(from, func(s v1beta1.Phase) bool { return s != paused })
			}
			for _, s := range from {
				add(string(s), to, e)
			}
		}
	}
	for _, edge := range edges {
		b.WriteString("    " + edge + ": " + strings.Join(labels[edge], ", ") + "\n")
	}
	b.WriteString("    " + string(deleting) + " --> [*]\n```\n")
	return b.String()
}

// movers are the phases that an event leads out of, to one other.
func movers(e Event, to v1beta1.Phase) []v1beta1.Phase {
	var out []v1beta1.Phase
	for _, s := range states {
		if r := cells[pair{s, e}]; r.does == moves && r.to == to {
			out = append(out, s)
		}
	}
	return out
}

func sweeping(from []v1beta1.Phase, to v1beta1.Phase) bool {
	for _, s := range states {
		if s != paused && s != deleting && s != to && !slices.Contains(from, s) {
			return false
		}
	}
	return true
}

func tableText() string {
	var b strings.Builder
	b.WriteString("| Event | In | Leads to |\n| --- | --- | --- |\n")
	for _, e := range events {
		for _, r := range table {
			if !slices.Contains(r.on, e) || slices.Equal(r.in, in(deleting)) {
				continue
			}
			effect := "**" + string(r.to) + "**"
			switch r.does {
			case stays:
				effect = "the same: " + r.why
			case never:
				effect = "cannot happen: " + r.why
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", e, list(r.in), effect)
		}
	}
	b.WriteString("| any | Deleting | the same: " + table[0].why + " |\n")
	return b.String()
}

func list(phases []v1beta1.Phase) string {
	names := make([]string, 0, len(phases))
	for _, p := range phases {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}
