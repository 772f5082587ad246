package cli_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/cli"
)

func TestMainAs_SpeaksAsItWasCalled(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/bin/kubectl-sluice": "kubectl sluice check", "kubectl-sluice.exe": "kubectl sluice check", "./sluice": "  sluice check", "kubectl": "  sluice check",
	} {
		var out, errOut bytes.Buffer
		if code := cli.MainAs(t.Context(), program, []string{"check", "--help"}, nil, &out, &errOut); code != 0 || !strings.Contains(out.String(), want+" PATH") {
			t.Errorf("%s: code %d\n%s%s", program, code, out.String(), errOut.String())
		}
		out.Reset()
		if code := cli.MainAs(t.Context(), program, []string{"--nothing"}, nil, &out, &errOut); code != 2 || !strings.Contains(errOut.String(), strings.TrimSuffix(strings.TrimSpace(want), " check")+" --help") {
			t.Errorf("%s: code %d\n%s", program, code, errOut.String())
		}
	}
}

func TestCompletion_IsThereForEveryShell(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		(&desk{}).run("", "completion", shell).must(t, 0, "sluice")
	}
	(&desk{}).run("", "__complete", "cr").must(t, 0, "crd")
	for words, args := range map[string][]string{
		"github\njson\njunit\nmarkdown\nsarif\ntext\n:4": {"check", "--format", ""},
		"unified\nside-by-side\nmarkdown\n:4":            {"diff", ".", "--format", ""},
		"auto\nalways\nnever\n:4":                        {"diff", "--color", ""},
		"error\nwarning\n:4":                             {"lint", "overlays", "--fail-on", ""},
		"breaking\nwarning\n:4":                          {"crd", "check", "--fail-on", ""},
		"text\njson\n:4":                                 {"status", "--format", ""},
		"text\njson\nmermaid\n:4":                        {"history", "--format", ""},
		"text\njson\nmarkdown\n:4":                       {"promote", "--format", ""},
	} {
		(&desk{}).run("", append([]string{"__complete"}, args...)...).must(t, 0, words)
	}
}

func TestDocs_ManHasAPageForEachCommand(t *testing.T) {
	d := &desk{dir: t.TempDir()}
	d.run("", "docs", "man", "@man").must(t, 0, "pages")
	for _, page := range []string{"sluice", "sluice-check", "sluice-crd-check", "sluice-diff", "sluice-init", "sluice-lint-overlays", "sluice-status", "sluice-why", "sluice-drift"} {
		raw, err := os.ReadFile(filepath.Join(d.dir, "man", page+".1"))
		if err != nil || !bytes.Contains(raw, []byte(".SH NAME")) {
			t.Errorf("%s: %v", page, err)
		}
	}
	before, err := os.ReadFile(filepath.Join(d.dir, "man", "sluice-check.1"))
	if err != nil {
		t.Fatal(err)
	}
	d.run("", "docs", "man", "@again").must(t, 0)
	if after, _ := os.ReadFile(filepath.Join(d.dir, "again", "sluice-check.1")); !bytes.Equal(before, after) {
		t.Error("the same program writes other pages")
	}
}

// plugin is what krew reads of a manifest.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		Homepage         string `json:"homepage"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Platforms        []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			SHA256 string `json:"sha256"`
			Bin    string `json:"bin"`
			Files  []struct {
				From string `json:"from"`
				To   string `json:"to"`
			} `json:"files"`
		} `json:"platforms"`
	} `json:"spec"`
}

func TestKrew_AReleaseHasTheManifestThatKrewWants(t *testing.T) {
	dir := t.TempDir()
	sums := map[string]string{}
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		if err := os.WriteFile(filepath.Join(dir, "sluice_"+platform+".tar.gz"), []byte(platform), 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(platform))
		sums[platform] = hex.EncodeToString(sum[:])
	}
	release := filepath.Join("..", "..", "..", "hack", "krew", "release")
	raw, err := exec.Command(release, "v0.1.0", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var p plugin
	if err := yaml.UnmarshalStrict(raw, &p); err != nil {
		t.Fatalf("%v:\n%s", err, raw)
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "sluice" || p.Spec.Version != "v0.1.0" {
		t.Errorf("%s", raw)
	}
	if n := len(p.Spec.ShortDescription); n == 0 || n > 50 || p.Spec.Description == "" || !strings.HasPrefix(p.Spec.Homepage, "https://") {
		t.Errorf("a short description of %d characters", n)
	}
	if len(p.Spec.Platforms) != len(sums) {
		t.Fatalf("%d platforms", len(p.Spec.Platforms))
	}
	for _, x := range p.Spec.Platforms {
		platform := x.Selector.MatchLabels["os"] + "_" + x.Selector.MatchLabels["arch"]
		if x.SHA256 != sums[platform] || !strings.HasSuffix(x.URI, "/v0.1.0/sluice_"+platform+".tar.gz") || x.Bin != "kubectl-sluice" {
			t.Errorf("%s: %+v", platform, x)
		}
		if len(x.Files) != 2 || x.Files[0].From != "sluice" || x.Files[0].To != x.Bin || x.Files[1].From != "LICENSE" {
			t.Errorf("%s: files %+v", platform, x.Files)
		}
	}
	if left := regexp.MustCompile(`VERSION|SHA256_`).Find(raw); left != nil {
		t.Errorf("%s is not filled in:\n%s", left, raw)
	}
	for _, args := range [][]string{{"main", dir}, {"v0.1.0", t.TempDir()}} {
		if err := exec.Command(release, args...).Run(); err == nil {
			t.Errorf("release %v does not fail", args)
		}
	}
}
