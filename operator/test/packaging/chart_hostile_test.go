package packaging

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestChart_TakesTextAsText gives it values that YAML or a template would read otherwise.
func TestChart_TakesTextAsText(t *testing.T) {
	const odd = "a}, hostPath: {path: /\n      hostPID: true # {{ .Release.Name }} $1 \"'"
	texts := map[string]any{"true": "true", "odd": odd}
	file := filepath.Join(t.TempDir(), "values.json")
	writeJSON(t, file, map[string]any{
		"priorityClassName": odd, "podAnnotations": texts, "podLabels": texts, "commonLabels": texts, "nodeSelector": texts,
		"image":            map[string]any{"tag": odd},
		"imagePullSecrets": []any{map[string]any{"name": "123"}},
		"serviceAccount":   map[string]any{"annotations": texts},
		"operator":         map[string]any{"watchLabelSelector": odd, "prometheusAddress": "http://" + odd, "extraArgs": []any{odd}},
		"registries": map[string]any{
			"mirrors": map[string]any{odd: odd}, "insecure": []any{odd}, "tokenHosts": []any{odd},
			"authorities": map[string]any{"configMap": "123", "keys": []any{odd}},
		},
	})
	got := objects(t, must(t, nil, "helm", "template", "sluice", chart, "--values="+file))["Deployment/default/sluice-manager"]
	pod, _, _ := unstructured.NestedMap(got, "spec", "template", "spec")
	if pod["hostPID"] != nil || pod["priorityClassName"] != odd {
		t.Errorf("the pod has hostPID %v and the class %q", pod["hostPID"], pod["priorityClassName"])
	}
	volumes, err := json.Marshal(pod["volumes"])
	if want := `[{"configMap":{"name":"123"},"name":"authorities"}]`; err != nil || string(volumes) != want {
		t.Errorf("volumes %s, %v", volumes, err)
	}
	container := pod["containers"].([]any)[0].(map[string]any)
	args := container["args"].([]any)
	for i, want := range []string{
		"--watch-label-selector=" + odd, "--prometheus-address=http://" + odd, "--registry-mirror=" + odd + "=" + odd, "--insecure-registry=" + odd,
		"--registry-token-host=" + odd, "--registry-ca-file=/authorities/" + odd, odd,
	} {
		if args[i] != want {
			t.Errorf("argument %q, and not %q", args[i], want)
		}
	}
	labels, _, _ := unstructured.NestedStringMap(got, "metadata", "labels")
	if labels["odd"] != odd || labels["true"] != "true" {
		t.Errorf("labels %v", labels)
	}
}

// TestChart_RefusesWhatCannotRun: each would be an operator that does not come up, or that
// nothing finds, and nobody would be told.
func TestChart_RefusesWhatCannotRun(t *testing.T) {
	for name, values := range map[string]string{
		"the label that the Deployment selects by":         `podLabels.app\.kubernetes\.io/name=mine`,
		"the label that the ServiceMonitor selects by":     `commonLabels.app\.kubernetes\.io/name=mine`,
		"a label that would be there twice":                `commonLabels.app\.kubernetes\.io/part-of=mine`,
		"a label of the ServiceMonitor that is there":      `metrics.serviceMonitor.labels.app\.kubernetes\.io/name=mine`,
		"a label of the alerts that is there":              `metrics.rules.labels.app\.kubernetes\.io/part-of=mine`,
		"a file of authorities that nothing mounts":        "registries.authorities.keys[0]=ca.crt",
		"a digest in the name of the image, before a tag":  "image.repository=registry.example.com/manager@sha256:" + strings.Repeat("a", 64),
		"a mirror that is nowhere":                         `registries.mirrors.registry\.example\.com=`,
		"an argument of the credentials that there is not": "registries.credentials.oracle=true",
	} {
		if stdout, _, err := run(t, nil, "helm", "template", "sluice", chart, "--set="+values); err == nil {
			t.Errorf("%s: it renders %d bytes", name, len(stdout))
		}
	}
}

// TestChart_ItsAlertsNameItsNamespace, where somebody looks at night.
func TestChart_ItsAlertsNameItsNamespace(t *testing.T) {
	rules := flat(t, rendered(t, "platform", "metrics.rules.enabled=true"))
	if strings.Contains(rules, "sluice-system") || !strings.Contains(rules, "namespace platform") {
		t.Error("an alert sends whoever reads it to the namespace sluice-system")
	}
}
