package gather_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func TestJudge_WhatADenialDoesIsUpToWhoDenies(t *testing.T) {
	const (
		report = v1beta1.OnFailureReport
		freeze = v1beta1.OnFailureFreeze
		zero   = v1beta1.OnFailureScaleToZero
	)
	type says struct {
		onFailure v1beta1.OnFailure
		interval  time.Duration
		allows    bool
	}
	for name, c := range map[string]struct {
		gates  []says
		change func(*v1beta1.Workload)
		denied v1beta1.OnFailure
		again  time.Duration
	}{
		"a Gate that does not say":         {[]says{{}}, nil, report, limits.Reverify},
		"one that does":                    {[]says{{onFailure: freeze, interval: time.Hour}}, nil, freeze, time.Hour},
		"the strictest of those that deny": {[]says{{onFailure: freeze, interval: time.Hour}, {onFailure: zero, interval: 2 * time.Hour}, {}}, nil, zero, limits.Reverify},
		"not one that allows":              {[]says{{onFailure: zero, interval: time.Minute, allows: true}, {onFailure: freeze, interval: time.Hour}}, nil, freeze, time.Minute},
		"none where all allow":             {[]says{{onFailure: zero, interval: time.Minute, allows: true}}, nil, report, time.Minute},
		"none where nothing was judged": {[]says{{onFailure: zero, interval: time.Minute}}, func(w *v1beta1.Workload) {
			w.Spec.Patches = []v1beta1.Patch{{Patch: "- {op: remove, path: /spec}", Target: &v1beta1.PatchTarget{Kind: "Pod"}}}
		}, report, time.Minute},
		"a word that the schema does not know": {[]says{{onFailure: "Destroy", interval: time.Minute}}, nil, report, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			s.files.GateList = nil
			for i, say := range c.gates {
				g := s.gate(string(rune('a' + i)))
				if say != (says{allows: say.allows}) {
					g.Spec.Reverify = &v1beta1.Reverify{OnFailure: say.onFailure, Interval: &metav1.Duration{Duration: say.interval}}
				}
				if say.allows {
					g.Spec.Images, g.Spec.UnmatchedImages = nil, v1beta1.UnmatchedImagesAllow
				}
				s.files.GateList = append(s.files.GateList, g)
			}
			w := workload(s.image("unsigned"))
			if c.change != nil {
				c.change(w)
			}
			j := s.judge(w, nil)
			if j.Denied != c.denied || j.Again != c.again {
				t.Errorf("%s, again in %s", j.Denied, j.Again)
			}
		})
	}
}

func TestJudge_ReverifyIsNoPartOfThePolicy(t *testing.T) {
	s := newStand(t)
	before := s.judge(workload(s.image("signed")), nil).Verdicts[0]
	s.files.GateList[0].Spec.Reverify = &v1beta1.Reverify{OnFailure: v1beta1.OnFailureScaleToZero}
	if after := s.judge(workload(s.image("signed")), nil).Verdicts[0]; after.Digest() != before.Digest() {
		t.Errorf("%s\n%s", before.Canonical(), after.Canonical())
	}
}
