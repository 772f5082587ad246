package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

const (
	// leaseDuration and its like are shorter than the defaults, which would only be waited for.
	leaseDuration = 5 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = time.Second

	// led is a namespace and the environment of its Gate.
	led       = "led"
	nextImage = "registry.example.com/shop/cache:7.2.5"
)

// TestLeader_GoesAwayInTheMiddleOfARollout has two replicas of the operator, one of which
// stands by, and the one that leads goes away while a canary is on its way: killed, asked to
// end, or stopped until the other leads.
func TestLeader_GoesAwayInTheMiddleOfARollout(t *testing.T) {
	r := newReplicas(t, "--leader-elect-lease-duration="+leaseDuration.String(),
		"--leader-elect-renew-deadline="+renewDeadline.String(), "--leader-elect-retry-period="+retryPeriod.String())
	fleet := r.fleet(t)
	calm := fleet[0]
	t.Run("standby", func(t *testing.T) { r.standsBy(t) })

	from := len(r.log.read(t))
	r.setImage(t, calm, nextImage)
	r.released(t, calm)
	usual := r.children(t, from, calm)
	t.Logf("a rollout takes %v", usual)

	for i, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSTOP} {
		w := fleet[1+i]
		t.Run(w.GetName(), func(t *testing.T) { r.change(t, w, fleet, signal, usual) })
	}
}

// fleet is a namespace with Workloads that run, named by what befalls the leader while their
// next release is on its way.
func (r *replicas) fleet(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	if err := r.stage.PushSigned("shop/cache:7.2.5"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.stage.Push("shop/report:0.9.0"); err != nil {
		t.Fatal(err)
	}
	// The Gate attests nothing: a soak begins anew with the leader, and says so.
	objects := []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": led, "labels": map[string]any{"sluice.dev/environment": led}},
		}},
		{Object: map[string]any{
			"apiVersion": "sluice.dev/v1beta1", "kind": "Gate", "metadata": map[string]any{"name": led},
			"spec": map[string]any{
				"environment": led, "match": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"sluice.dev/environment": led}}},
				"images": []any{map[string]any{"match": stage.Registry + "/shop/**", "requireDigest": false, "authorities": []any{map[string]any{
					"name": "release-key", "key": map[string]any{"secret": map[string]any{"name": stage.SignerSecret, "namespace": stage.OperatorNamespace, "key": "cosign.pub"}},
				}}}},
			},
		}},
	}
	var fleet []*unstructured.Unstructured
	for _, name := range []string{"calm", "killed", "ended", "stopped"} {
		w := canaried(name, nil)
		w.SetNamespace(led)
		canary := map[string]any{"batchSize": int64(1), "interval": "1s"}
		if err := unstructured.SetNestedMap(w.Object, canary, "spec", "rollout", "canary"); err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, w)
	}
	if err := r.stage.Cluster.Apply(t.Context(), append(objects, fleet...)); err != nil {
		t.Fatal(err)
	}
	for _, w := range fleet {
		r.await(t, w.GetName()+" runs", func(ctx context.Context) error { return r.settled(ctx, w, "Ready", "") })
	}
	return fleet
}

// change has the leader go away in the middle of a rollout of w.
func (r *replicas) change(t *testing.T, w *unstructured.Unstructured, fleet []*unstructured.Unstructured, signal syscall.Signal, usual map[string]int) {
	if len(r.running) < 2 {
		r.join(t)
	}
	leader, other := r.leader(t)
	ask, from, began := r.ask(t), len(r.log.read(t)), time.Now()
	r.setImage(t, w, nextImage)
	r.midway(t, w)
	before := ask.soFar()
	send(t, leader, signal)
	away := time.Now()
	r.await(t, "the other leads", func(context.Context) error {
		if e := r.lease(t); credential(e) != other.credential {
			return fmt.Errorf("the Lease was written last by %s at %s", credential(e), e.StageTimestamp)
		}
		return nil
	})
	took, between := time.Since(away), ask.soFar()-before
	if signal == syscall.SIGSTOP {
		send(t, leader, syscall.SIGCONT)
	}
	r.ends(t, leader, signal)
	r.released(t, w)
	done := time.Since(away)
	r.quiet(t, other)
	ask.stop()

	r.handedOver(t, from, leader, other, signal)
	r.doneOnce(t, from, began, w, fleet, usual)
	r.judged(t, from)
	if len(ask.wrong) > 0 {
		t.Errorf("wrong verdicts: %v", ask.wrong)
	}
	// Who goes away takes along what it was asked, and who is stopped hangs with it. How many
	// wait for too long is up to the machine too, but never most of them.
	if between == 0 || ask.silent > 4*clients || ask.late > ask.right {
		t.Errorf("%d verdicts before the other led and %d in all, %d late, %d requests refused without one, such as: %s", between, ask.right, ask.late, ask.silent, ask.why)
	}
	if ask.silent > 0 {
		t.Logf("refused without a verdict: %s", ask.why)
	}
	t.Logf("took over after %s, released after %s; of requests for a verdict %d were answered rightly, %d of them in between, %d late, and %d refused without one; at most %s between two",
		took.Round(time.Millisecond), done.Round(time.Millisecond), ask.right, between, ask.late, ask.silent, ask.gap.Round(time.Millisecond))
	r.running = []*replica{other}
}

