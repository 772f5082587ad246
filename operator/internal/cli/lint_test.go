package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

const pinned = "registry.example.com/shop/web@" + digest

// overlays is a desk with a clean fleet: a base and four environments.
func overlays(t *testing.T) *desk {
	t.Helper()
	d := &desk{dir: t.TempDir()}
	d.write(t, "base/kustomization.yaml", "resources: [web.yaml]\n")
	d.write(t, "base/web.yaml", head+pinned+"\n  replicas: 2\n  env: [{name: TOKEN, value: hunter2}]\n")
	for _, e := range []string{"dev", "ci", "e2e", "prod"} {
		d.write(t, "overlays/"+e+"/kustomization.yaml", "resources: [../../base]\n")
	}
	d.git(t, "init", "-q")
	return d
}

const (
	kustomization = "overlays/prod/kustomization.yaml"
	inOwn         = "namespace: shop-prod\nresources: [../../base]\n"
)

func TestLintOverlays_Finds(t *testing.T) {
	patch := "resources: [../../base]\npatches: [{target: {kind: Workload, name: NAME}, patch: '- {op: add, path: PATH, value: VALUE}'}]\n"
	with := func(name, path, value string) string {
		return strings.NewReplacer("NAME", name, "PATH", path, "VALUE", value).Replace(patch)
	}
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
		code  int
		says  []string
	}{
		"nothing":                         {nil, nil, 0, []string{"4 overlays: 0 errors, 0 warnings"}},
		"nothing in what is there to":     {map[string]string{kustomization: with("web", "/spec/replicas", "5")}, []string{"--fail-on=warning"}, 0, []string{"0 warnings"}},
		"a patch for nothing":             {map[string]string{kustomization: with("wbe", "/spec/replicas", "5")}, nil, 1, []string{"ERROR", kustomization + " patches[0] [dead-patch]", "its target matches nothing: kind Workload, name wbe\n", "to do: "}},
		"a patch that changes nothing":    {map[string]string{kustomization: with("web", "/spec/replicas", "2")}, nil, 1, []string{"dead-patch", "it changes nothing"}},
		"a patch of a file":               {map[string]string{kustomization: "resources: [../../base]\npatches: [{path: p.yaml}]\n", "overlays/prod/p.yaml": head + pinned + "\n"}, nil, 1, []string{"patches[0] (p.yaml)", "it changes nothing"}},
		"an image that nothing has":       {map[string]string{kustomization: "resources: [../../base]\nimages: [{name: registry.example.com/shop/wbe, newTag: '2'}]\n"}, nil, 1, []string{"images[0] (registry.example.com/shop/wbe)", "dead-image", "no object has this image"}},
		"an image that is not reached":    {map[string]string{kustomization: "resources: [../../base]\nimages: [{name: registry.example.com/shop/web, newTag: '2'}]\n"}, nil, 1, []string{"dead-image", "workload-kustomize"}},
		"a file that nobody reads":        {map[string]string{"overlays/prod/old.yaml": "a: b\n", "overlays/prod/sub/kustomization.yaml": "resources: []\n"}, nil, 0, []string{"WARNING", "overlays/prod/old.yaml [unused-file]", "overlays/prod/sub/kustomization.yaml [unused-file]", "0 errors, 2 warnings"}},
		"a file for people, and a hidden": {map[string]string{"overlays/prod/README.md": "a\n", "overlays/prod/.x.yaml": "a\n"}, []string{"--fail-on=warning"}, 0, []string{"0 warnings"}},
		"a warning that fails":            {map[string]string{"overlays/prod/old.yaml": "a: b\n"}, []string{"--fail-on=warning"}, 1, nil},
		"a tag":                           {map[string]string{kustomization: with("web", "/spec/image", "registry.example.com/shop/web:1")}, nil, 1, []string{"Deployment/shop/web spec.template.spec.containers[0].image [not-pinned]", "in prod the image registry.example.com/shop/web:1"}},
		"a tag where it may be":           {map[string]string{"overlays/dev/kustomization.yaml": with("web", "/spec/image", "registry.example.com/shop/web:1")}, nil, 0, []string{"0 errors"}},
		"a tag where it may not be":       {map[string]string{"overlays/dev/kustomization.yaml": with("web", "/spec/image", "registry.example.com/shop/web:1")}, []string{"--pinned=dev"}, 1, []string{"in dev the image"}},
		"another variable":                {map[string]string{kustomization: with("web", "/spec/env/0/value", "hunter3")}, nil, 0, []string{"Workload/shop/web spec.env [environments-differ]", "dev and ci and e2e; prod", "--expect=spec.env"}},
		"another variable that is meant":  {map[string]string{kustomization: with("web", "/spec/env/0/value", "hunter3")}, []string{"--expect=spec.env", "--fail-on=warning"}, 0, []string{"0 warnings"}},
		"a Workload of one environment":   {map[string]string{kustomization: "resources: [../../base, api.yaml]\n", "overlays/prod/api.yaml": strings.Replace(head, "web", "api", 1) + pinned + "\n"}, nil, 0, []string{"Workload/shop/api [not-in-every-environment]", "it is in prod and not in dev, ci, e2e"}},
		"namespaces of their own":         {map[string]string{kustomization: inOwn + strings.TrimPrefix(with("web", "/spec/env/0/value", "hunter3"), "resources: [../../base]\n")}, nil, 0, []string{"Workload/web spec.env [environments-differ]", "dev and ci and e2e; prod", "0 errors, 1 warnings"}},
		"two of a name":                   {map[string]string{kustomization: "resources: [../../base, api.yaml]\n", "overlays/prod/api.yaml": strings.Replace(head, "shop", "store", 1) + pinned + "\n"}, nil, 0, []string{"Workload/store/web [not-in-every-environment]", "it is in prod and not in dev, ci, e2e", "0 errors, 1 warnings"}},
		"a component's":                   {map[string]string{kustomization: "resources: [../../base]\ncomponents: [images]\n", "overlays/prod/images/kustomization.yaml": "kind: Component\nimages: [{name: a, newTag: '2'}]\n"}, nil, 1, []string{"overlays/prod/images/kustomization.yaml images[0] (a)"}},
		"a remote base":                   {map[string]string{kustomization: "resources: ['https://example.com/a.yaml']\n"}, nil, 2, []string{"kustomization.yaml:1", "refused"}},
		"a Workload that is not valid":    {map[string]string{"base/web.yaml": head + pinned + "\n  replica: 2\n"}, nil, 2, []string{"spec.replica"}},
		"a format":                        {nil, []string{"--format=xml"}, 2, []string{"--format=xml"}},
		"a severity":                      {nil, []string{"--fail-on=info"}, 2, []string{"--fail-on=info"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := overlays(t)
			for file, content := range c.files {
				d.write(t, file, content)
			}
			t.Chdir(d.dir)
			got := d.run("", append([]string{"lint", "overlays"}, c.args...)...)
			got.must(t, c.code, c.says...)
			if strings.Contains(got.out+got.err, "hunter") {
				t.Error("a secret is shown")
			}
		})
	}
}

