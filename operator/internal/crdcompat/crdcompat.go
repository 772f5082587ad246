// Package crdcompat compares two states of CustomResourceDefinitions: what was accepted,
// stored or read under the old one and is not under the new one. It is pure.
package crdcompat

import (
	"cmp"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Severity is how sure it is that somebody is hurt.
type Severity string

// The severities, the worst first.
const (
	// Breaking: there are objects, manifests or clients that worked and do not any more.
	Breaking Severity = "breaking"
	// Warning: there may be such, which the schema alone does not tell.
	Warning Severity = "warning"
	// Info: a change that somebody may want to know of.
	Info Severity = "info"
)

// Finding is one change.
type Finding struct {
	// Rule that found it, such as field-removed.
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// CRD by name, such as workloads.sluice.dev.
	CRD string `json:"crd"`
	// Version of the CRD; empty for what concerns all of them.
	Version string `json:"version,omitempty"`
	// Path of the field, such as spec.ports[].port, with {} behind a map.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Remedy says what to do.
	Remedy string `json:"remedy,omitempty"`
	// Allowed is the reason that an allow list gives for it.
	Allowed string `json:"allowed,omitempty"`
}

// Blocks says whether a finding counts that is at least this severe.
func (f Finding) Blocks(from Severity) bool {
	return f.Allowed == "" && rank[f.Severity] <= rank[from]
}

var rank = map[Severity]int{Breaking: 0, Warning: 1, Info: 2}

// Compare lists what changed from old to now, sorted by CRD, version, severity and path.
// CRDs that are only in now are no change.
func Compare(old, now []*apiextensionsv1.CustomResourceDefinition) []Finding {
	var c comparison
	for _, o := range old {
		c.crd, c.version = o.Name, ""
		i := slices.IndexFunc(now, func(n *apiextensionsv1.CustomResourceDefinition) bool { return n.Name == o.Name })
		if i < 0 {
			c.add(ruleCRDRemoved, Breaking, "", "the definition is gone, and every object of it goes with it")
			continue
		}
		c.definition(&o.Spec, &now[i].Spec)
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.CRD, b.CRD), cmp.Compare(a.Version, b.Version), cmp.Compare(rank[a.Severity], rank[b.Severity]),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return c.findings
}

// comparison collects findings of one CRD, or of one version of it.
type comparison struct {
	crd, version string
	findings     []Finding
}

func (c *comparison) add(rule string, severity Severity, path, format string, args ...any) {
	f := Finding{Rule: rule, Severity: severity, CRD: c.crd, Version: c.version, Path: path, Message: fmt.Sprintf(format, args...)}
	if severity != Info {
		f.Remedy = remedies[rule]
	}
	c.findings = append(c.findings, f)
}

func (c *comparison) definition(old, now *apiextensionsv1.CustomResourceDefinitionSpec) {
	for _, field := range []struct{ path, was, is string }{
		{"spec.group", old.Group, now.Group},
		{"spec.names.kind", old.Names.Kind, now.Names.Kind},
		{"spec.names.plural", old.Names.Plural, now.Names.Plural},
	} {
		if field.was != field.is {
			c.add(ruleNameChanged, Breaking, field.path, "was %q and is %q", field.was, field.is)
		}
	}
	if old.Names.Singular != now.Names.Singular {
		c.add(ruleNameChanged, Warning, "spec.names.singular", "was %q and is %q", old.Names.Singular, now.Names.Singular)
	}
	for _, gone := range missing(old.Names.ShortNames, now.Names.ShortNames) {
		c.add(ruleNameChanged, Warning, "spec.names.shortNames", "%q is gone", gone)
	}
	for _, gone := range missing(old.Names.Categories, now.Names.Categories) {
		c.add(ruleNameChanged, Info, "spec.names.categories", "%q is gone", gone)
	}
	if old.Scope != now.Scope {
		c.add(ruleScopeChanged, Breaking, "spec.scope", "was %s and is %s", old.Scope, now.Scope)
	}
	if old.PreserveUnknownFields && !now.PreserveUnknownFields {
		c.add(rulePruned, Breaking, "spec.preserveUnknownFields", "fields that the schema does not know were kept, and are dropped")
	}
	c.conversion(old, now)
	c.versions(old, now)
}

func (c *comparison) conversion(old, now *apiextensionsv1.CustomResourceDefinitionSpec) {
	converts := func(s *apiextensionsv1.CustomResourceDefinitionSpec) bool {
		return s.Conversion != nil && s.Conversion.Strategy == apiextensionsv1.WebhookConverter
	}
	if !converts(old) || converts(now) {
		return
	}
	severity := Info
	if len(now.Versions) > 1 {
		severity = Breaking
	}
	c.add(ruleConversionLost, severity, "spec.conversion", "versions were converted by a webhook, and now only their apiVersion is rewritten")
}

func (c *comparison) versions(old, now *apiextensionsv1.CustomResourceDefinitionSpec) {
	for i := range old.Versions {
		was := &old.Versions[i]
		c.version = was.Name
		j := slices.IndexFunc(now.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == was.Name })
		switch {
		case j < 0 && was.Storage:
			c.add(ruleVersionRemoved, Breaking, "", "the version is gone, and objects are stored in it")
		case j < 0 && was.Served:
			c.add(ruleVersionRemoved, Breaking, "", "the version is gone, and was served")
		case j < 0:
			c.add(ruleVersionRemoved, Warning, "", "the version is gone; it was not served, but status.storedVersions of a cluster may still name it")
		default:
			c.versionPair(was, &now.Versions[j])
		}
	}
	c.version = ""
}

