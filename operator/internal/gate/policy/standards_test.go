package policy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	standards "k8s.io/pod-security-admission/test"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// The groups baseline and restricted are the Pod Security Standards. Kubernetes's own
// judge of them, and the pods that it is tested with, hold them to that.

var levels = []api.Level{api.LevelBaseline, api.LevelRestricted}

// standardsVersion is the newest version of the standards that the module knows.
const standardsVersion = "v1.35"

// podGate judges one pod by one group, as the gate does a pod that no Workload made.
func podGate(t testing.TB, check *Check, level api.Level, pod *corev1.Pod) gate.Findings {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	object["apiVersion"], object["kind"] = "v1", "Pod"
	found := check.Evaluate(context.Background(), &gate.Input{
		Gate:      gate.Config{Name: "g", Policies: []gate.PolicySet{builtin(t, string(level))}},
		Object:    gate.ObjectRef{APIVersion: "v1", Kind: "Pod", Name: pod.Name},
		Submitted: object, Children: []map[string]any{object},
	})
	if len(found.Undecided) > 0 {
		t.Fatal(show(found))
	}
	return found
}

// fixtures of one level and outcome, by path; they come with the module's source.
func standardPods(t *testing.T, level api.Level, outcome string) map[string]*corev1.Pod {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "test", "testdata", string(level), standardsVersion, outcome, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pods of %s: %v", level, err)
	}
	pods := map[string]*corev1.Pod{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict(text, pod); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		pods[filepath.Base(file)] = pod
	}
	return pods
}

func TestStandards_EveryPodOfKubernetesIsJudgedAsItsDirectorySays(t *testing.T) {
	check := New()
	// The module has this many of 1.35: fewer would mean that some were not read.
	want := map[string]int{"baseline pass": 15, "baseline fail": 34, "restricted pass": 23, "restricted fail": 76}
	for _, level := range levels {
		for _, outcome := range []string{"pass", "fail"} {
			pods := standardPods(t, level, outcome)
			if n := want[string(level)+" "+outcome]; len(pods) != n {
				t.Errorf("%d pods that %s %s, want %d", len(pods), outcome, level, n)
			}
			for name, pod := range pods {
				if found := podGate(t, check, level, pod); (len(found.Deny) > 0) != (outcome == "fail") {
					t.Errorf("%s/%s/%s: %s", level, outcome, name, show(found))
				}
			}
		}
	}
}

// controls names the standard's control for each of our rules.
var controls = map[string]string{
	"app-armor": "forbidden AppArmor profile", "host-namespaces": "host namespaces", "host-ports": "hostPort",
	"probe-hosts": "probe or lifecycle host", "privilege-escalation": "allowPrivilegeEscalation != false",
	"proc-mount": "procMount", "seccomp-profile": "seccompProfile", "selinux": "seLinuxOptions", "sysctls": "forbidden sysctls",
	"capabilities": "capabilities", "volume-types": "volumes", "privileged": "privileged", "run-as-non-root": "root",
}

// reasons folds what Kubernetes says into the words of controls.
func reasons(results []policy.CheckResult) []string {
	var all []string
	for _, r := range results {
		if r.Allowed {
			continue
		}
		switch reason := strings.TrimSuffix(r.ForbiddenReason, "profiles"); {
		case strings.HasPrefix(reason, "forbidden AppArmor"):
			all = append(all, "forbidden AppArmor profile")
		case strings.HasPrefix(reason, "runAs"):
			all = append(all, "root")
		case reason == "hostProcess":
			all = append(all, "privileged")
		case strings.HasSuffix(reason, "capabilities"):
			all = append(all, "capabilities")
		case reason == "hostPath volumes", reason == "restricted volume types":
			all = append(all, "volumes")
		default:
			all = append(all, reason)
		}
	}
	return distinct(all)
}

func distinct(in []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	sort.Strings(out)
	return out
}

