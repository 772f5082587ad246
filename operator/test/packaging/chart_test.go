package packaging

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const chart = "charts/sluice"

// rendered is the chart with values that are set.
func rendered(t *testing.T, namespace string, values ...string) map[string]map[string]any {
	t.Helper()
	args := []string{"template", "sluice", chart, "--namespace=" + namespace}
	for _, v := range values {
		args = append(args, "--set="+v)
	}
	return objects(t, must(t, nil, "helm", args...))
}

// TestChart_RendersTheKustomizeBase compares object by object. Two things differ by
// default: the Namespace, which helm wants to be there before, and the annotation by which
// helm leaves the CRDs.
func TestChart_RendersTheKustomizeBase(t *testing.T) {
	base := objects(t, must(t, nil, "kustomize", "build", "kustomize/base"))
	ours := rendered(t, "sluice-system", "namespace.create=true", "crds.keep=false")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(base)), slices.Sorted(maps.Keys(ours))); diff != "" {
		t.Fatal(diff)
	}
	for key, want := range base {
		if diff := cmp.Diff(want, ours[key]); diff != "" {
			t.Errorf("%s (-kustomize +chart):\n%s", key, diff)
		}
	}
	byDefault := rendered(t, "sluice-system")
	if len(byDefault) != len(base)-1 || byDefault["Namespace//sluice-system"] != nil {
		t.Errorf("by default there are %v", slices.Sorted(maps.Keys(byDefault)))
	}
	for key, o := range byDefault {
		kept, _, _ := unstructured.NestedString(o, "metadata", "annotations", "helm.sh/resource-policy")
		if isCRD := strings.HasPrefix(key, "CustomResourceDefinition/"); isCRD != (kept == "keep") {
			t.Errorf("%s: resource policy %q", key, kept)
		}
		unstructured.RemoveNestedField(o, "metadata", "annotations", "helm.sh/resource-policy")
		if diff := cmp.Diff(base[key], o); diff != "" {
			t.Errorf("%s by default (-kustomize +chart):\n%s", key, diff)
		}
	}
}

func TestChart_ComponentsAreThoseOfKustomize(t *testing.T) {
	for component, values := range map[string][]string{
		"cert-manager":    {"certManager.enabled=true"},
		"pods":            {"webhooks.pods=true"},
		"service-monitor": {"metrics.serviceMonitor.enabled=true", "metrics.rules.enabled=true"},
	} {
		t.Run(component, func(t *testing.T) {
			want := objects(t, must(t, nil, "kustomize", "build", "operator/test/packaging/testdata/"+component))
			got := rendered(t, "sluice-system", append(values, "namespace.create=true", "crds.keep=false")...)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Fatal(diff)
			}
			for key := range want {
				if diff := cmp.Diff(want[key], got[key]); diff != "" {
					t.Errorf("%s (-kustomize +chart):\n%s", key, diff)
				}
			}
		})
	}
}

// TestChart_TakesItsValues looks for what each value is to change, in another namespace.
func TestChart_TakesItsValues(t *testing.T) {
	for value, want := range map[string]string{
		"image.tag=1.2.3": "registry.example.com/sluice/manager:1.2.3",
		"image.digest=sha256:" + strings.Repeat("a", 64):    ":0.1.0@sha256:aaaa",
		"image.pullPolicy=Always":                           "imagePullPolicy: Always",
		"imagePullSecrets[0].name=pull":                     "imagePullSecrets:\n      - name: pull",
		"replicas=3":                                        "replicas: 3",
		"priorityClassName=mine":                            "priorityClassName: mine",
		"resources.limits.memory=1Gi":                       "memory: 1Gi",
		"goMemLimit=900MiB":                                 "value: 900MiB",
		"nodeSelector.disk=fast":                            "nodeSelector:\n        disk: fast",
		"tolerations[0].key=x":                              "tolerations:\n      - key: x",
		"affinity.podAntiAffinity.a=b":                      "a: b",
		"podLabels.team=platform":                           "team: platform",
		"podAnnotations.team=platform":                      "team: platform",
		"commonLabels.team=platform":                        "team: platform",
		"serviceAccount.annotations.role=reader":            "role: reader",
		"operator.workers=8":                                "--workers=8",
		"operator.kubeApiQps=25":                            "--kube-api-qps=25",
		"operator.retryBaseDelay=2s":                        "--retry-base-delay=2s",
		"operator.retryMaxDelay=1m":                         "--retry-max-delay=1m",
		"operator.watchLabelSelector=shard=a":               "--watch-label-selector=shard=a",
		"operator.prometheusAddress=http://prometheus:9090": "--prometheus-address=http://prometheus:9090",
		"operator.extraArgs[0]=--leader-elect=false":        "--leader-elect=false",
		"registries.mirrors.a=b:5000":                       "--registry-mirror=a=b:5000",
		"registries.insecure[0]=a:5000":                     "--insecure-registry=a:5000",
		"registries.tokenHosts[0]=auth.example.com":         "--registry-token-host=auth.example.com",
		"registries.authorities.keys[0]=ca.crt,registries.authorities.configMap=roots": "--registry-ca-file=/authorities/ca.crt",
		"registries.authorities.configMap=roots":                                       "name: roots",
		"registries.credentials.google=true":                                           "--google-credentials",
		"registries.credentials.amazon=true":                                           "--amazon-credentials",
		"registries.credentials.azure=true":                                            "--azure-credentials",
		"webhooks.failurePolicy=Ignore":                                                "failurePolicy: Ignore",
		"webhooks.timeoutSeconds=5":                                                    "timeoutSeconds: 5",
		"podDisruptionBudget.maxUnavailable=50%":                                       "maxUnavailable: 50%",
		"metrics.serviceMonitor.enabled=true":                                          "kind: ServiceMonitor",
		"metrics.rules.enabled=true":                                                   "kind: PrometheusRule",
		"metrics.rules.enabled=true,metrics.rules.labels.a=b":                          "a: b",
	} {
		t.Run(value, func(t *testing.T) {
			plain, changed := flat(t, rendered(t, "platform")), flat(t, rendered(t, "platform", value))
			if strings.Contains(plain, want) || !strings.Contains(changed, want) {
				t.Errorf("with and without it, the chart has no %q of its own", want)
			}
			if strings.Contains(changed, "sluice-system") {
				t.Error("something is in the namespace sluice-system")
			}
		})
	}
	if without := rendered(t, "platform", "networkPolicy.enabled=false", "crds.install=false"); len(without) != len(rendered(t, "platform"))-4 {
		t.Errorf("without policy and CRDs there are %v", slices.Sorted(maps.Keys(without)))
	}
}

