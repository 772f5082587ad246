package render_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/render"
	"github.com/sluice-dev/sluice/operator/internal/testkit/golden"
)

// full is a Deployment with everything that a Workload can ask for.
func full() *v1beta1.Workload {
	two := intstr.FromInt32(2)
	return &v1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"own": "not copied"}},
		Spec: v1beta1.WorkloadSpec{
			Image: "registry.example.com/shop/web:1.2.3", Version: "1.2.3", Replicas: new(int32(3)), Tenant: "shop",
			Ports: []v1beta1.Port{
				{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}, {Name: "dns", Port: 5353, Protocol: corev1.ProtocolUDP},
			},
			Command: []string{"/app"}, Args: []string{"--verbose"},
			Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "EMPTY"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			Probes: &v1beta1.Probes{
				Startup:   &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}},
				Readiness: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")}}},
				Liveness:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/app", "alive"}}}},
			},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
			Config:           &v1beta1.ConfigFiles{MountPath: "/etc/app", Files: map[string]string{"app.yaml": "a: b\n", "b.txt": ""}},
			Secrets:          []v1beta1.SecretRef{{Name: "database", EnvFrom: true}, {Name: "tls", MountPath: "/etc/tls"}},
			Availability: &v1beta1.Availability{MinAvailable: &two, Spread: []v1beta1.SpreadConstraint{
				{TopologyKey: "topology.kubernetes.io/zone", MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway},
			}},
			Backup: &v1beta1.Backup{
				Schedule: "0 3 * * *", Image: "registry.example.com/shop/backup:1", S3: v1beta1.S3{Bucket: "backups", Region: "eu-central-1"},
			},
			DeletionPolicy: v1beta1.DeletionPolicyDelete,
		},
	}
}

// database is a StatefulSet with everything.
func database() *v1beta1.Workload {
	w := full()
	w.Name = "orders-db"
	w.Spec.ServiceAccountName = "orders"
	w.Spec.Storage = &v1beta1.Storage{Size: "10Gi", ClassName: "fast", MountPath: "/data", Retain: true}
	w.Spec.Availability.MinAvailable = nil
	return w
}

func least() *v1beta1.Workload {
	return &v1beta1.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
		Spec:       v1beta1.WorkloadSpec{Image: "registry.example.com/shop/web:1", Replicas: new(int32(1))},
	}
}

func children(t *testing.T, w *v1beta1.Workload) []map[string]any {
	t.Helper()
	got, err := render.Children(w)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func text(t *testing.T, children []map[string]any) string {
	t.Helper()
	var b strings.Builder
	for _, c := range children {
		raw, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(raw))
	}
	return b.String()
}

// child returns the child of a kind, nil if there is none.
func child(children []map[string]any, kind string) *unstructured.Unstructured {
	for _, c := range children {
		if c["kind"] == kind {
			return &unstructured.Unstructured{Object: c}
		}
	}
	return nil
}

func TestChildren_AreTheGoldenOnes(t *testing.T) {
	patched := database()
	patched.Spec.Patches = []v1beta1.Patch{
		{Patch: "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: orders-db}\nspec: {template: {spec: {containers: [{name: app, env: [{name: C, value: d}]}]}}}\n"},
		{Patch: "- {op: replace, path: /spec/ports/0/port, value: 80}\n", Target: &v1beta1.PatchTarget{Kind: "Service"}},
	}
	for name, w := range map[string]*v1beta1.Workload{"deployment": full(), "statefulset": database(), "least": least(), "patched": patched} {
		t.Run(name, func(t *testing.T) {
			got := text(t, children(t, w))
			golden.Compare(t, name+".yaml", got)
			for range 100 {
				if again := text(t, children(t, w)); again != got {
					t.Fatalf("the same Workload renders to\n%s\nand\n%s", got, again)
				}
			}
		})
	}
}

func TestChildren_LeaveTheWorkloadAsItIs(t *testing.T) {
	w, same := database(), database()
	w.Spec.Patches = []v1beta1.Patch{{Patch: "- {op: remove, path: /spec/replicas}\n", Target: &v1beta1.PatchTarget{Kind: "StatefulSet"}}}
	same.Spec.Patches = w.Spec.Patches
	got := children(t, w)
	for _, c := range got {
		c["metadata"].(map[string]any)["name"] = "changed"
	}
	if !reflect.DeepEqual(w, same) {
		t.Error("it was changed")
	}
}

func TestChildren_BudgetNeedsMoreThanOneReplica(t *testing.T) {
	for replicas, want := range map[int32]bool{0: false, 1: false, 2: true, 100: true} {
		w := full()
		w.Spec.Replicas = &replicas
		if got := child(children(t, w), "PodDisruptionBudget") != nil; got != want {
			t.Errorf("%d replicas: %v", replicas, got)
		}
	}
}

