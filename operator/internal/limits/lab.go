package limits

import "time"

// Bounds of the local cluster (package lab).
const (
	// LabReady is how long one part of the control plane may take until it serves. On two
	// cores the slowest, kube-apiserver, takes 3 s; a busy CI machine ten times that.
	LabReady = time.Minute
	// LabStop is how long a process may take to end on SIGTERM before it is killed.
	LabStop = 10 * time.Second
	// LabServed is how long a CRD may take until it is Established and in discovery, and
	// how long an object is tried again while its webhook does not answer.
	LabServed = 30 * time.Second
	// LabPoll is the pause between two looks at something that cannot be watched.
	LabPoll = 50 * time.Millisecond
	// LabToken is how long the token of a ServiceAccount's kubeconfig is valid: a working
	// day, for a manager that lives as long as a shell.
	LabToken = 12 * time.Hour
	// LabCertificate is how long the certificates of a cluster are valid. They cannot be
	// renewed, so this is also how long a cluster can live.
	LabCertificate = 30 * 24 * time.Hour
	// LabLogTail is how much of a log an error shows, from its end.
	LabLogTail = 4 << 10
	// LabWorkers is how many pods the stand-in node plays at once.
	LabWorkers = 16
)
