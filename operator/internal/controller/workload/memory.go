package workload

import (
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/health"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// memory is what the process remembers of one Workload from one reconcile to the next.
// After a restart it is empty and nothing is lost that the operator cannot do without. It
// is there for two reasons: the cache lags behind the operator's own writes, and what
// stands on a child can be changed by whoever may edit that child.
type memory struct {
	uid types.UID
	// version is the resource version that the last own write gave the Workload.
	version string
	// status as it was written last. The watch reads it while a reconcile runs.
	status atomic.Pointer[v1beta1.WorkloadStatus]
	// statusAt is when that was, or when a first status was held back.
	statusAt time.Time
	// written is the resource version that the last own write gave a child, until the
	// cache has it.
	written map[childKey]string
	// children are the UIDs of those that were known to be the operator's.
	children map[childKey]types.UID
	// searched says that this process has looked for what lost its labels before it started.
	searched bool
	// asDesired is what of a child was compared last and found to be right. A comparison
	// costs 2 ms, and most children have not changed since the last.
	asDesired map[childKey]string
	// resolved is what tags were resolved to when the generation was allowed.
	resolved resolved
	// stable is the record of the stable revision, should someone delete it.
	stable *record
	// course is how far a rollout is, and vigil what was seen of its step.
	course *course
	vigil  vigil
	// mark is what the pods' template was given last for what they refer to.
	mark *mark
	// applied is the last generation of which every child has been there.
	applied int64
	// notes are those that a child was written with last.
	notes map[childKey]string
	// quarrels are about children that keep being changed.
	quarrels map[childKey]quarrel
	// healed is what was put back last, in the generation healedIn.
	healed   []v1beta1.DriftChange
	healedIn int64
	// denied is since when what runs has been denied; zero while it is not.
	denied time.Time
	// soaks are the attestations that Gates ask for, by Gate, and promises how far they are.
	soaks    map[string]*soak
	promises []promise
	// standstill is what the pods' controller has been reporting, and since when.
	standstill string
	since      time.Time
}

// childKey names a child within its Workload's namespace.
type childKey struct {
	schema.GroupVersionKind
	name string
}

func keyOf(c *unstructured.Unstructured) childKey {
	return childKey{GroupVersionKind: c.GroupVersionKind(), name: c.GetName()}
}

// recall returns what is remembered of the Workload; one of the same name that was
// deleted is forgotten.
func (r *Reconciler) recall(w *v1beta1.Workload) *memory {
	key := client.ObjectKeyFromObject(w)
	if known, ok := r.memories.Load(key); ok && known.(*memory).uid == w.UID {
		return known.(*memory)
	}
	m := &memory{
		uid: w.UID, written: map[childKey]string{}, children: map[childKey]types.UID{},
		asDesired: map[childKey]string{}, notes: map[childKey]string{}, quarrels: map[childKey]quarrel{},
	}
	r.memories.Store(key, m)
	return m
}

func (r *Reconciler) forget(key client.ObjectKey) {
	r.memories.Delete(key)
	r.usage.set(key, nil)
}

// lose forgets a child that was deleted on purpose.
func (m *memory) lose(key childKey) {
	delete(m.children, key)
	delete(m.asDesired, key)
	delete(m.notes, key)
	delete(m.quarrels, key)
}

// stamp stands for a comparison: the same version of a child against the same desired
// content comes out the same.
func stamp(d, live *unstructured.Unstructured) string {
	return live.GetResourceVersion() + " " + notesOf(d)
}

// notesOf stands for what is asked of a child, and what is noted on it.
func notesOf(d *unstructured.Unstructured) string {
	notes := d.GetAnnotations()
	return notes[annotationDesired] + " " + notes[annotationResolved] + " " + notes[annotationMark] + " " + notes[annotationRollout]
}

// brought remembers how a child was written. What was refused before does not count any more.
func (m *memory) brought(d *unstructured.Unstructured) {
	m.notes[keyOf(d)] = notesOf(d)
	if q, ok := m.quarrels[keyOf(d)]; ok {
		q.refused = nil
		m.quarrels[keyOf(d)] = q
	}
}

// only forgets how children were written that nobody asks for any more: someone may have
// deleted them before the operator did.
func (m *memory) only(desired []*unstructured.Unstructured) {
	wanted := make(map[childKey]bool, len(desired))
	for _, d := range desired {
		wanted[keyOf(d)] = true
	}
	maps.DeleteFunc(m.notes, func(key childKey, _ string) bool { return !wanted[key] })
	maps.DeleteFunc(m.quarrels, func(key childKey, _ quarrel) bool { return !wanted[key] })
}

// older says whether an object is from before an own write.
func older(version, written string) bool {
	if written == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, written)
	return err == nil && order < 0
}

