package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	workloadkustomize "github.com/sluice-dev/sluice/kustomize/components/workload-kustomize"
	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// promoteCases are those of promotion that are about the command.
var promoteCases = []commandCase{
	{7, "the overlay pins the same digest already", "no commit, exit 0, says so", pinnedAlready},
	{8, "two promotions for the same overlay at once", "one lands, the other changes nothing", twoAtOnce},
	{9, "pinned by images, by a patch, in the CR; with comments, anchors, a tag", "the right place, every other byte stays", rightPlace},
	{10, "dev to prod directly", "refused, naming ci and e2e", directly},
	{11, "evidence exists, the next environment's own policies deny", "the pull request says DENY; nothing is committed", deniedNext},
}

// fleet is a repository with an overlay for each of four environments, each demanding
// evidence of the one before it. older and newer are two builds with evidence of e2e.
type fleet struct {
	dir, older, newer string
	registry          *testkit.Registry
	key               *testkit.Key
}

var demanded = map[string]string{"dev": "", "ci": "dev", "e2e": "ci", "prod": "e2e"}

func newFleet(ctx context.Context) (f *fleet, err error) {
	keys, err := twoKeys()
	if err != nil {
		return nil, err
	}
	f = &fleet{registry: testkit.NewRegistry(testkit.RegistryOptions{Referrers: true}), key: keys[0]}
	if f.dir, err = os.MkdirTemp("", "case-*"); err != nil {
		return f, err
	}
	for version, digest := range map[string]*string{"1.0.0": &f.older, "1.1.0": &f.newer} {
		if *digest, err = testkit.PushImage(f.image()+":"+version, version); err != nil {
			return f, err
		}
		b := bench{key: keys[0]}
		if err := b.attest(ctx, f.key, f.image()+"@"+*digest); err != nil {
			return f, err
		}
	}
	for environment := range demanded {
		digest := f.newer
		if environment == "prod" {
			digest = f.older
		}
		if err := f.overlay(environment, digest, ""); err != nil {
			return f, err
		}
	}
	if err := f.git(ctx, "init", "-q", "-b", "main"); err != nil {
		return f, err
	}
	return f, f.commit(ctx)
}

func (f *fleet) close() {
	if f == nil {
		return
	}
	f.registry.Close()
	os.RemoveAll(f.dir)
}

func (f *fleet) image() string { return f.registry.Host() + "/shop/app" }

func (f *fleet) write(files map[string]string) error {
	var errs []error
	for name, content := range files {
		file := filepath.Join(f.dir, name)
		errs = append(errs, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600))
	}
	return errors.Join(errs...)
}

// overlay writes that of an environment, pinned in the CR, and more to its Gate.
func (f *fleet) overlay(environment, digest, more string) error {
	demand := ""
	if from := demanded[environment]; from != "" {
		demand = "  requirePromotionFrom:\n    environment: " + from + "\n    authorities:\n    - key:\n        inline: |\n          " +
			strings.ReplaceAll(strings.TrimSpace(f.key.PublicPEM), "\n", "\n          ") + "\n"
	}
	at := "overlays/" + environment + "/"
	return f.write(map[string]string{
		at + "kustomization.yaml": "resources: [gate.yaml, web.yaml]\n",
		at + "gate.yaml":          "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: " + environment + "}\nspec:\n  environment: " + environment + "\n  unmatchedImages: Allow\n" + demand + more + shopSpace,
		at + "web.yaml":           strings.Replace(webWorkload, "registry.example.com/shop/web:1", f.image()+"@"+digest, 1),
	})
}

func (f *fleet) git(ctx context.Context, args ...string) error {
	_, err := f.asked(ctx, args...)
	return err
}

