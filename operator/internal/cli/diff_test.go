package cli_test

import (
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
