package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/kustomize/base/crds"
	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/report"
	"github.com/sluice-dev/sluice/operator/internal/schema"
)

// input is everything that was read from files.
type input struct {
	// workloads to judge, in the order in which they were read.
	workloads []subject
	// others are judged by the Gates that name their kind.
	others []subject
	// dependents are the Workloads once they were judged.
	dependents []dependent
	files      *gather.Files
	// converter has the schemas of Workloads.
	converter *conversion.Converter
	// faults of the overlays that are checked, by overlay.Set.Key.
	faults map[string][]report.Fault
	// seen has the first of each object, by kind and name.
	seen map[string]overlay.Object
	// told is where a user is told of what has no effect, and of what is not judged.
	told io.Writer
	// notes are those lines.
	notes bytes.Buffer
}

// subject is one object to judge, or what its schema has against it. workload is nil for
// objects of other kinds.
type subject struct {
	file string
	// path and origins tell where in the source the object was written.
	path    string
	origins *origins
	// key of what it was read from, see overlay.Set.Key.
	key      string
	object   *unstructured.Unstructured
	workload *v1beta1.Workload
	invalid  field.ErrorList
}

// kinds are the schemas of our kinds, and what turns one version of them into the other.
type kinds struct {
	*schema.Set
	*conversion.Converter
}

// known kinds are compiled once, which takes a tenth of a second, and safe for concurrent
// use.
var known = sync.OnceValues(func() (kinds, error) {
	schemas, err := schema.Load(crds.Files)
	if err != nil {
		return kinds{}, usage("load schemas: %w", err)
	}
	workloads, err := conversion.New(schemas)
	if err != nil {
		return kinds{}, usage("%w", err)
	}
	return kinds{schemas, workloads}, nil
})

func newInput(s streams) *input {
	in := &input{seen: map[string]overlay.Object{}, faults: map[string][]report.Fault{}, files: &gather.Files{
		OperatorNamespace: operatorNamespace,
		Namespaces:        map[string]map[string]string{},
		ConfigMaps:        map[string]map[string]string{},
		Secrets:           map[string]map[string][]byte{},
	}}
	in.told = io.MultiWriter(s.err, &in.notes)
	return in
}

// take takes a set in. Gates, Exemptions, Namespaces, ConfigMaps and Secrets count in any,
// Workloads and the rest only where it is checked.
func (in *input) take(ctx context.Context, set *overlay.Set, checked bool) error {
	kinds, err := known()
	if err != nil {
		return err
	}
	in.converter = kinds.Converter
	from := originsOf(set)
	if checked {
		in.faults[set.Key("")] = from.faults(set)
	}
	for _, o := range set.Objects {
		if err := in.add(ctx, kinds.Set, subject{file: o.File, path: o.Path, origins: from, key: set.Key(o.Path), object: o.Unstructured}, checked); err != nil {
			return err
		}
	}
	return nil
}

func (in *input) add(ctx context.Context, schemas *schema.Set, sub subject, checked bool) error {
	o := overlay.Object{Unstructured: sub.object, File: sub.file}
	gvk := o.GroupVersionKind()
	ours := gvk.Group == v1beta1.GroupVersion.Group
	switch {
	case ours && gvk.Kind == v1beta1.GateKind:
		return in.once(o, func() error { return in.addGate(ctx, schemas, o) })
	case ours && gvk.Kind == v1beta1.ExemptionKind:
		return in.once(o, func() error { return in.addExemption(ctx, schemas, o) })
	case ours && checked:
		return in.once(o, func() error {
			in.workloads = append(in.workloads, sub)
			return nil
		})
	case ours:
		return nil
	case gvk.Group == "" && references[gvk.Kind]:
		return in.once(o, func() error { return in.addReference(o) })
	case checked:
		in.others = append(in.others, sub)
	}
	return nil
}

// references are the core kinds that a decision may depend on.
var references = map[string]bool{"Namespace": true, "ConfigMap": true, "Secret": true}

// decides says whether an object changes how others are judged.
func decides(o overlay.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == v1beta1.GroupVersion.Group && gvk.Kind != v1beta1.WorkloadKind || gvk.Group == "" && references[gvk.Kind]
}

