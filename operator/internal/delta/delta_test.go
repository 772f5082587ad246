package delta_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

const container = "spec.template.spec.containers[0]"

// Each edit is made in the API server, so that its defaults and its order of fields are
// what is compared.
func TestCompare_NamesWhatOthersChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		kind  string
		patch string
		want  []delta.Change
	}{
		"nothing":            {"Deployment", `[]`, nil},
		"an image":           {"Deployment", `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"evil:1"}]`, []delta.Change{{container + ".image", delta.Modified}}},
		"a container added":  {"Deployment", `[{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"x","image":"evil:1"}}]`, []delta.Change{{"spec.template.spec.containers[1]", delta.Added}}},
		"an init container":  {"Deployment", `[{"op":"add","path":"/spec/template/spec/initContainers","value":[{"name":"x","image":"evil:1"}]}]`, []delta.Change{{"spec.template.spec.initContainers", delta.Added}}},
		"a field of the pod": {"Deployment", `[{"op":"add","path":"/spec/template/spec/hostPID","value":true}]`, []delta.Change{{"spec.template.spec.hostPID", delta.Added}}},
		"a field taken out":  {"Deployment", `[{"op":"remove","path":"/spec/template/spec/containers/0/securityContext/readOnlyRootFilesystem"}]`, []delta.Change{{container + ".securityContext.readOnlyRootFilesystem", delta.Removed}}},
		"a quantity":         {"Deployment", `[{"op":"replace","path":"/spec/template/spec/containers/0/resources/requests/cpu","value":"1001m"}]`, []delta.Change{{container + ".resources.requests.cpu", delta.Modified}}},
		"a quantity that means the same": {"Deployment", `[{"op":"replace","path":"/spec/template/spec/containers/0/resources/requests/cpu","value":"1.0"},
			{"op":"replace","path":"/spec/template/spec/containers/0/resources/requests/memory","value":"1Gi"}]`, nil},
		"a default written out":       {"Deployment", `[{"op":"add","path":"/spec/template/spec/dnsPolicy","value":"ClusterFirst"}]`, nil},
		"a rollout restart":           {"Deployment", `[{"op":"add","path":"/spec/template/metadata/annotations","value":{"kubectl.kubernetes.io/restartedAt":"now"}}]`, nil},
		"a restart and another mark":  {"Deployment", `[{"op":"add","path":"/spec/template/metadata/annotations","value":{"kubectl.kubernetes.io/restartedAt":"now","a":"b"}}]`, []delta.Change{{"spec.template.metadata.annotations", delta.Added}}},
		"a label of the pods":         {"Deployment", `[{"op":"add","path":"/spec/template/metadata/labels/team","value":"shop"}]`, []delta.Change{{"spec.template.metadata.labels.team", delta.Added}}},
		"a label of the object":       {"Deployment", `[{"op":"add","path":"/metadata/labels/team","value":"shop"}]`, nil},
		"an own label of the object":  {"Deployment", `[{"op":"replace","path":"/metadata/labels/app.kubernetes.io~1version","value":"9"}]`, []delta.Change{{"metadata.labels.app.kubernetes.io/version", delta.Modified}}},
		"an own label that was taken": {"Deployment", `[{"op":"remove","path":"/metadata/labels/app.kubernetes.io~1version"}]`, []delta.Change{{"metadata.labels.app.kubernetes.io/version", delta.Removed}}},
		"a port of a Service":         {"Service", `[{"op":"replace","path":"/spec/ports/0/port","value":22}]`, []delta.Change{{"spec.ports[0].port", delta.Modified}}},
		"an address of a Service":     {"Service", `[{"op":"add","path":"/spec/externalIPs","value":["192.0.2.1"]}]`, []delta.Change{{"spec.externalIPs", delta.Added}, {"spec.externalTrafficPolicy", delta.Added}}},
		"a file of a ConfigMap":       {"ConfigMap", `[{"op":"replace","path":"/data/a","value":"c"},{"op":"add","path":"/data/x","value":"y"}]`, []delta.Change{{"data.a", delta.Modified}, {"data.x", delta.Added}}},
		"the token of an account":     {"ServiceAccount", `[{"op":"replace","path":"/automountServiceAccountToken","value":true}]`, []delta.Change{{"automountServiceAccountToken", delta.Modified}}},
		"a schedule":                  {"CronJob", `[{"op":"add","path":"/spec/suspend","value":true}]`, []delta.Change{{"spec.suspend", delta.Modified}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := full()
			w.Spec.Storage = nil
			desired, live := apply(t, w)
			d, l := pick(desired, tc.kind), pick(live, tc.kind)
			if err := api.Patch(context.Background(), l, client.RawPatch(types.JSONPatchType, []byte(tc.patch))); err != nil {
				t.Fatal(err)
			}
			before := []*unstructured.Unstructured{d.DeepCopy(), l.DeepCopy()}
			got, err := delta.Compare(d, l)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, []*unstructured.Unstructured{d, l}); diff != "" {
				t.Errorf("Compare changed its arguments: %s", diff)
			}
		})
	}
}

