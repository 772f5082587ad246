package overlay

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// What a kustomization may name, by field. Kustomize clones a resource that is not a
// local path and downloads a file that looks like a URL; both are refused before it
// sees them, with the line that asks.
var (
	folderOrFile = []string{"resources", "bases", "components"}
	pluginFields = []string{"generators", "transformers", "validators"}
	fileLists    = []string{"crds", "configurations", "patchesStrategicMerge"}
	helmFields   = []string{"helmCharts", "helmGlobals", "helmChartInflationGenerator"}
)

// refusal walks the graph of kustomizations from one folder and refuses what would reach
// outside the root.
type refusal struct {
	fsys *rooted
	seen map[string]bool
}

func refuse(fsys *rooted, folder string) error {
	r := refusal{fsys: fsys, seen: map[string]bool{}}
	return r.kustomization(inside(folder), false, 0)
}

// kustomization checks one folder. In a plugin folder every resource configures a
// built-in plugin, and its paths are loaded like the kustomization's own.
func (r *refusal) kustomization(folder string, plugin bool, depth int) error {
	if depth > limits.SourceDepth {
		return fmt.Errorf("%s: kustomizations nest deeper than %d (limits.SourceDepth)", folder, limits.SourceDepth)
	}
	key := fmt.Sprint(folder, plugin)
	if r.seen[key] {
		return nil
	}
	r.seen[key] = true
	file := kustomizationFile(r.fsys, folder)
	if file == "" {
		return fmt.Errorf("%s: no kustomization.yaml", folder)
	}
	raw, err := r.fsys.ReadFile(file)
	if err != nil {
		return err
	}
	doc, err := yaml.Parse(string(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return r.fields(file, folder, doc, plugin, depth)
}

func kustomizationFile(fsys *rooted, folder string) string {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if f := path.Join(folder, name); fsys.Exists(f) && !fsys.IsDir(f) {
			return f
		}
	}
	return ""
}

func (r *refusal) fields(file, folder string, doc *yaml.RNode, plugin bool, depth int) error {
	for _, name := range helmFields {
		if f := doc.Field(name); f != nil {
			return refused(file, f.Key.YNode(), name, "Helm charts run a program and download; render the chart and commit the result")
		}
	}
	for _, name := range folderOrFile {
		if err := r.entries(file, folder, doc, name, plugin, depth); err != nil {
			return err
		}
	}
	for _, name := range pluginFields {
		if err := r.entries(file, folder, doc, name, true, depth); err != nil {
			return err
		}
	}
	for _, name := range fileLists {
		if err := noURLs(file, doc.Field(name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"patches", "patchesJson6902", "replacements", "configMapGenerator", "secretGenerator", "openapi"} {
		if err := noURLs(file, doc.Field(name)); err != nil {
			return err
		}
	}
	return nil
}

// entries checks a list of folders, files and inline documents.
func (r *refusal) entries(file, folder string, doc *yaml.RNode, name string, plugin bool, depth int) error {
	field := doc.Field(name)
	if field == nil || field.Value.YNode() == nil {
		return nil
	}
	for _, node := range field.Value.YNode().Content {
		entry := node.Value
		if strings.Contains(entry, "\n") {
			if plugin {
				if err := noURLsIn(file, node.Line, entry); err != nil {
					return err
				}
			}
			continue
		}
		if path.IsAbs(entry) {
			return refused(file, node, entry, "absolute paths are not portable and may leave the root")
		}
		target := path.Join("/", folder, entry)
		switch {
		case escapes(folder, entry):
			return refused(file, node, entry, "it leaves the root; pass a root that holds both")
		case !r.fsys.Exists(target):
			return refused(file, node, entry, "no such file or folder under the root; remote bases are not fetched: vendor them")
		case r.fsys.IsDir(target):
			if err := r.kustomization(inside(target), plugin, depth+1); err != nil {
				return err
			}
		case plugin:
			raw, err := r.fsys.ReadFile(target)
			if err != nil {
				return err
			}
			if err := noURLsIn(inside(target), 1, string(raw)); err != nil {
				return err
			}
		}
	}
	return nil
}

// escapes says whether entry, read in folder, climbs above the root. Inside the root's
// file system ".." stops at "/", which would silently read another file.
func escapes(folder, entry string) bool {
	joined := path.Join(folder, entry)
	return joined == ".." || strings.HasPrefix(joined, "../")
}

func noURLs(file string, field *yaml.MapNode) error {
	if field == nil {
		return nil
	}
	return noURLNodes(file, 0, field.Value.YNode())
}

func noURLsIn(file string, line int, content string) error {
	for _, piece := range strings.Split(content, "\n---") {
		doc, err := yaml.Parse(piece)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, line, err)
		}
		if err := noURLNodes(file, line-1, doc.YNode()); err != nil {
			return err
		}
	}
	return nil
}

func noURLNodes(file string, offset int, node *yaml.Node) error {
	if node == nil {
		return nil
	}
	if node.Kind == yaml.ScalarNode {
		// configMapGenerator files are written key=path.
		_, value, found := strings.Cut(node.Value, "=")
		if isURL(node.Value) || (found && isURL(value)) {
			moved := *node
			moved.Line += offset
			return refused(file, &moved, node.Value, "nothing is downloaded; commit the file")
		}
		return nil
	}
	for _, child := range node.Content {
		if err := noURLNodes(file, offset, child); err != nil {
			return err
		}
	}
	return nil
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

func refused(file string, node *yaml.Node, entry, why string) error {
	return fmt.Errorf("%s:%d: %q is refused: %s", file, node.Line, entry, why)
}
