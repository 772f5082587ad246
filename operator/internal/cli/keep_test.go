package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const unchanged = "nothing has changed"

// kept is a desk with a signed Workload, checked once with a cache.
type kept struct {
	*desk
	cache string
	args  []string
	first output
}

func newKept(t *testing.T, args ...string) *kept {
	t.Helper()
	k := &kept{desk: newDesk(t), cache: filepath.Join(t.TempDir(), "kept")}
	k.write(t, "ns.yaml", namespace)
	k.write(t, "in/web.yaml", head+k.image("signed")+"\n")
	k.write(t, "in/sub/other.yaml", strings.Replace(head, "web", "other", 1)+k.image("signed")+"\n")
	k.args = append([]string{"check", "@in", "--gate", "@gate.yaml", "--gate", "@ns.yaml", "--cache-dir", k.cache}, args...)
	k.first = k.again()
	return k
}

func (k *kept) again() output { return k.run("", append([]string(nil), k.args...)...) }

func (k *kept) path(name string) string { return filepath.Join(k.dir, name) }

// entry is the one result in the cache.
func (k *kept) entry(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(k.cache, "*.result"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d results, %v", len(found), err)
	}
	return found[0]
}

func (k *kept) unsign(t *testing.T) { t.Helper(); k.unsignRef(t, k.image("signed")) }

