package ignore_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/ignore"
)

func TestParse_RefusesWhatTheGateJudged(t *testing.T) {
	for title, tc := range map[string]struct {
		kind, path string
		want       string // "" where the path may be left to others
	}{
		"replicas":                         {"Deployment", "/spec/replicas", ""},
		"replicas of whatever has them":    {"", "/spec/replicas", ""},
		"a part of the strategy":           {"Deployment", "/spec/strategy/rollingUpdate/maxSurge", ""},
		"where the pods run":               {"StatefulSet", "/spec/template/spec/tolerations", ""},
		"when a backup runs":               {"CronJob", "/spec/suspend", ""},
		"a mark on the object":             {"", "/metadata/annotations/example.com~1owner", ""},
		"a mark that is called image":      {"", "/metadata/labels/image", ""},
		"the version's label":              {"", "/metadata/labels/app.kubernetes.io~1version", ""},
		"a field of another kind":          {"Service", "/spec/replicas", "of a Service cannot be left to others"},
		"an image":                         {"", "/spec/template/spec/containers/0/image", "it says what runs"},
		"the containers":                   {"Deployment", "/spec/template/spec/containers", "it says what runs"},
		"resources of a container":         {"", "/spec/template/spec/containers/0/resources", "it says what runs"},
		"an init container":                {"", "/spec/template/spec/initContainers", "it says what runs"},
		"an ephemeral container":           {"", "/spec/template/spec/ephemeralContainers", "it says what runs"},
		"containers of a CronJob":          {"CronJob", "/spec/jobTemplate/spec/template/spec/containers", "it says what runs"},
		"volumes":                          {"", "/spec/template/spec/volumes", "it says what runs"},
		"the pod's security context":       {"", "/spec/template/spec/securityContext/runAsUser", "as whom"},
		"the account":                      {"", "/spec/template/spec/serviceAccountName", "as whom"},
		"the account's old name":           {"", "/spec/template/spec/serviceAccount", "as whom"},
		"the token":                        {"", "/spec/template/spec/automountServiceAccountToken", "as whom"},
		"the host's network":               {"", "/spec/template/spec/hostNetwork", "opens the node"},
		"the host's users":                 {"", "/spec/template/spec/hostUsers", "opens the node"},
		"the whole spec":                   {"", "/spec", "holds, what the gate judged"},
		"the template":                     {"", "/spec/template", "holds, what the gate judged"},
		"the pod's spec":                   {"", "/spec/template/spec", "holds, what the gate judged"},
		"the job's template":               {"", "/spec/jobTemplate", "holds, what the gate judged"},
		"an annotation of the pods":        {"", "/spec/template/metadata/annotations/a", "holds, what the gate judged"},
		"a label of the pods":              {"", "/spec/template/metadata/labels/a", "who reaches whom"},
		"the policy's openings":            {"NetworkPolicy", "/spec/ingress", "who reaches whom"},
		"addresses of a Service":           {"Service", "/spec/externalIPs", "who reaches whom"},
		"files":                            {"ConfigMap", "/data/app.conf", "the gate judged it"},
		"the account's object":             {"", "/automountServiceAccountToken", "the gate judged it"},
		"all annotations":                  {"", "/metadata/annotations", "single labels and annotations"},
		"the owner":                        {"", "/metadata/ownerReferences", "single labels and annotations"},
		"a note of the operator":           {"", "/metadata/annotations/sluice.dev~1desired-hash", "single labels and annotations"},
		"a label that the operator needs":  {"", "/metadata/labels/app.kubernetes.io~1managed-by", "single labels and annotations"},
		"an image, the slash written out":  {"", "/spec/template~1spec/containers", "it says what runs"},
		"a field that begins like another": {"", "/spec/replicasX", "holds, what the gate judged"},
		"the top":                          {"", "/", "no JSON pointer"},
		"an empty key":                     {"", "/spec//replicas", "no JSON pointer"},
		"dots":                             {"", "spec.replicas", "no JSON pointer"},
		"an account's marks":               {"ServiceAccount", "/metadata/annotations/a", "cannot be left"},
	} {
		drift := &v1beta1.Drift{Ignore: []v1beta1.DriftIgnore{{Paths: []string{"/spec/replicas"}}, {Kind: tc.kind, Paths: []string{tc.path}}}}
		rules, refused := ignore.Parse(drift)
		if tc.want == "" {
			if len(refused) > 0 || len(rules) != 2 {
				t.Errorf("%s: refused: %v", title, refused)
			}
			continue
		}
		if len(refused) != 1 || len(rules) != 1 || refused[0].Path != "spec.drift.ignore[1].paths[0]" || !strings.Contains(refused[0].Message, tc.want) {
			t.Errorf("%s: %+v", title, refused)
		}
	}
	if rules, refused := ignore.Parse(nil); rules != nil || refused != nil {
		t.Errorf("nothing is %v, %v", rules, refused)
	}
}

