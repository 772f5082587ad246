// Package rbac holds the operator's Role and ClusterRole against what it asks of a real
// API server: no right is missing, and none is there that nothing uses.
package rbac

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"
)

// right is one thing that may be done. It is of one namespace, or of all where that is
// empty, and of one object, or of every name where that is empty.
type right struct{ namespace, group, resource, name, verb string }

func (r right) String() string {
	where := r.resource
	if r.group != "" {
		where += "." + r.group
	}
	if r.name != "" {
		where += " " + r.name
	}
	if r.namespace != "" {
		where += " in " + r.namespace
	}
	return r.verb + " " + where
}

// granted are the rights in a file of Roles and ClusterRoles. Wildcards are refused: they
// grant what nobody can name.
func granted(t *testing.T, file string) []right {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []right
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := yaml.UnmarshalStrict(document, &role); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, rule := range role.Rules {
			out = append(out, rightsOf(t, role.Namespace, rule)...)
		}
	}
	return out
}

func rightsOf(t *testing.T, namespace string, rule rbacv1.PolicyRule) []right {
	t.Helper()
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var out []right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if slices.Contains([]string{group, resource, verb}, "*") {
					t.Errorf("a wildcard is granted: %v", rule)
				}
				for _, name := range names {
					out = append(out, right{namespace, group, resource, name, verb})
				}
			}
		}
	}
	return out
}

// asked are the rights that a user's requests needed, each with how often, and those that
// were refused for want of one.
func asked(t *testing.T, log, user string) (used map[right]int, refused []string) {
	t.Helper()
	used = map[right]int{}
	files, err := filepath.Glob(strings.TrimSuffix(log, ".log") + "*.log") // rotated ones too
	if err != nil || len(files) == 0 {
		t.Fatalf("no audit log at %s: %v", log, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(content[:bytes.LastIndexByte(content, '\n')+1]) {
			var e auditv1.Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if e.User.Username != user || e.ObjectRef == nil {
				continue
			}
			if e.Annotations["authorization.k8s.io/decision"] == "forbid" {
				refused = append(refused, fmt.Sprintf("%s %s: %s", e.Verb, e.RequestURI, e.Annotations["authorization.k8s.io/reason"]))
				continue
			}
			for _, r := range needed(&e) {
				used[r]++
			}
		}
	}
	return used, refused
}

// needed is what a request takes. A server-side apply that makes the object takes the
// right to create besides that to patch. A watch that begins with what is there is made of
// a list and a watch on API servers that do not know such ones. To create takes no name,
// though the log has one.
func needed(e *auditv1.Event) []right {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	of := right{e.ObjectRef.Namespace, e.ObjectRef.APIGroup, resource, e.ObjectRef.Name, e.Verb}
	if e.Verb == "create" {
		of.name = ""
	}
	out := []right{of}
	if e.Verb == "patch" && e.ResponseStatus != nil && e.ResponseStatus.Code == 201 {
		out = append(out, right{of.namespace, of.group, of.resource, "", "create"})
	}
	if e.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true") {
		out = append(out, right{of.namespace, of.group, of.resource, of.name, "list"})
	}
	return out
}

// unused are the rights that no request needed. Of several rights that all allow a request,
// the narrowest counts: that of its namespace before that of all, and of those the one that
// names its object.
func unused(rights []right, used map[right]int) []right {
	count := map[right]int{}
	for u, n := range used {
		allowing := []right{u, u, u, u}
		allowing[1].name, allowing[3].name = "", ""
		allowing[2].namespace, allowing[3].namespace = "", ""
		if i := slices.IndexFunc(allowing, func(r right) bool { return slices.Contains(rights, r) }); i >= 0 {
			count[allowing[i]] += n
		}
	}
	var out []right
	for _, r := range rights {
		if count[r] == 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b right) int { return cmp.Compare(a.String(), b.String()) })
	return out
}

// unnamed are the rights to write Secrets of any name that are there. What a Secret holds
// may be another's key, so each that is written is named. To create is no such right: it
// takes nothing that is there away, and cannot be bounded by name.
func unnamed(rights []right) []right {
	var out []right
	for _, r := range rights {
		resource, _, _ := strings.Cut(r.resource, "/")
		if r.group == "" && resource == "secrets" && r.name == "" && !slices.Contains([]string{"get", "list", "watch", "create"}, r.verb) {
			out = append(out, r)
		}
	}
	return out
}
