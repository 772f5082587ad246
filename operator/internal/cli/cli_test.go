package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const (
	namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {environment: prod}}\n---\n"
	// head starts a Workload; an image and more go on below.
	head = "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec:\n  image: "
)

// older is head in the first version.
var older = strings.Replace(head, "v1beta1", "v1alpha1", 1)

// noted is a signed Workload of the first version with the annotation.
func noted(spec string) string {
	return strings.Replace(older, "namespace: shop", "namespace: shop, annotations: {sluice.dev/v1beta1-spec: '"+spec+"'}", 1) + "SIGNED\n"
}

// twoKeys are made once: cosign's own way to encrypt them takes a second each.
var twoKeys = sync.OnceValues(func() (keys [2]*testkit.Key, err error) {
	for i := range keys {
		if keys[i], err = testkit.NewKey(); err != nil {
			return keys, err
		}
	}
	return keys, nil
})

// desk is a folder to check, a registry with a signed and an unsigned image, and keys.
type desk struct {
	dir        string
	registry   *testkit.Registry
	key, other *testkit.Key
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	keys, err := twoKeys()
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{dir: t.TempDir(), registry: testkit.NewRegistry(testkit.RegistryOptions{Referrers: true}), key: keys[0], other: keys[1]}
	t.Cleanup(d.registry.Close)
	digest, err := testkit.PushImage(d.image("signed"), "signed")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.key.SignBundle(d.registry.Host()+"/shop/signed", digest); err != nil {
		t.Fatal(err)
	}
	if _, err := testkit.PushImage(d.image("unsigned"), "unsigned"); err != nil {
		t.Fatal(err)
	}
	d.write(t, "gate.yaml", d.gate("prod"))
	d.write(t, "key.pub", d.key.PublicPEM)
	d.write(t, "other.pub", d.other.PublicPEM)
	return d
}

func (d *desk) image(name string) string { return d.registry.Host() + "/shop/" + name + ":1" }

// gate is a Gate that takes its key from a Secret.
func (d *desk) gate(name string) string {
	return fmt.Sprintf(`apiVersion: sluice.dev/v1beta1
kind: Gate
metadata: {name: %s}
spec:
  environment: prod
  match: {namespaceSelector: {matchLabels: {environment: prod}}}
  policies: [{builtin: restricted}]
  images:
  - match: '%s/shop/**'
    authorities: [{name: release-key, key: {secret: {name: release, namespace: sluice-system, key: cosign.pub}}}]
---
%s`, name, d.registry.Host(), d.secret(d.key))
}

func (d *desk) secret(key *testkit.Key) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: release, namespace: sluice-system}\nstringData:\n  cosign.pub: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(key.PublicPEM), "\n", "\n    ") + "\n"
}

