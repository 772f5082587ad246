// Package overlaydiff compares two sets of objects for people: what means the same is no
// difference, and secrets are not shown. It is pure.
package overlaydiff

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Kinds of change of an object.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is one object that is not the same on both sides.
type Change struct {
	// Object as Kind/namespace/name.
	Object string
	// Kind is Added, Removed or Changed.
	Kind string
	// Lines of the object in YAML, those of both sides in one sequence.
	Lines []Line
}

// Line of a comparison. Op is ' ' for a line of both sides, '-' for one of the old and '+'
// for one of the new.
type Line struct {
	Op   byte
	Text string
}

// Set is objects by what they are: group, kind, namespace and name.
type Set map[Key]*unstructured.Unstructured

// Key tells objects apart; their version is not part of it.
type Key struct{ Group, Kind, Namespace, Name string }

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + "/" + k.Name
	}
	return k.Kind + "/" + k.Namespace + "/" + k.Name
}

// KeyOf is the key of an object.
func KeyOf(u *unstructured.Unstructured) Key {
	return Key{u.GroupVersionKind().Group, u.GetKind(), u.GetNamespace(), u.GetName()}
}

// Compare lists the objects that differ, sorted by namespace, name and kind. One that is on
// each side in another namespace, as where environments have namespaces of their own, is one
// object that changed.
func Compare(old, now Set) ([]Change, error) {
	moved := moves(old, now)
	keys := map[Key]bool{}
	for _, set := range []Set{old, now} {
		for key := range set {
			keys[key] = true
		}
	}
	var changes []Change
	for _, from := range moved {
		delete(keys, from)
	}
	for _, key := range sortedKeys(keys) {
		was, name := key, key.String()
		if from, ok := moved[key]; ok {
			was, name = from, from.String()+" → "+name
		}
		change, err := compare(old[was], now[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if change != nil {
			change.Object = redact.Text(name, limits.MessageBytes)
			changes = append(changes, *change)
		}
	}
	return changes, nil
}

// moves are the objects that are in another namespace on the old side, by their key on the
// new one. Where several have the name, there is no telling which of them it was.
func moves(old, now Set) map[Key]Key {
	bare := func(set, other Set) map[Key][]Key {
		out := map[Key][]Key{}
		for key := range set {
			if _, both := other[key]; !both && key.Namespace != "" {
				name := Key{Group: key.Group, Kind: key.Kind, Name: key.Name}
				out[name] = append(out[name], key)
			}
		}
		return out
	}
	was := bare(old, now)
	moved := map[Key]Key{}
	for name, is := range bare(now, old) {
		if len(is) == 1 && len(was[name]) == 1 {
			moved[is[0]] = was[name][0]
		}
	}
	return moved
}

func sortedKeys(keys map[Key]bool) []Key {
	var out []Key
	for key := range keys {
		out = append(out, key)
	}
	slices.SortFunc(out, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group))
	})
	return out
}

func compare(old, now *unstructured.Unstructured) (*Change, error) {
	m := masker{}
	switch {
	case old == nil:
		return whole(&m, now, Added, '+')
	case now == nil:
		return whole(&m, old, Removed, '-')
	}
	was, is, err := delta.Sides(old, now)
	if err != nil {
		return nil, err
	}
	before, err := m.lines(was, is)
	if err != nil {
		return nil, err
	}
	after, err := m.lines(is, was)
	if err != nil {
		return nil, err
	}
	if slices.Equal(before, after) {
		return nil, nil
	}
	return &Change{Kind: Changed, Lines: script(before, after)}, nil
}

func whole(m *masker, u *unstructured.Unstructured, kind string, op byte) (*Change, error) {
	is, _, err := delta.Sides(u, u)
	if err != nil {
		return nil, err
	}
	lines, err := m.lines(is, nil)
	if err != nil {
		return nil, err
	}
	c := &Change{Kind: kind}
	for _, text := range lines {
		c.Lines = append(c.Lines, Line{op, text})
	}
	return c, nil
}

// masker hides secrets of one object's two states: the same secret is the same word in
// both, and another is another, so that a change of one is seen.
type masker struct{ seen []string }

func (m *masker) word(secret string) string {
	i := slices.Index(m.seen, secret)
	if i < 0 {
		i = len(m.seen)
		m.seen = append(m.seen, secret)
	}
	return fmt.Sprintf("(masked %d)", i+1)
}

// lines are an object in YAML. Secrets that stand elsewhere in it too, or in the other
// state, such as a password in an argument, are masked wherever they are.
func (m *masker) lines(object, other map[string]any) ([]string, error) {
	secrets := redact.SecretsOf(object, other)
	raw, err := yaml.Marshal(redact.Replace(object, m.word))
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(bytes.TrimRight(raw, "\n"))) {
		out = append(out, secrets.Text(strings.TrimRight(line, "\r\n"), limits.ErrorBytes))
	}
	return out, nil
}

// script is the shortest way from before to after, line by line.
func script(before, after []string) []Line {
	var head, tail []Line
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		head = append(head, Line{' ', before[0]})
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		tail = append(tail, Line{' ', before[len(before)-1]})
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	slices.Reverse(tail)
	return slices.Concat(head, middle(before, after), tail)
}

// middle finds the longest common lines; where the two are so long that the table for it
// would be too large, everything counts as replaced.
func middle(before, after []string) []Line {
	var out []Line
	n, m := len(before), len(after)
	if n*m > limits.DiffCells {
		n, m = 0, 0
	}
	longest := make([]int32, (n+1)*(m+1))
	at := func(i, j int) int { return i*(m+1) + j }
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if before[i] == after[j] {
				longest[at(i, j)] = longest[at(i+1, j+1)] + 1
			} else {
				longest[at(i, j)] = max(longest[at(i+1, j)], longest[at(i, j+1)])
			}
		}
	}
	i, j := 0, 0
	for i < n && j < m {
		switch {
		case before[i] == after[j]:
			out = append(out, Line{' ', before[i]})
			i, j = i+1, j+1
		case longest[at(i+1, j)] >= longest[at(i, j+1)]:
			out = append(out, Line{'-', before[i]})
			i++
		default:
			out = append(out, Line{'+', after[j]})
			j++
		}
	}
	for _, text := range before[i:] {
		out = append(out, Line{'-', text})
	}
	for _, text := range after[j:] {
		out = append(out, Line{'+', text})
	}
	return out
}
