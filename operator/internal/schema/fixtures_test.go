package schema_test

// head starts a Workload; a fixture goes on below its spec.
const head = "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: NAME, namespace: default}\nspec:\n"

const gateHead = "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: NAME}\nspec:\n  environment: prod\n"

// accepted are manifests that the API server takes. Their defaults are what is compared.
var accepted = map[string]string{
	"the least":                     head + "  image: a\n",
	"ports without a protocol":      head + "  image: a\n  ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]\n",
	"a drift without a mode":        head + "  image: a\n  drift: {}\n",
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
	"a Gate, the least":             gateHead,
	"a Gate in a namespace":         "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: NAME, namespace: shop}\nspec: {environment: prod}\n",
	"a Gate with a rule":            gateHead + "  images: [{match: 'r.io/**', authorities: [{key: {inline: pem}}]}]\n",
	"a Gate with a count":           gateHead + "  images: [{match: 'r.io/**', require: 1, authorities: [{name: a, key: {secret: {name: s, namespace: ns, key: k}}}]}]\n",
	"a Gate that asks for nothing":  gateHead + "  images: [{match: 'r.io/**', require: none}]\n",
	"a Gate with parameters":        gateHead + "  parameters: {a: {b: [1, 2.5, null, {c: d}]}, e: text}\n  policies: [{builtin: restricted}, {configMap: {name: a, namespace: b}}]\n",
}

// refused are manifests that the API server does not take, with the field that has to be
// named.
var refused = map[string]struct{ manifest, field string }{
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
	"a dependency on itself":            {head + "  image: a\n  dependsOn: [{name: NAME}]\n", "names the Workload itself"},
	"an authority with no key":          {gateHead + "  images: [{match: 'r.io/**', authorities: [{name: a}]}]\n", "spec.images[0].authorities[0]"},
	"an authority with an empty key":    {gateHead + "  images: [{match: 'r.io/**', authorities: [{key: {}}]}]\n", "spec.images[0].authorities[0].key"},
	"an authority with two keys":        {gateHead + "  images: [{match: 'r.io/**', authorities: [{key: {inline: a, secret: {name: a, namespace: b, key: c}}}]}]\n", "spec.images[0].authorities[0].key"},
	"more signatures than authorities":  {gateHead + "  images: [{match: 'r.io/**', require: 2, authorities: [{key: {inline: a}}]}]\n", "spec.images[0]"},
	"a requirement of nothing":          {gateHead + "  images: [{match: 'r.io/**', require: 0, authorities: [{key: {inline: a}}]}]\n", "spec.images[0].require"},
	"a requirement that there is not":   {gateHead + "  images: [{match: 'r.io/**', require: some, authorities: [{key: {inline: a}}]}]\n", "spec.images[0].require"},
	"a policy from two places":          {gateHead + "  policies: [{builtin: a, configMap: {name: a, namespace: b}}]\n", "spec.policies[0]"},
	"a policy from nowhere":             {gateHead + "  policies: [{}]\n", "spec.policies[0]"},
}
