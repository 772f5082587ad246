package schema_test

import (
	"fmt"
	"strings"
)

// head starts a Workload; a fixture goes on below its spec.
const head = "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: NAME, namespace: default}\nspec:\n"

const oldHead = "apiVersion: sluice.dev/v1alpha1\nkind: Workload\nmetadata: {name: NAME, namespace: default}\nspec:\n"

const gateHead = "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: NAME}\nspec:\n  environment: prod\n"

// exemptionHead starts an Exemption; what it is for goes on below.
const exemptionHead = "apiVersion: sluice.dev/v1beta1\nkind: Exemption\nmetadata: {name: NAME}\nspec:\n  reason: an incident\n  expires: 2026-12-24T00:00:00Z\n  gates: [prod]\n"

// canaryHead starts a Workload whose canary goes on below.
const canaryHead = head + "  image: a\n  rollout:\n    strategy: Canary\n    canary:\n"

// database is a Workload with most of what there is.
const database = `apiVersion: sluice.dev/v1beta1
kind: Workload
metadata:
  name: NAME
  namespace: default
spec:
  image: registry.example.com/shop/orders-db:15.3.0
  version: 15.3.0
  replicas: 3
  ports:
    - {name: postgres, port: 5432}
  storage: {size: 100Gi, mountPath: /var/lib/postgresql/data}
  config:
    mountPath: /etc/orders
    files:
      postgresql.conf: |
        max_connections = 200
  secrets:
    - {name: orders-db-credentials, envFrom: true}
  resources:
    requests: {cpu: 250m, memory: 512Mi}
    limits: {memory: 1Gi}
  dependsOn:
    - {name: cache}
  availability:
    minAvailable: 2
  rollout:
    strategy: Canary
    canary:
      batchSize: 1
      interval: 30s
      failureLimit: 2
      analysis:
        metrics:
          - name: connection-errors
            query: sum(rate(db_connection_errors_total{workload="orders-db"}[5m]))
            failIf: "> 0.01"
    rollbackOnFailure: true
  backup:
    schedule: "0 3 * * *"
    image: registry.example.com/shop/backup:1.2.0
    s3: {bucket: shop-backups, region: eu-central-1}
  drift: {mode: Heal}
  deletionPolicy: RetainStorage
`

// wholeGate is a Gate with most of what there is.
const wholeGate = `apiVersion: sluice.dev/v1beta1
kind: Gate
metadata:
  name: NAME
spec:
  environment: prod
  mode: Enforce                       # Enforce | Warn | Audit
  match:
    namespaceSelector:
      matchLabels: {sluice.dev/environment: prod}
  policies:
    - builtin: restricted
    - builtin: reliability
    - configMap: {name: house-rules, namespace: sluice-system}
    - oci:
        ref: registry.example.com/policies/prod@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
        authorities:
          - key: {secret: {name: policy-signer, namespace: sluice-system, key: cosign.pub}}
  parameters:
    reliability: {minReplicas: 2}
  images:
    - match: registry.example.com/shop/**
      authorities:
        - name: release-workflow
          keyless:
            issuer: https://token.actions.githubusercontent.com
            subjectRegExp: ^https://github\.com/shop/[a-z-]+/\.github/workflows/release\.yml@refs/tags/v.+$
            trustedRoot: {configMap: {name: sigstore-root, namespace: sluice-system, key: trusted_root.json}}
        - name: release-key
          key:
            inline: |
              -----BEGIN PUBLIC KEY-----
              MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE...
              -----END PUBLIC KEY-----
      require: any                    # any | all | none | a count
      requireDigest: false            # true: a tag without digest is denied
      attestations:
        - predicateType: https://slsa.dev/provenance/v1
          authorities: [release-workflow]
          policy: |
            package attestation
            deny contains "not built by our builder" if not startswith(input.predicate.runDetails.builder.id, "https://github.com/")
    - match: registry.example.com/base/pause*
      require: none                   # static allow: no registry call
  unmatchedImages: Deny
  requirePromotionFrom:
    environment: e2e
    within: 720h
    authorities:
      - key: {secret: {name: e2e-attestor, namespace: sluice-system, key: cosign.pub}}
  attest:
    soak: 10m
    key: {secret: {name: prod-attestor, namespace: sluice-system, key: cosign.key}}
  reverify: {interval: 1h, onFailure: Freeze}
`

