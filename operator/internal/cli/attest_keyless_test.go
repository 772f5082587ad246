package cli_test

import (
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

const (
	workflowIssuer = "https://token.actions.githubusercontent.com"
	workflow       = "https://github.com/shop/web/.github/workflows/e2e.yml@refs/heads/main"
	personIssuer   = "https://accounts.example.com"
	person         = "release@example.com"
)

// signing is a Sigstore on loopback, its root, and an image.
type signing struct {
	*testkit.SigstoreServer
	t           *testing.T
	depot       *testkit.Registry
	image, root string
}

func newSigning(t *testing.T) *signing {
	t.Helper()
	for _, name := range []string{"SIGSTORE_ID_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "GITHUB_ACTIONS"} {
		t.Setenv(name, "")
	}
	sigstore, err := testkit.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	root, err := sigstore.TrustedRootJSON()
	if err != nil {
		t.Fatal(err)
	}
	s := &signing{SigstoreServer: testkit.NewSigstoreServer(sigstore), t: t, depot: testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})}
	t.Cleanup(s.Close)
	t.Cleanup(s.depot.Close)
	s.image, s.root = s.depot.Host()+"/shop/app:1", file(t, "trusted_root.json", root)
	if _, err := testkit.PushImage(s.image, "app"); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *signing) token(issuer, subject string) string {
	s.t.Helper()
	token, err := s.Token(issuer, subject, "sigstore")
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// args sign with the log and the certificate authority of this Sigstore.
func (s *signing) args(more ...string) []string {
	return append([]string{"attest", s.image, "--environment=e2e", "--keyless", "--trusted-root=" + s.root, "--fulcio-url=" + s.Server.URL, "--rekor-url=" + s.Server.URL}, more...)
}

// gate demands evidence of e2e by an identity.
func (s *signing) gate(issuer, subject string) string {
	return file(s.t, "gate.yaml", fmt.Appendf(nil, `apiVersion: sluice.dev/v1beta1
kind: Gate
metadata: {name: prod}
spec:
  environment: prod
  unmatchedImages: Allow
  requirePromotionFrom:
    environment: e2e
    authorities:
    - name: e2e-workflow
      keyless: {issuer: %q, subject: %q, trustedRoot: {file: %q}}
`, issuer, subject, s.root))
}

// nothingStored says that no evidence came to lie beside the image.
func (s *signing) nothingStored() {
	s.t.Helper()
	command(s.t, cli.ExitDenied, "has no evidence", "history", s.image, "--gate="+s.gate(workflowIssuer, workflow))
}

func TestAttest_WhatAnIdentitySignsIsWhatAGateAsksFor(t *testing.T) {
	for name, c := range map[string]struct {
		issuer, subject string
		give            func(s *signing) []string
	}{
		"a token in a file": {personIssuer, person, func(s *signing) []string {
			return []string{"--identity-token=" + file(s.t, "token", []byte(s.token(personIssuer, person)+"\n"))}
		}},
		"a token in the environment": {personIssuer, person, func(s *signing) []string {
			s.t.Setenv("SIGSTORE_ID_TOKEN", s.token(personIssuer, person))
			return nil
		}},
		"the token of a workflow": {workflowIssuer, workflow, func(s *signing) []string {
			s.Workflow = workflow
			s.t.Setenv("ACTIONS_ID_TOKEN_REQUEST_URL", s.WorkflowURL())
			s.t.Setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", s.WorkflowBearer)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSigning(t)
			command(t, cli.ExitPass, "signed as "+c.subject+" ("+c.issuer+")", s.args(c.give(s)...)...)
			gate := s.gate(c.issuer, c.subject)
			command(t, cli.ExitPass, "signed by e2e-workflow, as "+c.subject+" ("+c.issuer+")", "history", s.image, "--gate="+gate)
			command(t, cli.ExitPass, "e2e -> prod  Allow", "history", s.image, "--gate="+gate)
			command(t, cli.ExitDenied, "signed by nobody", "history", s.image, "--gate="+s.gate(c.issuer, "https://github.com/shop/web/.github/workflows/other.yml@refs/heads/main"))
			command(t, cli.ExitDenied, "NOT VERIFIED", "history", s.image, "--gate="+s.gate("https://issuer.example.com", c.subject))
			var chain struct {
				Evidence []struct{ Identities []string }
			}
			if err := json.Unmarshal([]byte(command(t, cli.ExitPass, "", "history", s.image, "--gate="+gate, "--format=json")), &chain); err != nil {
				t.Fatal(err)
			}
			if len(chain.Evidence) != 1 || !slices.Equal(chain.Evidence[0].Identities, []string{c.subject + " (" + c.issuer + ")"}) {
				t.Errorf("%+v", chain)
			}
		})
	}
}

// The services that a signing configuration names are asked, in the newest version of each.
func TestAttest_SignsWithTheServicesOfASigningConfiguration(t *testing.T) {
	service := func(url string, version int) string {
		return fmt.Sprintf(`{"url":%q,"majorApiVersion":%d,"validFor":{"start":"2024-01-01T00:00:00Z"},"operator":"testkit"}`, url, version)
	}
	const one = `{"selector":"ANY"}`
	for name, c := range map[string]struct {
		version int
		stamps  bool
		paths   []string
	}{
		"version 1 of the log":                         {1, false, []string{"/api/v2/signingCert", "/api/v1/log/entries"}},
		"version 1 of the log, and a timestamp":        {1, true, []string{"/api/v2/signingCert", testkit.TimestampPath, "/api/v1/log/entries"}},
		"version 2 of the log, which needs the latter": {2, true, []string{"/api/v2/signingCert", testkit.TimestampPath, "/api/v2/log/entries"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSigning(t)
			stamps := ""
			if c.stamps {
				stamps = service(s.Server.URL+testkit.TimestampPath, 1)
			}
			config := file(t, "signing_config.json", fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json","caUrls":[%s],
				"rekorTlogUrls":[%s],"rekorTlogConfig":%s,"tsaUrls":[%s],"tsaConfig":%s}`,
				service(s.Server.URL, 1), service(s.Server.URL, c.version), one, stamps, one))
			token := file(t, "token", []byte(s.token(personIssuer, person)))
			command(t, cli.ExitPass, "PASSED", "attest", s.image, "--environment=e2e", "--identity-token="+token, "--trusted-root="+s.root, "--signing-config="+config)
			command(t, cli.ExitPass, "e2e -> prod  Allow", "history", s.image, "--gate="+s.gate(personIssuer, person))
			if !slices.Equal(s.Paths(), c.paths) {
				t.Errorf("asked for %v", s.Paths())
			}
			command(t, cli.ExitUsage, "keep one of them", s.args("--signing-config="+config)...)
		})
	}
}

func TestAttest_WhatDoesNotVerifyIsNotStored(t *testing.T) {
	s := newSigning(t)
	t.Setenv("SIGSTORE_ID_TOKEN", s.token(workflowIssuer, workflow))
	other, err := testkit.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	root, err := other.TrustedRootJSON()
	if err != nil {
		t.Fatal(err)
	}
	command(t, cli.ExitUndecided, "nothing is stored: no Gate could verify", s.args("--trusted-root="+file(t, "other.json", root))...)
	// A trusted root that lists logs demands an entry in one.
	unlogged := slices.DeleteFunc(s.args("--timestamp-url="+s.Server.URL+testkit.TimestampPath), func(arg string) bool { return strings.HasPrefix(arg, "--rekor-url") })
	command(t, cli.ExitUndecided, "nothing is stored: no Gate could verify", unlogged...)
	s.nothingStored()
}

// holds answers in place of a service.
func holds(path string, status int, body func(*http.Request) string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", "x")
		w.Header().Set("Location", "https://elsewhere.example.com/")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body(r))
		return true
	}
}

func TestAttest_AServiceThatFailsIsNoDenialAndShowsNoToken(t *testing.T) {
	text := func(s string) func(*http.Request) string { return func(*http.Request) string { return s } }
	echo := func(r *http.Request) string {
		return r.Header.Get("Authorization") + " " + base64.StdEncoding.EncodeToString([]byte(r.Header.Get("Authorization")))
	}
	for name, c := range map[string]struct {
		path   string
		status int
		body   func(*http.Request) string
		says   string
	}{
		"Fulcio sends the token back":        {"/api/v2/signingCert", http.StatusBadRequest, echo, "Fulcio returned 400"},
		"Fulcio leads elsewhere":             {"/api/v2/signingCert", http.StatusTemporaryRedirect, text(""), "leads elsewhere"},
		"Fulcio does not come to an end":     {"/api/v2/signingCert", http.StatusOK, text(strings.Repeat(" ", limits.SigstoreAnswerBytes+1)), "limits.SigstoreAnswerBytes"},
		"Fulcio has no certificate":          {"/api/v2/signingCert", http.StatusOK, text("{}"), "no certificates"},
		"the log has another entry":          {"/api/v1/log/entries", http.StatusCreated, text(`{"y":{}}`), "did not answer with the entry"},
		"the log has an entry without proof": {"/api/v1/log/entries", http.StatusCreated, text(`{"x":{"body":"e30=","integratedTime":1,"logID":"00","logIndex":0}}`), "did not answer with the entry"},
		"the log refuses":                    {"/api/v1/log/entries", http.StatusBadRequest, text(`{"code":400,"message":"no"}`), "the transparency log"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSigning(t)
			token := s.token(workflowIssuer, workflow)
			s.Answer = holds(c.path, c.status, c.body)
			shown := commandOutput(t, cli.ExitUndecided, c.says, s.args("--identity-token="+file(t, "token", []byte(token)))...)
			for _, part := range append(strings.Split(token, "."), token) {
				if strings.Contains(shown, part) {
					t.Errorf("%q is shown: %s", part, shown)
				}
			}
			s.Answer = nil
			s.nothingStored()
		})
	}
}

func TestAttest_SaysWhereAnIdentityComesFrom(t *testing.T) {
	s := newSigning(t)
	command(t, cli.ExitUsage, "no browser is opened", s.args()...)
	t.Setenv("GITHUB_ACTIONS", "true")
	command(t, cli.ExitUsage, "permissions: {id-token: write}", s.args()...)
	token := s.token(workflowIssuer, workflow)
	for _, given := range []string{token, "./" + token} {
		if shown := commandOutput(t, cli.ExitUsage, "--identity-token: ", s.args("--identity-token="+given)...); strings.Contains(shown, token) {
			t.Errorf("the token is shown: %s", shown)
		}
	}
	command(t, cli.ExitUsage, "it is no identity token", s.args("--identity-token="+file(t, "token", []byte("hunter2")))...)
	command(t, cli.ExitUsage, "bytes", s.args("--identity-token="+file(t, "token", []byte(strings.Repeat("a", limits.IdentityTokenBytes+1))))...)
	t.Setenv("SIGSTORE_ID_TOKEN", token)
	command(t, cli.ExitUsage, "--key and --keyless, --trusted-root are both given", "attest", s.image, "--environment=e2e", "--key=x", "--keyless", "--trusted-root="+s.root)
	attest := []string{"attest", s.image, "--environment=e2e", "--keyless", "--trusted-root=" + s.root}
	command(t, cli.ExitUsage, "no certificate authority", append(attest, "--rekor-url="+s.Server.URL)...)
	command(t, cli.ExitUsage, "nobody says when it was signed", append(attest, "--fulcio-url="+s.Server.URL)...)
	command(t, cli.ExitUsage, "plain HTTP is for loopback", append(attest, "--fulcio-url=http://fulcio.example.com", "--rekor-url="+s.Server.URL)...)
	command(t, cli.ExitUsage, "--trusted-root", s.args("--trusted-root="+file(t, "root.json", []byte("{}")))...)
	command(t, cli.ExitUsage, "no signing configuration", append(attest, "--signing-config="+file(t, "config.json", []byte("x")))...)
	wrong, err := s.Token(workflowIssuer, workflow, "https://github.com/shop")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SIGSTORE_ID_TOKEN", wrong)
	command(t, cli.ExitUndecided, "it has to be of audience sigstore", s.args()...)
	t.Setenv("SIGSTORE_ID_TOKEN", "")
	t.Setenv("ACTIONS_ID_TOKEN_REQUEST_URL", s.WorkflowURL())
	t.Setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "hunter2hunter2")
	if shown := commandOutput(t, cli.ExitUndecided, "it answers 401", s.args()...); strings.Contains(shown, "hunter2") {
		t.Error(shown)
	}
	s.nothingStored()
}

func TestAttest_SignsWithAKeyInVault(t *testing.T) {
	s := newSigning(t)
	vault, err := testkit.NewVault(elliptic.P256())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(vault.Close)
	t.Setenv("VAULT_ADDR", vault.Server.URL)
	t.Setenv("VAULT_TOKEN", testkit.VaultToken)
	attest := []string{"attest", s.image, "--environment=e2e"}
	command(t, cli.ExitUsage, "no key management service", append(attest, "--key=evil://release")...)
	command(t, cli.ExitUndecided, "--key=hashivault://other", append(attest, "--key=hashivault://other")...)
	command(t, cli.ExitPass, "PASSED in environment e2e", append(attest, "--key=hashivault://release")...)
	command(t, cli.ExitPass, "e2e -> prod  Allow", "history", s.image, "--gate="+promotionGate(t, &testkit.Key{PublicPEM: vault.PublicPEM}, ""))
	command(t, cli.ExitPass, "signed by hashivault://release", "history", s.image, "--key=hashivault://release")
}

func TestAttest_NamesWhatTheVerificationTook(t *testing.T) {
	s := newSigning(t)
	_, private, _ := newKeys(t)
	sbom := s.depot.Host() + "/shop/app@" + testkit.DigestOf("sbom")
	attest := []string{"attest", s.image, "--environment=e2e", "--key=" + private}
	command(t, cli.ExitUsage, "name it by its digest", append(attest, "--input="+s.depot.Host()+"/shop/app:sbom")...)
	command(t, cli.ExitPass, "PASSED", append(attest, "--input="+sbom)...)
	digest, err := testkit.PushImage(s.image, "app")
	if err != nil {
		t.Fatal(err)
	}
	held, err := registry.New(registry.Options{}).Evidence(t.Context(), s.depot.Host()+"/shop/app", digest, gate.Want{Predicates: []string{evidence.PredicateType}}, nil, nil)
	if err != nil || len(held.Attestations) != 1 {
		t.Fatalf("%v: %+v", err, held)
	}
	var bundle struct {
		DSSEEnvelope struct{ Payload []byte } `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(held.Attestations[0].Bundle, &bundle); err != nil {
		t.Fatal(err)
	}
	summary, err := evidence.Parse(bundle.DSSEEnvelope.Payload)
	if want := []evidence.Resource{{URI: "oci://" + sbom, Digest: testkit.DigestOf("sbom")}}; err != nil || !slices.Equal(summary.Inputs, want) {
		t.Errorf("%v: %+v", err, summary.Inputs)
	}
}
