package delta_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/delta"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const database = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
    - metadata: {name: log}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 512Mi}}}
`

func TestFixed_FindsWhatTheAPIServerWouldRefuse(t *testing.T) {
	live := parsed(t, database)
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   []string
	}{
		"nothing": {func(*unstructured.Unstructured) {}, nil},
		"a template's label, which may change": {func(u *unstructured.Unstructured) {
			set(t, u, "x", "spec", "template", "metadata", "labels", "version")
		}, nil},
		"the Service": {func(u *unstructured.Unstructured) { set(t, u, "other", "spec", "serviceName") }, []string{"spec.serviceName"}},
		"a further label in the selector": {func(u *unstructured.Unstructured) { set(t, u, "x", "spec", "selector", "matchLabels", "tier") },
			[]string{"spec.selector.matchLabels.tier"}},
		"one claim template less": {func(u *unstructured.Unstructured) {
			templates, _, _ := unstructured.NestedSlice(u.Object, "spec", "volumeClaimTemplates")
			set(t, u, templates[:1], "spec", "volumeClaimTemplates")
		}, []string{"spec.volumeClaimTemplates[1]"}},
		"how pods start": {func(u *unstructured.Unstructured) { set(t, u, "Parallel", "spec", "podManagementPolicy") }, []string{"spec.podManagementPolicy"}},
	} {
		t.Run(name, func(t *testing.T) {
			desired := live.DeepCopy()
			tc.change(desired)
			changes, err := delta.Compare(desired, live)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range delta.Fixed("StatefulSet", changes) {
				got = append(got, c.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func set(t *testing.T, u *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

func TestKeepClaimSizes_LeavesNoDifferenceWhereOnlySizesGrew(t *testing.T) {
	live := parsed(t, database)
	desired := live.DeepCopy()
	templates, _, _ := unstructured.NestedSlice(desired.Object, "spec", "volumeClaimTemplates")
	if err := unstructured.SetNestedField(templates[0].(map[string]any), "10Gi", "spec", "resources", "requests", "storage"); err != nil {
		t.Fatal(err)
	}
	set(t, desired, templates, "spec", "volumeClaimTemplates")
	sizes, err := delta.ClaimSizes(desired)
	if err != nil {
		t.Fatal(err)
	}
	delta.KeepClaimSizes(desired, live)
	changes, err := delta.Compare(desired, live)
	if err != nil || len(changes) != 0 {
		t.Errorf("%v, %v", changes, err)
	}
	for claim, want := range map[string]string{
		"data-db-0": "10Gi", "data-db-99": "10Gi", "log-db-0": "512Mi",
		"data-db": "", "data-db-": "", "data-db-0a": "", "data-db-0-0": "", "data-other-0": "", "db-0": "", "-db-0": "", "": "",
	} {
		size, ok := delta.ClaimSize(claim, "db", sizes)
		if ok != (want != "") || (ok && size.Cmp(resource.MustParse(want)) != 0) {
			t.Errorf("%s: %s, %t", claim, size.String(), ok)
		}
	}
}

func TestClaimSizes_SaysWhereASizeIsNone(t *testing.T) {
	u := parsed(t, database)
	templates, _, _ := unstructured.NestedSlice(u.Object, "spec", "volumeClaimTemplates")
	if err := unstructured.SetNestedField(templates[1].(map[string]any), "much", "spec", "resources", "requests", "storage"); err != nil {
		t.Fatal(err)
	}
	set(t, u, templates, "spec", "volumeClaimTemplates")
	if _, err := delta.ClaimSizes(u); err == nil {
		t.Error("a size that is none is taken")
	}
}
