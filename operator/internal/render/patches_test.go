package render_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// anything is how a merge patch starts that a target selects for.
const anything = "apiVersion: v1\nkind: Any\nmetadata: {name: any}\n"

func on(kind string) *v1beta1.PatchTarget { return &v1beta1.PatchTarget{Kind: kind} }

func patch(w *v1beta1.Workload, patches ...v1beta1.Patch) ([]map[string]any, error) {
	w.Spec.Patches = patches
	return render.Children(w)
}

func TestPatches_Apply(t *testing.T) {
	for name, c := range map[string]struct {
		patch v1beta1.Patch
		kind  string
		want  string
	}{
		"a merge patch that names its object": {
			v1beta1.Patch{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {revisionHistoryLimit: 2}\n"}, "Deployment", "revisionHistoryLimit:2"},
		"a merge patch that names the namespace too": {
			v1beta1.Patch{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {revisionHistoryLimit: 2}\n"}, "Deployment", "revisionHistoryLimit:2"},
		"a merge patch with a target": {v1beta1.Patch{Patch: anything + "spec: {revisionHistoryLimit: 2}\n", Target: on("Deployment")}, "Deployment", "revisionHistoryLimit:2"},
		"a merge patch in JSON":       {v1beta1.Patch{Patch: `{"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}, "spec": {"revisionHistoryLimit": 2}}`, Target: on("Deployment")}, "Deployment", "revisionHistoryLimit:2"},
		"JSON 6902 in YAML":           {v1beta1.Patch{Patch: "- {op: add, path: /spec/revisionHistoryLimit, value: 2}\n", Target: on("Deployment")}, "Deployment", "revisionHistoryLimit:2"},
		"JSON 6902 in JSON":           {v1beta1.Patch{Patch: `[{"op": "add", "path": "/spec/revisionHistoryLimit", "value": 2}]`, Target: on("Deployment")}, "Deployment", "revisionHistoryLimit:2"},
		"a target by pattern":         {v1beta1.Patch{Patch: "apiVersion: v1\nkind: Any\nmetadata: {name: any, annotations: {a: b}}\n", Target: &v1beta1.PatchTarget{Name: "we."}}, "Service", "annotations:map[a:b]"},
		"a container is merged by its name": {
			v1beta1.Patch{Patch: anything + "spec: {template: {spec: {containers: [{name: app, tty: true}]}}}\n", Target: on("Deployment")}, "Deployment", "image:registry.example.com/shop/web:1.2.3"},
		"a list is replaced where that is asked for": {
			v1beta1.Patch{Patch: anything + "spec: {template: {spec: {containers: [{$patch: replace}, {name: x, image: only}]}}}\n", Target: on("Deployment")}, "Deployment", "containers:[map[image:only name:x]]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := patch(full(), c.patch)
			if err != nil {
				t.Fatal(err)
			}
			if o := child(got, c.kind); o == nil || !strings.Contains(fmt.Sprint(o.Object), c.want) {
				t.Errorf("%s is not in %v", c.want, o)
			}
			if before := children(t, full()); len(got) != len(before) {
				t.Errorf("%d children, and %d without the patch", len(got), len(before))
			}
		})
	}
}

// A port that a patch declares is one that the Service does not publish.
func TestPatches_DeclareThePortOfAProbe(t *testing.T) {
	w := full()
	w.Spec.Probes = probes("health")
	if _, err := patch(w.DeepCopy()); err == nil {
		t.Fatal("a probe by a port that is nowhere is taken")
	}
	got, err := patch(w, v1beta1.Patch{Patch: "- {op: add, path: /spec/template/spec/containers/0/ports/-, value: {name: health, containerPort: 9000}}\n", Target: on("Deployment")})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(fmt.Sprint(child(got, "Service").Object), "9000") {
		t.Error("the Service publishes it")
	}
}

func TestPatches_DeleteAChild(t *testing.T) {
	got, err := patch(full(), v1beta1.Patch{Patch: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web}\n$patch: delete\n"})
	if err != nil {
		t.Fatal(err)
	}
	if child(got, "NetworkPolicy") != nil || child(got, "Deployment") == nil {
		t.Errorf("children: %v", got)
	}
}

func TestPatches_RenameAChildAndWhatRefersToIt(t *testing.T) {
	got, err := patch(full(),
		v1beta1.Patch{Patch: "- {op: replace, path: /metadata/name, value: other}\n", Target: on("ServiceAccount")},
		v1beta1.Patch{Patch: "apiVersion: v1\nkind: Any\nmetadata: {name: any, annotations: {a: b}}\n", Target: &v1beta1.PatchTarget{Kind: "ServiceAccount", Name: "other"}})
	if err != nil {
		t.Fatal(err)
	}
	account := child(got, "ServiceAccount")
	used, _, err := unstructured.NestedString(child(got, "Deployment").Object, "spec", "template", "spec", "serviceAccountName")
	if err != nil || account.GetName() != "other" || used != "other" || account.GetAnnotations()["a"] != "b" {
		t.Errorf("account %s, used %s: %v", account.GetName(), used, err)
	}
}

func TestPatches_Refused(t *testing.T) {
	operation := func(kind, o string) v1beta1.Patch { return v1beta1.Patch{Patch: "- " + o + "\n", Target: on(kind)} }
	for name, c := range map[string]struct {
		patch v1beta1.Patch
		says  []string
	}{
		"a target that there is not":       {v1beta1.Patch{Patch: anything + "spec: {}\n", Target: on("StatefulSet")}, []string{"spec.patches[0]", "matches none"}},
		"a kind in another case":           {v1beta1.Patch{Patch: anything + "spec: {}\n", Target: on("deployment")}, []string{"spec.patches[0]", "matches none"}},
		"a target by part of a name":       {v1beta1.Patch{Patch: anything + "spec: {}\n", Target: &v1beta1.PatchTarget{Name: "we"}}, []string{"matches none"}},
		"a target that is no pattern":      {v1beta1.Patch{Patch: anything + "spec: {}\n", Target: &v1beta1.PatchTarget{Name: "we["}}, []string{"matches none"}},
		"an object that there is not":      {v1beta1.Patch{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: webb}\n"}, []string{"matches none"}},
		"an object of another version":     {v1beta1.Patch{Patch: "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: web}\n"}, []string{"matches none"}},
		"an object in another namespace":   {v1beta1.Patch{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: other}\n"}, []string{"other"}},
		"a merge patch for no object":      {v1beta1.Patch{Patch: "spec: {}\n"}, []string{"metadata.name"}},
		"a merge patch of nothing":         {v1beta1.Patch{Patch: "spec: {}\n", Target: on("Deployment")}, []string{"spec.patches[0]", "metadata.name"}},
		"operations without a target":      {v1beta1.Patch{Patch: "- {op: remove, path: /spec}\n"}, []string{"needs a target"}},
		"a text":                           {v1beta1.Patch{Patch: "hello", Target: on("Deployment")}, []string{"spec.patches[0]", "neither"}},
		"nothing but a comment":            {v1beta1.Patch{Patch: "# a\n", Target: on("Deployment")}, []string{"spec.patches[0]"}},
		"text that is no YAML":             {v1beta1.Patch{Patch: "a: [", Target: on("Deployment")}, []string{"spec.patches[0]", "YAML"}},
		"two documents":                    {v1beta1.Patch{Patch: anything + "spec: {}\n---\nspec: {}\n", Target: on("Deployment")}, []string{"more than one document"}},
		"an alias bomb":                    {v1beta1.Patch{Patch: anything + "a: &a " + strings.Repeat("x", 30000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n", Target: on("Deployment")}, []string{"spec.patches[0]", "limits.ExpandedBytes"}},
		"copies of copies":                 {v1beta1.Patch{Patch: strings.Repeat("- {op: copy, from: /spec, path: /spec/template/metadata/annotations}\n- {op: copy, from: /spec, path: /spec/x}\n", 30), Target: on("Deployment")}, []string{"spec.patches", "copy"}},
		"an operation on a missing field":  {operation("Deployment", "{op: replace, path: /spec/nothing/there, value: 1}"), []string{"spec.patches"}},
		"an operation that there is not":   {operation("Deployment", "{op: execute, path: /spec}"), []string{"spec.patches"}},
		"a move to another namespace":      {operation("Deployment", "{op: replace, path: /metadata/namespace, value: kube-system}"), []string{"kube-system"}},
		"a move out of any namespace":      {operation("ServiceAccount", "{op: remove, path: /metadata/namespace}"), []string{"namespace"}},
		"a label that the operator needs":  {operation("Deployment", "{op: remove, path: /metadata/labels/app.kubernetes.io~1managed-by}"), []string{"app.kubernetes.io/managed-by"}},
		"that label by merge":              {v1beta1.Patch{Patch: "apiVersion: v1\nkind: Any\nmetadata: {name: any, labels: {app.kubernetes.io/managed-by: null}}\n", Target: on("Deployment")}, []string{"app.kubernetes.io/managed-by"}},
		"the label of another Workload":    {v1beta1.Patch{Patch: "apiVersion: v1\nkind: Any\nmetadata: {name: any, labels: {app.kubernetes.io/instance: other}}\n", Target: on("Deployment")}, []string{"app.kubernetes.io/instance"}},
		"a kind that gives rights":         {operation("ServiceAccount", "{op: replace, path: /kind, value: Secret}"), []string{"keep their kind"}},
		"an API group that does":           {operation("ServiceAccount", "{op: replace, path: /apiVersion, value: rbac.authorization.k8s.io/v1}"), []string{"keep their kind"}},
		"a rename onto another child":      {operation("ConfigMap", "{op: replace, path: /metadata, value: {}}"), []string{"spec.patches"}},
		"a finalizer":                      {operation("ConfigMap", "{op: add, path: /metadata/finalizers, value: [example.com/hold]}"), []string{"ConfigMap/", "metadata.finalizers"}},
		"a finalizer of the pods":          {operation("Deployment", "{op: add, path: /spec/template/metadata/finalizers, value: [example.com/hold]}"), []string{"Deployment/web", "spec.template.metadata.finalizers"}},
		"a finalizer of the backup's pods": {operation("CronJob", "{op: add, path: /spec/jobTemplate/spec/template/metadata/finalizers, value: [example.com/hold]}"), []string{"CronJob/", "template.metadata.finalizers"}},
		"a note of the operator's":         {operation("Deployment", "{op: add, path: /metadata/annotations, value: {sluice.dev/scaled-to-zero: '3'}}"), []string{"Deployment/web", "metadata.annotations.sluice.dev/scaled-to-zero"}},
		"a label of the operator's":        {operation("Deployment", "{op: add, path: /metadata/labels/sluice.dev~1track, value: canary}"), []string{"metadata.labels.sluice.dev/track"}},
		"such a label of the pods":         {operation("Deployment", "{op: add, path: /spec/template/metadata/labels/sluice.dev~1track, value: canary}"), []string{"spec.template.metadata.labels.sluice.dev/track"}},
		"such a label in a selector":       {operation("Deployment", "{op: add, path: /spec/selector/matchLabels/sluice.dev~1track, value: canary}"), []string{"Deployment/web", "spec.selector.matchLabels.sluice.dev/track"}},
		"a selector that is a text":        {operation("Deployment", "{op: replace, path: /spec/selector/matchLabels, value: none}"), []string{"matchLabels"}},
		"another tenant of the pods":       {operation("Deployment", "{op: replace, path: /spec/template/metadata/labels/sluice.dev~1tenant, value: bank}"), []string{"Deployment/web", "spec.template.metadata.labels.sluice.dev/tenant", "spec.tenant"}},
		"another tenant of a child":        {operation("Service", "{op: replace, path: /metadata/labels/sluice.dev~1tenant, value: bank}"), []string{"Service/web", "metadata.labels.sluice.dev/tenant"}},
		"metadata that is a text":          {operation("Deployment", "{op: replace, path: /spec/template/metadata, value: none}"), []string{"Deployment"}},
		"a resource version":               {operation("Deployment", "{op: add, path: /metadata/resourceVersion, value: '1'}"), []string{"metadata.resourceVersion"}},
		"an owner":                         {operation("Deployment", "{op: add, path: /metadata/ownerReferences, value: [{apiVersion: v1, kind: Node, name: n, uid: u}]}"), []string{"metadata.ownerReferences"}},
		"managed fields":                   {operation("Deployment", "{op: add, path: /metadata/managedFields, value: [{manager: sluice}]}"), []string{"metadata.managedFields"}},
		"a status":                         {operation("Deployment", "{op: add, path: /status, value: {replicas: 3}}"), []string{"Deployment/web", "status"}},
		"a field in another case":          {operation("Deployment", "{op: add, path: /spec/template/spec/containers/0/securitycontext, value: {privileged: true}}"), []string{"Deployment/web", "securitycontext"}},
		"a field of another type":          {operation("Deployment", "{op: replace, path: /spec/replicas, value: three}"), []string{"Deployment/web"}},
		"a probe by a port nowhere":        {operation("Deployment", "{op: replace, path: /spec/template/spec/containers/0/readinessProbe/httpGet/port, value: web}"), []string{"container app", `"web"`, "readinessProbe"}},
		"such a probe of another":          {operation("Deployment", "{op: add, path: /spec/template/spec/containers/-, value: {name: proxy, image: proxy, livenessProbe: {tcpSocket: {port: http}}}}"), []string{"container proxy", `"http"`, "livenessProbe"}},
		"such a probe before the others":   {operation("Deployment", "{op: add, path: /spec/template/spec/initContainers, value: [{name: proxy, image: proxy, restartPolicy: Always, startupProbe: {httpGet: {port: http}}}]}"), []string{"container proxy", "startupProbe"}},
		"the port of a probe taken":        {operation("Deployment", "{op: remove, path: /spec/template/spec/containers/0/ports/0}"), []string{"container app", `"http"`}},
		"deletion of the pods":             {v1beta1.Patch{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n$patch: delete\n"}, []string{"what runs the pods"}},
		"a kind change by annotation":      {v1beta1.Patch{Patch: "apiVersion: v1\nkind: Secret\nmetadata: {name: x, annotations: {internal.config.kubernetes.io/allowKindChange: enabled}}\n", Target: on("ServiceAccount")}, []string{"keep their kind"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := patch(full(), c.patch)
			if err == nil {
				t.Fatalf("it applies:\n%s", text(t, got))
			}
			mustFail(t, err, c.says...)
			if p := new(render.FieldError); !errors.As(err, &p) || !strings.HasPrefix(p.Path, "spec.patches") {
				t.Errorf("%T is no FieldError", err)
			}
			if strings.Contains(err.Error(), strings.Repeat("x", 100)) {
				t.Error("the error quotes the patch")
			}
		})
	}
}

// TestPatches_ForABudgetOutliveIt: kubectl scale to one replica must not be denied for a
// patch over what is then left out.
func TestPatches_ForABudgetOutliveIt(t *testing.T) {
	for name, p := range map[string]v1beta1.Patch{
		"a target":       {Patch: anything + "spec: {unhealthyPodEvictionPolicy: AlwaysAllow}\n", Target: on("PodDisruptionBudget")},
		"a named object": {Patch: "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {unhealthyPodEvictionPolicy: AlwaysAllow}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := full()
			got, err := patch(w, p)
			if err != nil || !strings.Contains(text(t, got), "AlwaysAllow") {
				t.Fatalf("three replicas: %v", err)
			}
			*w.Spec.Replicas = 1
			if got, err = patch(w, p); err != nil || child(got, "PodDisruptionBudget") != nil {
				t.Errorf("one replica: %v", err)
			}
		})
	}
}
