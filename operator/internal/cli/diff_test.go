package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

const web = head + "registry.example.com/shop/web:1\n  env: [{name: API_TOKEN, value: old-secret}]\n"

// twoOverlays is a desk with a repository of two overlays over one base.
func twoOverlays(t *testing.T) *desk {
	t.Helper()
	d := &desk{dir: t.TempDir()}
	d.write(t, "base/kustomization.yaml", "resources: [web.yaml]\n")
	d.write(t, "base/web.yaml", web)
	d.write(t, "e2e/kustomization.yaml", "resources: [../base]\n")
	d.write(t, "prod/kustomization.yaml", "resources: [../base]\npatches: [{target: {kind: Workload}, patch: '- {op: add, path: /spec/replicas, value: 3}'}]\n")
	d.git(t, "init", "-q")
	d.git(t, "add", "-A")
	d.git(t, "commit", "-qm", "a")
	return d
}

func TestDiff_Exits(t *testing.T) {
	d := twoOverlays(t)
	t.Chdir(d.dir)
	d.run("", "diff", "@prod").must(t, 0)
	d.run("", "diff", "prod", "--against", "HEAD:prod").must(t, 0)
	d.run("", "diff", "prod", "--against", "e2e").must(t, 1, "Workload/shop/web changed", "Deployment/shop/web changed", "+  replicas: 3", "PodDisruptionBudget/shop/web added")
	d.write(t, "base/web.yaml", strings.NewReplacer("web:1", "web:2", "old-secret", "new-secret").Replace(web))
	for _, args := range [][]string{{"diff", "@prod"}, {"diff", "@base/web.yaml"}, {"diff", "@prod", "--against", "HEAD:./prod"}, {"diff", "prod", "--format", "side-by-side"}, {"diff", "prod", "--format", "markdown"}} {
		got := d.run("", args...)
		got.must(t, 1, "shop/web:1", "shop/web:2", "(masked 1)", "(masked 2)")
		if strings.Contains(got.out+got.err, "secret") && strings.Contains(got.out, "old-secret") || strings.Contains(got.out, "new-secret") || strings.Contains(got.out, "\x1b") {
			t.Errorf("a secret, or colour, is shown:\n%s", got.out)
		}
	}
	d.run("", "diff", "prod", "--color", "always").must(t, 1, "\x1b[32m+")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a format":                     {[]string{"prod", "--format", "xml"}, 2, "--format=xml"},
		"a colour":                     {[]string{"prod", "--color", "blue"}, 2, "--color=blue"},
		"a path that there is not":     {[]string{"gone"}, 2, "gone"},
		"a revision that there is not": {[]string{"prod", "--against", "gone:prod"}, 2, `no revision "gone"`},
		"nothing to compare with":      {[]string{"-"}, 2, "--against is required"},
		"no kubeconfig":                {[]string{"prod", "--against", "cluster", "--kubeconfig", "gone"}, 2, "kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) { d.run("", append([]string{"diff"}, c.args...)...).must(t, c.code, c.says) })
	}
}

func TestDiff_AWorkloadThatIsNotValidIsNotCompared(t *testing.T) {
	d := twoOverlays(t)
	d.write(t, "base/web.yaml", web+"  replica: 3\n")
	d.run("", "diff", "@prod").must(t, 2, "spec.replica")
	d.write(t, "base/web.yaml", web+"  patches: [{patch: a}]\n")
	d.run("", "diff", "@prod").must(t, 2, "spec.patches[0]")
}

// What Kustomize warns of on both sides is told once, by the work tree's file; what it warns
// of in the revision alone is told by the revision's.
func TestDiff_TellsWhatARevisionIsWarnedOf(t *testing.T) {
	const warned = "sluice: warning: "
	d := twoOverlays(t)
	t.Chdir(d.dir)
	fields := func(base, prod string) {
		d.write(t, "base/kustomization.yaml", "resources: [web.yaml]\n"+base)
		d.write(t, "prod/kustomization.yaml", "resources: [../base]\n"+prod)
	}
	fields("commonLabels: {team: shop}\n", "vars: [{name: NOWHERE, objref: {kind: Workload, name: web, apiVersion: sluice.dev/v1beta1}}]\n")
	d.git(t, "add", "-A")
	d.git(t, "commit", "-qm", "deprecated")
	d.git(t, "tag", "old")
	both := d.run("", "diff", "prod")
	fields("commonLabels: {team: shop}\n", "patchesJson6902: []\n")
	changed := d.run("", "diff", "prod")
	fields("", "")
	mended := d.run("", "diff", "prod", "--root", "prod/..")
	d.git(t, "commit", "-qam", "mended")
	later := d.run("", "diff", "prod", "--against", "old:prod")
	twice := d.run("", "diff", "HEAD~1:prod", "--against", "old:./prod")
	below := filepath.Join(d.dir, "prod")
	t.Chdir(below)
	within := d.run("", "diff", below)
	for name, c := range map[string]struct {
		got  output
		want []string
	}{
		"both sides":          {both, []string{"prod/kustomization.yaml: 'vars'", "base/kustomization.yaml: 'commonLabels'", "prod: well-defined vars that were never replaced: NOWHERE"}},
		"one and the other":   {changed, []string{"prod/kustomization.yaml: 'patchesJson6902'", "base/kustomization.yaml: 'commonLabels'", "HEAD:prod/kustomization.yaml: 'vars'", "HEAD:prod: well-defined vars that were never replaced: NOWHERE"}},
		"the last commit":     {mended, []string{"HEAD:prod/kustomization.yaml: 'vars'", "HEAD:base/kustomization.yaml: 'commonLabels'", "HEAD:prod: well-defined vars"}},
		"a revision":          {later, []string{"old:prod/kustomization.yaml: 'vars'", "old:base/kustomization.yaml: 'commonLabels'", "old:prod: well-defined vars"}},
		"two of one revision": {twice, []string{"HEAD~1:prod/kustomization.yaml: 'vars'", "HEAD~1:base/kustomization.yaml: 'commonLabels'", "HEAD~1:prod: well-defined vars"}},
		"nothing to warn of":  {within, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			for line := range strings.Lines(c.got.err) {
				if text, ok := strings.CutPrefix(line, warned); ok {
					told = append(told, text)
				}
			}
			if len(told) != len(c.want) || c.got.code > 1 {
				t.Fatalf("code %d: %s", c.got.code, c.got.err)
			}
			for i, text := range told {
				if !strings.HasPrefix(text, c.want[i]) {
					t.Errorf("%q, want %q", text, c.want[i])
				}
			}
		})
	}
}