func send(t *testing.T, to *replica, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(to.PID(), signal); err != nil {
		t.Fatalf("send %s to %s: %v", signal, to.Name(), err)
	}
}

// midway waits until a canary is at its second step of three.
func (r *replicas) midway(t *testing.T, w *unstructured.Unstructured) {
	t.Helper()
	r.await(t, "a canary of "+w.GetName()+" is midway", func(ctx context.Context) error {
		if err := r.stands(ctx, w, "Canary"); err != nil {
			return err
		}
		if step, _ := r.rollout(t, w)["step"].(int64); step < 2 {
			return fmt.Errorf("at step %d", step)
		}
		return nil
	})
}

// released waits until a rollout is at its end.
func (r *replicas) released(t *testing.T, w *unstructured.Unstructured) {
	t.Helper()
	canary := child(w)
	canary.SetName(w.GetName() + "-canary")
	r.await(t, w.GetName()+" is released", func(ctx context.Context) error {
		if err := r.settled(ctx, w, "Ready", ""); err != nil {
			return err
		}
		if now := r.rollout(t, w); now["stableDigest"] != now["currentDigest"] {
			return fmt.Errorf("%s: %v", w.GetName(), now)
		}
		return r.gone(ctx, canary)
	})
}

// ends waits until a leader that went away has ended, in the way that it has to.
func (r *replicas) ends(t *testing.T, leader *replica, signal syscall.Signal) {
	t.Helper()
	r.await(t, "the former leader ends", func(context.Context) error {
		select {
		case <-leader.Done():
			return nil
		default:
			return errors.New("it runs")
		}
	})
	log, err := os.ReadFile(leader.Log())
	if err != nil {
		t.Fatal(err)
	}
	want := map[syscall.Signal]string{syscall.SIGKILL: "signal: killed", syscall.SIGTERM: "<nil>", syscall.SIGSTOP: "exit status 1"}[signal]
	if got := fmt.Sprint(leader.Wait()); got != want {
		t.Errorf("the former leader ended with %s, want %s", got, want)
	}
	if says := strings.Contains(string(log), `"msg":"Manager ended","err":"another replica leads: Lease sluice-system/sluice.dev`); says != (signal == syscall.SIGSTOP) {
		t.Errorf("that it lost the Lease is in its log: %t", says)
	}
}

// quiet waits until the leader renewed the Lease twice and wrote nothing else about
// Workloads in between.
func (r *replicas) quiet(t *testing.T, leader *replica) {
	t.Helper()
	r.await(t, "the leader rests", func(context.Context) error {
		renewals, last := 0, ""
		for _, e := range r.log.read(t) {
			switch {
			case credential(e) != leader.credential || !writes(e):
			case e.ObjectRef.Namespace != stage.OperatorNamespace:
				renewals, last = 0, fmt.Sprintf("%s %s of %s/%s", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name)
			case e.ObjectRef.Resource == "leases":
				renewals++
			}
		}
		if renewals < 2 {
			return fmt.Errorf("%d renewals since %s", renewals, last)
		}
		return nil
	})
}