func flat(t *testing.T, objects map[string]map[string]any) string {
	t.Helper()
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		raw, err := yaml.Marshal(objects[key])
		if err != nil {
			t.Fatal(err)
		}
		out.Write(raw)
	}
	return out.String()
}

func TestChart_RefusesWhatItDoesNotKnow(t *testing.T) {
	must(t, nil, "helm", "lint", "--strict", chart)
	for name, value := range map[string]string{
		"a misspelt value":       "replcas=3",
		"a misspelt flag":        "operator.worker=3",
		"a number that is none":  "replicas=many",
		"too many workers":       "operator.workers=100",
		"no policy of admission": "webhooks.failurePolicy=Maybe",
		"a digest that is none":  "image.digest=latest",
	} {
		stdout, stderr, err := run(t, nil, "helm", "template", "sluice", chart, "--set="+value)
		key, _, _ := strings.Cut(value, "=")
		last := key[strings.LastIndex(key, ".")+1:]
		if err == nil || !strings.Contains(stderr, last) {
			t.Errorf("%s: %v, and it says %s%s", name, err, stdout[:min(len(stdout), 100)], stderr)
		}
	}
}

// schema is the part of JSON Schema that tells values.
type schema struct {
	Description          string
	AdditionalProperties any
	Properties           map[string]*schema
}

// TestChart_TellsOfEveryValue holds values, schema and README against each other.
func TestChart_TellsOfEveryValue(t *testing.T) {
	var s schema
	if err := json.Unmarshal(read(t, chart, "values.schema.json"), &s); err != nil {
		t.Fatal(err)
	}
	delete(s.Properties, "global") // helm's own
	var values map[string]any
	if err := yaml.Unmarshal(read(t, chart, "values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	rows := tell(t, &s, values, "")
	readme := string(read(t, chart, "README.md"))
	if table := strings.Join(rows, "\n"); !strings.Contains(readme, "| --- | --- | --- |\n"+table+"\n\n") {
		t.Errorf("the table of values in the chart's README.md has to be:\n%s", table)
	}
}

func tell(t *testing.T, s *schema, values map[string]any, path string) []string {
	t.Helper()
	if known := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(known, slices.Sorted(maps.Keys(values))) {
		t.Errorf("at %q the schema has %v, and values.yaml %v", path, known, slices.Sorted(maps.Keys(values)))
	}
	if s.AdditionalProperties != false {
		t.Errorf("at %q the schema takes what it does not know", path)
	}
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		if p.Description == "" {
			t.Errorf("the schema does not say what %s%s is", path, name)
		}
		if p.Properties != nil {
			inner, ok := values[name].(map[string]any)
			if !ok {
				t.Errorf("%s%s is not an object in values.yaml", path, name)
			}
			rows = append(rows, tell(t, p, inner, path+name+".")...)
			continue
		}
		value, err := json.Marshal(values[name])
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, fmt.Sprintf("| `%s%s` | `%s` | %s |", path, name, value, p.Description))
	}
	return rows
}
