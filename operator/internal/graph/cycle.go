package graph

import "slices"

// Cycle is a shortest cycle through a node; nil when it lies in none. It starts at its
// first node by name, so that each node of it gets the same text, and each node depends
// on the next, the last on the first.
func (g *Graph) Cycle(n Node) []Node { return g.cycle(n, everywhere) }

func (g *Graph) cycle(n Node, within func(Node) bool) []Node {
	from := g.reach(n, within)
	at, closed := from[n]
	if !closed {
		return nil
	}
	cycle := []Node{n}
	for ; at != n; at = from[at] {
		cycle = append(cycle, at)
	}
	// It was walked against the direction of the dependencies.
	slices.Reverse(cycle[1:])
	first := slices.Index(cycle, slices.MinFunc(cycle, compare))
	return append(slices.Clone(cycle[first:]), cycle[:first]...)
}

func everywhere(Node) bool { return true }

// reach is what start depends on, directly or not, each with the node from which it was
// reached: nearest first, and of those equally near first by name. start is among them
// only when it depends on itself in the end.
func (g *Graph) reach(start Node, within func(Node) bool) map[Node]Node {
	from := map[Node]Node{}
	for frontier := []Node{start}; len(frontier) > 0; frontier = frontier[1:] {
		at := frontier[0]
		for _, d := range g.dependencies[at] {
			if _, seen := from[d]; seen || !within(d) {
				continue
			}
			from[d] = at
			if d != start {
				frontier = append(frontier, d)
			}
		}
	}
	return from
}

// Cycles lists one cycle for each group of nodes that all depend on each other, sorted by
// their first nodes. It takes time in proportion to the size of the graph.
func (g *Graph) Cycles() [][]Node {
	_, rest := g.Order()
	var cycles [][]Node
	for _, group := range g.groups(rest) {
		members := make(map[Node]bool, len(group))
		for _, n := range group {
			members[n] = true
		}
		first := slices.MinFunc(group, compare)
		if c := g.cycle(first, func(n Node) bool { return members[n] }); c != nil {
			cycles = append(cycles, c)
		}
	}
	slices.SortFunc(cycles, func(a, b []Node) int { return compare(a[0], b[0]) })
	return cycles
}

// tarjan is the state of the algorithm of that name, which finds the groups in one walk.
type tarjan struct {
	graph *Graph
	// number of each node in the order of the walk, from 1; low is the lowest number that
	// is reached from it and is not in a group yet.
	number, low map[Node]int
	// trail are the nodes that were walked and are in no group yet.
	trail   []Node
	waiting map[Node]bool
	groups  [][]Node
}

// step is a node on the way that is being walked, with the next of its dependencies.
type step struct {
	node Node
	next int
}

func (g *Graph) groups(nodes []Node) [][]Node {
	t := &tarjan{graph: g, number: map[Node]int{}, low: map[Node]int{}, waiting: map[Node]bool{}}
	for _, n := range nodes {
		if t.number[n] == 0 {
			t.walk(n)
		}
	}
	return t.groups
}

func (t *tarjan) walk(start Node) {
	way := []step{t.enter(start)}
	for len(way) > 0 {
		at := &way[len(way)-1]
		dependencies := t.graph.dependencies[at.node]
		if at.next < len(dependencies) {
			d := dependencies[at.next]
			at.next++
			if t.number[d] == 0 {
				way = append(way, t.enter(d))
			} else if t.waiting[d] {
				t.low[at.node] = min(t.low[at.node], t.number[d])
			}
			continue
		}
		way = way[:len(way)-1]
		if len(way) > 0 {
			before := way[len(way)-1].node
			t.low[before] = min(t.low[before], t.low[at.node])
		}
		if t.low[at.node] == t.number[at.node] {
			t.close(at.node)
		}
	}
}

func (t *tarjan) enter(n Node) step {
	t.number[n] = len(t.number) + 1
	t.low[n] = t.number[n]
	t.trail = append(t.trail, n)
	t.waiting[n] = true
	return step{node: n}
}

// close makes a group of the trail's end, from its first node on.
func (t *tarjan) close(first Node) {
	at := len(t.trail) - 1
	for t.trail[at] != first {
		at--
	}
	group := slices.Clone(t.trail[at:])
	t.trail = t.trail[:at]
	for _, n := range group {
		delete(t.waiting, n)
	}
	t.groups = append(t.groups, group)
}
