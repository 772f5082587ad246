package signature

import (
	"context"
	"fmt"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// Statements says which statements of a predicate type the registry holds beside an image,
// and which authorities signed them. It verifies as it does for attestations that an image
// rule demands, and leaves to the caller what the statements have to say.
func (c *Check) Statements(ctx context.Context, authorities []gate.Authority, image *gate.Image, predicateType string) gate.Attested {
	d, err := newDigest(image.Digest)
	if err != nil {
		return gate.Attested{Unread: []string{err.Error()}}
	}
	defer c.enter(ctx, image)()
	r := c.newRun(ctx, &gate.Input{})
	held := readEvidence(ctx, image.Signatures, image.Attestations)
	out := gate.Attested{Unread: held.unreadOf(predicateType)}
	var ofType []*stored
	for _, s := range held.attestations {
		if s.statement != nil && s.statement.predicateType == predicateType {
			ofType = append(ofType, s)
		}
	}
	for _, s := range held.unreadable {
		if s.hint == predicateType {
			out.Reasons = firstReasons(out.Reasons, s.unreadable.Error())
		}
	}
	j := &judgement{image: image, rule: gate.ImageRule{Authorities: authorities}, digest: d}
	// Their index tells which were accepted.
	accepted := r.accepted(j, ofType, &out)
	for i, s := range ofType {
		switch statement := (gate.Statement{Payload: s.payload}); {
		case accepted[i] != nil:
			out.Accepted = append(out.Accepted, *accepted[i])
		case s.statement.isAbout(d):
			out.Strangers = append(out.Strangers, statement)
		default:
			if statement.By = r.signersOf(authorities, s); len(statement.By) > 0 {
				out.Elsewhere = append(out.Elsewhere, statement)
			}
		}
	}
	out.Late = ctx.Err() != nil
	return out
}

// accepted asks every authority about every statement.
func (r *run) accepted(j *judgement, ofType []*stored, out *gate.Attested) []*gate.Statement {
	accepted := make([]*gate.Statement, len(ofType))
	names := authorityNames(j.rule.Authorities)
	for i, authority := range j.rule.Authorities {
		o := r.ask(names[i], authority, ofType, j.digest)
		if o.unusable != nil {
			out.Unusable = append(out.Unusable, o.unusable.Error())
		}
		out.Reasons = firstReasons(out.Reasons, o.reasons...)
		for index, who := range o.accepted {
			if accepted[index] == nil {
				accepted[index] = &gate.Statement{Payload: ofType[index].payload}
			}
			s := accepted[index]
			s.By = append(s.By, names[i])
			if who.identity != "" {
				s.Identities = append(s.Identities, who.identity)
			}
			for _, lack := range who.lacks {
				s.Lacks = append(s.Lacks, fmt.Sprintf("authority %s is accepted without %s", names[i], lack))
			}
		}
	}
	out.Unusable = sorted(out.Unusable)
	return accepted
}

// signersOf are the authorities that signed an envelope, whatever it is about.
func (r *run) signersOf(authorities []gate.Authority, s *stored) []string {
	var by []string
	for i, name := range authorityNames(authorities) {
		if v, unusable := r.verifier(authorities[i]); unusable == nil && r.ctx.Err() == nil && v.signed(r.ctx, s) {
			by = append(by, name)
		}
	}
	return by
}
