package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// github speaks the REST API of GitHub, version 2022-11-28.
type github struct{ *Client }

type githubPull struct {
	Number int    `json:"number"`
	URL    string `json:"html_url"`
	Head   struct {
		Ref  string `json:"ref"`
		Repo *struct {
			Name string `json:"full_name"`
		} `json:"repo"`
	} `json:"head"`
	Base struct {
		Ref string `json:"ref"`
	} `json:"base"`
}

func (p githubPull) found() found { return found{p.Number, p.URL} }

// of says whether it is of the branch itself, and not of one of that name in a fork.
func (p githubPull) of(repository string, want Pull) bool {
	return p.Head.Ref == want.Head && p.Base.Ref == want.Base && p.Head.Repo != nil && strings.EqualFold(p.Head.Repo.Name, repository)
}

// pulls is the path of a repository's pull requests, which Gitea has too.
func (c *Client) pulls() string {
	owner, name, _ := strings.Cut(c.repository.Path, "/")
	return "/repos/" + url.PathEscape(owner) + "/" + url.PathEscape(name) + "/pulls"
}

func (f github) find(ctx context.Context, p Pull) (found, error) {
	owner, _, _ := strings.Cut(f.repository.Path, "/")
	var list []githubPull
	query := url.Values{"state": {"open"}, "head": {owner + ":" + p.Head}, "base": {p.Base}, "per_page": {strconv.Itoa(limits.ForgePage)}}
	if err := f.call(ctx, http.MethodGet, f.pulls(), query, nil, &list); err != nil {
		return found{}, err
	}
	for _, one := range list {
		if one.of(f.repository.Path, p) {
			return one.found(), nil
		}
	}
	return found{}, nil
}

func (f github) create(ctx context.Context, p Pull) (found, error) {
	var out githubPull
	err := f.call(ctx, http.MethodPost, f.pulls(), nil, map[string]any{
		"title": p.Title, "head": p.Head, "base": p.Base, "body": p.Body, "draft": p.Draft,
	}, &out)
	return out.found(), err
}

// update leaves a draft a draft: only the GraphQL API could change that.
func (f github) update(ctx context.Context, number int, p Pull) (found, error) {
	var out githubPull
	err := f.call(ctx, http.MethodPatch, f.pulls()+"/"+strconv.Itoa(number), nil, map[string]any{"title": p.Title, "body": p.Body}, &out)
	return out.found(), err
}

// gitlab speaks version 4 of GitLab's API.
type gitlab struct{ *Client }

type gitlabPull struct {
	Number int    `json:"iid"`
	URL    string `json:"web_url"`
	Source int    `json:"source_project_id"`
	Target int    `json:"target_project_id"`
}

func (p gitlabPull) found() found { return found{p.Number, p.URL} }

// requests is the path of a project's merge requests; its own path is one part of it.
func (f gitlab) requests() string {
	return "/projects/" + url.PathEscape(f.repository.Path) + "/merge_requests"
}

// title tells GitLab of a draft.
func (gitlab) title(p Pull) string {
	if p.Draft {
		return "Draft: " + p.Title
	}
	return p.Title
}

func (f gitlab) find(ctx context.Context, p Pull) (found, error) {
	var list []gitlabPull
	query := url.Values{"state": {"opened"}, "source_branch": {p.Head}, "target_branch": {p.Base}, "per_page": {strconv.Itoa(limits.ForgePage)}}
	if err := f.call(ctx, http.MethodGet, f.requests(), query, nil, &list); err != nil {
		return found{}, err
	}
	for _, one := range list {
		if one.Source == one.Target { // else it is of a fork's branch
			return one.found(), nil
		}
	}
	return found{}, nil
}

func (f gitlab) create(ctx context.Context, p Pull) (found, error) {
	var out gitlabPull
	err := f.call(ctx, http.MethodPost, f.requests(), nil, map[string]any{
		"source_branch": p.Head, "target_branch": p.Base, "title": f.title(p), "description": p.Body,
	}, &out)
	return out.found(), err
}

func (f gitlab) update(ctx context.Context, number int, p Pull) (found, error) {
	var out gitlabPull
	err := f.call(ctx, http.MethodPut, f.requests()+"/"+strconv.Itoa(number), nil, map[string]any{"title": f.title(p), "description": p.Body}, &out)
	return out.found(), err
}

// gitea speaks version 1 of the API of Gitea and Forgejo.
type gitea struct{ *Client }

// title tells Gitea of a draft, by its default prefix.
func (gitea) title(p Pull) string {
	if p.Draft {
		return "WIP: " + p.Title
	}
	return p.Title
}

// find goes through the open ones: the API has no search by branch in every version.
func (f gitea) find(ctx context.Context, p Pull) (found, error) {
	for page := 1; page <= limits.ForgePages; page++ {
		var list []githubPull // which is Gitea's shape too
		query := url.Values{"state": {"open"}, "sort": {"recentupdate"}, "limit": {strconv.Itoa(limits.ForgePage)}, "page": {strconv.Itoa(page)}}
		if err := f.call(ctx, http.MethodGet, f.pulls(), query, nil, &list); err != nil {
			return found{}, err
		}
		for _, one := range list {
			if one.of(f.repository.Path, p) {
				return one.found(), nil
			}
		}
		// A server may give fewer at a time than it is asked for: only none is the end.
		if len(list) == 0 {
			return found{}, nil
		}
	}
	return found{}, fmt.Errorf("%s has more than %d open pull requests (limits.ForgePages)", f.repository.Path, limits.ForgePages*limits.ForgePage)
}

func (f gitea) create(ctx context.Context, p Pull) (found, error) {
	var out githubPull
	err := f.call(ctx, http.MethodPost, f.pulls(), nil, map[string]any{
		"title": f.title(p), "head": p.Head, "base": p.Base, "body": p.Body,
	}, &out)
	return out.found(), err
}

func (f gitea) update(ctx context.Context, number int, p Pull) (found, error) {
	var out githubPull
	err := f.call(ctx, http.MethodPatch, f.pulls()+"/"+strconv.Itoa(number), nil, map[string]any{"title": f.title(p), "body": p.Body}, &out)
	return out.found(), err
}
