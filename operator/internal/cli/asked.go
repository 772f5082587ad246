package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/sluice-dev/sluice/operator/internal/bundle"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/parallel"
	"github.com/sluice-dev/sluice/operator/internal/registry"
)

// fact is one question to a registry, and its answer: what a reference stands for, what is
// held about a digest, or what stands in the bundle of policies that has it.
type fact struct {
	Reference *images.Reference `json:",omitempty"`
	Bundle    bool              `json:",omitempty"`
	// Repository, Digest and Want are of a question about a digest.
	Repository, Digest string
	Want               gate.Want
	// Enough is what the gate said of what was held so far, by its hash.
	Enough map[string]bool
	// Answer is the digest, or the hash of what is held or stands in it.
	Answer string
}

// question is the fact without the answer.
func (f fact) question() string {
	f.Enough, f.Answer = nil, ""
	return hashOf(f)
}

func hashOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("cli: a fact without JSON: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// asked is a registry that notes what it was asked, so that the same can be asked again.
type asked struct {
	from gather.Registry

	mu    sync.Mutex
	facts map[string]fact
	// tags are looked up once: within one check a tag stands for one digest.
	tags map[images.Reference]func() (string, error)
	// bundles are read once, however many overlays are judged by Gates that name them.
	bundles map[images.Reference]func() (bundle.Content, error)
	// unkept says why what is decided of the answers cannot be kept; "" for no reason.
	unkept string
}

func newAsked(from gather.Registry) *asked {
	return &asked{
		from: from, facts: map[string]fact{}, tags: map[images.Reference]func() (string, error){},
		bundles: map[images.Reference]func() (bundle.Content, error){},
	}
}

// Resolve implements gather.Registry.
func (a *asked) Resolve(ctx context.Context, ref images.Reference, keys authn.Keychain) (string, error) {
	digest, err := a.resolve(ctx, ref, keys)
	a.note(fact{Reference: &ref, Answer: digest}, keys, err)
	return digest, err
}

// Tagged implements gather.Registry.
func (a *asked) Tagged(ctx context.Context, ref images.Reference, keys authn.Keychain) (string, error) {
	digest, err := a.from.Tagged(ctx, ref, keys)
	a.note(fact{Reference: &ref, Answer: digest}, keys, err)
	return digest, err
}

// Bundle implements gather.Registry.
func (a *asked) Bundle(ctx context.Context, repository, digest string, keys authn.Keychain) (bundle.Content, error) {
	read := func() (bundle.Content, error) { return a.from.Bundle(ctx, repository, digest, keys) }
	if keys == nil {
		read = once(a, a.bundles, images.Reference{Repository: repository, Digest: digest}, read)
	}
	content, err := read()
	a.note(fact{Bundle: true, Repository: repository, Digest: digest, Answer: hashOf(content)}, keys, err)
	return content, err
}

// once asks for something the first time, and has the same answer after that.
func once[T any](a *asked, known map[images.Reference]func() (T, error), what images.Reference, ask func() (T, error)) func() (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := known[what]; !ok {
		known[what] = sync.OnceValues(ask)
	}
	return known[what]
}

func (a *asked) resolve(ctx context.Context, ref images.Reference, keys authn.Keychain) (string, error) {
	if keys != nil {
		return a.from.Resolve(ctx, ref, keys)
	}
	return once(a, a.tags, ref, func() (string, error) { return a.from.Resolve(ctx, ref, nil) })()
}

// Evidence implements gather.Registry.
func (a *asked) Evidence(ctx context.Context, repository, digest string, want gate.Want, enough func(registry.Evidence) bool, keys authn.Keychain) (registry.Evidence, error) {
	var mu sync.Mutex
	said := map[string]bool{}
	held, err := a.from.Evidence(ctx, repository, digest, want, func(so registry.Evidence) bool {
		is := enough(so)
		mu.Lock()
		defer mu.Unlock()
		said[hashOf(so)] = is
		return is
	}, keys)
	a.note(fact{Repository: repository, Digest: digest, Want: want, Enough: said, Answer: hashOf(held)}, keys, err)
	return held, err
}

func (a *asked) note(f fact, keys authn.Keychain, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := f.question()
	known, again := a.facts[q]
	switch {
	case err != nil:
		a.unkept = "a registry did not answer"
	case keys != nil:
		// The credentials would have to be kept too.
		a.unkept = "a registry was asked with a pull Secret"
	case again && known.Answer != f.Answer:
		a.unkept = "a registry gave two answers"
	case !again && len(a.facts) == limits.ResultFacts:
		a.unkept = fmt.Sprintf("registries were asked more than %d things (limits.ResultFacts)", limits.ResultFacts)
	case again:
		for sum, is := range known.Enough {
			if other, ok := f.Enough[sum]; ok && other != is {
				a.unkept = "what is enough was answered in two ways"
			}
			f.Enough[sum] = is
		}
		a.facts[q] = f
	default:
		a.facts[q] = f
	}
}

// hold asks everything again, and says whether every answer is what it was. One that does
// not come is another answer.
func hold(ctx context.Context, from gather.Registry, facts []fact) bool {
	ctx, cancel := context.WithTimeout(ctx, limits.Gather)
	defer cancel()
	var other atomic.Bool
	parallel.Do(limits.CheckParallel, len(facts), func(i int) {
		if other.Load() || !facts[i].holds(ctx, from) {
			other.Store(true)
		}
	})
	return !other.Load()
}

func (f fact) holds(ctx context.Context, from gather.Registry) bool {
	if f.Reference != nil {
		ask := from.Resolve
		if f.Reference.Pinned() {
			ask = from.Tagged
		}
		digest, err := ask(ctx, *f.Reference, nil)
		return err == nil && digest == f.Answer
	}
	if f.Bundle {
		content, err := from.Bundle(ctx, f.Repository, f.Digest, nil)
		return err == nil && hashOf(content) == f.Answer
	}
	var other atomic.Bool
	held, err := from.Evidence(ctx, f.Repository, f.Digest, f.Want, func(so registry.Evidence) bool {
		is, known := f.Enough[hashOf(so)]
		if !known {
			other.Store(true)
		}
		return is || !known // of something new nothing more is needed
	}, nil)
	return err == nil && !other.Load() && hashOf(held) == f.Answer
}

// why says what keeps the answers from being asked for again; "" for nothing.
func (a *asked) why() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unkept
}

// sorted are the facts in stable order.
func (a *asked) sorted() []fact {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]fact, 0, len(a.facts))
	var names []string
	for q := range a.facts {
		names = append(names, q)
	}
	slices.Sort(names)
	for _, q := range names {
		out = append(out, a.facts[q])
	}
	return out
}

// fetching notes that keys or roots were fetched from outside the files, which may be
// others the next time.
type fetching struct {
	gather.Keys
	any atomic.Bool
}

func (f *fetching) KMS(ctx context.Context, uri string) (string, error) {
	f.any.Store(true)
	return f.Keys.KMS(ctx, uri)
}

func (f *fetching) PublicRoot(ctx context.Context) (string, error) {
	f.any.Store(true)
	return f.Keys.PublicRoot(ctx)
}

func (f *fetching) File(path string) (string, error) {
	f.any.Store(true)
	return f.Keys.File(path)
}
