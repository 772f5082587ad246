package source

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// Children says which fields of a Workload its children come from. It is safe for
// concurrent use.
type Children struct {
	workload *v1beta1.Workload
	// after holds what is rendered with the first n patches; made when it is asked for.
	after func() [][]map[string]any
	spec  func() map[string]any
}

// NewChildren makes Children of a Workload. rendered are its children with all patches, nil
// where they are not known.
func NewChildren(w *v1beta1.Workload, rendered []map[string]any) *Children {
	return &Children{workload: w, after: sync.OnceValue(func() [][]map[string]any { return stages(w, rendered) }), spec: sync.OnceValue(func() map[string]any {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w)
		if err != nil {
			return nil
		}
		return content
	})}
}

// stages renders with no patch, the first, the first two and so on; with all of them, unless
// that is done. Where one of them does not apply, the rest is not told apart.
func stages(w *v1beta1.Workload, rendered []map[string]any) [][]map[string]any {
	var out [][]map[string]any
	for n := range len(w.Spec.Patches) + 1 {
		if n == len(w.Spec.Patches) && rendered != nil {
			return append(out, rendered)
		}
		some := w.DeepCopy()
		some.Spec.Patches = some.Spec.Patches[:n]
		rendered, err := render.Stage(some)
		if err != nil {
			return out
		}
		out = append(out, rendered)
	}
	return out
}

// Field returns the field of the Workload that a child's field comes from. It is "" with
// a note where no field of it is at fault, or none is sure to be.
func (c *Children) Field(child, path string) (field, note string) {
	after := c.after()
	if len(after) != len(c.workload.Spec.Patches)+1 {
		return "spec.patches", "the patches; which of them is not sure"
	}
	built, whole := lookup(after[len(after)-1], child, path)
	for n := len(after) - 1; n > 0; n-- {
		before, had := lookup(after[n-1], child, path)
		if had != whole || !reflect.DeepEqual(before, built) {
			return fmt.Sprintf("spec.patches[%d]", n-1), ""
		}
	}
	for _, m := range mappings() {
		if !m.child.MatchString(child) || !m.path.MatchString(path) {
			continue
		}
		field := m.path.ReplaceAllString(path, m.field)
		steps, whole := resolve(c.spec(), field)
		if whole && scalar(steps[len(steps)-1].built) && fmt.Sprint(steps[len(steps)-1].built) != fmt.Sprint(built) {
			break // the child's value is another one
		}
		return field, ""
	}
	return "", "the Workload; Sluice sets " + strings.TrimSpace(child+" "+path)
}

// lookup is the value at a path of a child, and whether there is one.
func lookup(children []map[string]any, child, path string) (any, bool) {
	for _, c := range children {
		if images.ObjectName(c) != child {
			continue
		}
		if path == "" {
			return c, true
		}
		steps, whole := resolve(c, path)
		if !whole || len(steps) == 0 {
			return nil, false
		}
		return steps[len(steps)-1].built, true
	}
	return nil, false
}

// mapping says which field of a Workload a field of its children is taken from.
type mapping struct {
	child, path *regexp.Regexp
	field       string
}

const (
	mainPod   = `^(?:Deployment|StatefulSet)/`
	template  = `^spec\.template\.spec\.`
	container = template + `containers\[0\]\.`
	rest      = `($|[.\[].*)`
)

// mappings are made at the first use: not every command has one.
var mappings = sync.OnceValue(func() []mapping {
	var out []mapping
	for _, m := range [][3]string{
		{mainPod, container + `(image|command|args|env|resources)` + rest, `spec.$1$2`},
		{mainPod, container + `(startup|readiness|liveness)Probe` + rest, `spec.probes.$1$2`},
		{mainPod, container + `ports\[(\d+)\]\.containerPort$`, `spec.ports[$1].port`},
		{mainPod, container + `ports` + rest, `spec.ports$1`},
		{mainPod, template + `(imagePullSecrets|serviceAccountName)` + rest, `spec.$1$2`},
		{mainPod, template + `topologySpreadConstraints` + rest, `spec.availability.spread$1`},
		{mainPod, `^spec\.replicas$`, `spec.replicas`},
		{`^StatefulSet/`, `^spec\.volumeClaimTemplates\[0\]\.spec\.resources\.requests\.storage$`, `spec.storage.size`},
		{`^StatefulSet/`, `^spec\.volumeClaimTemplates\[0\]\.spec\.storageClassName$`, `spec.storage.className`},
		{`^CronJob/`, `^spec\.schedule$`, `spec.backup.schedule`},
		{`^CronJob/`, `^spec\.jobTemplate\.spec\.template\.spec\.containers\[0\]\.image$`, `spec.backup.image`},
		{`^CronJob/`, `^.*$`, `spec.backup`},
		{`^ConfigMap/`, `^data` + rest, `spec.config.files$1`},
		{`^PodDisruptionBudget/`, `^spec\.minAvailable$`, `spec.availability.minAvailable`},
		{`^Service/`, `^spec\.ports\[(\d+)\]\.(name|port|protocol)$`, `spec.ports[$1].$2`},
		{`/`, `^metadata\.namespace$`, `metadata.namespace`},
	} {
		out = append(out, mapping{regexp.MustCompile(m[0]), regexp.MustCompile(m[1]), m[2]})
	}
	return out
})
