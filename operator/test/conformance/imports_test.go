package conformance

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/sluice-dev/sluice/operator/"

// layer of each package, by longest prefix. A package imports packages of lower layers
// only: decision code cannot reach I/O, and the gates cannot reach each other.
var layers = map[string]int{
	"internal/parallel":               -2,
	"internal/limits":                 -1, // the bounds of all, redact included
	"internal/collector":              -1,
	"internal/lru":                    -1,
	"internal/testkit/golden":         -1,
	"internal/testkit/oldrules":       -1,
	"api/":                            0,
	"internal/digests":                0,
	"internal/redact":                 0,
	"internal/strictjson":             0,
	"internal/argocd":                 1,
	"internal/bundle":                 1,
	"internal/clone":                  1,
	"internal/crdcompat":              1,
	"internal/evidence":               1,
	"internal/forge":                  1,
	"internal/gate":                   1,
	"internal/graph":                  1,
	"internal/kustomize":              1,
	"internal/leader":                 1,
	"internal/metrics":                1,
	"internal/repo":                   1,
	"internal/resultcache":            1,
	"internal/rollout":                1,
	"internal/schema":                 1,
	"internal/window":                 1,
	"test/stepwise":                   1,
	"internal/attest":                 2,
	"internal/conversion":             2,
	"internal/delta":                  2,
	"internal/gate/":                  2,
	"internal/health":                 2,
	"internal/ignore":                 2,
	"internal/images":                 2,
	"internal/overlay":                2,
	"internal/render":                 2,
	"internal/report":                 2,
	"internal/revision":               2,
	"internal/analysis":               3,
	"internal/gate/signature":         3, // over gate/policy, for policies over attestations
	"internal/live":                   3,
	"internal/overlaydiff":            3,
	"internal/overlaylint":            3,
	"internal/policyimport":           3,
	"internal/registry":               3,
	"internal/source":                 3,
	"internal/standing":               3,
	"internal/trust":                  3,
	"internal/gather":                 4,
	"internal/notary":                 4,
	"internal/pin":                    4,
	"internal/promote":                4,
	"internal/scaffold":               4,
	"internal/admission":              5,
	"internal/controller/":            5,
	"internal/lab/node":               6,
	"internal/testkit":                6,
	"internal/lab":                    7,
	"internal/lab/stage":              8,
	"internal/cli":                    9,
	"cmd/":                            10,
	"internal/argocd/argocdconfig":    10,
	"internal/gate/policy/policydocs": 10,
	"internal/rollout/rolloutdocs":    10,
	"packaging/":                      10,
	"test/":                           11,
}

// never lists what a package must not import although its layer would allow it.
var never = map[string][]string{
	"internal/cli":         {"internal/controller/", "internal/admission"},
	"internal/controller/": {"internal/testkit", "internal/lab"},
	"cmd/manager":          {"internal/testkit", "internal/lab", "internal/cli"},
	"internal/rollout":     {"k8s.io/client-go/", "sigs.k8s.io/", "net/http", "os", "math/rand", "math/rand/v2"},
	"internal/source":      {"os", "net/http", "io/fs", "os/exec"},
	"internal/bundle":      {"k8s.io/", "sigs.k8s.io/", "net/http", "time", "os", "context"},
	"internal/crdcompat":   {"k8s.io/client-go/", "net/http", "time", "os", "context"},
	"internal/argocd":      {"k8s.io/", "net/http", "time", "os", "context"},
	"internal/scaffold":    {"k8s.io/client-go/", "net/http", "time", "os", "context"},
	"internal/overlaydiff": {"k8s.io/client-go/", "net/http", "time", "os", "context"},
	"internal/promote":     {"internal/controller/", "internal/admission", "k8s.io/client-go/", "net/http", "os", "os/exec", "context"},
	"internal/forge":       {"internal/controller/", "internal/admission", "k8s.io/", "sigs.k8s.io/", "os", "os/exec"},
	"internal/window":      {"k8s.io/client-go/", "net/http", "os", "context"},
	"internal/graph":       {"k8s.io/", "sigs.k8s.io/", "net/http", "time", "os", "context"},
	"internal/evidence":    {"k8s.io/", "sigs.k8s.io/", "net/http", "os", "context"},
	"internal/gate":        {"k8s.io/", "sigs.k8s.io/", "net/http", "time", "os"},
}

// notInCommand are what sluice has to do without: each came with hundreds of packages, which
// every check of a pull request loads and initialises.
var notInCommand = []string{
	"github.com/argoproj/gitops-engine/",
	"k8s.io/kubectl/",
	"sigs.k8s.io/controller-runtime/pkg/manager",
	"sigs.k8s.io/controller-runtime/pkg/builder",
	"sigs.k8s.io/controller-runtime/pkg/webhook",
	"sigs.k8s.io/controller-runtime/pkg/cache",
	module + "internal/health",
	module + "internal/lab",
	module + "internal/testkit",
}

func TestImports_TheCommandStaysSmall(t *testing.T) {
	in, others := deps(t, module+"cmd/sluice"), deps(t, module+"cmd/manager", module+"test/lab")
	for _, path := range notInCommand {
		if at := strings.Index(in, "\n"+path); at >= 0 {
			found, _, _ := strings.Cut(in[at+1:], "\n")
			t.Errorf("cmd/sluice needs %s; see who by: go list -deps -f '{{.ImportPath}}: {{.Imports}}' ./operator/cmd/sluice", found)
		}
		// A path that nothing has any more forbids nothing.
		if !strings.Contains(others, "\n"+path) {
			t.Errorf("neither the operator nor the lab has %s", path)
		}
	}
}

// deps are all packages that packages need, each on a line, behind an empty one.
func deps(t *testing.T, of ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, of...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return "\n" + string(out)
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func TestImports_GoDownOnly(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		own, ok := layerOf(name)
		if !ok {
			t.Errorf("%s has no layer: add it to the table", name)
			continue
		}
		for _, i := range p.Imports {
			imported := strings.TrimPrefix(i, module)
			if imported != i {
				if theirs, ok := layerOf(imported); ok && theirs >= own && !siblings(name, imported) {
					t.Errorf("%s (layer %d) imports %s (layer %d)", name, own, imported, theirs)
				}
			}
			for _, forbidden := range never[longest(never, name)] {
				if imported == strings.TrimSuffix(forbidden, "/") || strings.HasPrefix(imported, forbidden) && strings.HasSuffix(forbidden, "/") {
					t.Errorf("%s imports %s, which it must not", name, imported)
				}
			}
		}
	}
}

// siblings are a command's own parts, such as a main below the package that it prints.
func siblings(name, imported string) bool { return strings.HasPrefix(name, imported+"/") }

func layerOf(name string) (int, bool) {
	key := longest(layers, name)
	layer, ok := layers[key]
	return layer, ok
}

func longest[V any](table map[string]V, name string) string {
	best := ""
	for key := range table {
		if (name == key || strings.HasSuffix(key, "/") && strings.HasPrefix(name, key)) && len(key) > len(best) {
			best = key
		}
	}
	return best
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
