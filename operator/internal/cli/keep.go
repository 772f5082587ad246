package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/resultcache"
)

// keeper finds and keeps the result of one check. A nil one does neither.
type keeper struct {
	cache *resultcache.Cache
	key   []byte
	root  string
	// sources are the paths that are read, in order.
	sources []string
	began   time.Time
	say     func(format string, args ...any)
}

// asking is all that a check depends on before anything is read. Its JSON is the key under
// which the result is kept.
type asking struct {
	Program      string
	Here         string
	Paths, Gates []string
	Root, Format string
	// Registry has the flags by which registries are reached.
	Registry string
}

// keeper is nil where nothing can be kept; unless that was asked for, it is said why. A
// recording has to hold all that a check asks for, and offline there is nobody to ask again.
func (o *checkOptions) keeper(s streams, paths []string) *keeper {
	sources := append(slices.Clone(o.gates), paths...)
	if o.noCache || o.changed != "" || o.record != "" || o.offline != "" || slices.Contains(sources, overlay.Stdin) {
		return nil
	}
	k := &keeper{root: o.root, sources: sources, began: time.Now(), say: func(format string, args ...any) {
		say(s.err, "sluice: ", fmt.Sprintf(format, args...))
	}}
	key, err := o.asking(paths)
	if err == nil {
		k.key = key
		err = k.open(o.cacheDir)
	}
	if err != nil {
		k.say("no result is kept, and none that was is used: %v", err)
		return nil
	}
	return k
}

// open opens the folder. Within what is checked whoever proposes a change could bring
// results along.
func (k *keeper) open(dir string) error {
	if dir == "" {
		caches, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		dir = filepath.Join(caches, "sluice")
	}
	cache, err := resultcache.Open(dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	for _, source := range k.sources {
		root, rootErr := overlay.Root(k.root, source)
		if rootErr != nil {
			continue // which reading it will say
		}
		if below, err := filepath.Rel(root, dir); err != nil || below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator)) {
			cache.Close()
			return fmt.Errorf("%s lies in %s, which is checked: name another folder with --cache-dir", dir, root)
		}
	}
	k.cache = cache
	return err
}

func (k *keeper) close() {
	if k != nil {
		_ = k.cache.Close() // nothing is written through the handle of a folder
	}
}

func (o *checkOptions) asking(paths []string) ([]byte, error) {
	built, err := program()
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return json.Marshal(asking{
		Program: built, Here: here, Paths: paths, Gates: o.gates, Root: o.root, Format: o.format,
		Registry: fmt.Sprintf("%q %q %q %q %q %v %v %v", o.mirrors, o.insecure, o.tokenHosts, o.addresses, o.caFiles, o.google, o.amazon, o.azure),
	})
}

// find returns the last result of the same check, where all that it depends on is as it
// was: every file is read again, and every registry asked.
func (k *keeper) find(ctx context.Context, from gather.Registry) *checked {
	if k == nil {
		return nil
	}
	raw, err := k.cache.Get(k.key)
	if err == nil && raw == nil {
		return nil
	}
	var was kept
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	if err != nil {
		k.say("a result that was kept is not used: %v", err)
		return nil
	}
	if !was.at(k.began) || !k.unchanged(was.Seen) || !hold(ctx, from, was.Facts) || !was.at(time.Now()) {
		return nil
	}
	return was.checked()
}

func (k *keeper) unchanged(seen []*overlay.Seen) bool {
	if len(seen) != len(k.sources) {
		return false
	}
	for i, s := range seen {
		if s == nil || !overlay.Unchanged(k.root, k.sources[i], s) {
			return false
		}
	}
	return true
}

// keep keeps a result that was written, unless it depends on what is not looked at again.
func (k *keeper) keep(r *reading, c *checked, from *asked, keys *fetching) {
	if k == nil || passing(r, c, from, keys) != nil {
		return
	}
	was := c.kept()
	was.From, was.Until = time.Now().Unix(), until(r, k.began)
	was.Seen, was.Facts = r.looks, from.sorted()
	raw, err := json.Marshal(was)
	if err == nil {
		err = k.cache.Put(k.key, raw)
	}
	if err != nil {
		k.say("the result is not kept: %v", err)
	}
}

// passing says why a result is of this moment, or one with more beside it than is kept.
func passing(r *reading, c *checked, from *asked, keys *fetching) error {
	for _, s := range r.looks {
		if s == nil || s.Blind != "" {
			return errors.New("not all that was looked at is known")
		}
	}
	if why := from.why(); why != "" {
		return errors.New(why)
	}
	if keys.any.Load() {
		return errors.New("keys were fetched")
	}
	if n := len(strings.Join(c.warnings, "")); n > limits.ResultWarnings {
		return fmt.Errorf("%d bytes of warnings, more than %d (limits.ResultWarnings)", n, limits.ResultWarnings)
	}
	for _, j := range c.judged {
		for _, v := range j.Verdicts {
			if undecided(v) || r.demandsPromotion(v.Gate) {
				return errors.New("it was not decided, or hangs on how old evidence is")
			}
		}
	}
	return nil
}

// demandsPromotion says whether a Gate of that name counts the age of evidence.
func (r *reading) demandsPromotion(name string) bool {
	for _, w := range r.worlds {
		for i := range w.files.GateList {
			if g := &w.files.GateList[i]; g.Name == name && g.Spec.RequirePromotionFrom != nil {
				return true
			}
		}
	}
	return false
}

// until is when the first Exemption ends that had not when the check began, in seconds
// since 1970; 0 where none does.
func until(r *reading, began time.Time) int64 {
	var first int64
	for _, w := range r.worlds {
		for i := range w.files.ExemptionList {
			ends := w.files.ExemptionList[i].Spec.Expires.Unix()
			if ends > began.Unix() && (first == 0 || ends < first) {
				first = ends
			}
		}
	}
	return first
}
