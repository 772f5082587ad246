package attest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Audience of the tokens that Sigstore's certificate authority takes.
const Audience = "sigstore"

// tokenForm is that of a JWT with a signature.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// LooksLikeToken says whether a text may be an identity token, which is not to be shown.
func LooksLikeToken(text string) bool { return tokenForm.MatchString(text) && len(text) > 60 }

func validateToken(token string) error {
	switch {
	case len(token) > limits.IdentityTokenBytes:
		return fmt.Errorf("the identity token has more than %d bytes (limits.IdentityTokenBytes)", limits.IdentityTokenBytes)
	case !tokenForm.MatchString(token):
		return errors.New("it is no identity token: that is a JWT, three parts with dots between them")
	}
	return nil
}

// ActionsToken asks GitHub for the identity token of the workflow that runs, by what
// ACTIONS_ID_TOKEN_REQUEST_URL and ACTIONS_ID_TOKEN_REQUEST_TOKEN of its environment hold.
// Errors show neither, nor what is answered.
func ActionsToken(ctx context.Context, address, bearer string) (string, error) {
	if err := validateURL(address); err != nil {
		return "", fmt.Errorf("ACTIONS_ID_TOKEN_REQUEST_URL: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limits.SigstoreCall)
	defer cancel()
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("ACTIONS_ID_TOKEN_REQUEST_URL is no URL")
	}
	query := u.Query()
	query.Set("audience", Audience)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", errors.New("ACTIONS_ID_TOKEN_REQUEST_URL is no URL")
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Accept", "application/json; api-version=2.0")
	response, err := guard{ctx}.RoundTrip(req)
	if err != nil {
		return "", fmt.Errorf("asking %s for an identity token: %w", u.Host, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("asking %s for an identity token: it answers %d", u.Host, response.StatusCode)
	}
	var answer struct {
		Value string `json:"value"`
	}
	if json.NewDecoder(response.Body).Decode(&answer) != nil || validateToken(answer.Value) != nil {
		return "", fmt.Errorf("asking %s for an identity token: its answer holds none", u.Host)
	}
	return answer.Value, nil
}
