package bench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
)

// fleet writes an overlay over n Workloads, and a Gate with 16 policies or more.
func fleet(b *testing.B, n int) string {
	b.Helper()
	dir := b.TempDir()
	write := func(name, content string) {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	var resources strings.Builder
	for i := range n {
		name := fmt.Sprintf("w%d.yaml", i)
		resources.WriteString("- " + name + "\n")
		write("base/"+name, fmt.Sprintf(`apiVersion: sluice.dev/v1beta1
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
`, i))
	}
	write("base/kustomization.yaml", "resources:\n"+resources.String())
	write("overlay/kustomization.yaml", "resources: [../base]\n")
	write("gate/gate.yaml", `apiVersion: sluice.dev/v1beta1
kind: Gate
metadata: {name: prod}
spec:
  environment: prod
  match: {namespaceSelector: {matchLabels: {environment: prod}}}
  policies: [{builtin: restricted}, {builtin: tenancy}]
  images: [{match: registry.example.com/**, require: none}]
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {environment: prod}}
`)
	return dir
}

// BenchmarkCheck_AThousandWorkloads is all of `sluice check` but the start of the process.
func BenchmarkCheck_AThousandWorkloads(b *testing.B) {
	dir := fleet(b, 1000)
	args := []string{"check", "--no-cache", filepath.Join(dir, "overlay"), "--root", dir, "--gate", filepath.Join(dir, "gate")}
	b.ReportAllocs()
	for b.Loop() {
		if code := cli.Main(b.Context(), args, strings.NewReader(""), io.Discard, io.Discard); code != cli.ExitPass {
			b.Fatalf("exit code %d", code)
		}
	}
}