// podTemplates are the pods that the children make, by kind.
func podTemplates(t *testing.T, children []map[string]any) map[string]corev1.PodTemplateSpec {
	t.Helper()
	out := map[string]corev1.PodTemplateSpec{}
	for kind, path := range map[string][]string{
		"Deployment": {"spec", "template"}, "StatefulSet": {"spec", "template"}, "CronJob": {"spec", "jobTemplate", "spec", "template"},
	} {
		c := child(children, kind)
		if c == nil {
			continue
		}
		template, _, err := unstructured.NestedMap(c.Object, path...)
		var pod corev1.PodTemplateSpec
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod)
		}
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		out[kind] = pod
	}
	return out
}

func TestChildren_PodsAreBehindTheNetworkPolicyAndHaveNoToken(t *testing.T) {
	for name, w := range map[string]*v1beta1.Workload{"deployment": full(), "statefulset": database(), "least": least()} {
		got := children(t, w)
		policy := &networkingv1.NetworkPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(child(got, "NetworkPolicy").Object, policy); err != nil {
			t.Fatal(err)
		}
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		if selector.Matches(labels.Set{render.LabelInstance: w.Name, "app.kubernetes.io/name": "another"}) {
			t.Errorf("%s: it is over pods of others", name)
		}
		pods := podTemplates(t, got)
		if len(pods) == 0 {
			t.Fatalf("%s: no pods", name)
		}
		for kind, pod := range pods {
			if !selector.Matches(labels.Set(pod.Labels)) {
				t.Errorf("%s: the pods of the %s are open to all: %v", name, kind, pod.Labels)
			}
			if mounts := pod.Spec.AutomountServiceAccountToken; mounts == nil || *mounts {
				t.Errorf("%s: the pods of the %s get a token", name, kind)
			}
		}
		if account := child(got, "ServiceAccount"); account != nil && account.Object["automountServiceAccountToken"] != false {
			t.Errorf("%s: the account gives a token to whoever uses it", name)
		}
	}
}

// While a rollout takes pods from one number to another, those of both are reached: what is
// not a pod, and so changes at once, knows ports by name alone.
func TestChildren_PodsOfBothNumbersAreReachedWhileAPortChanges(t *testing.T) {
	before, after := full(), full()
	for i := range after.Spec.Ports {
		after.Spec.Ports[i].Port++
	}
	old, now := children(t, before), children(t, after)
	policy, _, err := unstructured.NestedSlice(child(now, "NetworkPolicy").Object, "spec", "ingress")
	if err != nil || len(policy) != 1 {
		t.Fatalf("%v: %v", policy, err)
	}
	if diff := cmp.Diff(child(old, "NetworkPolicy").Object, child(now, "NetworkPolicy").Object); diff != "" {
		t.Errorf("pods that run are cut off: %s", diff)
	}
	ports, _, err := unstructured.NestedSlice(child(now, "Service").Object, "spec", "ports")
	if err != nil || len(ports) != len(after.Spec.Ports) {
		t.Fatalf("%v: %v", ports, err)
	}
	for i, p := range ports {
		if got := p.(map[string]any)["targetPort"]; got != after.Spec.Ports[i].Name {
			t.Errorf("the Service goes to port %v, and not to %s", got, after.Spec.Ports[i].Name)
		}
	}
}

func TestChildren_PodsSpreadAsAsked(t *testing.T) {
	for kind, w := range map[string]*v1beta1.Workload{"Deployment": full(), "StatefulSet": database()} {
		pod := podTemplates(t, children(t, w))[kind]
		if len(pod.Spec.TopologySpreadConstraints) != 1 {
			t.Fatalf("%s: %v", kind, pod.Spec.TopologySpreadConstraints)
		}
		c := pod.Spec.TopologySpreadConstraints[0]
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) || c.TopologyKey != "topology.kubernetes.io/zone" || c.MaxSkew != 1 {
			t.Errorf("%s: %+v, %v", kind, c, err)
		}
	}
}

func TestChildren_ConfigRollsThePods(t *testing.T) {
	names := map[string]string{}
	for about, files := range map[string]map[string]string{
		"one file":                   {"a": "b"},
		"other content":              {"a": "c"},
		"another name":               {"b": "b"},
		"an empty file more":         {"a": "b", "c": ""},
		"content moved to the name":  {"ab": ""},
		"two files":                  {"a": "1", "b": "2"},
		"two files with ends moved":  {"a": "11:b", "b": "2"},
		"the content with a newline": {"a": "b\n"},
	} {
		w := full()
		w.Spec.Config.Files = files
		got := children(t, w)
		name := child(got, "ConfigMap").GetName()
		if other, ok := names[name]; ok {
			t.Errorf("%s and %s are both %s", about, other, name)
		}
		names[name] = about
		if !strings.Contains(fmt.Sprint(child(got, "Deployment").Object), name) {
			t.Errorf("%s: the pods do not mount %s", about, name)
		}
	}
}