// unsignRef takes all signatures of an image, or of what else a registry holds, away.
func (k *kept) unsignRef(t *testing.T, of string) {
	t.Helper()
	ref, err := name.ParseReference(of)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Head(ref)
	if err != nil {
		t.Fatal(err)
	}
	repository := ref.Context()
	index, err := remote.Referrers(repository.Digest(image.Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) == 0 {
		t.Fatalf("%d signatures, %v", len(list.Manifests), err)
	}
	for _, m := range list.Manifests {
		if err := remote.Delete(repository.Digest(m.Digest.String())); err != nil {
			t.Fatal(err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheck_KeepsAResult(t *testing.T) {
	for _, format := range []string{"text", "json", "sarif", "junit", "github", "markdown"} {
		t.Run(format, func(t *testing.T) {
			k := newKept(t, "--format", format)
			k.first.must(t, 0)
			again := k.again()
			again.must(t, 0, unchanged)
			if again.out != k.first.out {
				t.Errorf("other bytes:\n%s\n%s", k.first.out, again.out)
			}
		})
	}
	t.Run("a denial with places and lines beside it", func(t *testing.T) {
		k := newKept(t)
		k.write(t, "in/web.yaml", head+k.image("unsigned")+"\n")
		k.write(t, "in/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\n")
		first, again := k.again(), k.again()
		first.must(t, 1, "web.yaml:5", "not judged")
		again.must(t, 1, "web.yaml:5", "not judged", unchanged)
		if again.out != first.out || strings.Contains(first.err, unchanged) {
			t.Errorf("%s\n%s\n%s", first.out, again.out, first.err)
		}
	})
}

// What Kustomize warns of is told as if it had built again: once, and before the rest.
func TestCheck_KeepsWhatKustomizeWarnsOf(t *testing.T) {
	k := newKept(t)
	k.write(t, "base/kustomization.yaml", "resources: [web.yaml]\ncommonLabels: {team: shop}\nvars: [{name: NOWHERE, objref: {kind: Workload, name: web, apiVersion: sluice.dev/v1beta1}}]\n")
	k.write(t, "base/web.yaml", head+k.image("signed")+"\n")
	k.write(t, "one/kustomization.yaml", "bases: [../base]\n")
	k.write(t, "two/kustomization.yaml", "resources: [../base]\nnamePrefix: two-\n")
	k.args = append([]string{"check", "@one", "@two"}, k.args[2:]...)
	k.write(t, ".git/HEAD", "")
	first, again := k.again(), k.again()
	first.must(t, 0, "base/kustomization.yaml: 'commonLabels' is deprecated", "one/kustomization.yaml: 'bases' is deprecated", "NOWHERE")
	again.must(t, 0, unchanged)
	if before, _, _ := strings.Cut(again.err, "sluice: "+unchanged); before != first.err {
		t.Errorf("said:\n%s\nand before:\n%s", again.err, first.err)
	}
}

// Each case changes one thing that the verdict, or what is shown of it, depends on.
func TestCheck_JudgesAgainWhatChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *kept)
		code   int
		says   []string
	}{
		"a file of the same size and time": {func(t *testing.T, k *kept) {
			file := k.path("in/web.yaml")
			info, err := os.Stat(file)
			must(t, err)
			raw, err := os.ReadFile(file)
			must(t, err)
			must(t, os.WriteFile(file, []byte(strings.Replace(string(raw), "name: web", "name: wob", 1)), 0o600))
			must(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
		}, 0, []string{"shop/wob"}},
		"a file more": {func(t *testing.T, k *kept) {
			k.write(t, "in/a.yaml", strings.Replace(head, "web", "more", 1)+k.image("unsigned")+"\n")
		}, 1, []string{"shop/more", "2 allowed"}},
		"a file less":           {func(t *testing.T, k *kept) { must(t, os.Remove(k.path("in/sub/other.yaml"))) }, 0, []string{"1 judged"}},
		"a folder that is one":  {func(t *testing.T, k *kept) { k.write(t, "in/sub/kustomization.yaml", "resources: [other.yaml]\n") }, 2, []string{"is a kustomization"}},
		"a kustomization in it": {func(t *testing.T, k *kept) { k.write(t, "in/kustomization.yaml", "resources: [web.yaml]\n") }, 0, []string{"1 judged"}},
		"a link in place of a file": {func(t *testing.T, k *kept) {
			k.write(t, "in/apart.yml.txt", strings.Replace(head, "web", "apart", 1)+k.image("signed")+"\n")
			must(t, os.Remove(k.path("in/web.yaml")))
			must(t, os.Symlink("apart.yml.txt", k.path("in/web.yaml")))
		}, 0, []string{"shop/apart"}},
		"the Gate": {func(t *testing.T, k *kept) {
			k.write(t, "gate.yaml", strings.Replace(k.gate("prod"), "restricted", "reliability", 1))
		}, 1, []string{"reliability/"}},
		"the key that it names": {func(t *testing.T, k *kept) {
			k.write(t, "gate.yaml", strings.Replace(k.gate("prod"), k.secret(k.key), k.secret(k.other), 1))
		}, 1, []string{"signature"}},
		"the namespace's labels": {func(t *testing.T, k *kept) { k.write(t, "ns.yaml", strings.Replace(namespace, "prod", "dev", 1)) }, 1, []string{"no Gate matches"}},
		"what a tag stands for": {func(t *testing.T, k *kept) {
			_, err := testkit.PushImage(k.image("signed"), "moved")
			must(t, err)
		}, 1, []string{"[critical] signature"}},
		"a signature that is gone":  {func(t *testing.T, k *kept) { k.unsign(t) }, 1, []string{"[critical] signature"}},
		"a registry that is down":   {func(_ *testing.T, k *kept) { k.registry.Close() }, 3, []string{"2 undecided"}},
		"a flag":                    {func(_ *testing.T, k *kept) { k.args = append(k.args, "--root", k.dir) }, 0, nil},
		"no-cache":                  {func(_ *testing.T, k *kept) { k.args = append(k.args, "--no-cache") }, 0, nil},
		"nothing of the cache left": {func(t *testing.T, k *kept) { must(t, os.RemoveAll(k.cache)) }, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			k.first.must(t, 0, "2 judged: 2 allowed")
			k.again().must(t, 0, unchanged)
			c.change(t, k)
			out := k.again()
			out.must(t, c.code, c.says...)
			if strings.Contains(out.err, unchanged) {
				t.Errorf("a kept result was used: %s", out.err)
			}
		})
	}
}

func TestCheck_JudgesAgainWhenTheTagBesideADigestMoves(t *testing.T) {
	k := newKept(t)
	ref, err := name.ParseReference(k.image("signed"))
	must(t, err)
	image, err := remote.Head(ref)
	must(t, err)
	k.write(t, "in/web.yaml", head+k.image("signed")+"@"+image.Digest.String()+"\n")
	must(t, os.Remove(k.path("in/sub/other.yaml")))
	k.again().must(t, 0, "1 judged: 1 allowed")
	k.again().must(t, 0, unchanged)
	_, err = testkit.PushImage(k.image("signed"), "moved")
	must(t, err)
	k.again().must(t, 0, "1 with warnings", "[low] signature", "stands for sha256:")
}

// Of a digest alone, and of a tag beside it that is another's, the same is asked again.
func TestCheck_KeepsWhatIsNamedByDigest(t *testing.T) {
	for _, tag := range []string{"", ":moved"} {
		k := newKept(t)
		ref, err := name.ParseReference(k.image("signed"))
		must(t, err)
		image, err := remote.Head(ref)
		must(t, err)
		_, err = testkit.PushImage(ref.Context().Name()+":moved", "moved")
		must(t, err)
		k.write(t, "in/web.yaml", head+ref.Context().Name()+tag+"@"+image.Digest.String()+"\n")
		must(t, os.Remove(k.path("in/sub/other.yaml")))
		k.again().must(t, 0, "1 judged")
		k.again().must(t, 0, unchanged)
	}
}

// A link within an overlay counts for where it leads.
func TestCheck_FollowsALinkAnew(t *testing.T) {
	k := newKept(t)
	k.write(t, "base/a.yaml", head+k.image("signed")+"\n")
	k.write(t, "base/b.yaml", head+k.image("unsigned")+"\n")
	k.write(t, "base/kustomization.yaml", "resources: [web.yaml]\n")
	k.args[1] = "@base"
	must(t, os.Symlink("a.yaml", k.path("base/web.yaml")))
	k.again().must(t, 0)
	k.again().must(t, 0, unchanged)
	must(t, os.Remove(k.path("base/web.yaml")))
	must(t, os.Symlink("b.yaml", k.path("base/web.yaml")))
	k.again().must(t, 1, "signature")
}

func TestCheck_DoesNotBelieveTheCache(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*testing.T, *kept)
		says  string
	}{
		"an entry with a byte changed": {func(t *testing.T, k *kept) {
			raw, err := os.ReadFile(k.entry(t))
			must(t, err)
			must(t, os.WriteFile(k.entry(t), []byte(strings.Replace(string(raw), `"shop"`, `"shoq"`, 1)), 0o600))
		}, "its checksum is another"},
		"an entry that is cut off":       {func(t *testing.T, k *kept) { must(t, os.Truncate(k.entry(t), 100)) }, "its checksum is another"},
		"an empty entry":                 {func(t *testing.T, k *kept) { must(t, os.Truncate(k.entry(t), 0)) }, "cut off"},
		"an entry that others may write": {func(t *testing.T, k *kept) { must(t, os.Chmod(k.entry(t), 0o666)) }, "others may write it"},
		"an entry that is a folder":      {func(t *testing.T, k *kept) { e := k.entry(t); must(t, os.Remove(e)); must(t, os.Mkdir(e, 0o700)) }, "no regular file"},
		"an entry that is a link": {func(t *testing.T, k *kept) {
			e := k.entry(t)
			must(t, os.Rename(e, e+".x"))
			must(t, os.Symlink(filepath.Base(e)+".x", e))
		}, "no regular file"},
		"a folder that the group may write": {func(t *testing.T, k *kept) { must(t, os.Chmod(k.cache, 0o770)) }, "others may write it"},
		"a file in place of the folder": {func(t *testing.T, k *kept) {
			must(t, os.RemoveAll(k.cache))
			must(t, os.WriteFile(k.cache, nil, 0o600))
		}, "no result is kept"},
		"a folder that belongs to another": {func(t *testing.T, k *kept) {
			if os.Geteuid() != 0 {
				t.Skip("only root may give a folder away")
			}
			must(t, os.Chown(k.cache, 65534, -1))
		}, "belongs to another user"},
		"a folder within what is checked": {func(t *testing.T, k *kept) {
			must(t, os.Rename(k.cache, k.path("in/kept")))
			k.args = append(k.args, "--cache-dir", k.path("in/kept"))
		}, "which is checked"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			k.first.must(t, 0)
			c.spoil(t, k)
			out := k.again()
			out.must(t, 0, c.says, "2 judged: 2 allowed")
			if strings.Contains(out.err, unchanged) || strings.Count(strings.TrimSpace(out.err), "\n") > 1 {
				t.Errorf("said: %s", out.err)
			}
		})
	}
}

