package forge_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/forge"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const token = "s3cret-token-of-a-forge"

// server is a forge with the paths, methods, fields and answers of one kind. It keeps the
// pull requests that it is told to make, and takes one for each branch and base.
type server struct {
	t        *testing.T
	kind     forge.Kind
	mutex    sync.Mutex
	pulls    []map[string]any
	requests []string
	// strangers are of a fork, on a branch of the same name.
	strangers int
	// hide has the first so many searches find nothing, as they do when somebody else is
	// making the pull request at the same time.
	hide int
}

func serve(t *testing.T, kind forge.Kind) (*server, forge.API) {
	t.Helper()
	s := &server{t: t, kind: kind}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	api, err := forge.ParseAPI(h.URL + map[forge.Kind]string{forge.GitHub: "/api/v3", forge.GitLab: "/api/v4", forge.Gitea: "/api/v1"}[kind])
	if err != nil || api.Kind != kind {
		t.Fatalf("%v: %v", api.Kind, err)
	}
	return s, api
}

var (
	collections = map[forge.Kind]string{
		forge.GitHub: "/api/v3/repos/shop/fleet/pulls", forge.GitLab: "/api/v4/projects/shop%2Ffleet/merge_requests", forge.Gitea: "/api/v1/repos/shop/fleet/pulls",
	}
	texts   = map[forge.Kind]string{forge.GitHub: "body", forge.GitLab: "description", forge.Gitea: "body"}
	heads   = map[forge.Kind]string{forge.GitHub: "head", forge.GitLab: "source_branch", forge.Gitea: "head"}
	bases   = map[forge.Kind]string{forge.GitHub: "base", forge.GitLab: "target_branch", forge.Gitea: "base"}
	updates = map[forge.Kind]string{forge.GitHub: http.MethodPatch, forge.GitLab: http.MethodPut, forge.Gitea: http.MethodPatch}
	headers = map[forge.Kind][2]string{
		forge.GitHub: {"Authorization", "Bearer " + token}, forge.GitLab: {"Private-Token", token}, forge.Gitea: {"Authorization", "token " + token},
	}
)

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.requests = append(s.requests, r.Method)
	if h := headers[s.kind]; r.Header.Get(h[0]) != h[1] {
		s.answer(w, http.StatusUnauthorized, map[string]any{"message": "401 for " + r.Header.Get(h[0])})
		return
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), collections[s.kind])
	switch {
	case !ok:
		s.answer(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
	case r.Method == http.MethodGet && rest == "":
		s.list(w, r)
	case r.Method == http.MethodPost && rest == "":
		s.create(w, s.read(r))
	case r.Method == updates[s.kind] && rest == "/1" && len(s.pulls) > 0:
		maps.Copy(s.pulls[0], s.read(r))
		s.answer(w, http.StatusOK, s.shape(1, s.pulls[0], "shop/fleet"))
	default:
		s.answer(w, http.StatusMethodNotAllowed, map[string]any{"message": r.Method + " " + rest})
	}
}

func (s *server) read(r *http.Request) map[string]any {
	out := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil || r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("%s: %v", r.Header.Get("Content-Type"), err)
	}
	return out
}

func (s *server) answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.t.Error(err)
	}
}

// list filters as each kind does: Gitea not at all.
func (s *server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	out := []any{}
	switch s.kind {
	case forge.GitHub:
		if q.Get("head") != "shop:promote/prod" || q.Get("base") != "main" || q.Get("state") != "open" {
			s.t.Errorf("%v", q)
		}
	case forge.GitLab:
		if q.Get("source_branch") != "promote/prod" || q.Get("target_branch") != "main" || q.Get("state") != "opened" {
			s.t.Errorf("%v", q)
		}
	case forge.Gitea:
		if q.Get("state") != "open" || q.Get("limit") == "" {
			s.t.Errorf("%v", q)
		}
		if q.Get("page") == "1" { // of other branches
			for i := range 20 {
				out = append(out, s.shape(100+i, map[string]any{"head": fmt.Sprintf("b%d", i), "base": "main"}, "shop/fleet"))
			}
			s.answer(w, http.StatusOK, out)
			return
		}
		if q.Get("page") != "2" {
			s.answer(w, http.StatusOK, out)
			return
		}
	}
	for i := range s.strangers {
		out = append(out, s.shape(50+i, map[string]any{heads[s.kind]: "promote/prod", bases[s.kind]: "main"}, "mallory/fleet"))
	}
	if s.hide > 0 {
		s.hide--
	} else {
		for i, p := range s.pulls {
			out = append(out, s.shape(i+1, p, "shop/fleet"))
		}
	}
	s.answer(w, http.StatusOK, out)
}

