package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/forge"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/promote"
	"github.com/sluice-dev/sluice/operator/internal/repo"
)

// act makes the commit, and the pull request. What it returns is how the promotion ended,
// after all that could be done.
func (p *promoting) act(ctx context.Context) error {
	denied := p.denied()
	if denied != nil && (p.text.Outcome() != gate.OutcomeDeny || !p.draft) || p.dryRun {
		return denied
	}
	if err := p.commit(ctx); err != nil {
		return err
	}
	if err := p.publish(ctx); err != nil {
		return err
	}
	return denied
}

// commit puts the change on its branch. Of two promotions at once one does, and the other
// finds the very same there, or is refused.
func (p *promoting) commit(ctx context.Context) error {
	branch := p.branchName()
	p.out.Branch = branch
	var moved error
	for range 2 {
		have, err := p.repo.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+branch+"^{commit}")
		if err != nil && !repo.None(err) {
			return usage("%w", err)
		}
		if err == nil && branch != p.status.Branch {
			return p.take(ctx, branch, have)
		}
		p.out.Commit, err = p.repo.Commit(ctx, repo.Commit{Parent: p.status.Head, Branch: branch, Message: p.text.Message(), Files: p.changed.Files})
		p.out.Committed = p.out.Commit != ""
		if err == nil {
			return nil
		}
		if !errors.Is(err, repo.ErrMoved) {
			return usage("%w", err)
		}
		if moved = err; branch == p.status.Branch {
			break
		}
	}
	return usage("%w; run the same command again", moved)
}

// take goes on with a branch that is there, if it holds this promotion and nothing else.
func (p *promoting) take(ctx context.Context, branch, commit string) error {
	same, err := p.same(ctx, commit)
	if err != nil {
		return usage("%w", err)
	}
	if same {
		p.out.Commit = commit
		return nil
	}
	if _, err := p.repo.Run(ctx, nil, "merge-base", "--is-ancestor", commit, p.status.Head); err == nil {
		return usage("branch %s is there, and is not checked out: delete it, if it was merged and is not needed any more, or name another with --branch", branch)
	}
	return usage("branch %s is there, with other content: another promotion is under way; merge or delete it, or name another with --branch", branch)
}

// same says whether a commit changes the same files as the promotion, to the same content,
// since it left the commit that is checked out.
func (p *promoting) same(ctx context.Context, commit string) (bool, error) {
	out, err := p.repo.Run(ctx, nil, "diff", "--name-only", "--no-renames", "-z", p.status.Head+"..."+commit, "--")
	if err != nil {
		return false, err
	}
	changed := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(changed)
	files := slices.Sorted(maps.Keys(p.changed.Files))
	if !slices.Equal(changed, files) {
		return false, nil
	}
	for _, file := range files {
		have, err := p.repo.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+":"+file)
		if err != nil {
			return false, err
		}
		want, err := p.repo.Hash(ctx, p.changed.Files[file])
		if err != nil {
			return false, err
		}
		if have != want {
			return false, nil
		}
	}
	return true, nil
}

// along notes commits that go into the pull request beside the promotion, of which its text
// says nothing else: those that the branch it goes into does not have at the remote, as far
// as this clone knows.
func (p *promoting) along(ctx context.Context) error {
	if p.base == "" {
		p.base = p.status.Branch
	}
	if p.base == "" || p.branchName() == p.base {
		return nil
	}
	there := "refs/remotes/" + p.remote + "/" + p.base
	if _, err := p.repo.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", there+"^{commit}"); err != nil {
		return nil // nothing is known of it
	}
	n, err := p.repo.Line(ctx, "rev-list", "--count", there+".."+p.status.Head, "--")
	if err != nil {
		return usage("%w", err)
	}
	if n != "0" {
		p.text.Notes = append(p.text.Notes, promote.Note{Workload: p.to, Area: "commits", Text: fmt.Sprintf(
			"%s that %s of %s does not have go along, and nothing here tells what they change: push them first, or promote from what is there", n, p.base, forge.Masked(p.remote))})
	}
	return nil
}

// publish pushes and makes the pull request, or leaves the commands for it.
func (p *promoting) publish(ctx context.Context) error {
	target, err := p.target(ctx)
	if err != nil {
		return err
	}
	if target.token == "" || !p.pullRequest || p.out.Branch == p.base || p.base == "" {
		return p.commands(ctx, target)
	}
	if err := p.push(ctx); err != nil {
		return err
	}
	made, err := forge.New(target.api, target.repository, target.token, nil).Publish(ctx, forge.Pull{
		Head: p.out.Branch, Base: p.base, Title: p.text.Title(), Body: p.text.Body(), Draft: p.text.Outcome().Blocks(),
	})
	if err != nil {
		return &exit{code: ExitUndecided, err: fmt.Errorf("branch %s is pushed, but there is no pull request: %w; run the same command again to try again", p.out.Branch, err)}
	}
	p.out.PullRequest = &pullRequest{Number: made.Number, URL: made.URL, Updated: made.Updated}
	return nil
}

