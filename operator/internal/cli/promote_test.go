package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// route is a repository with overlays of four environments, each of which demands evidence
// of the one before it, and an image in e2e that has its proof.
type route struct {
	*desk
	// now runs in prod, next in e2e and older did once; each has evidence of e2e but older.
	now, next, older string
}

var before = map[string]string{"dev": "", "ci": "dev", "e2e": "ci", "prod": "e2e"}

func newRoute(t *testing.T) *route {
	t.Helper()
	keys, err := twoKeys()
	if err != nil {
		t.Fatal(err)
	}
	r := &route{desk: &desk{dir: t.TempDir(), registry: testkit.NewRegistry(testkit.RegistryOptions{Referrers: true}), key: keys[0], other: keys[1]}}
	t.Cleanup(r.registry.Close)
	for version, digest := range map[string]*string{"1.0.0": &r.older, "1.1.0": &r.now, "1.2.0": &r.next} {
		if *digest, err = testkit.PushImage(r.app()+":"+version, "app "+version); err != nil {
			t.Fatal(err)
		}
	}
	for environment := range before {
		digest, version := r.next, "1.2.0"
		if environment == "prod" {
			digest, version = r.now, "1.1.0"
		}
		r.overlay(t, environment, "web", version, digest, "")
	}
	r.write(t, "cosign.key", r.key.PrivatePEM)
	r.attest(t, r.next)
	r.attest(t, r.now)
	r.git(t, "init", "-q", "-b", "main")
	r.write(t, ".git/info/exclude", "cosign.key\n")
	r.git(t, "config", "user.name", "a")
	r.git(t, "config", "user.email", "a@example.com")
	r.commitAll(t)
	t.Chdir(r.dir)
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN"} {
		t.Setenv(name, "")
	}
	return r
}

func (r *route) app() string { return r.registry.Host() + "/shop/app" }

// kept is the file with the text of the pull request.
func (r *route) kept(t *testing.T) string {
	t.Helper()
	texts, err := filepath.Glob(filepath.Join(r.dir, ".git", "sluice", "promote-prod-*.md"))
	if err != nil || len(texts) != 1 {
		t.Fatalf("%v, %v", texts, err)
	}
	return texts[0]
}

func (r *route) attest(t *testing.T, digest string) {
	t.Helper()
	r.run("", "attest", r.app()+"@"+digest, "--environment=e2e", "--key", "@cosign.key").must(t, 0)
}

func (r *route) commitAll(t *testing.T) {
	t.Helper()
	r.git(t, "add", "-A")
	r.git(t, "commit", "-q", "-m", "a")
}

// overlay writes that of an environment, with one Workload more.
func (r *route) overlay(t *testing.T, environment, name, version, digest, spec string) {
	t.Helper()
	dir := "overlays/" + environment + "/"
	r.write(t, dir+"kustomization.yaml", "resources: [gate.yaml, web.yaml]\n")
	r.write(t, dir+name+".yaml", fmt.Sprintf(`# what runs in %s
apiVersion: sluice.dev/v1beta1
kind: Workload
metadata: {name: %s, namespace: shop}
spec:
  image: %s:%s@%s # by digest
  version: &v "%s"
%s`, environment, name, r.app(), version, digest, version, spec))
	r.gateOf(t, environment, "")
}

// gateOf writes the Gate of an environment.
func (r *route) gateOf(t *testing.T, environment, more string) {
	t.Helper()
	demand := ""
	if from := before[environment]; from != "" {
		demand = fmt.Sprintf("  requirePromotionFrom:\n    environment: %s\n    within: 720h\n    authorities:\n    - name: attestor\n      key:\n        inline: |\n          %s\n",
			from, strings.ReplaceAll(strings.TrimSpace(r.key.PublicPEM), "\n", "\n          "))
	}
	r.write(t, "overlays/"+environment+"/gate.yaml", fmt.Sprintf("apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: gate-%s}\nspec:\n  environment: %s\n  unmatchedImages: Allow\n%s%s---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
		environment, environment, demand, more))
}

