package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/policyimport"
)

func policyCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "Work on the policies of a Gate", Args: takes(0, 0)}
	c.AddCommand(policyImportCommand(s), policyPushCommand(s))
	return c
}

type policyImportOptions struct {
	namespace string
	dir       string
}

func policyImportCommand(s streams) *cobra.Command {
	var o policyImportOptions
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Make a policy of a Gatekeeper ConstraintTemplate",
		Long: `Make a policy of each ConstraintTemplate in FILE, or in standard input for -.

What is printed is a ConfigMap, for spec.policies of a Gate. The spec of the template's
Constraint goes to spec.parameters of the Gate, under the name of the template.`,
		Example: "  sluice policy import template.yaml > policies/required-labels.yaml\n  sluice policy import template.yaml --dir policies/",
		Args:    takes(1, 1),
		RunE:    func(_ *cobra.Command, args []string) error { return o.run(s, args[0]) },
	}
	c.Flags().StringVar(&o.namespace, "namespace", "sluice-system", "namespace of the ConfigMap: that of the operator")
	c.Flags().StringVar(&o.dir, "dir", "", "folder to write the modules to, in place of printing a ConfigMap")
	return c
}

func (o *policyImportOptions) run(s streams, file string) error {
	objects, err := overlay.Read("", file, s.in)
	if err != nil {
		return usage("%w", err)
	}
	var imported []policyimport.Policy
	for _, object := range objects {
		gvk := object.GroupVersionKind()
		if gvk.Group != policyimport.TemplateGroup || gvk.Kind != policyimport.TemplateKind {
			continue
		}
		p, err := policyimport.Template(object.Object)
		if err != nil {
			return usage("%s: ConstraintTemplate %s: %w", object.File, object.GetName(), err)
		}
		imported = append(imported, p)
	}
	if len(imported) == 0 {
		return usage("%s holds no %s of %s: nothing was imported", file, policyimport.TemplateKind, policyimport.TemplateGroup)
	}
	for _, p := range imported {
		if err := o.write(s, p); err != nil {
			return err
		}
	}
	return nil
}

func (o *policyImportOptions) write(s streams, p policyimport.Policy) error {
	if o.dir != "" {
		return writeModules(s, o.dir, p)
	}
	text, err := configMap(p.Name, o.namespace, p.Modules)
	if err != nil {
		return usage("ConfigMap %s: %w", p.Name, err)
	}
	if _, err := fmt.Fprintf(s.out, "---\n%s", text); err != nil {
		return usage("write: %w", err)
	}
	say(s.err, "sluice: ", fmt.Sprintf("a Gate asks for it by spec.policies: [{configMap: {name: %s, namespace: %s}}]", p.Name, o.namespace))
	if p.Parameters {
		say(s.err, "sluice: ", fmt.Sprintf("write the spec of its Constraint to spec.parameters.%s of the Gate", p.Name))
	}
	return nil
}

// configMap holds modules as they are read and edited, in blocks. The YAML writers that
// there are make one line with escapes of a text with tabs, as Rego has.
func configMap(name, namespace string, modules map[string]string) ([]byte, error) {
	meta := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": namespace},
	}
	text, err := yaml.Marshal(meta)
	if err != nil {
		return nil, err
	}
	block := bytes.NewBuffer(text)
	block.WriteString("data:\n")
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		fmt.Fprintf(block, "  %s: |\n", module)
		for line := range strings.Lines(modules[module]) {
			if strings.TrimSpace(line) != "" {
				block.WriteString("    ")
			}
			block.WriteString(line)
		}
	}
	// What does not come out of the block as it went in is written the sure way.
	var read struct{ Data map[string]string }
	if err := yaml.Unmarshal(block.Bytes(), &read); err == nil && maps.Equal(read.Data, modules) {
		return block.Bytes(), nil
	}
	meta["data"] = modules
	return yaml.Marshal(meta)
}

// writeModules never overwrites: a module may have been edited since it was imported.
func writeModules(s streams, dir string, p policyimport.Policy) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usage("--dir: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Modules)) {
		path := filepath.Join(dir, name)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return usage("%s is there already: remove it to import it anew", path)
		}
		if err != nil {
			return usage("%w", err)
		}
		_, err = f.WriteString(p.Modules[name])
		if err := errors.Join(err, f.Close()); err != nil {
			return usage("%s: %w", path, err)
		}
		say(s.err, "sluice: ", "wrote "+path)
	}
	return nil
}
