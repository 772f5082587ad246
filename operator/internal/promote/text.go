package promote

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlaydiff"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// Proof is one statement about an image.
type Proof struct {
	Environment, Time, Result, PolicyDigest string
	// SignedBy are the authorities whose signature counts; none: it proves nothing.
	SignedBy []string
	// Exempted has what passed by an Exemption only, each as text.
	Exempted []string
}

// Link is what a Gate says of the way that an image came.
type Link struct {
	From, To, Gate string
	Verdict        gate.Outcome
	Message        string
}

// Evidence is what is known of one image.
type Evidence struct {
	Image  string
	Proofs []Proof
	Links  []Link
}

// Text is all that a pull request says. The same Text is the same words.
type Text struct {
	// From is "" where an image was named instead of an environment.
	From, To string
	// Source is where the images were read, such as "commit 0123456789ab" or "the cluster".
	Source string
	Plan   Plan
	// Judged is the verdict under the Gates of To.
	Judged   report.Run
	Evidence []Evidence
	// Asked says that Gates of To demand evidence.
	Asked bool
	Notes []Note
	// Changes of the objects that the overlay is rendered to.
	Changes []overlaydiff.Change
	// Edits are what is changed in files, each as file:line: what.
	Edits []string
	// Frozen and Forced are why no promotion should take place now, and why one does all the
	// same; "" for neither.
	Frozen, Forced string
}

// Outcome is the worst that was decided.
func (t Text) Outcome() gate.Outcome {
	var all []gate.Verdict
	for _, j := range t.Judged.Judged {
		all = append(all, j.Verdicts...)
	}
	if len(all) == 0 {
		return gate.OutcomeAllow
	}
	return gate.Worst(all).Outcome
}

// Title of the pull request, and subject of the commit.
func (t Text) Title() string {
	takes := t.Plan.Undone()
	if t.From == "" {
		return t.named(takes)
	}
	way := t.From + " to " + t.To
	if len(takes) == 1 {
		return fmt.Sprintf("promote %s from %s", takes[0].Target.Name, way) + version(takes[0])
	}
	return fmt.Sprintf("promote %d Workloads from %s", len(takes), way)
}

// named is the title where an image was named: to an earlier one where that is known, since
// an image may be named to where images come in, too.
func (t Text) named(takes []Take) string {
	back := len(takes) > 0
	for _, take := range takes {
		was, is := take.versions()
		back = back && older(is, was)
	}
	what, of := fmt.Sprintf("%d Workloads", len(takes)), ""
	if len(takes) == 1 {
		what, of = takes[0].Target.Name, version(takes[0])
	}
	if back {
		return fmt.Sprintf("return %s to an earlier image in %s", what, t.To) + of
	}
	return fmt.Sprintf("set the image of %s in %s", what, t.To) + of
}

// version ends the title with what comes in, where it is known.
func version(t Take) string {
	if t.Source.Version == "" {
		return ""
	}
	return ": " + line(t.Source.Version)
}

// Message of the commit: what a log has to tell, and no more.
func (t Text) Message() string {
	var b strings.Builder
	b.WriteString(t.Title() + "\n\n")
	for _, take := range t.Plan.Undone() {
		fmt.Fprintf(&b, "%s: %s@%s\n", take.Target, take.Target.Image.Repository, take.Source.Image.Digest)
	}
	fmt.Fprintf(&b, "\nRead from %s; verdict under the gate of %s: %s\n", line(t.Source), t.To, t.Outcome())
	if t.Forced != "" {
		fmt.Fprintf(&b, "Within a freeze: %s\n", line(t.Forced))
	}
	return b.String()
}

// Body of the pull request in Markdown. What is not ours stands in code spans and fences,
// and each part has a bound, so that all of it is taken by every forge.
func (t Text) Body() string {
	var b strings.Builder
	t.head(&b)
	b.WriteString(part("What is promoted", t.takes(), "see the commit"))
	b.WriteString(part("Verdict under the gate of "+t.To, t.verdict(), fmt.Sprintf("see `sluice check` of the overlay of %s", t.To)))
	b.WriteString(part("Evidence", t.evidence(), "see `sluice history` of each image"))
	b.WriteString(part("Risk notes", t.notes(), "compare the two overlays with `sluice diff`"))
	b.WriteString("\n## What changes\n\n")
	b.WriteString(overlaydiff.MarkdownWithin(t.Changes, limits.PromotionTextBytes-b.Len()))
	return b.String()
}

