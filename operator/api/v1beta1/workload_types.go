package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DeletionPolicy says what happens to the children when their Workload is deleted.
// +kubebuilder:validation:Enum=Delete;Orphan;RetainStorage
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionPolicyDelete removes every child, volume claims included.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyOrphan leaves every child running, without an owner.
	DeletionPolicyOrphan DeletionPolicy = "Orphan"
	// DeletionPolicyRetainStorage removes every child but keeps the volume claims.
	DeletionPolicyRetainStorage DeletionPolicy = "RetainStorage"
)

// DriftMode says what the operator does when a child was changed behind its back.
// +kubebuilder:validation:Enum=Heal;Report
type DriftMode string

// The drift modes.
const (
	// DriftModeHeal puts the child back with one server-side apply.
	DriftModeHeal DriftMode = "Heal"
	// DriftModeReport only tells, in status.drift and the Drifted condition.
	DriftModeReport DriftMode = "Report"
)

// Port is one port of the container, published under the same number by the Service.
type Port struct {
	// Name of the port; the Service and the probes refer to it.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('[a-z]') && !self.contains('--')",message="the name of a port has a letter and no two hyphens side by side: no pod takes another"
	Name string `json:"name"`
	// Port number, on the container and on the Service.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Protocol of the port.
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// Probes are the container's health checks, in the shapes of the core API. A port by its name
// is one that spec.ports or a patch declares; by its number it may be any.
type Probes struct {
	// Startup holds the other probes back until it succeeds once.
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.grpc), has(self.httpGet), has(self.tcpSocket)].exists_one(h, h)",message="a probe asks by exec, grpc, httpGet or tcpSocket: give it exactly one of them"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && size(self.exec.command) > 0",message="a probe by exec asks by its command: give it one"
	// +kubebuilder:validation:XValidation:rule="(has(self.httpGet) ? [self.httpGet.port] : has(self.tcpSocket) ? [self.tcpSocket.port] : has(self.grpc) ? [self.grpc.port] : []).all(p, type(p) != int || (p >= 1 && p <= 65535))",message="the port of a probe is a name of spec.ports, or a number from 1 to 65535"
	// +optional
	Startup *corev1.Probe `json:"startup,omitempty"`
	// Readiness takes the pod out of the Service while it fails.
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.grpc), has(self.httpGet), has(self.tcpSocket)].exists_one(h, h)",message="a probe asks by exec, grpc, httpGet or tcpSocket: give it exactly one of them"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && size(self.exec.command) > 0",message="a probe by exec asks by its command: give it one"
	// +kubebuilder:validation:XValidation:rule="(has(self.httpGet) ? [self.httpGet.port] : has(self.tcpSocket) ? [self.tcpSocket.port] : has(self.grpc) ? [self.grpc.port] : []).all(p, type(p) != int || (p >= 1 && p <= 65535))",message="the port of a probe is a name of spec.ports, or a number from 1 to 65535"
	// +optional
	Readiness *corev1.Probe `json:"readiness,omitempty"`
	// Liveness restarts the container when it fails.
	// +kubebuilder:validation:XValidation:rule="[has(self.exec), has(self.grpc), has(self.httpGet), has(self.tcpSocket)].exists_one(h, h)",message="a probe asks by exec, grpc, httpGet or tcpSocket: give it exactly one of them"
	// +kubebuilder:validation:XValidation:rule="!has(self.exec) || has(self.exec.command) && size(self.exec.command) > 0",message="a probe by exec asks by its command: give it one"
	// +kubebuilder:validation:XValidation:rule="(has(self.httpGet) ? [self.httpGet.port] : has(self.tcpSocket) ? [self.tcpSocket.port] : has(self.grpc) ? [self.grpc.port] : []).all(p, type(p) != int || (p >= 1 && p <= 65535))",message="the port of a probe is a name of spec.ports, or a number from 1 to 65535"
	// +optional
	Liveness *corev1.Probe `json:"liveness,omitempty"`
}

// ConfigFiles become a ConfigMap whose name carries a hash of its content, so that
// a change rolls the pods.
type ConfigFiles struct {
	// Files by name: each becomes one file under mountPath.
	// +kubebuilder:validation:MinProperties=1
	Files map[string]string `json:"files"`
	// MountPath is the folder inside the container.
	// +kubebuilder:validation:Pattern=`^/.*`
	MountPath string `json:"mountPath"`
}

// SecretRef names a Secret of the same namespace and how the container sees it.
// +kubebuilder:validation:XValidation:rule="has(self.mountPath) != (has(self.envFrom) && self.envFrom)",message="set exactly one of mountPath and envFrom"
type SecretRef struct {
	// Name of the Secret, in the Workload's namespace.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// MountPath mounts each key as a file under this folder.
	// +kubebuilder:validation:Pattern=`^/.*`
	// +optional
	MountPath string `json:"mountPath,omitempty"`
	// EnvFrom sets each key as an environment variable.
	// +optional
	EnvFrom bool `json:"envFrom,omitempty"`
}

