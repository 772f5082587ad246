package workload

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

var stories = flag.Uint64("stories", 4, "how many random stories are told, about 10 s each")

const (
	propertySteps = 200
	// settling is how many reconciles may be needed from any state to rest: one for a write
	// that was lost, one for each pause of a quarrel, two for the rollout and what it leaves
	// behind, and some in reserve.
	settling = 20
)

// Whatever happened on the way, what stands at the end is what the last spec alone would
// have made.
func TestReconcile_EndsWhereTheLastSpecAloneWouldHaveLed(t *testing.T) {
	for seed := range *stories {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			s := newStory(t, seed)
			for range propertySteps {
				s.step()
			}
			s.settle()

			alone := newBench(t)
			alone.t = t
			w := alone.workload("web", func(w *v1beta1.Workload) { s.last.DeepCopyInto(&w.Spec) })
			create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: alone.namespace}})
			calm := &story{bench: alone, w: w}
			calm.settle()
			want, got := calm.outcome(w), s.outcome(s.w)
			leaveOutLost(got, want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after %s\n-alone +after the story: %s", strings.Join(s.told, ", "), diff)
			}
		})
	}
}

// leaveOutLost takes out of an outcome what lost the operator's mark and is not asked for any
// more: it goes with the Workload.
func leaveOutLost(got, want map[string]any) {
	for name, content := range got {
		if fields, ok := content.(map[string]any); ok && want[name] == nil && fields["labels"].(map[string]string)[render.LabelManagedBy] == "" {
			delete(got, name)
		}
	}
}

// story is a Workload to which things happen.
type story struct {
	*bench
	w        *v1beta1.Workload
	random   *rand.Rand
	images   []string
	unsigned string
	// last is the last spec that is allowed.
	last v1beta1.WorkloadSpec
	told []string
}

func newStory(t *testing.T, seed uint64) *story {
	b := newBench(t)
	s := &story{bench: b, random: rand.New(rand.NewPCG(seed, 1))}
	for i := range 3 {
		image, _ := pushSigned(t, fmt.Sprintf("property/web:%d", i))
		s.images = append(s.images, image)
	}
	s.unsigned, _ = push(t, "property/stranger:1", "stranger")
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: b.namespace}})
	s.w = b.workload("web", func(w *v1beta1.Workload) {
		w.Spec.Image = s.images[0]
		if seed%2 == 1 {
			w.Spec.Storage = &v1beta1.Storage{Size: "1Gi", MountPath: "/data"}
		}
	})
	s.last = *s.w.Spec.DeepCopy()
	return s
}

func (s *story) step() {
	steps := []struct {
		name string
		do   func()
	}{
		{"edit", s.editSpec}, {"edit", s.editSpec},
		{"denied edit", func() { s.change(func(spec *v1beta1.WorkloadSpec) { spec.Image = s.unsigned }) }},
		{"pause", func() { s.change(func(spec *v1beta1.WorkloadSpec) { spec.Paused = !spec.Paused }) }},
		{"delete child", s.deleteChild}, {"drift", s.drift}, {"disown", s.disown},
		{"restart", s.restart}, {"time", func() { s.clock.move(time.Duration(s.random.IntN(90)) * time.Second) }},
		{"trouble", s.trouble}, {"healthy", func() { _ = setHealthy(s.t.Context(), s.w) }},
		{"reconcile", s.once}, {"reconcile", s.once}, {"reconcile", s.once},
	}
	next := steps[s.random.IntN(len(steps))]
	s.told = append(s.told, next.name)
	next.do()
}

func (s *story) once() {
	// Errors are part of the story: the queue would come back.
	_, _ = s.reconcile(s.w)
}

func (s *story) change(edit func(*v1beta1.WorkloadSpec)) {
	s.update(s.w, func(w *v1beta1.Workload) { edit(&w.Spec) })
}