func (t Text) head(b *strings.Builder) {
	switch outcome := t.Outcome(); {
	case outcome == gate.OutcomeDeny:
		fmt.Fprintf(b, "> **DENY**: the gate of %s denies this. Do not merge it before it allows it; the findings are below.\n\n", t.To)
	case outcome.Blocks():
		fmt.Fprintf(b, "> **ERROR**: the gate of %s could not decide on this. Do not merge it before it can.\n\n", t.To)
	}
	if t.Frozen != "" {
		fmt.Fprintf(b, "> **FROZEN**: %s. It is promoted all the same: %s\n\n", report.Span(t.Frozen), report.Span(t.Forced))
	}
	if t.From == "" {
		fmt.Fprintf(b, "Sets %s to an image that is named by its digest.\n", t.To)
		return
	}
	fmt.Fprintf(b, "Takes images from **%s** to **%s**, as read from %s.\n", t.From, t.To, report.Span(t.Source))
}

// part is a section that is cut at the end of a line where it has no room, or nothing
// where it has no lines.
func part(title, body, instead string) string {
	if body == "" {
		return ""
	}
	if len(body) > limits.PromotionPartBytes {
		body = body[:strings.LastIndexByte(body[:limits.PromotionPartBytes], '\n')+1]
		body += "\nThere is no room for more here: " + instead + ".\n"
	}
	return "\n## " + title + "\n\n" + body
}

func (t Text) takes() string {
	var b strings.Builder
	for _, take := range t.Plan.Takes {
		fmt.Fprintf(&b, "- %s: ", report.Span(take.Target.String()))
		if take.Done() {
			b.WriteString("has it already\n")
			continue
		}
		fmt.Fprintf(&b, "%s, was %s\n", report.Span(Pinned(take.Source, take.Version())), report.Span(Pinned(take.Target, take.Target.Version)))
		fmt.Fprintf(&b, "  - image %s\n", report.Span(take.Target.Image.Repository+"@"+take.Source.Image.Digest))
	}
	for _, name := range t.Plan.Left {
		fmt.Fprintf(&b, "- %s: left out, %s does not have it\n", report.Span(name), t.To)
	}
	for _, edit := range t.Edits {
		fmt.Fprintf(&b, "- edited %s\n", report.Span(edit))
	}
	return b.String()
}

// Pinned is what pins a Workload, in a few characters.
func Pinned(w Workload, version string) string {
	short := "no digest"
	if digest := w.Image.Digest; digest != "" {
		short = digest[:min(len(digest), len(digests.Prefix)+12)]
	}
	if w.Image.Tag != "" {
		short = w.Image.Tag + "@" + short
	}
	if version != "" {
		short += " (" + version + ")"
	}
	return short
}

func (t Text) verdict() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "**%s**: %s\n", t.Outcome(), t.Judged.Summary())
	if err := report.MarkdownFindings(&b, t.Judged); err != nil {
		return ""
	}
	return b.String()
}

func (t Text) evidence() string {
	var b strings.Builder
	if !t.Asked {
		fmt.Fprintf(&b, "No Gate of %s demands any (`spec.requirePromotionFrom`).\n", t.To)
	}
	for _, e := range t.Evidence {
		fmt.Fprintf(&b, "- %s\n", report.Span(e.Image))
		for _, l := range e.Links {
			fmt.Fprintf(&b, "  - %s to %s: **%s**", l.From, l.To, l.Verdict)
			if l.Message != "" {
				fmt.Fprintf(&b, ", %s", report.Span(l.Message))
			}
			b.WriteString("\n")
		}
		for _, p := range e.Proofs {
			by := "**not verified**"
			if len(p.SignedBy) > 0 {
				by = "signed by " + report.Span(strings.Join(p.SignedBy, ", "))
			}
			fmt.Fprintf(&b, "  - %s %s %s, %s, policy %s\n", p.Time, report.Span(p.Environment), report.Span(p.Result), by, report.Span(p.PolicyDigest))
			for _, x := range p.Exempted {
				fmt.Fprintf(&b, "    - but for %s\n", report.Span(x))
			}
		}
	}
	return b.String()
}

func (t Text) notes() string {
	var b strings.Builder
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "- %s **%s**: %s\n", report.Span(n.Workload), n.Area, report.Span(n.Text))
	}
	if b.Len() == 0 {
		b.WriteString("None.\n")
	}
	return b.String()
}

// line is a text on one line, whoever wrote it.
func line(s string) string {
	return redact.Text(strings.Join(strings.Fields(s), " "), limits.MessageBytes)
}
