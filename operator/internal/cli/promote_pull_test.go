package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// hub is where a repository is pushed to, over Git's own protocol, and a forge that speaks
// Gitea's.
type hub struct {
	*route
	bare, api string
	mutex     sync.Mutex
	pulls     []map[string]any
	fail      bool
}

const hubToken = "token-of-the-hub"

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{route: newRoute(t), bare: filepath.Join(t.TempDir(), "fleet.git")}
	h.git(t, "init", "-q", "--bare", h.bare)
	// Instead of ssh: what it would run on the other side is run here.
	program := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nfor last; do :; done\ncommand=${last%% *}\nexec \"$command\" '"+h.bare+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_SSH_COMMAND", program)
	t.Setenv("GIT_SSH_VARIANT", "simple")
	h.git(t, "remote", "add", "origin", "git@git.example.com:shop/fleet.git")
	h.git(t, "push", "-q", "origin", "main")
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	h.api = s.URL + "/api/v1"
	t.Setenv("GITEA_TOKEN", hubToken)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	var in map[string]any
	var out any
	switch collection := r.URL.Path == "/api/v1/repos/shop/fleet/pulls"; {
	case r.Header.Get("Authorization") != "token "+hubToken, h.fail:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"message":"no use of %s"}`, r.Header.Get("Authorization"))
		return
	case collection && r.Method == http.MethodGet && r.URL.Query().Get("page") == "1":
		out = h.pulls
	case collection && r.Method == http.MethodGet:
		out = []any{}
	case collection && r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&in) == nil:
		in["number"], in["html_url"] = len(h.pulls)+1, "https://git.example.com/shop/fleet/pulls/1"
		in["head"] = map[string]any{"ref": in["head"], "repo": map[string]any{"full_name": "shop/fleet"}}
		in["base"] = map[string]any{"ref": in["base"]}
		h.pulls = append(h.pulls, in)
		out = in
	case r.Method == http.MethodPatch && json.NewDecoder(r.Body).Decode(&in) == nil:
		h.pulls[0]["title"], h.pulls[0]["body"] = in["title"], in["body"]
		out = h.pulls[0]
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if out == nil || fmt.Sprint(out) == "[]" {
		out = []any{}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (h *hub) there(t *testing.T, branch string) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), "git", "-C", h.bare, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch).Output()
	return strings.TrimSpace(string(out))
}

func TestPromote_MakesOnePullRequest(t *testing.T) {
	h := newHub(t)
	h.promote("--to=prod", "--forge-url="+h.api).must(t, 0, "committed", "pull request 1 made: https://git.example.com/shop/fleet/pulls/1")
	if len(h.pulls) != 1 || h.pulls[0]["title"] != "promote web from e2e to prod: 1.2.0" || !strings.Contains(fmt.Sprint(h.pulls[0]["body"]), "## Evidence") || !strings.Contains(fmt.Sprint(h.pulls[0]["base"]), "main") {
		t.Errorf("%v", h.pulls)
	}
	made := h.there(t, "promote/prod")
	if made == "" || made != h.output(t, "rev-parse", "promote/prod") {
		t.Errorf("%q is on the remote", made)
	}
	h.promote("--to=prod", "--forge-url="+h.api).must(t, 0, "has it already", "pull request 1 brought up to date")
	// As in CI, where every run has a clone of its own.
	h.git(t, "branch", "-q", "-D", "promote/prod")
	h.git(t, "commit", "-q", "--allow-empty", "-m", "another commit")
	h.promote("--to=prod", "--forge-url="+h.api).must(t, 0, "has it already", "pull request 1 brought up to date")
	if len(h.pulls) != 1 || h.there(t, "promote/prod") != made {
		t.Errorf("%d pull requests, and the remote has %s, not %s", len(h.pulls), h.there(t, "promote/prod"), made)
	}
	if h.output(t, "branch", "--list", "promote/prod") != "" {
		t.Error("a branch that was not pushed is left")
	}
}

func TestPromote_WhoIsSecondAtTheRemoteChangesNothing(t *testing.T) {
	h := newHub(t)
	h.attest(t, h.older)
	h.promote("--to=prod", "--forge-url="+h.api, "--image="+h.app()+":1.0.0@"+h.older).must(t, 0, "pull request 1 made")
	first := h.there(t, "promote/prod")
	h.git(t, "branch", "-q", "-D", "promote/prod")
	check := h.untouched(t)
	h.promote("--to=prod", "--forge-url="+h.api).must(t, 2, "the remote did not take the branch", "merge or delete the branch that is there")
	check()
	if len(h.pulls) != 1 || h.there(t, "promote/prod") != first {
		t.Errorf("%v", h.pulls)
	}
}

func TestPromote_SaysWhatIsLeftWhenTheForgeFails(t *testing.T) {
	h := newHub(t)
	h.fail = true
	said := h.promote("--to=prod", "--forge-url="+h.api)
	said.must(t, 3, "branch promote/prod is pushed, but there is no pull request", "500", "run the same command again")
	if strings.Contains(said.out+said.err, hubToken) {
		t.Errorf("the token is shown:\n%s%s", said.out, said.err)
	}
	h.fail = false
	h.promote("--to=prod", "--forge-url="+h.api).must(t, 0, "pull request 1 made")
}

func TestPromote_SendsATokenWhereItIsToldToOnly(t *testing.T) {
	h := newHub(t)
	h.promote("--to=prod").must(t, 0, "to do:", "open a pull request from promote/prod into main; its text is in")
	h.promote("--to=prod", "--pull-request=false", "--forge-url="+h.api).must(t, 0, "to do:", "tea pulls create --head promote/prod --base main --title 'promote web from e2e to prod: 1.2.0'")
	h.promote("--to=prod", "--forge-url=http://git.example.com/api/v1").must(t, 2, "over https only")
	if h.there(t, "promote/prod") != "" || len(h.pulls) > 0 {
		t.Error("it was pushed")
	}
	t.Setenv("GITEA_TOKEN", "")
	h.git(t, "remote", "set-url", "origin", "https://user:"+hubToken+"@github.com/shop/fleet.git")
	said := h.promote("--to=prod")
	said.must(t, 0, "gh pr create --head promote/prod --base main --title 'promote web from e2e to prod: 1.2.0' --body-file ")
	if strings.Contains(said.out+said.err, hubToken) {
		t.Error("the token is shown")
	}
	h.git(t, "remote", "set-url", "origin", "git@gitlab.com:shop/fleet.git")
	h.promote("--to=prod").must(t, 0, "glab mr create --source-branch promote/prod --target-branch main")
}

func TestPromote_TheCommandsAreForAShell(t *testing.T) {
	r := newRoute(t)
	r.git(t, "remote", "add", "origin", "git@github.com:shop/fleet.git")
	said := r.promote("--to=prod", "--branch=a'b$(touch${IFS}x)").out
	_, commands, _ := strings.Cut(said, "to do:\n")
	// What a shell makes of the words, without the programs.
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "git() { printf '<%s>' \"$@\"; }; gh() { printf '<%s>' \"$@\"; }\n"+commands).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "<push><origin><a'b$(touch${IFS}x)><pr><create><--head><a'b$(touch${IFS}x)><--base><main>") {
		t.Errorf("%v: %s\n%s", err, out, said)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "x")); err == nil {
		t.Error("it was run")
	}
}

func TestPromote_ShowsNoPasswordOfARemote(t *testing.T) {
	r := newRoute(t)
	said := r.promote("--to=prod", "--remote=https://user:"+hubToken+"@github.com/shop/fleet.git")
	said.must(t, 0, "git push 'https://***@github.com/shop/fleet.git' promote/prod")
	if strings.Contains(said.out+said.err, hubToken) {
		t.Errorf("the password is shown:\n%s", said.out)
	}
}

func TestPromote_ThePushIsOfTheBranchWhateverItsName(t *testing.T) {
	r := newRoute(t)
	r.promote("--to=prod", "--branch=+main").must(t, 0, "git push origin refs/heads/+main\n")
	r.promote("--to=prod", "--branch=@").must(t, 0, "git push origin refs/heads/@\n")
}

func TestPromote_OntoTheBranchThatIsCheckedOut(t *testing.T) {
	r := newRoute(t)
	r.promote("--to=prod", "--branch=main").must(t, 0, "on branch main", "git push origin main")
	raw, err := os.ReadFile(filepath.Join(r.dir, "overlays", "prod", "web.yaml"))
	if err != nil || !strings.Contains(string(raw), r.next) || r.output(t, "status", "--porcelain") != "" {
		t.Errorf("%v: %s\n%s", err, raw, r.output(t, "status"))
	}
}

func TestPromote_SaysThatNothingWasChangedWhereItWasNot(t *testing.T) {
	r := newRoute(t)
	check := r.untouched(t)
	r.write(t, ".git/index.lock", "")
	said := r.promote("--to=prod", "--branch=main")
	said.must(t, 2, "nothing was changed", "another git is at work here")
	if strings.Contains(said.out, "has it already") {
		t.Errorf("it has not:\n%s", said.out)
	}
	check()
}

func TestPromote_GoesOnWithNoBranchOfOthers(t *testing.T) {
	r := newRoute(t)
	r.git(t, "branch", "promote/prod")
	r.promote("--to=prod").must(t, 2, "promote/prod is there, and is not checked out: delete it, if it was merged")
	r.git(t, "switch", "-q", "promote/prod")
	r.write(t, "README.md", "a\n")
	r.commitAll(t)
	r.git(t, "switch", "-q", "main")
	check := r.untouched(t)
	r.promote("--to=prod").must(t, 2, "promote/prod is there, with other content")
	r.promote("--to=prod", "--branch=--force").must(t, 2, "is no name for a branch")
	r.promote("--to=prod", "--branch=a..b").must(t, 2, "is no name for a branch")
	check()
}

func TestPromote_FindsGatesThatAreKeptElsewhere(t *testing.T) {
	r := newRoute(t)
	raw, err := os.ReadFile(filepath.Join(r.dir, "overlays", "prod", "gate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.write(t, "gates/prod.yaml", string(raw))
	r.write(t, "overlays/prod/kustomization.yaml", "resources: [web.yaml]\n")
	r.commitAll(t)
	r.promote("--from=dev", "--to=prod", "--gate=gates", "--dry-run").must(t, 1, "dev is not promoted to prod directly")
	r.promote("--to=prod", "--gate=gates", "--dry-run").must(t, 0, "gate gate-prod")
	r.promote("--from=e2e", "--to=prod", "--dry-run").must(t, 3, "labels of namespace shop, which decide what Gate applies")
}

func TestPromote_OfWhatMovedMeanwhileSaysWhatToDo(t *testing.T) {
	for _, branch := range []string{"main", "promote/prod"} {
		r := newRoute(t)
		var once sync.Once
		r.registry.Override(func(*http.Request) bool {
			once.Do(func() { r.git(t, "commit", "-q", "--allow-empty", "-m", "by somebody else, while the Gate is asked") })
			return false
		}, testkit.Status(http.StatusInternalServerError))
		r.promote("--to=prod", "--branch="+branch).must(t, 2, r.output(t, "rev-parse", "--short=12", "HEAD")+`" is checked out; run the same command again`)
		r.promote("--to=prod", "--branch="+branch).must(t, 0, "committed")
	}
}

