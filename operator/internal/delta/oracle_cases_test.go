package delta_test

import (
	"regexp"
	"strings"
	"testing"
)

const podOf = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {hostNetwork: true, containers: [{name: web, image: a CONTAINER}] POD}
`

const secretOf = `
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: shop}
SPEC
`

const serviceOf = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {SPEC}
`

func TestNormalised_IsTheOraclesOfWhatPeopleWrite(t *testing.T) {
	for title, tc := range map[string]struct{ manifest, word, text string }{
		"quantities":                      {deploymentOf, "CONTAINER", `, resources: {requests: {cpu: 1000m, memory: 1024Mi, a: 0.5, b: 1, c: 1e3, d: "1e3"}, limits: {cpu: 1.5, memory: 1G}}`},
		"a quantity rounded up":           {deploymentOf, "CONTAINER", `, resources: {requests: {cpu: 0.1234}}`},
		"a quantity that is none":         {deploymentOf, "CONTAINER", `, resources: {requests: {cpu: many}}`},
		"defaults of all kinds of probes": {deploymentOf, "CONTAINER", `, livenessProbe: {httpGet: {port: 80}}, startupProbe: {grpc: {port: 1}}, lifecycle: {preStop: {httpGet: {port: a}}}`},
		"ports":                           {deploymentOf, "CONTAINER", `, ports: [{containerPort: 80}, {containerPort: 81, protocol: UDP}]`},
		"a port as digits":                {deploymentOf, "CONTAINER", `, readinessProbe: {httpGet: {port: "80"}}`},
		"latest":                          {deploymentOf, "CONTAINER", `:latest`},
		"an image that is none":           {deploymentOf, "CONTAINER", `:::`},
		"all kinds of volumes": {deploymentOf, "POD", `, volumes: [{name: a}, {name: b, secret: {secretName: s}}, {name: c, configMap: {name: c}}, {name: d, hostPath: {path: /}},
			{name: e, projected: {sources: [{serviceAccountToken: {path: t}}, {downwardAPI: {items: [{path: p, fieldRef: {fieldPath: f}}]}}]}},
			{name: f, ephemeral: {volumeClaimTemplate: {spec: {}}}}, {name: g, image: {reference: a}}]`},
		"null everywhere":                                   {deploymentOf, "POD", `, volumes: null, securityContext: null, nodeSelector: null, hostNetwork: null, terminationGracePeriodSeconds: null`},
		"empty everywhere":                                  {deploymentOf, "POD", `, volumes: [], securityContext: {}, nodeSelector: {}, hostNetwork: false, hostname: ""`},
		"a field that there is not":                         {deploymentOf, "CONTAINER", `, unheardOf: {a: null}, resources: {limits: {cpu: 1000m}}`},
		"one of a pod, which others lack":                   {deploymentOf, "POD", `, unheardOf: [1], hostNetwork: false, tolerations: null`},
		"a text for a number":                               {deploymentOf, "SPEC", `replicas: three`},
		"digits for a number":                               {deploymentOf, "SPEC", `replicas: "3"`},
		"a fraction for a number":                           {deploymentOf, "SPEC", `replicas: 1.5`},
		"a whole number as a fraction":                      {deploymentOf, "SPEC", `replicas: 3.0`},
		"a number past its field":                           {deploymentOf, "SPEC", `replicas: 4294967299`},
		"one that would be cut off to 0":                    {deploymentOf, "SPEC", `replicas: 4294967296`},
		"one past any field":                                {deploymentOf, "SPEC", `replicas: 1.0e+30`},
		"one past its field, and a field that there is not": {deploymentOf, "SPEC", "replicas: 4294967299\n  unheardOf: 4294967299"},
		"a number for a switch":                             {deploymentOf, "SPEC", `paused: 1`},
		"a number for a text":                               {deploymentOf, "CONTAINER", `, env: [{name: A, value: 1}]`},
		"an update in digits":                               {deploymentOf, "SPEC", `strategy: {rollingUpdate: {maxSurge: "1"}}`},
		"recreate":                                          {deploymentOf, "SPEC", `strategy: {type: Recreate}`},
		"claims":                                            {statefulSetOf, "CLAIM", `{metadata: {name: data, creationTimestamp: null}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}`},
		"claims with a status":                              {statefulSetOf, "CLAIM", `{metadata: {name: data}, spec: {}, status: {phase: Bound, capacity: {storage: 1024Mi}}}`},
		"requests from limits":                              {podOf, "CONTAINER", `, resources: {limits: {cpu: 2}}, ports: [{containerPort: 80}]`},
		"requests of a pod from limits":                     {podOf, "POD", `, resources: {limits: {cpu: 2000m}}`},
		"an ephemeral container":                            {podOf, "POD", `, ephemeralContainers: [{name: x, image: a}]`},
		"stringData":                                        {secretOf, "SPEC", `stringData: {a: b, empty: "", none: null}`},
		"stringData over data":                              {secretOf, "SPEC", "data: {a: eA==, c: ZA==}\nstringData: {a: b}"},
		"stringData that is no text":                        {secretOf, "SPEC", "data: {c: ZA==}\nstringData: {a: 1}"},
		"stringData that is null":                           {secretOf, "SPEC", "data: {c: ZA==}\nstringData: null"},
		"stringData and data that is null":                  {secretOf, "SPEC", "data: null\nstringData: {a: b}"},
		"data that is empty":                                {secretOf, "SPEC", `data: {a: "", b: null}`},
		"data over lines":                                   {secretOf, "SPEC", `data: {a: "aGVs\nbG8=\n"}`},
		"data over lines beside a field that there is not":  {secretOf, "SPEC", "data: {a: \"aGVs\\nbG8=\\n\", n: null}\nunheardOf: 1"},
		"data that is no base64":                            {secretOf, "SPEC", `data: {a: "?"}`},
		"a Secret of a kind":                                {secretOf, "SPEC", "type: kubernetes.io/tls\nimmutable: true"},
		"a Service":                                         {serviceOf, "SPEC", `ports: [{port: 80}, {port: 81, targetPort: http}]`},
		"a Service that remembers":                          {serviceOf, "SPEC", `sessionAffinity: ClientIP, type: LoadBalancer, ports: [{port: 80, nodePort: 30000}]`},
		"a Service that remembers for no reason":            {serviceOf, "SPEC", `sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}`},
		"no metadata to speak of":                           {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {}, labels: null}", "", ""},
		"a namespace":                                       {"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}", "", ""},
		"a role without rules":                              {"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrules: []", "", ""},
		"a binding":                                         {"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: a}\nroleRef: {kind: Role, name: a}\nsubjects: [{kind: User, name: a}, {kind: ServiceAccount, name: b}]", "", ""},
		"an ingress":                                        {"apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\nspec: {rules: [{http: {paths: [{backend: {service: {name: a, port: {number: 80}}}}]}}]}", "", ""},
		"a policy of the network":                           {"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {podSelector: {}, egress: [{}], ingress: [{ports: [{port: 80}]}]}", "", ""},
		"an autoscaler":                                     {"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: a}, behavior: {scaleDown: {}}}", "", ""},
		"a job":                                             {"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: a}]}}}}}", "", ""},
		"a webhook":                                         {"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks: [{name: a.b.c, clientConfig: {service: {name: a, namespace: b}}, rules: [{apiGroups: ['']}]}]", "", ""},
		"endpoints":                                         {"apiVersion: v1\nkind: Endpoints\nmetadata: {name: a}\nsubsets: [{addresses: [{ip: 192.0.2.2}, {ip: 192.0.2.1}], ports: [{port: 80}]}]", "", ""},
		"an object of another kind":                         {"apiVersion: example.com/v1\nkind: Database\nmetadata: {name: a, creationTimestamp: null}\nspec: {replicas: 1.0, none: null, empty: {}, size: 1000m}", "", ""},
		"a kind in a version that there is not":             {"apiVersion: apps/v9\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: null}", "", ""},
	} {
		t.Run(title, func(t *testing.T) {
			u := filled(t, tc.manifest, map[string]string{tc.word: tc.text})
			if difference, err := against(t, u, false); err != nil || difference != "" {
				t.Errorf("%v %s", err, difference)
			}
		})
	}
}

