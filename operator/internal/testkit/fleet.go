package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// WriteFleet writes n Workloads into dir/base, each in a file of its own, and the overlay
// dir/overlay over them. They keep all that the library's groups restricted and tenancy
// demand. Their namespace is that of WriteGate.
func WriteFleet(dir string, n int) error {
	var resources strings.Builder
	for i := range n {
		fmt.Fprintf(&resources, "- w%d.yaml\n", i)
		if err := writeFile(filepath.Join(dir, "base", fmt.Sprintf("w%d.yaml", i)), fmt.Sprintf(fleetWorkload, i)); err != nil {
			return err
		}
	}
	return errors.Join(
		writeFile(filepath.Join(dir, "base", "kustomization.yaml"), "resources:\n"+resources.String()),
		writeFile(filepath.Join(dir, "overlay", "kustomization.yaml"), "resources: [../base]\n"))
}

// WriteGate writes the Gate of such a fleet, with groups of the library, and its Namespace
// into dir/gate.yaml. No image has to be signed: no registry is asked.
func WriteGate(dir string, groups ...string) error {
	policies := ""
	if len(groups) > 0 {
		policies = "  policies: [{builtin: " + strings.Join(groups, "}, {builtin: ") + "}]\n"
	}
	return writeFile(filepath.Join(dir, "gate.yaml"), fmt.Sprintf(fleetGate, policies))
}

func writeFile(file, content string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(content), 0o600)
}

const fleetWorkload = `apiVersion: sluice.dev/v1beta1
kind: Workload
metadata:
  name: w%[1]d
  namespace: shop
spec:
  image: registry.example.com/shop/w%[1]d:1.0.%[1]d
  replicas: 3
  ports:
  - {name: http, port: 8080}
  resources:
    requests: {cpu: 100m, memory: 128Mi}
    limits: {memory: 256Mi}
  probes:
    readiness:
      httpGet: {path: /ready, port: http}
`

const fleetGate = `apiVersion: sluice.dev/v1beta1
kind: Gate
metadata: {name: prod}
spec:
  environment: prod
  match: {namespaceSelector: {matchLabels: {environment: prod}}}
%[1]s  images: [{match: registry.example.com/**, require: none}]
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {environment: prod}}
`
