package overlaydiff_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/overlaydiff"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

func set(t testing.TB, manifests ...string) overlaydiff.Set {
	t.Helper()
	out := overlaydiff.Set{}
	for _, m := range manifests {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(m), &u.Object); err != nil {
			t.Fatal(err)
		}
		out[overlaydiff.KeyOf(u)] = u
	}
	return out
}

func unified(t testing.TB, old, now overlaydiff.Set) string {
	t.Helper()
	changes, err := overlaydiff.Compare(old, now)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := overlaydiff.Unified(&out, changes, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func deployment(spec string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: app, image: a, " + spec + "}]}}}\n"
}

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: [{name: app, image: a, env: [{name: %s, value: '%s'}], args: ['%s']}]}\n"

func TestCompare_WhatMeansTheSameIsNoDifference(t *testing.T) {
	for name, c := range map[string][2]string{
		"a quantity":             {deployment("resources: {requests: {cpu: 1000m, memory: 1024Mi}}"), deployment("resources: {requests: {cpu: '1', memory: 1Gi}}")},
		"a default":              {deployment("imagePullPolicy: Always, terminationMessagePath: /dev/termination-log"), deployment("env: []")},
		"nothing, in its forms":  {deployment("env: null, args: []"), deployment("resources: {}")},
		"a number in a Workload": {"apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: a}\nspec: {availability: {minAvailable: 2}}\n", "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: a}\nspec: {availability: {minAvailable: '2'}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unified(t, set(t, c[0]), set(t, c[1])); got != "" {
				t.Errorf("difference:\n%s", got)
			}
		})
	}
}

func TestCompare_ShowsWhatIsLostFromAList(t *testing.T) {
	got := unified(t, set(t, deployment("env: [{name: A, value: b}, {name: B, value: c}]")), set(t, deployment("env: [{name: B, value: d}]")))
	for _, want := range []string{"Deployment/shop/web changed", "-        - name: A", "-          value: c", "+          value: d", "@@ -"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not shown:\n%s", want, got)
		}
	}
}

func TestCompare_CountsLabelsOfEitherSide(t *testing.T) {
	labelled := strings.Replace(deployment("env: []"), "{name: web, namespace", "{labels: {team: a}, name: web, namespace", 1)
	for _, c := range [][2]string{{labelled, deployment("env: []")}, {deployment("env: []"), labelled}} {
		if got := unified(t, set(t, c[0]), set(t, c[1])); !strings.Contains(got, "team: a") {
			t.Errorf("the label is not shown:\n%s", got)
		}
	}
}

func TestCompare_ObjectsOfOneSide(t *testing.T) {
	one, other := deployment("env: []"), strings.Replace(deployment("env: []"), "name: web", "name: api", 1)
	got := unified(t, set(t, one), set(t, other))
	if !strings.Contains(got, "Deployment/shop/api added\n@@ -0,0 +1,") || !strings.Contains(got, "Deployment/shop/web removed\n@@ -1,") || strings.Index(got, "api") > strings.Index(got, "web") {
		t.Errorf("%s", got)
	}
}