// once adds an object unless the very same was added before, as when a folder is named
// for its Gates and to be checked. Two that differ are an error: if one of them counted,
// a pull request could bring its own Gate or key in place of those that --gate names.
func (in *input) once(o overlay.Object, add func() error) error {
	if k := o.GetKind(); o.GetNamespace() != "" && (k == v1beta1.GateKind || k == v1beta1.ExemptionKind || k == "Namespace") {
		// In no namespace, whatever Kustomize made of it: the file itself may be named too.
		o.Unstructured = o.DeepCopy()
		o.SetNamespace("")
	}
	id := o.GroupVersionKind().GroupKind().String() + " " + o.GetNamespace() + "/" + o.GetName()
	first, ok := in.seen[id]
	switch {
	case !ok:
		in.seen[id] = o
		return add()
	case reflect.DeepEqual(first.Object, o.Object):
		return nil
	}
	name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
	return usage("%s: %s %s stands in %s too, with other content: only one of them can apply", o.File, o.GetKind(), name, first.File)
}

// admit applies the schema as the API server would, and takes the Workload to the version
// that is judged.
func admit(ctx context.Context, workloads *conversion.Converter, out subject) subject {
	content, errs := workloads.Admit(ctx, out.object.Object, out.object.GroupVersionKind())
	if len(errs) > 0 {
		out.invalid = masked(out.object.Object, errs)
		return out
	}
	w := &v1beta1.Workload{}
	if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(content, w); err != nil {
		out.invalid = field.ErrorList{field.Invalid(field.NewPath("spec"), "", err.Error())}
		return out
	}
	out.workload = w
	return out
}

// masked takes the secrets of a manifest out of what is wrong with it.
func masked(content map[string]any, errs field.ErrorList) field.ErrorList {
	secrets := gather.Secrets(content)
	for _, e := range errs {
		e.Detail = secrets.Text(e.Detail, limits.ErrorBytes)
		if text, ok := e.BadValue.(string); ok {
			e.BadValue = secrets.Text(text, limits.ErrorBytes)
		}
	}
	return errs
}

func (in *input) addGate(ctx context.Context, schemas *schema.Set, o overlay.Object) error {
	content, errs := schemas.Admit(ctx, o.Object, o.GroupVersionKind())
	g := v1beta1.Gate{}
	if len(errs) == 0 {
		if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(content, &g); err != nil {
			return usage("%s: Gate %s: %w", o.File, o.GetName(), err)
		}
		errs = gather.ValidateGate(&g)
	}
	if len(errs) > 0 {
		return refused(fmt.Sprintf("%s: Gate %s cannot be used:", o.File, o.GetName()), errs)
	}
	in.files.GateList = append(in.files.GateList, g)
	return nil
}

// addReference keeps what Gates may refer to, and the labels of namespaces.
func (in *input) addReference(o overlay.Object) error {
	key := o.GetNamespace() + "/" + o.GetName()
	switch o.GetKind() {
	case "Namespace":
		in.files.Namespaces[o.GetName()] = withNameLabel(o.GetName(), o.GetLabels())
	case "ConfigMap":
		cm := &corev1.ConfigMap{}
		if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(o.Object, cm); err != nil {
			return usage("%s: ConfigMap %s: %w", o.File, key, err)
		}
		in.files.ConfigMaps[key] = cm.Data
	case "Secret":
		secret := &corev1.Secret{}
		if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(o.Object, secret); err != nil {
			// The converter's message may quote the content.
			return usage("%s: Secret %s: %w", o.File, key, errors.New("data has to be base64 and stringData text"))
		}
		data := secret.Data
		if data == nil {
			data = map[string][]byte{}
		}
		for k, v := range secret.StringData {
			data[k] = []byte(v)
		}
		in.files.Secrets[key] = data
	}
	return nil
}

// withNameLabel adds the label that every API server sets on namespaces, whatever the
// manifest says.
func withNameLabel(name string, labels map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range labels {
		out[k] = v
	}
	out[corev1.LabelMetadataName] = name
	return out
}