func TestStandards_RandomPodsAreJudgedAsKubernetesJudgesThem(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	check := New()
	denied := map[string]int{}
	allowed := map[api.Level]int{}
	const seeds = 1500
	for seed := range uint64(seeds) {
		for _, level := range levels {
			pod := randomPod(t, level, rand.New(rand.NewPCG(seed, 35)))
			want := reasons(evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
			var got []string
			for _, f := range podGate(t, check, level, pod).Deny {
				control, ok := controls[strings.TrimPrefix(f.Policy, string(level)+"/")]
				if !ok {
					t.Fatalf("rule %s is of no control", f.Policy)
				}
				got = append(got, control)
			}
			if got = distinct(got); fmt.Sprint(got) != fmt.Sprint(want) {
				text, _ := yaml.Marshal(pod)
				t.Fatalf("seed %d, %s: we deny for %v, Kubernetes for %v:\n%s", seed, level, got, want, text)
			}
			for _, control := range want {
				denied[string(level)+" "+control]++
			}
			if len(want) == 0 {
				allowed[level]++
			}
		}
	}
	// A comparison that never meets a control says nothing about it.
	for _, level := range levels {
		for rule, control := range controls {
			onlyRestricted := rule == "run-as-non-root" || rule == "privilege-escalation"
			if denied[string(level)+" "+control] < 5 && (level == api.LevelRestricted || !onlyRestricted) {
				t.Errorf("%s: only %d pods break %s", level, denied[string(level)+" "+control], control)
			}
		}
		if allowed[level] < seeds/20 {
			t.Errorf("%s: only %d pods are allowed", level, allowed[level])
		}
	}
}

// randomPod takes a valid pod and changes a few things that the standards look at, for
// better or worse.
func randomPod(t *testing.T, level api.Level, r *rand.Rand) *corev1.Pod {
	t.Helper()
	valid := []func(api.Level, api.Version) (*corev1.Pod, error){standards.GetMinimalValidPod}
	if level == api.LevelRestricted {
		valid = append(valid, standards.GetMinimalValidLinuxPod, standards.GetMinimalValidWindowsPod)
	}
	pod, err := pick(r, valid...)(level, api.MajorMinorVersion(1, 35))
	if err != nil {
		t.Fatal(err)
	}
	pod.Name = "p"
	if r.IntN(4) == 0 {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon(*pod.Spec.Containers[0].DeepCopy()),
		})
	}
	for range r.IntN(4) {
		if r.IntN(3) == 0 {
			changePod(r, pod)
			continue
		}
		containers := []*corev1.Container{&pod.Spec.Containers[0], &pod.Spec.InitContainers[0]}
		for i := range pod.Spec.EphemeralContainers {
			containers = append(containers, (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
		}
		changeContainer(r, pick(r, containers...))
	}
	return pod
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// maybe is a pointer to one of the values, or none.
func maybe[T any](r *rand.Rand, of ...T) *T {
	if i := r.IntN(len(of) + 1); i < len(of) {
		return &of[i]
	}
	return nil
}

func changePod(r *rand.Rand, pod *corev1.Pod) {
	if pod.Spec.SecurityContext == nil {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	sc := pod.Spec.SecurityContext
	pick(r,
		func() { pod.Spec.HostNetwork = pick(r, true, false) },
		func() { pod.Spec.HostPID = pick(r, true, false) },
		func() { pod.Spec.HostIPC = pick(r, true, false) },
		func() { pod.Spec.HostUsers = maybe(r, true, false) },
		func() { pod.Spec.OS = &corev1.PodOS{Name: pick(r, corev1.Windows, corev1.Linux)} },
		func() { sc.RunAsNonRoot = maybe(r, true, false) },
		func() { sc.RunAsUser = maybe[int64](r, 0, 1) },
		func() { sc.SeccompProfile = seccomp(r) },
		func() { sc.AppArmorProfile = appArmor(r) },
		func() { sc.SELinuxOptions = seLinux(r) },
		func() { sc.WindowsOptions = windows(r) },
		func() {
			sc.Sysctls = []corev1.Sysctl{{Name: pick(r, "net.ipv4.tcp_rmem", "kernel.msgmax", "net.ipv4.ip_forward", "kernel.shm_rmid_forced"), Value: "1"}}
		},
		func() {
			pod.Annotations = map[string]string{
				"container.apparmor.security.beta.kubernetes.io/" + pick(r, "container1", "nobody"): pick(r, "unconfined", "runtime/default", "localhost/x", "localhost", ""),
			}
		},
		func() {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: volume(r)})
		},
		func() { pod.Spec.SecurityContext = nil },
	)()
}

func changeContainer(r *rand.Rand, c *corev1.Container) {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	sc := c.SecurityContext
	pick(r,
		func() { sc.Privileged = maybe(r, true, false) },
		func() { sc.AllowPrivilegeEscalation = maybe(r, true, false) },
		func() { sc.RunAsNonRoot = maybe(r, true, false) },
		func() { sc.RunAsUser = maybe[int64](r, 0, 1) },
		func() {
			sc.ProcMount = maybe(r, corev1.DefaultProcMount, corev1.UnmaskedProcMount, corev1.ProcMountType("Other"))
		},
		func() { sc.SeccompProfile = seccomp(r) },
		func() { sc.AppArmorProfile = appArmor(r) },
		func() { sc.SELinuxOptions = seLinux(r) },
		func() { sc.WindowsOptions = windows(r) },
		func() {
			sc.Capabilities = maybe(r,
				corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, corev1.Capabilities{Drop: []corev1.Capability{"all"}},
				corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"}},
				corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW", "ALL"}, Add: []corev1.Capability{"CHOWN"}},
				corev1.Capabilities{Add: []corev1.Capability{"KILL", "SYS_ADMIN"}})
		},
		func() {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: pick[int32](r, 0, 80)}}
		},
		func() {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler(handler(r))}
		},
		func() {
			c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: handler(r).TCPSocket}}
		},
		func() {
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: handler(r).HTTPGet}}
		},
		func() {
			h := handler(r)
			c.Lifecycle = pick(r, &corev1.Lifecycle{PreStop: lifecycle(h)}, &corev1.Lifecycle{PostStart: lifecycle(h)}, &corev1.Lifecycle{})
		},
		func() { c.SecurityContext = nil },
	)()
}

