package bundle

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

// Files takes the files of a bundle, or of a folder that is to be one, and sorts them: modules;
// what is passed over, as it changes no decision; and what is refused, as it would.
type Files struct {
	seen    map[string]bool
	modules map[string]string
	bytes   int
}

// NewFiles has none.
func NewFiles() *Files { return &Files{seen: map[string]bool{}, modules: map[string]string{}} }

// Wanted says whether Add looks at the content of a file, which otherwise may be left out.
func Wanted(name string) bool {
	return isRego(name) && !isTest(name) || isData(name) || isManifest(name)
}

// Add takes a file. Its name is a path with slashes; a leading one, which OPA writes, is taken
// off. Errors are of type *Error.
func (f *Files) Add(name string, content []byte) error {
	name, err := f.enter(name)
	switch {
	case err != nil:
		return err
	case isManifest(name):
		return checkManifest(name, content)
	case isTest(name):
		return nil
	case isRego(name):
		return f.module(name, content)
	case isData(name):
		return checkData(name, content)
	case refused[path.Ext(name)] != "" && !harmless(name):
		return wrong("leave it out of the bundle", "%q: %s", name, refused[path.Ext(name)])
	}
	return nil
}

// data takes a file that whoever pushed it says is data, whatever its name.
func (f *Files) data(name string, content []byte) error {
	name, err := f.enter(name)
	if err != nil {
		return err
	}
	return checkData(name, content)
}

// Modules are those that were added.
func (f *Files) Modules() (map[string]string, error) {
	if len(f.modules) == 0 {
		return nil, wrong(pushAgain, "it holds no Rego module: no file in it ends in .rego, tests apart")
	}
	return maps.Clone(f.modules), nil
}

// enter notes a name, in the one form that counts.
func (f *Files) enter(name string) (string, error) {
	clean, ok := cleanName(name)
	switch {
	case !ok:
		return "", wrong("name it by a path within the bundle", "the name %.100q leads out of the bundle, or cannot be read in one way alone", name)
	case len(clean) > limits.BundleNameBytes:
		return "", wrong("give it a shorter name", "the name %.100q… is longer than %d bytes (limits.BundleNameBytes)", clean, limits.BundleNameBytes)
	case f.seen[clean]:
		return "", wrong("keep one of them", "%q is in it twice, and which of them counts would be up to who reads it", clean)
	}
	f.seen[clean] = true
	return clean, nil
}

func (f *Files) module(name string, content []byte) error {
	if !utf8.Valid(content) {
		return wrong("save it as UTF-8", "%q is not UTF-8", name)
	}
	if f.bytes += len(name) + len(content); f.bytes > limits.PolicyBytes {
		return wrong(smaller, "its modules have more than %d bytes (limits.PolicyBytes)", limits.PolicyBytes)
	}
	f.modules[name] = string(content)
	return nil
}

// cleanName takes off what stands for the root of the bundle. Names are never those of files
// here: that nothing leads out of it is for others who unpack the same.
func cleanName(name string) (string, bool) {
	clean := strings.TrimPrefix(strings.TrimPrefix(name, "./"), "/")
	odd := func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == utf8.RuneError }
	return clean, fs.ValidPath(clean) && clean != "." && strings.IndexFunc(clean, odd) < 0
}

// refused are endings of what OPA evaluates, or hands to policies as data, and Sluice does not.
var refused = map[string]string{
	".json": asData, ".yaml": asData, ".yml": asData,
	".wasm": "Sluice evaluates Rego alone, and not what it was compiled to (opa build --target=rego makes such a bundle)",
	".gz":   asArchive, ".tgz": asArchive, ".tar": asArchive,
}

const (
	asData    = "policies could read it as data, and are given none but input (what they need goes into spec.parameters of the Gate)"
	asArchive = "an archive in the bundle is not unpacked"
)

// harmless are JSON files that are none of the policies' data: schemas, of parameters and for
// opa check, and OPA's own signatures, in place of which the registry's are verified.
func harmless(name string) bool {
	return strings.HasSuffix(name, ".schema.json") || path.Base(name) == ".signatures.json"
}

func isRego(name string) bool     { return strings.HasSuffix(name, ".rego") }
func isTest(name string) bool     { return strings.HasSuffix(name, "_test.rego") }
func isManifest(name string) bool { return path.Base(name) == ".manifest" }

func isData(name string) bool {
	return slices.Contains([]string{"data.json", "data.yaml", "data.yml"}, path.Base(name))
}

// checkData lets data through that says nothing, such as the data.json that opa build always
// writes.
func checkData(name string, content []byte) error {
	text := string(bytes.Join(bytes.Fields(content), nil))
	if slices.Contains([]string{"", "{}", "null", "---"}, text) {
		return nil
	}
	return wrong("put it into spec.parameters of the Gate, where policies read it as input.parameters, and leave it out of the bundle",
		"%q holds data, and policies are given none but input", name)
}

// checkManifest refuses what OPA's own manifest may say that makes modules mean something else.
func checkManifest(name string, content []byte) error {
	var m struct {
		RegoVersion  *int                         `json:"rego_version"`
		FileVersions map[string]int               `json:"file_rego_versions"`
		Wasm         []map[string]json.RawMessage `json:"wasm"`
	}
	err := strictjson.Check(content, strictjson.Everywhere)
	if err == nil {
		err = json.Unmarshal(content, &m)
	}
	if err != nil {
		return wrong("build the bundle anew with opa build", "%q cannot be read: %.200s", name, err)
	}
	old := m.RegoVersion != nil && *m.RegoVersion != 1
	for _, version := range m.FileVersions {
		old = old || version != 1
	}
	switch {
	case old:
		return wrong("rewrite it with opa fmt --write --v0-v1, and build it anew with opa build", "%q says that modules are of another version of Rego than 1", name)
	case len(m.Wasm) > 0:
		return wrong("build it with opa build --target=rego", "%q says that rules are compiled to WebAssembly, which Sluice does not evaluate", name)
	}
	return nil
}

func sortedNames(modules map[string]string) []string { return slices.Sorted(maps.Keys(modules)) }

func describe(b Blob) Layer {
	return Layer{MediaType: b.MediaType, Digest: digests.Of(b.Content), Size: int64(len(b.Content))}
}