// editSpec makes a spec that is allowed, from the last that was.
func (s *story) editSpec() {
	r := s.random
	spec := s.last.DeepCopy()
	edits := []func(){
		func() { spec.Image = s.images[r.IntN(len(s.images))] },
		func() { spec.Replicas = int32Of(r.Int32N(5)) },
		func() {
			spec.Env = []corev1.EnvVar{{Name: "LEVEL", Value: fmt.Sprint(r.IntN(3))}, {Name: fmt.Sprintf("V%d", r.IntN(3)), Value: "x"}}
		},
		func() {
			spec.Config = &v1beta1.ConfigFiles{MountPath: "/etc/app", Files: map[string]string{"a": fmt.Sprint(r.IntN(4))}}
		},
		func() { spec.Config = nil },
		func() { spec.Secrets = []v1beta1.SecretRef{{Name: "token", EnvFrom: true}} },
		func() { spec.Secrets = nil },
		func() {
			spec.Backup = &v1beta1.Backup{Schedule: "0 3 * * *", Image: s.images[0], S3: v1beta1.S3{Bucket: "b", Region: "r"}}
		},
		func() { spec.Backup = nil },
		func() { spec.Version = fmt.Sprintf("1.%d.0", r.IntN(9)) },
		func() { spec.Ports = []v1beta1.Port{{Name: "http", Port: 8000 + r.Int32N(3)}} },
		func() { spec.ServiceAccountName = "shared" },
		func() { spec.ServiceAccountName = "" },
		func() { spec.Resources = resources(fmt.Sprintf("%dm", 100+r.IntN(3)), "64Mi") },
		func() {
			spec.Patches = []v1beta1.Patch{{
				Patch:  fmt.Sprintf(`[{"op":"add","path":"/spec/template/metadata/annotations","value":{"note":"%d"}}]`, r.IntN(3)),
				Target: &v1beta1.PatchTarget{Kind: s.pods()},
			}}
		},
		func() { spec.Patches = nil },
	}
	edits[r.IntN(len(edits))]()
	spec.Paused = false
	s.change(func(into *v1beta1.WorkloadSpec) { spec.DeepCopyInto(into) })
	// As it is stored, with the API server's defaults.
	s.last = *s.w.Spec.DeepCopy()
}

func (s *story) pods() string {
	if s.w.Spec.Storage != nil {
		return "StatefulSet"
	}
	return "Deployment"
}

// any child that is there; false when none is.
func (s *story) anyChild() (*unstructured.Unstructured, bool) {
	children := s.children()
	list := names(children)
	if len(list) == 0 {
		return nil, false
	}
	return children[list[s.random.IntN(len(list))]], true
}

func (s *story) deleteChild() {
	if c, ok := s.anyChild(); ok {
		s.told = append(s.told, c.GetKind())
		if err := api.Delete(s.t.Context(), c); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *story) disown() {
	if c, ok := s.anyChild(); ok {
		c.SetOwnerReferences(nil)
		s.store(c)
	}
}

// drift edits a child as a person with kubectl does.
func (s *story) drift() {
	c, ok := s.anyChild()
	if !ok {
		return
	}
	edits := []func(){
		func() { c.SetLabels(nil) },
		func() { c.SetAnnotations(nil) },
		func() { setNested(s.t, c, "x", "metadata", "labels", "app.kubernetes.io/name") },
	}
	if c.GetKind() == s.pods() {
		edits = append(edits,
			func() { setNested(s.t, c, int64(9), "spec", "replicas") },
			func() { setNested(s.t, c, "x", "spec", "template", "metadata", "annotations", "inject") },
			func() {
				containers, _, _ := unstructured.NestedSlice(c.Object, "spec", "template", "spec", "containers")
				containers = append(containers, map[string]any{"name": fmt.Sprintf("sidecar-%d", len(containers)), "image": s.unsigned})
				setNested(s.t, c, containers, "spec", "template", "spec", "containers")
			})
	}
	edits[s.random.IntN(len(edits))]()
	s.store(c)
}

func (s *story) store(c *unstructured.Unstructured) {
	if err := api.Update(s.t.Context(), c, client.FieldOwner("kubectl-edit")); err != nil {
		s.t.Fatal(err)
	}
}

// trouble makes some of the next writes fail, a part of them after they were done.
func (s *story) trouble() {
	left := 1 + s.random.IntN(4)
	fail := func(text string) error {
		if left == 0 || s.random.IntN(2) == 0 {
			return nil
		}
		left--
		switch s.random.IntN(4) {
		case 0:
			return apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "x", errors.New(text))
		case 1:
			return apierrors.NewInternalError(errors.New(text))
		case 2:
			return apierrors.NewTooManyRequests(text, 1)
		default:
			return errors.New("connection reset by peer: " + text)
		}
	}
	if s.random.IntN(2) == 0 {
		s.refuse, s.lose = fail, nil
	} else {
		s.refuse, s.lose = nil, fail
	}
}

