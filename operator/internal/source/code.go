package source

import (
	"regexp"
	"sort"
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
	lines := s.file(at.file).lines()
	if line < 1 || line > len(lines) {
		return 0, nil
	}
	from, to := line, line
	closed := map[int]bool{}
	if !at.whole && at.line == 0 {
		low, high := extent(at.within, lines, closed)
		from, to = max(low, line-1), min(high, line+1)
	}
	conceal(at.document, span{from - at.line, to - at.line}, at.whole, func(line int) { closed[line+at.line] = true })
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

// span is lines of a text, the last included.
type span struct{ from, to int }

// conceal closes the lines of a span that have values of sensitive fields. What stands before
// and after it is passed over: a kustomization may have an entry for each object.
func conceal(n *yaml.Node, of span, under bool, closed func(line int)) {
	if n == nil {
		return
	}
	if under {
		closed(n.Line)
	}
	first := sort.Search(len(n.Content), func(i int) bool { return i+1 == len(n.Content) || n.Content[i+1].Line >= of.from })
	for i := first; i < len(n.Content) && n.Content[i].Line <= of.to; i++ {
		inside := under
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			name := n.Content[i-1].Value
			// Metadata is no data: what is secret in it stands in annotations.
			inside = under || name != "metadata" && sensitive.MatchString(name)
		}
		conceal(n.Content[i], of, inside, closed)
	}
}