func (s *server) create(w http.ResponseWriter, p map[string]any) {
	for _, key := range []string{"title", texts[s.kind], heads[s.kind], bases[s.kind]} {
		if p[key] == nil {
			s.t.Errorf("%s is missing in %v", key, p)
		}
	}
	if len(s.pulls) > 0 {
		switch s.kind {
		case forge.GitHub:
			s.answer(w, http.StatusUnprocessableEntity, map[string]any{"message": "Validation Failed", "errors": []any{map[string]any{"message": "A pull request already exists for shop:promote/prod."}}})
		case forge.GitLab:
			s.answer(w, http.StatusConflict, map[string]any{"message": []any{"Another open merge request already exists for this source branch: !1"}})
		case forge.Gitea:
			s.answer(w, http.StatusConflict, map[string]any{"message": "pull request already exists for these targets"})
		}
		return
	}
	s.pulls = append(s.pulls, p)
	s.answer(w, http.StatusCreated, s.shape(1, p, "shop/fleet"))
}

func (s *server) shape(number int, p map[string]any, repository string) map[string]any {
	if s.kind == forge.GitLab {
		source := 7
		if repository != "shop/fleet" {
			source = 8
		}
		return map[string]any{"id": 9000 + number, "iid": number, "web_url": fmt.Sprintf("https://git.example.com/shop/fleet/-/merge_requests/%d", number), "source_project_id": source, "target_project_id": 7}
	}
	return map[string]any{
		"id": 9000 + number, "number": number, "html_url": fmt.Sprintf("https://git.example.com/shop/fleet/pulls/%d", number),
		"head": map[string]any{"ref": p["head"], "repo": map[string]any{"full_name": repository}}, "base": map[string]any{"ref": p["base"]},
	}
}

var (
	repository = forge.Remote{Host: "git.example.com", Path: "shop/fleet"}
	pull       = forge.Pull{Head: "promote/prod", Base: "main", Title: "promote", Body: "text"}
)

func TestClient_MakesOnePullRequestAndKeepsIt(t *testing.T) {
	for _, kind := range []forge.Kind{forge.GitHub, forge.GitLab, forge.Gitea} {
		t.Run(string(kind), func(t *testing.T) {
			s, api := serve(t, kind)
			s.strangers = 1
			c := forge.New(api, repository, token, nil)
			made, err := c.Publish(t.Context(), pull)
			if err != nil || made.Number != 1 || made.Updated || !strings.HasSuffix(made.URL, "/1") {
				t.Fatalf("%+v: %v", made, err)
			}
			other := pull
			other.Title, other.Body = "promote again", "another text"
			if made, err = c.Publish(t.Context(), other); err != nil || made.Number != 1 || !made.Updated {
				t.Fatalf("%+v: %v", made, err)
			}
			if len(s.pulls) != 1 || s.pulls[0]["title"] != "promote again" || s.pulls[0][texts[kind]] != "another text" {
				t.Errorf("%v", s.pulls)
			}
		})
	}
}

func TestClient_WhoIsSecondUpdatesWhatTheFirstMade(t *testing.T) {
	for _, kind := range []forge.Kind{forge.GitHub, forge.GitLab, forge.Gitea} {
		t.Run(string(kind), func(t *testing.T) {
			s, api := serve(t, kind)
			c := forge.New(api, repository, token, nil)
			if _, err := c.Publish(t.Context(), pull); err != nil {
				t.Fatal(err)
			}
			s.hide = 1
			made, err := c.Publish(t.Context(), pull)
			if err != nil || made.Number != 1 || !made.Updated || len(s.pulls) != 1 {
				t.Errorf("%+v: %v", made, err)
			}
		})
	}
}

