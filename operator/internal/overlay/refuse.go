package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// refusal walks the graph of kustomizations from one folder and refuses what would run a
// program, download, or reach outside the root, with the line that asks for it. It
// decides on what Kustomize's own reader makes of each file, aliases and keys in other
// cases included; the text is only searched for the line.
type refusal struct {
	fsys *rooted
	seen map[string]bool
}

func refuse(fsys *rooted, folder string) error {
	r := refusal{fsys: fsys, seen: map[string]bool{}}
	return r.kustomization(inside(folder), false, 0)
}

// page is a file that refusals point into.
type page struct {
	name   string
	folder string
	// lines of every scalar, the first place of each text.
	lines map[string]int
}

func (p *page) refused(entry, why string) error {
	line, ok := p.lines[entry]
	if !ok {
		line = 1
	}
	return fmt.Errorf("%s:%d: %q is refused: %s", p.name, line, entry, why)
}

// index notes the lines of all scalars below node. The first place of a text counts.
func (p *page) index(node *yaml.Node, offset int) {
	if node.Kind == yaml.ScalarNode {
		if _, ok := p.lines[node.Value]; !ok {
			p.lines[node.Value] = node.Line + offset
		}
	}
	for _, child := range node.Content {
		p.index(child, offset)
	}
}

// kustomization checks one folder. In a plugin folder every resource configures a
// built-in plugin.
func (r *refusal) kustomization(folder string, plugin bool, depth int) error {
	if depth > limits.SourceDepth {
		return fmt.Errorf("%s: kustomizations nest deeper than %d (limits.SourceDepth)", r.fsys.shown(folder), limits.SourceDepth)
	}
	key := fmt.Sprint(folder, plugin)
	if r.seen[key] {
		return nil
	}
	r.seen[key] = true
	file := kustomizationFile(r.fsys, folder)
	if file == "" {
		return fmt.Errorf("%s: the folder holds no kustomization.yaml", r.fsys.shown(folder))
	}
	raw, err := r.fsys.ReadFile(file)
	if err != nil {
		return err
	}
	p := &page{name: r.fsys.shown(file), folder: folder, lines: map[string]int{}}
	if err := p.read(raw); err != nil {
		return err
	}
	var k types.Kustomization
	if err := k.Unmarshal(raw); err != nil {
		return fmt.Errorf("%s:1: %w", p.name, err)
	}
	if plugin && !onlyResources(k) {
		return fmt.Errorf("%s:1: a kustomization under generators, transformers or validators may only list resources: what it changed in them could not be checked", p.name)
	}
	return r.fields(p, k, plugin, depth)
}

// read checks and indexes a kustomization's text.
func (p *page) read(raw []byte) error {
	c := chunk{text: raw, line: 1}
	if _, err := c.check(p.name); err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return c.broken(p.name, err)
	}
	p.index(&document, 0)
	for text, line := range p.lines {
		// Patches and plugins are written as text within the text.
		if err := kustomize.CheckAliases([]byte(text)); errors.Is(err, kustomize.ErrExpands) {
			return fmt.Errorf("%s:%d: %w", p.name, line, err)
		}
	}
	return nil
}

func onlyResources(k types.Kustomization) bool {
	k.Resources, k.TypeMeta, k.MetaData = nil, types.TypeMeta{}, nil
	return reflect.DeepEqual(k, types.Kustomization{})
}

func kustomizationFile(fsys *rooted, folder string) string {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if f := path.Join(folder, name); fsys.Exists(f) && !fsys.IsDir(f) {
			return f
		}
	}
	return ""
}

