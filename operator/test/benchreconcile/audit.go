package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// request is one request to the API server that was answered.
type request struct {
	user, verb string
	// resource with its subresource, such as workloads/status.
	resource        string
	namespace, name string
	code            int32
	// at is when it was answered.
	at time.Time
}

// ledger reads an audit log that grows.
type ledger struct {
	path   string
	offset int64
}

// next returns the requests that were logged since the last call.
func (l *ledger) next() ([]request, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, l.offset, 1<<30))
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	whole := content[:bytes.LastIndexByte(content, '\n')+1] // the last line may still be written
	l.offset += int64(len(whole))
	var out []request
	for line := range bytes.Lines(whole) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w: %s", err, line)
		}
		if r, counts := requestOf(&e); counts {
			out = append(out, r)
		}
	}
	return out, nil
}

// requestOf leaves out what is logged a second time: of a watch, which is logged when it
// begins, its end.
func requestOf(e *auditv1.Event) (request, bool) {
	begins := e.Stage == auditv1.StageResponseStarted
	if e.ObjectRef == nil || begins != (e.Verb == "watch") {
		return request{}, false
	}
	r := request{user: e.User.Username, verb: e.Verb, resource: e.ObjectRef.Resource, namespace: e.ObjectRef.Namespace, name: e.ObjectRef.Name, at: e.StageTimestamp.Time}
	if e.ObjectRef.Subresource != "" {
		r.resource += "/" + e.ObjectRef.Subresource
	}
	if e.ResponseStatus != nil {
		r.code = e.ResponseStatus.Code
	}
	return r, true
}

// tally is what one user asked of the API server.
type tally struct {
	// Writes about Workloads, refused ones included: to their children, to their metadata
	// (the finalizer), to their status, and events. Of those, refused tells apart.
	children, metadata, status, events, refused int
	// own are writes for the process itself, such as the renewal of its Lease.
	own int
	// Reads.
	gets, lists, watches int
}

// writes about Workloads, of every kind.
func (t tally) writes() int { return t.objects() + t.events }

// objects is the writes to objects that stay: the API server drops events after an hour.
func (t tally) objects() int { return t.children + t.metadata + t.status }

func (t tally) reads() int { return t.gets + t.lists + t.watches }

func count(requests []request, user string) tally {
	var t tally
	for _, r := range requests {
		if r.user == user {
			t.add(r)
		}
	}
	return t
}

func (t *tally) add(r request) {
	switch {
	case r.verb == "get":
		t.gets++
		return
	case r.verb == "list":
		t.lists++
		return
	case r.verb == "watch":
		t.watches++
		return
	case isOwn(r):
		t.own++
		return
	case r.resource == "workloads":
		t.metadata++
	case r.resource == "workloads/status":
		t.status++
	case r.resource == "events":
		t.events++
	default:
		t.children++
	}
	if r.code >= 400 {
		t.refused++
	}
}

// isOwn says whether a write is for the process itself: its Lease and the event that it
// leads, its certificate, and the CA bundle in webhooks and CRDs.
func isOwn(r request) bool {
	return r.namespace == stage.OperatorNamespace ||
		slices.Contains([]string{"validatingwebhookconfigurations", "customresourcedefinitions"}, r.resource)
}

// progressTold is how many statuses were written of Workloads that were still starting:
// all but the last of each. They are told in order; one that follows the write before it
// sooner than limits.ProgressPause is an error.
func progressTold(requests []request) (int, error) {
	last := map[string]time.Time{}
	told := map[string][]time.Duration{}
	for _, r := range requests {
		if r.user != operatorUser || !strings.HasPrefix(r.resource, "workloads") || !writing(r) {
			continue
		}
		key := r.namespace + "/" + r.name
		if r.resource == "workloads/status" {
			told[key] = append(told[key], r.at.Sub(last[key]))
		}
		last[key] = r.at
	}
	total := 0
	for key, after := range told {
		for _, pause := range after[:len(after)-1] {
			if pause < limits.ProgressPause {
				return 0, fmt.Errorf("the status of Workload %s was written %d times, once %s after the write before", key, len(after), pause)
			}
			total++
		}
	}
	return total, nil
}

func writing(r request) bool {
	return !slices.Contains([]string{"get", "list", "watch"}, r.verb)
}
