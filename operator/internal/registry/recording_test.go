package registry

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const scans = "https://scans.example.com/v1"

var recordedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// taken is what a client sees of an image.
type taken struct {
	digest   string
	evidence Evidence
	err      string
}

func take(t *testing.T, c *Client, s *shop, suffix string, want gate.Want) (out taken) {
	t.Helper()
	ref := s.ref(t, suffix)
	digest, err := c.Resolve(t.Context(), ref, nil)
	if err == nil {
		out.digest = digest
		out.evidence, err = c.Evidence(t.Context(), ref.Repository, digest, want, nil, nil)
	}
	if err != nil {
		out.err = err.Error()
	}
	return out
}

// replayed writes a recording, closes the registry, and reads it back.
func replayed(t *testing.T, s *shop, r *Recording, o Options) *Client {
	t.Helper()
	var file bytes.Buffer
	ok(t, r.Write(&file))
	read, err := ReadRecording(bytes.NewReader(file.Bytes()))
	ok(t, err)
	var again bytes.Buffer
	ok(t, read.Write(&again))
	if !bytes.Equal(again.Bytes(), file.Bytes()) {
		t.Error("what was read is written in other bytes")
	}
	s.Close()
	if o.Offline = read; o.MaxAge == 0 {
		o.MaxAge = limits.RecordingAge
	}
	if o.Now == nil {
		o.Now = func() time.Time { return recordedAt.Add(time.Hour) }
	}
	return New(o)
}

func TestRecording_GivesWhatTheRegistryGave(t *testing.T) {
	for name, options := range map[string]testkit.RegistryOptions{
		"with the referrers API": {Referrers: true}, "without it": {}, "with the config's type in its list": {Referrers: true, EmptyArtifactTypes: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, children := indexed(t, options)
			ok(t, s.key.SignTag(s.repository, s.digest))
			ok(t, s.key.SignBundle(s.repository, children[0]))
			ok(t, s.key.AttestBundle(s.repository, s.digest, scans, map[string]any{"result": "PASSED"}))
			ok(t, s.key.AttestTag(s.repository, s.digest, scans, map[string]any{"result": "PASSED"}))
			wants := map[string]gate.Want{
				"signatures": {Signatures: true}, "attestations": {Predicates: []string{scans}}, "children": {Signatures: true, Children: true},
				"all": {Signatures: true, Predicates: []string{scans}, Children: true}, "another predicate": {Predicates: []string{"https://other.example.com"}},
			}
			r := NewRecording(recordedAt)
			recorder := New(Options{Record: r})
			take(t, recorder, s, ":index", gate.Want{Signatures: true})
			take(t, recorder, s, ":gone", gate.Want{Signatures: true})
			if missing := recorder.Complete(t.Context()); len(missing) > 0 {
				t.Fatal(missing)
			}
			online := map[string]taken{}
			for title, want := range wants {
				online[title] = take(t, New(Options{}), s, ":index", want)
			}
			gone := take(t, New(Options{}), s, ":gone", gate.Want{Signatures: true})
			offline := replayed(t, s, r, Options{Google: true, Amazon: true, Azure: true})
			for title, want := range wants {
				if got := take(t, offline, s, ":index", want); !reflect.DeepEqual(got, online[title]) || got.err != "" {
					t.Errorf("%s: got %+v, the registry gave %+v", title, got, online[title])
				}
			}
			if got := take(t, offline, s, ":gone", gate.Want{Signatures: true}); !reflect.DeepEqual(got, gone) || gone.err == "" {
				t.Errorf("of a tag that is not there: got %+v, the registry gave %+v", got, gone)
			}
		})
	}
}

