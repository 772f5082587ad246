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
	log := logTo(os.Stderr)
	if err := run(ctrl.SetupSignalHandler(), log, config); err != nil {
		log.Error(err, "Manager ended")
		os.Exit(1)
	}
}