func (c *comparison) versionPair(old, now *apiextensionsv1.CustomResourceDefinitionVersion) {
	if old.Served && !now.Served {
		c.add(ruleVersionRemoved, Breaking, "", "the version is not served any more")
	}
	if old.Storage && !now.Storage {
		c.add(ruleStorageMoved, Warning, "", "objects are stored in another version from now on; those that are stored in this one stay so until they are written")
	}
	if !old.Deprecated && now.Deprecated {
		c.add(ruleDeprecated, Info, "", "the version is deprecated")
	}
	c.subresources(old.Subresources, now.Subresources)
	for _, f := range old.SelectableFields {
		if !slices.Contains(now.SelectableFields, f) {
			c.add(ruleSelectableRemoved, Breaking, f.JSONPath, "the field cannot be used in a field selector any more")
		}
	}
	for _, column := range old.AdditionalPrinterColumns {
		if !slices.ContainsFunc(now.AdditionalPrinterColumns, func(x apiextensionsv1.CustomResourceColumnDefinition) bool { return x.Name == column.Name }) {
			c.add(ruleColumnRemoved, Info, column.JSONPath, "the column %s is gone", column.Name)
		}
	}
	c.schema("", schemaOf(old), schemaOf(now), 0)
}

// schemaOf is the schema of a version; without one every field is kept.
func schemaOf(v *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		keep := true
		return &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}
	}
	return v.Schema.OpenAPIV3Schema
}

func (c *comparison) subresources(old, now *apiextensionsv1.CustomResourceSubresources) {
	if old == nil {
		old = &apiextensionsv1.CustomResourceSubresources{}
	}
	if now == nil {
		now = &apiextensionsv1.CustomResourceSubresources{}
	}
	switch {
	case old.Status != nil && now.Status == nil:
		c.add(ruleSubresource, Breaking, "status", "the subresource status is gone: who may write objects may now write their status, and writes to it find nothing")
	case old.Status == nil && now.Status != nil:
		c.add(ruleSubresource, Breaking, "status", "status is a subresource now: what is written to it together with the object is dropped")
	}
	switch {
	case old.Scale == nil:
	case now.Scale == nil:
		c.add(ruleSubresource, Breaking, "scale", "the subresource scale is gone: autoscalers and kubectl scale find nothing")
	case old.Scale.SpecReplicasPath != now.Scale.SpecReplicasPath || old.Scale.StatusReplicasPath != now.Scale.StatusReplicasPath ||
		deref(old.Scale.LabelSelectorPath) != deref(now.Scale.LabelSelectorPath):
		c.add(ruleSubresource, Warning, "scale", "the subresource scale reads or writes other fields")
	}
}

func missing(old, now []string) []string {
	return slices.DeleteFunc(slices.Clone(old), func(s string) bool { return slices.Contains(now, s) })
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
