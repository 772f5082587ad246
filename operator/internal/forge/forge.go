package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Pull is a pull request, or a merge request.
type Pull struct {
	// Head is the branch that has the change, Base the one that it goes into, both of the
	// same repository.
	Head, Base string
	Title      string
	// Body in Markdown.
	Body string
	// Draft cannot be merged until somebody says that it is none.
	Draft bool
}

// Made is a pull request that there is now.
type Made struct {
	Number int
	URL    string
	// Updated says that there was one of the branch already.
	Updated bool
}

// Client makes pull requests of one repository.
type Client struct {
	api        API
	repository Remote
	token      string
	http       *http.Client
}

// New makes a client. transport nil means the default one.
func New(api API, repository Remote, token string, transport http.RoundTripper) *Client {
	return &Client{api: api, repository: repository, token: token, http: &http.Client{
		Timeout: limits.ForgeCall, Transport: transport,
		// A redirect could take the token elsewhere, and turns a POST into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// forge is what one kind of forge needs to be told.
type forge interface {
	// find is the open pull request of a branch, 0 where there is none.
	find(ctx context.Context, p Pull) (found, error)
	create(ctx context.Context, p Pull) (found, error)
	update(ctx context.Context, number int, p Pull) (found, error)
}

// found is a pull request as a forge tells of it.
type found struct {
	number int
	url    string
}

// Publish makes a pull request, or gives the open one of the same branch into the same base
// its title and its text. Two at once end in one pull request.
func (c *Client) Publish(ctx context.Context, p Pull) (Made, error) {
	f := c.forge()
	have, err := f.find(ctx, p)
	if err != nil {
		return Made{}, err
	}
	if have.number == 0 {
		made, err := f.create(ctx, p)
		if err == nil {
			return c.made(made, false)
		}
		// Somebody may have been quicker: forges take one for each branch and base.
		again, findErr := f.find(ctx, p)
		if findErr != nil || again.number == 0 {
			return Made{}, err
		}
		have = again
	}
	updated, err := f.update(ctx, have.number, p)
	if err != nil {
		return Made{}, err
	}
	return c.made(updated, true)
}

// made holds what a forge said against what it can be: the address is shown to a user.
func (c *Client) made(f found, updated bool) (Made, error) {
	u, err := url.Parse(f.url)
	if f.number <= 0 || err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return Made{}, fmt.Errorf("%s: it says nothing of a pull request in its answer", c.api.base.Host)
	}
	return Made{Number: f.number, URL: f.url, Updated: updated}, nil
}

func (c *Client) forge() forge {
	switch c.api.Kind {
	case GitLab:
		return gitlab{c}
	case Gitea:
		return gitea{c}
	}
	return github{c}
}

// call asks for path below the base, and reads the answer into out. The path's parts are
// escaped already.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	target := c.api.base.String() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return c.failed(method, path, err)
	}
	req.Header.Set("User-Agent", "sluice")
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req)
	resp, err := c.http.Do(req)
	if err != nil {
		return c.failed(method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limits.ForgeBytes+1))
	switch {
	case err != nil:
		return c.failed(method, path, err)
	case len(raw) > limits.ForgeBytes:
		return c.failed(method, path, fmt.Errorf("the answer has more than %d bytes (limits.ForgeBytes)", limits.ForgeBytes))
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return c.failed(method, path, errors.New(c.said(resp.StatusCode, raw)))
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return c.failed(method, path, errors.New("the answer is not understood: is the address that of its API?"))
	}
	return nil
}

func (c *Client) authorize(req *http.Request) {
	switch c.api.Kind {
	case GitHub:
		req.Header.Set("Authorization", "Bearer "+c.token)
		req.Header.Set("Accept", "application/vnd.github+json")
		req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	case GitLab:
		req.Header.Set("PRIVATE-TOKEN", c.token)
	case Gitea:
		req.Header.Set("Authorization", "token "+c.token)
	}
}

// said is what an answer says went wrong, and what to do about it.
func (c *Client) said(code int, raw []byte) string {
	var answer struct {
		Message any `json:"message"`
		Error   any `json:"error"`
		Errors  any `json:"errors"`
	}
	text := fmt.Sprintf("%d %s", code, http.StatusText(code))
	if json.Unmarshal(raw, &answer) == nil {
		for _, part := range []any{answer.Message, answer.Error, answer.Errors} {
			if part == nil {
				continue
			}
			if s, ok := part.(string); ok {
				text += ": " + s
			} else if more, err := json.Marshal(part); err == nil {
				text += ": " + string(more)
			}
		}
	}
	switch code {
	case http.StatusUnauthorized:
		text += "; is the token still valid?"
	case http.StatusForbidden, http.StatusNotFound:
		text += "; may the token write pull requests of " + c.repository.Path + "?"
	}
	if code >= 300 && code < 400 {
		text += "; the repository may have moved: set the remote's URL anew"
	}
	return text
}

// failed never shows the token, whoever repeats it.
func (c *Client) failed(method, path string, err error) error {
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err
	}
	text := err.Error()
	if c.token != "" {
		text = strings.ReplaceAll(text, c.token, redact.Masked)
	}
	return fmt.Errorf("%s %s at %s: %s", method, path, c.api.base.Host, redact.Text(text, limits.ForgeErrorBytes))
}