// What another key has is no answer, even if it is a whole entry.
func TestCheck_DoesNotTakeTheEntryOfAnother(t *testing.T) {
	k := newKept(t)
	mine := k.entry(t)
	must(t, os.RemoveAll(k.cache))
	k.write(t, "in/web.yaml", head+k.image("unsigned")+"\n")
	k.args[1] = "@in/web.yaml"
	k.again().must(t, 1)
	must(t, os.Rename(k.entry(t), mine))
	k.args[1] = "@in"
	k.write(t, "in/web.yaml", head+k.image("signed")+"\n")
	k.again().must(t, 0, "it is of another key", "2 allowed")
}

func TestCheck_AnExemptionEndsAlsoForAKeptResult(t *testing.T) {
	k := newKept(t)
	ends := time.Now().Truncate(time.Second).Add(3 * time.Second)
	k.write(t, "in/web.yaml", head+k.image("unsigned")+"\n")
	k.write(t, "in/exemption.yaml", exempting(ends, k.registry.Host()+"/shop/unsigned"))
	k.again().must(t, 0, "[exempted]")
	k.again().must(t, 0, "[exempted]", unchanged)
	<-time.After(time.Until(ends))
	k.again().must(t, 1, "DENY", "expired at")
}

// What is not asked for again is not kept.
func TestCheck_DoesNotKeep(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *kept){
		"what was not decided": func(t *testing.T, k *kept) { k.write(t, "in/web.yaml", head+k.image("gone")+"\n") },
		"what hangs on the age of evidence": func(t *testing.T, k *kept) {
			k.write(t, "gate.yaml", strings.Replace(k.gate("prod"), "  images:\n", "  requirePromotionFrom: {environment: dev, authorities: [{name: dev, key: {inline: "+quoted(k.key.PublicPEM)+"}}]}\n  images:\n", 1))
		},
		"values from the environment": func(t *testing.T, k *kept) {
			k.write(t, "in/kustomization.yaml", "resources: [web.yaml]\nconfigMapGenerator: [{name: a, namespace: shop, envs: [x.env]}]\n")
			k.write(t, "in/x.env", "HOME\n")
		},
		"what was asked with a pull Secret": func(t *testing.T, k *kept) {
			k.write(t, "in/web.yaml", head+k.image("signed")+"\n  imagePullSecrets: [{name: pull}]\n")
			k.write(t, "pull.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: pull, namespace: shop}\nstringData:\n  .dockerconfigjson: '{\"auths\":{\""+k.registry.Host()+"\":{\"auth\":\"YTpi\"}}}'\n")
			k.args = append(k.args, "--gate", "@pull.yaml")
		},
		"a key from outside": func(t *testing.T, k *kept) {
			k.write(t, "gate.yaml", strings.Replace(k.gate("prod"), "key: {secret: {name: release, namespace: sluice-system, key: cosign.pub}}", "key: {kms: 'hashivault://none'}", 1))
		},
		"standard input": func(_ *testing.T, k *kept) { k.args[1] = "-" },
		"more warnings than there is room for": func(t *testing.T, k *kept) {
			var vars strings.Builder
			for i := range 11 {
				fmt.Fprintf(&vars, "- {name: %s%d, objref: {kind: Workload, name: web, apiVersion: sluice.dev/v1beta1}}\n", strings.Repeat("N", 100_000), i)
			}
			k.write(t, "in/kustomization.yaml", "resources: [web.yaml]\nvars:\n"+vars.String())
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			must(t, os.RemoveAll(k.cache))
			spoil(t, k)
			stdin := head + k.image("signed") + "\n"
			first := k.run(stdin, append([]string(nil), k.args...)...)
			if strings.Contains(first.err, "usage") || first.code == 2 {
				t.Fatalf("code %d: %s", first.code, first.err)
			}
			if left, _ := filepath.Glob(filepath.Join(k.cache, "*")); len(left) > 0 {
				t.Errorf("kept: %v\n%s", left, first.out)
			}
		})
	}
}

func quoted(pem string) string { return `"` + strings.ReplaceAll(pem, "\n", `\n`) + `"` }

// A registry is asked the same each time: of two Workloads with one image, once.
func TestCheck_AsksTheRegistryEachTime(t *testing.T) {
	k := newKept(t)
	k.registry.ResetCounts()
	k.again().must(t, 0, unchanged)
	kept := k.registry.Counts()
	k.registry.ResetCounts()
	k.args = append(k.args, "--no-cache")
	k.again().must(t, 0)
	for kind, n := range k.registry.Counts() {
		if kept[kind] != n {
			t.Errorf("%s: %d requests, and %d when nothing is kept", kind, kept[kind], n)
		}
	}
	if len(kept) == 0 {
		t.Error("no request")
	}
}
