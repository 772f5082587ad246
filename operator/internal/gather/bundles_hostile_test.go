package gather_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// TestJudge_TellsWhatARegistryDoesWithABundle is about registries that fail, or lie.
func TestJudge_TellsWhatARegistryDoesWithABundle(t *testing.T) {
	layer := testkit.DigestOf(noWorkload)
	for name, c := range map[string]struct {
		part   string
		answer func(s *stand) http.Handler
		says   string
	}{
		"another manifest":    {"manifest", func(*stand) http.Handler { return body(`{"schemaVersion":2}`) }, "does not have the digest that was asked for"},
		"no manifest":         {"manifest", func(*stand) http.Handler { return testkit.Status(http.StatusNotFound) }, "push the policies first"},
		"no leave":            {"manifest", func(*stand) http.Handler { return testkit.Status(http.StatusForbidden) }, "403"},
		"a huge manifest":     {"manifest", func(*stand) http.Handler { return body(strings.Repeat(" ", limits.ManifestBytes+1)) }, "limits.ManifestBytes"},
		"another layer":       {layer, func(*stand) http.Handler { return body(strings.Replace(noWorkload, "no", "on", 1)) }, "a layer is not what the manifest describes"},
		"a longer layer":      {layer, func(*stand) http.Handler { return body(noWorkload + " ") }, "a layer is not what the manifest describes"},
		"an endless layer":    {layer, func(*stand) http.Handler { return endless{} }, "a layer is not what the manifest describes"},
		"a layer without end": {layer, func(*stand) http.Handler { return testkit.Hang() }, "no answer within"},
		"no layer":            {layer, func(*stand) http.Handler { return testkit.Status(http.StatusNotFound) }, "push the policies first"},
		"500":                 {layer, func(*stand) http.Handler { return testkit.Status(http.StatusInternalServerError) }, "500"},
		"a way to metadata": {layer, func(*stand) http.Handler { return http.RedirectHandler("http://169.254.169.254/x", http.StatusFound) },
			"link-local or metadata address"},
		"a way in plain HTTP": {layer, func(*stand) http.Handler {
			return http.RedirectHandler("http://registry.example.com/x", http.StatusFound)
		}, "plain HTTP is not allowed"},
		"a way in a circle": {layer, func(s *stand) http.Handler {
			return http.RedirectHandler(s.registry.Server.URL+"/v2/policies/prod/blobs/"+layer, http.StatusFound)
		}, "limits.RegistryRedirects"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t)
			digest := s.policies(t, rego(noWorkload)...)
			if err := s.key.SignBundle(s.policyRepository(), digest); err != nil {
				t.Fatal(err)
			}
			part := strings.Replace(c.part, "manifest", "manifests/"+digest, 1)
			s.registry.Override(testkit.PathContains(part), c.answer(s))
			judge := s.judgeOf()
			v := judge.Workload(t.Context(), workload(s.image("signed")), nil).Verdicts[0]
			if v.Outcome != gate.OutcomeError || !strings.Contains(string(v.Canonical()), c.says) {
				t.Errorf("it does not say %q: %s", c.says, v.Canonical())
			}
			if name == "a layer without end" {
				return // its registry is waited for
			}
			s.registry.Restore()
			if v := judge.Workload(t.Context(), workload(s.image("signed")), nil).Verdicts[0]; v.Outcome != gate.OutcomeDeny {
				t.Errorf("once it answers: %s", v.Canonical())
			}
		})
	}
}

func body(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

// endless sends zeros, for as long as somebody reads.
type endless struct{}

// ServeHTTP implements http.Handler.
func (endless) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for part := make([]byte, 32<<10); ; {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}
