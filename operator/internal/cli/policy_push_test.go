package cli_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const noWorkload = "package main\n\ndeny contains \"the bundle says no\" if input.object.kind == \"Workload\"\n"

// pushed writes policies, pushes them and returns what was printed.
func (d *desk) pushed(t *testing.T, modules map[string]string) (ref string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(d.dir, "policies")); err != nil {
		t.Fatal(err)
	}
	for name, text := range modules {
		d.write(t, filepath.Join("policies", name), text)
	}
	got := d.run("", "policy", "push", "@policies", d.registry.Host()+"/policies/prod:1")
	got.must(t, 0, "cosign sign --key cosign.key "+d.registry.Host()+"/policies/prod@sha256:")
	return strings.TrimSpace(got.out)
}

// sign signs what was pushed.
func (d *desk) sign(t *testing.T, ref string) {
	t.Helper()
	repository, digest, _ := strings.Cut(ref, "@")
	if err := d.key.SignBundle(repository, digest); err != nil {
		t.Fatal(err)
	}
}

// bundleGate judges by a bundle, and takes every image.
func (d *desk) bundleGate(ref string) string {
	return "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec:\n  environment: prod\n" +
		"  match: {namespaceSelector: {matchLabels: {environment: prod}}}\n  unmatchedImages: Allow\n" +
		"  policies: [{oci: {ref: '" + ref + "', authorities: [{name: policy-key, key: {secret: {name: release, namespace: sluice-system, key: cosign.pub}}}]}}]\n---\n" + d.secret(d.key)
}

func TestPolicyPush_AGateNamesWhatIsPrinted(t *testing.T) {
	d := newDesk(t)
	ref := d.pushed(t, map[string]string{
		"main.rego": noWorkload, "more/other.rego": "package other\n\nwarn contains \"beware\" if true\n", "main_test.rego": "package main_test\n",
		"README.md": "# Rules", ".git/config": "x", ".hidden.json": `{"a": 1}`, "data.json": "{}",
	})
	d.write(t, "in/ns.yaml", namespace+head+d.image("unsigned")+"\n")
	d.write(t, "gate.yaml", d.bundleGate(ref))
	check := func(more ...string) output {
		return d.run("", append([]string{"check", "@in", "--gate", "@gate.yaml", "--no-cache"}, more...)...)
	}
	check().must(t, cli.ExitUndecided, "policy bundle "+ref+": it is not verified: it has no signature that authority policy-key accepts: sign it: cosign sign --key cosign.key "+ref)
	d.sign(t, ref)
	check().must(t, cli.ExitDenied, d.registry.Host()+"/policies/prod/main", "the bundle says no", "beware")
	check("--format=sarif").must(t, cli.ExitDenied, "policy-bundles.md")
	if again := d.pushed(t, map[string]string{"more/other.rego": "package other\n\nwarn contains \"beware\" if true\n", "main.rego": noWorkload}); again != ref {
		t.Errorf("the same modules are %s, and were %s", again, ref)
	}
}

func TestPolicyPush_RefusesWhatTheGateWould(t *testing.T) {
	d := newDesk(t)
	to := d.registry.Host() + "/policies/prod"
	for name, c := range map[string]struct {
		files map[string]string
		to    string
		says  []string
	}{
		"what does not compile":   {map[string]string{"a/main.rego": "package main\n\ndeny contains x if { y }\n"}, to, []string{"do not compile", "a/main.rego:3"}},
		"what asks the network":   {map[string]string{"main.rego": "package main\n\ndeny contains \"x\" if http.send({})\n"}, to, []string{"main.rego:3", "not available to policies"}},
		"what denies nothing":     {map[string]string{"main.rego": "package main\n\nx := 1\n"}, to, []string{"would allow everything"}},
		"data":                    {map[string]string{"main.rego": noWorkload, "data.yaml": "a: 1"}, to, []string{`"data.yaml" holds data`, "spec.parameters"}},
		"data by another name":    {map[string]string{"main.rego": noWorkload, "roles.json": `{"a": 1}`}, to, []string{`"roles.json"`, "leave it out"}},
		"Rego of an old version":  {map[string]string{"main.rego": noWorkload, ".manifest": `{"rego_version": 0}`}, to, []string{"opa fmt"}},
		"no module":               {map[string]string{"main_test.rego": noWorkload}, to, []string{"no Rego module"}},
		"a large module":          {map[string]string{"main.rego": noWorkload + strings.Repeat("#", 1<<20)}, to, []string{"limits.PolicyBytes"}},
		"a digest to push to":     {map[string]string{"main.rego": noWorkload}, to + "@" + testkit.DigestOf("x"), []string{"the digest is what comes of pushing"}},
		"a name that is none":     {map[string]string{"main.rego": noWorkload}, "oci://" + to, []string{"not an image reference"}},
		"a folder that there not": {nil, to, []string{"no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Join(d.dir, "policies")); err != nil {
				t.Fatal(err)
			}
			for file, text := range c.files {
				d.write(t, filepath.Join("policies", file), text)
			}
			d.registry.ResetCounts()
			got := d.run("", "policy", "push", "@policies", c.to)
			got.must(t, cli.ExitUsage, c.says...)
			if n := d.registry.Requests(); n != 0 || got.out != "" {
				t.Errorf("%d requests, and it prints %q", n, got.out)
			}
		})
	}
	must(t, os.RemoveAll(filepath.Join(d.dir, "policies"))) // whichever came last, maps have no order
	t.Run("a link", func(t *testing.T) {
		d.write(t, "policies/main.rego", noWorkload)
		if err := os.Symlink("main.rego", filepath.Join(d.dir, "policies", "more.rego")); err != nil {
			t.Fatal(err)
		}
		d.run("", "policy", "push", "@policies", to).must(t, cli.ExitUsage, "more.rego is a link")
	})
	t.Run("a registry that refuses", func(t *testing.T) {
		must(t, os.Remove(filepath.Join(d.dir, "policies", "more.rego")))
		d.registry.Override(func(r *http.Request) bool { return r.Method == http.MethodPost }, testkit.Status(http.StatusForbidden))
		d.run("", "policy", "push", "@policies", to).must(t, cli.ExitUndecided, "cannot push the policy bundle", "403", "credentials that may push")
	})
}

