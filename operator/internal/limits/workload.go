package limits

import "time"

// Bounds on dependencies between Workloads.
const (
	// GraphNodes is how many Workloads are ordered at once: all that one check may judge,
	// and as many again that they name and that are not among them.
	GraphNodes = 2 * Objects
	// GraphEdges is how many dependencies there may be between them; the API allows 32 of
	// one Workload.
	GraphEdges = 32 * Objects
	// DependencyReach is how many Workloads are read for one, through the dependencies of
	// its dependencies: at 10 µs for one from the cache, this takes 10 ms.
	DependencyReach = 1000
	// DependencyDepth is how long a chain of dependencies may be. At half a minute for each
	// to become Ready, the last of 64 starts after half an hour.
	DependencyDepth = 64
	// DeletionGrace is how long a Workload that is deleted gives those that depend on it to
	// be deleted as well: one command or one namespace deletes its objects one by one.
	DeletionGrace = 5 * time.Second
	// DeletionHold is how long, from its own deletion on, a Workload waits for those that
	// depend on it to go first. All of a chain are deleted within seconds of each other, so
	// this is for the chain as a whole; pods have 30 s each to end by default.
	DeletionHold = 5 * time.Minute
)

// Bounds on what the operator does to children.
const (
	// HealsAtOnce is how often a child is put back without a pause. Two people who both
	// edit it need no more; a controller that keeps writing a field would otherwise be
	// answered for ever, and each answer rolls the pods.
	HealsAtOnce = 3
	// OverwriteAttempts is how often a child is overwritten at once while its status keeps
	// changing: a rollout of two pods changes it four times in 100 ms.
	OverwriteAttempts = 4
	// HealPause is the longest pause between two times that a child is put back: it starts
	// at a second and doubles, so a quarrel costs 1440 writes a day and not one a
	// millisecond.
	HealPause = time.Minute
	// StrayImagePause is the longest pause while a child has an image that was not judged:
	// one write a second, against a container that nobody allowed.
	StrayImagePause = time.Second
	// HealQuiet is how long a child has to stay as it should be for its quarrel to be
	// forgotten.
	HealQuiet = 10 * time.Minute
	// Reverify is how soon a Workload at rest is judged again where its Gates do not say: a
	// signature may be gone, which raises no event. Digests are known then, so it costs a look
	// at signatures and no lookup of tags.
	Reverify = 10 * time.Minute
	// DenialStands is how long a denial of what runs has to stand, over at least two looks,
	// before its pods are taken away: a key is rotated in two writes, the Gate's and the
	// signature's.
	DenialStands = time.Minute
	// NoteBytes is the longest message of an event or a condition. The events API takes
	// 1 KiB, and "…" is added at the cut.
	NoteBytes = 1000
)

// Bounds on canaries.
const (
	// CanarySteps is how many steps a canary takes at most; replicas end at 100, so that
	// batches of one pod fit.
	CanarySteps = 100
	// CanaryMeasureEvery is the longest pause between two looks at the metrics of a step:
	// ten queries then cost Prometheus one a second.
	CanaryMeasureEvery = 10 * time.Second
	// CanaryMeasurements is how often metrics are looked at within the interval of a step,
	// at least. With an interval of a second, the shortest that the API takes, that is
	// every 333 ms.
	CanaryMeasurements = 3
)

// Bounds on what Prometheus is asked.
const (
	// PrometheusQuery is how long Prometheus may evaluate one query; it is told so. Usual
	// ones take some ms, and Prometheus's own limit is two minutes.
	PrometheusQuery = 5 * time.Second
	// PrometheusCall is for one query from waiting for its turn to the end of its answer,
	// and for all of one Workload, since they run side by side.
	PrometheusCall = 7 * time.Second
	// PrometheusParallel is how many queries run at a time, for all Workloads: those of one
	// with the most metrics.
	PrometheusParallel = 10
	// PrometheusSeries is how many series of an answer Prometheus is asked to send. One is
	// wanted, and a second tells that the query does not aggregate.
	PrometheusSeries = 2
	// PrometheusAnswerBytes is the largest answer that is read. One sample with thirty
	// labels is 3 KiB; a Prometheus that does not know the limit on series may send more.
	PrometheusAnswerBytes = 1 << 20
	// PrometheusWarnings is how many warnings of one answer are kept.
	PrometheusWarnings = 3
	// PrometheusNoteBytes is how long an error or a warning of Prometheus may be. With ten
	// metrics and all warnings, a status is 12 KiB larger.
	PrometheusNoteBytes = 300
	// TroubledPods is how many pods of a step that failed are looked at for why: a Workload has
	// at most 100, and as many again while they roll. At 20 KiB each they are 10 MiB.
	TroubledPods = 500
	// TroubleBytes is how long what a pod says of itself may be where it is kept; the scheduler's
	// message is 200 bytes for a cluster with two taints.
	TroubleBytes = 300
)

// Bounds on status.
const (
	// ProgressPause is the shortest time between two writes of a status that tell of
	// nothing but progress. A hundred pods that start one by one change a status two hundred
	// times; over five minutes, that is one write every 1.5 s without this, and a person
	// does not look more often than with it. Two pods that are there sooner take one write
	// instead of three.
	ProgressPause = 2 * time.Second
	// StatusFindings is how many violations and drift changes a status holds.
	StatusFindings = 20
)
