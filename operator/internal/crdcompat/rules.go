package crdcompat

import "fmt"

// The rules, as allow lists name them.
const (
	ruleCRDRemoved        = "crd-removed"
	ruleNameChanged       = "name-changed"
	ruleScopeChanged      = "scope-changed"
	rulePruned            = "unknown-fields-pruned"
	ruleConversionLost    = "conversion-lost"
	ruleVersionRemoved    = "version-removed"
	ruleStorageMoved      = "storage-moved"
	ruleDeprecated        = "version-deprecated"
	ruleSubresource       = "subresource-changed"
	ruleSelectableRemoved = "selectable-field-removed"
	ruleColumnRemoved     = "column-removed"
	ruleTooDeep           = "too-deep"
	ruleTypeChanged       = "type-changed"
	ruleNullableLost      = "nullable-lost"
	rulePattern           = "pattern-changed"
	ruleFormat            = "format-changed"
	ruleEnum              = "enum-changed"
	ruleDefault           = "default-changed"
	ruleBound             = "bound-tightened"
	ruleEmbedded          = "embedded-resource-changed"
	ruleListType          = "list-type-changed"
	ruleCEL               = "rule-changed"
	ruleComposition       = "composition-changed"
	ruleFieldRemoved      = "field-removed"
	ruleFieldTyped        = "field-typed"
	ruleRequired          = "required-changed"
)

const newVersion = "keep it as it was in this version, and change it in a new one with a conversion"

// remedies say what to do, by rule. Every rule is here.
var remedies = map[string]string{
	ruleCRDRemoved:        "keep the definition until no cluster has objects of it",
	ruleNameChanged:       "keep the name; a new one is a new definition, to which objects have to be copied",
	ruleScopeChanged:      "keep the scope: the API server refuses to change it",
	rulePruned:            "describe the fields that are in use before unknown ones are dropped",
	ruleConversionLost:    "keep spec.conversion while there is more than one version",
	ruleVersionRemoved:    "deprecate the version, serve it for as long as was promised, and migrate what is stored in it before it goes",
	ruleStorageMoved:      "rewrite the stored objects after the change, and keep the old version until that is done",
	ruleDeprecated:        "",
	ruleSubresource:       newVersion,
	ruleSelectableRemoved: "keep the field selectable in this version",
	ruleColumnRemoved:     "",
	ruleTooDeep:           "make the schema flatter",
	ruleTypeChanged:       newVersion,
	ruleNullableLost:      "accept null in this version",
	rulePattern:           newVersion + "; where the new pattern accepts all that the old one did, allow it and say so",
	ruleFormat:            newVersion,
	ruleEnum:              "keep accepting the value in this version",
	ruleDefault:           "keep the default in this version: the same manifest now means something else",
	ruleBound:             newVersion,
	ruleEmbedded:          newVersion,
	ruleListType:          newVersion,
	ruleCEL:               "see that no stored object breaks the rule, or have it concern new fields only",
	ruleComposition:       newVersion,
	ruleFieldRemoved:      "keep the field in this version, deprecated in its description",
	ruleFieldTyped:        "see that no stored object holds something else there",
	ruleRequired:          "give it a default, or leave it optional in this version",
}

func orNone[T any](p *T) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprint(*p)
}