// TestCheck_OfflineByARecordedBundle verifies what was recorded anew.
func TestCheck_OfflineByARecordedBundle(t *testing.T) {
	d := newDesk(t)
	ref := d.pushed(t, map[string]string{"main.rego": noWorkload})
	d.sign(t, ref)
	d.write(t, "in.yaml", namespace+head+d.image("unsigned")+"\n")
	d.write(t, "gate.yaml", d.bundleGate(ref))
	file := filepath.Join(d.dir, "recorded.jsonl")
	online := d.run("", "check", "@in.yaml", "--gate", "@gate.yaml", "--format=json", "--record", file)
	online.must(t, cli.ExitDenied, "the bundle says no")
	d.cut(t)
	check := func(name string) output {
		return d.run("", "check", "@in.yaml", "--gate", "@gate.yaml", "--format=json", "--offline", filepath.Join(d.dir, name))
	}
	if got := check("recorded.jsonl"); got.out != online.out || got.code != online.code {
		t.Errorf("offline it is %+v, online %+v", got, online)
	}
	raw, err := os.ReadFile(file)
	must(t, err)
	without, changed := "", ""
	for line := range strings.Lines(string(raw)) {
		var answer struct {
			Request string `json:"request"`
			Body    []byte `json:"body"`
		}
		must(t, json.Unmarshal([]byte(line), &answer))
		if string(answer.Body) != noWorkload {
			without, changed = without+line, changed+line
			continue
		}
		body, err := json.Marshal([]byte(strings.Replace(noWorkload, "Workload", "Nothings", 1)))
		must(t, err)
		was, err := json.Marshal(answer.Body)
		must(t, err)
		changed += strings.Replace(line, string(was), string(body), 1)
	}
	if without == string(raw) {
		t.Fatalf("the recording does not hold the bundle: %s", raw)
	}
	d.write(t, "changed.jsonl", changed)
	check("changed.jsonl").must(t, cli.ExitUndecided, "a layer is not what the manifest describes")
	first, rest, _ := strings.Cut(without, "\n")
	var head map[string]any
	must(t, json.Unmarshal([]byte(first), &head))
	head["answers"] = head["answers"].(float64) - 1
	text, err := json.Marshal(map[string]any{"format": head["format"], "recorded": head["recorded"], "answers": head["answers"]})
	must(t, err)
	d.write(t, "without.jsonl", string(text)+"\n"+rest)
	check("without.jsonl").must(t, cli.ExitUndecided, "not in the signature cache file")
}

// Each case changes what a bundle in a registry comes to, and nothing in a file.
func TestCheck_JudgesAgainWhenABundleIsAnother(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *kept, string)
		says   string
	}{
		"a signature that is gone": {func(t *testing.T, k *kept, ref string) { k.unsignRef(t, ref) }, "is not verified"},
		"a bundle that is gone": {func(t *testing.T, _ *kept, ref string) {
			at, err := name.NewDigest(ref)
			must(t, err)
			must(t, remote.Delete(at))
		}, "push the policies first"},
		"a layer that is another": {func(_ *testing.T, k *kept, _ string) {
			k.registry.Override(testkit.PathContains("/blobs/"+testkit.DigestOf(passing)), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(noWorkload))
			}))
		}, "a layer is not what the manifest describes"},
		"a registry that is down": {func(_ *testing.T, k *kept, _ string) { k.registry.Close() }, "cannot list referrers"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			ref := k.pushed(t, map[string]string{"main.rego": passing})
			k.sign(t, ref)
			k.write(t, "gate.yaml", k.bundleGate(ref))
			k.again().must(t, 0, "2 judged: 2 allowed")
			k.again().must(t, 0, unchanged)
			c.change(t, k, ref)
			got := k.again()
			got.must(t, cli.ExitUndecided, c.says)
			if strings.Contains(got.err, unchanged) {
				t.Errorf("a kept result was used: %s", got.err)
			}
		})
	}
}

const passing = "package main\n\ndeny contains \"never\" if false\n"

// However many overlays are judged by it, a bundle is read once.
func TestCheck_ReadsABundleOnceForAllOverlays(t *testing.T) {
	d := newDesk(t)
	ref := d.pushed(t, map[string]string{"main.rego": passing})
	d.sign(t, ref)
	for _, overlay := range []string{"a", "b", "c"} {
		d.write(t, overlay+"/kustomization.yaml", "resources: [gate.yaml, web.yaml]\n")
		d.write(t, overlay+"/web.yaml", namespace+head+d.image("unsigned")+"\n")
		d.write(t, overlay+"/gate.yaml", d.bundleGate(ref))
	}
	d.registry.ResetCounts()
	d.run("", "check", "@a", "@b", "@c", "--no-cache").must(t, 0, "3 judged: 3 allowed")
	if counts := d.registry.Counts(); counts["GET blobs"] != 2 || counts["GET referrers"] != 1 {
		t.Errorf("there are %v", counts)
	}
}
