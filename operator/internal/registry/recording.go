package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Recording is what registries answered when they were asked about images: digests of
// tags, lists, manifests and blobs, as they came. It holds no verdict and nothing that was
// verified, so that whoever is given one verifies all anew. Only the digest of a tag is
// nothing that can be verified. It is safe for concurrent use.
type Recording struct {
	// at is when it was begun, in whole seconds.
	at time.Time

	mu      sync.Mutex
	answers map[asked]recorded
	bytes   int
	full    bool
	// images that were looked at, and what reads the rest of them.
	images map[string]func(context.Context) error
	// tags whose digest was taken from here.
	tags map[string]bool
}

// asked is a request, without the credentials that it was made with.
type asked struct {
	// Repository in full, such as docker.io/library/nginx.
	Repository string `json:"repository"`
	// Request is method, path below /v2/<repository>/ and query.
	Request string `json:"request"`
	Accept  string `json:"accept,omitempty"`
}

// recorded is the answer to it: what is read of one, and no more.
type recorded struct {
	Status int    `json:"status"`
	Digest string `json:"digest,omitempty"`
	Link   string `json:"link,omitempty"`
	Body   []byte `json:"body,omitempty"`
	// Over is how many bytes were read of a body that has more; there is no Body then.
	Over int64 `json:"over,omitempty"`
}

// recordedOverhead is what an answer takes beside its body, in memory and in a file.
const recordedOverhead = 1 << 10

// NewRecording makes one that was begun at a time.
func NewRecording(at time.Time) *Recording {
	return &Recording{
		at: at.UTC().Truncate(time.Second), answers: map[asked]recorded{},
		images: map[string]func(context.Context) error{}, tags: map[string]bool{},
	}
}

// At is when the recording was begun: nothing in it is older.
func (r *Recording) At() time.Time { return r.at }

// Tags are those whose digest was taken from the recording, which nothing vouches for.
func (r *Recording) Tags() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.tags))
}

// Images is how many images the recording was told of, since it was made.
func (r *Recording) Images() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.images)
}

// keep notes an answer, if it says something about the repository: not that of a registry
// that is down, or that wants other credentials. The first one stays, which a verdict was
// made of.
func (r *Recording) keep(what asked, asking request, a *answer, err error) {
	var got recorded
	var known *Error
	var over *limitError
	switch {
	case a != nil:
		got = recorded{Status: a.status, Digest: a.header.Get(digestHeader), Link: strings.Join(a.header.Values("Link"), ", "), Body: a.body}
	case errors.As(err, &over) && over.name == asking.limitName:
		got = recorded{Status: http.StatusOK, Over: asking.limit}
	case errors.As(err, &known) && known.notFound() && known.Err == nil:
		got = recorded{Status: http.StatusNotFound}
	default:
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.answers[what]; ok && (old.Over == 0 || old.Over >= got.Over && got.Over > 0) {
		return
	}
	if r.bytes += len(got.Body) + recordedOverhead; r.bytes > limits.RecordingBytes || len(r.answers) >= limits.RecordingAnswers {
		r.full = true
		return
	}
	r.answers[what] = got
}

// lookedAt notes an image, and what reads the rest of it in the end.
func (r *Recording) lookedAt(image string, rest func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[image] = rest
}

// Complete reads everything that registries hold for the images that were looked at into
// Options.Record, for a rule that asks for more than those of now. It returns what it could
// not read, each in one line; the recording then has the rest.
func (c *Client) Complete(ctx context.Context) []string {
	if c.record == nil {
		return nil
	}
	c.record.mu.Lock()
	rest := maps.Clone(c.record.images)
	c.record.mu.Unlock()
	names := slices.Sorted(maps.Keys(rest))
	missing := make([]string, len(names))
	_ = inParallel(len(names), func(i int) error {
		own, cancel := context.WithTimeout(ctx, limits.Gather)
		defer cancel()
		if err := rest[names[i]](own); err != nil {
			missing[i] = err.Error()
		}
		return nil
	})
	missing = slices.DeleteFunc(missing, func(s string) bool { return s == "" })
	slices.Sort(missing)
	return slices.Compact(missing)
}

// rest reads all that is stored for one image, and for those in it, whoever may want it.
func (c *Client) rest(ctx context.Context, s *session, digest string) error {
	var whole, children view
	whole.image = whole.lookAt(c, s, digest, gate.Want{}, limits.EvidenceBytes)
	whole.image.every = true
	children.image = children.lookAt(c, s, digest, gate.Want{Signatures: true, Children: true}, limits.EvidenceBytes)
	// Each by itself: an index with too many images has signatures of its own all the same.
	return errors.Join(whole.read(ctx), children.read(ctx))
}

// replay answers from a recording.
type replay struct {
	*Recording
	// maxAge is how old the recording may be.
	maxAge time.Duration
}

func (s *session) asked(r request) asked {
	what := r.method + " " + r.path
	if r.query != "" {
		what += "?" + r.query
	}
	return asked{fullName(s.repo), what, r.accept}
}

// replayed is do from a recording: what the registry answered is held to the same bounds
// and digests as when it comes over the wire.
func (s *session) replayed(r request) (*answer, error) {
	got, err := s.offline.find(s.asked(r), s.now())
	switch {
	case err != nil:
		return nil, s.failed(r.op, 0, err)
	case int64(len(got.Body)) > r.limit || got.Over >= r.limit:
		return nil, s.failed(r.op, 0, r.tooLarge())
	case got.Over > 0:
		return nil, s.failed(r.op, 0, notRecorded())
	case got.Status != http.StatusOK && !slices.Contains(r.absent, got.Status):
		return nil, s.failed(r.op, got.Status, nil)
	}
	header := http.Header{}
	header.Set(digestHeader, got.Digest)
	header.Set("Link", got.Link)
	return &answer{status: got.Status, header: header, body: got.Body}, nil
}

func (p *replay) find(what asked, now time.Time) (recorded, error) {
	switch age := now.Sub(p.at); {
	case age > p.maxAge:
		return recorded{}, &refusedError{
			text:   fmt.Sprintf("what was recorded is older than %s (--max-age)", p.maxAge),
			remedy: "record it anew, or give a longer --max-age and miss what was moved or removed since",
		}
	case age < -limits.EvidenceSkew:
		return recorded{}, &refusedError{
			text: "it was recorded in the future", remedy: "set the clock of this machine, and that of the one which records",
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	got, ok := p.answers[what]
	if !ok {
		return recorded{}, notRecorded()
	}
	return got, nil
}

func (r *Recording) stoodFor(tag string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tags[tag] = true
}

func notRecorded() error {
	return &refusedError{
		text:   "it is not in the signature cache file",
		remedy: "record the image with `sluice verify IMAGE --record FILE`, or all with `sluice check --record FILE`, or check without --offline",
	}
}

// unplugged makes no connection, whatever asks for one.
type unplugged struct{}

// RoundTrip implements http.RoundTripper.
func (unplugged) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &refusedError{text: "no registry is asked with --offline", remedy: "try without --offline"}
}