// No rule, whatever it names, reaches what runs.
func FuzzParse_NeverReachesWhatRuns(f *testing.F) {
	for _, path := range []string{"/spec/replicas", "/spec", "/spec/template/spec/containers/0/image", "/spec/template/spec/affinity/~1", "/metadata/labels/a~0b"} {
		f.Add("", path)
	}
	f.Fuzz(func(t *testing.T, kind, path string) {
		rules, _ := ignore.Parse(&v1beta1.Drift{Ignore: []v1beta1.DriftIgnore{{Kind: kind, Paths: []string{path}}}})
		for _, k := range []string{"Deployment", "StatefulSet", "CronJob", "ServiceAccount", "NetworkPolicy"} {
			object := map[string]any{
				"spec": map[string]any{
					"selector": "x", "ingress": "x",
					"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "x"}}, "spec": map[string]any{
						"containers": []any{"x"}, "initContainers": []any{"x"}, "volumes": []any{"x"}, "securityContext": "x", "serviceAccountName": "x", "hostNetwork": true,
					}},
				},
				"automountServiceAccountToken": false,
			}
			if diff := cmp.Diff(object, ignore.Drop(object, ignore.For(rules, k, "web"))); diff != "" {
				t.Errorf("%s %q takes away: %s", k, path, diff)
			}
		}
	})
}

func TestFor_TakesTheRulesOfOneChild(t *testing.T) {
	rules, refused := ignore.Parse(&v1beta1.Drift{Ignore: []v1beta1.DriftIgnore{
		{Paths: []string{"/spec/replicas", "/metadata/labels/a"}},
		{Kind: "Deployment", Name: "web", Paths: []string{"/spec/strategy"}},
		{Kind: "Deployment", Name: "other", Paths: []string{"/spec/paused"}},
		{Kind: "Service", Paths: []string{"/spec/sessionAffinity"}},
	}})
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	for kind, want := range map[string][]ignore.Path{
		"Deployment":     {{"spec", "replicas"}, {"metadata", "labels", "a"}, {"spec", "strategy"}},
		"Service":        {{"metadata", "labels", "a"}, {"spec", "sessionAffinity"}},
		"ServiceAccount": nil,
	} {
		if diff := cmp.Diff(want, ignore.For(rules, kind, "web")); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

func deployment(spec map[string]any, fields ...metav1.ManagedFieldsEntry) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}, "spec": spec}}
	u.SetManagedFields(fields)
	return u
}

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

func TestRelease_LeavesOutWhatOthersOwn(t *testing.T) {
	const strategy = `{"f:spec":{"f:replicas":{},"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{}},"f:type":{}}}}`
	paths := []ignore.Path{{"spec", "replicas"}, {"spec", "strategy"}}
	want := map[string]any{"replicas": int64(1), "minReadySeconds": int64(3), "strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(1)}}}
	live := map[string]any{"replicas": int64(5), "minReadySeconds": int64(9), "strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(2)}}}
	own := entry("sluice", metav1.ManagedFieldsOperationApply, strategy)
	for title, tc := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		want   map[string]any
		kept   bool
	}{
		"all is the manager's": {[]metav1.ManagedFieldsEntry{own},
			map[string]any{"replicas": int64(5), "minReadySeconds": int64(3), "strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(2)}}}, true},
		"replicas are another's": {[]metav1.ManagedFieldsEntry{own, entry("scaler", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`)},
			map[string]any{"minReadySeconds": int64(3), "strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(2)}}}, true},
		"a part is another's": {[]metav1.ManagedFieldsEntry{own, entry("a", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:replicas":{},"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{}}}}}`)},
			map[string]any{"minReadySeconds": int64(3), "strategy": map[string]any{"type": "RollingUpdate"}}, true},
		"all is another's": {[]metav1.ManagedFieldsEntry{own, entry("a", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:replicas":{},"f:strategy":{}}}`)},
			map[string]any{"minReadySeconds": int64(3)}, false},
		"the manager applied none of it": {[]metav1.ManagedFieldsEntry{entry("sluice", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:minReadySeconds":{}}}`)},
			map[string]any{"minReadySeconds": int64(3)}, false},
		"nobody is known": {nil, map[string]any{"minReadySeconds": int64(3)}, false},
	} {
		w, l := deployment(want), deployment(live, tc.fields...)
		before := []*unstructured.Unstructured{w.DeepCopy(), l.DeepCopy()}
		got, kept := ignore.Release(w, l, paths, "sluice")
		if diff := cmp.Diff(tc.want, got.Object["spec"]); diff != "" || kept != tc.kept {
			t.Errorf("%s: kept %t: %s", title, kept, diff)
		}
		if diff := cmp.Diff(before, []*unstructured.Unstructured{w, l}); diff != "" {
			t.Errorf("%s: the arguments were changed: %s", title, diff)
		}
	}
}

func TestYield_TakesWhatLiveHasOrLacks(t *testing.T) {
	want := deployment(map[string]any{"replicas": int64(1), "paused": true, "minReadySeconds": int64(3)})
	live := deployment(map[string]any{"replicas": int64(5), "strategy": map[string]any{"type": "Recreate"}})
	got := ignore.Yield(want, live, []ignore.Path{{"spec", "replicas"}, {"spec", "paused"}, {"spec", "strategy", "type"}, {"metadata", "name", "x"}})
	if diff := cmp.Diff(map[string]any{"replicas": int64(5), "minReadySeconds": int64(3), "strategy": map[string]any{"type": "Recreate"}}, got.Object["spec"]); diff != "" {
		t.Error(diff)
	}
}
