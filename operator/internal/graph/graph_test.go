package graph

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func node(i int) Node {
	return Node{Namespace: fmt.Sprintf("ns%d", i%3), Name: fmt.Sprintf("w%05d", i)}
}

func shop(name string) Node { return Node{Namespace: "shop", Name: name} }

// sample is a random graph: edges, and the same as a Graph that was filled in any order.
type sample struct {
	nodes int
	edges [][2]int
	graph *Graph
}

func newSample(t *testing.T, r *rand.Rand) sample {
	t.Helper()
	s := sample{nodes: 1 + r.IntN(9)}
	for range r.IntN(2 * s.nodes) {
		s.edges = append(s.edges, [2]int{r.IntN(s.nodes), r.IntN(s.nodes)})
	}
	s.graph = s.fill(t, r)
	return s
}

func (s sample) fill(t *testing.T, r *rand.Rand) *Graph {
	t.Helper()
	g := New()
	for _, i := range r.Perm(s.nodes) {
		if err := g.Add(node(i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range r.Perm(len(s.edges)) {
		if err := g.Add(node(s.edges[i][0]), node(s.edges[i][1])); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// closure is the oracle: from[i][j] is the least number of steps by which i depends on j,
// and 0 when it does not.
func (s sample) closure() [][]int {
	from := make([][]int, s.nodes)
	for i := range from {
		from[i] = make([]int, s.nodes)
	}
	for _, e := range s.edges {
		from[e[0]][e[1]] = 1
	}
	for k := range from {
		for i := range from {
			for j := range from {
				if a, b := from[i][k], from[k][j]; a > 0 && b > 0 && (from[i][j] == 0 || a+b < from[i][j]) {
					from[i][j] = a + b
				}
			}
		}
	}
	return from
}

func samples(t *testing.T, check func(t *testing.T, r *rand.Rand, s sample)) {
	t.Helper()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := newSample(t, r)
		check(t, r, s)
		if t.Failed() {
			t.Fatalf("seed %d: %d nodes, edges %v", seed, s.nodes, s.edges)
		}
	}
}

func TestGraph_OrdersLikeTheOracle(t *testing.T) {
	samples(t, func(t *testing.T, r *rand.Rand, s sample) {
		from := s.closure()
		order, rest := s.graph.Order()
		var want []Node
		for i := range s.nodes {
			for j := range s.nodes {
				if from[j][j] > 0 && (i == j || from[i][j] > 0) {
					want = append(want, node(i))
					break
				}
			}
		}
		slices.SortFunc(want, compare)
		if !slices.Equal(rest, want) || len(order)+len(rest) != s.nodes {
			t.Errorf("rest %v, want %v; order %v", rest, want, order)
		}
		for at, n := range order {
			// Whatever comes first of those whose dependencies are all there already.
			var next []Node
			for i := range s.nodes {
				ready := !slices.Contains(order[:at], node(i)) && !slices.Contains(rest, node(i))
				for _, e := range s.edges {
					ready = ready && (e[0] != i || slices.Contains(order[:at], node(e[1])))
				}
				if ready {
					next = append(next, node(i))
				}
			}
			if len(next) == 0 || slices.MinFunc(next, compare) != n {
				t.Errorf("%s is number %d of %v; these could be: %v", n, at, order, next)
			}
		}
		again, _ := s.fill(t, r).Order()
		if !slices.Equal(order, again) {
			t.Errorf("filled in another order: %v and not %v", again, order)
		}
	})
}

func TestGraph_FindsCyclesLikeTheOracle(t *testing.T) {
	samples(t, func(t *testing.T, r *rand.Rand, s sample) {
		from, other := s.closure(), s.fill(t, r)
		groups := map[Node]bool{}
		for i := range s.nodes {
			cycle := s.graph.Cycle(node(i))
			if len(cycle) != from[i][i] {
				t.Errorf("%s: %v, want %d nodes", node(i), cycle, from[i][i])
			}
			if !slices.Equal(cycle, other.Cycle(node(i))) {
				t.Errorf("filled in another order: %v and not %v", other.Cycle(node(i)), cycle)
			}
			s.isCycle(t, cycle)
			if from[i][i] > 0 {
				first := node(i)
				for j := range s.nodes {
					if from[i][j] > 0 && from[j][i] > 0 && compare(node(j), first) < 0 {
						first = node(j)
					}
				}
				groups[first] = true
			}
		}
		all := s.graph.Cycles()
		if len(all) != len(groups) {
			t.Errorf("cycles %v of groups that start with %v", all, groups)
		}
		for _, cycle := range all {
			s.isCycle(t, cycle)
			if !groups[cycle[0]] {
				t.Errorf("%v starts no group of %v", cycle, groups)
			}
		}
	})
}

// isCycle holds that each depends on the next, and that the first by name is first.
func (s sample) isCycle(t *testing.T, cycle []Node) {
	t.Helper()
	for i, n := range cycle {
		next := cycle[(i+1)%len(cycle)]
		known := slices.ContainsFunc(s.edges, func(e [2]int) bool { return node(e[0]) == n && node(e[1]) == next })
		if !known || compare(cycle[0], n) > 0 {
			t.Errorf("%v: %s does not depend on %s, or is first", cycle, n, next)
		}
	}
}

// Whatever the graph, deleting all of it ends, and nobody goes before a dependent that
// could have gone first.
func TestGraph_DeletesEverythingInReverseOrder(t *testing.T) {
	samples(t, func(t *testing.T, _ *rand.Rand, s sample) {
		from := s.closure()
		gone := map[Node]bool{}
		for len(gone) < s.nodes {
			var going []Node
			for i := range s.nodes {
				waits := slices.ContainsFunc(s.graph.DeleteBefore(node(i)), func(d Node) bool { return !gone[d] })
				if !gone[node(i)] && !waits {
					going = append(going, node(i))
				}
			}
			if len(going) == 0 {
				t.Errorf("all that are left wait: gone are %v", gone)
				return
			}
			for _, n := range going {
				gone[n] = true
			}
			for _, e := range s.edges {
				if from[e[1]][e[0]] == 0 && gone[node(e[1])] && !gone[node(e[0])] {
					t.Errorf("%s is gone before %s, which depends on it", node(e[1]), node(e[0]))
				}
			}
		}
	})
}

func TestPath_IsTheSameForEveryMember(t *testing.T) {
	g := New()
	for _, e := range [][2]string{{"b", "c"}, {"c", "a"}, {"a", "b"}, {"z", "a"}, {"self", "self"}} {
		if err := g.Add(shop(e[0]), shop(e[1])); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if got := Path(g.Cycle(shop(name))); got != "shop/a -> shop/b -> shop/c -> shop/a" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := Path(g.Cycle(shop("self"))); got != "shop/self -> shop/self" {
		t.Error(got)
	}
	if got := g.Cycle(shop("z")); got != nil {
		t.Errorf("z only depends on a cycle: %v", got)
	}
	if got := g.Cycle(shop("nobody")); got != nil {
		t.Errorf("a node that there is not: %v", got)
	}
}

func TestGraph_HasBounds(t *testing.T) {
	g := New()
	for i := range limits.GraphNodes {
		if err := g.Add(node(i)); err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
	}
	if err := g.Add(node(0)); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if err := g.Add(node(limits.GraphNodes)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one more: %v", err)
	}
	edges := 0
	for i := 0; ; i++ {
		for j := range 1000 {
			err := g.Add(node(i), node(j))
			if err == nil {
				edges++
				continue
			}
			if !errors.Is(err, ErrTooLarge) || edges != limits.GraphEdges {
				t.Errorf("%d edges: %v", edges, err)
			}
			return
		}
	}
}

// A chain is as deep as a graph can be, and one ring of all nodes its longest cycle.
func TestGraph_IsNotDeeperThanItsStack(t *testing.T) {
	g := New()
	for i := range limits.GraphNodes {
		if err := g.Add(node(i), node((i+1)%limits.GraphNodes)); err != nil {
			t.Fatal(err)
		}
	}
	if all := g.Cycles(); len(all) != 1 || len(all[0]) != limits.GraphNodes {
		t.Errorf("%d cycles", len(all))
	}
}

func BenchmarkGraph(b *testing.B) {
	const nodes = 10_000
	fill := func(b *testing.B, back bool) *Graph {
		g := New()
		for i := range nodes {
			dependencies := []Node{}
			for j := i / 2; j < i && len(dependencies) < 8; j++ {
				dependencies = append(dependencies, node(j))
			}
			if err := g.Add(node(i), dependencies...); err != nil {
				b.Fatal(err)
			}
		}
		if back {
			if err := g.Add(node(0), node(nodes-1)); err != nil {
				b.Fatal(err)
			}
		}
		return g
	}
	for name, work := range map[string]func(g *Graph) bool{
		"order":  func(g *Graph) bool { order, _ := g.Order(); return len(order) == nodes },
		"cycle":  func(g *Graph) bool { return g.Cycle(node(0)) != nil },
		"cycles": func(g *Graph) bool { return len(g.Cycles()) == 1 },
		"delete": func(g *Graph) bool { return len(g.DeleteBefore(node(nodes/2))) > 0 },
	} {
		b.Run(name, func(b *testing.B) {
			g := fill(b, name == "cycle" || name == "cycles")
			b.ReportAllocs()
			for b.Loop() {
				if !work(g) {
					b.Fatal("not what was expected")
				}
			}
		})
	}
	b.Run("fill", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fill(b, false)
		}
	})
}
