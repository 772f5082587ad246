// Package overlay reads what a user would commit: a Kustomize overlay, a folder or a file
// of manifests, or standard input. It reads below one root, runs nothing and fetches
// nothing.
package overlay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Object is one object and the file it came from, as the user would name it.
type Object struct {
	*unstructured.Unstructured
	File string
}

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Read reads path: a folder with a kustomization is built, another folder is read file by
// file (.yaml, .yml, .json, folders within it included), a file is read as it is, and "-"
// reads stdin. root is the folder that bases and symlinks may not leave; empty means the
// Git work tree that holds path, or path itself where there is none.
func Read(root, name string, stdin io.Reader) ([]Object, error) {
	if name == Stdin {
		raw, err := readBounded(stdin, "standard input")
		if err != nil {
			return nil, err
		}
		return Parse("-", raw)
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	rootPath, below, err := locate(root, abs, info.IsDir())
	if err != nil {
		return nil, err
	}
	handle, err := os.OpenRoot(rootPath)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	defer handle.Close()
	fsys := &rooted{root: handle}
	objects, err := read(fsys, below)
	if err != nil {
		return nil, err
	}
	shown := fromHere(rootPath)
	for i := range objects {
		objects[i].File = shown(objects[i].File)
	}
	return objects, nil
}

// fromHere names files below root the way the user would type them.
func fromHere(root string) func(string) string {
	here, err := os.Getwd()
	if err != nil {
		return func(file string) string { return file }
	}
	return func(file string) string {
		whole := filepath.Join(root, filepath.FromSlash(file))
		if relative, err := filepath.Rel(here, whole); err == nil && !strings.HasPrefix(relative, "..") {
			return relative
		}
		return whole
	}
}

func read(fsys *rooted, below string) ([]Object, error) {
	switch {
	case !fsys.IsDir(below):
		raw, err := fsys.ReadFile(below)
		if err != nil {
			return nil, err
		}
		return Parse(below, raw)
	case kustomizationFile(fsys, below) != "":
		return build(fsys, below)
	default:
		return readFolder(fsys, below)
	}
}

// locate finds the root and the path below it.
func locate(root, abs string, isDir bool) (string, string, error) {
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", abs, err)
	}
	if root == "" {
		root = workTree(resolved, isDir)
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", "", fmt.Errorf("%s: %w", root, err)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return "", "", fmt.Errorf("root: %w", err)
	}
	below, err := filepath.Rel(root, resolved)
	if err != nil || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return "", "", fmt.Errorf("%s is not inside the root %s", abs, root)
	}
	return root, filepath.ToSlash(below), nil
}

// workTree is the closest folder upwards that holds .git; without one, the folder itself:
// climbing further could read anything on the machine.
func workTree(abs string, isDir bool) string {
	start := abs
	if !isDir {
		start = filepath.Dir(abs)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return start
		}
	}
}

func readFolder(fsys *rooted, below string) ([]Object, error) {
	var files []string
	err := fs.WalkDir(fsys.root.FS(), inside(below), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && p != inside(below) {
			return fs.SkipDir
		}
		switch path.Ext(p) {
		case ".yaml", ".yml", ".json":
			if !d.IsDir() {
				files = append(files, p)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", below, err)
	}
	sort.Strings(files)
	var objects []Object
	for _, file := range files {
		raw, err := fsys.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := Parse(file, raw)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return bounded(below, objects)
}

func build(fsys *rooted, below string) ([]Object, error) {
	if err := refuse(fsys, below); err != nil {
		return nil, err
	}
	built, err := kustomize.Build(&originated{rooted: fsys, folder: inside(below)}, "/"+inside(below))
	if err != nil {
		return nil, err
	}
	objects, err := fromResources(built, inside(below))
	if err != nil {
		return nil, err
	}
	return bounded(below, objects)
}

func bounded(name string, objects []Object) ([]Object, error) {
	if len(objects) > limits.Objects {
		return nil, fmt.Errorf("%s: %d objects, more than %d (limits.Objects)", name, len(objects), limits.Objects)
	}
	return objects, nil
}

const originAnnotation = "config.kubernetes.io/origin"

func fromResources(built resmap.ResMap, below string) ([]Object, error) {
	var objects []Object
	for _, res := range built.Resources() {
		raw, err := res.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", below, err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", below, err)
		}
		file := below
		annotations := u.GetAnnotations()
		var origin struct {
			Path         string `json:"path"`
			ConfiguredIn string `json:"configuredIn"`
		}
		if err := yaml.Unmarshal([]byte(annotations[originAnnotation]), &origin); err == nil {
			if p := origin.Path + origin.ConfiguredIn; p != "" {
				file = path.Join(below, p)
			}
		}
		delete(annotations, originAnnotation)
		if len(annotations) == 0 {
			annotations = nil
		}
		u.SetAnnotations(annotations)
		objects = append(objects, Object{Unstructured: u, File: file})
	}
	return objects, nil
}

// originated shows Kustomize the kustomization in folder with origin annotations asked
// for, so that each object can be traced to its file.
type originated struct {
	*rooted
	folder string
}

func (o *originated) ReadFile(name string) ([]byte, error) {
	raw, err := o.rooted.ReadFile(name)
	if err != nil || path.Join(o.folder, path.Base(inside(name))) != inside(name) || kustomizationFile(o.rooted, o.folder) != inside(name) {
		return raw, err
	}
	doc := map[string]any{}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", inside(name), err)
	}
	asked, _ := doc["buildMetadata"].([]any)
	doc["buildMetadata"] = append(asked, "originAnnotations")
	return yaml.Marshal(doc)
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// Parse reads every document of a YAML or JSON file. Duplicate keys are refused: two
// readers may each believe another one. An error names file and line.
func Parse(file string, raw []byte) ([]Object, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	var objects []Object
	consumed := 0
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		at := bytes.Index(raw[consumed:], doc)
		if at >= 0 {
			consumed += at
		}
		before := bytes.Count(raw[:consumed], []byte("\n"))
		found, err := parseDocument(file, doc, before)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
		consumed += len(doc)
	}
}

func parseDocument(file string, doc []byte, before int) ([]Object, error) {
	asJSON, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: not valid YAML: %s", file, before+errorLine(err), strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
	}
	if string(asJSON) == "null" {
		return nil, nil
	}
	var content map[string]any
	if err := json.Unmarshal(asJSON, &content); err != nil {
		return nil, fmt.Errorf("%s:%d: a manifest has to be an object with apiVersion and kind", file, before+1)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(asJSON); err != nil {
		return nil, fmt.Errorf("%s:%d: a manifest has to be an object with apiVersion and kind: %w", file, before+1, err)
	}
	if !u.IsList() {
		return []Object{{Unstructured: u, File: file}}, nil
	}
	var items []Object
	err = u.EachListItem(func(o runtime.Object) error {
		items = append(items, Object{Unstructured: o.(*unstructured.Unstructured), File: file})
		return nil
	})
	return items, err
}

func errorLine(err error) int {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return n
		}
	}
	return 1
}