// Storage asks for one volume per replica; a Workload with storage is a StatefulSet.
// +kubebuilder:validation:XValidation:rule="(has(self.className) ? self.className : \"\") == (has(oldSelf.className) ? oldSelf.className : \"\")",message="storage.className cannot change: volumes do not move between classes; create a new Workload and copy the data"
type Storage struct {
	// Size of each volume. It can grow, where the StorageClass allows that.
	// +kubebuilder:validation:Pattern=`^[0-9]+(Mi|Gi|Ti)$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="quantity(self).isGreaterThan(quantity('0')) && quantity(self).isLessThan(quantity('8Ei'))",message="storage.size is above 0 and below 8Ei"
	// +kubebuilder:validation:XValidation:rule="!quantity(self).isLessThan(quantity(oldSelf))",message="storage.size cannot shrink, since no volume can: keep the size, or copy the data to a new Workload"
	Size string `json:"size"`
	// ClassName of the StorageClass; empty takes the cluster's default.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClassName string `json:"className,omitempty"`
	// MountPath of the volume inside the container.
	// +kubebuilder:validation:Pattern=`^/.*`
	MountPath string `json:"mountPath"`
	// Retain keeps the volume claims when the Workload is deleted.
	// +optional
	Retain bool `json:"retain,omitempty"`
}

// SpreadConstraint spreads the pods over a topology.
type SpreadConstraint struct {
	// TopologyKey is the node label that names the domain.
	// +kubebuilder:validation:MinLength=1
	TopologyKey string `json:"topologyKey"`
	// MaxSkew is the largest allowed difference between two domains.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxSkew int32 `json:"maxSkew,omitempty"`
	// WhenUnsatisfiable says whether a pod that cannot be placed waits.
	// +kubebuilder:default=ScheduleAnyway
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	// +optional
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable,omitempty"`
}

// Availability is what a drain and a zone outage may take away.
type Availability struct {
	// MinAvailable pods, or a percentage, that a voluntary disruption must leave.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="minAvailable is from 0 up, or from 0% to 100%"
	// +optional
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// Spread constraints of the pods.
	// +listType=map
	// +listMapKey=topologyKey
	// +optional
	Spread []SpreadConstraint `json:"spread,omitempty"`
}