func TestClient_ADraftIsOne(t *testing.T) {
	for kind, says := range map[forge.Kind]string{forge.GitHub: "draft:true", forge.GitLab: "title:Draft: promote", forge.Gitea: "title:WIP: promote"} {
		s, api := serve(t, kind)
		draft := pull
		draft.Draft = true
		if _, err := forge.New(api, repository, token, nil).Publish(t.Context(), draft); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(s.pulls[0]); !strings.Contains(got, says) {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

func TestClient_ShowsNoToken(t *testing.T) {
	for _, kind := range []forge.Kind{forge.GitHub, forge.GitLab, forge.Gitea} {
		_, api := serve(t, kind)
		// The server repeats what it was given.
		_, err := forge.New(api, repository, "another-"+token, nil).Publish(t.Context(), pull)
		if err == nil || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), "401 Unauthorized") || !strings.Contains(err.Error(), "still valid") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestClient_FollowsNoRedirect(t *testing.T) {
	asked := false
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(thief.Close)
	h := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	t.Cleanup(h.Close)
	api, err := forge.ParseAPI(h.URL + "/api/v1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = forge.New(api, repository, token, nil).Publish(t.Context(), pull)
	if err == nil || !strings.Contains(err.Error(), "may have moved") || asked {
		t.Errorf("followed: %t, %v", asked, err)
	}
}

func TestClient_TakesNoAnswerThatIsNone(t *testing.T) {
	for name, c := range map[string]struct{ body, says string }{
		"a page for people":       {"<html>", "not understood"},
		"too much":                {`[{"a":"` + strings.Repeat("x", limits.ForgeBytes) + `"}]`, "limits.ForgeBytes"},
		"a link that runs a text": {`{"number":1,"html_url":"javascript:alert(1)"}`, "says nothing of a pull request"},
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet && strings.HasPrefix(c.body, "{") {
					fmt.Fprint(w, "[]")
					return
				}
				fmt.Fprint(w, c.body)
			}))
			t.Cleanup(h.Close)
			api, err := forge.ParseAPI(h.URL + "/api/v3")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := forge.New(api, repository, token, nil).Publish(t.Context(), pull); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestParseRemote(t *testing.T) {
	for raw, want := range map[string]string{
		"https://github.com/shop/fleet.git":                    "github.com shop/fleet",
		"https://user:" + token + "@github.com/shop/fleet/":    "github.com shop/fleet",
		"ssh://git@GitLab.example.com:2222/a/b/fleet.git":      "gitlab.example.com a/b/fleet",
		"git@github.com:shop/fleet.git":                        "github.com shop/fleet",
		"github.com:shop/fleet":                                "github.com shop/fleet",
		"https://git.example.com/" + token + "?token=" + token: "",
		"/srv/git/fleet.git":                                   "",
		"../fleet":                                             "",
		"file:///srv/git/fleet":                                "",
		"https://github.com/shop/../fleet":                     "",
		"":                                                     "",
	} {
		r, err := forge.ParseRemote(raw)
		got := strings.TrimSpace(r.Host + " " + r.Path)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", raw, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "token="+token) {
			t.Errorf("%v", err)
		}
	}
}

func TestMasked(t *testing.T) {
	for raw, want := range map[string]string{
		"https://user:" + token + "@github.com/shop/fleet":           "https://***@github.com/shop/fleet",
		"https://" + token + "@github.com/shop/fleet":                "https://***@github.com/shop/fleet",
		"https://a:b@c@github.com/shop/fleet?private_token=" + token: "https://***@github.com/shop/fleet",
		"https://github.com/shop/fleet":                              "https://github.com/shop/fleet",
		"git@github.com:shop/fleet":                                  "git@github.com:shop/fleet",
	} {
		if got := forge.Masked(raw); got != want {
			t.Errorf("%s", got)
		}
	}
}

func TestParseAPI(t *testing.T) {
	for raw, want := range map[string]string{
		"https://api.github.com":                     "GitHub",
		"https://api.shop.ghe.com":                   "GitHub",
		"https://git.example.com/api/v3/":            "GitHub",
		"https://git.example.com/gitlab/api/v4":      "GitLab",
		"https://git.example.com/api/v1":             "Gitea",
		"http://127.0.0.1:3000/api/v1":               "Gitea",
		"http://[::1]:3000/api/v1":                   "Gitea",
		"http://git.example.com/api/v1":              "over https only",
		"http://localhost.example.com/api/v1":        "over https only",
		"https://git.example.com":                    "has to end with",
		"https://u:" + token + "@example.com/api/v1": "is no base",
		"git.example.com/api/v1":                     "is no base",
	} {
		api, err := forge.ParseAPI(raw)
		if got := string(api.Kind) + fmt.Sprint(err); !strings.Contains(got, want) || strings.Contains(got, token) {
			t.Errorf("%s: %s", raw, got)
		}
	}
}

func TestFor_SendsATokenToKnownHostsOnly(t *testing.T) {
	for host, want := range map[string]forge.Kind{"github.com": forge.GitHub, "gitlab.com": forge.GitLab, "codeberg.org": forge.Gitea, "gitea.com": forge.Gitea, "gitlab.com.example.com": "", "github.example.com": ""} {
		api, ok := forge.For(forge.Remote{Host: host, Path: "a/b"})
		if api.Kind != want || ok != (want != "") {
			t.Errorf("%s: %v", host, api.Kind)
		}
	}
}
