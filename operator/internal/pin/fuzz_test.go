package pin

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

// FuzzChange puts a text around, into and behind a manifest with an image. Whatever comes
// out changed has every other byte, and every other node, as it was.
func FuzzChange(f *testing.F) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	for _, seed := range [][3]string{
		{"# c\n", "image: r.io/web:1@" + a, "  # d\n  args: [a, 'b']\n"},
		{"x: &a b\r\n", "image: 'r.io/web@" + a + "'", "\r\n"},
		{"", "image: >-\n    r.io/web@" + a + "\n", "  replicas: 2\n---\n# e\n"},
		{"", "? image\n  : \"r.io/w\\x65b@" + a + "\"", "\n"},
		{"ä: [{b: c}, # d\n  ]\n", "{image: &i !!str r.io/web@" + a + ", args: [*i]}", ""},
		{"\ufeff", "args: [\"\\\n  x\"]\n  image: r.io/web@" + a, "\n...\n"},
		{"\u2028# c\n", "image: *x", "\n"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, before, spec, after string) {
		text := before + "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec:\n  " + spec + "\n" + after
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := overlay.Load(dir, filepath.Join(dir, "web.yaml"), nil)
		if err != nil {
			return
		}
		for _, o := range set.Objects {
			if o.GetKind() != "Workload" {
				continue
			}
			was := field(o, "image")
			got, err := Change(set, Want{Object: o, Digest: b})
			if err != nil || len(got.Files) == 0 {
				continue
			}
			changedOnce(t, text, string(got.Files["web.yaml"]), strings.TrimSpace(was), repository(was)+"@"+b)
		}
	})
}

// changedOnce fails unless one text is the other with one scalar changed.
func changedOnce(t *testing.T, before, after, from, to string) {
	t.Helper()
	p, s := 0, 0
	for p < min(len(before), len(after)) && before[p] == after[p] {
		p++
	}
	for s < min(len(before), len(after))-p && before[len(before)-1-s] == after[len(after)-1-s] {
		s++
	}
	if gone := before[p : len(before)-s]; len(gone) > 6*len(from)+2 || strings.ContainsAny(strings.TrimSpace(gone), "#") {
		t.Fatalf("%q was taken from\n%s\nto make\n%s", gone, before, after)
	}
	was, now := values(t, before), values(t, after)
	if len(was) != len(now) {
		t.Fatalf("%d nodes became %d:\n%s\n%s", len(was), len(now), before, after)
	}
	changed := 0
	for i := range was {
		if was[i] != now[i] {
			changed++
			if strings.TrimSpace(now[i]) != to {
				t.Errorf("%q became %q", was[i], now[i])
			}
		}
	}
	if changed != 1 {
		t.Errorf("%d nodes are changed:\n%s\n%s", changed, before, after)
	}
}

// values are the texts of all nodes, comments included, in their order.
func values(t *testing.T, text string) []string {
	t.Helper()
	p, err := newPage("web.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, document := range p.documents {
		each(document, func(n *yaml.Node) {
			out = append(out, n.Value)
			for _, more := range []string{n.HeadComment, n.LineComment, n.FootComment, n.Anchor} {
				out = append(out, strings.TrimSpace("# "+more))
			}
		})
	}
	return out
}

// FuzzKustomization pins by an entry of images, which is changed where there is one for
// the image and added where there is none. What is decoded then differs in that alone.
func FuzzKustomization(f *testing.F) {
	for _, seed := range []string{
		"images:\n- name: r.io/web\n  digest: a\n",
		"# c\nimages: # d\n  - newTag: '1' # e\n    # f\n    name: r.io/web\n    digest: \"a\" # g\n# h\n",
		"images: [{name: r.io/web, newTag: x, digest: a}, {name: b}] # c\nresources: [a]",
		"resources:\n- a\nimages:\n-   name: r.io/web\n    newTag: \"1\"",
		"{images: [{digest: a, name: r.io/web}]}\n",
		"images: [\n  {name: other}, # c\n]\n",
		"resources: [a]\r\nimages:\r\n- name: other\r\n  newTag: 'x' # c\r\n\r\n# d\r\n",
		"images:\n- name: other # c\n  newName: |-\n    b\n\n    c\nx: y\n",
		"x: |+\n  a\n\n\n", "  images:\n  - {name: r.io/web, newTag: &a b}\n  y: [*a]\n", "images: []\n", "{}", "images:\n- {name: other, x: {a: b}}\n- {name: o2,\n   newTag: a}\n",
	} {
		for _, tag := range []string{"", "1.0"} {
			f.Add(seed, tag)
		}
	}
	f.Fuzz(func(t *testing.T, text, tag string) {
		p, err := newPage("k.yaml", []byte(text))
		if err != nil || tag != "" && tag != "1.0" || len(p.documents) != 1 || len(p.documents[0].Content) != 1 {
			return
		}
		root := p.documents[0].Content[0]
		wanted, at := decoded(t, text), -1
		if wanted == nil {
			return
		}
		_, list := member(root, "images")
		for i := 0; list != nil && list.Kind == yaml.SequenceNode && i < len(list.Content); i++ {
			if _, name := member(list.Content[i], "name"); name != nil && name.Value == "r.io/web" {
				at = i
			}
		}
		digest := "sha256:" + strings.Repeat("b", 64)
		fields := []string{"name", "r.io/web", "digest", digest}
		if tag != "" {
			fields = []string{"name", "r.io/web", "newTag", tag, "digest", digest}
		}
		if at >= 0 {
			err = p.entry(list.Content[at], tag, digest)
		} else {
			_, err = p.append(fields)
		}
		if err != nil {
			return
		}
		out, err := p.bytes()
		if err != nil {
			return // it is not handed out
		}
		pinned(wanted, at, tag, digest)
		if got := decoded(t, string(out)); !reflect.DeepEqual(got, wanted) {
			t.Errorf("%q\nbecame\n%q\n%v\n%v", text, out, got, wanted)
		}
		if strings.Count(text, "#") != strings.Count(string(out), "#") {
			t.Errorf("a comment was lost: %q became %q", text, out)
		}
	})
}

// pinned changes what was decoded as the text should have been.
func pinned(m map[string]any, at int, tag, digest string) {
	list, _ := m["images"].([]any)
	entry := map[string]any{"name": "r.io/web"}
	if at >= 0 {
		entry = list[at].(map[string]any)
	} else {
		m["images"] = append(list, entry)
	}
	if entry["digest"] != digest {
		delete(entry, "newTag")
	}
	if entry["digest"] = digest; tag != "" {
		entry["newTag"] = tag
	}
}

// decoded is what a text means, nil if that is no mapping.
func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		return nil
	}
	return out
}
