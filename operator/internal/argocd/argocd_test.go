package argocd_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/yaml"

	scripts "github.com/sluice-dev/sluice/kustomize/argocd"
	"github.com/sluice-dev/sluice/operator/internal/argocd"
)

const group = "resource_customizations/sluice.dev"

// healthTests and actionTests are the formats of Argo CD's own tests of such scripts.
type healthTests struct {
	Tests []struct {
		InputPath    string            `json:"inputPath"`
		HealthStatus map[string]string `json:"healthStatus"`
	} `json:"tests"`
}

type actionTests struct {
	DiscoveryTests []struct {
		InputPath string `json:"inputPath"`
		Result    []struct {
			Name     string `json:"name"`
			Disabled bool   `json:"disabled"`
		} `json:"result"`
	} `json:"discoveryTests"`
	ActionTests []struct {
		Action             string `json:"action"`
		InputPath          string `json:"inputPath"`
		ExpectedOutputPath string `json:"expectedOutputPath"`
	} `json:"actionTests"`
}

func kinds(t *testing.T) []string {
	t.Helper()
	dirs, err := fs.Glob(scripts.Customizations, group+"/*")
	if err != nil || len(dirs) != 3 {
		t.Fatalf("the kinds are %v: %v", dirs, err)
	}
	return dirs
}

// settings are the scripts as they are delivered, and not as they lie in their files.
func settings(t *testing.T) map[string]string {
	t.Helper()
	out, err := argocd.Settings(scripts.Customizations)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestHealth_IsThatOfItsTests(t *testing.T) {
	for _, dir := range kinds(t) {
		script := settings(t)["resource.customizations.health.sluice.dev_"+path.Base(dir)]
		var all healthTests
		read(t, scripts.Customizations, dir+"/health_test.yaml", &all)
		var used []string
		for _, c := range all.Tests {
			used = append(used, c.InputPath)
			t.Run(path.Base(dir)+"/"+path.Base(c.InputPath), func(t *testing.T) {
				object, want := map[string]any{}, map[string]any{}
				read(t, scripts.Customizations, path.Join(dir, c.InputPath), &object)
				for key, value := range c.HealthStatus {
					want[key] = value
				}
				if got := run(t, script, object); !reflect.DeepEqual(got, want) {
					t.Errorf("health is %v and should be %v", got, want)
				}
			})
		}
		everyFileIsUsed(t, dir, used)
	}
}

// everyFileIsUsed finds test data that no test names.
func everyFileIsUsed(t *testing.T, dir string, used []string) {
	t.Helper()
	files, err := fs.Glob(scripts.Customizations, dir+"/testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !strings.Contains(strings.Join(used, " ")+" ", strings.TrimPrefix(name, dir+"/")+" ") {
			t.Errorf("no test has %s for its input or output", name)
		}
	}
}

// delivered are the actions of Workloads as argocd-cm has them.
func delivered(t *testing.T) (discovery string, byName map[string]string) {
	t.Helper()
	var all struct {
		Discovery   string `json:"discovery.lua"`
		Definitions []struct {
			Name   string `json:"name"`
			Script string `json:"action.lua"`
		} `json:"definitions"`
	}
	if err := yaml.UnmarshalStrict([]byte(settings(t)["resource.customizations.actions.sluice.dev_Workload"]), &all); err != nil {
		t.Fatal(err)
	}
	byName = map[string]string{}
	for _, d := range all.Definitions {
		byName[d.Name] = d.Script
	}
	return all.Discovery, byName
}

func TestActions_AreThoseOfTheirTests(t *testing.T) {
	dir := group + "/Workload/actions"
	discovery, byName := delivered(t)
	var all actionTests
	read(t, scripts.Customizations, dir+"/action_test.yaml", &all)
	var used []string
	for _, c := range all.DiscoveryTests {
		used = append(used, c.InputPath)
		t.Run("discovery of "+path.Base(c.InputPath), func(t *testing.T) {
			object, want := map[string]any{}, map[string]any{}
			read(t, scripts.Customizations, path.Join(dir, c.InputPath), &object)
			for _, r := range c.Result {
				want[r.Name] = map[string]any{"disabled": r.Disabled}
			}
			if got := run(t, discovery, object); !reflect.DeepEqual(got, want) {
				t.Errorf("actions are %v and should be %v", got, want)
			}
		})
	}
	tried := map[string]bool{}
	for _, c := range all.ActionTests {
		used = append(used, c.InputPath, c.ExpectedOutputPath)
		tried[c.Action] = true
		t.Run(c.Action+" of "+path.Base(c.InputPath), func(t *testing.T) {
			object, want := map[string]any{}, map[string]any{}
			read(t, scripts.Customizations, path.Join(dir, c.InputPath), &object)
			read(t, scripts.Customizations, path.Join(dir, c.ExpectedOutputPath), &want)
			got := run(t, byName[c.Action], object)
			if !reflect.DeepEqual(withoutNow(got), withoutNow(want)) {
				t.Errorf("it becomes %v and should be %v", got, want)
			}
		})
	}
	for name := range byName {
		if !tried[name] {
			t.Errorf("action %s has no test", name)
		}
	}
	everyFileIsUsed(t, dir, used)
}

// withoutNow takes the time of a look out, which is now, and tells no empty list from an
// empty map, as Lua does not.
func withoutNow(value any) any {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			return nil
		}
		out := map[string]any{}
		for key, field := range v {
			out[key] = withoutNow(field)
			if key == "sluice.dev/re-verify-requested" && field != "" {
				out[key] = "now"
			}
		}
		return out
	case []any:
		var out []any
		for _, entry := range v {
			out = append(out, withoutNow(entry))
		}
		return out
	}
	return value
}

func TestConfigMap_IsTheOneThatIsDelivered(t *testing.T) {
	want, err := argocd.ConfigMap(scripts.Customizations)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", "..", "..", "kustomize", "argocd", "config", "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("kustomize/argocd/config/argocd-cm.yaml is not what the scripts make: run make generate")
	}
}

func TestSettings_RefuseWhatIsNotWhole(t *testing.T) {
	for name, c := range map[string]struct {
		files fstest.MapFS
		says  string
	}{
		"no health check": {fstest.MapFS{}, "no health checks"},
		"actions that nobody discovers": {fstest.MapFS{
			"resource_customizations/a.example/B/health.lua":            {},
			"resource_customizations/a.example/B/actions/go/action.lua": {},
		}, "discovery.lua"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := argocd.Settings(c.files); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
