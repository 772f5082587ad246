package workload

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/notary"
)

// Notary stores evidence. It answers at once, and calls wake when it knows more.
type Notary interface {
	// Look says whether evidence is there.
	Look(ctx context.Context, o notary.Order, name string, wake func()) notary.State
	// Write has it written where it is not.
	Write(ctx context.Context, o notary.Order, name string, wake func()) notary.State
}

// soak is what the process remembers of one Gate that has a Workload's images attested.
// After a restart it begins anew: that a Workload was Ready before stands in its status
// alone, which whoever may write status can forge.
type soak struct {
	// under is what has been so since, see standsUnder. Zero: nothing has.
	under string
	since time.Time
	// attested is what was found to be attested last, and failure why it could not be.
	attested, failure string
}

func (k *soak) interrupt() { k.since, k.failure = time.Time{}, "" }

// promise is how far what a Gate has attested is.
type promise struct {
	gate, environment, reason, message string
	// pending says that the Notary is about to know more.
	pending bool
}

// attest moves the attestations of the Workload on, and keeps what is to be told of them.
// It comes after everything else: nothing of it changes what is decided or applied.
func (r *Reconciler) attest(ctx context.Context, s *scope, o *obstacle) {
	m := s.memory
	if s.judgement == nil {
		// Paused, on its way out, or not to be read: whatever it is, it is a break.
		for _, k := range m.soaks {
			k.interrupt()
		}
		for i := range m.promises {
			if p := &m.promises[i]; p.reason == reasonSoaking {
				p.reason, p.message, p.pending = reasonNotSoaking, "attested once it has been Ready without a break for as long as the Gate says", false
			}
		}
		return
	}
	well := s.doesWell(o)
	soaks, promises := map[string]*soak{}, []promise(nil)
	for _, a := range s.judgement.Attests {
		k := m.soaks[a.Verdict.Gate]
		if k == nil {
			k = &soak{}
		}
		soaks[a.Verdict.Gate] = k
		p := r.attestFor(ctx, s, k, a, well)
		p.gate, p.environment = a.Verdict.Gate, a.Environment
		promises = append(promises, p)
	}
	m.soaks, m.promises = soaks, promises
}

// doesWell says whether what was judged is what runs, and every pod of it is ready. Of no
// pods at all nothing was seen.
func (s *scope) doesWell(o *obstacle) bool {
	p := primary(s.owned)
	return o == nil && !s.judgement.Blocked() && standingOf(s, nil).phase == v1beta1.PhaseReady &&
		len(s.drift) == 0 && len(s.healed) == 0 && s.quarrel == "" && p != nil && count(p, "readyReplicas") > 0
}

func (r *Reconciler) attestFor(ctx context.Context, s *scope, k *soak, a gather.Attests, well bool) promise {
	key, err := r.Judge.SigningKey(ctx, a)
	if err != nil {
		err = fmt.Errorf("the key to sign with: %w", err)
	}
	subject := hashOf([]any{a.Environment, a.Verdict.PolicyDigest, a.Images, key.ID})
	passes := len(a.Verdict.Violations) == 0
	if under := standsUnder(a); !well || !passes {
		k.interrupt()
	} else if k.since.IsZero() || k.under != under {
		k.under, k.since, k.failure = under, s.now, ""
	}
	switch {
	case err == nil && k.attested == subject && len(a.Unresolved) == 0:
		return promise{reason: reasonAttested, message: attestedText(a)}
	case a.Verdict.Outcome == gate.OutcomeError:
		return promise{reason: reasonNotSoaking, message: fmt.Sprintf("the Gate could not decide: attested once it has been allowed and Ready for %s without a break", a.Soak)}
	case a.Verdict.Outcome == gate.OutcomeDeny:
		return promise{reason: reasonRulesBroken, message: "the Gate denies it, and what it denies is not attested"}
	case !passes:
		return promise{reason: reasonRulesBroken, message: "what the Gate lets through in mode Warn or Audit breaks its rules, and is not attested"}
	case len(a.Unresolved) > 0:
		return promise{reason: reasonImageNotResolved, message: "the digest of " + a.Unresolved[0] + " is not known: name it by digest, or have a rule of spec.images look at it"}
	case k.since.IsZero():
		return promise{reason: reasonNotSoaking, message: fmt.Sprintf("attested once it has been Ready for %s without a break", a.Soak)}
	}
	var orders []notary.Order
	if err == nil {
		orders, err = r.orders(ctx, s, a, key)
	}
	if err != nil {
		return promise{reason: reasonAttestationFailed, message: err.Error()}
	}
	return r.pursue(ctx, s, k, a, orders, subject)
}

