// Package workload reconciles Workloads: it judges each with the same engine as
// admission, applies the children that were judged, and says in status what it saw.
package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/health"
	"github.com/sluice-dev/sluice/operator/internal/ignore"
	"github.com/sluice-dev/sluice/operator/internal/metrics"
	"github.com/sluice-dev/sluice/operator/internal/rollout"
)

const (
	// fieldManager owns every field that the operator applies.
	fieldManager = "sluice"
	// finalizerManager owns the finalizer alone: the operator applies it apart from
	// status, and two applies of one manager would take each other's fields away.
	finalizerManager = "sluice-finalizer"
	// finalizer keeps a Workload until its children are dealt with.
	finalizer = "sluice.dev/children"
)

// Reconciler reconciles Workloads. All fields but ProgressPause are required.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache, for objects that the cache does not select or does not
	// have yet.
	Live client.Reader
	// Names holds the metadata of Secrets and ConfigMaps in all namespaces.
	Names client.Reader
	// Judge decides.
	Judge *gather.Judge
	// Analysis measures canaries.
	Analysis Measurer
	// Notary stores evidence, for Gates that attest.
	Notary Notary
	// Events is told about transitions.
	Events events.EventRecorder
	// Metrics counts.
	Metrics *metrics.Set
	// Now is the clock.
	Now func() time.Time
	// Shard selects the Workloads that are this operator's; others are left alone.
	Shard labels.Selector
	// ProgressPause is the shortest time between two writes of a status that tell of
	// nothing but progress; zero: each is written.
	ProgressPause time.Duration

	// woken are Workloads of which something is known that no watch tells.
	woken chan event.GenericEvent
	// memories of Workloads by namespace and name.
	memories sync.Map
	// usage is what their pods refer to.
	usage usage
	// observe, where a test sets it, is told every verdict. One that is as the last leaves no
	// trace in status or events, and metrics have no names.
	observe func(gate.Verdict)
}

// scope carries the facts of one reconcile from phase to phase.
type scope struct {
	workload *v1beta1.Workload
	memory   *memory
	now      time.Time
	// judgement is nil until the gate was asked.
	judgement *gather.Judgement
	// owned are the live children that are this Workload's, see mine.
	owned []*unstructured.Unstructured
	// desired are the children to apply, in order.
	desired []*unstructured.Unstructured
	// ignored are the rules of spec.drift.ignore.
	ignored []ignore.Rule
	// scaler is the HorizontalPodAutoscaler that sets the replicas of the pods' controller.
	scaler string
	// complete says that every child of this generation has been there, so that one which
	// is missing was deleted by someone.
	complete bool
	// drift is what others changed and is still so, healed what was put back.
	drift, healed []v1beta1.DriftChange
	// quarrel names a child that keeps being changed, and is left alone for a while.
	quarrel string
	// release is how far the rollout of the spec is.
	release release
	// volumes is how large the volumes of a StatefulSet that exists are to be, by claim
	// template; growing tells of those that are not yet.
	volumes map[string]resource.Quantity
	growing []string
	// health of owned, by position.
	health []health.Health
	// seen is a hash of what the pods refer to, empty when that is nothing; incomplete says
	// that some of it is missing.
	seen       string
	incomplete bool
	// unmet is what of its dependencies is not as it has to be for a first start.
	unmet *obstacle
	// lacking is what pods that already run will miss when they restart.
	lacking error
	// before is whom a deletion waits for before it touches a child.
	before string
	// again is how soon to look again, when not zero.
	again time.Duration
}

func (s *scope) lookAgain(in time.Duration) {
	if s.again == 0 || in < s.again {
		s.again = in
	}
}

// phase is one step. An error ends the sequence; status is written all the same.
type phase func(ctx context.Context, s *scope) error

// Reconcile brings one Workload closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.open(ctx, req.NamespacedName)
	if s == nil || err != nil {
		return ctrl.Result{}, err
	}
	if !s.workload.DeletionTimestamp.IsZero() {
		return r.delete(ctx, s)
	}
	err = run(ctx, s, r.readOwned, r.findLost, r.recallRollout, r.respectPause, r.judge, r.waitForReferences, r.waitForDependencies,
		r.leaveToOthers, r.steer, r.claim, r.keepClaimSizes, r.hold, r.apply, r.resume, r.growVolumes, r.prune, r.keepStable)
	if err == nil {
		err = s.lacking
	}
	if !s.release.watched {
		s.memory.vigil.close(s.now)
	}
	return r.close(ctx, s, err)
}

func run(ctx context.Context, s *scope, phases ...phase) error {
	for _, p := range phases {
		if err := p(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// open reads the Workload; there is no scope when there is none. A cache that does not
// have the operator's last write yet is passed by: from an old status, the transition that
// was told already would be told again.
func (r *Reconciler) open(ctx context.Context, key client.ObjectKey) (*scope, error) {
	w := &v1beta1.Workload{}
	err := r.Client.Get(ctx, key, w)
	if err == nil && older(w.ResourceVersion, r.recall(w).version) {
		w = &v1beta1.Workload{}
		err = r.Live.Get(ctx, key, w)
	}
	if apierrors.IsNotFound(err) {
		r.forget(key)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Workload %s: %w", key, err)
	}
	if !r.Shard.Matches(labels.Set(w.Labels)) {
		// Moved to another operator, which takes over what is there.
		r.forget(key)
		return nil, nil
	}
	return &scope{workload: w, memory: r.recall(w), now: r.Now()}, nil
}

// close writes status and says when to look again.
func (r *Reconciler) close(ctx context.Context, s *scope, err error) (ctrl.Result, error) {
	err = s.masked(err)
	if o := obstacleOf(err); o != nil && o.kind == outdated {
		// Half of what was seen is from before a write of someone else: no status is better
		// than a wrong one for half a second.
		logf.FromContext(ctx).Info("Reading again: something changed meanwhile", "reason", o.message)
		return outcome(err, s.rest(), s.again)
	}
	r.readHealth(s)
	r.attest(ctx, s, obstacleOf(err))
	statusErr := r.report(ctx, s, err)
	if apierrors.IsNotFound(statusErr) || apierrors.IsConflict(statusErr) {
		// The Workload is gone, or another one has its name.
		return outcome(&obstacle{kind: outdated, reason: reasonFailed, message: statusErr.Error(), err: statusErr}, s.rest(), 0)
	}
	if statusErr != nil {
		return ctrl.Result{}, errors.Join(err, statusErr)
	}
	return outcome(err, s.rest(), s.again)
}

// readHealth judges the children as they are now. It runs whatever stopped the phases:
// what was running keeps running, and status says how. The order in which children were
// read or written means nothing, and a status that only differs in it would be written
// again.
func (r *Reconciler) readHealth(s *scope) {
	slices.SortFunc(s.owned, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetName(), b.GetName()))
	})
	deadline := rollout.PlanOf(&s.workload.Spec).ProgressDeadline
	for _, c := range s.owned {
		h, again := s.memory.overdue(c, health.Of(c), s.now, deadline)
		if again > 0 {
			s.lookAgain(again)
		}
		s.health = append(s.health, h)
	}
}
