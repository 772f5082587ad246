package promotion

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// rank of what is wrong with a statement. Of several statements those are told of that came
// closest to being the proof: evidence of ci lies beside most images, and nobody needs to
// read of it where that of e2e has expired.
type rank int

const (
	none rank = iota
	expired
	revoked
	future
	failed
	elsewhere
	unreadable
)

// fault is what is wrong with one statement that an authority signed.
type fault struct {
	rank
	message string
}

const shownReasons = 3

// read holds a statement to the demand, whoever signed it.
func read(payload []byte, demand *gate.Promotion, now int64) (evidence.Summary, fault) {
	s, err := evidence.Parse(payload)
	if err != nil {
		return s, fault{unreadable, fmt.Sprintf("evidence by an authority of environment %s cannot be read: %v", demand.Environment, err)}
	}
	if environment, ok := s.Environment(); !ok || environment != demand.Environment {
		from := fmt.Sprintf("verifier %.120q", s.Verifier)
		if ok {
			from = "environment " + environment
		}
		return s, fault{elsewhere, fmt.Sprintf("evidence is of %s, and not of environment %s", from, demand.Environment)}
	}
	of := fmt.Sprintf("evidence of environment %s of %s", demand.Environment, s.Time.Format(time.RFC3339))
	at := s.Time.Unix()
	switch {
	case s.Result != evidence.Passed:
		return s, fault{failed, of + " says that the image failed there"}
	case at > now+int64(limits.EvidenceSkew/time.Second):
		return s, fault{future, of + " is dated in the future"}
	case len(demand.PolicyDigests) > 0 && !slices.Contains(demand.PolicyDigests, s.Policy.Digest):
		policy := s.Policy.Digest
		if policy == "" {
			policy = "no policy that it names"
		}
		return s, fault{revoked, of + " was verified against " + policy + ", which is not among the policyDigests that are accepted"}
	case demand.Within > 0 && now-at > demand.Within:
		return s, fault{expired, fmt.Sprintf("%s is older than %s", of, time.Duration(demand.Within)*time.Second)}
	}
	return s, fault{}
}

// remedies for the statements of a rank.
var remedies = map[rank]string{
	expired:    "have the image verified there anew",
	revoked:    "verify the image there again, under the rules of today",
	future:     "set the clock of the machine that signed it, and sign anew",
	failed:     "correct what failed there, and build anew",
	elsewhere:  "promote it there first, and wait until it has passed",
	unreadable: "sign it anew with `sluice attest`",
}

// complaint says why there is no proof.
type complaint struct {
	cfg      gate.Config
	image    *gate.Image
	attested gate.Attested
	faults   []fault
	// own says why evidence of the Gate's own environment does not make up for its age; empty
	// where it was not asked for.
	own string
}

func (c complaint) refuse() judged {
	environment := c.cfg.Promotion.Environment
	attest := fmt.Sprintf("sluice attest %s@%s --environment %s --key FILE", c.image.Repository, c.image.Digest, environment)
	if len(c.faults) > 0 && c.nearest() < elsewhere {
		messages := c.messages()
		if c.own != "" {
			messages = append(messages, c.own)
		}
		return refusedFor(strings.Join(messages, "; "), remedies[c.nearest()]+"; or sign it by hand: "+attest)
	}
	// By nobody who may, and for the right environment: a key is wrong, or somebody lies.
	if c.claimed() {
		return refusedFor(
			fmt.Sprintf("evidence of environment %s is signed by nobody that spec.requirePromotionFrom.authorities of gate %s names%s", environment, c.cfg.Name, c.because()),
			fmt.Sprintf("sign it with the key of %s (%s), or find out who signed what is there", environment, attest))
	}
	if len(c.faults) > 0 {
		return refusedFor(strings.Join(c.messages(), "; "), remedies[c.nearest()]+"; or sign it by hand: "+attest)
	}
	if len(c.attested.Elsewhere) > 0 {
		return refusedFor(
			fmt.Sprintf("evidence of environment %s that is stored with the image is about another digest", environment),
			fmt.Sprintf("deploy the digest that passed %s, or have this one pass: %s", environment, attest))
	}
	return refusedFor(
		missing+environment,
		fmt.Sprintf("promote it to %s first, and wait until it has passed; or sign it by hand: %s", environment, attest))
}

// missing is what is said where nothing of the environment is there, before its name.
const missing = "image has no evidence that it passed environment "

// Awaited says whether a finding is that there is no evidence of an environment yet, and of
// which: what it waits for comes once the image has passed there. Evidence that is there and
// does not count is not awaited.
func Awaited(f gate.Finding) (environment string, ok bool) {
	environment, ok = strings.CutPrefix(f.Message, missing)
	return environment, ok && f.Policy == policyName
}

// claimed says whether somebody who is no authority signed evidence for the environment.
func (c complaint) claimed() bool {
	return slices.ContainsFunc(c.attested.Strangers, func(s gate.Statement) bool {
		summary, err := evidence.Parse(s.Payload)
		environment, ok := summary.Environment()
		return err == nil && ok && environment == c.cfg.Promotion.Environment
	})
}

func (c complaint) nearest() rank {
	return slices.MinFunc(c.faults, func(a, b fault) int { return int(a.rank - b.rank) }).rank
}

// messages of the nearest faults, sorted.
func (c complaint) messages() []string {
	var out []string
	for _, f := range c.faults {
		if f.rank == c.nearest() {
			out = append(out, f.message)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), shownReasons)]
}

func (c complaint) because() string {
	if len(c.attested.Reasons) == 0 {
		return ""
	}
	return " (" + strings.Join(c.attested.Reasons, "; ") + ")"
}