// push sends the branch. Where the remote has the very same promotion already, that one
// counts; where it has another one, the branch that was made here is taken back.
func (p *promoting) push(ctx context.Context) error {
	err := p.repo.Push(ctx, p.remote, p.out.Branch)
	if err == nil {
		return nil
	}
	if !errors.Is(err, repo.ErrRejected) {
		return &exit{code: ExitUndecided, err: fmt.Errorf("%w; branch %s is there with the commit, and the same command tries again", err, p.out.Branch)}
	}
	same := false
	if there, fetchErr := p.repo.Fetch(ctx, p.remote, p.out.Branch); fetchErr == nil {
		same, _ = p.same(ctx, there) // else it is refused, as it was
	}
	if p.out.Committed {
		if _, undoErr := p.repo.Run(ctx, nil, "update-ref", "-d", "refs/heads/"+p.out.Branch, p.out.Commit); undoErr == nil {
			p.out.Commit, p.out.Committed = "", false
		}
	}
	if same {
		return nil
	}
	return usage("%w", err)
}

// target is where the pull request would be made.
type target struct {
	api        forge.API
	repository forge.Remote
	// token is "" where there is none, or nobody said that it may be sent there.
	token string
}

// tokens by kind of forge, the first that is set counts.
var tokens = map[forge.Kind][]string{
	forge.GitHub: {"GH_TOKEN", "GITHUB_TOKEN"}, forge.GitLab: {"GITLAB_TOKEN"}, forge.Gitea: {"GITEA_TOKEN"},
}

func (p *promoting) target(ctx context.Context) (target, error) {
	var t target
	raw, err := p.repo.RemoteURL(ctx, p.remote)
	if err != nil {
		return t, nil // there is no such remote, and what to do by hand is printed
	}
	if t.repository, err = forge.ParseRemote(raw); err != nil {
		return target{}, nil
	}
	known := false
	if p.forgeURL != "" {
		if t.api, err = forge.ParseAPI(p.forgeURL); err != nil {
			return t, usage("--forge-url: %w", err)
		}
		known = true
	} else {
		t.api, known = forge.For(t.repository)
	}
	for _, name := range tokens[t.api.Kind] {
		if t.token == "" && known {
			t.token = strings.TrimSpace(os.Getenv(name))
		}
	}
	return t, nil
}

// commands are what is left to do, in words for a shell.
func (p *promoting) commands(ctx context.Context, t target) error {
	ref := p.out.Branch
	if ref == "@" || strings.HasPrefix(ref, "+") {
		ref = "refs/heads/" + ref // by itself it is HEAD, or overwrites another branch
	}
	push := "git push " + quoted(forge.Masked(p.remote)) + " " + quoted(ref)
	if p.out.Branch == p.base {
		p.out.Commands = []string{push}
		return nil
	}
	file, err := p.keep(ctx)
	if err != nil {
		return err
	}
	title, head, base := p.text.Title(), quoted(p.out.Branch), quoted(p.base)
	if p.base == "" {
		base = "BRANCH"
	}
	draft := ""
	if p.text.Outcome().Blocks() {
		draft = " --draft"
	}
	create := "open a pull request from " + p.out.Branch + " into " + base + "; its text is in " + file
	switch t.api.Kind {
	case forge.GitHub:
		create = fmt.Sprintf("gh pr create --head %s --base %s --title %s --body-file %s%s", head, base, quoted(title), quoted(file), draft)
	case forge.GitLab:
		create = fmt.Sprintf(`glab mr create --source-branch %s --target-branch %s --title %s --description "$(cat %s)"%s`, head, base, quoted(title), quoted(file), draft)
	case forge.Gitea:
		if draft != "" {
			title = "WIP: " + title
		}
		create = fmt.Sprintf(`tea pulls create --head %s --base %s --title %s --description "$(cat %s)"`, head, base, quoted(title), quoted(file))
	}
	p.out.Commands = []string{push, create}
	return nil
}

// keep writes the text beside what Git keeps for itself, where it is in nobody's way.
func (p *promoting) keep(ctx context.Context) (string, error) {
	// By the hash too: a-b is another branch than a/b, and a name may be longer than a file's.
	name := fmt.Sprintf("%.64s-%.8s.md", strings.ReplaceAll(p.out.Branch, "/", "-"), hashOf(p.out.Branch))
	file, err := p.repo.Line(ctx, "rev-parse", "--git-path", "sluice/"+name)
	if err != nil {
		return "", usage("%w", err)
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(p.repo.Top(), file)
	}
	err = os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(p.text.Body()), 0o600)
	}
	if err != nil {
		return "", usage("keep the text of the pull request: %w", err)
	}
	return file, nil
}

// quoted is a word for a shell.
func quoted(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@=+-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
