package overlay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// parse reads every document of a YAML or JSON file. What two readers could read in two
// ways is refused: duplicate keys, and a document that only some of them would find. An
// error names file and line; below is the file's path below the root.
func parse(file, below string, raw []byte) ([]Object, error) {
	var objects []Object
	for _, c := range split(raw) {
		found, err := c.objects(file)
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i].Path = below
		}
		objects = append(objects, found...)
	}
	return bounded(file, objects)
}

// chunk is the text of one document.
type chunk struct {
	text []byte
	// line that it starts at, from 1.
	line int
}

// split cuts a file at lines of "---", as kubectl does.
func split(raw []byte) []chunk {
	var chunks []chunk
	current := chunk{line: 1}
	number := 0
	for line := range bytes.Lines(raw) {
		number++
		rest, cut := bytes.CutPrefix(line, []byte("---"))
		if rest = bytes.TrimSpace(rest); cut && (len(rest) == 0 || rest[0] == '#') {
			chunks = append(chunks, current)
			current = chunk{line: number + 1}
			continue
		}
		current.text = append(current.text, line...)
	}
	return append(chunks, current)
}

func (c chunk) objects(file string) ([]Object, error) {
	alike, err := c.check(file)
	if err != nil {
		return nil, err
	}
	read := yaml.YAMLToJSONStrict
	if alike {
		// To the strict reader a key that stands beside a merge is there twice. That no key is
		// written twice has been checked.
		read = yaml.YAMLToJSON
	}
	asJSON, err := read(c.text)
	if err != nil {
		return nil, c.broken(file, err)
	}
	if string(asJSON) == "null" {
		return nil, nil
	}
	content := &unstructured.Unstructured{}
	if asJSON[0] != '{' || json.Unmarshal(asJSON, &map[string]any{}) != nil || content.UnmarshalJSON(asJSON) != nil {
		return nil, c.noManifest(file)
	}
	return c.flat(file, content, 0)
}

// flat takes lists apart, lists of lists included. Only a kind that is called a list is
// one: an "items" elsewhere must not make the object that holds it vanish.
func (c chunk) flat(file string, u *unstructured.Unstructured, depth int) ([]Object, error) {
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return nil, c.noManifest(file)
	}
	if !strings.HasSuffix(u.GetKind(), "List") || !u.IsList() {
		return []Object{{Unstructured: u, File: file}}, nil
	}
	if depth == limits.SourceDepth {
		return nil, fmt.Errorf("%s:%d: lists nest deeper than %d (limits.SourceDepth)", file, c.first(), limits.SourceDepth)
	}
	var objects []Object
	for _, item := range u.Object["items"].([]any) {
		content, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s:%d: an item of %s is no object", file, c.first(), u.GetKind())
		}
		found, err := c.flat(file, &unstructured.Unstructured{Object: content}, depth+1)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// noManifest tells of a file that is something else, such as the values of a chart.
func (c chunk) noManifest(file string) error {
	return fmt.Errorf("%s:%d: a manifest has to be an object with apiVersion and kind: correct it, or name the files and folders to read, and not the one around them", file, c.first())
}

// first is the line of the first thing that is no comment.
func (c chunk) first() int {
	number := c.line
	for line := range bytes.Lines(c.text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return number
		}
		number++
	}
	return c.line
}

// check looks at what decoding would hide, and says whether there are merge keys that all
// readers read alike.
func (c chunk) check(file string) (merges bool, err error) {
	decoder := kyaml.NewDecoder(bytes.NewReader(c.text))
	for i := 0; ; i++ {
		var document kyaml.Node
		err := decoder.Decode(&document)
		switch {
		case errors.Is(err, io.EOF):
			return merges, nil
		case err != nil:
			return false, c.broken(file, err)
		case i > 0:
			return false, fmt.Errorf("%s:%d: a second document starts here that most tools do not see: in a manifest put --- on a line of its own before it", file, c.line+document.Line-1)
		}
		if err := kustomize.CheckNode(&document); err != nil {
			return false, fmt.Errorf("%s:%d: %w", file, c.first(), err)
		}
		if first, again := duplicate(&document); again != nil {
			return false, fmt.Errorf("%s:%d: key %q is there already on line %d: which one counts depends on who reads it",
				file, c.line+again.Line-1, again.Value, c.line+first.Line-1)
		}
		merges = mergesAlike(&document)
	}
}

// duplicate finds a key that a mapping has twice.
func duplicate(node *kyaml.Node) (first, again *kyaml.Node) {
	if node.Kind == kyaml.MappingNode {
		seen := map[string]*kyaml.Node{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			name := keyName(key)
			if first, ok := seen[name]; ok && key.Kind == kyaml.ScalarNode {
				return first, key
			}
			seen[name] = key
		}
	}
	for _, child := range node.Content {
		if first, again := duplicate(child); again != nil {
			return first, again
		}
	}
	return nil, nil
}

// keyName is the key of an object in JSON that a key becomes: yes is "true" there, and -1.0
// is "-1". Of two keys that become one, chance would choose.
func keyName(key *kyaml.Node) string {
	text := key.Tag == kyaml.NodeTagString && (len(key.Value) > len("false") || !boolean.MatchString(key.Value))
	if text || key.Kind != kyaml.ScalarNode || key.Style != 0 || key.Value == mergeKey {
		return key.Value
	}
	var read map[string]any
	if err := yaml.Unmarshal([]byte(key.Value+": 0"), &read); err != nil {
		return key.Value // the reader of the whole says what is wrong with it
	}
	for name := range read {
		return name
	}
	return key.Value
}

var yamlError = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:unmarshal errors:\s*)?(?:line (\d+): )?`)

// broken puts the parser's line where an editor looks for it.
func (c chunk) broken(file string, err error) error {
	text, line := err.Error(), c.first()
	if m := yamlError.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = c.line + n - 1
		}
	}
	if n := c.unread(); n > 0 {
		line = c.line + n - 1
	}
	return fmt.Errorf("%s:%d: not valid YAML: %s", file, line, text)
}

// unread is the line, from 1, below the longest beginning of the text that can be read; 0
// where that is not found. Of much that is wrong in a block the parser tells no more than the
// line before the block.
func (c chunk) unread() int {
	if readable(c.text) {
		return 0 // it is YAML, and something else is wrong
	}
	lines := bytes.SplitAfter(c.text, []byte("\n"))
	budget, end := limits.BrokenBytes, len(c.text)
	for n := len(lines); n > 0; n-- {
		end -= len(lines[n-1])
		if budget -= end; budget < 0 {
			return 0
		}
		if readable(c.text[:end]) {
			return n
		}
	}
	return 0
}

// readable says whether a text is YAML, of however many documents.
func readable(text []byte) bool {
	decoder := kyaml.NewDecoder(bytes.NewReader(text))
	for {
		var document kyaml.Node
		if err := decoder.Decode(&document); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}
