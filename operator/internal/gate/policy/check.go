// Package policy judges by OPA policies: the library that ships with Sluice, and Rego
// that a Gate refers to. Each source is compiled on its own, so that none can add rules
// to another, but for the groups of the library, which are one. All are evaluated within
// the bounds of package limits. What could not be evaluated is Undecided, never passed over.
package policy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Check evaluates the policies of a Gate. It keeps them compiled.
type Check struct {
	cache    *cache
	workers  *workers
	deadline time.Duration
	grace    time.Duration
}

// New makes a check with an empty cache. A process needs one: it keeps a goroutine per
// CPU for its evaluations.
func New() *Check {
	return &Check{
		cache: newCache(limits.CompiledPolicies), workers: newWorkers(),
		deadline: limits.PolicyDeadline, grace: limits.PolicyGrace,
	}
}

// Prepare starts to compile what of a Gate's policies comes with Sluice, and returns. That of
// others waits until something is judged by it: it may never be.
func (c *Check) Prepare(groups []string) {
	var sets []gate.PolicySet
	for _, name := range groups {
		if set, ok := Builtin(name); ok {
			sets = append(sets, set)
		}
	}
	for _, u := range unitsOf(sets) {
		c.cache.entry(u)
	}
}

// Evaluate implements gate.Check.
func (c *Check) Evaluate(ctx context.Context, in *gate.Input) gate.Findings {
	var all gate.Findings
	if len(in.Gate.Policies) == 0 {
		return all
	}
	units := unitsOf(in.Gate.Policies)
	entries := c.await(ctx, units)
	ctx, cancel := context.WithTimeout(ctx, c.deadline)
	defer cancel()
	input, err := policyInput(in)
	if err != nil {
		all.Undecided = append(all.Undecided, undecided("policy", in, err.Error(),
			"this object cannot be given to policies: write it as plain YAML or JSON"))
		return all
	}
	for i, u := range units {
		found := c.evaluateUnit(ctx, u, entries[i], input, in)
		all.Deny = append(all.Deny, found.Deny...)
		all.Warn = append(all.Warn, found.Warn...)
		all.Undecided = append(all.Undecided, found.Undecided...)
	}
	return all
}

// await has units compiled that are not yet, on time of its own: the first decisions of a
// process would otherwise have less than PolicyDeadline for the rest, and none on a busy
// machine. What is not ready then is told by who evaluates it. There is no entry for a unit
// that is unavailable.
func (c *Check) await(ctx context.Context, units []unit) []*cached {
	entries := make([]*cached, len(units))
	ready := true
	for i, u := range units {
		if u[0].Unavailable == "" {
			entries[i] = c.cache.entry(u)
			ready = ready && entries[i].isReady()
		}
	}
	if ready {
		return entries
	}
	ctx, cancel := context.WithTimeout(ctx, limits.PolicyCompile)
	defer cancel()
	for _, entry := range entries {
		if entry != nil {
			_, _ = entry.wait(ctx)
		}
	}
	return entries
}

func (c *Check) evaluateUnit(ctx context.Context, u unit, entry *cached, input *documents, in *gate.Input) gate.Findings {
	if u[0].Unavailable != "" {
		return u.undecided(in, u[0].Unavailable, "put right what the message names, or take the policies out of spec.policies of the Gate")
	}
	if ctx.Err() != nil {
		return u.undecided(in, "the policies were not evaluated: "+c.outOfTime(ctx), "make the policies before these cheaper, or take them out of the Gate")
	}
	source, err := entry.wait(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return u.undecided(in, "the policies were not compiled: "+c.outOfTime(ctx), "try again; if that does not do, split or simplify these policies")
	case err != nil:
		return u.undecided(in, "the policies do not compile: "+err.Error(), "correct the Rego as the message says; opa check finds the same, but for what names one of our limits")
	case source.stuck.Load() > 0:
		return u.undecided(in, "an earlier evaluation of these policies has not ended, so that they are not evaluated",
			"find the call that takes so long, such as glob.match or regex.match on a long text, and make it cheaper")
	}
	found := c.watch(ctx, source, &run{rules: source.rules, together: source.together, input: input, in: in, shared: source.results})
	found.Warn = append(found.Warn, u.doubts(in)...)
	return found
}

// watch runs the evaluation and returns when its time is over, even if it is inside a
// call that cannot be interrupted.
func (c *Check) watch(ctx context.Context, source *compiled, r *run) gate.Findings {
	stop := context.AfterFunc(ctx, r.meter.Cancel)
	defer stop()
	done := make(chan gate.Findings, 1)
	c.workers.run(func() { done <- r.evaluate(ctx, c) })
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
	}
	grace := time.NewTimer(c.grace)
	defer grace.Stop()
	select {
	case found := <-done:
		return found
	case <-grace.C:
	}
	source.stuck.Add(1)
	go func() {
		<-done
		source.stuck.Add(-1)
	}()
	current := &r.rules[r.current.Load()]
	return only(undecided(current.policy, r.in, c.outOfTime(ctx)+", within one call that cannot be interrupted",
		"find the call in "+current.ref+" that takes so long, and make it cheaper"))
}

// run is one evaluation of one unit.
type run struct {
	rules    []rule
	together *rego.PreparedEvalQuery
	input    *documents
	in       *gate.Input
	meter    meter
	// current is the index of the rule that is evaluated, for who watches from outside.
	current atomic.Int32
	// shared makes the store for values that rules share.
	shared func() topdown.VirtualCache
}

