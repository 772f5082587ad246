package source

import (
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// hidden stands for a line, or the rest of one, that is not shown.
const hidden = "…"

// sensitive are fields whose values are not shown: those that hold, or may hold, what
// people put secrets into. Who reads the report of a pull request may be anyone.
var sensitive = regexp.MustCompile(`(?i)^(env|.*data|value|literals|patch.*|.*annotations|args|command|files|options|behavior)$|pass|pwd|secret|token|cred|auth|cookie|.key|dsn`)

// code is the line with its neighbours, within what may be shown: neighbours are of the
// same document, or the same entry of a kustomization.
func (s *Sources) code(at spot, line int) (first int, code []string) {
	lines := strings.Split(string(s.files[at.file]), "\n")
	if line < 1 || line > len(lines) {
		return 0, nil
	}
	from, to := line, line
	closed := map[int]bool{}
	if !at.whole && at.line == 0 {
		low, high := extent(at.within, lines, closed)
		from, to = max(low, line-1), min(high, line+1)
	}
	conceal(at.document, at.line, at.whole, closed)
	for n := from; n <= to && n <= len(lines); n++ {
		text := strings.TrimRight(lines[n-1], "\r")
		switch {
		case n == line && (closed[n] || at.whole):
			text = beginning(at)
		case closed[n]:
			text = hidden
		}
		code = append(code, text)
	}
	return from, code
}

// beginning is a line of which only the key is shown, where it stands in the file.
func beginning(at spot) string {
	if at.whole {
		return strings.Repeat(" ", at.within.Column-1) + hidden
	}
	key := ""
	if at.node.Kind == yaml.ScalarNode && !strings.Contains(at.node.Value, "\n") && strings.HasSuffix(at.field, at.node.Value) {
		key = at.node.Value + ": "
	}
	return strings.Repeat(" ", at.node.Column-1+at.column) + key + hidden
}

// extent is the first and the last line of a node. Lines that continue a text are closed:
// nothing on them is a field.
func extent(n *yaml.Node, lines []string, closed map[int]bool) (first, last int) {
	first, last = n.Line, n.Line
	starts := map[int]bool{}
	each(n, func(x *yaml.Node) {
		first, last = min(first, x.Line), max(last, x.Line)
		starts[x.Line] = true
	})
	for number := first; number <= last && number <= len(lines); number++ {
		if !starts[number] && strings.TrimSpace(lines[number-1]) != "" {
			closed[number] = true
		}
	}
	return first, last
}

// conceal closes the lines with values of sensitive fields.
func conceal(n *yaml.Node, offset int, under bool, closed map[int]bool) {
	if n == nil {
		return
	}
	if under {
		closed[n.Line+offset] = true
	}
	for i, c := range n.Content {
		inside := under
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			inside = under || sensitive.MatchString(n.Content[i-1].Value)
		}
		conceal(c, offset, inside, closed)
	}
}