func TestPromote_NamesTheBranchThatIsInTheWay(t *testing.T) {
	for _, c := range []struct{ there, branch string }{{"promote", "promote/prod"}, {"promote/prod/web", "promote/prod"}} {
		r := newRoute(t)
		r.git(t, "branch", c.there)
		r.promote("--to=prod").must(t, 2, "branch "+c.branch+": Git has no room for it beside branch "+c.there+":")
		r.git(t, "branch", "-d", c.there)
		r.promote("--to=prod").must(t, 0)
	}
}

func TestPromote_TellsOfCommitsThatGoAlong(t *testing.T) {
	h := newHub(t)
	h.git(t, "push", "-q", "origin", "main")
	h.git(t, "fetch", "-q", "origin")
	if said := h.promote("--to=prod", "--dry-run"); strings.Contains(said.out, "go along") {
		t.Errorf("none goes along: %s", said.out)
	}
	h.write(t, "overlays/dev/more.yaml", "a: b\n")
	h.commitAll(t)
	h.promote("--to=prod", "--dry-run").must(t, 0, "look at prod, commits: 1 that main of origin does not have go along")
	h.git(t, "checkout", "-q", "-b", "feature")
	h.promote("--to=prod", "--base=main", "--forge-url="+h.api).must(t, 0, "pull request 1 made")
	if body := fmt.Sprint(h.pulls[0]["body"]); !strings.Contains(body, "**commits**") {
		t.Error(body)
	}
}
