package cli

import (
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/report"
	"github.com/sluice-dev/sluice/operator/internal/source"
)

// origins finds where what one path holds was written.
type origins struct {
	*source.Sources
	// secrets by file, which no line of code may show.
	secrets sync.Map
}

func originsOf(set *overlay.Set) *origins {
	return &origins{Sources: source.New(set.Files, set.Kustomization, set.Shown)}
}

// secretsOf are those in all of a file, of bases and patches too: a value that was
// replaced on the way is as secret as the one that replaced it.
func (o *origins) secretsOf(file string) *redact.Secrets {
	known, _ := o.secrets.LoadOrStore(file, sync.OnceValue(func() *redact.Secrets {
		return redact.SecretsOf(o.Contents(file)...)
	}))
	return known.(func() *redact.Secrets)()
}

// faults of an overlay that Kustomize passes over in silence.
func (o *origins) faults(set *overlay.Set) []report.Fault {
	objects := make([]source.Object, 0, len(set.Objects))
	for _, x := range set.Objects {
		objects = append(objects, source.Object{Content: x.Object, Path: x.Path})
	}
	found := o.Faults(objects)
	for i := range found {
		found[i].Place.Code = nil // which no object's secrets were looked for in
	}
	return found
}

// places of what was found about an object, whose children were judged as rendered.
func (sub subject) places(found []gate.Finding, rendered []map[string]any) map[gate.Finding]report.Place {
	var children *source.Children
	if sub.workload != nil {
		children = source.NewChildren(sub.workload, rendered)
	}
	secrets := sync.OnceValue(func() *redact.Secrets { return gather.Secrets(sub.object.Object) })
	out := map[gate.Finding]report.Place{}
	for _, f := range found {
		out[f] = sub.place(f, children, secrets)
	}
	return out
}

func (sub subject) place(f gate.Finding, children *source.Children, secrets func() *redact.Secrets) report.Place {
	field, note := f.Path, ""
	own := gate.ObjectRef{Kind: sub.object.GetKind(), Namespace: sub.object.GetNamespace(), Name: sub.object.GetName()}.String()
	if f.Object != own && children != nil {
		field, note = children.Field(f.Object, f.Path)
	}
	place := sub.origins.Find(source.Object{Content: sub.object.Object, Path: sub.path}, field)
	if note != "" {
		place.Note = note
	}
	if strings.HasPrefix(f.Policy, "secrets/") {
		// What such a policy finds looks like a secret by itself, whatever its name.
		place.Code = nil
	}
	for i, line := range place.Code {
		place.Code[i] = secrets().Text(sub.origins.secretsOf(place.File).Text(line, limits.MessageBytes), limits.MessageBytes)
	}
	return place
}
