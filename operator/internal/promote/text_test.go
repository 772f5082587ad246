package promote_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlaydiff"
	"github.com/sluice-dev/sluice/operator/internal/promote"
	"github.com/sluice-dev/sluice/operator/internal/report"
	"github.com/sluice-dev/sluice/operator/internal/testkit/golden"
)

func state(apiVersion string, change func(*v1beta1.WorkloadSpec)) promote.State {
	w := &v1beta1.Workload{}
	w.Namespace, w.Name = "shop", "web"
	w.Spec = v1beta1.WorkloadSpec{
		Replicas: ptr.To[int32](4), Ports: []v1beta1.Port{{Name: "http", Port: 8080}},
		Storage: &v1beta1.Storage{Size: "10Gi", ClassName: "fast", MountPath: "/data"},
		Env:     []corev1.EnvVar{{Name: "MODE", Value: "a"}},
	}
	if change != nil {
		change(&w.Spec)
	}
	return promote.State{APIVersion: apiVersion, Workload: w}
}

const current = "sluice.dev/v1beta1"

func take() promote.Take {
	return promote.Take{Source: workload("shop/web", "a", "1.2.0"), Target: workload("shop/web", "b", "1.1.0")}
}

// tags of the target and of the source, of Workloads that have no version.
func tags(was, is string) func(*promote.Take) {
	return func(t *promote.Take) {
		t.Target.Version, t.Target.Image.Tag, t.Source.Version, t.Source.Image.Tag = "", was, "", is
	}
}

func noted(notes []promote.Note) string {
	var out []string
	for _, n := range notes {
		out = append(out, n.Area+": "+n.Text)
	}
	return strings.Join(out, "\n")
}

func TestNotes(t *testing.T) {
	same := state(current, nil)
	for name, c := range map[string]struct {
		take                  func(*promote.Take)
		before, after, source promote.State
		says                  []string
	}{
		"an image alone, with storage": {nil, same, same, same, []string{"storage: what the new image writes"}},
		"storage": {nil, same, state(current, func(s *v1beta1.WorkloadSpec) {
			s.Storage.Size, s.Storage.ClassName, s.Storage.MountPath = "5Gi", "slow", "/srv"
		}), same,
			[]string{`changes from "fast" to "slow"`, "shrink from 10Gi to 5Gi", "are mounted at /srv", `it passed on volumes of class "fast"`}},
		"storage that grows":             {nil, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Storage.Size = "10240Mi" }), same, []string{"!grow", "!shrink"}},
		"storage that goes":              {nil, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Storage = nil }), same, []string{"is added or removed", "it passed with volumes, and has none here"}},
		"storage that it passed without": {nil, same, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Storage = nil }), []string{"it passed without volumes"}},
		"half of the replicas":           {nil, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Replicas = ptr.To[int32](2) }), same, []string{"!replicas:"}},
		"less than half":                 {nil, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Replicas = ptr.To[int32](1) }), same, []string{"replicas: from 4 to 1", "is away while it is replaced"}},
		"many more":                      {nil, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Replicas = ptr.To[int32](7) }), same, []string{"replicas: from 4 to 7"}},
		"none":                           {nil, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Replicas = ptr.To[int32](0) }), same, []string{"nothing runs any more", "is not tried"}},
		"one where it passed":            {nil, same, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Replicas = nil }), []string{"it passed alone, and runs as 4 here"}},
		"a port":                         {nil, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Ports = nil }), same, []string{"no longer served: http (8080)", "it passed serving what is not served here: http (8080)"}},
		"a Secret": {nil, same, state(current, func(s *v1beta1.WorkloadSpec) {
			s.Env = append(s.Env, corev1.EnvVar{Name: "P", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}}}})
		}), same, []string{"secrets: newly used, and waited for until there: db"}},
		"what it had where it passed": {nil, same, same, state(current, func(s *v1beta1.WorkloadSpec) {
			s.Secrets, s.Env = []v1beta1.SecretRef{{Name: "db", EnvFrom: true}}, []corev1.EnvVar{{Name: "MODE"}, {Name: "NEW", Value: "s3cret"}}
			s.Config = &v1beta1.ConfigFiles{Files: map[string]string{"app.conf": "a"}}
			s.Rollout = &v1beta1.Rollout{Strategy: v1beta1.RolloutCanary}
		}), []string{"secrets: it passed with Secrets that it does not use here: db", "variables: it passed with variables that are not set here: NEW", "files that are not there here: app.conf", "it passed by Canary, and is rolled out by RollingUpdate", "!s3cret"}},
		"a strategy":                     {nil, same, state(current, func(s *v1beta1.WorkloadSpec) { s.Rollout = &v1beta1.Rollout{Strategy: v1beta1.RolloutCanary} }), promote.State{}, []string{"the strategy becomes Canary, and was RollingUpdate"}},
		"the old version":                {nil, state("sluice.dev/v1alpha1", nil), state("sluice.dev/v1alpha1", nil), same, []string{"is written in sluice.dev/v1alpha1", "it passed as sluice.dev/v1beta1"}},
		"another version":                {nil, state("sluice.dev/v1alpha1", nil), same, same, []string{"becomes sluice.dev/v1beta1, and was sluice.dev/v1alpha1"}},
		"an older image":                 {func(t *promote.Take) { t.Source.Version = "1.0.9" }, same, same, same, []string{"1.0.9 is older than 1.1.0"}},
		"a release of its own candidate": {func(t *promote.Take) { t.Target.Version = "1.2.0-rc.1" }, same, same, same, []string{"!version:"}},
		"back to a candidate":            {func(t *promote.Take) { t.Source.Version, t.Target.Version = "v1.2.0-rc.1", "1.2.0" }, same, same, same, []string{"v1.2.0-rc.1 is older than 1.2.0"}},
		"a major version":                {func(t *promote.Take) { t.Source.Version = "2.0.0" }, same, same, same, []string{"a new major version: from 1.1.0 to 2.0.0"}},
		"an older tag, without versions": {tags("v1.2.0", "1.1.9"), same, same, same, []string{"version: 1.1.9 is older than v1.2.0"}},
		"a major tag, without versions":  {tags("1.2.0", "2.0.0"), same, same, same, []string{"version: a new major version: from 1.2.0 to 2.0.0"}},
		"a newer tag, without versions":  {tags("1.2.0", "1.3.0"), same, same, same, []string{"!version:"}},
		"tags that are no versions":      {tags("1234567", "1200000"), same, same, same, []string{"!version:"}},
		"a version that nobody knows":    {func(t *promote.Take) { t.Source.Version = "" }, same, same, same, []string{"it stays 1.1.0"}},
		"another repository":             {func(t *promote.Take) { t.Source.Image.Repository = "dev.example.com/web" }, same, same, same, []string{"the repository differs: dev.example.com/web"}},
		"what nothing pins": {func(t *promote.Take) {
			t.Source.Resolved, t.Source.Image = true, workload("a/web", "", "1.2.0").Image
			t.Source.Image.Digest = ""
		}, same, same, same, []string{"what tag 1.2.0 led to"}},
		"nothing that is known": {nil, promote.State{}, promote.State{}, promote.State{}, []string{"!storage"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := take()
			if c.take != nil {
				c.take(&x)
			}
			got := noted(promote.Notes(x, c.before, c.after, c.source))
			for _, want := range c.says {
				if bare, not := strings.CutPrefix(want, "!"); strings.Contains(got, bare) == not {
					t.Errorf("%q in:\n%s", want, got)
				}
			}
		})
	}
}

