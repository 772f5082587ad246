package images_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/images"
)

func TestFindAt(t *testing.T) {
	obj := map[string]any{"spec": map[string]any{
		"image":   "a",
		"runners": []any{map[string]any{"image": "b"}, map[string]any{"image": "c"}, map[string]any{}},
		"plain":   []any{"d", "e"},
		"number":  int64(1),
		"nothing": nil,
	}}
	for name, c := range map[string]struct{ path, want string }{
		"a field":                     {"spec.image", "[{a spec.image}]"},
		"a field of a list's entries": {"spec.runners[*].image", "[{b spec.runners[0].image} {c spec.runners[1].image}]"},
		"a list of images":            {"spec.plain[*]", "[{d spec.plain[0]} {e spec.plain[1]}]"},
		"a field that is not there":   {"spec.other.image", "[]"},
		"a list that is not there":    {"spec.others[*].image", "[]"},
		"a field that is null":        {"spec.nothing.image", "[]"},
		"a number":                    {"spec.number", "error"},
		"a list without [*]":          {"spec.runners.image", "error"},
		"[*] on what is no list":      {"spec.image[*]", "error"},
		"a field of a text":           {"spec.image.name", "error"},
		"no path":                     {"", "error"},
		"a path with an index":        {"spec.runners[0].image", "error"},
		"a path with an empty field":  {"spec..image", "error"},
		"metadata":                    {"metadata.annotations.image", "error"},
		"status":                      {"status.images[*]", "error"},
		"a name that begins like it":  {"metadatas.image", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := images.FindAt(obj, c.path)
			got := fmt.Sprint(found)
			if err != nil {
				got = "error"
			}
			if got != c.want {
				t.Errorf("%s: %s (%v), want %s", c.path, got, err, c.want)
			}
		})
	}
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// Whatever is found is where the path leads, and nowhere else.
func FuzzFindAt(f *testing.F) {
	f.Add([]byte(`{"spec":{"steps":[{"image":"a"},{"image":"b"}]}}`), "spec.steps[*].image")
	f.Add([]byte(`{"spec":{"images":["a",null]}}`), "spec.images[*]")
	f.Add([]byte(`{"a":{"b":1}}`), "a.b")
	f.Fuzz(func(t *testing.T, raw []byte, path string) {
		var obj map[string]any
		if json.Unmarshal(raw, &obj) != nil {
			return
		}
		found, err := images.FindAt(obj, path)
		if err != nil && len(found) > 0 {
			t.Errorf("%v beside %v", found, err)
		}
		if err != nil {
			return
		}
		if images.ValidatePath(path) != nil {
			t.Errorf("%q was followed", path)
		}
		seen := map[string]bool{}
		for _, x := range found {
			if seen[x.Path] || index.ReplaceAllString(x.Path, "[*]") != path {
				t.Errorf("%q leads to %q", path, x.Path)
			}
			seen[x.Path] = true
		}
	})
}