func TestRecording_TakesWhatItDoesNotHoldForUnknown(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	r := NewRecording(recordedAt)
	recorder := New(Options{Record: r})
	s.Override(testkit.PathContains(".att"), testkit.Status(http.StatusInternalServerError))
	take(t, recorder, s, ":1", gate.Want{Signatures: true})
	if missing := recorder.Complete(t.Context()); len(missing) != 1 || !strings.Contains(missing[0], s.repository) {
		t.Errorf("what could not be read is %q", missing)
	}
	offline := replayed(t, s, r, Options{})
	if got := take(t, offline, s, ":1", gate.Want{Signatures: true}); got.err != "" {
		t.Errorf("signatures: %s", got.err)
	}
	const unknown = "it is not in the signature cache file: record the image with `sluice verify IMAGE --record FILE`, or all with `sluice check --record FILE`, or check without --offline"
	for title, got := range map[string]taken{
		"a place that was not read": take(t, offline, s, ":1", gate.Want{Predicates: []string{scans}}),
		"another tag":               take(t, offline, s, ":2", gate.Want{Signatures: true}),
		"another digest":            take(t, offline, s, "@sha256:"+strings.Repeat("a", 64), gate.Want{Signatures: true}),
	} {
		if !strings.HasSuffix(got.err, unknown) {
			t.Errorf("%s: %q", title, got.err)
		}
	}
	for title, now := range map[string]time.Duration{"older than 24h0m0s (--max-age)": 25 * time.Hour, "recorded in the future": -time.Hour} {
		old := New(Options{Offline: r, MaxAge: limits.RecordingAge, Now: func() time.Time { return recordedAt.Add(now) }})
		if got := take(t, old, s, ":1", gate.Want{Signatures: true}); !strings.Contains(got.err, title) {
			t.Errorf("%s: %q", title, got.err)
		}
	}
	if tags := offline.offline.Tags(); len(tags) != 1 || tags[0] != s.repository+":1" {
		t.Errorf("the tags that the file vouches for are %q", tags)
	}
}

// What a tag beside a digest stands for is told and not pulled, so that nobody has to vouch
// for it.
func TestRecording_KnowsTheTagBesideADigest(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	r := NewRecording(recordedAt)
	pinned := s.ref(t, ":1@"+testkit.DigestOf("another"))
	if got, err := New(Options{Record: r}).Tagged(t.Context(), pinned, nil); err != nil || got != s.digest {
		t.Fatalf("%q, %v", got, err)
	}
	offline := replayed(t, s, r, Options{})
	if got, err := offline.Tagged(t.Context(), pinned, nil); err != nil || got != s.digest {
		t.Errorf("from the file: %q, %v", got, err)
	}
	if got, err := offline.Tagged(t.Context(), s.ref(t, ":2@"+s.digest), nil); err == nil || got != "" {
		t.Errorf("what is not in it: %q, %v", got, err)
	}
	if tags := offline.offline.Tags(); len(tags) != 0 {
		t.Errorf("the file vouches for %q", tags)
	}
	if got, err := offline.Resolve(t.Context(), s.ref(t, ":1"), nil); err != nil || got != s.digest || len(offline.offline.Tags()) != 1 {
		t.Errorf("a tag alone: %q, %v, %q", got, err, offline.offline.Tags())
	}
}

// TestRecording_IsHeldToItsDigests takes nothing for what it is not from a file that was
// tampered with.
func TestRecording_IsHeldToItsDigests(t *testing.T) {
	s := newShop(t, testkit.RegistryOptions{Referrers: true})
	ok(t, s.key.SignBundle(s.repository, s.digest))
	r := NewRecording(recordedAt)
	take(t, New(Options{Record: r}), s, ":1", gate.Want{Signatures: true})
	for what, a := range r.answers {
		if strings.Contains(what.Request, "blobs/") {
			a.Body = append([]byte(" "), a.Body...)
			r.answers[what] = a
		}
	}
	offline := replayed(t, s, r, Options{})
	if got := take(t, offline, s, ":1", gate.Want{Signatures: true}); !strings.Contains(got.err, "the content is not what its manifest describes") {
		t.Errorf("got %+v", got)
	}
}

// TestRecording_MakesNoConnection goes to the last stop before the network.
func TestRecording_MakesNoConnection(t *testing.T) {
	c := New(Options{Offline: NewRecording(recordedAt), MaxAge: time.Hour, Google: true, Amazon: true, Azure: true})
	_, err := (&http.Client{Transport: c.transport}).Get("https://registry.example.com/v2/")
	var refused *refusedError
	if !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	if got := c.clouds; len(got) > 0 {
		t.Errorf("%d clouds are asked for credentials", len(got))
	}
}

