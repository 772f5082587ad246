package overlay_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

const (
	workload = "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {image: registry.example.com/shop/web:1}\n"
	config   = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
)

// write makes a folder with these files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir, below string) ([]overlay.Object, error) {
	t.Helper()
	return overlay.Read(dir, filepath.Join(dir, below), strings.NewReader(""))
}

// mustFail expects an error that says every one of the texts.
func mustFail(t *testing.T, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q:\n%v", want, err)
		}
	}
}

func TestRead_NamesFileAndLineOfABrokenManifest(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    []string
	}{
		"broken in the first document": {"a: b\n  c: d\n", []string{"x.yaml:2: not valid YAML"}},
		"broken in a second document, after CRLF lines and a comment": {
			"# first\r\napiVersion: v1\r\nkind: ConfigMap\r\n--- # next\r\n# and\r\nkind: [\r\n  a: }\r\n", []string{"x.yaml:6: not valid YAML"}},
		"a key twice": {workload + "---\nkind: ConfigMap\napiVersion: v1\ndata:\n  a: b\n  c: d\n  a: e\n",
			[]string{"x.yaml:11:", `"a" is there already on line 9`}},
		"a key twice, once quoted": {"apiVersion: v1\nkind: ConfigMap\n\"kind\": Secret\n", []string{"x.yaml:3:", `"kind"`}},
		"a second document that most readers miss": {"apiVersion: v1\nkind: ConfigMap\n--- {apiVersion: sluice.dev/v1beta1, kind: Workload}\n",
			[]string{"x.yaml:3:", "second document"}},
		"a second document after an end mark":  {"apiVersion: v1\nkind: ConfigMap\n...\napiVersion: v1\nkind: Secret\n", []string{"x.yaml:3: not valid YAML"}},
		"no kind":                              {"\n# nothing\napiVersion: v1\n", []string{"x.yaml:3:", "apiVersion and kind"}},
		"no apiVersion":                        {"kind: Workload\n", []string{"x.yaml:1:", "apiVersion and kind"}},
		"a list of lines":                      {"- a\n", []string{"x.yaml:1:", "apiVersion and kind"}},
		"a plain text":                         {"hello\n", []string{"x.yaml:1:", "apiVersion and kind"}},
		"a list with an item that has no kind": {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1}]\n", []string{"x.yaml:1:", "apiVersion and kind"}},
		"a list with an item that is a text":   {"apiVersion: v1\nkind: List\nitems: [a]\n", []string{"x.yaml:1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, write(t, map[string]string{"x.yaml": c.content}), ".")
			mustFail(t, err, c.want...)
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestRead_RefusesBombs(t *testing.T) {
	deep := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		deep += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	// Few aliases, each of them long: parsers that count aliases let this through.
	wide := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 2000) + "]\n"
	for name, bomb := range map[string]string{
		"aliases of aliases":    deep,
		"a long text, repeated": wide,
		"a node in itself":      "a: &a [*a]\n",
	} {
		for where, files := range map[string]map[string]string{
			"manifest":              {"x.yaml": "apiVersion: v1\nkind: ConfigMap\n" + bomb},
			"resource":              {"kustomization.yaml": "resources: [x.yaml]\n", "x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n" + bomb},
			"kustomization":         {"kustomization.yaml": bomb + "resources: [x.yaml]\n", "x.yaml": workload},
			"patch in its own file": {"kustomization.yaml": "resources: [x.yaml]\npatches: [{path: p.yaml}]\n", "x.yaml": workload, "p.yaml": workload + bomb},
			"patch in the text":     {"kustomization.yaml": "resources: [x.yaml]\npatches:\n- patch: |\n    " + strings.ReplaceAll(workload+bomb, "\n", "\n    ") + "\n", "x.yaml": workload},
		} {
			t.Run(name+" in a "+where, func(t *testing.T) {
				_, err := read(t, write(t, files), ".")
				mustFail(t, err)
				if name != "a node in itself" {
					mustFail(t, err, "limits.ExpandedBytes")
				}
			})
		}
	}
}

func TestRead_RefusesWhatIsTooMuch(t *testing.T) {
	t.Run("a file over the limit", func(t *testing.T) {
		dir := write(t, map[string]string{"x.yaml": strings.Repeat("#", limits.SourceFileBytes+1)})
		_, err := read(t, dir, ".")
		mustFail(t, err, "x.yaml", "limits.SourceFileBytes")
	})
	t.Run("standard input over the limit", func(t *testing.T) {
		_, err := overlay.Read("", overlay.Stdin, strings.NewReader(strings.Repeat("#", limits.SourceFileBytes+1)))
		mustFail(t, err, "standard input", "limits.SourceFileBytes")
	})
	t.Run("too many objects in one file", func(t *testing.T) {
		dir := write(t, map[string]string{"x.yaml": "apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- {apiVersion: v1, kind: A}\n", limits.Objects+1)})
		_, err := read(t, dir, "x.yaml")
		mustFail(t, err, "x.yaml", "limits.Objects")
	})
	t.Run("folders too deep", func(t *testing.T) {
		dir := write(t, map[string]string{strings.Repeat("d/", limits.SourceDepth+2) + "x.yaml": workload})
		_, err := read(t, dir, ".")
		mustFail(t, err, "limits.SourceDepth")
	})
	t.Run("kustomizations too deep", func(t *testing.T) {
		files := map[string]string{"kustomization.yaml": "resources: [d]\n"}
		for i := 1; i <= limits.SourceDepth+1; i++ {
			files[strings.Repeat("d/", i)+"kustomization.yaml"] = "resources: [d]\n"
		}
		_, err := read(t, write(t, files), ".")
		mustFail(t, err, "limits.SourceDepth")
	})
	t.Run("lists too deep", func(t *testing.T) {
		depth := limits.SourceDepth + 1
		dir := write(t, map[string]string{"x.yaml": strings.Repeat("{apiVersion: v1, kind: List, items: [", depth) + strings.Repeat("]}", depth)})
		_, err := read(t, dir, ".")
		mustFail(t, err, "x.yaml:1:", "limits.SourceDepth")
	})
	t.Run("bases that double at every level", func(t *testing.T) {
		files := map[string]string{"kustomization.yaml": "resources: [l0/a, l0/b]\n", "l12/a/kustomization.yaml": "namePrefix: a-\n", "l12/b/kustomization.yaml": "namePrefix: b-\n"}
		for i := range 12 {
			for _, side := range []string{"a", "b"} {
				files[fmt.Sprintf("l%d/%s/kustomization.yaml", i, side)] = fmt.Sprintf("namePrefix: %s-\nresources: [../../l%d/a, ../../l%d/b]\n", side, i+1, i+1)
			}
		}
		_, err := read(t, write(t, files), ".")
		mustFail(t, err, "limits.SourceFiles")
	})
}

