// Command argocdconfig prints the ConfigMap that teaches Argo CD Sluice's kinds.
package main

import (
	"fmt"
	"os"

	scripts "github.com/sluice-dev/sluice/kustomize/argocd"
	"github.com/sluice-dev/sluice/operator/internal/argocd"
)

func main() {
	text, err := argocd.ConfigMap(scripts.Customizations)
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