// DependencyRef names a Workload that has to be Ready first.
type DependencyRef struct {
	// Name of the Workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Namespace of the Workload; empty means this Workload's own. A Workload elsewhere has
	// to name this one's namespace in its spec.dependentNamespaces.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// S3 is a bucket for backups.
type S3 struct {
	// Bucket name.
	// +kubebuilder:validation:MinLength=1
	Bucket string `json:"bucket"`
	// Region of the bucket; required, so that nobody backs up across a border by default.
	// +kubebuilder:validation:MinLength=1
	Region string `json:"region"`
}

// Backup runs an image on a schedule, told by its environment where to write.
type Backup struct {
	// Schedule in cron format, in UTC.
	// +kubebuilder:validation:MinLength=9
	Schedule string `json:"schedule"`
	// Image that makes the backup; judged by the gate like every other image.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// S3 is where the backup goes.
	S3 S3 `json:"s3"`
}

// Drift says what to do with changes made to the children by others.
type Drift struct {
	// Mode is Heal or Report.
	// +kubebuilder:default=Heal
	// +optional
	Mode DriftMode `json:"mode,omitempty"`
	// Ignore lists fields of the children that are left to others: they are not compared,
	// and once the child is there the operator does not write them.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Ignore []DriftIgnore `json:"ignore,omitempty"`
}

// DriftIgnore leaves fields of children to others: how many pods there are, where and when
// they run, and marks on the objects. What runs, as whom, with which rights and who
// reaches it is what the gate judged; those fields are refused.
type DriftIgnore struct {
	// Kind of the child; empty means every kind that has the field.
	// +kubebuilder:validation:Enum=Deployment;StatefulSet;Service;ConfigMap;NetworkPolicy;PodDisruptionBudget;CronJob
	// +optional
	Kind string `json:"kind,omitempty"`
	// Name of the child; empty means every name.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`
	// Paths of the fields as JSON pointers, such as /spec/replicas or
	// /metadata/annotations/example.com~1owner.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^(/([^/~]|~[01])+)+$`
	// +kubebuilder:validation:XValidation:rule="self.all(p, !p.matches('^/spec/(.*/)?(containers|initContainers|ephemeralContainers|image|securityContext|serviceAccount|serviceAccountName|automountServiceAccountToken|host[A-Z][A-Za-z]*)(/|$)'))",message="what runs, as whom and with which rights was judged: it cannot be left to others"
	// +listType=set
	Paths []string `json:"paths"`
}

// PatchTarget selects the children a patch applies to.
type PatchTarget struct {
	// Kind of the child, such as StatefulSet.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Name of the child.
	// +optional
	Name string `json:"name,omitempty"`
}

// Patch is a Kustomize patch over the rendered children. What it makes is gated
// like everything else.
type Patch struct {
	// Patch is a strategic merge patch or a JSON 6902 patch, in YAML or JSON.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Patch string `json:"patch"`
	// Target selects the children; a merge patch may leave it out and name its object itself.
	// +optional
	Target *PatchTarget `json:"target,omitempty"`
}

// WorkloadSpec is what a team asks for.
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage)",message="storage cannot be added or removed: a Deployment and a StatefulSet cannot be turned into each other; create a new Workload"
// +kubebuilder:validation:XValidation:rule="(has(self.tenant) ? self.tenant : \"\") == (has(oldSelf.tenant) ? oldSelf.tenant : \"\")",message="tenant cannot change: create a new Workload for the other tenant"
type WorkloadSpec struct {
	// Image of the main container. A tag is resolved once per change of the spec; the
	// digest is what is verified and what runs.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`
	// Version of the application, SemVer; shown, and set as app.kubernetes.io/version.
	// +kubebuilder:validation:Pattern=`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Version string `json:"version,omitempty"`
	// Replicas to run.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Ports the container listens on; with any, a Service publishes them.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port && q.protocol == p.protocol))",message="two ports have the same number and protocol, which no Service takes: give one of them another number"
	// +listType=map
	// +listMapKey=name
	// +optional
	Ports []Port `json:"ports,omitempty"`
	// Command replaces the image's entrypoint.
	// +listType=atomic
	// +optional
	Command []string `json:"command,omitempty"`
	// Args replaces the image's arguments.
	// +listType=atomic
	// +optional
	Args []string `json:"args,omitempty"`
	// Env variables of the main container.
	// +listType=map
	// +listMapKey=name
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`
	// Resources of the main container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// Probes of the main container.
	// +optional
	Probes *Probes `json:"probes,omitempty"`
	// ServiceAccountName to run as; empty makes one with no token and no rights.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// ImagePullSecrets of the pods; the gate reads the registry with them too.
	// +listType=map
	// +listMapKey=name
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Config files.
	// +optional
	Config *ConfigFiles `json:"config,omitempty"`
	// Secrets the container uses. The Workload waits until each is there, as for every
	// Secret and ConfigMap that its pods need, and rolls its pods when one changes.
	// +listType=map
	// +listMapKey=name
	// +optional
	Secrets []SecretRef `json:"secrets,omitempty"`
	// Storage, when set, makes this a StatefulSet with one volume per replica.
	// +optional
	Storage *Storage `json:"storage,omitempty"`
	// Availability under disruption.
	// +optional
	Availability *Availability `json:"availability,omitempty"`
	// DependsOn lists Workloads that have to be Ready before this one starts, and that are
	// deleted after it when both are.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	DependsOn []DependencyRef `json:"dependsOn,omitempty"`
	// Rollout says how a change reaches the pods; left out, it is RollingUpdate.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`
	// DependentNamespaces are the other namespaces whose Workloads may depend on this one;
	// "*" stands for all. Those of its own namespace always may.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([a-z0-9-]*[a-z0-9])?|\*)$`
	// +listType=set
	// +optional
	DependentNamespaces []string `json:"dependentNamespaces,omitempty"`
	// Backup of the data.
	// +optional
	Backup *Backup `json:"backup,omitempty"`
	// Drift handling.
	// +kubebuilder:default={mode: Heal}
	// +optional
	Drift *Drift `json:"drift,omitempty"`
	// Patches over the rendered children: the escape hatch.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Patches []Patch `json:"patches,omitempty"`
	// DeletionPolicy for the children.
	// +kubebuilder:default=Delete
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// Paused stops the operator from changing the children.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Tenant that owns the workload; immutable, set as the label sluice.dev/tenant.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`
	// +optional
	Tenant string `json:"tenant,omitempty"`
}

// Workload is one application: an image, how it runs, and what it needs.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=wl,categories={all,sluice}
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.gate.verdict`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 52 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')",message="name must be a DNS label of at most 52 characters that starts with a letter: it names a Service and a CronJob"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.dependsOn) || self.spec.dependsOn.all(d, d.name != self.metadata.name || (has(d.__namespace__) && d.__namespace__ != \"\"))",message="spec.dependsOn names the Workload itself: take it out"
type Workload struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec is what the team asks for.
	Spec WorkloadSpec `json:"spec"`
	// Status is what the operator saw. Its observedGeneration is -1 until there is one, so that
	// tools that go by kstatus do not take a new Workload for ready.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status WorkloadStatus `json:"status,omitempty"`
}

// WorkloadList is a list of Workloads.
// +kubebuilder:object:root=true
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workload `json:"items"`
}