func (r *route) output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", r.dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// untouched holds everything that a repository is against what it was.
func (r *route) untouched(t *testing.T) (check func()) {
	t.Helper()
	state := func() string {
		return r.output(t, "for-each-ref") + "\n" + r.output(t, "status", "--porcelain") + "\n" + r.output(t, "rev-parse", "HEAD")
	}
	was := state()
	return func() {
		t.Helper()
		if is := state(); is != was {
			t.Errorf("the repository was changed:\n%s\nwas\n%s", is, was)
		}
	}
}

func (r *route) promote(args ...string) output {
	return r.run("", append([]string{"promote"}, args...)...)
}

func TestPromote_CommitsToABranchAndNothingElse(t *testing.T) {
	r := newRoute(t)
	head := r.output(t, "rev-parse", "HEAD")
	r.promote("--from=e2e", "--to=prod").must(t, 0, "promote web from e2e to prod: 1.2.0", "overlays/prod/web.yaml:6:", "PASS", "on branch promote/prod", "git push origin promote/prod")
	if now := r.output(t, "rev-parse", "HEAD"); now != head || r.output(t, "status", "--porcelain") != "" || r.output(t, "rev-parse", "promote/prod^") != head {
		t.Errorf("HEAD %s, was %s\n%s", now, head, r.output(t, "status"))
	}
	diff := r.output(t, "diff", "-U0", "main", "promote/prod")
	for _, want := range []string{
		"+  image: " + r.app() + ":1.2.0@" + r.next + " # by digest", `+  version: &v "1.2.0"`,
	} {
		if !strings.Contains(diff, want) {
			t.Errorf("%q is not in\n%s", want, diff)
		}
	}
	if n := strings.Count(diff, "\n+") + strings.Count(diff, "\n-"); n != 6 { // two lines, and two headers
		t.Errorf("%d lines:\n%s", n, diff)
	}
	text, err := os.ReadFile(r.kept(t))
	if err != nil || !strings.Contains(string(text), "e2e to prod: **Allow**") || !strings.Contains(string(text), "signed by `attestor`") || strings.Contains(string(text), "DENY") {
		t.Errorf("%v\n%s", err, text)
	}
	if message := r.output(t, "log", "-1", "--format=%B", "promote/prod"); !strings.Contains(message, "shop/web: "+r.app()+"@"+r.next) || !strings.Contains(message, "verdict under the gate of prod: Allow") {
		t.Errorf("%s", message)
	}
}

func TestPromote_TheSameAgainIsNothingToDo(t *testing.T) {
	r := newRoute(t)
	r.promote("--from=e2e", "--to=prod").must(t, 0, "committed")
	check := r.untouched(t)
	r.promote("--to=prod").must(t, 0, "branch promote/prod has it already")
	check()
	r.git(t, "merge", "-q", "--ff-only", "promote/prod")
	check = r.untouched(t)
	r.promote("--to=prod").must(t, 0, "prod has all of it already: nothing to do")
	check()
	if said := r.promote("--to=prod", "--format=json"); said.code != 0 || !strings.Contains(said.out, `"committed":false`) {
		t.Errorf("%+v", said)
	}
}

func TestPromote_LeavesNoEnvironmentOut(t *testing.T) {
	r := newRoute(t)
	check := r.untouched(t)
	r.promote("--from=dev", "--to=prod").must(t, 1, "dev is not promoted to prod directly: ci, then e2e comes between; promote to ci first")
	r.promote("--from=ci", "--to=prod").must(t, 1, "e2e comes between; promote to e2e first")
	r.promote("--from=prod", "--to=ci").must(t, 1, "the Gate of ci demands evidence of dev")
	r.promote("--from=e2e", "--to=e2e").must(t, 2, "are both e2e")
	r.promote("--to=dev").must(t, 2, "--from is required")
	r.promote("--from=qa", "--to=prod").must(t, 2, "no overlay of environment qa", "ci, dev, e2e, prod")
	check()
}

