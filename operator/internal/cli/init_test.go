package cli_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/scaffold"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// tool runs a program of bin/tools in the folder.
func tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join("..", "..", "..", "bin", "tools", name))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), binary, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// checkAll holds a fleet against what it says of itself, and against the tools that its
// users have.
func (d *desk) checkAll(t *testing.T) {
	t.Helper()
	d.git(t, "init", "-q", "fleet")
	for _, environment := range scaffold.Environments {
		d.run("", "check", "@fleet/overlays/"+environment).must(t, 0, "PASS", "fleet-a-"+environment, "1 judged: 1 allowed")
		if built := tool(t, d.dir, "kustomize", "build", "fleet/overlays/"+environment); !strings.Contains(built, "kind: Workload") || !strings.Contains(built, "/shop/signed:1@sha256:") {
			t.Errorf("kustomize builds no pinned Workload:\n%s", built)
		}
	}
	d.run("", d.inEach("check", "@fleet/overlays/")...).must(t, 0, "4 judged: 4 allowed", "(gate fleet-a-dev)", "(gate fleet-a-prod)")
	d.run("", "lint", "overlays", "@fleet/overlays", "--fail-on=warning").must(t, 0, "4 overlays: 0 errors, 0 warnings")
	if said := tool(t, d.dir, "opa", "test", "fleet/policies/rules"); !strings.Contains(said, "PASS: 3/3") {
		t.Errorf("opa says %s", said)
	}
	if unformatted := tool(t, d.dir, "opa", "fmt", "--list", "fleet/policies/rules"); unformatted != "" {
		t.Errorf("opa fmt would change %s", unformatted)
	}
}

// inEach is a command over the overlays of all environments.
func (d *desk) inEach(command, folder string) []string {
	args := []string{command}
	for _, environment := range scaffold.Environments {
		args = append(args, folder+environment)
	}
	return args
}

// Overlays that each bring a Gate are judged apart, as they run.
func TestCheck_OverlaysWithGatesAreApart(t *testing.T) {
	d := newDesk(t)
	d.run("", "init", "@fleet", "--name=fleet-a", "--registry="+d.registry.Host()+"/shop", "--image="+d.image("signed"), "--key", "@key.pub", "--no-argocd").must(t, 0)
	d.git(t, "init", "-q", "fleet")
	pins := filepath.Join(d.dir, "fleet/overlays/prod/images/kustomization.yaml")
	signed, err := os.ReadFile(pins)
	must(t, err)
	unsigned, err := testkit.PushImage(d.image("signed")+".1", "another, which nobody signed")
	must(t, err)
	d.write(t, "fleet/overlays/prod/images/kustomization.yaml", regexp.MustCompile(`sha256:[0-9a-f]{64}`).ReplaceAllString(string(signed), unsigned))
	all := d.inEach("check", "@fleet/overlays/")
	d.run("", all...).must(t, 1, "4 judged: 3 allowed, 0 with warnings, 1 denied", "judged apart", "overlays/prod")
	if alone := d.run("", "check", "@fleet/overlays/prod"); strings.Contains(alone.err, "judged apart") {
		t.Errorf("one is no overlay apart: %s", alone.err)
	}
	d.run("", append(all, "@fleet/base")...).must(t, 1, "1 denied, 1 undecided", "labels of namespace fleet-a") // no overlay lends what it has to base/
	d.run("", d.inEach("render", "@fleet/overlays/")...).must(t, 0, "kind: Deployment")

	d.git(t, "-C", "fleet", "add", ".")
	d.git(t, "-C", "fleet", "commit", "-q", "-m", "fleet")
	d.write(t, "fleet/overlays/prod/images/kustomization.yaml", string(signed))
	d.run("", append(all, "--changed=HEAD")...).must(t, 0, "1 judged: 1 allowed", "(gate fleet-a-prod)", "3 objects are as they are in HEAD")
}

func TestInit_WritesAFleetThatPassesItsOwnCheck(t *testing.T) {
	d := newDesk(t)
	d.run("", "init", "@fleet", "--name=fleet-a", "--registry="+d.registry.Host()+"/shop", "--image="+d.image("signed"), "--key", "@key.pub",
		"--repository=https://git.example.com/shop/fleet.git").must(t, 0, "files are in")
	d.checkAll(t)
	tool(t, filepath.Join(d.dir, "fleet"), "actionlint", "-shellcheck=", "-pyflakes=")
	for _, name := range []string{"argocd/project.yaml", "argocd/applicationset.yaml", "argocd/cluster/access.yaml", ".github/workflows/promote.yml", "README.md"} {
		if _, err := os.Stat(filepath.Join(d.dir, "fleet", name)); err != nil {
			t.Error(err)
		}
	}
	// What the Gates are there for: another image, and nobody to call.
	d.write(t, "fleet/overlays/prod/images/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages: [{name: "+d.registry.Host()+"/shop/signed, newName: "+d.registry.Host()+"/shop/unsigned, newTag: '1'}]\n")
	d.run("", "check", "@fleet/overlays/prod").must(t, 1, "signature", "digest")
	d.write(t, "fleet/base/web.yaml", strings.Replace(head, "namespace: shop", "namespace: fleet-a", 1)+d.image("signed")+"\n")
	d.run("", "check", "@fleet/overlays/dev").must(t, 1, "nobody owns this Workload", "metadata.labels.owner")
}