func (d *desk) write(t *testing.T, name, content string) {
	t.Helper()
	file := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

type output struct {
	code     int
	out, err string
}

// run runs the command; @ in front of a word stands for the folder.
func (d *desk) run(stdin string, args ...string) output {
	for i, a := range args {
		if rest, ok := strings.CutPrefix(a, "@"); ok {
			args[i] = filepath.Join(d.dir, rest)
		}
	}
	var out, errOut bytes.Buffer
	code := cli.Main(context.Background(), args, strings.NewReader(stdin), &out, &errOut)
	return output{code, out.String(), errOut.String()}
}

func (o output) must(t *testing.T, code int, says ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d and not %d", o.code, code)
	}
	for _, s := range says {
		if !strings.Contains(o.out+o.err, s) {
			t.Errorf("%q is not said", s)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", o.out, o.err)
	}
}

func TestCheck_Exits(t *testing.T) {
	const secret = "c3VwZXItc2VjcmV0"
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
		code  int
		says  []string
	}{
		"0: a signed image":                         {map[string]string{"in/web.yaml": head + "SIGNED\n"}, nil, 0, []string{"PASS", "web.yaml", "is signed by release-key", "1 judged: 1 allowed"}},
		"0: the first version":                      {map[string]string{"in/web.yaml": older + "SIGNED\n  port: 80\n"}, nil, 0, []string{"PASS", "1 judged: 1 allowed"}},
		"1: an unsigned image in the first version": {map[string]string{"in/web.yaml": older + "UNSIGNED\n"}, nil, 1, []string{"DENY", "[critical] signature"}},
		"1: a field that the first version has not": {map[string]string{"in/web.yaml": older + "SIGNED\n  ports: []\n"}, nil, 1, []string{"DENY", "schema", "spec.ports", "unknown field"}},
		"1: an unsigned image in an annotation": {map[string]string{"in/web.yaml": noted(`{"image":"a","backup":{"schedule":"0 3 * * *","image":"UNSIGNED","s3":{"bucket":"b","region":"r"}}}`)}, nil, 1,
			[]string{"DENY", "[critical] signature", "CronJob"}},
		"1: an annotation that the schema refuses": {map[string]string{"in/web.yaml": noted(`{"image":"a","deletionPolicy":"Never"}`)}, nil, 1, []string{"DENY", "schema", "spec.deletionPolicy"}},
		"1: an annotation that is none":            {map[string]string{"in/web.yaml": noted(`{"image":`)}, nil, 1, []string{"DENY", "metadata.annotations[sluice.dev/v1beta1-spec]", "not a JSON object"}},
		"1: an annotation of the first version's":  {map[string]string{"in/web.yaml": strings.Replace(noted(`{"image":"a"}`), "v1alpha1", "v1beta1", 1)}, nil, 1, []string{"DENY", "metadata.annotations[sluice.dev/v1beta1-spec]", "take it off"}},
		"2: one Workload in two versions": {map[string]string{"in/a.yaml": head + "SIGNED\n", "in/b.yaml": older + "SIGNED\n"}, nil, 2,
			[]string{"b.yaml: Workload shop/web stands in", "a.yaml too"}},
		"1: an unsigned one": {map[string]string{"in/web.yaml": head + "UNSIGNED\n"}, nil, 1,
			[]string{"DENY", "[critical] signature", "spec.template.spec.containers[0].image", "to do: sign it"}},
		"1: an unknown field": {map[string]string{"in/web.yaml": head + "SIGNED\n  replica: 3\n"}, nil, 1, []string{"DENY", "schema", "spec.replica", "unknown field", "kubectl explain workload"}},
		"1: a version that there is not": {map[string]string{"in/web.yaml": strings.Replace(head, "v1beta1", "v1", 1) + "SIGNED\n"}, nil, 1,
			[]string{"DENY", "schema", "apiVersion", "sluice.dev/v1beta1 Workload"}},
		"1: no namespace":                  {map[string]string{"in/web.yaml": strings.Replace(head, ", namespace: shop", "", 1) + "SIGNED\n"}, nil, 1, []string{"metadata.namespace"}},
		"1: a policy":                      {map[string]string{"in/web.yaml": head + "SIGNED\n  patches: [{target: {kind: Deployment}, patch: '[{\"op\": \"add\", \"path\": \"/spec/template/spec/hostNetwork\", \"value\": true}]'}]\n"}, nil, 1, []string{"restricted/host-namespaces"}},
		"1: a patch for nothing":           {map[string]string{"in/web.yaml": head + "SIGNED\n  patches: [{target: {kind: Pod}, patch: '- {op: remove, path: /spec}'}]\n"}, nil, 1, []string{"spec.patches[0]", "matches none"}},
		"1: a denial beside the undecided": {map[string]string{"in/web.yaml": head + "UNSIGNED\n", "in/b.yaml": strings.Replace(head, "web", "b", 1) + "GONE\n"}, nil, 1, []string{"ERROR", "DENY", "1 denied, 1 undecided"}},
		"1: no Gate for the namespace":     {map[string]string{"in/web.yaml": head + "SIGNED\n", "ns.yaml": strings.Replace(namespace, "prod", "dev", 1)}, nil, 1, []string{"no Gate matches"}},
		"1: a label that no server would leave": {map[string]string{"in/web.yaml": head + "SIGNED\n",
			"gate.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec:\n  environment: prod\n  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: open}}}\n  unmatchedImages: Allow\n",
			"ns.yaml":   "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {kubernetes.io/metadata.name: open}}\n"}, nil, 1, []string{"no Gate matches"}},
		"2: YAML that is broken":         {map[string]string{"in/web.yaml": head + "SIGNED\n  a: [\n"}, nil, 2, []string{"web.yaml:", "not valid YAML"}},
		"2: a path that there is not":    {nil, nil, 2, []string{"no such file"}},
		"2: no Workload":                 {map[string]string{"in/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}, nil, 2, []string{"no Workload"}},
		"2: a Workload only with --gate": {map[string]string{"in/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "ns.yaml": namespace + head + "SIGNED\n"}, nil, 2, []string{"no Workload"}},
		"2: one Workload twice": {map[string]string{"in/a.yaml": head + "SIGNED\n", "in/b.yaml": head + "UNSIGNED\n"}, nil, 2,
			[]string{"b.yaml: Workload shop/web stands in", "a.yaml too"}},
		"2: a Gate without authorities": {map[string]string{"in/web.yaml": head + "SIGNED\n",
			"gate.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec: {environment: prod, images: [{match: r.io/**}]}\n"}, nil, 2,
			[]string{"gate.yaml: Gate prod cannot be used", "\n  - spec.images[0]", "authorities is required"}},
		"2: a misspelt parameter": {map[string]string{"in/web.yaml": head + "SIGNED\n",
			"gate.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec: {environment: prod, policies: [{builtin: supply_chain}], parameters: {supply_chain: {allowedRegistry: []}}}\n"}, nil, 2,
			[]string{"gate.yaml: Gate prod cannot be used", "\n  - spec.parameters.supply_chain.allowedRegistry: Invalid value: ", "write allowedRegistries"}},
		"2: an authority without a key": {map[string]string{"in/web.yaml": head + "SIGNED\n",
			"gate.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec: {environment: prod, images: [{match: r.io/**, authorities: [{name: a}]}]}\n"}, nil, 2,
			[]string{"gate.yaml: Gate prod", "spec.images[0].authorities[0]", "set exactly one of key and keyless"}},
		"2: a pattern for any host": {map[string]string{"in/web.yaml": head + "SIGNED\n",
			"gate.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec: {environment: prod, images: [{match: '**/web', require: none}]}\n"}, nil, 2,
			[]string{"gate.yaml: Gate prod", "spec.images[0].match"}},
		"2: a Secret that is broken": {map[string]string{"in/web.yaml": head + "SIGNED\n",
			"in/s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\ndata: {password: '" + secret + "!'}\n"}, nil, 2, []string{"s.yaml: Secret shop/s", "base64"}},
		"2: another Gate under the name": {map[string]string{"in/web.yaml": head + "UNSIGNED\n",
			"in/gate.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod, namespace: shop}\nspec: {environment: prod, mode: Audit}\n"}, nil, 2, []string{"gate.yaml: Gate", "other content"}},
		"2: another key under the name":       {map[string]string{"in/web.yaml": head + "UNSIGNED\n", "in/s.yaml": "OTHERSECRET"}, nil, 2, []string{"Secret sluice-system/release", "other content"}},
		"2: another namespace under the name": {map[string]string{"in/web.yaml": head + "UNSIGNED\n", "in/n.yaml": strings.Replace(namespace, "prod", "dev", 1)}, nil, 2, []string{"Namespace", "other content"}},
		"2: a format that there is not":       {map[string]string{"in/web.yaml": head + "SIGNED\n"}, []string{"--format", "xml"}, 2, []string{"--format=xml"}},
		"2: a flag that there is not":         {map[string]string{"in/web.yaml": head + "SIGNED\n"}, []string{"--formt", "xml"}, 2, []string{"--formt", "--help"}},
		"3: an image that there is not":       {map[string]string{"in/web.yaml": head + "GONE\n"}, nil, 3, []string{"ERROR", "[error] signature", "404"}},
		"3: a namespace that is not known": {map[string]string{"in/web.yaml": head + "SIGNED\n", "ns.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}, nil, 3,
			[]string{"ERROR", "labels of namespace shop", "add the manifest of namespace shop"}},
		"3: a key that there is not": {map[string]string{"in/web.yaml": head + "SIGNED\n", "gate.yaml": "GATEONLY"}, nil, 3, []string{"Secret sluice-system/release", "does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.write(t, "ns.yaml", namespace)
			only, _, _ := strings.Cut(d.gate("prod"), "---\n")
			fill := strings.NewReplacer("UNSIGNED", d.image("unsigned"), "SIGNED", d.image("signed"), "GONE", d.image("gone"), "OTHERSECRET", d.secret(d.other), "GATEONLY", only)
			for n, content := range c.files {
				d.write(t, n, fill.Replace(content))
			}
			got := d.run("", append([]string{"check", "@in", "--gate", "@gate.yaml", "--gate", "@ns.yaml"}, c.args...)...)
			got.must(t, c.code, c.says...)
			if strings.Contains(got.out+got.err, secret) {
				t.Error("a Secret's content is printed")
			}
		})
	}
}

func TestCheck_ARegistryThatFailsIsNoDenial(t *testing.T) {
	d := newDesk(t)
	d.registry.Override(nil, testkit.Status(500))
	d.run(namespace+head+d.image("signed")+"\n", "check", "-", "--gate", "@gate.yaml").must(t, 3, "ERROR -: Workload/shop/web (gate prod)", "500", "1 undecided")
}

func TestCheck_JSONIsTheCanonicalVerdicts(t *testing.T) {
	d := newDesk(t)
	d.write(t, "gate2.yaml", strings.Replace(d.gate("another"), "environment: prod\n", "environment: other\n  mode: Warn\n", 1))
	in := namespace + head + d.image("signed") + "\n---\n" + strings.Replace(head, "web", "other", 1) + d.image("unsigned") + "\n"
	got := d.run(in, "check", "-", "--gate", "@gate.yaml", "--gate", "@gate2.yaml", "--format", "json")
	got.must(t, 1)
	var verdicts []gate.Verdict
	strict := json.NewDecoder(strings.NewReader(got.out))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&verdicts); err != nil {
		t.Fatalf("%v: %s", err, got.out)
	}
	var said []string
	var parts [][]byte
	for _, v := range verdicts {
		said = append(said, fmt.Sprint(v.Object.Name, " ", v.Gate, " ", v.Outcome))
		parts = append(parts, v.Canonical())
	}
	if want := "web another Allow, web prod Allow, other another Warn, other prod Deny"; strings.Join(said, ", ") != want {
		t.Errorf("verdicts: %v", said)
	}
	if want := "[" + string(bytes.Join(parts, []byte(","))) + "]\n"; got.out != want {
		t.Errorf("it is not canonical:\n%s\n%s", got.out, want)
	}
	if got.err != "" {
		t.Errorf("stderr: %s", got.err)
	}
}

func TestCheck_TheSameFilesMayBeNamedTwice(t *testing.T) {
	d := newDesk(t)
	d.write(t, "in/all.yaml", d.gate("prod")+"---\n"+namespace+head+d.image("signed")+"\n")
	d.run("", "check", "@in", "@in/all.yaml", "--gate", "@in", "--gate", "@gate.yaml").must(t, 0, "1 judged: 1 allowed")
}

func TestCheck_OverlayWithANamespaceTransformer(t *testing.T) {
	d := newDesk(t)
	d.write(t, "o/kustomization.yaml", "namespace: shop\nresources: [all.yaml]\n")
	d.write(t, "o/all.yaml", strings.Replace(d.gate("prod"), "namespace: sluice-system}\nstring", "namespace: shop}\nstring", 1)+"---\n"+
		strings.Replace(namespace, "shop", "other", 1)+strings.Replace(head, ", namespace: shop", "", 1)+d.image("signed")+"\n")
	d.write(t, "secret.yaml", d.secret(d.key))
	d.run("", "check", "@o", "--gate", "@secret.yaml").must(t, 0, "all.yaml: Workload/shop/web (gate prod)")

	// The Gate's own file is the same Gate, whatever namespace Kustomize gave it.
	gate, _, _ := strings.Cut(d.gate("prod"), "---\n")
	d.write(t, "o/gate.yaml", gate)
	d.write(t, "o/all.yaml", strings.Replace(namespace, "shop", "other", 1)+strings.Replace(head, ", namespace: shop", "", 1)+d.image("signed")+"\n")
	d.write(t, "o/kustomization.yaml", "namespace: shop\nresources: [all.yaml, gate.yaml]\n")
	d.run("", "check", "@o", "--gate", "@secret.yaml", "--gate", "@o/gate.yaml").must(t, 0, "all.yaml: Workload/shop/web (gate prod)")
}

// TestCheck_ToldToEndShowsNothing: what was cut off would be told of as policies that are too slow.
func TestCheck_ToldToEndShowsNothing(t *testing.T) {
	d := newDesk(t)
	d.write(t, "in/all.yaml", d.gate("prod")+"---\n"+namespace+head+d.image("signed")+"\n")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errOut bytes.Buffer
	code := cli.Main(ctx, []string{"check", filepath.Join(d.dir, "in"), "--cache-dir", filepath.Join(d.dir, "cache")}, strings.NewReader(""), &out, &errOut)
	output{code, out.String(), errOut.String()}.must(t, cli.ExitUndecided, "sluice: interrupted before it ended: call the command again")
	if out.Len() > 0 {
		t.Errorf("standard output: %s", out.String())
	}
	d.run("", "check", "@in", "--cache-dir", "@cache").must(t, 0, "1 judged: 1 allowed")
}

// The verdict's own words are those of a cluster, where there is no --gate.
func TestCheck_SaysWhichFilesGatesLack(t *testing.T) {
	d := newDesk(t)
	gate, _, _ := strings.Cut(d.gate("prod"), "---\n")
	d.write(t, "bare.yaml", gate)
	d.write(t, "secret.yaml", d.secret(d.key))
	all := namespace + head + d.image("signed") + "\n"
	const hint = "name what none of the files has: Secret sluice-system/release; name one that has it with --gate"
	d.run(all, "check", "-", "--gate", "@bare.yaml").must(t, cli.ExitUndecided, hint)
	if got := d.run(all, "check", "-", "--gate", "@bare.yaml", "--gate", "@secret.yaml"); got.code != cli.ExitPass || strings.Contains(got.err, "--gate") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

func TestCheck_SaysWhatItDoesNotJudge(t *testing.T) {
	d := newDesk(t)
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, namespace: shop}\n---\n"
	d.write(t, "gate.yaml", d.gate("prod")+"---\n"+strings.Replace(pod, "NAME", "beside-the-gate", 1))
	got := d.run(namespace+strings.Replace(pod, "NAME", "bare", 1)+strings.Replace(pod, "NAME, namespace: shop", "homeless", 1)+head+d.image("signed")+"\n", "check", "-", "--gate", "@gate.yaml")
	got.must(t, 0, "not judged: Pod/shop/bare (-)", "not judged: Pod/homeless (-)")
	if strings.Contains(got.err, "beside-the-gate") {
		t.Errorf("stderr: %s", got.err)
	}
}

func TestOutput_GivesATerminalNothingToObey(t *testing.T) {
	const evil = `"a\r\n::error::b\e[2J\u202e"`
	d := newDesk(t)
	for name, manifest := range map[string]string{
		"a name":                  namespace + "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: " + evil + ", namespace: shop}\nspec: {image: a}\n",
		"a namespace":             namespace + "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: " + evil + "}\nspec: {image: a}\n",
		"a field":                 namespace + head + "a\n  " + evil + ": 1\n",
		"an image":                namespace + head + evil + "\n",
		"a kind":                  "apiVersion: sluice.dev/v1beta1\nkind: " + evil + "\nmetadata: {name: web, namespace: shop}\n",
		"a key given twice":       "apiVersion: v1\nkind: ConfigMap\n" + evil + ": 1\n" + evil + ": 2\n",
		"a Pod":                   namespace + head + "a\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + evil + "}\n",
		"a Gate":                  "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: " + evil + "}\nspec: {environment: prod}\n",
		"a field of a Gate":       "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: a}\nspec: {environment: prod, " + evil + ": 1}\n",
		"a kustomization's entry": "",
	} {
		for _, command := range []string{"check", "render"} {
			t.Run(command+" with "+name, func(t *testing.T) {
				path := "@x/manifest\n\x1b[2J.yaml"
				d.write(t, path[1:], manifest)
				if manifest == "" {
					d.write(t, "k/kustomization.yaml", "resources:\n- "+evil+"\n")
					path = "@k"
				}
				args := []string{command, path}
				if command == "check" {
					args = append(args, "--gate", "@gate.yaml")
				}
				got := d.run("", args...)
				if got.out+got.err == "" {
					t.Fatal("it says nothing")
				}
				obeyed := "\r\x1b\u202e"
				if command == "render" && got.err == "" {
					obeyed = "\r\x1b" // YAML counts marks of direction as text
				}
				for _, line := range strings.Split(got.out+got.err, "\n") {
					if strings.HasPrefix(line, "::error") || strings.ContainsAny(line, obeyed) {
						t.Errorf("line %q", line)
					}
				}
			})
		}
	}
}

func TestRender(t *testing.T) {
	d := newDesk(t)
	t.Run("what it prints are the children", func(t *testing.T) {
		got := d.run(head+"nginx:1\n  ports: [{name: http, port: 80}]\n", "render", "-")
		got.must(t, 0)
		var kinds []string
		for _, doc := range strings.Split(strings.TrimPrefix(got.out, "---\n"), "\n---\n") {
			var o map[string]any
			if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
				t.Fatalf("%v:\n%s", err, doc)
			}
			kinds = append(kinds, fmt.Sprint(o["kind"]))
		}
		if fmt.Sprint(kinds) != "[ServiceAccount NetworkPolicy Service Deployment]" {
			t.Errorf("kinds: %v", kinds)
		}
	})
	t.Run("the first version becomes the same", func(t *testing.T) {
		latest := d.run(head+"nginx:1\n  ports: [{name: http, port: 80}]\n  storage: {size: 1Gi, mountPath: /data}\n", "render", "-")
		first := d.run(older+"nginx:1\n  port: 80\n  persistent: true\n  storageSize: 1Gi\n", "render", "-")
		first.must(t, 0, "kind: StatefulSet")
		if first.out != latest.out {
			t.Errorf("%s\nand in v1beta1:\n%s", first.out, latest.out)
		}
	})
	for name, c := range map[string]struct {
		in   string
		says string
	}{
		"an unknown field":  {head + "a\n  replica: 1\n", "\n  - spec.replica"},
		"a patch":           {head + "a\n  patches: [{patch: a}]\n", "spec.patches[0]"},
		"no Workload":       {"", "nothing was rendered"},
		"YAML that is none": {"a: [", "-:1: not valid YAML"},
	} {
		t.Run(name+" is exit code 2", func(t *testing.T) { d.run(c.in, "render", "-").must(t, 2, c.says) })
	}
}

func TestVerify(t *testing.T) {
	d := newDesk(t)
	d.write(t, "no.pub", "no key")
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"the right key":              {[]string{d.image("signed"), "--key", "@key.pub"}, 0, []string{"PASS", "is signed by key"}},
		"either key":                 {[]string{d.image("signed"), "--key", "@key.pub,@other.pub"}, 0, []string{"PASS"}},
		"both keys":                  {[]string{d.image("signed"), "--key", "@key.pub", "--key", "@other.pub", "--all"}, 1, []string{"DENY", "other"}},
		"the wrong key":              {[]string{d.image("signed"), "--key", "@other.pub"}, 1, []string{"DENY", "no signature that authority other accepts"}},
		"no signature":               {[]string{d.image("unsigned"), "--key", "@key.pub"}, 1, []string{"DENY"}},
		"no image":                   {[]string{d.image("gone"), "--key", "@key.pub"}, 3, []string{"404"}},
		"no key":                     {[]string{d.image("signed")}, 2, []string{"--key or --certificate-identity is required"}},
		"a key that is none":         {[]string{d.image("signed"), "--key", "@no.pub"}, 2, []string{"no.pub"}},
		"a key that there is not":    {[]string{d.image("signed"), "--key", "@gone.pub"}, 2, []string{"gone.pub"}},
		"a reference that is none":   {[]string{"a b", "--key", "@key.pub"}, 2, []string{"a b"}},
		"a format that there is not": {[]string{d.image("signed"), "--key", "@key.pub", "--format", "xml"}, 2, []string{"xml"}},
		"as JSON":                    {[]string{d.image("signed"), "--key", "@key.pub", "--format", "json"}, 0, []string{`"outcome":"Verified"`}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"verify"}, c.args...)
			for i, a := range args {
				args[i] = strings.ReplaceAll(a, ",@", ","+d.dir+"/")
			}
			d.run("", args...).must(t, c.code, c.says...)
		})
	}
}
