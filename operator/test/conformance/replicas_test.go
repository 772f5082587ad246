package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
)

const operatorUser = "system:serviceaccount:sluice-system:sluice-manager"

// replica is one process of the operator.
type replica struct {
	*lab.Process
	// credential is the token's, by which the audit log tells apart replicas of one
	// ServiceAccount.
	credential string
}

// replicas is a cluster whose operator runs twice.
type replicas struct {
	*suite
	service *service
	running []*replica
	log     *auditLog
}

func newReplicas(t *testing.T, args ...string) *replicas {
	t.Helper()
	r := &replicas{suite: &suite{}, service: newService(t)}
	r.stage, r.client = up(t, stage.Options{
		Overlay: "kustomize/overlays/dev", ManagerArgs: args, AuditUsers: []string{operatorUser}, Front: r.service.front,
	})
	r.log = &auditLog{path: r.stage.Cluster.AuditLog()}
	r.running = []*replica{r.replica(t, r.stage.Manager)}
	r.join(t)
	return r
}

// replica is a process that was started just now. Its log is shown if the test fails.
func (r *replicas) replica(t *testing.T, p *lab.Process) *replica {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			log, err := os.ReadFile(p.Log())
			t.Logf("the log of %s ends with (%v): %s", p.Name(), err, log[max(0, len(log)-2000):])
		}
	})
	return &replica{Process: p, credential: r.credential(t)}
}

// join starts a further replica.
func (r *replicas) join(t *testing.T) {
	t.Helper()
	p, err := r.stage.StartReplica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.service.add(p.Webhooks, p.URL)
	r.running = append(r.running, r.replica(t, p.Process))
}

// credential names the token that the replica started last has. The lab writes one for each
// into the same file, and a replica reads it before it is ready.
func (r *replicas) credential(t *testing.T) string {
	t.Helper()
	access, err := clientcmd.LoadFromFile(filepath.Join(r.stage.Cluster.Dir(), stage.OperatorNamespace+".sluice-manager.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.Split(access.AuthInfos[access.Contexts[access.CurrentContext].AuthInfo].Token, ".")
	claims, err := base64.RawURLEncoding.DecodeString(token[min(1, len(token)-1)])
	if err != nil {
		t.Fatal(err)
	}
	var id struct{ JTI string }
	if err := json.Unmarshal(claims, &id); err != nil || id.JTI == "" {
		t.Fatalf("the token has no id (%v): %s", err, claims)
	}
	return "JTI=" + id.JTI
}

// leader is who wrote the Lease last, and other is the other one of two replicas.
func (r *replicas) leader(t *testing.T) (leader, other *replica) {
	t.Helper()
	r.await(t, "there is a leader", func(context.Context) error {
		e := r.lease(t)
		at := slices.IndexFunc(r.running, func(p *replica) bool { return e != nil && credential(e) == p.credential })
		if at < 0 {
			return fmt.Errorf("the Lease was written last by %+v", e)
		}
		leader, other = r.running[at], r.running[1-at]
		return nil
	})
	return leader, other
}

// lease is the last write of the Lease; nil where there is none.
func (r *replicas) lease(t *testing.T) (last *auditv1.Event) {
	t.Helper()
	for _, e := range r.log.read(t) {
		if e.ObjectRef.Resource == "leases" && writes(e) && e.ResponseStatus.Code < 300 {
			last = e
		}
	}
	return last
}

// auditLog is the API server's, as far as it was read. What it has of the operator is every
// request; of others it has the writes of Sluice's kinds.
type auditLog struct {
	path   string
	offset int64
	events []*auditv1.Event
	// watches that have begun, which are answered when they end.
	watches []*auditv1.Event
}

// read returns all that is logged of requests that were answered, the earliest first.
func (l *auditLog) read(t *testing.T) []*auditv1.Event {
	t.Helper()
	file, err := os.Open(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, l.offset, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	whole := content[:bytes.LastIndexByte(content, '\n')+1] // the last line may still be written
	l.offset += int64(len(whole))
	for line := range bytes.Lines(whole) {
		e := &auditv1.Event{}
		if err := json.Unmarshal(line, e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		switch {
		case e.ObjectRef == nil || e.ResponseStatus == nil:
		case e.Stage == auditv1.StageResponseComplete:
			l.events = append(l.events, e)
		case e.Stage == auditv1.StageResponseStarted && e.Verb == "watch":
			l.watches = append(l.watches, e)
		}
	}
	return l.events
}

func credential(e *auditv1.Event) string {
	return strings.Join(e.User.Extra["authentication.kubernetes.io/credential-id"], ",")
}

func writes(e *auditv1.Event) bool { return !slices.Contains([]string{"get", "list", "watch"}, e.Verb) }

// service plays the Service before the webhooks: each connection goes to a replica that is
// ready, in turn.
type service struct {
	listener net.Listener
	probes   *http.Client
	mu       sync.Mutex
	turn     int
	backends []backend
}

type backend struct{ webhooks, health string }

func newService(t *testing.T) *service {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// A probe has a connection of its own, as a kubelet's has, and a replica that does not
	// answer it in time is not ready.
	s := &service{listener: listener, probes: &http.Client{Timeout: 250 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() { s.forward(t.Context(), connection) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		served.Wait()
	})
	return s
}

func (s *service) front(webhooks, health string) (string, error) {
	s.add(webhooks, health)
	return s.listener.Addr().String(), nil
}

func (s *service) add(webhooks, health string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backends = append(s.backends, backend{webhooks, health})
}

// forward joins a connection with one to a replica. Where none is ready it is closed, as one
// to a Service without endpoints is. One probe that is answered late does not make a replica
// that: on a machine with much to do all of them are late at times, and a kubelet asks more
// than once too.
func (s *service) forward(ctx context.Context, from net.Conn) {
	defer from.Close()
	for began := time.Now(); time.Since(began) < patience; {
		for _, b := range s.inTurn() {
			if !s.ready(ctx, b) {
				continue
			}
			to, err := net.Dial("tcp4", b.webhooks)
			if err != nil {
				continue
			}
			join(ctx, from, to)
			return
		}
	}
}

// inTurn are the replicas, beginning with another one each time.
func (s *service) inTurn() []backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	at := s.turn % len(s.backends)
	return slices.Concat(s.backends[at:], s.backends[:at])
}

func (s *service) ready(ctx context.Context, b backend) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.health+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := s.probes.Do(request)
	return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// join copies both ways until one side ends, or the test does.
func join(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = errors.Join(a.Close(), b.Close()) })
	defer stop()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // that it ended is all there is to know
			_ = errors.Join(a.Close(), b.Close())
		})
	}
	both.Wait()
}