// handler has one action, towards the pod or elsewhere.
func handler(r *rand.Rand) corev1.ProbeHandler {
	host := pick(r, "", "127.0.0.1", "example.com")
	return pick(r,
		corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: host, Port: intstr.FromInt32(80)}},
		corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host, Port: intstr.FromInt32(80)}},
		corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}})
}

func lifecycle(h corev1.ProbeHandler) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket, Exec: h.Exec}
}

func seccomp(r *rand.Rand) *corev1.SeccompProfile {
	return maybe(r, corev1.SeccompProfile{Type: "RuntimeDefault"}, corev1.SeccompProfile{Type: "Localhost"},
		corev1.SeccompProfile{Type: "Unconfined"}, corev1.SeccompProfile{})
}

func appArmor(r *rand.Rand) *corev1.AppArmorProfile {
	return maybe(r, corev1.AppArmorProfile{Type: "RuntimeDefault"}, corev1.AppArmorProfile{Type: "Localhost"},
		corev1.AppArmorProfile{Type: "Unconfined"}, corev1.AppArmorProfile{Type: "Other"}, corev1.AppArmorProfile{})
}

func seLinux(r *rand.Rand) *corev1.SELinuxOptions {
	return maybe(r, corev1.SELinuxOptions{}, corev1.SELinuxOptions{Type: "container_t", Level: "s0"},
		corev1.SELinuxOptions{Type: "container_engine_t"}, corev1.SELinuxOptions{Type: "spc_t"},
		corev1.SELinuxOptions{User: "u"}, corev1.SELinuxOptions{Role: "r"})
}

func windows(r *rand.Rand) *corev1.WindowsSecurityContextOptions {
	yes, no := true, false
	return maybe(r, corev1.WindowsSecurityContextOptions{HostProcess: &yes},
		corev1.WindowsSecurityContextOptions{HostProcess: &no}, corev1.WindowsSecurityContextOptions{})
}

// volume has exactly one source, as the API server sees to before Kubernetes judges.
func volume(r *rand.Rand) corev1.VolumeSource {
	return pick(r,
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "x"}},
		corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
		corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "x"}},
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
		corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "x"}},
		corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{Repository: "x"}},
		corev1.VolumeSource{FC: &corev1.FCVolumeSource{}})
}