// mine says whether a child is the operator's. An owner reference and labels can be put
// on any object by whoever may edit it, and would make the operator change or delete it
// in their name: so it also has to be an object that the operator applied. The field
// manager's entry is not there any more when someone wiped it; a child that this process
// has known is recognised all the same.
func (s *scope) mine(c *unstructured.Unstructured) bool {
	if !metav1.IsControlledBy(c, s.workload) {
		return false
	}
	return s.memory.children[keyOf(c)] == c.GetUID() || applied(c)
}

// adoptable says whether a child that was found by the name or the labels of a Workload's
// and that nobody controls is taken back: the operator applied it, and since then someone
// took the owner reference off, or the Workload was deleted with deletionPolicy Orphan and
// is here again. Who can forge the field manager's entry may edit the object already, and
// could as well set an owner reference.
func adoptable(c *unstructured.Unstructured) bool {
	return metav1.GetControllerOf(c) == nil && c.GetDeletionTimestamp() == nil && applied(c)
}

func applied(c *unstructured.Unstructured) bool {
	for _, e := range c.GetManagedFields() {
		if e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			return true
		}
	}
	return false
}

// wrote keeps the answer to a write: it is newer than the cache.
func (s *scope) wrote(answer *unstructured.Unstructured) {
	s.memory.written[keyOf(answer)] = answer.GetResourceVersion()
	s.memory.children[keyOf(answer)] = answer.GetUID()
	for i, c := range s.owned {
		if keyOf(c) == keyOf(answer) {
			s.owned[i] = answer
			return
		}
	}
	s.owned = append(s.owned, answer)
}

// quarrel is how often a child was put back, when last, and why the API server refused that,
// if it did.
type quarrel struct {
	times   int
	last    time.Time
	refused error
}

// pause is how long to wait until a child may be put back again. Someone who keeps
// changing it, such as an admission webhook or another controller, would otherwise make
// the operator write, and the pods roll, without an end.
//
// With stray, an image that was not judged is in the child: the pause then stays as short
// as limits.StrayImagePause, or whoever keeps editing would have it run most of the time.
func (m *memory) pause(key childKey, stray bool, now time.Time) time.Duration {
	q := m.quarrels[key]
	if q.times < limits.HealsAtOnce {
		return 0
	}
	longest := limits.HealPause
	if stray {
		longest = limits.StrayImagePause
	}
	wait := min(time.Second<<min(q.times-limits.HealsAtOnce, 10), longest)
	return max(0, q.last.Add(wait).Sub(now))
}

func (m *memory) putBack(key childKey, now time.Time, refused error) {
	q := m.quarrels[key]
	if now.Sub(q.last) > limits.HealQuiet {
		q.times = 0
	}
	m.quarrels[key] = quarrel{times: q.times + 1, last: now, refused: refused}
}

// overdue turns a StatefulSet's lack of progress into Degraded after the deadline: unlike
// a Deployment it has none of its own, and one whose pods crash would be Progressing for
// ever. The second result is when to look again.
func (m *memory) overdue(c *unstructured.Unstructured, h health.Health, now time.Time, deadline time.Duration) (health.Health, time.Duration) {
	if c.GetKind() != "StatefulSet" {
		return h, 0
	}
	if h.Status != health.Progressing || c.GetDeletionTimestamp() != nil {
		m.standstill = ""
		return h, 0
	}
	if h.Message != m.standstill {
		m.standstill, m.since = h.Message, now
	}
	left := m.since.Add(deadline).Sub(now)
	if left > 0 {
		return h, left
	}
	message := fmt.Sprintf("no progress for %s: %s", deadline, h.Message)
	return health.Health{Status: health.Degraded, Message: message}, 0
}
