// Command manager is the operator: it reconciles Workloads and answers admission.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	config, err := parse(os.Args[1:], os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager: "+err.Error())
		os.Exit(2)
	}
	if err := run(ctrl.SetupSignalHandler(), config); err != nil {
		fmt.Fprintln(os.Stderr, "manager: "+err.Error())
		os.Exit(1)
	}
}
