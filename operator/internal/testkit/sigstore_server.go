package testkit

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/digitorus/timestamp"
	rekortiles "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/protobuf/encoding/protojson"
)

// SigstoreServer serves a Sigstore on loopback by the APIs of the real services: Fulcio (v2),
// Rekor (v1 and v2), a timestamp authority, and the endpoint by which GitHub gives workflows
// their identity token. Certificates are for tokens of its own alone. It is safe for
// concurrent use.
type SigstoreServer struct {
	// Server that listens.
	Server *httptest.Server
	// Workflow is whose token the GitHub endpoint gives, to who has WorkflowBearer.
	Workflow, WorkflowBearer string
	// Answer takes the place of the server's own where it returns true.
	Answer func(http.ResponseWriter, *http.Request) bool

	sigstore *Sigstore
	mu       sync.Mutex
	tokens   map[string]bool
	paths    []string
}

// Paths of the services.
const (
	fulcioPath = "/api/v2/signingCert"
	rekorPath  = "/api/v1/log/entries"
	tilesPath  = "/api/v2/log/entries"
	// TimestampPath is where its timestamp authority is.
	TimestampPath = "/api/v1/timestamp"
	workflowPath  = "/actions/token"
)

// gitHub stands before what a workflow's token says of it in its certificate.
const gitHub = "https://github.com/"

// NewSigstoreServer starts a server; Close stops it.
func NewSigstoreServer(s *Sigstore) *SigstoreServer {
	v := &SigstoreServer{sigstore: s, tokens: map[string]bool{}, WorkflowBearer: rand.Text()}
	mux := http.NewServeMux()
	for path, serve := range map[string]func(*http.Request, []byte) (answer, error){
		"POST " + fulcioPath: v.certificate, "POST " + rekorPath: v.entry, "POST " + tilesPath: v.tile,
		"POST " + TimestampPath: v.stamp, "GET " + workflowPath: v.workflow,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { v.serve(w, r, serve) })
	}
	v.Server = httptest.NewServer(mux)
	return v
}

// Close stops the server.
func (v *SigstoreServer) Close() { v.Server.Close() }

// WorkflowURL is what ACTIONS_ID_TOKEN_REQUEST_URL is in a workflow.
func (v *SigstoreServer) WorkflowURL() string {
	return v.Server.URL + workflowPath + "?api-version=2.0"
}

// Paths are those of all requests, in order.
func (v *SigstoreServer) Paths() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.paths...)
}

