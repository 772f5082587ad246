package overlay

import (
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// randomTree is an overlay over others, most of which do to each object what no other has to do
// with.
type randomTree struct {
	*rand.Rand
	files map[string]string
	names int
}

func (r *randomTree) one(of ...string) string { return of[r.IntN(len(of))] }

func (r *randomTree) chance(percent int) bool { return r.IntN(100) < percent }

// folder writes one with its kustomization, and those that it lists.
func (r *randomTree) folder(name string, depth int) {
	var entries []any
	for i := range 1 + r.IntN(5) {
		if depth < 2 && r.chance(35) {
			below := fmt.Sprintf("%s-%d", name, i)
			r.folder(below, depth+1)
			entries = append(entries, "../"+below)
			continue
		}
		file := fmt.Sprintf("f%d.yaml", i)
		var documents []string
		for range 1 + r.IntN(2) {
			documents = append(documents, r.object())
		}
		r.files[path.Join(name, file)] = strings.Join(documents, "---\n")
		entries = append(entries, file)
	}
	k := map[string]any{"resources": entries}
	for range r.IntN(4) {
		r.change(k, name)
	}
	raw, err := yaml.Marshal(k)
	if err != nil {
		panic(err)
	}
	r.files[path.Join(name, "kustomization.yaml")] = string(raw)
}

func (r *randomTree) object() string {
	r.names++
	name := fmt.Sprintf("n%d", r.names)
	if r.chance(2) {
		name = "n1"
	}
	if r.chance(4) { // the name that another may have in the end
		name = r.one("p-n", "n", "q-p-n") + fmt.Sprint(1+r.IntN(6)) + r.one("", "-s")
	}
	metadata := map[string]any{"name": name}
	if r.chance(50) {
		metadata["namespace"] = r.one("shop", "other")
	}
	if r.chance(40) {
		metadata["labels"] = map[string]any{"tier": r.one("web", "db", "1")}
	}
	if r.chance(20) {
		metadata["annotations"] = map[string]any{"note": r.one("x", "y")}
	}
	object := map[string]any{"apiVersion": "sluice.dev/v1beta1", "kind": r.one("Workload", "Workload", "Workload", "Gate"), "metadata": metadata,
		"spec": map[string]any{"image": r.one("i:1", "registry.example.com/i"), "env": []any{map[string]any{"name": "A", "value": r.one("1", "true", "b")}}}}
	switch {
	case r.chance(8):
		delete(metadata, "namespace")
		object["apiVersion"], object["kind"] = "v1", "Namespace"
		delete(object, "spec")
	case r.chance(1):
		object["apiVersion"], object["kind"] = "v1", "Pod"
	case r.chance(1):
		metadata["annotations"] = map[string]any{"config.kubernetes.io/local-config": "true"}
	}
	raw, err := yaml.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func (r *randomTree) change(k map[string]any, folder string) {
	value := r.one("web", "1", "true", "a b", "")
	switch r.IntN(12) {
	case 10:
		k["namePrefix"] = r.one("p-", "p-", "q-", "1", "")
	case 11:
		k["nameSuffix"] = r.one("-s", "-s", "-t", "1")
	case 0:
		k["namespace"] = r.one("shop", "far")
	case 1:
		k["commonLabels"] = map[string]any{"team": value}
	case 2:
		k["commonAnnotations"] = map[string]any{r.one("team", "team", "team", "team", "app.kubernetes.io/team", "config.kubernetes.io/local-config",
			"internal.config.kubernetes.io/needsHashSuffix"): r.one(value, "true", "enabled")}
	case 3:
		k["labels"] = []any{map[string]any{"pairs": map[string]any{"x": value}, "includeSelectors": r.chance(50), "includeTemplates": r.chance(50)},
			map[string]any{"pairs": map[string]any{"y": value}, "fields": []any{map[string]any{"path": r.one("spec/labels", "spec/labels", "spec/labels", "metadata/annotations"), "create": r.chance(50)}}}}
	case 4:
		k["images"] = []any{map[string]any{"name": r.one("i", "registry.example.com/i"), "newTag": r.one("2", "yes", "1.0")}}
	case 5:
		switch r.IntN(5) {
		case 1:
			k["replicas"] = []any{map[string]any{"name": "n1", "count": 2}}
		case 2:
			k["configMapGenerator"] = []any{map[string]any{"name": "g", "literals": []any{"a=b"}}}
		}
	default:
		patches, _ := k["patches"].([]any)
		k["patches"] = append(patches, r.patch(folder))
	}
}

func (r *randomTree) patch(folder string) map[string]any {
	target := map[string]any{"kind": r.one("Workload", "Gate", "Namespace", ".*")}
	switch r.IntN(5) {
	case 0:
		target["name"] = r.one("n1", "n[1-4]", "none", "p-n.*", "n[1-4]-s")
	case 1:
		target["labelSelector"] = r.one("tier=web", "!tier", "team")
	case 2:
		target["annotationSelector"] = r.one("note=x", "!note", "team")
	case 3:
		target["namespace"] = r.one("shop", "far")
	}
	texts := []string{
		"apiVersion: v1\nkind: Any\nmetadata: {name: any, labels: {patched: \"" + r.one("1", "a") + "\"}}\nspec: {replicas: 3, env: [{name: B, value: c}]}\n",
		"apiVersion: v1\nkind: Any\nmetadata: {name: any, annotations: {note: null}}\nspec: {image: null}\n",
		"- {op: add, path: /metadata/annotations, value: {note: y}}",
		"- {op: add, path: /spec, value: {image: \"i:3\"}}", "- {op: replace, path: /metadata/labels/tier, value: web}",
		"- {op: remove, path: /metadata/annotations}", "- {op: copy, from: /metadata/labels, path: /metadata/annotations}",
	}
	if r.chance(8) {
		texts = []string{"apiVersion: v1\nkind: Any\nmetadata: {name: any}\n$patch: delete\n", "- {op: replace, path: /metadata/name, value: n1}",
			"- {op: replace, path: /kind, value: Pod}", "- {op: replace, path: /metadata/name, value: m}", "- {op: add, path: /metadata/namespace, value: far}",
			"- {op: add, path: /metadata/annotations, value: {config.kubernetes.io/local-config: \"true\"}}"}
	}
	p := map[string]any{"target": target, "patch": r.one(texts...)}
	if r.chance(20) {
		file := fmt.Sprintf("p%d.yaml", r.Int())
		r.files[path.Join(folder, file)] = p["patch"].(string)
		delete(p, "patch")
		p["path"] = file
	}
	switch {
	case r.chance(3):
		delete(p, "target")
	case r.chance(3):
		p["options"] = map[string]any{"allowNameChange": true, "allowKindChange": true}
	}
	return p
}

// Where an overlay is read without building the whole, it is what Kustomize makes of the whole,
// from the same files.
func TestPlain_IsWhatKustomizeBuildsOfRandomOverlays(t *testing.T) {
	defer func(n int) { partFiles = n }(partFiles)
	ways := map[string]int{}
	for seed := range uint64(300) {
		r := &randomTree{Rand: rand.New(rand.NewPCG(seed, 11)), files: map[string]string{}}
		r.folder("o", 0)
		partFiles = 1 + r.IntN(2)
		_, fresh := opened(t, r.files, "o")
		got, err := plain(fresh(), "o")
		if err != nil {
			ways["as a whole"]++
			continue
		}
		shown := newOriginated(fresh())
		whole, err := shown.built(shown, "o")
		if err != nil || !reflect.DeepEqual(got, whole) {
			t.Fatalf("seed %d, parts of %d files:\n%v\n%v\nand as a whole\n%v, %v", seed, partFiles, r.files, got, whole, err)
		}
		stock, err := stockOf(t, fresh(), "o")
		if err != nil || !reflect.DeepEqual(contentsOf(got), stock) {
			t.Fatalf("seed %d, parts of %d files:\n%v\nreads\n%v\nand Kustomize builds\n%v, %v", seed, partFiles, r.files, contentsOf(got), stock, err)
		}
		if l := newListing(fresh()); l.add("o", "", 0) == nil && l.changes {
			ways["in parts"]++
			for _, k := range l.kustomizations {
				if k.NamePrefix+k.NameSuffix != "" {
					ways["in parts, under other names"]++
					break
				}
			}
		} else {
			ways["read"]++
		}
	}
	t.Log(ways)
	if ways["in parts"] < 50 || ways["in parts, under other names"] < 20 || ways["read"] < 10 || ways["as a whole"] < 50 {
		t.Error("one of the ways is hardly taken")
	}
}
