package limits

import "time"

// Bounds on promotions, and on what the command asks of a forge.
const (
	// WindowZones is how far what a clock shows may be from UTC, and more: zones reach from
	// 12 hours behind to 14 hours ahead.
	WindowZones = 26 * time.Hour
	// WindowSteps is how many ends of windows are looked at to find when promotions take
	// place again: a night of each day for eight months. A step takes 12 µs
	// for each window, so that 32 of them take a tenth of a second.
	WindowSteps = 256
	// PromotionOverlays is how many overlays are built to find those of two environments.
	PromotionOverlays = 64
	// PromotionWorkloads is how many Workloads one promotion takes over.
	PromotionWorkloads = 500
	// PromotionTextBytes is how long the text of a pull request gets: GitHub takes 65536
	// characters, which are as many bytes or more.
	PromotionTextBytes = 64_000
	// PromotionPartBytes is how long each of its four parts before the comparison gets, so
	// that a third is left for that.
	PromotionPartBytes = 10_000
	// PromotionNotes is how many risk notes of one Workload are written.
	PromotionNotes = 40
	// ForgeCall is for one call of a forge; making a pull request takes a second or two.
	ForgeCall = 30 * time.Second
	// ForgeBytes is the largest answer of a forge that is read. One pull request is 30 KiB
	// beside its text, and a page has ForgePage of them.
	ForgeBytes = 16 << 20
	// ForgePage is how many pull requests a forge is asked for at a time, and ForgePages how
	// often, to find one of a branch where the forge cannot search for it.
	ForgePage  = 50
	ForgePages = 40
	// ForgeErrorBytes is how much is shown of what a forge says when it refuses.
	ForgeErrorBytes = 1 << 10
)

// Bounds on what the command line asks of a cluster.
const (
	// ClusterCall is for one question: a list of Objects Workloads takes some seconds.
	ClusterCall = 30 * time.Second
	// WatchPause is how long is waited before a watch that ended at once is begun anew.
	WatchPause = time.Second
	// EventsShown is how many events of a Workload are shown, the newest.
	EventsShown = 10
	// OwnerSteps is how many owners are climbed from an object to its Workload: from a pod
	// of a backup over Job and CronJob it is three.
	OwnerSteps = 4
)
