package promote_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/promote"
)

// digest of one figure over and over.
func digest(figure string) string { return "sha256:" + strings.Repeat(figure, 64) }

func workload(name, figure, version string) promote.Workload {
	namespace, name, _ := strings.Cut(name, "/")
	w := promote.Workload{Namespace: namespace, Name: name, Version: version}
	w.Image = images.Reference{Repository: "registry.example.com/shop/" + name, Tag: version, Digest: digest(figure)}
	return w
}

func shown(p promote.Plan) string {
	var out []string
	for _, t := range p.Takes {
		out = append(out, fmt.Sprintf("%s<-%s:%.1s", t.Target, t.Source, strings.TrimPrefix(t.Source.Image.Digest, "sha256:")))
	}
	return strings.Join(append(out, p.Left...), " ")
}

func TestSelect(t *testing.T) {
	from := []promote.Workload{workload("shop/web", "a", "1.2.0"), workload("shop/api", "b", ""), workload("shop/worker", "c", "")}
	to := []promote.Workload{workload("shop/web", "d", "1.1.0"), workload("shop/api", "b", ""), workload("shop/only", "e", "")}
	elsewhere := []promote.Workload{workload("shop-prod/web", "d", "1.1.0")}
	twice := []promote.Workload{workload("a/web", "d", ""), workload("b/web", "d", "")}
	for name, c := range map[string]struct {
		from, to []promote.Workload
		names    []string
		want     string // a plan, or what an error says
	}{
		"all that both have":              {from, to, nil, "shop/api<-shop/api:b shop/web<-shop/web:a shop/worker"},
		"one":                             {from, to, []string{"web"}, "shop/web<-shop/web:a"},
		"one that is named twice":         {from, to, []string{"web", "shop/web"}, "shop/web<-shop/web:a"},
		"into another namespace":          {from, elsewhere, []string{"web"}, "shop-prod/web<-shop/web:a"},
		"one that is not there":           {from, to, []string{"wbe"}, "--workload=wbe: the environment that is promoted from has none of that name"},
		"one that is not where it goes":   {from, to, []string{"worker"}, "has no Workload worker: add it there first"},
		"two of one name where it goes":   {from, twice, []string{"web"}, "is a/web and b/web where it is promoted to"},
		"two of one name where it is":     {twice, to, []string{"web"}, "has it as a/web and b/web: name its namespace too"},
		"both into the same":              {twice, elsewhere, nil, "stands in several namespaces, and only shop-prod/web"},
		"of two the one of the namespace": {twice, twice, nil, "a/web<-a/web:d b/web<-b/web:d"},
		"one of two by its namespace":     {twice, twice, []string{"b/web"}, "b/web<-b/web:d"},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := promote.Select(c.from, c.to, c.names)
			if got := shown(plan); err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

func TestSelect_HasABound(t *testing.T) {
	var many []promote.Workload
	for i := range limits.PromotionWorkloads + 1 {
		many = append(many, workload(fmt.Sprintf("shop/web-%d", i), "a", ""))
	}
	if _, err := promote.Select(many, many, nil); err == nil || !strings.Contains(err.Error(), "limits.PromotionWorkloads") {
		t.Errorf("%v", err)
	}
}

func TestTake_IsDoneWhenTheSameRuns(t *testing.T) {
	for _, c := range []struct {
		source, target promote.Workload
		done           bool
		version        string
	}{
		{workload("a/web", "a", "1.2.0"), workload("a/web", "a", "1.2.0"), true, "1.2.0"},
		{workload("a/web", "a", "1.2.0"), workload("a/web", "a", "1.1.0"), false, "1.2.0"},
		{workload("a/web", "a", "1.2.0"), workload("a/web", "b", "1.2.0"), false, "1.2.0"},
		{workload("a/web", "a", "1.2.0"), workload("a/web", "a", ""), true, ""},
		{workload("a/web", "a", ""), workload("a/web", "a", "1.1.0"), true, "1.1.0"},
	} {
		take := promote.Take{Source: c.source, Target: c.target}
		if take.Done() != c.done || take.Version() != c.version {
			t.Errorf("%+v: %t, %q", take, take.Done(), take.Version())
		}
	}
}

func TestRollback(t *testing.T) {
	to := []promote.Workload{workload("shop/web", "d", "v1.1.0"), workload("shop/api", "b", "")}
	for name, c := range map[string]struct {
		image   string
		names   []string
		want    string
		version string
	}{
		"the Workload that runs the image": {"registry.example.com/shop/web@" + digest("a"), nil, "shop/web<-shop/web:a", "v1.1.0"},
		"with the version of its tag":      {"registry.example.com/shop/web:1.0.0@" + digest("a"), nil, "shop/web<-shop/web:a", "v1.0.0"},
		"a tag that is no version":         {"registry.example.com/shop/web:stable@" + digest("a"), nil, "shop/web<-shop/web:a", "v1.1.0"},
		"a tag alone":                      {"registry.example.com/shop/web:1.0.0", nil, "has to name a digest", ""},
		"an image that nobody runs":        {"registry.example.com/shop/db@" + digest("a"), nil, "no Workload of the overlay runs", ""},
		"another Workload":                 {"registry.example.com/shop/web@" + digest("a"), []string{"api"}, "does not change the repository", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ref, err := images.Parse(c.image)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := promote.Rollback(ref, to, c.names)
			if got := shown(plan); err == nil && (got != c.want || plan.Takes[0].Version() != c.version) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

func TestRunning(t *testing.T) {
	well := func() *v1beta1.Workload {
		w := &v1beta1.Workload{}
		w.Namespace, w.Name, w.Generation = "shop", "web", 3
		w.Spec.Image, w.Spec.Version = "registry.example.com/shop/web:1.2.0", "1.2.0"
		w.Status = v1beta1.WorkloadStatus{
			ObservedGeneration: 3, Phase: v1beta1.PhaseReady,
			Conditions: []metav1.Condition{{Type: v1beta1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 3}},
			Images:     []v1beta1.ImageStatus{{Image: "backup:1", Digest: digest("b")}, {Image: "registry.example.com/shop/web:1.2.0", Digest: digest("a")}},
		}
		return w
	}
	got, err := promote.Running(well())
	if err != nil || got.String() != "shop/web" || got.Image.Digest != digest("a") || got.Image.Tag != "1.2.0" || got.Version != "1.2.0" || got.Resolved {
		t.Errorf("%+v: %v", got, err)
	}
	for name, c := range map[string]struct {
		change func(*v1beta1.Workload)
		says   string
	}{
		"a change that the operator has not seen": {func(w *v1beta1.Workload) { w.Generation = 4 }, "has not seen its last change"},
		"a phase that is none of success":         {func(w *v1beta1.Workload) { w.Status.Phase = v1beta1.PhaseCanary }, "is Canary, and not Ready"},
		"not Ready, and why": {func(w *v1beta1.Workload) {
			w.Status.Phase, w.Status.Conditions[0].Status, w.Status.Conditions[0].Message = v1beta1.PhaseBlocked, metav1.ConditionFalse, "denied"
		}, "is Blocked, and not Ready: denied"},
		"Ready, of an older spec": {func(w *v1beta1.Workload) { w.Status.Conditions[0].ObservedGeneration = 2 }, "not Ready"},
		"no condition":            {func(w *v1beta1.Workload) { w.Status.Conditions = nil }, "not Ready"},
		"no status at all":        {func(w *v1beta1.Workload) { w.Status = v1beta1.WorkloadStatus{ObservedGeneration: -1} }, "has not seen"},
		"one that is deleted":     {func(w *v1beta1.Workload) { w.DeletionTimestamp = &metav1.Time{} }, "is being deleted"},
		"no digest of its image":  {func(w *v1beta1.Workload) { w.Status.Images = w.Status.Images[:1] }, "names no digest"},
		"another digest than is pinned": {func(w *v1beta1.Workload) {
			w.Spec.Image += "@" + digest("c")
			w.Status.Images[1].Image = w.Spec.Image
		}, "is pinned: somebody else"},
		"two digests of one image": {func(w *v1beta1.Workload) {
			w.Status.Images[0] = v1beta1.ImageStatus{Image: w.Spec.Image, Digest: digest("b")}
		}, "somebody else"},
		"a digest that is none": {func(w *v1beta1.Workload) { w.Status.Images[1].Digest = "sha256:0" }, "names no digest"},
	} {
		t.Run(name, func(t *testing.T) {
			w := well()
			c.change(w)
			if got, err := promote.Running(w); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v: %v", got, err)
			}
		})
	}
}
