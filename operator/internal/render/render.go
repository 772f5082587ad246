// Package render turns a Workload into its children: pure, and byte-stable for the same
// input. Typed objects come first; where the Workload has patches, they are applied by
// Kustomize over those.
package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// Labels that every child carries. ManagedBy is also what the operator's cache selects
// children by.
const (
	labelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	labelVersion   = "app.kubernetes.io/version"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	labelTenant    = "sluice.dev/tenant"
	ManagedBy      = "sluice"
)

// mainContainer is the name of the container that spec.image runs in; patches use it.
const mainContainer = "app"

// Children renders the children of a Workload whose defaults are set, in the order in
// which they are applied: what the pods need comes before the pods. The objects carry no
// owner reference: whose they are is not known before the Workload is stored. What is wrong
// with a field is a FieldError.
func Children(w *v1beta1.Workload) ([]map[string]any, error) {
	children, err := Stage(w)
	if err == nil {
		err = probesReach(w, children)
	}
	if err != nil {
		return nil, err
	}
	return children, nil
}

// Stage is Children of a Workload of whose patches some are left out: what they are still to
// bring is not missed.
func Stage(w *v1beta1.Workload) ([]map[string]any, error) {
	r := renderer{w: w}
	if err := r.mountsApart(); err != nil {
		return nil, err
	}
	objects := []runtime.Object{}
	if w.Spec.ServiceAccountName == "" {
		objects = append(objects, r.serviceAccount())
	}
	if w.Spec.Config != nil {
		objects = append(objects, r.configMap())
	}
	objects = append(objects, r.networkPolicy())
	if len(w.Spec.Ports) > 0 || w.Spec.Storage != nil {
		objects = append(objects, r.service())
	}
	if pdb := r.disruptionBudget(); pdb != nil {
		objects = append(objects, pdb)
	}
	pods, err := r.pods()
	if err != nil {
		return nil, err
	}
	objects = append(objects, pods)
	if w.Spec.Backup != nil {
		objects = append(objects, r.backup())
	}
	children := make([]map[string]any, 0, len(objects))
	for _, o := range objects {
		content, err := content(o)
		if err != nil {
			return nil, fmt.Errorf("render %s/%s: %w", w.Namespace, w.Name, err)
		}
		children = append(children, content)
	}
	return patched(w, children)
}

// content is the object as it is applied: without status and without the zero values
// that Go types write and that would claim fields of others.
func content(o runtime.Object) (map[string]any, error) {
	c, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(c, "status")
	prune(c)
	return c, nil
}

// prune removes nulls and empty creationTimestamps, and empty objects except where an
// empty object means something (emptyDir and label selectors).
func prune(v any) {
	switch t := v.(type) {
	case map[string]any:
		for k, x := range t {
			prune(x)
			if x == nil {
				delete(t, k)
			}
			if m, ok := x.(map[string]any); ok && len(m) == 0 && !meaningfulWhenEmpty[k] {
				delete(t, k)
			}
		}
	case []any:
		for _, x := range t {
			prune(x)
		}
	}
}

var meaningfulWhenEmpty = map[string]bool{"emptyDir": true, "podSelector": true, "namespaceSelector": true}

type renderer struct{ w *v1beta1.Workload }

func (r renderer) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: r.w.Namespace, Labels: r.labels()}
}

func (r renderer) labels() map[string]string {
	l := r.selector()
	l[LabelManagedBy] = ManagedBy
	if r.w.Spec.Version != "" {
		l[labelVersion] = r.w.Spec.Version
	}
	if r.w.Spec.Tenant != "" {
		l[labelTenant] = r.w.Spec.Tenant
	}
	return l
}

// selector labels never change: a StatefulSet's and a Deployment's selector is immutable.
func (r renderer) selector() map[string]string { return Selector(r.w.Name) }

// Selector is the labels that select the pods of the Workload of this name.
func Selector(name string) map[string]string {
	return map[string]string{labelName: name, LabelInstance: name}
}

// CanaryName is the name of a canary's own Deployment.
func CanaryName(workload string) string { return workload + "-canary" }

// RecordName is the name of the record of a stable revision.
func RecordName(workload, revision string, generation int64) string {
	return fmt.Sprintf("%s-%s-%d", workload, revision, generation)
}

// ClaimLabels are the labels of the volume claims of the Workload of this name.
func ClaimLabels(name string) map[string]string {
	l := Selector(name)
	l[LabelManagedBy] = ManagedBy
	return l
}

func (r renderer) labelSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: r.selector()}
}

func (r renderer) serviceAccountName() string {
	if r.w.Spec.ServiceAccountName != "" {
		return r.w.Spec.ServiceAccountName
	}
	return r.w.Name
}

func (r renderer) serviceAccount() *corev1.ServiceAccount {
	no := false
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   r.meta(r.w.Name),
		AutomountServiceAccountToken: &no,
	}
}