// settle ends the trouble, brings back the last spec that is allowed if another one
// stands, and reconciles until nothing is written any more.
func (s *story) settle() {
	s.t.Helper()
	s.refuse, s.lose = nil, nil
	if s.random != nil {
		s.change(func(spec *v1beta1.WorkloadSpec) { s.last.DeepCopyInto(spec) })
	}
	for range settling {
		s.taken()
		result, err := s.reconcile(s.w)
		if err != nil {
			continue
		}
		s.read(s.w)
		s.collect()
		if len(s.taken()) == 0 && s.w.Status.Phase == v1beta1.PhaseReady && result.RequeueAfter == limits.Reverify {
			return
		}
		_ = setHealthy(s.t.Context(), s.w)
		s.collect()
		s.clock.move(2 * time.Minute)
	}
	s.read(s.w)
	s.t.Fatalf("not at rest after %d reconciles: %s %+v", settling, s.w.Status.Phase, s.w.Status.Conditions)
}

// forgetVersions takes out which version of the Secret the pods have: the two namespaces
// have each its own.
func (s *story) forgetVersions(c *unstructured.Unstructured, annotations map[string]string) {
	if text, ok := annotations[annotationMark]; ok {
		annotations[annotationMark] = hashes.ReplaceAllString(text, "-")
	}
	path := []string{"spec", "template", "metadata", "annotations", annotationReferenced}
	if text, ok, _ := unstructured.NestedString(c.Object, path...); ok {
		setNested(s.t, c, hashes.ReplaceAllString(text, "-"), path...)
	}
}

var hashes = regexp.MustCompile(`[0-9a-f]{16}`)

// outcome is what stands in the namespace, without what only says where and when.
func (s *story) outcome(w *v1beta1.Workload) map[string]any {
	s.t.Helper()
	s.read(w)
	out := map[string]any{}
	for name, c := range s.children() {
		if !metav1.IsControlledBy(c, w) && c.GetLabels()[render.LabelManagedBy] != "" {
			s.t.Errorf("%s is not controlled by the Workload", name)
		}
		var note resolved
		if text, ok := c.GetAnnotations()[annotationResolved]; ok {
			if err := json.Unmarshal([]byte(text), &note); err != nil {
				s.t.Fatal(err)
			}
		}
		annotations := c.GetAnnotations()
		delete(annotations, annotationDesired)
		delete(annotations, annotationResolved)
		if strings.Contains(annotations[annotationRollout], `"done":true`) {
			// It says nothing any more, and goes with the next write.
			delete(annotations, annotationRollout)
		}
		for _, path := range [][]string{{"status"}, {"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "healthCheckNodePort"}} {
			unstructured.RemoveNestedField(c.Object, path...)
		}
		content := map[string]any{"labels": c.GetLabels(), "annotations": annotations, "digests": note.Digests}
		s.forgetVersions(c, annotations)
		for field, value := range c.Object {
			if field != "metadata" {
				content[field] = value
			}
		}
		if c.GetKind() == kindRecord && c.GetLabels()[render.LabelManagedBy] != "" {
			// Which generation it is from is how often the spec was changed.
			name = kindRecord
			if out[name] != nil {
				s.t.Error("there are two stable revisions")
			}
			delete(content, "revision")
			for _, field := range []string{"replicas", "paused", "drift"} {
				unstructured.RemoveNestedField(c.Object, "data", "spec", field)
			}
		}
		out[name] = content
	}
	status := map[string]string{}
	for _, c := range w.Status.Conditions {
		status[c.Type] = string(c.Status) + " " + c.Reason
	}
	out["status"], out["phase"], out["images"], out["rollout"] = status, w.Status.Phase, w.Status.Images, w.Status.Rollout
	return out
}
