package testkit

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// WorkflowStep is what a runner of GitHub runs in a step: a script for bash, and its variables,
// in which expressions stand as they are written.
type WorkflowStep struct {
	Name, Run string
	Env       map[string]string
}

// ReadWorkflowStep reads the step of this name in a job of the workflow in file.
func ReadWorkflowStep(file, job, name string) (WorkflowStep, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return WorkflowStep{}, err
	}
	var w struct {
		Jobs map[string]struct{ Steps []WorkflowStep }
	}
	if err := yaml.Unmarshal(raw, &w); err != nil {
		return WorkflowStep{}, fmt.Errorf("%s: %w", file, err)
	}
	for _, step := range w.Jobs[job].Steps {
		if step.Name == name {
			return step, nil
		}
	}
	return WorkflowStep{}, fmt.Errorf("%s has no step %q in job %s", file, name, job)
}