// Token makes an identity token for a subject: of an email address one with that, and else one as
// GitHub gives to workflows, where the subject is the workflow's URL.
func (v *SigstoreServer) Token(issuer, subject, audience string) (string, error) {
	claims := map[string]any{"iss": issuer, "aud": audience, "exp": time.Now().Add(time.Minute).Unix()}
	if ref, ok := strings.CutPrefix(subject, gitHub); ok {
		claims["sub"], claims["job_workflow_ref"] = "repo:shop/web:ref:refs/heads/main", ref
	} else {
		claims["sub"], claims["email"], claims["email_verified"] = "1234567890", subject, true
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	token := encode([]byte(`{"alg":"RS256"}`)) + "." + encode(raw) + "." + encode([]byte(rand.Text()))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tokens[token] = true
	return token, nil
}

// answer is a status, headers and a body.
type answer struct {
	status int
	header map[string]string
	body   []byte
}

func (v *SigstoreServer) serve(w http.ResponseWriter, r *http.Request, serve func(*http.Request, []byte) (answer, error)) {
	v.mu.Lock()
	v.paths = append(v.paths, r.URL.Path)
	v.mu.Unlock()
	if v.Answer != nil && v.Answer(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	a, err := serve(r, body)
	if err != nil {
		// As the gateway of the real ones does.
		a = answer{status: http.StatusBadRequest}
		a.body, _ = json.Marshal(map[string]any{"code": 3, "message": err.Error()})
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

func asJSON(status int, content any) (answer, error) {
	raw, err := json.Marshal(content)
	return answer{status: status, body: raw}, err
}

// certificate is for the key that the request proves to hold, by a signature over the
// token's subject.
func (v *SigstoreServer) certificate(r *http.Request, body []byte) (answer, error) {
	var asked struct {
		PublicKeyRequest struct {
			PublicKey         struct{ Algorithm, Content string }
			ProofOfPossession []byte
		}
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return answer{}, err
	}
	by, proved, err := v.identify(r)
	if err != nil {
		return answer{}, err
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey([]byte(asked.PublicKeyRequest.PublicKey.Content))
	if err != nil {
		return answer{}, err
	}
	verifier, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		return answer{}, err
	}
	if err := verifier.VerifySignature(bytes.NewReader(asked.PublicKeyRequest.ProofOfPossession), strings.NewReader(proved)); err != nil {
		return answer{}, fmt.Errorf("the signature supplied in the request could not be verified: %w", err)
	}
	c, err := v.sigstore.certify(by, public)
	if err != nil {
		return answer{}, err
	}
	var chain []string
	for _, one := range []*x509.Certificate{c, v.sigstore.ca.below, v.sigstore.ca.root} {
		chain = append(chain, string(certificatesPEM(one)))
	}
	return asJSON(http.StatusOK, map[string]any{"signedCertificateEmbeddedSct": map[string]any{"chain": map[string]any{"certificates": chain}}})
}

// identify says who the request's token is of, and what its holder has to sign.
func (v *SigstoreServer) identify(r *http.Request) (by Identity, proved string, err error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	v.mu.Lock()
	known := v.tokens[token]
	v.mu.Unlock()
	if !known {
		return by, "", errors.New("there was an error processing the identity token")
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return by, "", err
	}
	var claims struct {
		Iss, Aud, Sub, Email string
		Workflow             string `json:"job_workflow_ref"`
	}
	if err := json.Unmarshal(raw, &claims); err != nil {
		return by, "", err
	}
	if claims.Aud != "sigstore" {
		return by, "", fmt.Errorf("there was an error processing the identity token: audience %s", claims.Aud)
	}
	if claims.Email != "" {
		return Identity{Issuer: claims.Iss, Subject: claims.Email}, claims.Email, nil
	}
	return Identity{Issuer: claims.Iss, Subject: gitHub + claims.Workflow}, claims.Sub, nil
}

// entry logs an envelope in version 1 of Rekor.
func (v *SigstoreServer) entry(_ *http.Request, body []byte) (answer, error) {
	var asked struct {
		Kind, APIVersion string
		Spec             struct {
			ProposedContent struct {
				Envelope  string
				Verifiers [][]byte
			}
		}
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return answer{}, err
	}
	if asked.Kind != "dsse" || asked.APIVersion != "0.0.1" || len(asked.Spec.ProposedContent.Verifiers) != 1 {
		return answer{}, fmt.Errorf("an entry of kind %s %s is not logged here", asked.Kind, asked.APIVersion)
	}
	c, err := readCertificate(asked.Spec.ProposedContent.Verifiers[0])
	if err != nil {
		return answer{}, err
	}
	logged, err := v.sigstore.logged(made{certificate: c, envelope: []byte(asked.Spec.ProposedContent.Envelope)}, false)
	if err != nil {
		return answer{}, err
	}
	id := hex.EncodeToString(logged.InclusionProof.RootHash)
	a, err := asJSON(http.StatusCreated, map[string]any{id: map[string]any{
		"body": logged.CanonicalizedBody, "integratedTime": logged.IntegratedTime, "logID": hex.EncodeToString(logged.LogId.KeyId), "logIndex": logged.LogIndex,
		"verification": map[string]any{
			"signedEntryTimestamp": logged.InclusionPromise.SignedEntryTimestamp,
			"inclusionProof": map[string]any{
				"checkpoint": logged.InclusionProof.Checkpoint.Envelope, "hashes": []string{}, "logIndex": logged.InclusionProof.LogIndex,
				"rootHash": id, "treeSize": logged.InclusionProof.TreeSize,
			},
		},
	}})
	a.header = map[string]string{"ETag": id, "Location": rekorPath + "/" + id}
	return a, err
}

// tile logs what a certificate's key signed in version 2 of Rekor.
func (v *SigstoreServer) tile(_ *http.Request, body []byte) (answer, error) {
	var asked rekortiles.CreateEntryRequest
	if err := protojson.Unmarshal(body, &asked); err != nil {
		return answer{}, err
	}
	r := asked.GetHashedRekordRequestV002()
	c, err := x509.ParseCertificate(r.GetSignature().GetVerifier().GetX509Certificate().GetRawBytes())
	if err != nil {
		return answer{}, err
	}
	logged, err := v.sigstore.logged(made{certificate: c, signature: r.GetSignature().GetContent(), digest: r.GetDigest()}, true)
	if err != nil {
		return answer{}, err
	}
	raw, err := protojson.Marshal(logged)
	return answer{status: http.StatusCreated, body: raw}, err
}

func (v *SigstoreServer) stamp(_ *http.Request, body []byte) (answer, error) {
	asked, err := timestamp.ParseRequest(body)
	if err != nil {
		return answer{}, err
	}
	raw, err := v.sigstore.stampedHash(asked.HashedMessage, time.Now())
	return answer{status: http.StatusCreated, body: raw, header: map[string]string{"Content-Type": "application/timestamp-reply"}}, err
}

func (v *SigstoreServer) workflow(r *http.Request, _ []byte) (answer, error) {
	if r.Header.Get("Authorization") != "Bearer "+v.WorkflowBearer {
		return answer{status: http.StatusUnauthorized}, nil
	}
	token, err := v.Token("https://token.actions.githubusercontent.com", v.Workflow, r.URL.Query().Get("audience"))
	if err != nil {
		return answer{}, err
	}
	return asJSON(http.StatusOK, map[string]any{"value": token})
}

func readCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the verifier is no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