func (f *fleet) asked(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", f.dir}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %v: %w: %s", args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func (f *fleet) commit(ctx context.Context) error {
	return errors.Join(
		f.git(ctx, "config", "user.name", "case"), f.git(ctx, "config", "user.email", "case@example.com"),
		f.git(ctx, "add", "-A"), f.git(ctx, "commit", "-q", "-m", "case"),
	)
}

// promote runs the command, and holds it against an exit code and what it has to say.
func (f *fleet) promote(ctx context.Context, code int, says string, args ...string) error {
	got, said := f.promoted(ctx, args...)
	if got != code || !strings.Contains(said, says) {
		return fmt.Errorf("%v: exit code %d and not %d, or %q is not said: %s", args, got, code, says, said)
	}
	return nil
}

func (f *fleet) promoted(ctx context.Context, args ...string) (int, string) {
	var out bytes.Buffer
	args = append([]string{"promote", "--overlays=" + filepath.Join(f.dir, "overlays"), "--pull-request=false"}, args...)
	code := cli.Main(ctx, args, strings.NewReader(""), &out, &out)
	return code, out.String()
}

// unchanged runs something, after which the repository has to be what it was.
func (f *fleet) unchanged(ctx context.Context, run func() error) error {
	state := func() (string, error) {
		refs, err := f.asked(ctx, "for-each-ref")
		if err != nil {
			return "", err
		}
		status, err := f.asked(ctx, "status", "--porcelain")
		return refs + "\n" + status, err
	}
	before, err := state()
	if err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	after, err := state()
	if err == nil && before != after {
		err = fmt.Errorf("the repository was changed: %s, and was %s", after, before)
	}
	return err
}

// inFleet gives a case a fleet of its own.
func inFleet(ctx context.Context, run func(*fleet) error) error {
	f, err := newFleet(ctx)
	defer f.close()
	if err != nil {
		return err
	}
	return run(f)
}

func pinnedAlready(ctx context.Context) error {
	return inFleet(ctx, func(f *fleet) error {
		if err := errors.Join(f.overlay("prod", f.newer, ""), f.commit(ctx)); err != nil {
			return err
		}
		return f.unchanged(ctx, func() error {
			return f.promote(ctx, cli.ExitPass, "prod has all of it already: nothing to do", "--from=e2e", "--to=prod")
		})
	})
}

func twoAtOnce(ctx context.Context) error {
	return inFleet(ctx, func(f *fleet) error {
		other, err := testkit.PushImage(f.image()+":1.2.0", "1.2.0")
		if err != nil {
			return err
		}
		b := bench{key: f.key}
		if err := b.attest(ctx, f.key, f.image()+"@"+other); err != nil {
			return err
		}
		ways := [][]string{{"--from=e2e", "--to=prod"}, {"--to=prod", "--image=" + f.image() + "@" + other}}
		codes, said := make([]int, len(ways)), make([]string, len(ways))
		var both sync.WaitGroup
		for i, args := range ways {
			both.Go(func() { codes[i], said[i] = f.promoted(ctx, args...) })
		}
		both.Wait()
		loser := slices.Index(codes, cli.ExitUsage)
		if loser < 0 || codes[1-loser] != cli.ExitPass || !strings.Contains(said[loser], "another promotion is under way") {
			return fmt.Errorf("exit codes %v: %v", codes, said)
		}
		refs, err := f.asked(ctx, "for-each-ref", "--format=%(refname)")
		if err != nil {
			return err
		}
		commits, err := f.asked(ctx, "rev-list", "--count", "main..promote/prod")
		if err == nil && (refs != "refs/heads/main\nrefs/heads/promote/prod" || commits != "1") {
			err = fmt.Errorf("%s commits on the branch, of %s", commits, refs)
		}
		return err
	})
}

// rightPlace pins prod in three ways, and holds each file against what it was but for the
// digest and the tag.
func rightPlace(ctx context.Context) error {
	return inFleet(ctx, func(f *fleet) error {
		component, err := componentFiles("overlays/prod/component/")
		if err != nil {
			return err
		}
		resources := "resources: [gate.yaml, web.yaml]\ncomponents: [component, images]\n"
		for name, way := range map[string]map[string]string{
			"overlays/prod/images/kustomization.yaml": {
				"overlays/prod/kustomization.yaml": resources,
				"overlays/prod/images/kustomization.yaml": "# pins\napiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages:\n" +
					"  - name: '" + f.image() + "'   # the shop\n    newTag: &tag \"1.0.0\" # a tag beside\n    digest:   " + f.older + "\n# end\n",
			},
			"overlays/prod/patch.yaml": {
				"overlays/prod/kustomization.yaml": "resources: [gate.yaml, web.yaml]\npatches: [{path: patch.yaml}]\n",
				"overlays/prod/patch.yaml": "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata:\n    name: web\n    namespace: shop\n" +
					"spec: {replicas: 1,  image: '" + f.image() + ":1.0.0@" + f.older + "'} # in flow\n",
			},
			"overlays/prod/web.yaml": {
				"overlays/prod/kustomization.yaml": "resources: [gate.yaml, web.yaml]\n",
				"overlays/prod/web.yaml": "# in the CR\napiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: web, namespace: shop}\nspec:\n" +
					"  image: &image " + f.image() + ":1.0.0@" + f.older + "   # here\n  replicas: 1\n",
			},
		} {
			if err := errors.Join(f.git(ctx, "switch", "-q", "main"), f.git(ctx, "switch", "-q", "-c", "way-"+filepath.Base(filepath.Dir(name))+filepath.Base(name))); err != nil {
				return err
			}
			e2e := strings.Replace(webWorkload, "registry.example.com/shop/web:1", f.image()+":1.1.0@"+f.newer, 1)
			if err := errors.Join(f.write(component), f.write(way), f.write(map[string]string{"overlays/e2e/web.yaml": e2e}), f.commit(ctx)); err != nil {
				return err
			}
			branch := "promote/" + filepath.Base(name)
			if err := f.promote(ctx, cli.ExitPass, "committed", "--from=e2e", "--to=prod", "--branch="+branch); err != nil {
				return err
			}
			want := strings.ReplaceAll(strings.ReplaceAll(way[name], f.older, f.newer), "1.0.0", "1.1.0")
			if err := f.holds(ctx, branch, name, want); err != nil {
				return err
			}
		}
		return nil
	})
}

// holds says whether a commit changed one file, and to what.
func (f *fleet) holds(ctx context.Context, branch, name, want string) error {
	got, err := exec.CommandContext(ctx, "git", "-C", f.dir, "show", branch+":"+name).Output()
	if err != nil {
		return err
	}
	files, err := f.asked(ctx, "diff", "--name-only", "HEAD", branch)
	if err == nil && (string(got) != want || files != name) {
		err = fmt.Errorf("%s changed, and is\n%s\nand not\n%s", files, got, want)
	}
	return err
}

func componentFiles(below string) (map[string]string, error) {
	out := map[string]string{}
	names, err := fs.Glob(workloadkustomize.Files, "*.yaml")
	for _, name := range names {
		raw, readErr := workloadkustomize.Files.ReadFile(name)
		err = errors.Join(err, readErr)
		out[below+name] = string(raw)
	}
	return out, err
}

func directly(ctx context.Context) error {
	return inFleet(ctx, func(f *fleet) error {
		return f.unchanged(ctx, func() error {
			return f.promote(ctx, cli.ExitDenied, "dev is not promoted to prod directly: ci, then e2e comes between", "--from=dev", "--to=prod")
		})
	})
}

func deniedNext(ctx context.Context) error {
	return inFleet(ctx, func(f *fleet) error {
		if err := errors.Join(f.overlay("prod", f.older, "  policies: [{builtin: reliability}]\n  parameters: {reliability: {minReplicas: 2}}\n"), f.commit(ctx)); err != nil {
			return err
		}
		return f.unchanged(ctx, func() error {
			code, said := f.promoted(ctx, "--from=e2e", "--to=prod", "--format=markdown")
			if code != cli.ExitDenied || !strings.HasPrefix(said, "> **DENY**") || !strings.Contains(said, "reliability/") || !strings.Contains(said, "e2e to prod: **Allow**") {
				return fmt.Errorf("exit code %d: %s", code, said)
			}
			return nil
		})
	})
}