func TestNotes_HaveABound(t *testing.T) {
	var rollout []promote.Note
	many := state(current, func(s *v1beta1.WorkloadSpec) { s.Storage = nil })
	for range 20 {
		rollout = append(rollout, promote.Notes(take(), many, state(current, nil), many)...)
	}
	if len(rollout)/20 > limits.PromotionNotes {
		t.Errorf("%d notes", len(rollout)/20)
	}
}

func verdict(outcome gate.Outcome, message string) report.Run {
	v := gate.Verdict{Outcome: outcome, Gate: "prod", Object: gate.ObjectRef{Kind: "Workload", Namespace: "shop", Name: "web"}}
	if message != "" {
		v.Violations = []gate.Finding{{Policy: "reliability/min-replicas", Severity: "high", Object: "Workload/shop/web", Path: "spec.replicas", Message: message, Remedy: "raise it"}}
	}
	return report.Run{Judged: []report.Judged{{File: "overlays/prod/web.yaml", Verdicts: []gate.Verdict{v}}}}
}

func text() promote.Text {
	return promote.Text{
		From: "e2e", To: "prod", Source: "commit 0123456789ab", Asked: true,
		Plan: promote.Plan{
			Takes: []promote.Take{{Source: workload("shop/api", "c", ""), Target: workload("shop/api", "c", "")}, take()},
			Left:  []string{"shop/worker"},
		},
		Judged: verdict(gate.OutcomeAllow, ""),
		Evidence: []promote.Evidence{{
			Image: "registry.example.com/shop/web@" + digest("a"),
			Links: []promote.Link{{From: "e2e", To: "prod", Gate: "prod", Verdict: gate.OutcomeAllow}},
			Proofs: []promote.Proof{
				{Environment: "ci", Time: "2026-03-01T10:00:00Z", Result: "PASSED", PolicyDigest: digest("d")},
				{Environment: "e2e", Time: "2026-03-02T10:00:00Z", Result: "PASSED", PolicyDigest: digest("e"), SignedBy: []string{"e2e-attestor"}, Exempted: []string{"signature, by Exemption old (until May)"}},
			},
		}},
		Notes:   promote.Notes(take(), state(current, nil), state(current, nil), state(current, nil)),
		Changes: []overlaydiff.Change{{Object: "Workload/shop/web", Kind: overlaydiff.Changed, Lines: []overlaydiff.Line{{Op: ' ', Text: "spec:"}, {Op: '-', Text: "  image: b"}, {Op: '+', Text: "  image: a"}}}},
		Edits:   []string{"overlays/prod/web.yaml:6: spec.image"},
	}
}