func TestReadRecording_RefusesWhatItWouldNotHaveWritten(t *testing.T) {
	const head, one = `{"format":"sluice.dev/signature-cache/v1","recorded":"2026-03-01T12:00:00Z","answers":1}` + "\n",
		`{"repository":"registry.example.com/shop/web","request":"GET manifests/1","status":200,"body":"e30="}` + "\n"
	if _, err := ReadRecording(strings.NewReader(head + one)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ text, says string }{
		"an empty file":                {"", "line 1: it is empty"},
		"something else":               {"apiVersion: v1\n", "line 1: its format is"},
		"a later version":              {strings.Replace(head, "/v1", "/v2", 1) + one, `line 1: its format is "sluice.dev/signature-cache/v2"`},
		"a file without its end":       {head, "it has 0 answers where 1 should be"},
		"a line without its end":       {head + one[:len(one)-9], "line 2: it ends in the midst of a line"},
		"more than the heading says":   {head + one + strings.Replace(one, "web", "xyz", 1), "line 3: there are more than the 1 answers"},
		"an answer twice":              {strings.Replace(head, ":1}", ":2}", 1) + one + one, "line 3: it does not stand in order"},
		"a field that nobody knows":    {head + strings.Replace(one, `"status"`, `"verdict":"Allow","status"`, 1), "line 2: json: unknown field"},
		"a field twice":                {head + strings.Replace(one, `"status"`, `"Status":404,"status"`, 1), "line 2:"},
		"a name that is not in full":   {head + strings.Replace(one, "registry.example.com/", "", 1), "line 2: its repository is no name in full"},
		"a name that is another's":     {head + strings.Replace(one, "registry.example.com", "index.docker.io", 1), "line 2: its repository is no name in full"},
		"no status":                    {head + strings.Replace(one, "200", "0", 1), "line 2: it is no answer of a registry"},
		"more answers than there are":  {strings.Replace(head, ":1}", ":1000000}", 1), "limits.RecordingAnswers"},
		"a line that is far too long":  {head + `{"repository":"` + strings.Repeat("a", limits.RecordingLineBytes), "limits.RecordingLineBytes"},
		"a number of answers below 0":  {strings.Replace(head, ":1}", ":-1}", 1), "line 1: it has -1 answers"},
		"a body that is not in base64": {head + strings.Replace(one, "e30=", "{}", 1), "line 2:"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadRecording(strings.NewReader(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.HasSuffix(err.Error(), "record it anew, with the version of sluice that reads it") {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

// FuzzReadRecording wants that what is read is written, and read again, as the same bytes.
func FuzzReadRecording(f *testing.F) {
	f.Add([]byte(`{"format":"sluice.dev/signature-cache/v1","recorded":"2026-03-01T12:00:00Z","answers":1}` + "\n" +
		`{"repository":"registry.example.com/shop/web","request":"GET manifests/1","status":200,"body":"e30="}` + "\n"))
	f.Add([]byte(`{"format":"sluice.dev/signature-cache/v1","recorded":"2026-03-01T12:00:00+01:00","answers":1}` + "\n" +
		`{"repository":"docker.io/library/nginx","request":"GET blobs/x","accept":"a","status":200,"over":9,"link":"<x>"}` + "\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ReadRecording(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		ok(t, r.Write(&first))
		again, err := ReadRecording(bytes.NewReader(first.Bytes()))
		ok(t, err)
		ok(t, again.Write(&second))
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%q is written as %q", first.Bytes(), second.Bytes())
		}
	})
}

func TestRecording_SaysThatItIsFull(t *testing.T) {
	r := NewRecording(recordedAt)
	large := &answer{status: http.StatusOK, header: http.Header{}, body: make([]byte, limits.RecordingBytes/2)}
	for i := range 2 {
		r.keep(asked{Repository: "registry.example.com/web", Request: fmt.Sprint("GET blobs/", i)}, request{}, large, nil)
	}
	if err := r.Write(&bytes.Buffer{}); !errors.Is(err, errRecordingFull) {
		t.Errorf("got %v", err)
	}
}