func TestPromote_WhatTheNextGateDeniesIsNotCommitted(t *testing.T) {
	r := newRoute(t)
	r.gateOf(t, "prod", "  policies: [{builtin: reliability}]\n  parameters: {reliability: {minReplicas: 2}}\n")
	r.commitAll(t)
	check := r.untouched(t)
	r.promote("--to=prod").must(t, 1, "the gate of prod denies it", "reliability", "nothing was changed")
	r.promote("--to=prod", "--format=markdown").must(t, 1, "> **DENY**: the gate of prod denies this", "e2e to prod: **Allow**")
	r.promote("--to=prod", "--draft", "--dry-run").must(t, 1, "nothing was changed")
	check()
	r.promote("--to=prod", "--draft").must(t, 1, "on branch promote/prod", "denies it")
	text, err := os.ReadFile(r.kept(t))
	if err != nil || !strings.HasPrefix(string(text), "> **DENY**") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestPromote_WithoutEvidenceIsDenied(t *testing.T) {
	r := newRoute(t)
	r.overlay(t, "e2e", "web", "1.0.0", r.older, "")
	r.commitAll(t)
	check := r.untouched(t)
	r.promote("--to=prod").must(t, 1, "no evidence that it passed environment e2e", "1.0.0 is older than 1.1.0")
	check()
}

func TestPromote_ChangesNothingWhileTheRegistryIsDown(t *testing.T) {
	r := newRoute(t)
	check := r.untouched(t)
	r.registry.Override(nil, testkit.Status(500))
	r.promote("--to=prod").must(t, 3)
	check()
}

func TestPromote_RefusesATreeThatIsNotClean(t *testing.T) {
	r := newRoute(t)
	for name, c := range map[string]struct {
		file, content string
		stage         bool
		code          int
		says          string
	}{
		"a file that would be written":  {"overlays/prod/web.yaml", "# edited\n", false, 2, "overlays/prod/web.yaml has changes"},
		"a file that was read":          {"overlays/e2e/gate.yaml", "# edited\n", false, 2, "overlays/e2e/gate.yaml has changes"},
		"something staged elsewhere":    {"README.md", "a\n", true, 2, "README.md is staged"},
		"a file that has no part in it": {"notes.txt", "a\n", false, 0, "dry"},
		"an overlay that has no part":   {"overlays/ci/web.yaml", "# edited\n", false, 0, "dry"},
	} {
		t.Run(name, func(t *testing.T) {
			r.write(t, c.file, c.content)
			if c.stage {
				r.git(t, "add", c.file)
			}
			defer func() {
				r.git(t, "reset", "-q", "--hard")
				r.git(t, "clean", "-qfd")
			}()
			check := r.untouched(t)
			said := r.promote("--to=prod", "--dry-run")
			if said.must(t, c.code); c.code != 0 {
				said.must(t, c.code, c.says)
			}
			check()
		})
	}
}

func TestPromote_OfAVersionThatABaseSetsEnds(t *testing.T) {
	component := map[string]string{}
	for _, name := range []string{"kustomization.yaml", "fields.yaml"} {
		raw, err := os.ReadFile("../../../kustomize/components/workload-kustomize/" + name)
		if err != nil {
			t.Fatal(err)
		}
		component[name] = string(raw)
	}
	r := newRoute(t)
	for name, content := range component {
		r.write(t, "component/"+name, content)
	}
	r.write(t, "base/kustomization.yaml", "resources: [web.yaml]\n")
	r.git(t, "mv", "overlays/prod/web.yaml", "base/web.yaml")
	r.write(t, "overlays/prod/kustomization.yaml", "resources: [gate.yaml, ../../base]\ncomponents: [../../component]\n")
	r.commitAll(t)
	r.promote("--to=prod").must(t, 0, "committed", `spec.version stays "1.1.0"`)
	r.git(t, "merge", "-q", "promote/prod")
	r.git(t, "branch", "-q", "-d", "promote/prod")
	check := r.untouched(t)
	said := r.promote("--to=prod")
	said.must(t, 0, "prod has all of it already: nothing to do")
	if !strings.Contains(said.err, `spec.version stays "1.1.0"`) {
		t.Errorf("it is not said: %s", said.err)
	}
	check()
}

func TestPromote_HoldsToTheWindowsOfTheTarget(t *testing.T) {
	r := newRoute(t)
	freeze := "  promotionWindows: [{kind: Deny, schedule: '0 0 1 * *', duration: 8760h, timeZone: Europe/Berlin, reason: end of the year}]\n"
	r.gateOf(t, "e2e", freeze)
	r.commitAll(t)
	r.promote("--to=prod", "--dry-run").must(t, 0)
	r.gateOf(t, "prod", freeze)
	r.commitAll(t)
	check := r.untouched(t)
	r.promote("--to=prod").must(t, 1, "prod takes no promotions now (end of the year)", "spec.promotionWindows of gate gate-prod", "Deny 0 0 1 * * in Europe/Berlin", "--force-window=REASON")
	check()
	r.promote("--to=prod", "--image="+r.app()+":1.1.0@"+r.now).must(t, 0, "nothing to do")
	r.promote("--to=prod", "--force-window= ").must(t, 2, "--force-window needs a reason")
	check()
	r.promote("--to=prod", "--force-window=an outage", "--format=markdown", "--dry-run").must(t, 0, "> **FROZEN**", "`an outage`")
	r.gateOf(t, "prod", "  promotionWindows: [{kind: Allow, schedule: '* * * * *', duration: 2m}]\n")
	r.commitAll(t)
	r.promote("--to=prod", "--dry-run").must(t, 0)
	r.gateOf(t, "prod", "  promotionWindows: [{kind: Allow, schedule: '@daily', duration: 2m}]\n")
	r.commitAll(t)
	r.promote("--to=prod", "--dry-run").must(t, 2, "spec.promotionWindows[0].schedule", "five fields")
}

func TestPromote_SeveralAreOneCommit(t *testing.T) {
	r := newRoute(t)
	for _, environment := range []string{"e2e", "prod"} {
		digest, version := r.next, "1.2.0"
		if environment == "prod" {
			digest, version = r.now, "1.1.0"
		}
		r.overlay(t, environment, "api", version, digest, "")
		r.write(t, "overlays/"+environment+"/kustomization.yaml", "resources: [gate.yaml, web.yaml, api.yaml]\n")
	}
	r.overlay(t, "e2e", "worker", "1.2.0", r.next, "")
	r.write(t, "overlays/e2e/kustomization.yaml", "resources: [gate.yaml, web.yaml, api.yaml, worker.yaml]\n")
	r.commitAll(t)
	r.promote("--to=prod", "--workload=web", "--branch=one").must(t, 0, "promote web from")
	if files := r.output(t, "diff", "--name-only", "main", "one"); files != "overlays/prod/web.yaml" {
		t.Errorf("%s", files)
	}
	r.promote("--to=prod", "--branch=all").must(t, 0, "promote 2 Workloads from e2e to prod", "shop/worker: left out")
	if files := r.output(t, "diff", "--name-only", "main", "all"); files != "overlays/prod/api.yaml\noverlays/prod/web.yaml" || r.output(t, "rev-list", "--count", "main..all") != "1" {
		t.Errorf("%s", files)
	}
	r.promote("--to=prod", "--workload=worker").must(t, 2, "has no Workload worker")
	r.promote("--to=prod", "--workload=wbe").must(t, 2, "none of that name")
}

func TestPromote_RollsBackToADigest(t *testing.T) {
	r := newRoute(t)
	r.promote("--to=prod", "--image="+r.app()+":1.0.0@"+r.older).must(t, 1, "no evidence")
	r.attest(t, r.older)
	r.promote("--to=prod", "--image="+r.app()+":1.0.0@"+r.older).must(t, 0, "return web to an earlier image in prod: 1.0.0", "1.0.0 is older than 1.1.0", "committed")
	if diff := r.output(t, "diff", "-U0", "main", "promote/prod"); !strings.Contains(diff, ":1.0.0@"+r.older+" # by digest") || !strings.Contains(diff, `&v "1.0.0"`) {
		t.Errorf("%s", diff)
	}
	r.promote("--to=prod", "--image="+r.app()+":1.2.0@"+r.next, "--dry-run").must(t, 0, "set the image of web in prod: 1.2.0")
	r.promote("--to=dev", "--image="+r.app()+":1.3.0@"+r.now, "--dry-run").must(t, 0, "set the image of web in dev: 1.3.0")
	r.promote("--to=prod", "--image="+r.app()+":1.0.0").must(t, 2, "has to name a digest")
	r.promote("--to=prod", "--image="+r.registry.Host()+"/shop/other@"+r.older).must(t, 2, "no Workload of the overlay runs an image of")
}

func TestPromote_ResolvesATagThatNothingPins(t *testing.T) {
	r := newRoute(t)
	r.write(t, "overlays/e2e/web.yaml", strings.Replace(strings.Replace(head, "image: ", "version: 1.2.0\n  image: ", 1), "shop}", "shop}", 1)+r.app()+":1.2.0\n")
	r.commitAll(t)
	r.promote("--to=prod").must(t, 0, "tag 1.2.0 leads to "+r.next+" now", "look at shop/web, image: nothing pins it", "committed")
}

func TestPromote_OfTwoAtOnceOneLands(t *testing.T) {
	r := newRoute(t)
	r.attest(t, r.older)
	outputs := make([]output, 2)
	var both sync.WaitGroup
	for i, args := range [][]string{{"--to=prod"}, {"--to=prod", "--image=" + r.app() + ":1.0.0@" + r.older}} {
		both.Go(func() { outputs[i] = r.promote(args...) })
	}
	both.Wait()
	if outputs[0].code+outputs[1].code != 2 || outputs[0].code == 1 {
		t.Errorf("%+v", outputs)
	}
	for _, o := range outputs {
		if o.code == 2 && !strings.Contains(o.err, "another promotion is under way") {
			t.Errorf("%+v", o)
		}
	}
	if n := r.output(t, "rev-list", "--count", "main..promote/prod"); n != "1" {
		t.Errorf("%s commits", n)
	}
}

func TestPromote_OfTheSameTwiceAtOnceThereIsOneCommit(t *testing.T) {
	r := newRoute(t)
	outputs := make([]output, 4)
	var all sync.WaitGroup
	for i := range outputs {
		all.Go(func() { outputs[i] = r.promote("--to=prod", "--format=json") })
	}
	all.Wait()
	made := 0
	for _, o := range outputs {
		var said struct {
			Committed bool
			Commit    string
		}
		if err := json.Unmarshal([]byte(o.out), &said); err != nil || o.code != 0 || said.Commit != r.output(t, "rev-parse", "promote/prod") {
			t.Errorf("%+v: %v", o, err)
		}
		if said.Committed {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d say that they made it", made)
	}
}

func TestPromote_TakesAFleetOfOursToItsNextEnvironment(t *testing.T) {
	d := newDesk(t)
	d.run("", "init", "@fleet", "--name=fleet-a", "--registry="+d.registry.Host()+"/shop", "--image="+d.image("signed"), "--key", "@key.pub", "--no-argocd").must(t, 0)
	next, err := testkit.PushImage(d.registry.Host()+"/shop/signed:2", "another build")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.key.SignBundle(d.registry.Host()+"/shop/signed", next); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d.dir, "fleet", "overlays", "dev", "images", "kustomization.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	now := string(raw)[strings.Index(string(raw), "sha256:"):][:len(next)]
	d.write(t, "fleet/overlays/dev/images/kustomization.yaml", strings.NewReplacer(now, next, `newTag: "1"`, `newTag: "2"`).Replace(string(raw)))
	d.dir = filepath.Join(d.dir, "fleet")
	d.git(t, "init", "-q", "-b", "main")
	d.git(t, "config", "user.name", "a")
	d.git(t, "config", "user.email", "a@example.com")
	d.git(t, "add", "-A")
	d.git(t, "commit", "-q", "-m", "a")
	d.run("", "promote", "--from=dev", "--to=ci", "--overlays", "@overlays", "--pull-request=false").must(t, 0, "overlays/ci/images/kustomization.yaml:", "committed")
	d.git(t, "switch", "-q", "promote/ci")
	d.run("", "check", "@overlays/ci").must(t, 0)
	d.run("", "lint", "overlays", "@overlays", "--fail-on=warning").must(t, 0)
	d.run("", "promote", "--from=dev", "--to=ci", "--overlays", "@overlays").must(t, 0, "nothing to do")
}
