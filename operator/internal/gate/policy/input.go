package policy

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// document is what a rule sees as input, and the object that its findings are about unless
// they name another.
type document struct {
	value  ast.Value
	object string
}

// documents are all that the rules of a decision may take for input.
type documents struct {
	envelope document
	// objects are the Workload and its children, or the other object that is judged; for
	// rules that take input for one object.
	objects []document
	// statement: every rule gets the envelope, which is no object of Kubernetes.
	statement bool
}

// of are those that a rule is evaluated with.
func (d *documents) of(r *rule) []document {
	switch {
	case d.statement || r.manner == envelope:
		return []document{d.envelope}
	case r.manner == perObject:
		return d.objects
	}
	return nil
}

// policyInput is what policies see as input, see docs/policy-input.md. It is made once
// for all policies of a decision: converting the objects costs more than a policy does.
func policyInput(in *gate.Input) (*documents, error) {
	var c converter
	submitted, err := c.object(in.Submitted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Object, err)
	}
	children := make([]*ast.Term, 0, len(in.Children))
	docs := &documents{objects: make([]document, 0, len(in.Children)+1)}
	judged, workload := ast.NewTerm(submitted), ast.ObjectTerm()
	if in.Object.Kind == "Workload" && strings.HasPrefix(in.Object.APIVersion, "sluice.dev/") {
		workload = judged
		docs.objects = append(docs.objects, document{submitted, in.Object.String()})
	}
	for i, child := range in.Children {
		value, err := c.object(child)
		if err != nil {
			return nil, fmt.Errorf("children[%d] of %s: %w", i, in.Object, err)
		}
		children = append(children, ast.NewTerm(value))
		docs.objects = append(docs.objects, document{value, objectName(child)})
	}
	parameters, err := c.object(in.Gate.Parameters)
	if err != nil {
		return nil, fmt.Errorf("parameters of Gate %s: %w", in.Gate.Name, err)
	}
	docs.envelope = document{object: in.Object.String(), value: ast.NewObject(
		field("environment", ast.String(in.Gate.Environment)),
		field("namespace", namespaceValue(in.Namespace)),
		[2]*ast.Term{termOf("workload"), workload},
		[2]*ast.Term{termOf("object"), judged},
		field("children", ast.NewArray(children...)),
		field("images", imageValues(in.Images)),
		field("parameters", parameters),
	)}
	return docs, nil
}

// objectName is Kind/namespace/name, as the library's own rules name objects.
func objectName(object map[string]any) string {
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	metadata, _ := object["metadata"].(map[string]any)
	return gate.ObjectRef{Kind: text(object, "kind"), Namespace: text(metadata, "namespace"), Name: text(metadata, "name")}.String()
}

func namespaceValue(n gate.Namespace) ast.Value {
	labels := make([][2]*ast.Term, 0, len(n.Labels))
	for key, value := range n.Labels {
		labels = append(labels, field(key, ast.String(value)))
	}
	return ast.NewObject(field("name", ast.String(n.Name)), field("labels", ast.NewObject(labels...)))
}

func imageValues(images []gate.Image) ast.Value {
	values := make([]*ast.Term, 0, len(images))
	for _, image := range images {
		locations := make([]*ast.Term, 0, len(image.Locations))
		for _, l := range image.Locations {
			locations = append(locations, ast.ObjectTerm(
				field("object", ast.String(l.Object)), field("path", ast.String(l.Path))))
		}
		values = append(values, ast.ObjectTerm(
			field("image", ast.String(image.Ref)),
			field("repository", ast.String(image.Repository)),
			field("tag", ast.String(image.Tag)),
			field("digest", ast.String(image.Digest)),
			field("pinned", ast.Boolean(image.Pinned)),
			field("locations", ast.NewArray(locations...)),
		))
	}
	return ast.NewArray(values...)
}

func field(name string, value ast.Value) [2]*ast.Term {
	return [2]*ast.Term{termOf(name), ast.NewTerm(value)}
}