func (r *refusal) fields(p *page, k types.Kustomization, plugin bool, depth int) error {
	if k.HelmGlobals != nil || k.HelmCharts != nil || k.HelmChartInflationGenerator != nil {
		for _, name := range []string{"helmCharts", "helmChartInflationGenerator", "helmGlobals"} {
			if _, ok := p.lines[name]; ok {
				return p.refused(name, "Helm charts run a program and download; render the chart and commit the result")
			}
		}
		return p.refused("helmCharts", "Helm charts run a program and download; render the chart and commit the result")
	}
	//lint:ignore SA1019 what is deprecated is still read
	for _, entry := range append(append(k.Resources, k.Bases...), k.Components...) {
		if err := r.entry(p, entry, plugin, depth); err != nil {
			return err
		}
	}
	for _, entry := range append(append(k.Generators, k.Transformers...), k.Validators...) {
		if documents, err := mappings([]byte(entry)); err == nil {
			if err := p.plugins(documents, p.lines[entry]); err != nil {
				return err
			}
			continue
		}
		if err := r.entry(p, entry, true, depth); err != nil {
			return err
		}
	}
	if takesEnvironment(k) {
		r.fsys.seen.Blind = p.name + " may take values from the environment"
	}
	for _, file := range loaded(k) {
		if err := r.file(p, file.written, file.path); err != nil {
			return err
		}
	}
	return nil
}

// takesEnvironment says whether a generator may read variables: Kustomize does for a line
// of an env file that has no value. What a generator under generators: reads is not looked
// at here.
func takesEnvironment(k types.Kustomization) bool {
	var all []types.KvPairSources
	for _, args := range k.ConfigMapGenerator {
		all = append(all, args.KvPairSources)
	}
	for _, args := range k.SecretGenerator {
		all = append(all, args.KvPairSources)
	}
	return len(k.Generators) > 0 || slices.ContainsFunc(all, func(from types.KvPairSources) bool {
		return len(from.EnvSources) > 0 || from.EnvSource != ""
	})
}

// file that a kustomization has loaded, and how it is written there.
type file struct{ written, path string }

func loaded(k types.Kustomization) []file {
	var files []file
	add := func(entries ...string) {
		for _, entry := range entries {
			if entry != "" {
				files = append(files, file{entry, entry})
			}
		}
	}
	add(k.Crds...)
	add(k.Configurations...)
	add(k.OpenAPI["path"])
	//lint:ignore SA1019 what is deprecated is still read
	for _, patch := range k.PatchesStrategicMerge {
		if _, err := mappings([]byte(patch)); err != nil {
			add(string(patch))
		}
	}
	//lint:ignore SA1019 what is deprecated is still read
	for _, patch := range append(k.Patches, k.PatchesJson6902...) {
		add(patch.Path)
	}
	for _, replacement := range k.Replacements {
		add(replacement.Path)
	}
	for _, args := range k.ConfigMapGenerator {
		files = append(files, sources(args.KvPairSources)...)
	}
	for _, args := range k.SecretGenerator {
		files = append(files, sources(args.KvPairSources)...)
	}
	return files
}

// sources of a generator; files may be written key=path.
func sources(from types.KvPairSources) []file {
	var files []file
	for _, entry := range from.FileSources {
		_, name, found := strings.Cut(entry, "=")
		if !found || isURL(entry) {
			name = entry
		}
		files = append(files, file{entry, name})
	}
	for _, entry := range append(from.EnvSources, from.EnvSource) {
		if entry != "" {
			files = append(files, file{entry, entry})
		}
	}
	return files
}

// entry checks a folder or file of resources, components or plugins.
func (r *refusal) entry(p *page, entry string, plugin bool, depth int) error {
	if isRepository(entry) {
		return p.refused(entry, "remote bases are not fetched; vendor them into the repository (a local folder of such a name has to be renamed: Kustomize takes it for a remote one)")
	}
	target, err := r.local(p, entry, entry)
	if err != nil {
		return err
	}
	if r.fsys.IsDir(target) {
		return r.kustomization(target, plugin, depth+1)
	}
	if err := r.file(p, entry, entry); err != nil || !plugin {
		return err
	}
	raw, err := r.fsys.ReadFile(target)
	if err != nil {
		return err
	}
	documents, err := mappings(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", r.fsys.shown(target), err)
	}
	return (&page{name: r.fsys.shown(target), folder: path.Dir(target), lines: map[string]int{}}).plugins(documents, 0)
}

