package gather

import (
	"errors"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-dev/sluice/operator/internal/kustomize"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Secrets finds what nothing that is said of a Workload may show: the secrets in its
// manifest, in its patches, which are text there, and in what it renders to.
func Secrets(content map[string]any, children ...map[string]any) *redact.Secrets {
	objects := []any{content}
	for _, c := range children {
		objects = append(objects, c)
	}
	patches, _, _ := unstructured.NestedFieldNoCopy(content, "spec", "patches")
	list, _ := patches.([]any)
	for _, p := range list {
		entry, _ := p.(map[string]any)
		text, _ := entry["patch"].(string)
		inside, readable := documents(text)
		objects = append(objects, inside...)
		if !readable || redact.SecretsOf(inside...) != nil {
			// Within the text a secret may be written in ways that are not looked for.
			objects = append(objects, redact.Opaque(text))
		}
	}
	return redact.SecretsOf(objects...)
}

// documents reads YAML as far as it is YAML, and says whether it is.
func documents(text string) (out []any, readable bool) {
	if kustomize.CheckAliases([]byte(text)) != nil {
		return nil, false
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out, true
		}
		if err != nil {
			return out, false
		}
		out = append(out, document)
	}
}
