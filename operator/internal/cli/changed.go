package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/repo"
)

// changes is what a Git work tree has that a base had not, committed or not.
type changes struct {
	tree *repo.Repository
	// top is the work tree's root.
	top string
	// files that were added, changed or deleted, by their path below top.
	files map[string]bool
	// deleted are those that are gone: nothing that is read can tell whose they were.
	deleted []string
}

// changesSince asks git, in the work tree that holds folder. Nothing that the repository
// configures is run for it.
func changesSince(ctx context.Context, folder, base string) (*changes, error) {
	if base == "" || strings.HasPrefix(base, "-") {
		return nil, usage("--changed=%s: a branch, tag or commit has to be named", base)
	}
	tree, err := repo.Open(ctx, folder)
	if err != nil {
		return nil, noGit(folder, err)
	}
	c := &changes{tree: tree, top: tree.Top(), files: map[string]bool{}}
	diff := []string{"diff", "--name-only", "--no-renames", "-z"}
	ways := [][]string{
		append(diff, "--end-of-options", base+"...HEAD", "--"),
		append(diff, "HEAD", "--"),
		{"ls-files", "--others", "--exclude-standard", "-z"},
	}
	for _, args := range ways {
		out, err := tree.Run(ctx, nil, args...)
		if err != nil {
			return nil, noGit(c.top, err)
		}
		for _, file := range strings.Split(string(out), "\x00") {
			if file == "" || c.files[file] {
				continue
			}
			c.files[file] = true
			if c.gone(file) {
				c.deleted = append(c.deleted, file)
			}
		}
	}
	return c, nil
}

// gone says whether what git knows as a file is there as one no more: a folder of its name
// is not it, nor is what a link now leads to that was put in place of its folder.
func (c *changes) gone(file string) bool {
	whole := filepath.Join(c.top, file)
	if folder, err := filepath.EvalSymlinks(filepath.Dir(whole)); err != nil || folder != filepath.Dir(whole) {
		return true
	}
	info, err := os.Lstat(whole)
	if err != nil || !info.IsDir() {
		return err != nil
	}
	_, err = os.Lstat(filepath.Join(whole, ".git"))
	return err != nil // else it is a submodule, which git lists as one file
}

// ignored adds files that git is told to ignore: whether they differ, nobody knows.
func (c *changes) ignored(ctx context.Context, files []string) error {
	var list bytes.Buffer
	for _, file := range files {
		if resolved, err := filepath.EvalSymlinks(file); err == nil {
			file = resolved
		}
		below, ok := c.below(file)
		if !ok {
			continue // outside, and so it counts as changed
		}
		list.WriteString(below + "\x00")
	}
	out, err := c.tree.Run(ctx, &list, "check-ignore", "-z", "--stdin")
	if repo.None(err) {
		return nil // none of them
	}
	if err != nil {
		return noGit(c.top, err)
	}
	for _, file := range strings.Split(string(out), "\x00") {
		if file != "" {
			c.files[file] = true
		}
	}
	return nil
}

// noGit says why git could not tell what was changed.
func noGit(folder string, err error) error {
	if errors.Is(err, repo.ErrTooLong) {
		return usage("--changed: %w: file names", err)
	}
	return usage("--changed: in %s: %w; in CI fetch the base too (fetch-depth: 0)", folder, err)
}

// has says whether a file was touched: by its own name, by a link on the way to it, or
// where links lead to.
func (c *changes) has(file string) bool {
	names := append(linksTo(file), file)
	if resolved, err := filepath.EvalSymlinks(file); err == nil && resolved != file {
		names = append(names, resolved)
	}
	for _, name := range names {
		below, ok := c.below(name)
		if !ok {
			return true // outside of what git can compare
		}
		for ; below != "." && below != ""; below = parent(below) {
			if c.files[below] {
				return true
			}
		}
	}
	return false
}

// redirected says whether a link of the work tree was touched that leads to path: what is
// there now may be all as it was, and is something else than path named before.
func (c *changes) redirected(path string) bool {
	return slices.ContainsFunc(linksTo(path), func(link string) bool {
		below, ok := c.below(link)
		return ok && c.files[below]
	})
}

// below is a path as git has it, if it is in the work tree.
func (c *changes) below(name string) (string, bool) {
	below, err := filepath.Rel(c.top, name)
	if err != nil || below == ".." || strings.HasPrefix(below, "../") {
		return "", false
	}
	return filepath.ToSlash(below), true
}

// linksTo lists every link that is followed on the way to an absolute path, links that
// links lead to included, each by where it lies.
func linksTo(path string) []string {
	var links []string
	at, rest := "/", strings.Split(path, "/")
	for len(rest) > 0 && len(links) <= limits.Links {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if name == "" || name == ".." || err != nil {
			at = next
			continue
		}
		links = append(links, next)
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return links
}

func parent(name string) string {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return ""
	}
	return name[:i]
}

// scope decides what of the input a change touches.
type scope struct {
	base string
	// trees by the folder that they were asked for.
	trees map[string]*changes
	// all says why everything has to be judged, "" while it has not.
	all string
	// touched are the files, and the overlays by their folder, that are judged.
	touched map[string]bool
}

func newScope(base string, trees map[string]*changes) *scope {
	return &scope{base: base, trees: trees, touched: map[string]bool{}}
}

// note takes in what was read for one path. rules says that it was named by --gate.
func (s *scope) note(ctx context.Context, path string, set *overlay.Set, rules bool) error {
	if set.Root == "" {
		// Standard input is in no work tree. It is judged, and if it has rules, so is all.
		s.touched[set.Key("-")] = true
		if rules || hasRules(set) {
			s.all = "the rules come from standard input"
		}
		return nil
	}
	tree, ok := s.trees[set.Root]
	if !ok {
		var err error
		if tree, err = changesSince(ctx, set.Root, s.base); err != nil {
			return err
		}
		s.trees[set.Root] = tree
	}
	named, err := filepath.Abs(path)
	if err != nil {
		return usage("%w", err)
	}
	abs, err := filepath.EvalSymlinks(named)
	if err != nil {
		return usage("%w", err)
	}
	redirected := tree.redirected(named)
	for _, gone := range tree.deleted {
		if below, err := filepath.Rel(abs, filepath.Join(tree.top, gone)); err == nil && !strings.HasPrefix(below, "..") {
			s.all = gone + " was deleted"
		}
	}
	var read []string
	for file := range set.Files {
		read = append(read, filepath.Join(set.Root, filepath.FromSlash(file)))
	}
	if err := tree.ignored(ctx, read); err != nil {
		return err
	}
	for file := range set.Files {
		if !redirected && !tree.has(filepath.Join(set.Root, filepath.FromSlash(file))) {
			continue
		}
		s.touched[set.Key(file)] = true
		if rules || hasRules(set) && (set.Kustomization != "" || hasRulesIn(set, file)) {
			s.all = fmt.Sprintf("%s has rules, or what rules refer to", set.Shown(file))
		}
	}
	return nil
}

// hasRules says whether a set has objects that decide how others are judged.
func hasRules(set *overlay.Set) bool { return hasRulesIn(set, "") }

func hasRulesIn(set *overlay.Set, file string) bool {
	for _, o := range set.Objects {
		if (file == "" || o.Path == file) && decides(o) {
			return true
		}
	}
	return false
}

// judged says whether a subject is to be judged.
func (s *scope) judged(sub subject) bool { return s == nil || s.all != "" || s.touched[sub.key] }
