// Package graph knows which Workload depends on which: in what order they start and go,
// and where they wait for each other in a circle. It is pure, and does not recurse: a
// chain may be as long as the graph is large.
package graph

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// ErrTooLarge says that a graph has more nodes or edges than package limits allows.
var ErrTooLarge = errors.New("too many dependencies")

// Node is a Workload by namespace and name.
type Node struct{ Namespace, Name string }

// String is namespace/name.
func (n Node) String() string { return n.Namespace + "/" + n.Name }

func compare(a, b Node) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Graph holds nodes and what each depends on. What it answers does not depend on the
// order in which it was filled. It is not safe for concurrent use.
type Graph struct {
	dependencies, dependents map[Node][]Node
	edges                    int
}

// New makes an empty Graph.
func New() *Graph {
	return &Graph{dependencies: map[Node][]Node{}, dependents: map[Node][]Node{}}
}

// Add enters a node and what it depends on, beside what was entered for it before. One
// that is named as a dependency is in the graph too. The error is ErrTooLarge; what was
// entered until then stays.
func (g *Graph) Add(n Node, dependencies ...Node) error {
	if err := g.enter(n); err != nil {
		return err
	}
	for _, d := range dependencies {
		if err := g.enter(d); err != nil {
			return err
		}
		at, known := slices.BinarySearchFunc(g.dependencies[n], d, compare)
		if known {
			continue
		}
		if g.edges++; g.edges > limits.GraphEdges {
			return fmt.Errorf("%w: more than %d between Workloads (limits.GraphEdges)", ErrTooLarge, limits.GraphEdges)
		}
		g.dependencies[n] = slices.Insert(g.dependencies[n], at, d)
		g.dependents[d] = append(g.dependents[d], n)
	}
	return nil
}

func (g *Graph) enter(n Node) error {
	if _, known := g.dependencies[n]; known {
		return nil
	}
	if len(g.dependencies) == limits.GraphNodes {
		return fmt.Errorf("%w: more than %d Workloads (limits.GraphNodes)", ErrTooLarge, limits.GraphNodes)
	}
	g.dependencies[n] = nil
	return nil
}

// Order is the nodes with each behind all that it depends on; of those that may come
// next, the first by name. rest is what has no place in it, sorted: nodes in a cycle, and
// those that depend on one.
func (g *Graph) Order() (order, rest []Node) {
	open := make(map[Node]int, len(g.dependencies))
	var free queue
	for n, dependencies := range g.dependencies {
		if open[n] = len(dependencies); open[n] == 0 {
			free = append(free, n)
		}
	}
	heap.Init(&free)
	for len(free) > 0 {
		n := heap.Pop(&free).(Node)
		order = append(order, n)
		delete(open, n)
		for _, d := range g.dependents[n] {
			if open[d]--; open[d] == 0 {
				heap.Push(&free, d)
			}
		}
	}
	for n := range open {
		rest = append(rest, n)
	}
	slices.SortFunc(rest, compare)
	return order, rest
}

// queue gives its first node by name, see container/heap.
type queue []Node

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return compare(q[i], q[j]) < 0 }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(n any)        { *q = append(*q, n.(Node)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// DeleteBefore lists, sorted, the dependents of n that go before n does when all are
// deleted. One that n in turn depends on is not among them: it would wait for n, and
// neither would go.
func (g *Graph) DeleteBefore(n Node) []Node {
	reached := g.reach(n, everywhere)
	var out []Node
	for _, d := range g.dependents[n] {
		if _, behind := reached[d]; !behind && d != n {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, compare)
	return out
}

// Path writes a cycle out, closed: shop/a -> shop/b -> shop/a.
func Path(cycle []Node) string {
	names := make([]string, 0, len(cycle)+1)
	for _, n := range cycle {
		names = append(names, n.String())
	}
	return strings.Join(append(names, cycle[0].String()), " -> ")
}
