package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// git runs git in the folder of the desk.
func (d *desk) git(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", d.dir, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// fleet is a repository with a base, two overlays on it, a folder, and a Gate of its own.
func fleet(t *testing.T) *desk {
	d := newDesk(t)
	named := func(name string) string {
		return strings.Replace(head, "name: web", "name: "+name, 1) + d.image("signed") + "\n"
	}
	for file, content := range map[string]string{
		"base/kustomization.yaml": "resources: [web.yaml]\n", "base/web.yaml": named("web"),
		"a/kustomization.yaml": "resources: [../base]\nnamePrefix: a-\npatches: [{path: p.yaml}]\n", "a/p.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 2}\n",
		"b/kustomization.yaml": "resources: [../base]\nnamePrefix: b-\n", "folder/one.yaml": named("one"), "folder/two.yaml": named("two"),
		"gates/gate.yaml": d.gate("prod"), "gates/ns.yaml": namespace, ".gitignore": "folder/two.yaml\n",
	} {
		d.write(t, file, content)
	}
	d.git(t, "init", "-q", "-b", "main")
	d.git(t, "add", "-f", ".")
	d.git(t, "commit", "-q", "-m", "a")
	d.git(t, "checkout", "-q", "-b", "topic")
	return d
}

func TestCheck_ChangedJudgesWhatAChangeTouches(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*desk)
		commit bool
		judged []string
	}{
		"nothing":                  {func(*desk) {}, false, nil},
		"a base":                   {func(d *desk) { d.write(t, "base/web.yaml", head+d.image("signed")+"\n  replicas: 3\n") }, true, []string{"a-web", "b-web"}},
		"a patch":                  {func(d *desk) { d.write(t, "a/p.yaml", "# c\n"+read(t, d, "a/p.yaml")) }, true, []string{"a-web"}},
		"a patch in the work tree": {func(d *desk) { d.write(t, "a/p.yaml", "# c\n"+read(t, d, "a/p.yaml")) }, false, []string{"a-web"}},
		"one file of a folder":     {func(d *desk) { d.write(t, "folder/one.yaml", "# c\n"+read(t, d, "folder/one.yaml")) }, true, []string{"one"}},
		"a file that git knows not": {func(d *desk) {
			d.write(t, "folder/new.yaml", strings.Replace(head, "web", "new", 1)+d.image("signed")+"\n")
		}, false, []string{"new"}},
		"a Gate": {func(d *desk) { d.write(t, "gates/gate.yaml", "# c\n"+read(t, d, "gates/gate.yaml")) }, true, []string{"a-web", "b-web", "one", "two"}},
		"a Gate that is deleted": {func(d *desk) {
			d.write(t, "gates/z.yaml", "")
			d.git(t, "add", ".")
			d.git(t, "commit", "-qm", "z")
			d.git(t, "branch", "-f", "main")
			remove(t, d, "gates/z.yaml")
		}, true, []string{"a-web", "b-web", "one", "two"}},
		"a namespace in the folder": {func(d *desk) { d.write(t, "folder/ns.yaml", namespace) }, true, []string{"a-web", "b-web", "one", "two"}},
		"a file that git ignores": {func(d *desk) {
			d.git(t, "rm", "-q", "--cached", "folder/two.yaml")
			d.git(t, "commit", "-qm", "b")
			d.git(t, "branch", "-f", "main")
		}, false, []string{"two"}},
		"a file that nobody reads": {func(d *desk) { d.write(t, "README.md", "a") }, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := fleet(t)
			c.change(d)
			if c.commit {
				d.git(t, "add", ".")
				d.git(t, "commit", "-q", "-m", "b")
			}
			got := d.run("", "check", "@a", "@b", "@folder", "--gate", "@gates", "--changed", "main")
			got.must(t, 0)
			for _, object := range []string{"a-web", "b-web", "one", "two", "new"} {
				want := strings.Contains(strings.Join(c.judged, " ")+" ", object+" ")
				if judged := strings.Contains(got.out, "Workload/shop/"+object+" "); judged != want {
					t.Errorf("%s judged: %v\n%s%s", object, judged, got.out, got.err)
				}
			}
		})
	}
}