// bundled is a Gate with policies from a registry, but for what stands in them.
const bundled = gateHead + "  policies: [{oci: {ref: registry.example.com/policies/prod@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae, "

// metricsOf are n metrics whose queries are as long as they may be.
func metricsOf(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "{name: m%d, query: %s, failIf: '> 1'},", i, strings.Repeat("q", 4096))
	}
	return out.String()
}

// accepted are manifests that the API server takes. Their defaults are what is compared.
var accepted = map[string]string{
	"a number of two protocols":     head + "  image: a\n  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]\n",
	"a budget in percent":           head + "  image: a\n  availability: {minAvailable: 0%}\n",
	"no budget and every probe":     head + "  image: a\n  availability: {minAvailable: 0}\n  probes: {startup: {exec: {command: [a]}}, readiness: {httpGet: {port: 80}}, liveness: {grpc: {port: 80}}}\n",
	"probes of every port":          head + "  image: a\n  ports: [{name: http-2, port: 80}]\n  probes: {startup: {grpc: {port: 1}}, readiness: {httpGet: {port: http-2}}, liveness: {tcpSocket: {port: 65535}}}\n",
	"the largest volume":            head + "  image: a\n  storage: {size: 8388607Ti, mountPath: /d}\n",
	"the least volume":              head + "  image: a\n  storage: {size: 01Mi, mountPath: /d}\n",
	"the least":                     head + "  image: a\n",
	"ports without a protocol":      head + "  image: a\n  ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]\n",
	"a drift without a mode":        head + "  image: a\n  drift: {}\n",
	"fields left to others":         head + "  image: a\n  drift: {ignore: [{kind: Deployment, name: a, paths: [/spec/replicas, /spec/strategy/type]}, {paths: [/metadata/labels/image, /metadata/annotations/a~1b~0c]}]}\n",
	"a spread without skew":         head + "  image: a\n  availability: {spread: [{topologyKey: zone}]}\n",
	"nulls where defaults stand":    head + "  image: a\n  replicas: null\n  drift: null\n  deletionPolicy: null\n",
	"nulls where none stand":        head + "  image: a\n  storage: null\n  env: null\n  tenant: null\n",
	"a percentage":                  head + "  image: a\n  availability: {minAvailable: 50%}\n",
	"a number":                      head + "  image: a\n  availability: {minAvailable: 2}\n",
	"probes of the core API":        head + "  image: a\n  probes: {readiness: {httpGet: {port: http, path: /x}}, liveness: {tcpSocket: {port: 80}}}\n",
	"quantities as numbers":         head + "  image: a\n  resources: {requests: {cpu: 1, memory: 64Mi}}\n",
	"environment from a field":      head + "  image: a\n  env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]\n",
	"a Secret by mount, and by env": head + "  image: a\n  secrets: [{name: a, mountPath: /a}, {name: b, envFrom: true}, {name: c, mountPath: /c, envFrom: false}]\n",
	"storage and backup":            head + "  image: a\n  storage: {size: 10Gi, mountPath: /data}\n  backup: {schedule: '0 3 * * *', image: b, s3: {bucket: b, region: r}}\n",
	"a status, which is not kept":   head + "  image: a\nstatus: {phase: Ready, replicas: 3}\n",
	"a rollout without a strategy":  head + "  image: a\n  rollout: {}\n",
	"a canary by its defaults":      head + "  image: a\n  rollout: {strategy: Canary}\n",
	"a canary with nothing set":     head + "  image: a\n  rollout: {strategy: Canary, canary: {}}\n",
	"a canary with metrics":         canaryHead + "      batchSize: 1\n      interval: 30s\n      failureLimit: 2\n      analysis:\n        metrics:\n          - name: errors\n            query: sum(rate(errors_total{workload=\"a\"}[5m]))\n            failIf: \"> 0.01\"\n    rollbackOnFailure: true\n",
	"a canary in steps":             canaryHead + "      steps: [{replicas: 1, pause: 10m}, {replicas: 50%, pause: 1.5h}, {replicas: 100%}]\n",
	"a canary in percent":           canaryHead + "      batchSize: 25%\n      interval: 1m30s\n",
	"a canary with all there is":    canaryHead + "      analysis: {noData: Pass, timeout: 24h, metrics: [{name: a, query: up, failIf: '<1'}, {name: b, query: up, failIf: '== -1.5e-3'}]}\n      interval: 24h\n    progressDeadline: 10s\n",
	"the longest analysis":          canaryHead + "      analysis: {metrics: [" + strings.TrimSuffix(metricsOf(10), ",") + "]}\n",
	"a database with a canary":      database,
	"a Gate, the least":             gateHead,
	"a Gate with all there is":      wholeGate,
	"a Gate with 32 bundles":        gateHead + "  policies: [" + strings.Repeat(strings.TrimPrefix(bundled, gateHead+"  policies: [")+"authorities: ["+strings.Repeat("{key: {inline: pem}}, ", 16)+"]}}, ", 32) + "]\n",
	"a Gate in a namespace":         "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: NAME, namespace: shop}\nspec: {environment: prod}\n",
	"a Gate with a rule":            gateHead + "  images: [{match: 'r.io/**', authorities: [{key: {inline: pem}}]}]\n",
	"a Gate with a count":           gateHead + "  images: [{match: 'r.io/**', require: 1, authorities: [{name: a, key: {secret: {name: s, namespace: ns, key: k}}}]}]\n",
	"a Gate that asks for nothing":  gateHead + "  images: [{match: 'r.io/**', require: none}]\n",
	"an Exemption of an object":     exemptionHead + "  policies: [signature]\n  objects: [{kind: Workload, namespace: shop, name: 'web-*'}]\n",
	"an Exemption of images":        exemptionHead + "  policies: [reliability/min-replicas, sluice-system/house-rules/main]\n  images: ['registry.example.com/shop/orders-db@sha256:*']\n",
	"a Gate that looks again":       gateHead + "  reverify: {}\n",
	"a Gate that freezes":           gateHead + "  reverify: {interval: 24h, onFailure: Freeze}\n",
	"a Gate with parameters":        gateHead + "  parameters: {a: {b: [1, 2.5, null, {c: d}]}, e: text}\n  policies: [{builtin: restricted}, {configMap: {name: a, namespace: b}}]\n",
}

