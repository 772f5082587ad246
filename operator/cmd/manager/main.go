// Command manager is the operator: it reconciles Workloads and answers admission.
package main

import (
	"errors"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	config, err := parse(os.Args[1:], os.Getenv)
	if usage := help(""); errors.As(err, &usage) {
		fmt.Print(usage)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager: "+err.Error())
		os.Exit(2)
	}
	if err := run(ctrl.SetupSignalHandler(), config); err != nil {
		fmt.Fprintln(os.Stderr, "manager: "+err.Error())
		os.Exit(1)
	}
}
