package pin

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
)

// held holds what was built against what was before: the Workloads that were asked for
// have what is wanted, and all else is as it was.
func (d *draft) held(before, after *overlay.Set, all []Want) error {
	if len(before.Objects) != len(after.Objects) {
		return fmt.Errorf("%s: the change would make %d objects of %d; change it by hand", called(d.want.Object), len(after.Objects), len(before.Objects))
	}
	wanted, had := map[string]Want{}, map[string]overlay.Object{}
	for _, w := range all {
		wanted[identity(w.Object)] = w
	}
	for _, o := range before.Objects {
		had[identity(o)] = o
	}
	for _, o := range after.Objects {
		was, ok := had[identity(o)]
		if !ok {
			return fmt.Errorf("%s: the change would make it; change it by hand", called(o))
		}
		_, tried := d.tried[identity(o)]
		if reflect.DeepEqual(o.Object, was.Object) && !tried {
			continue
		}
		w, asked := wanted[identity(o)]
		if d.tried[identity(o)] && field(o, "version") != w.Version {
			return fmt.Errorf("%s: its version is still %q after %s: write it where it is set last", called(o), field(o, "version"), strings.Join(d.edits, "; "))
		}
		if asked && w.pinned(o, was) {
			if err := d.rest(o, was, w.Version); err != nil {
				return err
			}
			continue
		}
		if err := d.wrong(o, was, asked); err != nil {
			return err
		}
	}
	return nil
}

// wrong says what is wrong with an object that comes out another than is wanted.
func (d *draft) wrong(o, was overlay.Object, asked bool) error {
	where := strings.Join(d.edits, "; ")
	switch {
	case identity(o) == identity(d.want.Object):
		return fmt.Errorf("%s: its image is still %s after %s: add the component kustomize/components/workload-kustomize of Sluice to this kustomization, or pin it where it is set last",
			called(o), field(o, "image"), where)
	case asked:
		return fmt.Errorf("%s: one pin is for it and for %s (%s), which shall become different images: give each an entry or a patch of its own", called(o), called(d.want.Object), where)
	case o.GetKind() == d.want.Object.GetKind():
		return fmt.Errorf("%s: it would change along with %s (%s): promote both to the same digest, or give each a pin of its own", called(o), called(d.want.Object), where)
	}
	return d.rest(o, was, "")
}

// rest allows what else an object may have changed in: a version that was asked for, and
// images that were the very one that was pinned, and still are.
func (d *draft) rest(o, was overlay.Object, version string) error {
	for _, at := range differences("", was.Object, o.Object) {
		switch {
		case o.GetKind() == d.want.Object.GetKind() && at.path == ".spec.image":
		case o.GetKind() == d.want.Object.GetKind() && at.path == ".spec.version" && at.after == version:
		case d.moved[at.before] == at.after && at.after != nil:
			d.notes = append(d.notes, fmt.Sprintf("%s %s moves along: it is pinned in the same place", called(o), at.path[1:]))
		default:
			return fmt.Errorf("%s: %s would change too (%s): give it a pin of its own", called(o), at.path[1:], strings.Join(d.edits, "; "))
		}
	}
	return nil
}

// difference of two objects at a path.
type difference struct {
	path          string
	before, after any
}

func differences(path string, before, after any) []difference {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	var out []difference
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok || len(a) != len(b) {
			break
		}
		for key := range b {
			out = append(out, differences(path+"."+key, b[key], a[key])...)
		}
		return out
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		for i := range b {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), b[i], a[i])...)
		}
		return out
	}
	return []difference{{path, before, after}}
}