// standsUnder is what has to stay as it is for a soak: the images, and the verdict but for its
// warnings. Those deny nothing, and whoever may push can bring one, as by moving a tag.
func standsUnder(a gather.Attests) string {
	v := a.Verdict
	v.Outcome, v.Warnings = "", nil
	return hashOf([]any{v.Digest(), a.Images})
}

// pursue has written what is not there, once it is due.
func (r *Reconciler) pursue(ctx context.Context, s *scope, k *soak, a gather.Attests, orders []notary.Order, subject string) promise {
	now := r.ask(ctx, s, orders, r.Notary.Look)
	if now.absent && !s.now.Before(k.since.Add(a.Soak)) {
		since, err := r.settled(ctx, s, k.since)
		switch {
		case err != nil:
			now = answer{failed: err, again: s.now.Add(limits.AttestationPause)}
		case since.After(k.since):
			k.since = since
		default:
			now = r.ask(ctx, s, orders, r.Notary.Write)
		}
	}
	until := k.since.Add(a.Soak)
	switch {
	case now.failed != nil:
		k.failure = now.failed.Error()
		s.lookAgain(max(now.again.Sub(s.now), time.Second))
	case now.pending:
	case now.absent:
		k.failure = ""
		s.lookAgain(max(until.Sub(s.now), time.Second))
	default:
		k.failure, k.attested = "", subject
		return promise{reason: reasonAttested, message: attestedText(a)}
	}
	if k.failure != "" {
		// Also while it is tried again.
		return promise{reason: reasonAttestationFailed, message: k.failure, pending: now.pending && now.failed == nil}
	}
	return promise{
		reason: reasonSoaking, pending: now.pending,
		message: "attested at " + until.UTC().Format(time.RFC3339) + ", if it is Ready until then without a break",
	}
}

func attestedText(a gather.Attests) string {
	return fmt.Sprintf("there is evidence that %d images passed environment %s", len(a.Images), a.Environment)
}

// orders are one for each image.
func (r *Reconciler) orders(ctx context.Context, s *scope, a gather.Attests, key gather.SigningKey) ([]notary.Order, error) {
	credentials, keychain, err := r.Judge.StoreCredentials(ctx, s.workload, a)
	if err != nil {
		return nil, fmt.Errorf("the credentials to store with: %w", err)
	}
	var out []notary.Order
	for _, i := range a.Images {
		out = append(out, notary.Order{
			Matter:     notary.Matter{Environment: a.Environment, PolicyDigest: a.Verdict.PolicyDigest, Repository: i.Repository, Digest: i.Digest},
			Gate:       a.Verdict.Gate,
			Exemptions: notary.Exemptions(a.Verdict),
			Key:        notary.Key{ID: key.ID, Text: key.Text, Password: key.Password, KMS: key.KMS}, Credentials: credentials, Keychain: keychain,
		})
	}
	return out, nil
}

// answer is that to all orders together: everything is there where it says nothing else.
type answer struct {
	absent, pending bool
	failed          error
	again           time.Time
}

func (r *Reconciler) ask(ctx context.Context, s *scope, orders []notary.Order, how func(context.Context, notary.Order, string, func()) notary.State) answer {
	key := client.ObjectKeyFromObject(s.workload)
	var out answer
	for _, o := range orders {
		switch st := how(ctx, o, key.String(), func() { r.wake(key) }); st.Standing {
		case notary.Present:
		case notary.Absent:
			out.absent = true
		case notary.Pending:
			out.pending = true
		default:
			if out.failed == nil || st.Again.Before(out.again) {
				out.again = st.Again
			}
			if out.failed == nil {
				out.failed = st.Err
			}
		}
	}
	return out
}

// wake has a Workload reconciled.
func (r *Reconciler) wake(key client.ObjectKey) {
	w := &v1beta1.Workload{}
	w.Name, w.Namespace = key.Name, key.Namespace
	r.woken <- event.GenericEvent{Object: w}
}