func TestInit_BySignersIdentityAndWithoutTheRest(t *testing.T) {
	d := newDesk(t)
	sigstore, err := testkit.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	root, err := sigstore.TrustedRootJSON()
	if err != nil {
		t.Fatal(err)
	}
	d.write(t, "root.json", string(root))
	digest, err := testkit.PushImage(d.image("signed"), "signed")
	if err != nil {
		t.Fatal(err)
	}
	who := testkit.Identity{Subject: "https://git.example.com/shop/release.yml@refs/tags/v1", Issuer: "https://issuer.example.com"}
	if err := sigstore.SignBundle(who, d.registry.Host()+"/shop/signed", digest); err != nil {
		t.Fatal(err)
	}
	d.run("", "init", "@fleet", "--name=fleet-a", "--registry="+d.registry.Host()+"/shop", "--image="+d.image("signed")+"@"+digest,
		"--issuer="+who.Issuer, "--subject="+who.Subject, "--trusted-root", "@gone.json", "--no-argocd", "--no-workflows").must(t, 2, "gone.json")
	d.run("", "init", "@fleet", "--name=fleet-a", "--registry="+d.registry.Host()+"/shop", "--image="+d.image("signed")+"@"+digest,
		"--issuer="+who.Issuer, "--subject="+who.Subject, "--trusted-root", "@root.json", "--no-argocd", "--no-workflows").must(t, 0)
	d.checkAll(t)
	if err := filepath.WalkDir(filepath.Join(d.dir, "fleet"), func(name string, _ fs.DirEntry, err error) error {
		if strings.Contains(name, "argocd") || strings.Contains(name, ".github") {
			t.Errorf("%s is there", name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestInit_RefusesWithoutWriting(t *testing.T) {
	d := newDesk(t)
	d.write(t, "full/a", "b")
	d.write(t, "file", "b")
	host := d.registry.Host()
	pinned := host + "/shop/web@sha256:" + strings.Repeat("0", 64)
	good := []string{"--name=a", "--registry=" + host + "/shop", "--image=" + pinned, "--key", "@key.pub", "--no-argocd"}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing but a folder":          {[]string{"@new"}, 2, "--name=\"\" has to be a DNS label that starts with a letter\n  - --registry=\"\" has to be a registry with a path, such as registry.example.com/shop\n  - --key, or --issuer and --subject, is required: without one nobody's signature counts\n  - --repository="},
		"a folder with something in it": {append([]string{"@full"}, good...), 2, "is not empty"},
		"a file":                        {append([]string{"@file"}, good...), 2, "file"},
		"no name":                       {append([]string{"@new"}, good[1:]...), 2, "--name"},
		"a name of YAML":                {append([]string{"@new"}, append(slices.Clone(good[1:]), "--name=a: b")...), 2, "--name"},
		"no signer":                     {append([]string{"@new"}, good[0], good[1], good[2], "--no-argocd"), 2, "--key, or --issuer and --subject, is required"},
		"a key and an identity":         {append([]string{"@new"}, append(slices.Clone(good), "--issuer=a", "--subject=b")...), 2, "not both"},
		"a key that is none":            {append([]string{"@new"}, good[0], good[1], good[2], "--no-argocd", "--key", "@file"), 2, "--key"},
		"no issuer":                     {append([]string{"@new"}, good[0], good[1], good[2], "--no-argocd", "--subject=a"), 2, "issuer"},
		"no URL for Argo CD":            {append([]string{"@new"}, good[:5]...), 2, "--repository"},
		"an image from elsewhere":       {append([]string{"@new"}, append(slices.Clone(good), "--image=other.example.com/web@sha256:"+strings.Repeat("0", 64))...), 2, "not below"},
		"a registry without a host":     {append([]string{"@new"}, append(slices.Clone(good), "--registry=shop")...), 2, "--registry"},
		"attestors without a name":      {append([]string{"@new"}, append(slices.Clone(good), "--attestors=")...), 2, "--attestors is empty"},
		"a version of shell":            {append([]string{"@new"}, append(slices.Clone(good), "--sluice-version=$(id)")...), 2, "--sluice-version"},
		"an image that there is not":    {append([]string{"@new"}, append(slices.Clone(good), "--image="+host+"/shop/gone:1")...), 3, "its digest is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			d.run("", append([]string{"init"}, c.args...)...).must(t, c.code, c.says)
			if _, err := os.Stat(filepath.Join(d.dir, "new")); err == nil {
				t.Error("something was written")
			}
		})
	}
}
