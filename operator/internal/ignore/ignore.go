// Package ignore reads spec.drift.ignore: which fields of the children are left to others,
// and which may not be. It is pure.
package ignore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// Path is a field, by its keys from the top of the object. It goes through maps only.
type Path []string

// Rule leaves one field of some children to others.
type Rule struct {
	kind, name string
	path       Path
}

// Refusal is a path that is not left to others.
type Refusal struct {
	// Path of the entry, such as spec.drift.ignore[0].paths[1].
	Path string
	// Message says why.
	Message string
}

// open are the fields that may be left to others, by kind, as JSON pointers; what is below
// them may be too. They say how many pods there are, how they are replaced, and where and
// when they run. Not among them, though it would do no harm by itself, is whatever holds
// one of the others: spec, spec.template.
var open = map[string][]string{
	"Deployment": append([]string{
		"/spec/replicas", "/spec/minReadySeconds", "/spec/paused", "/spec/progressDeadlineSeconds",
		"/spec/revisionHistoryLimit", "/spec/strategy",
	}, openOfPods...),
	"StatefulSet": append([]string{
		"/spec/replicas", "/spec/minReadySeconds", "/spec/revisionHistoryLimit", "/spec/updateStrategy",
	}, openOfPods...),
	"Service": {
		"/spec/internalTrafficPolicy", "/spec/ipFamilyPolicy", "/spec/sessionAffinity", "/spec/sessionAffinityConfig",
		"/spec/trafficDistribution",
	},
	"PodDisruptionBudget": {"/spec/maxUnavailable", "/spec/minAvailable", "/spec/unhealthyPodEvictionPolicy"},
	"CronJob": {
		"/spec/concurrencyPolicy", "/spec/failedJobsHistoryLimit", "/spec/schedule", "/spec/startingDeadlineSeconds",
		"/spec/successfulJobsHistoryLimit", "/spec/suspend", "/spec/timeZone",
	},
	"ConfigMap":     nil,
	"NetworkPolicy": nil,
}

var openOfPods = []string{
	"/spec/template/spec/affinity", "/spec/template/spec/nodeSelector", "/spec/template/spec/priorityClassName",
	"/spec/template/spec/schedulerName", "/spec/template/spec/terminationGracePeriodSeconds", "/spec/template/spec/tolerations",
}

// marks are where objects of every kind above have labels and annotations, each of which
// may be left to others but for the operator's own.
var marks = []string{"/metadata/annotations/", "/metadata/labels/"}

// ownMarks are how the operator knows its children again.
var ownMarks = []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by"}

const ownDomain = "sluice.dev/"

// Parse reads the rules. A path that is refused makes no rule: whoever got it past the
// schema and the gate does not have it their way either.
func Parse(drift *v1beta1.Drift) ([]Rule, []Refusal) {
	if drift == nil {
		return nil, nil
	}
	var rules []Rule
	var refused []Refusal
	for i, entry := range drift.Ignore {
		for k, pointer := range entry.Paths {
			path, why := parse(entry.Kind, pointer)
			if why != "" {
				refused = append(refused, Refusal{Path: fmt.Sprintf("spec.drift.ignore[%d].paths[%d]", i, k), Message: why})
				continue
			}
			rules = append(rules, Rule{kind: entry.Kind, name: entry.Name, path: path})
		}
	}
	return rules, refused
}

// parse returns the path, or why there is none.
func parse(kind, pointer string) (Path, string) {
	if !strings.HasPrefix(pointer, "/") || strings.HasSuffix(pointer, "/") {
		return nil, fmt.Sprintf("%q is no JSON pointer to a field, such as /spec/replicas", pointer)
	}
	path := Path{}
	for _, key := range strings.Split(pointer[1:], "/") {
		path = append(path, unescape.Replace(key))
	}
	if slices.Contains(path, "") {
		return nil, fmt.Sprintf("%q is no JSON pointer to a field, such as /spec/replicas", pointer)
	}
	if kind != "" && opens(kind, path) {
		return path, ""
	}
	for k := range open {
		if kind == "" && opens(k, path) {
			return path, ""
		}
	}
	return nil, fmt.Sprintf("%s%s cannot be left to others: %s", pointer, ofKind(kind), reason(path))
}

// unescape reads ~1 as / and ~0 as ~, in one pass: ~01 is ~1.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func ofKind(kind string) string {
	if kind == "" {
		return ""
	}
	return " of a " + kind
}

// opens says whether the field may be left to others in that kind.
func opens(kind string, path Path) bool {
	prefixes, known := open[kind]
	if !known {
		return false
	}
	if len(path) == 3 && slices.Contains(marks, "/"+path[0]+"/"+path[1]+"/") {
		return !slices.Contains(ownMarks, path[2]) && !strings.HasPrefix(path[2], ownDomain)
	}
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		keys := strings.Split(prefix[1:], "/")
		return len(path) >= len(keys) && slices.Equal(keys, path[:len(keys)])
	})
}

// reason says what a refused field is about.
func reason(path Path) string {
	switch path[0] {
	case "metadata":
		return "of metadata, single labels and annotations can, but for those that the operator knows its children by"
	case "spec":
	default:
		return "the gate judged it"
	}
	for _, key := range path {
		switch key {
		case "containers", "initContainers", "ephemeralContainers", "image", "volumes", "volumeClaimTemplates":
			return "it says what runs, which the gate judged"
		case "securityContext", "serviceAccountName", "serviceAccount", "automountServiceAccountToken", "runtimeClassName":
			return "it says as whom and with which rights the pods run, which the gate judged"
		case "selector", "labels", "ports", "externalIPs", "type", "ingress", "egress":
			return "it says who reaches whom, which the gate judged"
		}
		if strings.HasPrefix(key, "host") {
			return "it opens the node to the pods, which the gate judged"
		}
	}
	return "it is, or holds, what the gate judged; spec.replicas, the update strategy, and where and when the pods run can be"
}

// For returns the fields of one child that are left to others.
func For(rules []Rule, kind, name string) []Path {
	var out []Path
	for _, r := range rules {
		if (r.kind == "" || r.kind == kind) && (r.name == "" || r.name == name) && opens(kind, r.path) {
			out = append(out, r.path)
		}
	}
	return out
}