func TestRead_OpensNothingOutsideTheRootAndNothingSpecial(t *testing.T) {
	outside := write(t, map[string]string{"secret.yaml": config, "base/kustomization.yaml": "resources: [x.yaml]\n", "base/x.yaml": config})
	link := func(t *testing.T, dir, name, target string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		kustomization string
		prepare       func(t *testing.T, dir string)
		want          []string
	}{
		"a base above the root":                {"resources:\n- x.yaml\n- ../../base\n", nil, []string{"kustomization.yaml:3:", "leaves the root"}},
		"an absolute base":                     {"resources:\n- " + outside + "/base\n", nil, []string{"kustomization.yaml:2:", "absolute"}},
		"an absolute file in a generator":      {"configMapGenerator:\n- name: a\n  files:\n  - /etc/passwd\n", nil, []string{"kustomization.yaml:4:", "absolute"}},
		"a file above the root in a generator": {"configMapGenerator:\n- name: a\n  files:\n  - k=../../secret.yaml\n", nil, []string{"kustomization.yaml:4:", "leaves the root"}},
		"an env file beside the kustomization": {"secretGenerator:\n- name: a\n  envs:\n  - ../other.env\n", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, "other.env"), []byte("a=b"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"kustomization.yaml:4:", "below the kustomization"}},
		"a patch above":           {"resources: [x.yaml]\npatches:\n- path: ../../p.yaml\n", nil, []string{"kustomization.yaml:3:", "leaves the root"}},
		"a link to a file":        {"resources: [x.yaml, link.yaml]\n", func(t *testing.T, dir string) { link(t, dir, "o/link.yaml", outside+"/secret.yaml") }, []string{"kustomization.yaml:1:", "link"}},
		"a link to a folder":      {"resources: [x.yaml, link]\n", func(t *testing.T, dir string) { link(t, dir, "o/link", outside+"/base") }, []string{"kustomization.yaml:1:", "link"}},
		"a relative link upwards": {"components: [link]\n", func(t *testing.T, dir string) { link(t, dir, "o/link", "../../../../../../../../..") }, []string{"kustomization.yaml:1:", "link"}},
		"a FIFO": {"resources: [x.yaml, fifo.yaml]\n", func(t *testing.T, dir string) {
			t.Helper()
			if err := syscall.Mkfifo(filepath.Join(dir, "o/fifo.yaml"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"kustomization.yaml:1:", "fifo.yaml", "not a regular file"}},
		"a FIFO in a generator": {"configMapGenerator:\n- name: a\n  files: [fifo]\n", func(t *testing.T, dir string) {
			t.Helper()
			if err := syscall.Mkfifo(filepath.Join(dir, "o/fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"kustomization.yaml:3:", "not a regular file"}},
		"a file that is not there": {"resources:\n- x.yaml\n- y.yaml\n", nil, []string{"kustomization.yaml:3:", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"o/kustomization.yaml": c.kustomization, "o/x.yaml": workload})
			if c.prepare != nil {
				c.prepare(t, dir)
			}
			_, err := read(t, dir, "o")
			mustFail(t, err, c.want...)
		})
	}
	// From other/deep, which the link leads to, Kustomize goes to other/x, and not to o/x.
	t.Run("up from where a link leads", func(t *testing.T) {
		dir := write(t, map[string]string{
			"o/kustomization.yaml": "resources: [link]\n", "other/deep/kustomization.yaml": "resources:\n- ../x\n",
			"o/x/kustomization.yaml": "resources: [x.yaml]\n", "o/x/x.yaml": config, "other/x/kustomization.yaml": "resources: [x.yaml]\n", "other/x/x.yaml": config,
		})
		link(t, dir, "o/link", "../other/deep")
		_, err := overlay.Read(dir, filepath.Join(dir, "o"), nil)
		mustFail(t, err, "o/link/kustomization.yaml:2:", "a link")
	})
	t.Run("a plain folder with a FIFO and links", func(t *testing.T) {
		dir := write(t, map[string]string{"x.yaml": workload})
		if err := syscall.Mkfifo(filepath.Join(dir, "fifo.yaml"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := read(t, dir, ".")
		mustFail(t, err, "fifo.yaml", "not a regular file")
		if err := os.Remove(filepath.Join(dir, "fifo.yaml")); err != nil {
			t.Fatal(err)
		}
		link(t, dir, "link.yaml", outside+"/secret.yaml")
		_, err = read(t, dir, ".")
		mustFail(t, err, "link.yaml", "escapes")
	})
	t.Run("a link in a repository, named on the command line", func(t *testing.T) {
		dir := write(t, map[string]string{".git/HEAD": "", "x.yaml": workload})
		link(t, dir, "prod", outside)
		_, err := overlay.Read("", filepath.Join(dir, "prod"), nil)
		mustFail(t, err, "not inside the root")
	})
	t.Run("a path outside a given root", func(t *testing.T) {
		_, err := overlay.Read(write(t, nil), outside, nil)
		mustFail(t, err, "not inside the root")
	})
}

func TestRead_WithoutGitTheFolderIsTheRoot(t *testing.T) {
	dir := write(t, map[string]string{
		"base/kustomization.yaml": "resources: [x.yaml]\n", "base/x.yaml": workload,
		"over/kustomization.yaml": "resources: [../base]\n",
	})
	_, err := overlay.Read("", filepath.Join(dir, "over"), nil)
	mustFail(t, err, "kustomization.yaml:1:", "--root")
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if objects, err := overlay.Read("", filepath.Join(dir, "over"), nil); err != nil || len(objects) != 1 {
		t.Fatalf("with .git above: %d objects, %v", len(objects), err)
	}
}

// TestRead_FetchesAndRunsNothing holds every way that Kustomize has to download or run
// something against a server that must not be asked.
func TestRead_FetchesAndRunsNothing(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	u := server.URL
	host := strings.TrimPrefix(u, "http://")
	plugin := "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: a}\npath: " + u + "/p.yaml\ntarget: {kind: Workload}\n"
	for name, c := range map[string]struct {
		kustomization string
		more          map[string]string
		want          string
	}{
		"remote resource": {"resources:\n- x.yaml\n- " + u + "/x.yaml\n", nil, ":3:"},
		"remote resource under another case of the key": {"Resources:\n- " + u + "/x.yaml\n", nil, ":2:"},
		"remote resource behind an alias":               {"metadata:\n  annotations:\n    a: &x.yaml " + u + "\nresources:\n- *x.yaml\n", nil, ":3:"},
		"key given twice":                               {"resources: [x.yaml]\nresources:\n- " + u + "/x.yaml\n", nil, ":2:"},
		"merge key":                                     {"<<:\n  resources:\n  - " + u + "/x.yaml\n", nil, ":3:"},
		"https base":                                    {"bases:\n- https://" + host + "/x/y\n", nil, ":2:"},
		"git over http with a ref":                      {"resources:\n- " + u + "/org/repo//deploy?ref=v1\n", nil, ":2:"},
		"git over ssh":                                  {"resources:\n- ssh://git@" + host + "/org/repo\n", nil, ":2:"},
		"git as scp":                                    {"resources:\n- git@127.0.0.1:org/repo.git\n", nil, ":2:"},
		"git with a forced protocol":                    {"resources:\n- git::" + u + "/org/repo\n", nil, ":2:"},
		"git from a file":                               {"resources:\n- file:///etc\n", nil, ":2:"},
		"github without a scheme":                       {"resources:\n- github.com/x//y?ref=main\n", nil, ":2:"},
		"a folder that is named as GitHub":              {"resources:\n- github.com/org/repo\n", map[string]string{"github.com/org/repo/kustomization.yaml": "resources: []\n"}, ":2:"},
		"a broken file that is named as GitHub":         {"resources:\n- GitHub.com/org/repo\n", map[string]string{"GitHub.com/org/repo": "a: b: c"}, ":2:"},
		"remote component":                              {"components:\n- " + u + "/c\n", nil, ":2:"},
		"remote patch":                                  {"resources: [x.yaml]\npatches:\n- path: " + u + "/p.yaml\n", nil, ":3:"},
		"remote old-style patch":                        {"resources: [x.yaml]\npatchesStrategicMerge:\n- " + u + "/p.yaml\n", nil, ":3:"},
		"remote JSON patch":                             {"resources: [x.yaml]\npatchesJson6902:\n- path: " + u + "/p.yaml\n  target: {kind: Workload, name: web}\n", nil, ":3:"},
		"remote replacement":                            {"resources: [x.yaml]\nreplacements:\n- path: " + u + "/p.yaml\n", nil, ":3:"},
		"remote schema":                                 {"resources: [x.yaml]\nopenapi:\n  path: " + u + "/s.json\n", nil, ":3:"},
		"remote CRD":                                    {"resources: [x.yaml]\ncrds:\n- " + u + "/s.json\n", nil, ":3:"},
		"remote configuration":                          {"resources: [x.yaml]\nconfigurations:\n- HTTP://" + host + "/s.yaml\n", nil, ":3:"},
		"remote file of a generator":                    {"configMapGenerator:\n- name: a\n  files:\n  - k=" + u + "/f\n", nil, ":4:"},
		"remote file with a query":                      {"configMapGenerator:\n- name: a\n  files:\n  - " + u + "/f?a=b\n", nil, ":4:"},
		"remote env file of a generator":                {"secretGenerator:\n- name: a\n  env: " + u + "/f\n", nil, ":3:"},
		"remote generator":                              {"generators:\n- " + u + "/g.yaml\n", nil, ":2:"},
		"remote validator":                              {"resources: [x.yaml]\nvalidators:\n- " + u + "/g.yaml\n", nil, ":3:"},
		"URL in a transformer's file":                   {"resources: [x.yaml]\ntransformers: [t.yaml]\n", map[string]string{"t.yaml": plugin}, "t.yaml:4:"},
		"URL in a second transformer":                   {"resources: [x.yaml]\ntransformers: [t.yaml]\n", map[string]string{"t.yaml": "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {name: b}\nprefix: a-\n---\n" + plugin}, "t.yaml:9:"},
		"URL in an inline transformer":                  {"resources: [x.yaml]\ntransformers:\n- |-\n  " + strings.ReplaceAll(plugin, "\n", "\n  ") + "\n", nil, ":7:"},
		"URL in a one-line generator":                   {"generators:\n- '{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: a}, files: [\"" + u + "/f\"]}'\n", nil, "kustomization.yaml:"},
		"URL in a transformer's folder":                 {"resources: [x.yaml]\ntransformers: [t]\n", map[string]string{"t/kustomization.yaml": "resources: [t.yaml]\n", "t/t.yaml": plugin}, "t.yaml:4:"},
		"URL that a patch puts into a transformer": {"resources: [x.yaml]\ntransformers: [t]\n", map[string]string{
			"t/kustomization.yaml": "resources: [t.yaml]\npatches:\n- patch: '[{op: add, path: /path, value: \"" + u + "\"}]'\n  target: {kind: PatchTransformer}\n",
			"t/t.yaml":             "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: a}\n"}, "t/kustomization.yaml:1:"},
		"Helm chart":                       {"resources: [x.yaml]\nhelmCharts:\n- name: a\n  repo: " + u + "\n", nil, ":2:"},
		"Helm chart, old style":            {"resources: [x.yaml]\nhelmChartInflationGenerator:\n- chartName: a\n  chartRepoUrl: " + u + "\n", nil, ":2:"},
		"Helm chart by a generator":        {"generators: [g.yaml]\n", map[string]string{"g.yaml": "apiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: a}\nname: a\n"}, "g.yaml:2:"},
		"exec plugin":                      {"generators: [g.yaml]\n", map[string]string{"g.yaml": "apiVersion: someteam.example.com/v1\nkind: Exec\nmetadata: {name: a}\n"}, "g.yaml:2:"},
		"exec function":                    {"transformers: [g.yaml]\n", map[string]string{"g.yaml": "apiVersion: v1\nkind: Fn\nmetadata:\n  name: a\n  annotations:\n    config.kubernetes.io/function: |\n      exec: {path: ./run.sh}\n"}, "g.yaml:2:"},
		"container function on a built-in": {"transformers: [g.yaml]\n", map[string]string{"g.yaml": "apiVersion: builtin\nkind: PrefixTransformer\nmetadata:\n  name: a\n  annotations:\n    config.kubernetes.io/function: |\n      container: {image: a}\n"}, "g.yaml:6:"},
		"plugin in a base":                 {"resources: [base]\n", map[string]string{"base/kustomization.yaml": "resources: []\ngenerators:\n- " + u + "/g\n"}, "base/kustomization.yaml:3:"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"kustomization.yaml": c.kustomization, "x.yaml": workload, "run.sh": "#!/bin/sh\ntouch ran\n"}
			for n, content := range c.more {
				files[n] = content
			}
			dir := write(t, files)
			_, err := read(t, dir, ".")
			mustFail(t, err, c.want)
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Error("the program ran")
			}
		})
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests went out", n)
	}
}

func TestRead_LeavesInnocentOverlaysAlone(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"URLs that are only text": {"kustomization.yaml": "resources: [x.yaml]\ncommonAnnotations: {docs: 'https://example.com'}\nconfigMapGenerator:\n- name: a\n  literals: ['URL=https://example.com/?a=b']\n"},
		"a patch with a URL":      {"kustomization.yaml": "resources: [x.yaml]\npatches:\n- target: {kind: Workload}\n  patch: \"- {op: add, path: /metadata/annotations, value: {docs: 'https://example.com'}}\"\n"},
		"a built-in transformer with a URL in an annotation": {"kustomization.yaml": "resources: [x.yaml]\ntransformers: [t.yaml]\n",
			"t.yaml": "apiVersion: builtin\nkind: AnnotationsTransformer\nmetadata: {name: a}\nannotations: {docs: 'https://example.com'}\nfieldSpecs: [{path: metadata/annotations, create: true}]\n"},
		"anchors":                          {"kustomization.yaml": "resources: [x.yaml]\ncommonAnnotations: &a {a: b}\nlabels: [{pairs: *a}]\n"},
		"a document mark at the start":     {"kustomization.yaml": "---\nresources: [x.yaml]\n"},
		"a generated file that is no YAML": {"kustomization.yaml": "resources: [x.yaml]\nconfigMapGenerator: [{name: a, files: [f.txt]}]\n", "f.txt": "a: b: *c & \x01\n"},
	} {
		t.Run(name, func(t *testing.T) {
			files["x.yaml"] = workload
			objects, err := read(t, write(t, files), ".")
			if err != nil {
				t.Fatal(err)
			}
			if len(objects) == 0 || objects[0].GetKind() != "Workload" {
				t.Errorf("objects: %v", objects)
			}
		})
	}
}

func TestRead_NamesTheFileOfEveryObject(t *testing.T) {
	dir := write(t, map[string]string{
		"base/kustomization.yaml": "resources: [web.yaml]\n", "base/web.yaml": workload,
		"component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [extra.yaml]\n",
		"component/extra.yaml":         strings.Replace(workload, "web", "extra", 1),
		"over/kustomization.yaml": "resources: [../base, own.yaml]\ncomponents: [../component]\npatches: [{path: patch.yaml}]\n" +
			"configMapGenerator: [{name: generated, literals: [a=b]}]\n",
		"over/own.yaml":   strings.Replace(workload, "web", "own", 1),
		"over/patch.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 3}\n",
	})
	objects, err := read(t, dir, "over")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range objects {
		name, _, _ := strings.Cut(o.GetName(), "-")
		relative, err := filepath.Rel(dir, o.File)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = relative
		if len(o.GetAnnotations()) != 0 {
			t.Errorf("%s keeps annotations %v", name, o.GetAnnotations())
		}
		if replicas := o.Object["spec"]; name == "web" && !strings.Contains(fmt.Sprint(replicas), "replicas:3") {
			t.Errorf("the patch did not apply: %v", replicas)
		}
	}
	want := map[string]string{"web": "base/web.yaml", "extra": "component/extra.yaml", "own": "over/own.yaml", "generated": "over/kustomization.yaml"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("files are %v and should be %v", got, want)
	}
}

func TestRead_ExpandsListsAndOnlyLists(t *testing.T) {
	item := strings.ReplaceAll("{apiVersion: sluice.dev/v1beta1, kind: Workload, metadata: {name: NAME}}", "\n", "")
	list := func(items ...string) string {
		return "{apiVersion: v1, kind: List, items: [" + strings.Join(items, ", ") + "]}"
	}
	for name, c := range map[string]struct {
		content string
		want    string
	}{
		"a list":                          {list(strings.Replace(item, "NAME", "a", 1), strings.Replace(item, "NAME", "b", 1)), "Workload/a Workload/b"},
		"a list in a list":                {list(list(strings.Replace(item, "NAME", "a", 1))), "Workload/a"},
		"an empty list":                   {list(), ""},
		"a Workload with items":           {"{apiVersion: sluice.dev/v1beta1, kind: Workload, metadata: {name: a}, items: []}", "Workload/a"},
		"documents, comments and nothing": {"# a\n---\n---\n" + strings.Replace(item, "NAME", "a", 1) + "\n---\n", "Workload/a"},
		"JSON":                            {`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}`, "ConfigMap/a"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := overlay.Read("", overlay.Stdin, strings.NewReader(c.content))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind()+"/"+o.GetName())
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

func TestRead_PlainFolders(t *testing.T) {
	t.Run("files by name, folders within and no hidden ones at the top", func(t *testing.T) {
		dir := write(t, map[string]string{"b.yml": workload, "a/x.json": `{"apiVersion": "v1", "kind": "ConfigMap"}`, ".hidden/x.yaml": "a: [", "notes.txt": "a: ["})
		objects, err := read(t, dir, ".")
		if err != nil || len(objects) != 2 || filepath.Base(objects[1].File) != "b.yml" {
			t.Fatalf("%v %v", objects, err)
		}
	})
	t.Run("a hidden folder within, which kubectl and Argo CD would apply too", func(t *testing.T) {
		dir := write(t, map[string]string{"a/b.yaml": workload, "a/.c/d.yaml": workload, "a/.git/e.yaml": "a: ["})
		for _, below := range []string{".", "a"} {
			objects, err := overlay.Read(dir, filepath.Join(dir, below), nil)
			if err != nil || len(objects) != 2 || filepath.Base(objects[0].File) != "d.yaml" {
				t.Fatalf("%v %v", objects, err)
			}
		}
	})
	t.Run("a kustomization within is no plain manifest", func(t *testing.T) {
		_, err := read(t, write(t, map[string]string{"a.yaml": workload, "o/kustomization.yaml": "resources: []\n"}), ".")
		mustFail(t, err, "o is a kustomization")
	})
	t.Run("a kustomization named as a file", func(t *testing.T) {
		_, err := read(t, write(t, map[string]string{"o/kustomization.yaml": "resources: []\n"}), "o/kustomization.yaml")
		mustFail(t, err, "name its folder")
	})
	t.Run("a path that is not there", func(t *testing.T) {
		_, err := overlay.Read("", filepath.Join(t.TempDir(), "gone"), nil)
		mustFail(t, err, "gone", "no such file")
	})
}

func TestSet_WithReadsOtherBytesAndElseWhatItReadBefore(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"kustomization.yaml": "resources: [a.yaml, b.yaml]\n",
		"a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n",
		"b.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {x: '1'}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := overlay.Load(dir, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	// What becomes of the files meanwhile does not count.
	if err := os.WriteFile(filepath.Join(dir, "b.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {x: '3'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := set.With(map[string][]byte{"a.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '2'}\n")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"2", "1"} {
		if got := after.Objects[i].Object["data"].(map[string]any)["x"]; got != want {
			t.Errorf("%s has %v", after.Objects[i].GetName(), got)
		}
		if got := set.Objects[i].Object["data"].(map[string]any)["x"]; got != "1" {
			t.Errorf("%s had %v", set.Objects[i].GetName(), got)
		}
	}
	for name, c := range map[string]struct {
		files map[string][]byte
		says  string
	}{
		"a file that was not read": {map[string][]byte{"c.yaml": nil}, "was not read before"},
		"a remote base":            {map[string][]byte{"kustomization.yaml": []byte("resources: ['https://example.com/x']\n")}, "is refused"},
		"aliases that are a bomb":  {map[string][]byte{"a.yaml": []byte("a: &a " + strings.Repeat("x", 9<<20) + "\nb: [*a, *a]\n")}, "limits.ExpandedBytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := set.With(c.files); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error: %v", err)
			}
		})
	}
	input, err := overlay.Load("", overlay.Stdin, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := input.With(nil); err == nil {
		t.Error("standard input was read again")
	}
}
