package workload

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// What goes wrong is told once, tried again with a pause, and does nothing to the Workload.
func TestAttest_AFailureIsToldOnceAndTriedAgain(t *testing.T) {
	b := newSoaking(t)
	w := b.soaking("web")
	refused := false
	depot.Override(func(r *http.Request) bool {
		refuse := r.Method == http.MethodPut && strings.Contains(r.URL.Path, b.namespace)
		refused = refused || refuse
		return refuse
	}, testkit.Status(http.StatusForbidden))
	defer depot.Restore()
	b.later(soakTime, w)
	b.woke(w)
	b.promoted(w, reasonAttestationFailed, "403")
	b.expect(w, v1beta1.PhaseReady, reasonReady)
	if told := b.told(); len(told) != 1 || !strings.Contains(told[0], "Warning AttestationFailed") || !strings.Contains(told[0], "use credentials that may push") || !refused {
		t.Errorf("events %v", told)
	}
	b.taken()
	pauses, asked := 0, depot.Requests()
	b.later(limits.AttestationPause-time.Second, w)
	if depot.Requests() != asked {
		t.Errorf("%d requests before the pause is over", depot.Requests()-asked)
	}
	for elapsed := time.Duration(0); elapsed < time.Hour; pauses++ {
		again := b.must(w).RequeueAfter
		elapsed += again
		b.later(again, w)
		b.settle(w)
	}
	if pauses > 14 {
		t.Errorf("it is tried %d times in an hour", pauses)
	}
	if writes, told := b.taken(), b.told(); len(writes) != 0 || len(told) != 0 {
		t.Errorf("while it fails: %v, %v", writes, told)
	}
	depot.Restore()
	b.later(limits.AttestationPauseMax, w)
	b.settle(w)
	b.promoted(w, reasonAttested, "")
	b.attested(w, attestor(t), 1)
}

func TestAttest_AKeyThatCannotBeUsedIsTold(t *testing.T) {
	const secret = "AttestationPause"
	for name, c := range map[string]struct {
		change func(*corev1.Secret)
		says   string
	}{
		"no key":           {func(s *corev1.Secret) { delete(s.Data, "cosign.key") }, `has no key "cosign.key"`},
		"another password": {func(s *corev1.Secret) { s.Data["cosign.password"] = []byte(secret) }, "its password is another"},
		"a public key":     {func(s *corev1.Secret) { s.Data["cosign.key"] = []byte(signer.PublicPEM) }, "it is a public key"},
		"something else":   {func(s *corev1.Secret) { s.Data["cosign.key"] = []byte(secret) }, "it is no key in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSoaking(t)
			key := b.privateKey(attestor(t))
			amend(b, key, c.change)
			w := b.running("web")
			b.runningPod(w, b.clock.Now().Add(-time.Minute))
			b.settle(w)
			b.promoted(w, reasonAttestationFailed, c.says)
			b.expect(w, v1beta1.PhaseReady, reasonReady)
			if all := strings.Join(b.told(), " ") + conditionOf(w, v1beta1.ConditionPromoted).Message; strings.Contains(all, secret) {
				t.Errorf("the key is shown: %s", all)
			}
			// It is put right, and the soak went on meanwhile.
			b.clock.move(soakTime)
			if err := api.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			create(t, b.privateKey(attestor(t)))
			b.must(w)
			b.settle(w)
			b.promoted(w, reasonAttested, "")
		})
	}
}

// After a restart, and on another replica, what is there is found, and nothing is told anew.
func TestAttest_WhatIsThereIsFoundAfterARestart(t *testing.T) {
	b := newSoaking(t)
	w := b.soaking("web")
	b.later(soakTime, w)
	b.woke(w)
	b.promoted(w, reasonAttested, "")
	b.taken()
	b.told()
	puts := depot.Counts()["PUT manifests"]
	b.restart()
	b.must(w)
	b.woke(w)
	b.promoted(w, reasonAttested, "")
	if writes, told := b.taken(), b.told(); len(writes) != 0 || len(told) != 0 || depot.Counts()["PUT manifests"] != puts {
		t.Errorf("%v, %v, %d pushes", writes, told, depot.Counts()["PUT manifests"]-puts)
	}
	b.attested(w, attestor(t), 1)
}

// Evidence by another key is not this environment's: with a new key it is written anew, and
// the time that went by counts.
func TestAttest_ANewKeySignsAnew(t *testing.T) {
	b := newSoaking(t)
	w := b.soaking("web")
	b.later(soakTime, w)
	b.woke(w)
	next, err := testkit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	amend(b, b.privateKey(next), func(s *corev1.Secret) { s.Data["cosign.key"] = []byte(next.PrivatePEM) })
	b.must(w)
	b.settle(w)
	b.promoted(w, reasonAttested, "")
	b.attested(w, next, 1)
	b.attested(w, attestor(t), 1)
}