func TestCompare_AnotherNamespaceIsTheSameObject(t *testing.T) {
	in := func(namespace, name, spec string) string {
		return strings.NewReplacer("namespace: shop", "namespace: "+namespace, "name: web", "name: "+name).Replace(deployment(spec))
	}
	got := unified(t, set(t, in("dev", "web", "env: []"), in("dev", "api", "env: []")), set(t, in("prod", "web", "args: [x]")))
	for _, want := range []string{"Deployment/dev/web → Deployment/prod/web changed", "-  namespace: dev\n+  namespace: prod", "+      - args:", "Deployment/dev/api removed"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	// Which of the two became the one is a guess.
	got = unified(t, set(t, in("a", "web", "env: []"), in("b", "web", "env: []")), set(t, in("c", "web", "env: []")))
	for _, want := range []string{"Deployment/a/web removed", "Deployment/b/web removed", "Deployment/c/web added"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	// What is there on both sides is itself.
	got = unified(t, set(t, in("a", "web", "env: []"), in("b", "web", "env: []")), set(t, in("a", "web", "env: []"), in("c", "web", "env: []")))
	if !strings.Contains(got, "Deployment/b/web → Deployment/c/web changed") || strings.Contains(got, "Deployment/a/web") {
		t.Errorf("%s", got)
	}
}

func TestCompare_ShowsNoSecretButThatItChanged(t *testing.T) {
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {a: %s, b: same-secret, c: xy}\n"
	for name, c := range map[string][2]string{
		"a Secret":             {fmt.Sprintf(secret, "old-secret"), fmt.Sprintf(secret, "new-secret")},
		"a short one":          {fmt.Sprintf(secret, "old"), fmt.Sprintf(secret, "new")},
		"a variable":           {fmt.Sprintf(pod, "DB_PASSWORD", "old-secret", "x"), fmt.Sprintf(pod, "DB_PASSWORD", "new-secret", "x")},
		"a variable elsewhere": {fmt.Sprintf(pod, "DB_PASSWORD", "old-secret", "--p=old-secret"), fmt.Sprintf(pod, "DB_PASSWORD", "new-secret", "--p=old-secret")},
		"a URL":                {fmt.Sprintf(pod, "DB", "postgres://u:old-secret@h/x", "x"), fmt.Sprintf(pod, "DB", "postgres://u:new-secret@h/x", "x")},
		"kubectl's copy": {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {kubectl.kubernetes.io/last-applied-configuration: old-secret}}\n",
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {kubectl.kubernetes.io/last-applied-configuration: new-secret, other: b}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			first := unified(t, set(t, c[0]), set(t, c[1]))
			if first == "" {
				t.Error("nothing is shown")
			}
			for _, part := range []string{"old-secret", "new-secret", "same-secret", ": old", ": new", "b2xk", "bmV3"} {
				if strings.Contains(first, part) {
					t.Errorf("%q is shown:\n%s", part, first)
				}
			}
			for range 20 {
				if again := unified(t, set(t, c[0]), set(t, c[1])); again != first {
					t.Fatalf("not the same twice:\n%s\n%s", first, again)
				}
			}
		})
	}
}

func TestSideBySide(t *testing.T) {
	changes, err := overlaydiff.Compare(set(t, deployment("env: [{name: A, value: b}]")), set(t, deployment("env: [{name: A, value: c}, {name: B, value: 'a text that is far too long for its column'}]")))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := overlaydiff.SideBySide(&out, changes, 80, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  value: b                     |           value: c", "…"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimSpace(line))); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestMarkdown_CannotBeLeft(t *testing.T) {
	evil := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '<b>x</b>', namespace: shop}\ndata: {a: \"```\\n</details><img src=x>\"}\n"
	changes, err := overlaydiff.Compare(overlaydiff.Set{}, set(t, evil))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := overlaydiff.Markdown(&out, changes); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\n````diff\n") || !strings.Contains(out.String(), "\n````\n") || strings.Contains(out.String(), "<code>ConfigMap/shop/<b>") {
		t.Errorf("%s", out.String())
	}
}

func TestMarkdown_FitsIntoAPullRequest(t *testing.T) {
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {a: %s}\n", i, strings.Repeat("b", 300)))
	}
	changes, err := overlaydiff.Compare(overlaydiff.Set{}, set(t, many...))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := overlaydiff.Markdown(&out, changes); err != nil {
		t.Fatal(err)
	}
	if out.Len() > limits.MarkdownBytes+200 || !strings.Contains(out.String(), "more objects differ") || !strings.Contains(out.String(), "300 added") {
		t.Errorf("%d bytes", out.Len())
	}
}

func TestUnified_InColour(t *testing.T) {
	changes, err := overlaydiff.Compare(set(t, deployment("args: [a]")), set(t, deployment("args: [b]")))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := overlaydiff.Unified(&out, changes, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\x1b[31m-        - a\x1b[0m") {
		t.Errorf("%q", out.String())
	}
}

// TestFormats_GiveACISystemNoCommands wants none in any format, and the text all the same.
func TestFormats_GiveACISystemNoCommands(t *testing.T) {
	const with = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ::set-output name=a::b\n    ##vso[task.setvariable variable=PATH]c\n    "
	changes, err := overlaydiff.Compare(set(t, with+"before\n"), set(t, with+"after\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(io.Writer) error{
		"unified":      func(w io.Writer) error { return overlaydiff.Unified(w, changes, false) },
		"in colour":    func(w io.Writer) error { return overlaydiff.Unified(w, changes, true) },
		"side by side": func(w io.Writer) error { return overlaydiff.SideBySide(w, changes, 160, false) },
		"markdown":     func(w io.Writer) error { return overlaydiff.Markdown(w, changes) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if redact.Obeyed(line) {
				t.Errorf("%s: %q may be obeyed", name, line)
			}
		}
		if !strings.Contains(out.String(), "set-output name=a") {
			t.Errorf("%s: the line is not shown: %s", name, out.String())
		}
	}
}