// refused are manifests that the API server does not take, with the field that has to be
// named.
var refused = map[string]struct{ manifest, field string }{
	"two ports of one number":           {head + "  image: a\n  ports: [{name: http, port: 80}, {name: web, port: 80}]\n", "spec.ports"},
	"a budget below nothing":            {head + "  image: a\n  availability: {minAvailable: -1}\n", "spec.availability.minAvailable"},
	"a budget above everything":         {head + "  image: a\n  availability: {minAvailable: 101%}\n", "spec.availability.minAvailable"},
	"a budget that is no number":        {head + "  image: a\n  availability: {minAvailable: most}\n", "spec.availability.minAvailable"},
	"a volume of nothing":               {head + "  image: a\n  storage: {size: 0Gi, mountPath: /d}\n", "spec.storage.size"},
	"a volume of nothing in digits":     {head + "  image: a\n  storage: {size: 000Mi, mountPath: /d}\n", "spec.storage.size"},
	"a volume that is cut to 8Ei":       {head + "  image: a\n  storage: {size: 8388608Ti, mountPath: /d}\n", "spec.storage.size"},
	"a volume below nothing":            {head + "  image: a\n  storage: {size: -1Gi, mountPath: /d}\n", "spec.storage.size"},
	"v1alpha1 with a volume of nothing": {oldHead + "  image: a\n  persistent: true\n  storageSize: 0Ti\n", "spec.storageSize"},
	"a port whose name is a number":     {head + "  image: a\n  ports: [{name: '8080', port: 8080}]\n", "spec.ports[0].name"},
	"a port of two hyphens":             {head + "  image: a\n  ports: [{name: a--b, port: 8080}]\n", "spec.ports[0].name"},
	"a probe on port 0":                 {head + "  image: a\n  probes: {readiness: {httpGet: {port: 0}}}\n", "spec.probes.readiness"},
	"a probe above every port":          {head + "  image: a\n  probes: {startup: {tcpSocket: {port: 65536}}}\n", "spec.probes.startup"},
	"a probe below every port":          {head + "  image: a\n  probes: {liveness: {grpc: {port: -1}}}\n", "spec.probes.liveness"},
	"a probe that asks in two ways":     {head + "  image: a\n  probes: {readiness: {httpGet: {port: 80}, tcpSocket: {port: 80}}}\n", "spec.probes.readiness"},
	"a probe by no command":             {head + "  image: a\n  probes: {liveness: {exec: {}}}\n", "spec.probes.liveness"},
	"a probe by an empty command":       {head + "  image: a\n  probes: {startup: {exec: {command: []}}}\n", "spec.probes.startup"},
	"a probe that asks nothing":         {head + "  image: a\n  probes: {liveness: {tcpSocket: {port: 80}}, readiness: {}}\n", "spec.probes.readiness"},
	"a probe with a period alone":       {head + "  image: a\n  probes: {startup: {periodSeconds: 5}}\n", "spec.probes.startup"},
	"an unknown field":                  {head + "  image: a\n  replica: 3\n", "spec.replica"},
	"an unknown field deep down":        {head + "  image: a\n  ports: [{name: http, port: 80, prot: TCP}]\n", "spec.ports[0].prot"},
	"an unknown field at the top":       {head + "  image: a\nitems: []\n", "items"},
	"an unknown field in the metadata":  {"apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: NAME, namespace: default, label: {}}\nspec: {image: a}\n", "metadata"},
	"a field in another case":           {head + "  Image: a\n", "spec.Image"},
	"no image":                          {head + "  replicas: 1\n", "spec.image"},
	"an empty image":                    {head + "  image: ''\n", "spec.image"},
	"no spec":                           {"apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: NAME, namespace: default}\n", "spec"},
	"a text for a number":               {head + "  image: a\n  replicas: three\n", "spec.replicas"},
	"a number for a text":               {head + "  image: 1\n", "spec.image"},
	"a map for a list":                  {head + "  image: a\n  args: {a: b}\n", "spec.args"},
	"too many replicas":                 {head + "  image: a\n  replicas: 101\n", "spec.replicas"},
	"fewer than none":                   {head + "  image: a\n  replicas: -1\n", "spec.replicas"},
	"half a replica":                    {head + "  image: a\n  replicas: 1.5\n", "spec.replicas"},
	"a size that is no size":            {head + "  image: a\n  storage: {size: 10GB, mountPath: /d}\n", "spec.storage.size"},
	"a mode that there is not":          {head + "  image: a\n  drift: {mode: heal}\n", "spec.drift.mode"},
	"an image left to others":           {head + "  image: a\n  drift: {ignore: [{paths: [/spec/replicas, /spec/template/spec/containers/0/image]}]}\n", "spec.drift.ignore[0].paths"},
	"a token left to others":            {head + "  image: a\n  drift: {ignore: [{paths: [/spec/template/spec/automountServiceAccountToken]}]}\n", "spec.drift.ignore[0].paths"},
	"nothing left to others":            {head + "  image: a\n  drift: {ignore: [{kind: Deployment}]}\n", "spec.drift.ignore[0].paths"},
	"a path that is no pointer":         {head + "  image: a\n  drift: {ignore: [{paths: [spec.replicas]}]}\n", "spec.drift.ignore[0].paths[0]"},
	"a pointer with a stray tilde":      {head + "  image: a\n  drift: {ignore: [{paths: [/metadata/labels/a~2]}]}\n", "spec.drift.ignore[0].paths[0]"},
	"a kind that leaves nothing":        {head + "  image: a\n  drift: {ignore: [{kind: ServiceAccount, paths: [/metadata/labels/a]}]}\n", "spec.drift.ignore[0].kind"},
	"one port name twice":               {head + "  image: a\n  ports: [{name: a, port: 1}, {name: a, port: 2}]\n", "spec.ports[1]"},
	"a Secret by mount and env at once": {head + "  image: a\n  secrets: [{name: a, mountPath: /a, envFrom: true}]\n", "spec.secrets[0]"},
	"a Secret by neither":               {head + "  image: a\n  secrets: [{name: a}]\n", "spec.secrets[0]"},
	"a backup without a region":         {head + "  image: a\n  backup: {schedule: '0 3 * * *', image: b, s3: {bucket: b}}\n", "spec.backup.s3.region"},
	"a name that no Service can have":   {"apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: a.b, namespace: default}\nspec: {image: a}\n", ""},
	"a name of 53 characters":           {"apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyza, namespace: default}\nspec: {image: a}\n", ""},
	"a name in upper case":              {"apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: Web, namespace: default}\nspec: {image: a}\n", "metadata.name"},
	"a label that is none":              {"apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: NAME, namespace: default, labels: {a: 'b c'}}\nspec: {image: a}\n", "metadata.labels"},
	"a Gate without authorities":        {gateHead + "  images: [{match: 'r.io/**'}]\n", "spec.images[0]"},
	"a Gate with no authority listed":   {gateHead + "  images: [{match: 'r.io/**', authorities: []}]\n", "spec.images[0]"},
	"a namespace that is none":          {head + "  image: a\n  dependentNamespaces: ['shop-*']\n", "spec.dependentNamespaces[0]"},
	"a dependency on itself":            {head + "  image: a\n  dependsOn: [{name: NAME}]\n", "names the Workload itself: take it out"},
	"an authority with no key":          {gateHead + "  images: [{match: 'r.io/**', authorities: [{name: a}]}]\n", "spec.images[0].authorities[0]"},
	"an authority with an empty key":    {gateHead + "  images: [{match: 'r.io/**', authorities: [{key: {}}]}]\n", "spec.images[0].authorities[0].key"},
	"an authority with two keys":        {gateHead + "  images: [{match: 'r.io/**', authorities: [{key: {inline: a, secret: {name: a, namespace: b, key: c}}}]}]\n", "spec.images[0].authorities[0].key"},
	"more signatures than authorities":  {gateHead + "  images: [{match: 'r.io/**', require: 2, authorities: [{key: {inline: a}}]}]\n", "spec.images[0]"},
	"a requirement of nothing":          {gateHead + "  images: [{match: 'r.io/**', require: 0, authorities: [{key: {inline: a}}]}]\n", "spec.images[0].require"},
	"a requirement that there is not":   {gateHead + "  images: [{match: 'r.io/**', require: some, authorities: [{key: {inline: a}}]}]\n", "spec.images[0].require"},
	"a policy from two places":          {gateHead + "  policies: [{builtin: a, configMap: {name: a, namespace: b}}]\n", "spec.policies[0]"},
	"a policy from a registry too":      {strings.Replace(bundled, "{oci:", "{builtin: a, oci:", 1) + "authorities: [{key: {inline: a}}]}}]\n", "spec.policies[0]"},
	"a policy from nowhere":             {gateHead + "  policies: [{}]\n", "spec.policies[0]"},
	"a bundle that nobody has signed":   {bundled + "authorities: []}}]\n", "spec.policies[0].oci.authorities"},
	"a bundle that anybody has signed":  {bundled + "registrySecret: {name: a, namespace: b}}}]\n", "spec.policies[0].oci.authorities"},
	"17 authorities of a bundle":        {bundled + "authorities: [" + strings.Repeat("{key: {inline: a}}, ", 17) + "]}}]\n", "spec.policies[0].oci.authorities"},
	"a bundle by its tag":               {gateHead + "  policies: [{oci: {ref: 'registry.example.com/policies/prod:1.4.0', authorities: [{key: {inline: a}}]}}]\n", "sluice policy push prints it"},
	"a bundle by tag and digest":        {strings.Replace(bundled, "@sha256", ":1@sha256", 1) + "authorities: [{key: {inline: a}}]}}]\n", "spec.policies[0].oci.ref"},
	"a bundle by an identity of nobody": {bundled + "authorities: [{keyless: {issuer: 'https://i'}}]}}]\n", "spec.policies[0].oci.authorities[0].keyless"},
	"canary for another strategy":       {head + "  image: a\n  rollout: {canary: {}}\n", "spec.rollout"},
	"a strategy that there is not":      {head + "  image: a\n  rollout: {strategy: BlueGreen}\n", "spec.rollout.strategy"},
	"a deadline that nothing meets":     {head + "  image: a\n  rollout: {progressDeadline: 9.999s}\n", "spec.rollout.progressDeadline"},
	"a deadline below nothing":          {head + "  image: a\n  rollout: {progressDeadline: -10m}\n", "spec.rollout.progressDeadline"},
	"a deadline that never comes":       {head + "  image: a\n  rollout: {progressDeadline: 25h}\n", "spec.rollout.progressDeadline"},
	"a deadline without a unit":         {head + "  image: a\n  rollout: {progressDeadline: 600}\n", "spec.rollout.progressDeadline"},
	"a batch of nothing":                {canaryHead + "      batchSize: 0\n", "spec.rollout.canary.batchSize"},
	"a batch of 0 percent":              {canaryHead + "      batchSize: 0%\n", "spec.rollout.canary.batchSize"},
	"a batch of more than all":          {canaryHead + "      batchSize: 101%\n", "spec.rollout.canary.batchSize"},
	"a batch in words":                  {canaryHead + "      batchSize: all\n", "spec.rollout.canary.batchSize"},
	"a step to nothing":                 {canaryHead + "      steps: [{replicas: 0}]\n", "spec.rollout.canary.steps[0].replicas"},
	"a step that goes nowhere":          {canaryHead + "      steps: [{pause: 1m}]\n", "spec.rollout.canary.steps[0].replicas"},
	"a pause of a month":                {canaryHead + "      steps: [{replicas: 1, pause: 720h}]\n", "spec.rollout.canary.steps[0].pause"},
	"21 steps":                          {canaryHead + "      steps: [" + strings.Repeat("{replicas: 1}, ", 20) + "{replicas: 1}]\n", "spec.rollout.canary.steps"},
	"a watch of no time":                {canaryHead + "      interval: 0s\n", "spec.rollout.canary.interval"},
	"a limit that is met at once":       {canaryHead + "      failureLimit: 0\n", "spec.rollout.canary.failureLimit"},
	"an analysis of nothing":            {canaryHead + "      analysis: {metrics: []}\n", "spec.rollout.canary.analysis.metrics"},
	"11 metrics":                        {canaryHead + "      analysis: {metrics: [" + strings.TrimSuffix(metricsOf(11), ",") + "]}\n", "spec.rollout.canary.analysis.metrics"},
	"one metric twice":                  {canaryHead + "      analysis: {metrics: [{name: a, query: a, failIf: '> 1'}, {name: a, query: b, failIf: '> 1'}]}\n", "spec.rollout.canary.analysis.metrics[1]"},
	"a metric without a query":          {canaryHead + "      analysis: {metrics: [{name: a, query: '', failIf: '> 1'}]}\n", "spec.rollout.canary.analysis.metrics[0].query"},
	"a condition without a number":      {canaryHead + "      analysis: {metrics: [{name: a, query: a, failIf: '> x'}]}\n", "spec.rollout.canary.analysis.metrics[0].failIf"},
	"a condition without an operator":   {canaryHead + "      analysis: {metrics: [{name: a, query: a, failIf: '1'}]}\n", "spec.rollout.canary.analysis.metrics[0].failIf"},
	"a condition that is met by NaN":    {canaryHead + "      analysis: {metrics: [{name: a, query: a, failIf: '!= NaN'}]}\n", "spec.rollout.canary.analysis.metrics[0].failIf"},
	"a meaning of no data":              {canaryHead + "      analysis: {noData: Ignore, metrics: [{name: a, query: a, failIf: '> 1'}]}\n", "spec.rollout.canary.analysis.noData"},
	"an analysis that ends too early":   {canaryHead + "      interval: 10m\n      analysis: {metrics: [{name: a, query: a, failIf: '> 1'}]}\n", "spec.rollout.canary"},
	"a Prometheus of one's own":         {canaryHead + "      analysis: {address: 'http://169.254.169.254', metrics: [{name: a, query: a, failIf: '> 1'}]}\n", "spec.rollout.canary.analysis.address"},
	"v1alpha1 with a field of v1beta1":  {oldHead + "  image: a\n  ports: [{name: http, port: 80}]\n", "spec.ports"},
	"v1alpha1 without an image":         {oldHead + "  port: 80\n", "spec.image"},
	"v1alpha1 on no port":               {oldHead + "  image: a\n  port: 0\n", "spec.port"},
	"v1alpha1 with too many replicas":   {oldHead + "  image: a\n  replicas: 101\n", "spec.replicas"},
	"v1alpha1 with a volume of no size": {oldHead + "  image: a\n  persistent: true\n", "spec"},
	"v1alpha1 with a size of no volume": {oldHead + "  image: a\n  storageSize: 1Gi\n", "spec"},
	"v1alpha1 with a size that is none": {oldHead + "  image: a\n  persistent: true\n  storageSize: 1GB\n", "spec.storageSize"},
	"an Exemption of nothing":           {exemptionHead + "  policies: [signature]\n", "spec"},
	"an Exemption of empty lists":       {exemptionHead + "  policies: [signature]\n  objects: []\n  images: []\n", "spec"},
	"an Exemption from no policy":       {exemptionHead + "  policies: []\n  images: [r.io/a]\n", "spec.policies"},
	"an Exemption from every policy":    {exemptionHead + "  policies: ['*']\n  images: [r.io/a]\n", "spec.policies[0]"},
	"an Exemption from a Gate's group":  {exemptionHead + "  policies: ['reliability/*']\n  images: [r.io/a]\n", "spec.policies[0]"},
	"an Exemption of a Gate":            {exemptionHead + "  policies: [signature]\n  objects: [{kind: Gate, namespace: shop, name: a}]\n", "spec.objects[0].kind"},
	"an Exemption of every object":      {exemptionHead + "  policies: [signature]\n  objects: [{kind: Workload, namespace: shop, name: '*'}]\n", "spec.objects[0].name"},
	"an Exemption in every namespace":   {exemptionHead + "  policies: [signature]\n  objects: [{kind: Workload, namespace: '*', name: a}]\n", "spec.objects[0].namespace"},
	"an Exemption under every Gate":     {strings.Replace(exemptionHead, "[prod]", "['*']", 1) + "  policies: [signature]\n  images: [r.io/a]\n", "spec.gates[0]"},
	"an Exemption without a reason":     {strings.Replace(exemptionHead, "an incident", "' '", 1) + "  policies: [signature]\n  images: [r.io/a]\n", "spec.reason"},
	"an Exemption without an end":       {strings.Replace(exemptionHead, "  expires: 2026-12-24T00:00:00Z\n", "", 1) + "  policies: [signature]\n  images: [r.io/a]\n", "spec.expires"},
	"an Exemption until some day":       {strings.Replace(exemptionHead, "2026-12-24T00:00:00Z", "2026-12-24", 1) + "  policies: [signature]\n  images: [r.io/a]\n", "spec.expires"},
	"a Gate that looks all the time":    {gateHead + "  reverify: {interval: 59s}\n", "spec.reverify.interval"},
	"a Gate that hardly looks":          {gateHead + "  reverify: {interval: 24.1h}\n", "spec.reverify.interval"},
	"a Gate that takes more than pods":  {gateHead + "  reverify: {onFailure: Delete}\n", "spec.reverify.onFailure"},
}
