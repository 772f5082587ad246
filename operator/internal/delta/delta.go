// Package delta says what differs between a child as desired and as it is. Changes name
// fields and never show values, so nothing secret can surface through them.
package delta

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kinds of change, seen from what was applied.
const (
	// Modified: the field has another value.
	Modified = "Modified"
	// Removed: the field was applied and is gone.
	Removed = "Removed"
	// Added: the field is there and was not applied.
	Added = "Added"
	// Missing: the whole object is gone.
	Missing = "Missing"
)

// restartedAt is set by kubectl rollout restart.
var restartedAt = []string{"spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"}

// Change is one field that differs.
type Change struct {
	// Path such as spec.template.spec.containers[0].image.
	Path string
	// Kind is Modified, Removed, Added or Missing; for Missing the path is empty.
	Kind string
}

// Compare lists what differs between a child as desired and as it is in the cluster, by
// path. Both are written as their type writes them and defaulted by the API server's own
// defaulters first, so quantities, defaulted fields and volume claim templates that mean
// the same compare equal. So do, see same, null and empty, a number and its digits, and a
// version with and without its v.
//
// Everything in the object counts, also what someone added that was never applied: an
// added container is drift. Not counted: status; labels and annotations that others
// added to metadata (they are how tools mark objects); the annotation by which kubectl
// rollout restart works, and no other of a pod template, since annotations there can turn
// AppArmor off or have containers injected; fields that the API server allocates.
func Compare(desired, live *unstructured.Unstructured) ([]Change, error) {
	want, err := normalised(desired)
	if err != nil {
		return nil, err
	}
	have, err := normalised(live)
	if err != nil {
		return nil, err
	}
	adoptAllocated(want, have)
	keepOnly(want, have, "metadata", "labels")
	keepOnly(want, have, "metadata", "annotations")
	if _, asked, _ := unstructured.NestedFieldNoCopy(want, restartedAt...); !asked {
		unstructured.RemoveNestedField(have, restartedAt...)
	}
	for _, top := range []map[string]any{want, have} {
		delete(top, "status")
		keepMetadata(top)
	}
	c := comparison{}
	c.walk("", want, have)
	sort.Slice(c.changes, func(i, j int) bool { return c.changes[i].Path < c.changes[j].Path })
	return c.changes, nil
}

// nameClaims says of volume claim templates what they are, as the API server does.
func nameClaims(object map[string]any) {
	claims, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "volumeClaimTemplates")
	list, _ := claims.([]any)
	for _, c := range list {
		claim, ok := c.(map[string]any)
		if !ok {
			continue
		}
		for key, value := range map[string]string{"apiVersion": "v1", "kind": "PersistentVolumeClaim"} {
			if claim[key] == nil {
				claim[key] = value
			}
		}
	}
}

// keepMetadata drops what the server sets; name and namespace were how the object was
// found.
func keepMetadata(obj map[string]any) {
	metadata, _ := obj["metadata"].(map[string]any)
	for key := range metadata {
		if key != "labels" && key != "annotations" {
			delete(metadata, key)
		}
	}
}

// keepOnly drops keys of have's map at path that want's map does not have.
func keepOnly(want, have map[string]any, path ...string) {
	h, found, err := unstructured.NestedFieldNoCopy(have, path...)
	held, ok := h.(map[string]any)
	if err != nil || !found || !ok {
		return
	}
	w, _, _ := unstructured.NestedFieldNoCopy(want, path...)
	wanted, _ := w.(map[string]any)
	for key := range held {
		if _, ok := wanted[key]; !ok {
			delete(held, key)
		}
	}
	if len(held) == 0 && wanted == nil {
		unstructured.RemoveNestedField(have, path...)
	}
}

// allocated are the fields that the API server fills in when they are left out, by kind.
var allocated = map[string][][]string{
	// serviceAccount is the old name of serviceAccountName, which the server fills in.
	"Deployment":     {{"spec", "template", "spec", "serviceAccount"}},
	"StatefulSet":    {{"spec", "template", "spec", "serviceAccount"}},
	"CronJob":        {{"spec", "jobTemplate", "spec", "template", "spec", "serviceAccount"}},
	"Service":        {{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "ipFamilies"}, {"spec", "ipFamilyPolicy"}},
	"ServiceAccount": {{"secrets"}},
}

func adoptAllocated(want, have map[string]any) {
	kind, _ := have["kind"].(string)
	for _, path := range allocated[kind] {
		if _, found, _ := unstructured.NestedFieldNoCopy(want, path...); found {
			continue
		}
		value, found, _ := unstructured.NestedFieldCopy(have, path...)
		if found && (path[len(path)-1] != oldAccount || value == accountBeside(want, path)) {
			_ = unstructured.SetNestedField(want, value, path...)
		}
	}
}

// oldAccount is the old name of serviceAccountName. Where that is empty the server has it
// from here, so that another account by the old name would stay.
const oldAccount = "serviceAccount"