func TestLintOverlays_JSONAndFolders(t *testing.T) {
	d := overlays(t)
	d.write(t, "overlays/prod/old.yaml", "a: b\n")
	var findings []map[string]string
	got := d.run("", "lint", "overlays", "@overlays", "--format=json")
	if err := json.Unmarshal([]byte(got.out), &findings); err != nil || len(findings) != 1 || findings[0]["rule"] != "unused-file" || findings[0]["remedy"] == "" {
		t.Errorf("%v: %s", err, got.out)
	}
	d.run("", "lint", "overlays", "@base").must(t, 2, "no folder in it has a kustomization")
	d.run("", "lint", "overlays", "@gone").must(t, 2, "gone")
	d.run("", "lint", "overlays", "@overlays/ci", "@overlays/prod").must(t, 2, "and not each of them: try "+filepath.Join(d.dir, "overlays"))
}

// Of overlays that share a base each is told of its own fields, and of those of the base once.
func TestSources_AreWarnedOfOnce(t *testing.T) {
	d := overlays(t)
	d.write(t, "base/kustomization.yaml", "resources: [web.yaml]\ncommonLabels: {team: shop}\n")
	d.write(t, kustomization, "bases: [../../base]\n")
	shop := "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: a}\nspec: {environment: prod, unmatchedImages: Allow}\n"
	d.write(t, "gate.yaml", shop)
	for _, args := range [][]string{
		{"check", "@overlays/dev", "@overlays/prod", "--gate", "@gate.yaml", "--no-cache"},
		{"render", "@overlays/dev", "@overlays/prod"},
		{"diff", "@overlays/dev", "--against", "@overlays/prod"},
		{"lint", "overlays", "@overlays"},
	} {
		got := d.run("", args...)
		for file, field := range map[string]string{"base/kustomization.yaml": "commonLabels", kustomization: "bases"} {
			warning := "sluice: warning: " + filepath.Join(d.dir, file) + ": '" + field + "' is deprecated."
			if strings.Count(got.err, warning) != 1 || strings.Count(got.err, "'"+field+"' is deprecated") != 1 {
				t.Errorf("%s: %q is not said once: %s", args[0], warning, got.err)
			}
		}
	}
}
