package delta

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fixed are the fields that the API server refuses to change once an object exists, by
// kind, as far as a Workload can render them differently.
var fixed = map[string][]string{
	"Deployment":  {"spec.selector"},
	"StatefulSet": {"spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"},
}

// Fixed are the changes that the API server would refuse in an object of this kind.
func Fixed(kind string, changes []Change) []Change {
	var out []Change
	for _, c := range changes {
		for _, field := range fixed[kind] {
			rest, ok := strings.CutPrefix(c.Path, field)
			if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				out = append(out, c)
			}
		}
	}
	return out
}

var (
	claimTemplates = []string{"spec", "volumeClaimTemplates"}
	claimSize      = []string{"spec", "resources", "requests", "storage"}
)

// ClaimSizes are the sizes that a StatefulSet asks for, by the name of the volume claim
// template. It is empty for objects of other kinds.
func ClaimSizes(u *unstructured.Unstructured) (map[string]resource.Quantity, error) {
	sizes := map[string]resource.Quantity{}
	templates, _, err := unstructured.NestedSlice(u.Object, claimTemplates...)
	if err != nil {
		return nil, fmt.Errorf("volume claim templates of %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	for i, t := range templates {
		template, _ := t.(map[string]any)
		name, _, _ := unstructured.NestedString(template, "metadata", "name")
		text, found, err := unstructured.NestedString(template, claimSize...)
		if err == nil && !found {
			continue
		}
		var size resource.Quantity
		if err == nil {
			size, err = resource.ParseQuantity(text)
		}
		if err != nil {
			return nil, fmt.Errorf("size in volume claim template %d of %s %s/%s: %w", i, u.GetKind(), u.GetNamespace(), u.GetName(), err)
		}
		sizes[name] = size
	}
	return sizes, nil
}

// KeepClaimSizes gives each volume claim template of desired the size that it has in live.
// The templates of a StatefulSet cannot change: what grows is each claim.
func KeepClaimSizes(desired, live *unstructured.Unstructured) {
	templates, _, _ := unstructured.NestedSlice(desired.Object, claimTemplates...)
	kept, _, _ := unstructured.NestedSlice(live.Object, claimTemplates...)
	for i := range min(len(templates), len(kept)) {
		template, _ := templates[i].(map[string]any)
		before, _ := kept[i].(map[string]any)
		size, found, _ := unstructured.NestedString(before, claimSize...)
		name, _, _ := unstructured.NestedString(template, "metadata", "name")
		was, _, _ := unstructured.NestedString(before, "metadata", "name")
		if found && name == was {
			// The error is about a parent that is no map: then there is no size to keep.
			_ = unstructured.SetNestedField(template, size, claimSize...)
		}
	}
	if len(templates) > 0 {
		_ = unstructured.SetNestedSlice(desired.Object, templates, claimTemplates...)
	}
}

// ClaimSize is how large a volume claim of this name is to be; false when it is not one of
// the StatefulSet's. The controller of StatefulSets names them TEMPLATE-STATEFULSET-ORDINAL.
func ClaimSize(claim, statefulSet string, sizes map[string]resource.Quantity) (resource.Quantity, bool) {
	dash := strings.LastIndexByte(claim, '-')
	if dash < 0 || dash == len(claim)-1 || strings.Trim(claim[dash+1:], "0123456789") != "" {
		return resource.Quantity{}, false
	}
	template, ok := strings.CutSuffix(claim[:dash], "-"+statefulSet)
	size, known := sizes[template]
	return size, ok && known
}
