package policy

import "github.com/open-policy-agent/opa/v1/ast"

// commonWords have one term each, in place of one wherever they stand: the fields of most
// objects of Kubernetes, and of what Sluice gives beside them. Nobody may change the terms.
var commonWords = termsOf(
	"addresses", "affinity", "allowPrivilegeEscalation", "annotations", "apiVersion", "app.kubernetes.io/component",
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/version",
	"args", "automountServiceAccountToken", "capabilities", "children", "command", "configMap", "containerPort", "containers", "cpu", "data",
	"digest", "drop", "egress", "emptyDir", "env", "envFrom", "environment", "failureThreshold", "fsGroup", "fsGroupChangePolicy", "host",
	"httpGet", "image", "imagePullPolicy", "images", "ingress", "initContainers", "initialDelaySeconds", "key", "kind", "labels", "limits",
	"livenessProbe", "locations", "matchExpressions", "matchLabels", "maxSkew", "maxSurge", "maxUnavailable", "memory", "metadata",
	"minAvailable", "mountPath", "name", "namespace", "namespaceSelector", "nodeSelector", "object", "operator", "parameters", "path",
	"periodSeconds", "persistentVolumeClaim", "pinned", "podSelector", "policyTypes", "port", "ports", "probes", "protocol", "readOnly",
	"readOnlyRootFilesystem", "readiness", "readinessProbe", "replicas", "repository", "requests", "resources", "restartPolicy",
	"rollingUpdate", "runAsGroup", "runAsNonRoot", "runAsUser", "scheme", "seccompProfile", "secret", "secretKeyRef", "secretName",
	"securityContext", "selector", "serviceAccountName", "serviceName", "sizeLimit", "spec", "startupProbe", "storage", "strategy", "subPath",
	"tag", "targetPort", "template", "terminationGracePeriodSeconds", "timeoutSeconds", "tolerations", "topologyKey",
	"topologySpreadConstraints", "type", "updateStrategy", "value", "valueFrom", "values", "volumeMounts", "volumes", "whenUnsatisfiable", "workload",
	// Those of findings, and values that are as common.
	"msg", "remedy",
	"ALL", "ClusterIP", "Deployment", "Ingress", "NetworkPolicy", "PodDisruptionBudget", "RuntimeDefault", "Service", "ServiceAccount",
	"StatefulSet", "TCP", "Workload", "apps/v1", "networking.k8s.io/v1", "policy/v1", "sluice", "sluice.dev/v1beta1", "v1", "", "http",
)

// termOf a text, which is one of commonWords or made.
func termOf(s string) *ast.Term {
	if term, ok := commonWords[s]; ok {
		return term
	}
	return ast.StringTerm(s)
}

func termsOf(words ...string) map[string]*ast.Term {
	terms := make(map[string]*ast.Term, len(words))
	for _, word := range words {
		terms[word] = ast.StringTerm(word)
	}
	return terms
}

// converter makes OPA's values of decoded objects as ast.InterfaceToValue does, which makes
// twice as many allocations: one for each term, and for each list of what is put into an object.
type converter struct {
	// terms are spare ones.
	terms []ast.Term
	// fields are those of the objects that are being made, the outermost first.
	fields [][2]*ast.Term
}

// termBlock is how many terms are allocated at once; a Workload with its children has 200.
const termBlock = 128

// object reads a missing map as an empty object: a policy that looks into it then finds
// nothing, as it would in an object without that field.
func (c *converter) object(x map[string]any) (ast.Value, error) {
	if x == nil {
		return ast.NewObject(), nil
	}
	return c.value(x)
}

func (c *converter) value(x any) (ast.Value, error) {
	switch x := x.(type) {
	case map[string]any:
		start := len(c.fields)
		for key, part := range x {
			value, err := c.term(part)
			if err != nil {
				return nil, err
			}
			c.fields = append(c.fields, [2]*ast.Term{c.text(key), value})
		}
		object := ast.NewObject(c.fields[start:]...)
		c.fields = c.fields[:start]
		return object, nil
	case []any:
		list := make([]*ast.Term, len(x))
		for i, part := range x {
			var err error
			if list[i], err = c.term(part); err != nil {
				return nil, err
			}
		}
		return ast.NewArray(list...), nil
	}
	return ast.InterfaceToValue(x)
}

func (c *converter) term(x any) (*ast.Term, error) {
	switch x := x.(type) {
	case string:
		return c.text(x), nil
	case bool:
		return ast.InternedTerm(x), nil
	}
	value, err := c.value(x)
	if err != nil {
		return nil, err
	}
	return c.of(value), nil
}

func (c *converter) text(s string) *ast.Term {
	if term, ok := commonWords[s]; ok {
		return term
	}
	return c.of(ast.String(s))
}

func (c *converter) of(value ast.Value) *ast.Term {
	if len(c.terms) == 0 {
		c.terms = make([]ast.Term, termBlock)
	}
	term := &c.terms[0]
	c.terms = c.terms[1:]
	term.Value = value
	return term
}