// file checks a file that is loaded.
func (r *refusal) file(p *page, written, name string) error {
	target, err := r.local(p, written, name)
	if err != nil {
		return err
	}
	info, err := r.fsys.stat(target)
	switch {
	case err != nil:
		return p.refused(written, err.Error())
	case !info.Mode().IsRegular():
		return p.refused(written, "not a regular file")
	case info.Size() > limits.SourceFileBytes:
		return p.refused(written, fmt.Sprintf("larger than %d bytes (limits.SourceFileBytes)", limits.SourceFileBytes))
	case p.folder != "." && !strings.HasPrefix(target, p.folder+"/"):
		return p.refused(written, "Kustomize loads files only from below the kustomization that names them; make it a base or a component")
	}
	return nil
}

// local says where below the root an entry is.
func (r *refusal) local(p *page, written, name string) (string, error) {
	target := path.Join(p.folder, name)
	switch {
	case isURL(written) || isURL(name):
		return "", p.refused(written, "nothing is downloaded; commit the file")
	case path.IsAbs(name):
		return "", p.refused(written, "absolute paths are not portable and may leave the root")
	case target == ".." || strings.HasPrefix(target, "../"):
		return "", p.refused(written, "it leaves the root "+r.fsys.root.Name()+"; give a --root that holds both")
	}
	if up := path.Clean(name); (up == ".." || strings.HasPrefix(up, "../")) && r.fsys.throughLink(p.folder) {
		return "", p.refused(written, "its folder is reached through a link, and Kustomize goes up from where that leads; name the folder itself in place of the link")
	}
	_, err := r.fsys.stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", p.refused(written, "there is no such file or folder")
	case err != nil:
		return "", p.refused(written, "it cannot be read, or is a link that leaves the root: "+err.Error())
	}
	return target, nil
}

// mappings reads YAML documents that all are mappings.
func mappings(raw []byte) ([]*yaml.Node, error) {
	if err := kustomize.CheckAliases(raw); err != nil {
		return nil, err
	}
	var documents []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	for {
		document := &yaml.Node{}
		err := decoder.Decode(document)
		switch {
		case errors.Is(err, io.EOF) && len(documents) == 0:
			return nil, errors.New("it is empty")
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, err
		case len(document.Content) == 0:
			continue
		case document.Content[0].Kind == yaml.MappingNode:
			documents = append(documents, document)
		case document.Content[0].Tag != yaml.NodeTagNull:
			return nil, errors.New("it is not a list of objects")
		}
	}
}

// plugins checks plugin configurations: only the built-in ones, and nothing in them that
// is fetched. offset is the line that the documents' text starts after.
func (p *page) plugins(documents []*yaml.Node, offset int) error {
	for _, document := range documents {
		p.index(document, offset)
		var config map[string]any
		if err := document.Decode(&config); err != nil {
			return fmt.Errorf("%s:%d: %w", p.name, document.Line+offset, err)
		}
		kind, _ := config["kind"].(string)
		version, _ := config["apiVersion"].(string)
		switch {
		case version != "builtin":
			return p.refused(kind, "a plugin of "+version+" runs a program; only those that are built into Kustomize (apiVersion: builtin) run")
		case kind == "HelmChartInflationGenerator":
			return p.refused(kind, "Helm charts run a program and download; render the chart and commit the result")
		}
		if err := p.nothingFetched(config, false); err != nil {
			return err
		}
	}
	return nil
}

// nothingFetched finds URLs and function annotations wherever they stand. Text that is
// only copied into objects is left alone.
func (p *page) nothingFetched(value any, copied bool) error {
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			lower := strings.ToLower(k)
			if strings.HasSuffix(lower, "/function") {
				return p.refused(k, "functions run a program")
			}
			if err := p.nothingFetched(v, copied || lower == "literals" || lower == "annotations" || lower == "labels"); err != nil {
				return err
			}
		}
	case []any:
		for _, v := range value {
			if err := p.nothingFetched(v, copied); err != nil {
				return err
			}
		}
	case string:
		if copied {
			return nil
		}
		_, right, _ := strings.Cut(value, "=")
		if isURL(value) || isURL(right) {
			return p.refused(value, "nothing is downloaded; commit the file")
		}
	}
	return nil
}

// isURL is how Kustomize tells a file to download from one to read.
func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// isRepository says whether Kustomize could take an entry for a Git repository. It does
// so also where a folder of that name exists.
func isRepository(entry string) bool {
	return strings.ContainsAny(entry, ":@?") || strings.HasPrefix(strings.ToLower(entry), "github.com/")
}
