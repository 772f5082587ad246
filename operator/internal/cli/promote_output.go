package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/promote"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// promoted is what a promotion came to, as JSON.
type promoted struct {
	From      string         `json:"from,omitempty"`
	To        string         `json:"to"`
	Workloads []taken        `json:"workloads"`
	Left      []string       `json:"leftOut,omitempty"`
	Verdict   gate.Outcome   `json:"verdict,omitempty"`
	Notes     []promote.Note `json:"notes,omitempty"`
	Frozen    string         `json:"frozen,omitempty"`
	// NotYet is what is waited for, where nothing else is in the way.
	NotYet []string `json:"notYet,omitempty"`
	Branch string   `json:"branch,omitempty"`
	Commit string   `json:"commit,omitempty"`
	// Committed says that the commit was made now.
	Committed   bool         `json:"committed"`
	PullRequest *pullRequest `json:"pullRequest,omitempty"`
	// Commands are left to do.
	Commands []string `json:"commands,omitempty"`
	// Text of the pull request in Markdown.
	Text string `json:"text,omitempty"`
}

type taken struct {
	Workload string `json:"workload"`
	Image    string `json:"image"`
	Before   pinned `json:"before"`
	After    pinned `json:"after"`
}

type pinned struct {
	Digest  string `json:"digest,omitempty"`
	Tag     string `json:"tag,omitempty"`
	Version string `json:"version,omitempty"`
}

type pullRequest struct {
	Number  int    `json:"number"`
	URL     string `json:"url"`
	Updated bool   `json:"updated"`
}

// report writes what came of it, and returns how it ended.
func (p *promoting) report(ended error) error {
	undone := len(p.text.Plan.Undone()) > 0
	p.out.From, p.out.To, p.out.Left = p.text.From, p.text.To, p.text.Plan.Left
	p.out.Notes, p.out.Frozen = p.text.Notes, p.text.Frozen
	p.out.Workloads = []taken{}
	for _, t := range p.text.Plan.Takes {
		p.out.Workloads = append(p.out.Workloads, taken{
			Workload: t.Target.String(), Image: t.Target.Image.Repository,
			Before: pinned{t.Target.Image.Digest, t.Target.Image.Tag, t.Target.Version},
			After:  pinned{t.Source.Image.Digest, t.Source.Image.Tag, t.Version()},
		})
	}
	if undone && !p.closed {
		p.out.Verdict, p.out.Text = p.text.Outcome(), p.text.Body()
	}
	var err error
	switch p.format {
	case "json":
		err = json.NewEncoder(p.s.out).Encode(p.out)
	case "markdown":
		// The text is for a pull request, which there is none of yet.
		for _, why := range p.out.NotYet {
			say(p.s.err, "sluice: ", "not yet: "+why)
		}
		_, err = io.WriteString(p.s.out, p.out.Text)
	default:
		err = p.write(undone)
	}
	if err != nil {
		return usage("write the result: %w", err)
	}
	return ended
}

// write is for people.
func (p *promoting) write(undone bool) error {
	var b strings.Builder
	tell := func(format string, args ...any) {
		b.WriteString(redact.Text(fmt.Sprintf(format, args...), limits.ErrorBytes) + "\n")
	}
	for _, name := range p.text.Plan.Left {
		tell("%s: left out, %s does not have it", name, p.to)
	}
	if !undone {
		tell("%s has all of it already: nothing to do", p.to)
		_, err := io.WriteString(p.s.out, b.String())
		return err
	}
	tell("%s", p.text.Title())
	for _, t := range p.text.Plan.Undone() {
		b.WriteString("  ")
		tell("%s: %s, was %s", t.Target, promote.Pinned(t.Source, t.Version()), promote.Pinned(t.Target, t.Target.Version))
	}
	for _, edit := range p.text.Edits {
		b.WriteString("  ")
		tell("%s", edit)
	}
	if p.text.Forced != "" {
		tell("%s; it is promoted all the same: %s", p.text.Frozen, p.text.Forced)
	}
	for _, n := range p.text.Notes {
		tell("look at %s, %s: %s", n.Workload, n.Area, n.Text)
	}
	if _, err := io.WriteString(p.s.out, b.String()); err != nil {
		return err
	}
	if !p.closed {
		if err := p.s.text().Write(p.s.out, p.text.Judged); err != nil {
			return err
		}
	}
	b.Reset()
	p.ending(tell)
	_, err := io.WriteString(p.s.out, b.String())
	return err
}

// ending says what was done, and what is left to do.
func (p *promoting) ending(tell func(string, ...any)) {
	switch {
	case p.out.Committed:
		tell("committed %.12s on branch %s", p.out.Commit, p.out.Branch)
	case p.out.Commit != "" || p.out.PullRequest != nil:
		tell("branch %s has it already", p.out.Branch)
	default:
		tell("nothing was changed")
	}
	for _, why := range p.out.NotYet {
		tell("not yet: %s", why)
	}
	if r := p.out.PullRequest; r != nil {
		word := "made"
		if r.Updated {
			word = "brought up to date"
		}
		tell("pull request %d %s: %s", r.Number, word, r.URL)
	}
	if len(p.out.Commands) > 0 {
		tell("to do:")
	}
	for _, c := range p.out.Commands {
		tell("%s", c)
	}
}
