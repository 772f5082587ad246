package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/internal/bundle"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func policyPushCommand(s streams) *cobra.Command {
	var o registryFlags
	c := &cobra.Command{
		Use:   "push DIR REPOSITORY[:TAG]",
		Short: "Push the policies of a folder as a bundle that a Gate can name",
		Long: `Push the Rego modules of DIR, and of the folders below it, to a registry, as a bundle for
spec.policies[].oci of a Gate. Tests (_test.rego), documentation and hidden folders stay out.

What the gate would refuse is refused, and the modules are compiled as the gate will, before
anything is pushed. The same modules make the same digest, which is printed; sign that with
cosign. A Gate takes no bundle that nobody signed.`,
		Example: "  sluice policy push policies/ registry.example.com/policies/prod:1.4.0\n  cosign sign --key cosign.key $(sluice policy push policies/ registry.example.com/policies/prod)",
		Args:    takes(2, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return pushPolicies(c.Context(), s, &o, args[0], args[1])
		},
	}
	o.register(c)
	return c
}

func pushPolicies(ctx context.Context, s streams, o *registryFlags, dir, to string) error {
	ref, err := images.Parse(to)
	switch {
	case err != nil:
		return usage("%w", err)
	case ref.Pinned():
		return usage("%s: the digest is what comes of pushing: name a repository, and a tag if it is to have one", to)
	}
	modules, err := readPolicies(dir)
	if err != nil {
		return usage("%s: %w", dir, err)
	}
	packed, err := bundle.Pack(modules)
	if err != nil {
		return usage("%s: %w", dir, err)
	}
	if err := policy.Compile(gate.PolicySet{Name: ref.Repository, Modules: modules}); err != nil {
		return usage("%s: the policies do not compile: %w", dir, err)
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	if err := client.PushBundle(ctx, ref.Repository, ref.Tag, packed, nil); err != nil {
		return &exit{code: ExitUndecided, err: fmt.Errorf("it is safe to try again: %w", err)}
	}
	pinned := ref.Repository + "@" + packed.Digest()
	say(s.out, "", pinned)
	say(s.err, "sluice: ", fmt.Sprintf("pushed %d modules; sign them, with the key or identity that the Gate names: cosign sign --key cosign.key %s", len(modules), pinned))
	return nil
}

// readPolicies reads the modules below a folder, and refuses what may not be in a bundle. What
// is hidden, such as .git, is none of it.
func readPolicies(dir string) (map[string]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files, n := bundle.NewFiles(), 0
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		hidden := name != "." && strings.HasPrefix(path.Base(name), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case entry.IsDir() || hidden && path.Base(name) != ".manifest":
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is a link or no file: put the file itself in its place", name)
		}
		if n++; n > limits.BundleFiles {
			return fmt.Errorf("it has more than %d files (limits.BundleFiles): name the folder with the policies alone", limits.BundleFiles)
		}
		var content []byte
		if bundle.Wanted(name) {
			if content, err = readPolicy(root, name); err != nil {
				return err
			}
		}
		return files.Add(name, content)
	})
	if err != nil {
		return nil, err
	}
	return files.Modules()
}

func readPolicy(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limits.PolicyBytes+1))
	if err == nil && len(text) > limits.PolicyBytes {
		err = errors.New("it is larger than a bundle may be (limits.PolicyBytes)")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}
