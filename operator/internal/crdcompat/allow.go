package crdcompat

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Entry of an allow list: a change that is meant. CRD, rule and reason are required; a
// version or a path that is left out stands for all.
type Entry struct {
	CRD     string `json:"crd"`
	Rule    string `json:"rule"`
	Version string `json:"version,omitempty"`
	Path    string `json:"path,omitempty"`
	// Reason is shown with what is allowed.
	Reason string `json:"reason"`
}

func (e Entry) matches(f Finding) bool {
	return e.CRD == f.CRD && e.Rule == f.Rule && (e.Version == "" || e.Version == f.Version) && (e.Path == "" || e.Path == f.Path)
}

func (e Entry) String() string {
	return strings.Join(strings.Fields(e.CRD+" "+e.Version+" "+e.Path+" "+e.Rule), " ")
}

// ParseAllowed reads an allow list: a YAML object whose allow is a list of Entry.
func ParseAllowed(raw []byte) ([]Entry, error) {
	var list struct {
		Allow []Entry `json:"allow"`
	}
	if err := yaml.UnmarshalStrict(raw, &list); err != nil {
		return nil, fmt.Errorf("not a list of what is allowed: %w", err)
	}
	if len(list.Allow) > limits.Findings {
		return nil, fmt.Errorf("allow has more than %d entries (limits.Findings)", limits.Findings)
	}
	for i, e := range list.Allow {
		_, known := remedies[e.Rule]
		switch {
		case e.CRD == "":
			return nil, fmt.Errorf("allow[%d].crd is required: the name of the definition, such as workloads.sluice.dev", i)
		case !known:
			return nil, fmt.Errorf("allow[%d].rule: there is no rule %q; it stands behind the path in the output", i, e.Rule)
		case strings.TrimSpace(e.Reason) == "":
			return nil, fmt.Errorf("allow[%d].reason is required: who reads the list later has to know why", i)
		}
	}
	return list.Allow, nil
}

// Allow marks what the entries allow, and returns the entries that allow nothing.
func Allow(findings []Finding, entries []Entry) (marked []Finding, unused []Entry) {
	marked = append(marked, findings...)
	for _, e := range entries {
		used := false
		for i := range marked {
			if e.matches(marked[i]) {
				marked[i].Allowed, used = e.Reason, true
			}
		}
		if !used {
			unused = append(unused, e)
		}
	}
	return marked, unused
}