// Where the normal form is not the oracle's, it is for these reasons, and no others.
func TestNormalised_IsNotTheOraclesWhere(t *testing.T) {
	for reason, tc := range map[string]struct {
		manifest, word, text string
		// by matches the difference (- is the oracle's), or in the oracle's error.
		by string
	}{
		"the oracle reads a field in other letters, and drops it; the API server does not know it": {deploymentOf, "SPEC", `Replicas: 3`, `^\+ \.spec\.Replicas: 3$`},
		"the oracle takes two ports of the same number for one":                                    {deploymentOf, "CONTAINER", `, ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53}]`, `\+ \.spec\..*\.ports\[[01]\]`},
		"the oracle drops an unknown field where it adds defaults to a list without keys": {
			"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: 80, unheardOf: 1}]}]}", "", "", `^\+ .*\.ports\[0\]\.unheardOf: 1$`},
		"the oracle drops an unknown field of an update's strategy": {deploymentOf, "SPEC", `strategy: {unheardOf: 1}`, `^\+ \.spec\.strategy\.unheardOf: 1$`},
		"the oracle gives up on a container without a name":         {strings.Replace(deploymentOf, "{name: web, image", "{image", 1), "", "", "declared merge key: name"},
		"the oracle panics on an object without metadata":           {"apiVersion: v1\nkind: ConfigMap\nmetadata: null\nunheardOf: 1", "", "", "panic"},
		"no server has the version any more, and it has no defaults here": {
			"apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a, image: a}]}}}", "", "", `(?m)^- \.spec\.progressDeadlineSeconds: `},
		"a key starts with a $, as the oracle's own do": {"apiVersion: example.com/v1\nkind: Database\nmetadata: {name: a}\nspec: {$retainKeys: [a]}", "", "", `^\+ \.spec: `},
	} {
		t.Run(reason, func(t *testing.T) {
			u := filled(t, tc.manifest, map[string]string{tc.word: tc.text})
			difference, err := against(t, u, false)
			if err != nil {
				difference = err.Error()
			}
			if !regexp.MustCompile(tc.by).MatchString(difference) {
				t.Errorf("not %q, but %s", tc.by, difference)
			}
		})
	}
}
