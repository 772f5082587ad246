package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/clone"
)

// toolsWith makes a folder of tools: the real ones, except those in scripts, which are
// shell scripts, or missing when their script is empty.
func toolsWith(t *testing.T, scripts map[string]string) string {
	t.Helper()
	source, err := ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, tool := range []string{etcdTool, apiserverTool, controllerTool, kubectlTool} {
		path := filepath.Join(dir, tool)
		script, replaced := scripts[tool]
		switch {
		case !replaced:
			err = os.Symlink(filepath.Join(source, tool), path)
		case script != "":
			err = os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestStart_SaysWhatIsMissing(t *testing.T) {
	for _, tool := range []string{etcdTool, apiserverTool, controllerTool, kubectlTool} {
		dir := toolsWith(t, map[string]string{tool: ""})
		_, err := Start(t.Context(), Options{ToolsDir: dir})
		if want := tool + " is not in " + dir + ": run `make tools`"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	dir := toolsWith(t, map[string]string{etcdTool: "true"})
	if err := os.Chmod(filepath.Join(dir, etcdTool), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{ToolsDir: dir}); err == nil || !strings.Contains(err.Error(), "etcd in "+dir+" is not a program") {
		t.Errorf("got %v for a file that cannot be run", err)
	}
}

// A program runs in the folder of its log, and its path may be relative to that of the caller,
// as $SLUICE_TOOLS_DIR and --manager may.
func TestStart_TakesProgramsInAFolderBesideTheCaller(t *testing.T) {
	tools := toolsWith(t, map[string]string{etcdTool: "echo it ran >&2; exit 3\n"})
	t.Chdir(filepath.Dir(tools))
	_, err := Start(t.Context(), Options{ToolsDir: filepath.Base(tools), Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "it ran") {
		t.Errorf("got %v, want what the program said", err)
	}
}

func TestStart_ShowsTheEndOfTheLogOfAProgramThatFails(t *testing.T) {
	long := "i=0; while [ $i -lt 500 ]; do echo line $i of the log; i=$((i+1)); done; echo the cause >&2; exit 3\n"
	cases := map[string]map[string]string{
		"etcd first":                   {etcdTool: long},
		"the API server after etcd":    {apiserverTool: long},
		"the controllers at the end":   {controllerTool: long},
		"a program that is no program": {etcdTool: "exec /not/there # the cause, exit status 127\n"},
	}
	for name, scripts := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Start(t.Context(), Options{ToolsDir: toolsWith(t, scripts), Dir: dir})
			if err == nil {
				t.Fatal("it started")
			}
			if name == "a program that is no program" {
				if !strings.Contains(err.Error(), "/not/there") {
					t.Errorf("got %v, want what the shell said", err)
				}
				return
			}
			text := err.Error()
			if !strings.HasSuffix(text, "line 499 of the log\nthe cause\n") || !strings.Contains(text, "(exit status 3)") {
				t.Errorf("the error ends in %q, want the code and the last lines", text[max(0, len(text)-200):])
			}
			if strings.Contains(text, "line 0 of") || strings.Contains(text, "\nne ") {
				t.Errorf("the error shows more than the last whole lines: %d bytes", len(text))
			}
		})
	}
}

func TestStart_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	dir := t.TempDir()
	tools := toolsWith(t, map[string]string{etcdTool: "echo $$ > pid; exec sleep 600\n"})
	_, err := Start(ctx, Options{ToolsDir: tools, Dir: dir})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "etcd is not ready") {
		t.Errorf("got %v, want the deadline and what was waited for", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || alive(pid) {
		t.Errorf("etcd is left as process %s (%v)", text, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "data-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("data is left: %v (%v)", left, err)
	}
}

func TestProcess_IsKilledWhenItDoesNotListen(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for limits.LabStop")
	}
	log := filepath.Join(t.TempDir(), "deaf.log")
	p, err := startProcess("deaf", "/bin/sh", []string{"-c", "trap '' TERM; echo deaf; while :; do sleep 600; done"}, systemEnv(), log)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it does not listen any more", func(context.Context) error {
		if text := p.tail(); text != "deaf\n" {
			return errors.New(text)
		}
		return nil
	})
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("got %v, want that it was killed", err)
	}
	if alive(p.PID()) {
		t.Error("it runs")
	}
	if err := p.Stop(); err != nil {
		t.Errorf("Stop of a process that is gone: %v", err)
	}
}

func TestToolsDir_FindsTheFolder(t *testing.T) {
	t.Run("of the clone", func(t *testing.T) {
		root, err := clone.Root()
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(toolsVariable, "")
		t.Chdir(filepath.Join(root, "docs"))
		got, err := ToolsDir()
		if err != nil || got != filepath.Join(root, "bin", "tools") {
			t.Errorf("got %q (%v)", got, err)
		}
	})
	t.Run("where the variable says", func(t *testing.T) {
		t.Setenv(toolsVariable, "/opt/tools")
		if got, err := ToolsDir(); err != nil || got != "/opt/tools" {
			t.Errorf("got %q (%v)", got, err)
		}
	})
	t.Run("nowhere outside a source tree", func(t *testing.T) {
		t.Setenv(toolsVariable, "")
		t.Chdir("/")
		if got, err := ToolsDir(); err == nil || !strings.Contains(err.Error(), toolsVariable) {
			t.Errorf("got %q (%v), want an error that names the variable", got, err)
		}
	})
}

func TestStart_DefinitionsAreCollectedFromTheStart(t *testing.T) {
	tools, err := ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), Options{ToolsDir: tools, Dir: t.TempDir(), Definitions: definitions(t), Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Apply(t.Context(), decode(t, fleet)); err != nil {
		t.Fatal(err)
	}
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, owner); err != nil {
		t.Fatal(err)
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "child",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
	}}
	if err := c.client.Create(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	eventually(t, "the child of a deleted Workload is collected", func(ctx context.Context) error {
		err := c.client.Get(ctx, client.ObjectKeyFromObject(child), child)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	if waited := time.Since(begin); waited > 15*time.Second {
		t.Errorf("it took %s: garbage collection did not know the kind", waited)
	}
}
