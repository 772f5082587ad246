package render

import (
	"fmt"
	"path"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

const dataVolume = "data"

func intOrString(n int32) intstr.IntOrString { return intstr.FromInt32(n) }

func intOrStringName(s string) intstr.IntOrString { return intstr.FromString(s) }

func (r renderer) statefulSet() (*appsv1.StatefulSet, error) {
	s := r.w.Spec.Storage
	size, err := resource.ParseQuantity(s.Size)
	if err != nil {
		return nil, &FieldError{Path: "spec.storage.size", Err: fmt.Errorf("%q: %w", s.Size, err)}
	}
	claim := corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: dataVolume, Labels: ClaimLabels(r.w.Name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	if s.ClassName != "" {
		claim.Spec.StorageClassName = &s.ClassName
	}
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: r.meta(r.w.Name),
		Spec: appsv1.StatefulSetSpec{
			Replicas:             r.w.Spec.Replicas,
			Selector:             r.labelSelector(),
			ServiceName:          r.w.Name,
			Template:             r.podTemplate(),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: r.whenDeleted(), WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}, nil
}

// whenDeleted keeps the data on every policy but a plain Delete: claims that are gone
// cannot be had back.
func (r renderer) whenDeleted() appsv1.PersistentVolumeClaimRetentionPolicyType {
	if r.w.Spec.DeletionPolicy == v1beta1.DeletionPolicyDelete && !r.w.Spec.Storage.Retain {
		return appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
}

func (r renderer) podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: r.labels()},
		Spec: corev1.PodSpec{
			ServiceAccountName:           r.serviceAccountName(),
			AutomountServiceAccountToken: new(bool),
			SecurityContext:              podSecurity(),
			ImagePullSecrets:             r.w.Spec.ImagePullSecrets,
			TopologySpreadConstraints:    r.spread(),
			Volumes:                      r.volumes(),
			Containers:                   []corev1.Container{r.container()},
		},
	}
}

// podSecurity and containerSecurity meet the restricted Pod Security Standard. A
// Workload that needs more says so in a patch, where the gate sees it.
func podSecurity() *corev1.PodSecurityContext {
	yes, id := true, int64(65532)
	policy := corev1.FSGroupChangeOnRootMismatch
	return &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id, FSGroupChangePolicy: &policy,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func containerSecurity() *corev1.SecurityContext {
	no, yes := false, true
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func (r renderer) container() corev1.Container {
	spec := r.w.Spec
	c := corev1.Container{
		Name: mainContainer, Image: spec.Image, Command: spec.Command, Args: spec.Args, Env: spec.Env,
		Resources: spec.Resources, SecurityContext: containerSecurity(),
	}
	if spec.Probes != nil {
		c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = spec.Probes.Startup, spec.Probes.Readiness, spec.Probes.Liveness
	}
	for _, p := range spec.Ports {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.Port, Protocol: p.Protocol})
	}
	for _, s := range spec.Secrets {
		if s.EnvFrom {
			c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{
				SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}},
			})
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: secretVolume(s.Name), MountPath: s.MountPath, ReadOnly: true})
	}
	if spec.Config != nil {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: spec.Config.MountPath, ReadOnly: true})
	}
	if spec.Storage != nil {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: dataVolume, MountPath: spec.Storage.MountPath})
	}
	if !r.mountsTmp() {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "tmp", MountPath: tmp})
	}
	return c
}

const tmp = "/tmp"

// mounts are the paths that the spec asks for, by field.
func (r renderer) mounts() [][2]string {
	var out [][2]string
	for i, s := range r.w.Spec.Secrets {
		if !s.EnvFrom {
			out = append(out, [2]string{fmt.Sprintf("spec.secrets[%d].mountPath", i), path.Clean(s.MountPath)})
		}
	}
	if r.w.Spec.Config != nil {
		out = append(out, [2]string{"spec.config.mountPath", path.Clean(r.w.Spec.Config.MountPath)})
	}
	if r.w.Spec.Storage != nil {
		out = append(out, [2]string{"spec.storage.mountPath", path.Clean(r.w.Spec.Storage.MountPath)})
	}
	return out
}

// mountsApart refuses what the API server would refuse in the pod: better in the pull
// request than when the children are applied.
func (r renderer) mountsApart() error {
	seen := map[string]string{}
	for _, m := range r.mounts() {
		if first, ok := seen[m[1]]; ok {
			return &FieldError{Path: m[0], Err: fmt.Errorf("%s is the path of %s too", m[1], first)}
		}
		seen[m[1]] = m[0]
	}
	return nil
}

func (r renderer) mountsTmp() bool {
	for _, m := range r.mounts() {
		if m[1] == tmp {
			return true
		}
	}
	return false
}

// secretVolume names the volume of a Secret. A Secret's name may be longer than a
// volume's, and have dots.
func secretVolume(secret string) string {
	name := "secret-" + secret
	if len(validation.IsDNS1123Label(name)) > 0 {
		return "secret-" + shortHash(secret)
	}
	return name
}

// volumes include a writable /tmp, since the root file system is read-only.
func (r renderer) volumes() []corev1.Volume {
	var v []corev1.Volume
	for _, s := range r.w.Spec.Secrets {
		if !s.EnvFrom {
			v = append(v, corev1.Volume{Name: secretVolume(s.Name), VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: s.Name},
			}})
		}
	}
	if r.w.Spec.Config != nil {
		v = append(v, corev1.Volume{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: r.configMapName()}},
		}})
	}
	if r.mountsTmp() {
		return v
	}
	return append(v, corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
}

func (r renderer) spread() []corev1.TopologySpreadConstraint {
	if r.w.Spec.Availability == nil {
		return nil
	}
	var out []corev1.TopologySpreadConstraint
	for _, s := range r.w.Spec.Availability.Spread {
		out = append(out, corev1.TopologySpreadConstraint{
			TopologyKey: s.TopologyKey, MaxSkew: s.MaxSkew, WhenUnsatisfiable: s.WhenUnsatisfiable,
			LabelSelector: r.labelSelector(),
		})
	}
	return out
}

// backupTemplate runs the backup image with the Workload's secrets and the bucket in its
// environment. Its pods carry other labels than the Workload's, or the Service would
// send traffic to them.
func (r renderer) backupTemplate() corev1.PodTemplateSpec {
	b := r.w.Spec.Backup
	container := corev1.Container{
		Name: "backup", Image: b.Image, SecurityContext: containerSecurity(),
		Env: []corev1.EnvVar{
			{Name: "BACKUP_S3_BUCKET", Value: b.S3.Bucket},
			{Name: "BACKUP_S3_REGION", Value: b.S3.Region},
			{Name: "BACKUP_SOURCE", Value: r.w.Name},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: tmp}},
	}
	for _, s := range r.w.Spec.Secrets {
		if s.EnvFrom {
			container.EnvFrom = append(container.EnvFrom, corev1.EnvFromSource{
				SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}},
			})
		}
	}
	labels := r.labels()
	labels[labelName] = r.backupLabel()
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			ServiceAccountName: r.serviceAccountName(), AutomountServiceAccountToken: new(bool),
			SecurityContext: podSecurity(), ImagePullSecrets: r.w.Spec.ImagePullSecrets,
			RestartPolicy: corev1.RestartPolicyOnFailure,
			Containers:    []corev1.Container{container},
			Volumes:       []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}