// handedOver checks that the former leader sent no write once the other led, and that a
// Lease that was not given back was left to expire, and taken then. What it sent before may
// take until then: it waits for a webhook, and that for the replica that was stopped. An event
// about the Lease is about the replica itself.
func (r *replicas) handedOver(t *testing.T, from int, former, next *replica, signal syscall.Signal) {
	t.Helper()
	var renewed, taken time.Time
	for i, e := range r.log.read(t) {
		lease := e.ObjectRef.Resource == "leases" && writes(e) && e.ResponseStatus.Code < 300
		switch {
		case lease && credential(e) == former.credential:
			renewed = e.RequestReceivedTimestamp.Time
		case lease && credential(e) == next.credential && taken.IsZero() && i >= from:
			taken = e.RequestReceivedTimestamp.Time
		}
		if !taken.IsZero() && e.RequestReceivedTimestamp.After(taken) && credential(e) == former.credential && writes(e) && e.ObjectRef.Namespace != stage.OperatorNamespace {
			t.Errorf("the former leader: %s %s of %s/%s, %s after the other led", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name, e.RequestReceivedTimestamp.Sub(taken))
		}
	}
	switch expired := taken.Sub(renewed) >= leaseDuration; {
	case renewed.IsZero() || taken.IsZero():
		t.Errorf("the Lease was renewed at %s and taken at %s", renewed, taken)
	case expired == (signal == syscall.SIGTERM):
		t.Errorf("the Lease was taken %s after its last renewal", taken.Sub(renewed))
	}
	looks := 0
	for _, e := range r.log.read(t) {
		if e.ObjectRef.Resource == "leases" && e.Verb == "get" && credential(e) == next.credential && e.RequestReceivedTimestamp.After(renewed) && e.RequestReceivedTimestamp.Time.Before(taken) {
			looks++
		}
	}
	// However slow the machine is: two looks are a retry period apart or more, so that the
	// Lease has expired by the last of these. The first may still see the renewal before.
	most := 2
	if signal != syscall.SIGTERM {
		most += int(leaseDuration / retryPeriod)
	}
	if looks == 0 || looks > most {
		t.Errorf("the Lease was taken with look %d after its last renewal, want %d at most", looks, most)
	}
}

// doneOnce checks that a rollout that two leaders brought about was as one's: as many writes
// of its children, and no event twice. The other Workloads were not written at all.
func (r *replicas) doneOnce(t *testing.T, from int, began time.Time, w *unstructured.Unstructured, fleet []*unstructured.Unstructured, usual map[string]int) {
	t.Helper()
	written := r.children(t, from, w)
	for write, n := range written {
		most := usual[write]
		if strings.HasPrefix(write, "patch ") {
			most++ // what was on its way when the leader went away may be done again
		}
		if n > most {
			t.Errorf("%s: %d times, without a change of leader %d times", write, n, usual[write])
		}
	}
	for _, e := range r.log.read(t)[from:] {
		for _, other := range fleet {
			if other != w && about(e.ObjectRef.Name, other) && e.User.Username == operatorUser && writes(e) {
				t.Errorf("%s %s %s/%s, of a Workload at rest", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Name, e.ObjectRef.Subresource)
			}
		}
	}
	events := &eventsv1.EventList{}
	if err := r.client.List(t.Context(), events, client.InNamespace(led)); err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, e := range events.Items {
		if e.Regarding.Kind != "Workload" || e.Regarding.Name != w.GetName() || e.EventTime.Time.Before(began) {
			continue
		}
		if what := e.Reason + ": " + e.Note; told[what] || e.Series != nil {
			t.Errorf("told twice: %s", what)
		} else {
			told[what] = true
		}
	}
	if len(told) == 0 {
		t.Error("no event tells of the rollout")
	}
	t.Logf("children: %v; %d events", written, len(told))
}

// inName is a hash or a number in the name of a child.
var inName = regexp.MustCompile(`-[0-9a-f]{16}-[0-9]+$`)

// children counts, by verb and child, the operator's writes of the children of a Workload
// that the API server took, from a place in its log on.
func (r *replicas) children(t *testing.T, from int, w *unstructured.Unstructured) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, e := range r.log.read(t)[from:] {
		ref := e.ObjectRef
		if e.User.Username != operatorUser || !writes(e) || e.ResponseStatus.Code >= 300 || ref.Resource == "workloads" || ref.Resource == "events" || !about(ref.Name, w) {
			continue
		}
		verb := e.Verb
		if e.ResponseStatus.Code == 201 {
			verb = "create" // by an apply
		}
		out[fmt.Sprintf("%s %s%s", verb, ref.Resource, inName.ReplaceAllString(strings.TrimPrefix(ref.Name, w.GetName()), ""))]++
	}
	return out
}

// about says whether a name is that of a Workload, of one of its children or of an event
// about it.
func about(name string, w *unstructured.Unstructured) bool {
	return name == w.GetName() || strings.HasPrefix(name, w.GetName()+"-") || strings.HasPrefix(name, w.GetName()+".")
}
