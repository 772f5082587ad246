package gather_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// What lies beside a policy bundle is of the same memory as what lies beside images, and whoever
// may push makes as much of it.
func TestJudge_WhatLiesBesideABundleTakesItsTurn(t *testing.T) {
	s := newStand(t)
	digest := s.policies(t, rego(passes)...)
	if err := s.key.SignBundle(s.policyRepository(), digest); err != nil {
		t.Fatal(err)
	}
	for i := range limits.LargeEvidence / limits.SignatureBlobBytes {
		junk := fmt.Appendf(make([]byte, limits.SignatureBlobBytes-20), "%020d", i)
		if err := testkit.StoreBundle(s.policyRepository(), digest, junk, testkit.PredicateSign); err != nil {
			t.Fatal(err)
		}
	}
	client := registry.New(registry.Options{})
	hold := func(i int) (over func()) {
		if err := testkit.StoreBundle(s.repository(), s.digest, bytes.Repeat([]byte{byte(i)}, limits.LargeEvidence+1), sbom); err != nil {
			t.Fatal(err)
		}
		ctx, over := registry.InTurn(t.Context(), "", 1)
		if _, err := client.Evidence(ctx, s.repository(), s.digest, gate.Want{Predicates: []string{sbom}}, nil, nil); err != nil {
			t.Fatal(err)
		}
		return over
	}
	var overs []func()
	for i := range limits.LargeDecisions {
		overs = append(overs, hold(i))
	}
	large := make(chan struct{}, 64)
	s.registry.Override(func(r *http.Request) bool {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/policies/prod/blobs/") {
			large <- struct{}{}
		}
		return false
	}, nil)
	judge := gather.NewJudge(s.files, client, trust.New(trust.Options{}))
	judged := make(chan gather.Judgement)
	go func() { judged <- judge.Workload(t.Context(), workload(s.image("signed")), nil) }()
	early := 0
	for quiet := false; !quiet; {
		select {
		case <-large:
			early++
		case <-time.After(500 * time.Millisecond):
			quiet = true
		}
	}
	if early > 0 {
		t.Errorf("%d blobs are read out of turn", early)
	}
	for _, over := range overs {
		over()
	}
	if j := <-judged; j.Verdicts[0].Outcome != gate.OutcomeAllow || len(large) == 0 {
		t.Errorf("%d blobs are read: %s", len(large), findings(j))
	}
	// Its turn is over.
	for i := range limits.LargeDecisions {
		hold(limits.LargeDecisions + i)()
	}
}