func TestText_Body(t *testing.T) {
	allowed := text()
	golden.Compare(t, "allowed.md", allowed.Body())
	golden.Compare(t, "message.txt", allowed.Message())
	denied := text()
	denied.Judged = verdict(gate.OutcomeDeny, "there are fewer than 2")
	denied.Evidence[0].Links[0].Verdict, denied.Evidence[0].Links[0].Message = gate.OutcomeDeny, "image has no evidence"
	denied.Frozen, denied.Forced = "prod takes no promotions now", "an outage"
	golden.Compare(t, "denied.md", denied.Body())
	rollback := text()
	rollback.From, rollback.Asked, rollback.Evidence, rollback.Notes = "", false, nil, nil
	golden.Compare(t, "rollback.md", rollback.Body())
	if title := rollback.Title(); title != "set the image of web in prod: 1.2.0" {
		t.Errorf("of an image that is no earlier one it says %q", title)
	}
}

func TestText_IsTheSameEachTime(t *testing.T) {
	body, message := text().Body(), text().Message()
	for range 20 {
		if again := text(); again.Body() != body || again.Message() != message {
			t.Fatal("it is not")
		}
	}
}

// Nothing that others wrote is Markdown, HTML, a mention, or a command to a CI system.
func TestText_CannotBeBrokenOutOf(t *testing.T) {
	const evil = "`\n\n## merged\n@everyone <img src=x onerror=alert(1)> [a](javascript:b) `` ::error::x ##vso[task.complete]\x1b[31m"
	x := text()
	x.Source, x.Frozen, x.Forced = evil, evil, evil
	x.Judged = verdict(gate.OutcomeDeny, evil)
	x.Plan.Left, x.Edits = []string{evil}, []string{evil}
	x.Plan.Takes[0].Source.Version = evil
	x.Evidence = []promote.Evidence{{
		Image: evil, Links: []promote.Link{{From: "e2e", To: "prod", Verdict: gate.OutcomeDeny, Message: evil}},
		Proofs: []promote.Proof{{Environment: evil, Result: evil, PolicyDigest: evil, SignedBy: []string{evil}, Exempted: []string{evil}}},
	}}
	x.Notes = []promote.Note{{Workload: evil, Area: "image", Text: evil}}
	for line := range strings.Lines(x.Body()) {
		outside := outsideSpans(line)
		for _, bad := range []string{"@everyone", "<img", "](", "merged", "::error", "##vso[", "\x1b"} {
			if strings.Contains(outside, bad) {
				t.Errorf("%q stands outside in %q", bad, line)
			}
		}
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##vso[") {
			t.Errorf("a command: %q", line)
		}
	}
	if message := x.Message(); strings.Contains(message, "\n## merged") {
		t.Errorf("%s", message)
	}
}

// outsideSpans takes code spans out, by the rule of CommonMark: a run of backticks is
// closed by the next run of the same length.
func outsideSpans(line string) string {
	var out strings.Builder
	for line != "" {
		open := strings.IndexByte(line, '`')
		if open < 0 {
			break
		}
		out.WriteString(line[:open])
		run := len(line[open:]) - len(strings.TrimLeft(line[open:], "`"))
		rest, closed := line[open+run:], -1
		for at := 0; at < len(rest); {
			if rest[at] != '`' {
				at++
				continue
			}
			n := len(rest[at:]) - len(strings.TrimLeft(rest[at:], "`"))
			if n == run {
				closed = at + n
				break
			}
			at += n
		}
		if closed < 0 {
			break
		}
		line = rest[closed:]
	}
	return out.String() + line
}

func TestText_FitsIntoAPullRequest(t *testing.T) {
	x := text()
	for i := range 500 {
		w := workload(fmt.Sprintf("shop/web-%d", i), "a", "1.0.0")
		other := workload(fmt.Sprintf("shop/web-%d", i), "b", "1.0.0")
		x.Plan.Takes = append(x.Plan.Takes, promote.Take{Source: w, Target: other})
		x.Notes = append(x.Notes, promote.Note{Workload: w.String(), Area: "storage", Text: strings.Repeat("long ", 50)})
		x.Evidence = append(x.Evidence, x.Evidence[0])
		x.Judged.Judged = append(x.Judged.Judged, verdict(gate.OutcomeDeny, strings.Repeat("no ", 100)).Judged...)
		x.Changes = append(x.Changes, overlaydiff.Change{Object: w.String(), Kind: overlaydiff.Added, Lines: []overlaydiff.Line{{Op: '+', Text: strings.Repeat("a", 200)}}})
	}
	body := x.Body()
	if len(body) > 65536 || !strings.HasPrefix(body, "> **DENY**") || !strings.Contains(body, "There is no room for more here: see `sluice check`") || !strings.Contains(body, "more objects differ") {
		t.Errorf("%d bytes", len(body))
	}
}