func TestChildren_DataSurvivesAllButAPlainDelete(t *testing.T) {
	for _, c := range []struct {
		policy v1beta1.DeletionPolicy
		retain bool
		want   string
	}{
		{v1beta1.DeletionPolicyDelete, false, "Delete"}, {v1beta1.DeletionPolicyDelete, true, "Retain"},
		{v1beta1.DeletionPolicyOrphan, false, "Retain"}, {v1beta1.DeletionPolicyRetainStorage, false, "Retain"},
	} {
		w := database()
		w.Spec.DeletionPolicy, w.Spec.Storage.Retain = c.policy, c.retain
		got, _, err := unstructured.NestedString(child(children(t, w), "StatefulSet").Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
		if err != nil || got != c.want {
			t.Errorf("%s with retain %v: %s %v", c.policy, c.retain, got, err)
		}
	}
}

func TestChildren_RefusesWhatCannotRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1beta1.Workload)
		says   []string
	}{
		"a size that is none":          {func(w *v1beta1.Workload) { w.Spec.Storage.Size = "ten" }, []string{"spec.storage.size", "ten"}},
		"a path used twice":            {func(w *v1beta1.Workload) { w.Spec.Config.MountPath = "/data" }, []string{"spec.storage.mountPath", "spec.config.mountPath"}},
		"a path used twice, in a list": {func(w *v1beta1.Workload) { w.Spec.Secrets[1].MountPath = "/data/" }, []string{"spec.secrets[1].mountPath", "/data"}},
		"a probe by a port nowhere":    {func(w *v1beta1.Workload) { w.Spec.Probes = probes("web") }, []string{"spec.probes.readiness.httpGet.port", `"web"`, "container app", "spec.ports"}},
		"a number that is a name":      {func(w *v1beta1.Workload) { w.Spec.Probes = probes("5432") }, []string{"spec.probes.readiness.httpGet.port", `"5432"`}},
		"a probe where no port is":     {func(w *v1beta1.Workload) { w.Spec.Ports, w.Spec.Probes = nil, probes("http") }, []string{"spec.probes.readiness.httpGet.port"}},
		"a startup probe by socket": {func(w *v1beta1.Workload) {
			w.Spec.Probes = &v1beta1.Probes{Startup: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web")}}}}
		}, []string{"spec.probes.startup.tcpSocket.port"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := database()
			c.change(w)
			_, err := render.Children(w)
			mustFail(t, err, c.says...)
			if at := new(render.FieldError); !errors.As(err, &at) || !strings.HasPrefix(err.Error(), at.Path+": ") {
				t.Errorf("%T is no FieldError", err)
			}
		})
	}
}

// probes ask one port for readiness.
func probes(port string) *v1beta1.Probes {
	return &v1beta1.Probes{Readiness: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString(port)}}}}
}

func mustFail(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error does not say %q: %v", s, err)
		}
	}
}

func TestChildren_TmpIsMountedOnce(t *testing.T) {
	w := database()
	w.Spec.Storage.MountPath = "/tmp"
	if got := strings.Count(text(t, []map[string]any{child(children(t, w), "StatefulSet").Object}), "mountPath: /tmp"); got != 1 {
		t.Errorf("%d mounts at /tmp", got)
	}
}

func TestChildren_RenderSideBySide(t *testing.T) {
	want := map[int]string{}
	make := func(i int) *v1beta1.Workload {
		w := database()
		w.Name = fmt.Sprint("db", i)
		w.Spec.Patches = []v1beta1.Patch{{Patch: fmt.Sprintf("kind: StatefulSet\napiVersion: apps/v1\nmetadata: {name: db%d}\nspec: {template: {spec: {containers: [{name: app, env: [{name: N, value: n%d}]}, {name: s%d, image: i}]}}}\n", i, i, i)}}
		return w
	}
	for i := range 8 {
		want[i] = text(t, children(t, make(i)))
		if !strings.Contains(want[i], w8(i)) || !strings.Contains(want[i], "registry.example.com/shop/web:1.2.3") {
			t.Fatalf("the patch did not apply:\n%s", want[i])
		}
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			got, err := render.Children(make(i))
			if err != nil {
				t.Error(err)
				return
			}
			if text(t, got) != want[i] {
				t.Errorf("side by side with others %d renders differently", i)
			}
		})
	}
	group.Wait()
}

func w8(i int) string { return fmt.Sprintf("value: n%d", i) }

func TestChildren_Images(t *testing.T) {
	w := database()
	w.Spec.Patches = []v1beta1.Patch{{
		Target: &v1beta1.PatchTarget{Kind: "StatefulSet"},
		Patch: anything + "spec: {template: {spec: {containers: [{name: miner, image: evil.io/miner}], initContainers: [{name: i, image: evil.io/init}]," +
			" volumes: [{name: v, image: {reference: evil.io/volume}}]}}}\n",
	}}
	found, err := images.Collect(children(t, w))
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, i := range found {
		refs = append(refs, i.Ref)
	}
	slices.Sort(refs)
	want := []string{"evil.io/init", "evil.io/miner", "evil.io/volume", "registry.example.com/shop/backup:1", "registry.example.com/shop/web:1.2.3"}
	if !slices.Equal(refs, want) {
		t.Errorf("images are %v", refs)
	}
}
