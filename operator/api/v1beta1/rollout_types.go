package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RolloutStrategy is how a change reaches the pods.
// +kubebuilder:validation:Enum=RollingUpdate;Canary
type RolloutStrategy string

// The rollout strategies.
const (
	// RolloutRollingUpdate replaces pods as soon as the ones before them are ready.
	RolloutRollingUpdate RolloutStrategy = "RollingUpdate"
	// RolloutCanary replaces pods in steps, and watches each step before the next.
	RolloutCanary RolloutStrategy = "Canary"
)

// NoDataPolicy says what a query without a value means.
// +kubebuilder:validation:Enum=Pass;Fail;Wait
type NoDataPolicy string

// What a query without a value means.
const (
	// NoDataPass counts it as a good value: for metrics that exist only once an error does.
	NoDataPass NoDataPolicy = "Pass"
	// NoDataFail counts it as a failed measurement.
	NoDataFail NoDataPolicy = "Fail"
	// NoDataWait measures again, until the timeout.
	NoDataWait NoDataPolicy = "Wait"
)

// Metric is one query that tells whether a canary is well.
type Metric struct {
	// Name of the metric in messages and in status.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Query in PromQL. It has to give one value: aggregate with sum(), max() or the like.
	// Which Prometheus is asked is the operator's setting, not the Workload's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query"`
	// FailIf is the condition under which the value is a failure: an operator (one of > >=
	// < <= == !=) and a number, such as "> 0.01".
	// +kubebuilder:validation:Pattern=`^(>=|<=|==|!=|>|<) ?[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?$`
	// +kubebuilder:validation:MaxLength=64
	FailIf string `json:"failIf"`
}

// Analysis judges the steps of a canary by metrics.
type Analysis struct {
	// Metrics that all have to be well for a step to pass.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	Metrics []Metric `json:"metrics"`
	// NoData says what a query without a value means: Pass, Fail or Wait.
	// +kubebuilder:default=Wait
	// +optional
	NoData NoDataPolicy `json:"noData,omitempty"`
	// Timeout after which a step fails whose metrics are not all well, counted from when its
	// pods are ready, and without the step's pause. From 1s to 24h.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout is from 1s to 24h"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// CanaryStep is how far one step of a canary goes.
type CanaryStep struct {
	// Replicas that run the new revision after this step, as a count or a percentage of
	// spec.replicas, rounded up.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || (self >= 1 && self <= 100)",message="replicas is from 1 to 100, or from 1% to 100%"
	Replicas intstr.IntOrString `json:"replicas"`
	// Pause is how much longer than interval this step is watched; up to 168h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('168h')",message="pause is at most 168h"
	// +optional
	Pause *metav1.Duration `json:"pause,omitempty"`
}

// Canary is a rollout in steps. A step passes when its pods have been ready for interval
// in a row and every metric is well; after the last one, all pods run the new revision.
// +kubebuilder:validation:XValidation:rule="!has(self.analysis) || !has(self.analysis.timeout) || !has(self.interval) || duration(self.analysis.timeout) >= duration(self.interval)",message="analysis.timeout is shorter than interval, so that no step could pass: raise timeout or lower interval"
type Canary struct {
	// BatchSize is by how many pods each step is larger than the one before it, as a count or
	// a percentage of spec.replicas, rounded up.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || (self >= 1 && self <= 100)",message="batchSize is from 1 to 100, or from 1% to 100%"
	// +optional
	BatchSize *intstr.IntOrString `json:"batchSize,omitempty"`
	// Steps in place of even batches, each larger than the one before it. A last step to all
	// replicas is added where it is missing.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Steps []CanaryStep `json:"steps,omitempty"`
	// Interval is how long each step is watched after its pods are ready. From 1s to 24h.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="interval is from 1s to 24h"
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`
	// FailureLimit is at how many failed measurements within one step the canary fails.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	FailureLimit int32 `json:"failureLimit,omitempty"`
	// Analysis by metrics; without it a step passes when its pods stay ready.
	// +optional
	Analysis *Analysis `json:"analysis,omitempty"`
}

// Rollout says how a change reaches the pods, and what happens when it fails.
// +kubebuilder:validation:XValidation:rule="!has(self.canary) || (has(self.strategy) && self.strategy == 'Canary')",message="canary is for strategy Canary only: set strategy, or remove canary"
type Rollout struct {
	// Strategy is RollingUpdate or Canary.
	// +kubebuilder:default=RollingUpdate
	// +optional
	Strategy RolloutStrategy `json:"strategy,omitempty"`
	// ProgressDeadline is how long pods may take to become ready before the rollout counts
	// as failed; in a canary it counts for each step. From 10s to 24h.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(\.[0-9]{1,3})?(ms|s|m|h)){1,3}$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="progressDeadline is from 10s to 24h"
	// +optional
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// RollbackOnFailure takes the pods of a failed rollout back to the stable revision;
	// without it they stay as they are, and the Workload is Degraded.
	// +optional
	RollbackOnFailure bool `json:"rollbackOnFailure,omitempty"`
	// Canary in detail; left out, its defaults count.
	// +optional
	Canary *Canary `json:"canary,omitempty"`
}

// MeasurementOutcome is what one look at a metric gave.
// +kubebuilder:validation:Enum=Passed;Failed;NoData;Error;Unreachable
type MeasurementOutcome string

// The outcomes of a measurement.
const (
	// MeasurementPassed: there is a value, and failIf does not hold for it.
	MeasurementPassed MeasurementOutcome = "Passed"
	// MeasurementFailed: failIf holds for the value.
	MeasurementFailed MeasurementOutcome = "Failed"
	// MeasurementNoData: the query gave no sample, or one that is not a number.
	MeasurementNoData MeasurementOutcome = "NoData"
	// MeasurementError: Prometheus answered, and not with one value. The query is wrong, or
	// too much for it.
	MeasurementError MeasurementOutcome = "Error"
	// MeasurementUnreachable: Prometheus did not answer. It says nothing about the canary.
	MeasurementUnreachable MeasurementOutcome = "Unreachable"
)

// Measurement is one look at a metric of spec.rollout.canary.analysis.
type Measurement struct {
	// Metric by its name in the spec.
	Metric string `json:"metric"`
	// Value, as a decimal number; none without data.
	// +optional
	Value string `json:"value,omitempty"`
	// Outcome is Passed, Failed, NoData, Error or Unreachable.
	Outcome MeasurementOutcome `json:"outcome"`
	// Message says why there is no value, or what Prometheus warned of.
	// +optional
	Message string `json:"message,omitempty"`
}

// RolloutStatus is how far a rollout is, and the evidence for what was decided.
type RolloutStatus struct {
	// StableDigest is the digest of the image that the pods outside the canary run, and
	// that a rollback goes back to.
	// +optional
	StableDigest string `json:"stableDigest,omitempty"`
	// CurrentDigest is the digest of the image that the spec asks for.
	// +optional
	CurrentDigest string `json:"currentDigest,omitempty"`
	// Step that a canary is at, from 1; 0 when none is under way.
	// +optional
	Step int32 `json:"step"`
	// Steps that the canary has.
	// +optional
	Steps int32 `json:"steps"`
	// FailedDigest is the digest of the image whose rollout failed. It is not tried again
	// before the spec changes.
	// +optional
	FailedDigest string `json:"failedDigest,omitempty"`
	// Message says what the rollout waits for, or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
	// Measurements are the last look at each metric in this step, or in the one that failed.
	// +listType=atomic
	// +optional
	Measurements []Measurement `json:"measurements,omitempty"`
}