// configMapName carries a hash of the content, so that a change rolls the pods and the
// old pods keep the old content until they go.
func (r renderer) configMapName() string {
	h := sha256.New()
	names := make([]string, 0, len(r.w.Spec.Config.Files))
	for name := range r.w.Spec.Config.Files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		content := r.w.Spec.Config.Files[name]
		fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(content), content)
	}
	return r.w.Name + "-config-" + hex.EncodeToString(h.Sum(nil))[:10]
}

func (r renderer) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: r.meta(r.configMapName()),
		Data:       r.w.Spec.Config.Files,
	}
}

// everyPod selects the pods of the Workload and those of its backup, by name: other pods
// may well carry the same instance label.
func (r renderer) everyPod() metav1.LabelSelector {
	if r.w.Spec.Backup == nil {
		return *r.labelSelector()
	}
	return metav1.LabelSelector{
		MatchLabels: map[string]string{LabelInstance: r.w.Name},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: labelName, Operator: metav1.LabelSelectorOpIn, Values: []string{r.w.Name, r.backupLabel()}},
		},
	}
}

func (r renderer) backupLabel() string { return r.w.Name + "-backup" }

// networkPolicy lets traffic in on the declared ports and nowhere else. It names them, as the
// Service does: by number, pods that run while the number changes would be cut off until the
// last step of the rollout has replaced them.
func (r renderer) networkPolicy() *networkingv1.NetworkPolicy {
	var in []networkingv1.NetworkPolicyIngressRule
	if len(r.w.Spec.Ports) > 0 {
		rule := networkingv1.NetworkPolicyIngressRule{}
		for _, p := range r.w.Spec.Ports {
			protocol, port := p.Protocol, intOrStringName(p.Name)
			rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &port})
		}
		in = append(in, rule)
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: r.meta(r.w.Name),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: r.everyPod(),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     in,
		},
	}
}

func (r renderer) service() *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: r.meta(r.w.Name),
		Spec:       corev1.ServiceSpec{Selector: r.selector(), Type: corev1.ServiceTypeClusterIP},
	}
	if r.w.Spec.Storage != nil {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	for _, p := range r.w.Spec.Ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: p.Name, Port: p.Port, Protocol: p.Protocol, TargetPort: intOrStringName(p.Name),
		})
	}
	return s
}

func withoutBudget(w *v1beta1.Workload) bool { return *w.Spec.Replicas <= 1 }

// disruptionBudget is left out at one replica or none: a budget there blocks every
// drain for ever or does nothing.
func (r renderer) disruptionBudget() *policyv1.PodDisruptionBudget {
	if withoutBudget(r.w) {
		return nil
	}
	spec := policyv1.PodDisruptionBudgetSpec{Selector: r.labelSelector()}
	if a := r.w.Spec.Availability; a != nil && a.MinAvailable != nil {
		spec.MinAvailable = a.MinAvailable
	} else {
		one := intOrString(1)
		spec.MaxUnavailable = &one
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: r.meta(r.w.Name),
		Spec:       spec,
	}
}

func (r renderer) pods() (runtime.Object, error) {
	if r.w.Spec.Storage != nil {
		return r.statefulSet()
	}
	return r.deployment(), nil
}

func (r renderer) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: r.meta(r.w.Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: r.w.Spec.Replicas,
			Selector: r.labelSelector(),
			Template: r.podTemplate(),

			ProgressDeadlineSeconds: r.progressDeadline(),
		},
	}
}

// progressDeadline is left out where the spec does not set it: the API server's default
// is the same.
func (r renderer) progressDeadline() *int32 {
	if r.w.Spec.Rollout == nil || r.w.Spec.Rollout.ProgressDeadline == nil {
		return nil
	}
	seconds := int32(r.w.Spec.Rollout.ProgressDeadline.Seconds())
	return &seconds
}

// cronJobName is the longest name of a CronJob: its Jobs' names are eleven characters
// longer, and have to be labels.
const cronJobName = 52

// backupName cuts names that leave no room for the suffix, with a hash of the whole in
// place of what is cut.
func backupName(workload string) string {
	const suffix = "-backup"
	if len(workload)+len(suffix) <= cronJobName {
		return workload + suffix
	}
	hash := "-" + shortHash(workload)
	return workload[:cronJobName-len(suffix)-len(hash)] + hash + suffix
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:10]
}

func (r renderer) backup() *batchv1.CronJob {
	template := r.backupTemplate()
	return &batchv1.CronJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"},
		ObjectMeta: r.meta(backupName(r.w.Name)),
		Spec: batchv1.CronJobSpec{
			Schedule:          r.w.Spec.Backup.Schedule,
			ConcurrencyPolicy: batchv1.ForbidConcurrent,
			JobTemplate:       batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}},
		},
	}
}