func pick(objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	for _, o := range objects {
		if o.GetKind() == kind {
			return o
		}
	}
	panic("no " + kind)
}

// Servers from 1.37 on set it, whatever was applied, and those before do not.
func TestCompare_KnowsTheDefaultsOfLaterServers(t *testing.T) {
	set := func(strategy map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"name": "a", "namespace": "b"},
			"spec": map[string]any{"serviceName": "a", "updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": strategy}},
		}}
	}
	none := map[string]any{"partition": int64(0)}
	for most, want := range map[int64][]delta.Change{
		1: nil,
		2: {{"spec.updateStrategy.rollingUpdate.maxUnavailable", delta.Modified}},
	} {
		live := map[string]any{"partition": int64(0), "maxUnavailable": most}
		for name, sides := range map[string][2]map[string]any{"it is set": {none, live}, "it is asked for": {live, none}} {
			got, err := delta.Compare(set(sides[0]), set(sides[1]))
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%d, %s: %v and not %v (%v)", most, name, got, want, err)
			}
		}
	}
}

// Changes end up in status, events and logs.
func TestCompare_NeverShowsValues(t *testing.T) {
	const secret = "hunter2"
	content := func(value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "b"},
			"data": map[string]any{"password": value, "changed": value + "x"},
		}}
	}
	changes, err := delta.Compare(content("other"), content(secret))
	if err != nil || len(changes) != 2 {
		t.Fatalf("%v, %v", changes, err)
	}
	for _, c := range changes {
		if strings.Contains(c.Path+c.Kind, secret) {
			t.Errorf("shows the value: %+v", c)
		}
	}
}

func TestCompleted_KeepsWhatTheServerAllocated(t *testing.T) {
	w := full()
	w.Spec.Storage = nil
	desired, live := apply(t, w)
	d, l := pick(desired, "Service"), pick(live, "Service")
	got, _, _ := unstructured.NestedString(delta.Completed(d, l), "spec", "clusterIP")
	want, _, _ := unstructured.NestedString(l.Object, "spec", "clusterIP")
	if got != want || want == "" {
		t.Errorf("clusterIP %q, want %q", got, want)
	}
	if _, found, _ := unstructured.NestedString(d.Object, "spec", "clusterIP"); found {
		t.Error("desired was changed")
	}
}

// A list of the fields that may be left out is only right for the kinds that are made.
func TestCompare_KnowsEveryKindThatIsRendered(t *testing.T) {
	children, err := render.Children(full())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range children {
		u := &unstructured.Unstructured{Object: c}
		if _, err := delta.Compare(u, u); err != nil {
			t.Errorf("%s: %v", u.GetKind(), err)
		}
	}
}
