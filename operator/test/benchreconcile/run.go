package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

// The namespaces of the operator's Workloads, and of the children without one.
const operatorPrefix, plainPrefix = "operator", "plain"

const (
	operatorUser = "system:serviceaccount:" + stage.OperatorNamespace + ":sluice-manager"
	// sampled are the Workloads of the overlay's own sample fleet.
	sampled = 2
	// patience is how long any one phase may take.
	patience = 15 * time.Minute
	// calm is how long nothing may happen for the operator to count as quiet, and look how
	// often that is looked for.
	calm, look = 3 * time.Second, 250 * time.Millisecond
)

var gates = schema.GroupVersionResource{Group: v1beta1.GroupVersion.Group, Version: v1beta1.GroupVersion.Version, Resource: "gates"}

// options of a run.
type options struct {
	workloads, workers, qps int
	// root of the repository, the operator's binary, and where logs are kept.
	root, manager, dir string
}

// bench is what the phases share.
type bench struct {
	options
	stage  *stage.Stage
	client dynamic.Interface
	audit  *ledger
	log    io.Writer
}

// measure runs every phase in a cluster of its own.
func measure(ctx context.Context, o options, log io.Writer) (r *results, err error) {
	b := &bench{options: o, log: log}
	b.stage, err = stage.Up(ctx, stage.Options{
		Root: o.root, Overlay: "kustomize/overlays/dev", Manager: o.manager, Dir: o.dir, Log: log,
		ManagerArgs: []string{fmt.Sprint("--workers=", o.workers), fmt.Sprint("--kube-api-qps=", o.qps)},
		AuditUsers:  []string{operatorUser, plainUser},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stage.Stop()) }()
	b.audit = &ledger{path: b.stage.Cluster.AuditLog()}
	if b.client, err = dynamic.NewForConfig(b.stage.Cluster.Config()); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	// A soak begins anew whenever the operator starts, and status says until when: that would be
	// counted among the writes.
	if err := b.patchGate(ctx, `{"spec":{"attest":null}}`); err != nil {
		return nil, err
	}
	r = &results{options: o}
	for _, phase := range []struct {
		name string
		run  func(context.Context, *results) error
	}{
		{"start without Workloads", b.empty}, {"create the Workloads", b.fill}, {"judge all again", b.rest},
		{"start again", b.restart}, {"write the same children without an operator", b.plain},
	} {
		_, _ = fmt.Fprintln(log, phase.name)
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := phase.run(ctx, r)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s: %w; the operator's log is %s", phase.name, err, b.stage.Manager.Log())
		}
	}
	return r, nil
}

// empty is the operator with the sample fleet only.
func (b *bench) empty(ctx context.Context, r *results) error {
	for i := 0; i < b.workloads; i += perImage {
		if err := b.stage.PushSigned(imageOf(i)); err != nil {
			return err
		}
	}
	if err := b.stage.Cluster.Apply(ctx, namespaces(operatorPrefix, b.workloads)); err != nil {
		return err
	}
	if err := until(ctx, b.client, workloads, sampled, isReady); err != nil {
		return err
	}
	var err error
	r.empty, err = b.settled(ctx, time.Now(), sampled)
	return err
}

// fill creates the Workloads and waits until all are Ready.
func (b *bench) fill(ctx context.Context, r *results) error {
	before, err := scrape(ctx, b.stage)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := create(ctx, b.client, operatorPrefix, b.workloads); err != nil {
		return err
	}
	r.created = time.Since(begin)
	if err := until(ctx, b.client, workloads, sampled+b.workloads, isReady); err != nil {
		return err
	}
	r.ready = time.Since(begin)
	r.fill, err = b.settled(ctx, begin, before.reconciles+float64(b.workloads))
	r.fill.counters = r.fill.minus(before)
	if err != nil {
		return err
	}
	r.told, err = progressTold(r.fill.requests)
	return err
}

// rest has every Workload judged again, as a resync does: a Gate that is changed, if only
// in its annotations, brings all of them.
func (b *bench) rest(ctx context.Context, r *results) error {
	before, err := scrape(ctx, b.stage)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := b.patchGate(ctx, `{"metadata":{"annotations":{"example.com/touched":"true"}}}`); err != nil {
		return err
	}
	r.rest, err = b.settled(ctx, begin, before.reconciles+float64(sampled+b.workloads))
	r.rest.counters = r.rest.minus(before)
	return err
}

// patchGate changes the Gate that the Workloads are judged by.
func (b *bench) patchGate(ctx context.Context, patch string) error {
	if _, err := b.client.Resource(gates).Patch(ctx, "dev", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch Gate dev: %w", err)
	}
	return nil
}

// restart runs the operator anew over Workloads that are there.
func (b *bench) restart(ctx context.Context, r *results) error {
	if err := b.stage.Manager.Stop(); err != nil {
		return err
	}
	if _, err := b.audit.next(); err != nil { // what it did when it ended
		return err
	}
	begin := time.Now()
	if err := b.stage.StartManager(ctx); err != nil {
		return err
	}
	var err error
	r.restart, err = b.settled(ctx, begin, float64(sampled+b.workloads))
	return err
}

// plain writes the children again, in other namespaces, while the operator is not running.
func (b *bench) plain(ctx context.Context, r *results) error {
	if err := b.stage.Manager.Stop(); err != nil {
		return err
	}
	var err error
	if r.plainWrote, r.plainReady, err = b.writePlain(ctx); err != nil {
		return err
	}
	requests, err := b.audit.next()
	if err != nil {
		return err
	}
	r.plain = count(requests, plainUser)
	r.childrenEach = r.plain.children / b.workloads
	return nil
}

// reading is what the operator did in a phase and what it holds at its end.
type reading struct {
	counters
	tally    tally
	requests []request
	// took is from the beginning of the phase until the last thing that happened.
	took time.Duration
	// rss at the end, and at its highest since the process began, in bytes.
	rss, highest int64
}

// minus is what was counted since before; what is held stays.
func (r reading) minus(before counters) counters {
	now := r.counters
	now.reconciles -= before.reconciles
	now.failed -= before.failed
	now.registry -= before.registry
	now.cpu -= before.cpu
	return now
}

// settled waits until the operator has reconciled so often in all, and then nothing has
// happened for a while.
func (b *bench) settled(ctx context.Context, begin time.Time, reconciles float64) (reading, error) {
	r := reading{}
	last := begin
	err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		select {
		case <-b.stage.Manager.Done():
			return false, fmt.Errorf("the operator ended by itself: %w", b.stage.Manager.Wait())
		default:
		}
		now, err := scrape(ctx, b.stage)
		if err != nil {
			return false, err
		}
		more, err := b.audit.next()
		if err != nil {
			return false, err
		}
		r.requests = append(r.requests, more...)
		busy := count(more, operatorUser)
		if now.reconciles != r.reconciles || now.waiting+now.running > 0 || busy.reads()+busy.writes() > 0 {
			last = time.Now()
		}
		r.counters = now
		if r.rss, err = b.stage.Manager.RSS(); err != nil {
			return false, err
		}
		if r.highest, err = b.stage.Manager.PeakRSS(); err != nil {
			return false, err
		}
		return now.reconciles >= reconciles && time.Since(last) >= calm, nil
	})
	r.tally, r.took = count(r.requests, operatorUser), last.Sub(begin)
	return r, err
}
