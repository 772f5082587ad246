package overlay_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

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
