package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// fixture is a binary that tells what it is made of, the test's own, and authorities.
func fixture(t *testing.T) (options, string) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	authorities := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(authorities, []byte("roots"), 0o600); err != nil {
		t.Fatal(err)
	}
	return options{authorities: authorities, version: "1.2.3", created: time.Unix(1700000000, 0).UTC()}, binary
}

func depot(t *testing.T) string {
	t.Helper()
	r := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(r.Close)
	return r.Host()
}

func TestPush_MakesTheSameIndexAgain(t *testing.T) {
	o, binary := fixture(t)
	host := depot(t)
	var first, second bytes.Buffer
	if err := errors.Join(o.push(host+"/sluice/manager:1", []string{binary}, &first), o.push(host+"/sluice/manager:2", []string{binary}, &second)); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() || !strings.HasPrefix(first.String(), host+"/sluice/manager@sha256:") {
		t.Fatalf("%s and %s", first.String(), second.String())
	}
	ref, err := name.NewDigest(strings.TrimSpace(first.String()))
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	if p := manifest.Manifests[0].Platform; p.OS != runtime.GOOS || p.Architecture != runtime.GOARCH {
		t.Errorf("it is for %v", p)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || !cmp.Equal(config.Config.Entrypoint, []string{"/manager"}) || !config.Created.Equal(o.created) {
		t.Errorf("config: %+v", config)
	}
	if diff := cmp.Diff(map[string]int64{
		"etc": 0o755, "etc/ssl": 0o755, "etc/ssl/certs": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o644, "manager": 0o755,
	}, modes(t, image)); diff != "" {
		t.Error(diff)
	}
}

// modes are the modes of what is in an image, by name. All belongs to root.
func modes(t *testing.T, image v1.Image) map[string]int64 {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	out := map[string]int64{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s belongs to %d:%d", h.Name, h.Uid, h.Gid)
		}
		out[strings.TrimSuffix(h.Name, "/")] = h.Mode
	}
}

func TestBundle_IsLabelledByItsMetadata(t *testing.T) {
	o, _ := fixture(t)
	host := depot(t)
	var out bytes.Buffer
	if err := o.bundle(host+"/sluice/bundle:1", "../../../bundle", &out); err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewDigest(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config.Labels["operators.operatorframework.io.bundle.package.v1"]; got != "sluice" {
		t.Errorf("labels: %v", config.Config.Labels)
	}
	files := modes(t, image)
	for _, want := range []string{"manifests/sluice.clusterserviceversion.yaml", "metadata/annotations.yaml"} {
		if files[want] != 0o644 {
			t.Errorf("no %s among %v", want, files)
		}
	}
}

func TestSBOM_ListsWhatTheBinaryIsMadeOf(t *testing.T) {
	o, binary := fixture(t)
	var first, second bytes.Buffer
	if err := errors.Join(o.sbom([]string{binary}, &first), o.sbom([]string{binary}, &second)); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Error("it is another one the second time")
	}
	var d document
	if err := json.Unmarshal(first.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, p := range d.Packages {
		if _, twice := known[p.ID]; twice || p.References[0].Locator != "pkg:golang/"+p.Name+"@"+p.Version {
			t.Errorf("package %+v", p)
		}
		known[p.ID] = p.Name
	}
	modules := map[string]bool{}
	for _, r := range d.Relationships {
		if r.Type == "DEPENDS_ON" {
			modules[known[r.To]] = true
		}
	}
	for _, want := range []string{"github.com/google/go-containerregistry", "sigs.k8s.io/yaml", "stdlib"} {
		if !modules[want] {
			t.Errorf("%s is not among what it depends on", want)
		}
	}
	if len(d.Files) != 2 || d.Version != "SPDX-2.3" || d.Creation.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("document: %+v", d.Creation)
	}
}

func TestProvenance_NamesTheWorkflow(t *testing.T) {
	env := map[string]string{
		"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "sluice-dev/sluice", "GITHUB_REF": "refs/tags/v1.2.3", "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "1",
		"GITHUB_WORKFLOW_REF": "sluice-dev/sluice/.github/workflows/release.yml@refs/tags/v1.2.3", "SOURCE_COMMIT": "c0ffee",
	}
	raw, err := json.Marshal(provenance(func(key string) string { return env[key] }))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"id":"https://github.com/sluice-dev/sluice/.github/workflows/release.yml@refs/tags/v1.2.3"`, `"gitCommit":"c0ffee"`,
		`"uri":"git+https://github.com/sluice-dev/sluice@refs/tags/v1.2.3"`, "/actions/runs/7/attempts/1",
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %s in %s", want, raw)
		}
	}
	if strings.Contains(string(raw), "startedOn") {
		t.Errorf("nobody wrote down when the build began, and it says: %s", raw)
	}
}

func TestRun_SaysWhatIsWrong(t *testing.T) {
	o, binary := fixture(t)
	server := httptest.NewServer(nil) // a registry that knows nothing
	t.Cleanup(server.Close)
	for name, args := range map[string][]string{
		"nothing to do":            {},
		"a command that is none":   {"pull", "a"},
		"no binary":                {"push", "127.0.0.1:1/a:1"},
		"a binary that is none":    {"sbom", o.authorities},
		"a registry that is none":  {"push", strings.TrimPrefix(server.URL, "http://") + "/a:1", binary},
		"a bundle without content": {"bundle", "127.0.0.1:1/a:1", t.TempDir()},
	} {
		if err := run(o, args, io.Discard); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
