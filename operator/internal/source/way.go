package source

import (
	"path"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// visit is a folder with a kustomization, on one of the ways that lead to it.
type visit struct {
	*layer
	depth      int
	components []string
	// above is the visit whose kustomization names the folder, nil for the top; rest are the
	// components there that are applied between the two.
	above *visit
	rest  []string
	// late says that the budget was used up with it.
	late bool
	// way from the folder's files to the top, made when it is first asked for.
	way []*layer
}

// arrival is how a file is reached.
type arrival struct {
	from *visit
	// again says that there is more than one way.
	again bool
}

// climb is one walk from the top, in which the ways to all files are found.
type climb struct {
	sources *Sources
	// left is how many entries may still be looked into.
	left     int
	arrivals map[string]*arrival
}

// climbed walks from the folder that was built.
func (s *Sources) climbed(budget int) map[string]*arrival {
	c := climb{sources: s, left: budget, arrivals: map[string]*arrival{}}
	c.enter(s.top, nil, nil)
	return c.arrivals
}

// wayTo is the way from a file up to the folder that was built: the layers in the order in
// which Kustomize applies them. sure is false where there is none, or more than one.
func (s *Sources) wayTo(file string) (way []*layer, sure bool) {
	if s.arrivals == nil {
		s.arrivals = s.climbed(limits.SourceFiles)
	}
	at := s.arrivals[file]
	if at == nil || at.again {
		return nil, false
	}
	return s.wayOf(at.from), true
}

func (s *Sources) wayOf(v *visit) []*layer {
	if v.way != nil {
		return v.way
	}
	v.way = append(s.expand(v.folder, v.components, v.depth), v.layer)
	for at := v; at.above != nil; at = at.above {
		v.way = append(append(v.way, s.expand(at.above.folder, at.rest, at.above.depth)...), at.above.layer)
	}
	return v.way
}

// enter looks into a folder, and into those that its kustomization names.
func (c *climb) enter(folder string, above *visit, rest []string) {
	l, depth := c.sources.layer(folder), 0
	if above != nil {
		depth = above.depth + 1
	}
	// A file that is looked for costs nothing itself: the ways to one that was passed once
	// may lead through one more entry than those to the others.
	if c.left--; l == nil || depth > limits.SourceDepth || c.left < -1 {
		return
	}
	v := &visit{layer: l, depth: depth, components: l.entries("components"), above: above, rest: rest, late: c.left < 0}
	for _, entry := range l.entries("resources", "bases") {
		target := path.Join(folder, entry)
		if c.sources.layer(target) == nil {
			c.left--
			c.arrive(target, v)
			continue
		}
		c.enter(target, v, v.components)
	}
	for i, entry := range v.components {
		c.enter(path.Join(folder, entry), v, v.components[i+1:])
	}
}

func (c *climb) arrive(file string, v *visit) {
	at := c.arrivals[file]
	switch {
	case at != nil:
		at.again = true
	case !v.late:
		c.arrivals[file] = &arrival{from: v}
	}
}