func accountBeside(object map[string]any, path []string) any {
	name, _, _ := unstructured.NestedFieldNoCopy(object, append(slices.Clone(path[:len(path)-1]), "serviceAccountName")...)
	return name
}

// Completed is desired with what Compare lets pass in live's content: fields that the API
// server allocates, and the mark of a rollout restart. Where it replaces the content of
// live, nothing is lost but what Compare reports.
func Completed(desired, live *unstructured.Unstructured) map[string]any {
	out := desired.DeepCopy().Object
	adoptAllocated(out, live.Object)
	at, restarted, _ := unstructured.NestedString(live.Object, restartedAt...)
	if _, asked, _ := unstructured.NestedFieldNoCopy(out, restartedAt...); restarted && !asked {
		// The error is about a parent that is no map, and live has the path.
		_ = unstructured.SetNestedField(out, at, restartedAt...)
	}
	return out
}

type comparison struct{ changes []Change }

func (c *comparison) add(path, kind string) {
	c.changes = append(c.changes, Change{Path: path, Kind: kind})
}

func (c *comparison) walk(path string, want, have any) {
	if reflect.DeepEqual(want, have) || same(path, want, have) {
		return
	}
	switch w := want.(type) {
	case map[string]any:
		if h, ok := have.(map[string]any); ok {
			c.maps(path, w, h)
			return
		}
	case []any:
		if h, ok := have.([]any); ok {
			c.lists(path, w, h)
			return
		}
	}
	c.add(path, Modified)
}

// versionLabel is app.kubernetes.io/version, on the object or its pods.
const versionLabel = ".labels.app.kubernetes.io/version"

// same says whether two values that are written differently mean the same: nothing, in any
// of its forms; a number and the same number as text, where the type of the field is
// int-or-string (no other field can hold either); v1.2.0 and 1.2.0 as a version.
func same(path string, want, have any) bool {
	if empty(want) && empty(have) {
		return true
	}
	if sameQuantity(path, want, have) {
		return true
	}
	w, wantText := want.(string)
	h, haveText := have.(string)
	switch {
	case wantText && haveText:
		return strings.HasSuffix(path, versionLabel) && strings.TrimPrefix(w, "v") == strings.TrimPrefix(h, "v")
	case wantText:
		return isNumber(have, w)
	case haveText:
		return isNumber(want, h)
	}
	return false
}

// amounts are the fields that hold quantities, in any kind. Of an object with a field that
// its type does not know, they are not normalised by it. texts are fields whose keys people
// choose, and may choose to look like one: a file of a ConfigMap is limits.cpu.
var (
	amounts = regexp.MustCompile(`^spec\.(.*\.)?(requests|limits|capacity)\.`)
	texts   = regexp.MustCompile(`\.(metadata|nodeSelector|matchLabels|config\.files)\.`)
)

func sameQuantity(path string, want, have any) bool {
	if !amounts.MatchString(path) || texts.MatchString(path) {
		return false
	}
	w, wantErr := resource.ParseQuantity(fmt.Sprint(want))
	h, haveErr := resource.ParseQuantity(fmt.Sprint(have))
	return wantErr == nil && haveErr == nil && w.Cmp(h) == 0
}

// isNumber says whether v is the whole number that text spells. JSON numbers are float64.
func isNumber(v any, text string) bool {
	number, ok := v.(float64)
	return ok && strconv.FormatFloat(number, 'f', -1, 64) == text
}

func (c *comparison) maps(path string, want, have map[string]any) {
	for key, w := range want {
		h, ok := have[key]
		switch at := join(path, key); {
		case selector(at) && w == nil && h != nil:
			c.add(at, Added)
		case selector(at) && w != nil && h == nil:
			c.add(at, Removed)
		case ok:
			c.walk(at, w, h)
		case !empty(w):
			c.add(at, Removed)
		}
	}
	for key, h := range have {
		at := join(path, key)
		if _, ok := want[key]; !ok && (!empty(h) || h != nil && selector(at)) {
			c.add(at, Added)
		}
	}
}

// selector says of a field that something empty there selects everything, and nothing does
// not: with a namespaceSelector of {} a NetworkPolicy lets all namespaces in, without one
// its own. spec.podSelector is not one: the API server writes {} where it is left out.
func selector(path string) bool {
	return strings.HasSuffix(path, ".namespaceSelector") || strings.HasSuffix(path, ".labelSelector") ||
		strings.HasSuffix(path, "].podSelector")
}

func (c *comparison) lists(path string, want, have []any) {
	for i := range max(len(want), len(have)) {
		at := path + "[" + strconv.Itoa(i) + "]"
		switch {
		case i >= len(have):
			c.add(at, Removed)
		case i >= len(want):
			c.add(at, Added)
		default:
			c.walk(at, want[i], have[i])
		}
	}
}

// empty values and absent ones mean the same to the API server, selectors apart: {} and [] and
// null.
func empty(v any) bool {
	switch t := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(t) == 0
	case []any:
		return len(t) == 0
	}
	return false
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
