package delta_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/delta"
)

const deploymentOf = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app.kubernetes.io/version: VERSION}}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b, app.kubernetes.io/version: VERSION}}
    spec: {containers: [{name: web, image: a CONTAINER}] POD}
  SPEC
`

const statefulSetOf = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  serviceName: db
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: db, image: a}]}}
  volumeClaimTemplates: [CLAIM]
`

const policyOf = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {a: b}}, policyTypes: [Ingress], ingress: [{from: [{PEER}]}]}
`

// filled is a manifest with what stands at the words in capitals.
func filled(t *testing.T, manifest string, with map[string]string) *unstructured.Unstructured {
	t.Helper()
	for _, word := range []string{"VERSION", "CONTAINER", "POD", "SPEC", "CLAIM", "PEER"} {
		text := with[word]
		if word == "VERSION" && text == "" {
			text = "1.2.0"
		}
		manifest = strings.ReplaceAll(manifest, word, text)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// Every case is compared in both directions.
func TestCompare_TellsWhatMeansTheSame(t *testing.T) {
	for title, tc := range map[string]struct {
		manifest, word string
		want, have     string
		changes        []string
	}{
		"a quantity":             {deploymentOf, "CONTAINER", `, resources: {requests: {cpu: 1000m, memory: 1Gi}}`, `, resources: {requests: {cpu: "1", memory: 1024Mi}}`, nil},
		"a quantity as a number": {deploymentOf, "CONTAINER", `, resources: {requests: {cpu: 1}}`, `, resources: {requests: {cpu: 1.0}}`, nil},
		"a quantity beside a field that there is not":  {deploymentOf, "CONTAINER", `, unknown: a, resources: {requests: {cpu: 1000m}}`, `, unknown: a, resources: {requests: {cpu: 1}}`, nil},
		"what looks like one in a file of a ConfigMap": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {app.limits.cpu: 'SPEC'}", "SPEC", `1`, `1000m`, []string{"data.app.limits.cpu"}},
		"what looks like one in an annotation": {strings.Replace(statefulSetOf, "metadata: {labels:", "metadata: {annotations: {app.limits.cpu: 'POD'}, labels:", 1), "POD", `1`, `1000m`,
			[]string{"spec.template.metadata.annotations.app.limits.cpu"}},
		"another quantity":       {deploymentOf, "CONTAINER", `, resources: {requests: {cpu: 1000m}}`, `, resources: {requests: {cpu: 1001m}}`, []string{container + ".resources.requests.cpu"}},
		"a version with a v":     {deploymentOf, "VERSION", `v1.2.0`, `1.2.0`, nil},
		"another version":        {deploymentOf, "VERSION", `1.2.0`, `v1.2.1`, []string{"metadata.labels.app.kubernetes.io/version", "spec.template.metadata.labels.app.kubernetes.io/version"}},
		"a v in any other text":  {deploymentOf, "CONTAINER", `, args: [v1.2.0]`, `, args: [1.2.0]`, []string{container + ".args[0]"}},
		"a port as digits":       {deploymentOf, "CONTAINER", `, readinessProbe: {httpGet: {port: 80}}`, `, readinessProbe: {httpGet: {port: "80"}}`, nil},
		"another port as digits": {deploymentOf, "CONTAINER", `, readinessProbe: {httpGet: {port: 80}}`, `, readinessProbe: {httpGet: {port: "81"}}`, []string{container + ".readinessProbe.httpGet.port"}},
		"a port by name":         {deploymentOf, "CONTAINER", `, readinessProbe: {httpGet: {port: 80}}`, `, readinessProbe: {httpGet: {port: http}}`, []string{container + ".readinessProbe.httpGet.port"}},
		"a count as digits, others by default": {deploymentOf, "SPEC", `strategy: {rollingUpdate: {maxSurge: 1}}`,
			`strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: "1", maxUnavailable: 25%}}`, nil},
		"digits in a text":                      {deploymentOf, "CONTAINER", `, env: [{name: A, value: "1"}]`, `, env: [{name: A, value: "1.0"}]`, []string{container + ".env[0].value"}},
		"null and an empty list":                {deploymentOf, "CONTAINER", `, env: null`, `, env: []`, nil},
		"absent and an empty list":              {deploymentOf, "CONTAINER", ``, `, args: []`, nil},
		"null and an empty map":                 {deploymentOf, "POD", `, nodeSelector: null`, `, nodeSelector: {}`, nil},
		"an empty text and none":                {deploymentOf, "CONTAINER", `, env: [{name: A, value: ""}]`, `, env: [{name: A}]`, nil},
		"an empty list and one with an element": {deploymentOf, "CONTAINER", `, args: []`, `, args: [a]`, []string{container + ".args"}},
		"defaults written out":                  {deploymentOf, "SPEC", ``, "minReadySeconds: 0\n  paused: false\n  progressDeadlineSeconds: 600\n  revisionHistoryLimit: 10\n  replicas: 1", nil},
		"defaults of a pod":                     {deploymentOf, "POD", ``, `, dnsPolicy: ClusterFirst, restartPolicy: Always, schedulerName: default-scheduler, securityContext: {}, terminationGracePeriodSeconds: 30, hostNetwork: false`, nil},
		"a claim as the server stores it": {statefulSetOf, "CLAIM", `{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}`,
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, creationTimestamp: null}, spec: {accessModes: [ReadWriteOnce], volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}`, nil},
		"every namespace and one's own":   {policyOf, "PEER", `podSelector: {}, namespaceSelector: {}`, `podSelector: {}`, []string{"spec.ingress[0].from[0].namespaceSelector"}},
		"no namespace named, in two ways": {policyOf, "PEER", `podSelector: {}, namespaceSelector: null`, `podSelector: {}`, nil},
		"every pod and a block":           {policyOf, "PEER", `podSelector: {}`, `ipBlock: {cidr: 192.0.2.0/24}`, []string{"spec.ingress[0].from[0].ipBlock", "spec.ingress[0].from[0].podSelector"}},
		"pods of every namespace to keep apart from": {deploymentOf, "POD", `, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, namespaceSelector: {}}]}}`,
			`, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}`,
			[]string{"spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector"}},
		"a larger claim": {statefulSetOf, "CLAIM", `{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			`{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}`, []string{"spec.volumeClaimTemplates[0].spec.resources.requests.storage"}},
	} {
		t.Run(title, func(t *testing.T) {
			a, b := filled(t, tc.manifest, map[string]string{tc.word: tc.want}), filled(t, tc.manifest, map[string]string{tc.word: tc.have})
			for _, pair := range [][2]*unstructured.Unstructured{{a, b}, {b, a}} {
				changes, err := delta.Compare(pair[0], pair[1])
				if err != nil {
					t.Fatal(err)
				}
				var paths []string
				for _, c := range changes {
					paths = append(paths, c.Path)
				}
				if diff := cmp.Diff(tc.changes, paths); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// What Completed keeps of live is written back: an account that others gave to pods by the old
// name would come back with it.
func TestCompleted_KeepsNoAccountOfOthers(t *testing.T) {
	account := []string{"spec", "template", "spec", "serviceAccount"}
	for title, tc := range map[string]struct{ want, have, kept string }{
		"its own":                 {`, serviceAccountName: a`, `, serviceAccountName: a, serviceAccount: a`, "a"},
		"another":                 {`, serviceAccountName: a`, `, serviceAccountName: b, serviceAccount: b`, ""},
		"one where there is none": {``, `, serviceAccountName: b, serviceAccount: b`, ""},
	} {
		t.Run(title, func(t *testing.T) {
			want, have := filled(t, deploymentOf, map[string]string{"POD": tc.want}), filled(t, deploymentOf, map[string]string{"POD": tc.have})
			kept, _, err := unstructured.NestedString(delta.Completed(want, have), account...)
			if err != nil || kept != tc.kept {
				t.Errorf("%v %q", err, kept)
			}
			changes, err := delta.Compare(want, have)
			if err != nil || len(changes) == 0 != (tc.kept != "") {
				t.Errorf("%v %v", err, changes)
			}
		})
	}
}