func (r *run) evaluate(ctx context.Context, c *Check) (all gate.Findings) {
	defer func() {
		if p := recover(); p != nil {
			all.Undecided = append(all.Undecided, undecided(r.rules[r.current.Load()].policy, r.in,
				fmt.Sprintf("evaluation failed: %v", p), "report this with the policy: it is a fault of Sluice or OPA"))
		}
	}()
	if found, ok := r.allAtOnce(ctx); ok {
		return found
	}
	shared := map[ast.Value]topdown.VirtualCache{}
	defer func() {
		for _, store := range shared {
			giveBack(store)
		}
	}()
	for i := range r.rules {
		rule := &r.rules[i]
		r.current.Store(int32(i))
		if rule.unclear != "" && !r.input.statement {
			all.Undecided = append(all.Undecided, undecided(rule.policy, r.in, rule.ref+": "+rule.unclear, "correct the policy, or split it into two packages"))
			continue
		}
		for _, doc := range r.input.of(rule) {
			if shared[doc.value] == nil {
				shared[doc.value] = r.shared()
			}
			found, err := r.one(ctx, rule, doc, shared[doc.value])
			switch {
			case err == nil:
				rule.note(&all, found)
			case r.meter.exceeded != "" || r.meter.stopped.Load():
				all.Undecided = append(all.Undecided, r.cutOff(ctx, c, i))
				return all
			default:
				all.Undecided = append(all.Undecided, failed(rule, r.in, doc, err))
				// What a function could not work out is kept as undefined; the next rule has
				// to meet the error itself.
				delete(shared, doc.value)
			}
		}
	}
	return all
}

// allAtOnce asks all rules in one query: to start one costs as much as many a rule. It says
// false where it is not known by that what each rule finds: one failed, or took too much.
func (r *run) allAtOnce(ctx context.Context) (all gate.Findings, ok bool) {
	if r.together == nil {
		return all, false
	}
	doc, shared := r.input.envelope, r.shared()
	defer giveBack(shared)
	value, err := r.ask(ctx, r.together, doc, shared)
	r.meter.restart()
	values, ok := value.(*ast.Array)
	if err != nil || !ok || values.Len() != len(r.rules) {
		return all, false
	}
	for i := range r.rules {
		rule := &r.rules[i]
		found, err := readResult(rule, r.in, doc.object, values.Elem(i).Value)
		if err != nil {
			return gate.Findings{}, false
		}
		rule.note(&all, found)
	}
	return all, true
}

// note adds what the rule found to all.
func (r *rule) note(all *gate.Findings, found []gate.Finding) {
	if r.warns {
		all.Warn = append(all.Warn, found...)
		return
	}
	all.Deny = append(all.Deny, found...)
}

func failed(r *rule, in *gate.Input, doc document, err error) gate.Finding {
	f := undecided(r.policy, in, r.ref+": "+innermost(err).Error(), "correct the policy; opa eval with this input shows the same error")
	f.Object = doc.object
	return f
}

// one evaluates one rule. The values that it shares with others, such as the containers
// of all children, are worked out once and kept in shared.
func (r *run) one(ctx context.Context, rule *rule, doc document, shared topdown.VirtualCache) ([]gate.Finding, error) {
	query, err := rule.query()
	if err != nil {
		return nil, err
	}
	value, err := r.ask(ctx, &query, doc, shared)
	if err != nil {
		return nil, err
	}
	return readResult(rule, r.in, doc.object, value)
}

// ask is the value of a query of one expression.
func (r *run) ask(ctx context.Context, query *rego.PreparedEvalQuery, doc document, shared topdown.VirtualCache) (ast.Value, error) {
	results, err := query.Eval(ctx,
		rego.EvalParsedInput(doc.value), rego.EvalExternalCancel(&r.meter), rego.EvalVirtualCache(shared),
		rego.EvalGenerateJSON(asTerm), rego.EvalMetrics(metrics.NoOp()))
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Expressions) != 1 {
		return nil, errors.New("it is undefined")
	}
	return results[0].Expressions[0].Value.(*ast.Term).Value, nil
}

// asTerm leaves results as they are: as JSON they would be copied, and one whose parts
// share memory would grow exponentially.
func asTerm(term *ast.Term, _ *rego.EvalContext) (any, error) { return term, nil }

// cutOff names the rule that was cut off, and how many after it were not reached.
func (r *run) cutOff(ctx context.Context, c *Check, i int) gate.Finding {
	reason := r.meter.exceeded
	if reason == "" {
		reason = c.outOfTime(ctx)
	}
	if rest := len(r.rules) - i - 1; rest > 0 {
		reason = fmt.Sprintf("%s; %d rules after it were not evaluated", reason, rest)
	}
	return undecided(r.rules[i].policy, r.in, "evaluation was cut off: "+reason,
		"make "+r.rules[i].ref+" cheaper: look for nested iterations over the same list, and for text that is built in a loop")
}

func (c *Check) outOfTime(ctx context.Context) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("it takes longer than %s (limits.PolicyDeadline), or the request had less time left", c.deadline)
	}
	return "the request was cancelled"
}

// innermost is OPA's own error, without the frames that our functions add around it.
func innermost(err error) error {
	var inner *topdown.Error
	for next := err; errors.As(next, &inner); next = errors.Unwrap(inner) {
		err = inner
	}
	return err
}

func undecided(policy string, in *gate.Input, message, remedy string) gate.Finding {
	return gate.Finding{Policy: policy, Severity: gate.SeverityError, Object: in.Object.String(), Message: message, Remedy: remedy}
}

func only(f gate.Finding) gate.Findings { return gate.Findings{Undecided: []gate.Finding{f}} }
