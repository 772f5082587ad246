package admission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/admission"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// team makes a namespace of the test's own, under the Gate of mode Enforce.
func team(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-", Labels: map[string]string{environmentLabel: "enforce"}}}
	if err := api.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func on(namespace, name string, dependencies ...string) *v1beta1.Workload {
	w := workload(namespace, name, depot.Host()+"/shop/ordered:1")
	for _, d := range dependencies {
		ref := v1beta1.DependencyRef{Name: d}
		if ns, n, elsewhere := strings.Cut(d, "/"); elsewhere {
			ref = v1beta1.DependencyRef{Namespace: ns, Name: n}
		}
		w.Spec.DependsOn = append(w.Spec.DependsOn, ref)
	}
	return w
}

// known stores Workloads, and waits until the webhook's cache has the last of them: a
// dependent that closes a cycle is refused then.
func known(t *testing.T, workloads ...*v1beta1.Workload) {
	t.Helper()
	push(t, "shop/ordered", true)
	for _, w := range workloads {
		if err := api.Create(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	seen := func(ctx context.Context) (bool, error) {
		for _, w := range workloads {
			if err := cached.Get(ctx, client.ObjectKeyFromObject(w), &v1beta1.Workload{}); err != nil {
				return false, client.IgnoreNotFound(err)
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, seen); err != nil {
		t.Fatal(err)
	}
}

func TestWorkloads_RefuseACycleOfDependencies(t *testing.T) {
	ns := team(t)
	known(t, on(ns, "b", "c"), on(ns, "c", "a"))
	cycle := fmt.Sprintf("%[1]s/a -> %[1]s/b -> %[1]s/c -> %[1]s/a", ns)
	err := api.Create(t.Context(), on(ns, "a", "nobody", "b"))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), cycle) || !strings.Contains(err.Error(), "spec.dependsOn[1]") {
		t.Errorf("create: %v", err)
	}
	a := on(ns, "a", "nobody")
	if err := api.Create(t.Context(), a); err != nil {
		t.Fatalf("one that only depends on what is not there: %v", err)
	}
	a.Spec.DependsOn = append(a.Spec.DependsOn, v1beta1.DependencyRef{Name: "b", Namespace: ns})
	if err := api.Update(t.Context(), a); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), cycle) {
		t.Errorf("update: %v", err)
	}
	if got := ask(t, admission.PathWorkload, review(t, "CREATE", "", on(ns, "self", "self"), nil)); got.Allowed || !strings.Contains(got.Result.Message, ns+"/self -> "+ns+"/self") {
		t.Errorf("on itself: %+v", got)
	}
	if err := api.Create(t.Context(), on(ns, "d", "b", "c")); err != nil {
		t.Errorf("one that closes no cycle: %v", err)
	}
}

// What arose by two writes at once must not block what has nothing to do with it.
func TestWorkloads_LeaveAnOldCycleAlone(t *testing.T) {
	ns := team(t)
	known(t, on(ns, "b", "a"))
	a := on(ns, "a", "b")
	ask := func(operation, subresource string, o any, old any) *admissionv1.AdmissionResponse {
		return ask(t, admission.PathWorkload, review(t, admissionv1.Operation(operation), subresource, o, old))
	}
	if got := ask("CREATE", "", a, nil); got.Allowed || got.AuditAnnotations["verdicts"] == "" {
		t.Fatalf("a cycle is let through, or its verdict is not logged: %+v", got)
	}
	labelled, more := a.DeepCopy(), a.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	more.Spec.DependsOn = append(more.Spec.DependsOn, v1beta1.DependencyRef{Name: "c"})
	fewer := a.DeepCopy()
	fewer.Spec.DependsOn = nil
	scaled := scaledTo(a, 3)
	for name, got := range map[string]*admissionv1.AdmissionResponse{
		"a label":                  ask("UPDATE", "", labelled, a),
		"another field":            ask("UPDATE", "", scaled, a),
		"a finalizer on its way":   ask("UPDATE", "", deleted(a), deleted(a)),
		"the end of it":            ask("UPDATE", "", fewer, a),
		"the end of it in passing": ask("UPDATE", "", deleted(fewer), deleted(a)),
	} {
		if !got.Allowed {
			t.Errorf("%s: %+v", name, got.Result)
		}
	}
	if got := ask("UPDATE", "", more, a); got.Allowed {
		t.Error("a change of the dependencies that leaves the cycle is let through")
	}
}

func TestWorkloads_FollowDependenciesElsewhereOnlyWhereTheirOwnerLetsThem(t *testing.T) {
	ours, theirs := team(t), team(t)
	open, shut := on(theirs, "open", ours+"/web"), on(theirs, "shut", ours+"/web")
	open.Spec.DependentNamespaces = []string{"elsewhere", ours}
	known(t, open, shut)
	consents := func(dependency string) *v1beta1.Workload {
		w := on(ours, "web", theirs+"/"+dependency)
		w.Spec.DependentNamespaces = []string{"*"}
		return w
	}
	if got := ask(t, admission.PathWorkload, review(t, "CREATE", "", consents("open"), nil)); got.Allowed || !strings.Contains(got.Result.Message, theirs+"/open -> "+ours+"/web") &&
		!strings.Contains(got.Result.Message, ours+"/web -> "+theirs+"/open") {
		t.Errorf("a cycle over two namespaces: %+v", got.Result)
	}
	// What is answered must not tell what is there.
	for _, name := range []string{"shut", "nobody"} {
		if got := ask(t, admission.PathWorkload, review(t, "CREATE", "", consents(name), nil)); !got.Allowed {
			t.Errorf("%s: %+v", name, got.Result)
		}
	}
}

func TestWorkloads_BoundHowFarDependenciesReach(t *testing.T) {
	ns := team(t)
	var chain []*v1beta1.Workload
	for i := range limits.DependencyDepth + 1 {
		chain = append(chain, on(ns, fmt.Sprint("w", i), fmt.Sprint("w", i+1)))
	}
	known(t, chain...)
	err := api.Create(t.Context(), on(ns, "far", "w0"))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "limits.DependencyDepth") {
		t.Errorf("a chain that is too long: %v", err)
	}
	if err := api.Create(t.Context(), on(ns, "near", "w5")); err != nil {
		t.Errorf("a shorter one: %v", err)
	}
}