func read(t *testing.T, d *desk, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func remove(t *testing.T, d *desk, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, d *desk, to, name string) {
	t.Helper()
	if err := os.Symlink(to, filepath.Join(d.dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestCheck_ChangedFollowsLinks(t *testing.T) {
	d := fleet(t)
	remove(t, d, "folder/two.yaml")
	d.write(t, "elsewhere/two.yaml", strings.Replace(head, "web", "two", 1)+d.image("signed")+"\n")
	link(t, d, "../elsewhere/two.yaml", "folder/two.yaml")
	d.git(t, "add", "-f", ".")
	d.git(t, "commit", "-qm", "b")
	d.git(t, "branch", "-f", "main")
	d.write(t, "elsewhere/two.yaml", "# c\n"+read(t, d, "elsewhere/two.yaml"))
	d.run("", "check", "@folder", "--gate", "@gates", "--changed", "main").must(t, 0, "Workload/shop/two ", "1 judged")
}

// What a link leads to may be as it was on the base, and is another thing than before.
func TestCheck_ChangedSeesThatALinkLeadsElsewhere(t *testing.T) {
	d := fleet(t)
	remove(t, d, "folder/two.yaml")
	for _, file := range []string{"lib/before.yaml", "lib/after.yaml"} {
		d.write(t, file, "# "+file+"\n"+strings.Replace(head, "web", "two", 1)+d.image("signed")+"\n")
	}
	for name, to := range map[string]string{"lib/current": "before.yaml", "folder/two.yaml": "../lib/current", "prod": "a", "live": "prod", "rules": "gates"} {
		link(t, d, to, name)
	}
	d.git(t, "add", "-f", ".")
	d.git(t, "commit", "-qm", "b")
	d.git(t, "branch", "-f", "main")
	for name, c := range map[string]struct {
		link, to, path string
		judged         []string
	}{
		"one that a link in a folder leads to": {"lib/current", "after.yaml", "@folder", []string{"two"}},
		"the folder that is named":             {"prod", "b", "@prod", []string{"b-web"}},
		"one that the folder's link leads to":  {"prod", "b", "@live", []string{"b-web"}},
		"the folder of the Gates":              {"rules", "./gates", "@folder", []string{"one", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			d.git(t, "checkout", "-q", "-B", "topic", "main")
			remove(t, d, c.link)
			link(t, d, c.to, c.link)
			for _, commit := range []bool{false, true} {
				if commit {
					d.git(t, "add", ".")
					d.git(t, "commit", "-q", "-m", "c")
				}
				got := d.run("", "check", c.path, "--gate", "@rules", "--changed", "main")
				got.must(t, 0, fmt.Sprintf("%d judged", len(c.judged)))
				for _, object := range c.judged {
					if !strings.Contains(got.out, "Workload/shop/"+object+" ") {
						t.Errorf("%s is not judged:\n%s%s", object, got.out, got.err)
					}
				}
			}
		})
	}
}

func TestCheck_ChangedTakesAFolderInPlaceOfAFileForADeletion(t *testing.T) {
	for name, change := range map[string]func(*desk){
		"a folder in place of a Gate's file": func(d *desk) {
			remove(t, d, "gates/z.yaml")
			d.write(t, "gates/z.yaml/README.md", "a")
		},
		"a file in place of a Gate's folder": func(d *desk) {
			remove(t, d, "gates/more/y.yaml")
			remove(t, d, "gates/more")
			d.write(t, "gates/more", "a")
		},
		"a link in place of a Gate's folder": func(d *desk) {
			remove(t, d, "gates/more/y.yaml")
			remove(t, d, "gates/more")
			link(t, d, "../copy", "gates/more")
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := fleet(t)
			for _, file := range []string{"gates/z.yaml", "gates/more/y.yaml", "copy/y.yaml"} {
				d.write(t, file, "")
			}
			d.git(t, "add", ".")
			d.git(t, "commit", "-qm", "z")
			d.git(t, "branch", "-f", "main")
			change(d)
			d.git(t, "add", ".")
			d.git(t, "commit", "-qm", "c")
			d.run("", "check", "@a", "@b", "@folder", "--gate", "@gates", "--changed", "main").must(t, 0, "4 judged")
		})
	}
}

func TestCheck_ChangedRefuses(t *testing.T) {
	d := fleet(t)
	for name, c := range map[string]struct {
		base string
		says string
	}{
		"an option for git": {"--output=/tmp/x", "has to be named"},
		"no such branch":    {"nowhere", "fetch-depth: 0"},
	} {
		t.Run(name, func(t *testing.T) {
			d.run("", "check", "@a", "--gate", "@gates", "--changed="+c.base).must(t, 2, c.says)
		})
	}
	outside := newDesk(t)
	outside.write(t, "web.yaml", head+"a\n")
	outside.run("", "check", "@web.yaml", "--gate", "@gate.yaml", "--changed", "main").must(t, 2, "git rev-parse")
}

func TestCheck_TakesInputsOfEveryKindAtOnce(t *testing.T) {
	d := fleet(t)
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: bare, namespace: shop}\nspec: {containers: [{name: a, image: '" + d.image("unsigned") + "'}]}\n"
	d.write(t, "gates/gate.yaml", strings.Replace(d.gate("prod"), "match: {", "match: {kinds: [Workload, Pod, Deployment], ", 1))
	d.write(t, "deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: plain, namespace: shop}\nspec: {template: {spec: {containers: [{name: a, image: '"+d.image("unsigned")+"'}]}}}\n")
	got := d.run(pod, "check", "@a", "@folder", "@deployment.yaml", "-", "--gate", "@gates")
	got.must(t, 1, "PASS  "+d.dir+"/base/web.yaml: Workload/shop/a-web", "Workload/shop/one", "DENY  -: Pod/shop/bare", "DENY  "+d.dir+"/deployment.yaml: Deployment/shop/plain", "5 judged")
}
