package source

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// search is what a walk for all files has to find, for one file alone: all ways to it, of
// which more than two are not told apart.
func (s *Sources) search(folder, file string, depth int, budget *int) [][]*layer {
	l := s.layer(folder)
	if *budget--; l == nil || depth > limits.SourceDepth || *budget < 0 {
		return nil
	}
	var out [][]*layer
	components := l.entries("components")
	take := func(ways [][]*layer, after []string) {
		for _, way := range ways {
			out = append(out, append(slices.Concat(way, s.expand(folder, after, depth)), l))
		}
	}
	for _, entry := range l.entries("resources", "bases") {
		target := path.Join(folder, entry)
		if target == file {
			take([][]*layer{nil}, components)
		} else {
			take(s.search(target, file, depth+1, budget), components)
		}
	}
	for i, entry := range components {
		take(s.search(path.Join(folder, entry), file, depth+1, budget), components[i+1:])
	}
	return out[:min(len(out), 2)]
}

// layersAtRandom makes kustomizations that name files and each other, some of them twice.
func layersAtRandom(random *rand.Rand) (files map[string][]byte, top string) {
	files = map[string][]byte{}
	folders := 2 + random.IntN(6)
	for f := range folders {
		var resources, components []string
		for range random.IntN(5) {
			name := fmt.Sprintf("r%d.yaml", random.IntN(3))
			files[fmt.Sprintf("f%d/%s", f, name)] = []byte("a: b\n")
			resources = append(resources, name)
		}
		for range random.IntN(4) {
			if f == 0 {
				break
			}
			below := fmt.Sprintf("../f%d", random.IntN(f))
			if random.IntN(3) == 0 {
				components = append(components, below)
			} else {
				resources = append(resources, below)
			}
		}
		random.Shuffle(len(resources), func(i, j int) { resources[i], resources[j] = resources[j], resources[i] })
		files[fmt.Sprintf("f%d/kustomization.yaml", f)] = fmt.Appendf(nil, "resources: [%s]\ncomponents: [%s]\n", strings.Join(resources, ", "), strings.Join(components, ", "))
	}
	return files, fmt.Sprintf("f%d", folders-1)
}

// One walk finds for all files what a search for each of them does, and ends where that does.
func TestWayTo_IsWhatASearchForTheFileFinds(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	sure, several, cut := 0, 0, 0
	for range 3000 {
		files, top := layersAtRandom(random)
		budget := 1 + random.IntN(25)
		s := New(files, top, func(name string) string { return name })
		s.arrivals = s.climbed(budget)
		for file := range files {
			if path.Base(file) == "kustomization.yaml" {
				continue
			}
			left, plenty := budget, limits.SourceFiles
			want := s.search(top, file, 0, &left)
			way, one := s.wayTo(file)
			if one != (len(want) == 1) || one && !slices.Equal(way, want[0]) {
				t.Fatalf("budget %d, %s: way %v, %t; the search finds %d: %v\n%s", budget, file, names(way), one, len(want), want, files)
			}
			switch whole := s.search(top, file, 0, &plenty); {
			case len(whole) != len(want):
				cut++
			case one:
				sure++
			case len(want) > 1:
				several++
			}
		}
	}
	if sure < 1000 || several < 1000 || cut < 1000 {
		t.Errorf("%d ways are sure, %d files have several, and the budget changes %d: too few to tell anything", sure, several, cut)
	}
}

func names(way []*layer) []string {
	var out []string
	for _, l := range way {
		out = append(out, l.folder)
	}
	return out
}
