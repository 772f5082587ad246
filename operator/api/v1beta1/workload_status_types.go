package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phase is one word for where a Workload stands; the conditions hold the detail.
// docs/rollout.md has how one follows another.
// +kubebuilder:validation:Enum=Pending;Gating;Blocked;Waiting;Progressing;Canary;Ready;Degraded;RollingBack;Paused;Deleting
type Phase string

// The phases of a Workload.
const (
	// PhasePending: nothing of this generation was applied, since the gate was not asked yet
	// or something could not be read or written.
	PhasePending Phase = "Pending"
	// PhaseGating: the gate was asked and could not decide yet; nothing of this generation
	// was applied.
	PhaseGating Phase = "Gating"
	// PhaseBlocked: the gate denied the spec, a child belongs to someone else, or the
	// dependencies are a cycle or not allowed.
	PhaseBlocked Phase = "Blocked"
	// PhaseWaiting: something the spec names is not there or not Ready yet.
	PhaseWaiting Phase = "Waiting"
	// PhaseProgressing: children are applied and not all available yet.
	PhaseProgressing Phase = "Progressing"
	// PhaseCanary: some pods run the new revision and are watched before more follow.
	PhaseCanary Phase = "Canary"
	// PhaseReady: every child is healthy and of this generation.
	PhaseReady Phase = "Ready"
	// PhaseDegraded: a child reports a failure, or a rollout failed and what the spec asks
	// for does not run everywhere.
	PhaseDegraded Phase = "Degraded"
	// PhaseRollingBack: a rollout failed, and its pods go back to the stable revision.
	PhaseRollingBack Phase = "RollingBack"
	// PhasePaused: spec.paused is set; nothing is applied.
	PhasePaused Phase = "Paused"
	// PhaseDeleting: the Workload is being deleted.
	PhaseDeleting Phase = "Deleting"
)

// Condition types of a Workload. Ready, Reconciling and Stalled follow kstatus.
const (
	ConditionReady             = "Ready"
	ConditionReconciling       = "Reconciling"
	ConditionStalled           = "Stalled"
	ConditionGated             = "Gated"
	ConditionImagesVerified    = "ImagesVerified"
	ConditionDependenciesReady = "DependenciesReady"
	ConditionAvailable         = "Available"
	ConditionDrifted           = "Drifted"
	// ConditionPromoted: every Gate that attests has attested the images that run. It is not
	// there where no Gate does.
	ConditionPromoted = "Promoted"
)

// ImageStatus is one image of the children, as verified and deployed.
type ImageStatus struct {
	// Image as written in the spec.
	Image string `json:"image"`
	// Digest that was verified and that the children run.
	// +optional
	Digest string `json:"digest,omitempty"`
	// SignedBy names the authority whose signature was accepted.
	// +optional
	SignedBy string `json:"signedBy,omitempty"`
	// PromotedFrom is the environment that the image brings evidence of.
	// +optional
	PromotedFrom string `json:"promotedFrom,omitempty"`
}

// ViolationStatus is one finding of the gate.
type ViolationStatus struct {
	// Policy that found it.
	Policy string `json:"policy"`
	// Severity of the finding; "error" when the gate could not decide.
	Severity string `json:"severity"`
	// Object that was found wrong, as Kind/namespace/name.
	Object string `json:"object"`
	// Path of the field in that object.
	// +optional
	Path string `json:"path,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Remedy says what to do about it.
	// +optional
	Remedy string `json:"remedy,omitempty"`
}

// GateStatus is the verdict over the current generation.
type GateStatus struct {
	// Gate that judged; empty when none matched.
	// +optional
	Gate string `json:"gate,omitempty"`
	// Verdict is Allow, Warn, Deny or Error.
	Verdict string `json:"verdict"`
	// VerdictDigest is the SHA-256 of the verdict's canonical JSON. The same digest in a
	// pull request, in the audit log and here means the same verdict, to the byte.
	// +optional
	VerdictDigest string `json:"verdictDigest,omitempty"`
	// PolicyDigest identifies the rules that were applied.
	// +optional
	PolicyDigest string `json:"policyDigest,omitempty"`
	// Violations found; the first 20.
	// +listType=atomic
	// +optional
	Violations []ViolationStatus `json:"violations,omitempty"`
}

// InventoryEntry is one child.
type InventoryEntry struct {
	// APIVersion of the child.
	APIVersion string `json:"apiVersion"`
	// Kind of the child.
	Kind string `json:"kind"`
	// Name of the child, in the Workload's namespace.
	Name string `json:"name"`
	// Health by gitops-engine: Healthy, Progressing, Degraded, Suspended or Missing.
	// +optional
	Health string `json:"health,omitempty"`
}

// DriftChange is one field of a child that differs from what was applied.
type DriftChange struct {
	// Object that drifted, as Kind/namespace/name.
	Object string `json:"object"`
	// Path of the field.
	Path string `json:"path"`
	// Change is Added, Removed or Modified; Missing for a deleted child.
	Change string `json:"change"`
}

// DriftStatus lists what others changed.
type DriftStatus struct {
	// Changes that are there now (Report) or were put back last (Heal); the first 20.
	// +listType=atomic
	// +optional
	Changes []DriftChange `json:"changes,omitempty"`
}

// WorkloadStatus is what the operator saw. It is never read back as an input.
type WorkloadStatus struct {
	// ObservedGeneration is the generation this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Conditions hold the detail.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Replicas that exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas that have been ready for long enough.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// Selector of the pods, for /scale.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Images that run.
	// +listType=atomic
	// +optional
	Images []ImageStatus `json:"images,omitempty"`
	// Gate holds the verdict.
	// +optional
	Gate *GateStatus `json:"gate,omitempty"`
	// Inventory of the children.
	// +listType=atomic
	// +optional
	Inventory []InventoryEntry `json:"inventory,omitempty"`
	// Drift found.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`
	// Rollout of the current generation, and what it was judged by.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
}
