package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/conversion"
	"github.com/sluice-dev/sluice/operator/internal/delta"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/live"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/overlaydiff"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// againstCluster is the word that stands for the cluster in --against.
const againstCluster = "cluster"

type clusterFlags struct{ live.Options }

func (f *clusterFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)")
	c.Flags().StringVar(&f.Context, "context", "", "context of the kubeconfig (default: the current one)")
	c.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "namespace (default: that of the context)")
}

type diffOptions struct {
	clusterFlags
	root, against, format, colour string
	width                         int
}

func diffCommand(s streams) *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff PATH",
		Short: "Show what an overlay changes: in the objects that Workloads become, and in the rest",
		Long: `Compare the objects of PATH with those of another folder, of a Git revision or of the
cluster. Workloads are compared by what they become, and by their own spec. What means the
same is no difference, and secrets are masked.

--against is a path, REV:PATH with a path from the root of the repository, or cluster.

Exit codes: 0 no difference, 1 differences, 2 wrong input or flags, 3 could not compare.`,
		Example: `  sluice diff overlays/prod                              # with the last commit
  sluice diff overlays/prod --against overlays/e2e
  sluice diff overlays/prod --against origin/main:overlays/prod --format markdown
  sluice diff overlays/prod --against cluster`,
		Args: takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.run(c.Context(), s, args[0])
		},
	}
	c.Flags().StringVar(&o.against, "against", "", "what to compare with (default: PATH as of the last commit)")
	c.Flags().StringVar(&o.format, "format", "unified", "unified, side-by-side or markdown")
	c.Flags().StringVar(&o.colour, "color", "auto", "auto (on a terminal), always or never")
	oneOf(c, "format", "unified", "side-by-side", "markdown")
	oneOf(c, "color", "auto", "always", "never")
	c.Flags().IntVar(&o.width, "width", 0, "columns of side-by-side (default: those of the terminal, or 160)")
	c.Flags().StringVar(&o.root, "root", "", "folder that bases and symlinks may not leave (default: the Git work tree)")
	o.register(c)
	return c
}

func (o *diffOptions) run(ctx context.Context, s streams, name string) error {
	switch {
	case o.format != "unified" && o.format != "side-by-side" && o.format != "markdown":
		return usage("--format=%s: there are unified, side-by-side and markdown", o.format)
	case o.colour != "auto" && o.colour != "always" && o.colour != "never":
		return usage("--color=%s: there are auto, always and never", o.colour)
	case name == overlay.Stdin && o.against == "":
		return usage("--against is required for standard input")
	}
	objects, err := readSource(ctx, s, o.root, name)
	if err != nil {
		return err
	}
	now, err := rendered(ctx, objects)
	if err != nil {
		return err
	}
	old, err := o.old(ctx, s, name, now)
	if err != nil {
		return err
	}
	changes, err := overlaydiff.Compare(old, now.set)
	if err != nil {
		return &exit{code: ExitUndecided, err: err}
	}
	if err := o.write(s, changes); err != nil {
		return usage("write the result: %w", err)
	}
	if len(changes) > 0 {
		return &exit{code: ExitDenied}
	}
	return nil
}

// old is the side that is compared with.
func (o *diffOptions) old(ctx context.Context, s streams, name string, now *rendition) (overlaydiff.Set, error) {
	var objects []overlay.Object
	var err error
	switch o.against {
	case againstCluster:
		return o.cluster(ctx, now)
	case "":
		objects, err = readLastCommit(ctx, s, name)
	default:
		objects, err = readSource(ctx, s, o.root, o.against)
	}
	if err != nil {
		return nil, err
	}
	before, err := rendered(ctx, objects)
	if err != nil {
		return nil, err
	}
	return before.set, nil
}

func (o *diffOptions) write(s streams, changes []overlaydiff.Change) error {
	colour := o.colour == "always" || o.colour == "auto" && isTerminal(s.out) && os.Getenv("NO_COLOR") == ""
	switch o.format {
	case "markdown":
		return overlaydiff.Markdown(s.out, changes)
	case "side-by-side":
		width := o.width
		if f, ok := s.out.(*os.File); ok && width <= 0 {
			width, _, _ = term.GetSize(int(f.Fd())) // not a terminal: the width is 0
		}
		if width <= 0 {
			width = 160
		}
		return overlaydiff.SideBySide(s.out, changes, width, colour)
	}
	return overlaydiff.Unified(s.out, changes, colour)
}

// rendition is what a path comes to.
type rendition struct {
	set       overlaydiff.Set
	workloads []*v1beta1.Workload
	// written is every object that is not rendered from a Workload.
	written []*unstructured.Unstructured
}

func rendered(ctx context.Context, objects []overlay.Object) (*rendition, error) {
	kinds, err := known()
	if err != nil {
		return nil, err
	}
	out := &rendition{set: overlaydiff.Set{}}
	for _, object := range objects {
		key := overlaydiff.KeyOf(object.Unstructured)
		if _, again := out.set[key]; again {
			return nil, usage("%s: %s is there twice", object.File, key)
		}
		out.set[key] = object.Unstructured
		if key.Group != v1beta1.GroupVersion.Group || key.Kind != v1beta1.WorkloadKind {
			out.written = append(out.written, object.Unstructured)
			continue
		}
		if err := out.render(ctx, kinds.Converter, object); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// render adds a Workload, in the version that is judged, and its children.
func (r *rendition) render(ctx context.Context, converter *conversion.Converter, object overlay.Object) error {
	sub := admit(ctx, converter, subject{file: object.File, object: object.Unstructured})
	name := fmt.Sprintf("%s: Workload %s/%s", sub.file, object.GetNamespace(), object.GetName())
	if sub.workload == nil {
		return refused(name+" is not valid:", sub.invalid)
	}
	content, err := unstructuredOf(sub.workload)
	if err != nil {
		return usage("%s: %w", name, err)
	}
	r.workloads = append(r.workloads, sub.workload)
	r.set[overlaydiff.KeyOf(content)] = content
	children, err := render.Children(sub.workload)
	if err != nil {
		return usage("%s: %s", name, gather.Secrets(object.Object).Text(err.Error(), limits.ErrorBytes))
	}
	for _, child := range children {
		u := &unstructured.Unstructured{Object: child}
		r.set[overlaydiff.KeyOf(u)] = u
	}
	return nil
}

// cluster reads the live side of what is written, and lets the written side have what the
// API server and the operator added: digests of tags among it.
func (o *diffOptions) cluster(ctx context.Context, now *rendition) (overlaydiff.Set, error) {
	c, err := live.Connect(o.Options)
	if err != nil {
		return nil, usage("%w", err)
	}
	old := overlaydiff.Set{}
	for _, w := range now.workloads {
		have, err := c.Workload(ctx, w.Namespace, w.Name)
		if err == nil && have != nil {
			err = liveWorkload(ctx, c, w, have, old, now.set)
		}
		if err != nil {
			return nil, &exit{code: ExitUndecided, err: err}
		}
	}
	for _, u := range now.written {
		have, err := c.Object(ctx, u.GroupVersionKind(), u.GetNamespace(), u.GetName())
		if err != nil {
			return nil, &exit{code: ExitUndecided, err: err}
		}
		if have != nil {
			have.SetNamespace(u.GetNamespace())
			key := overlaydiff.KeyOf(u)
			now.set[key], old[key] = delta.Adopt(u, have)
		}
	}
	return old, nil
}

func liveWorkload(ctx context.Context, c *live.Cluster, want, have *v1beta1.Workload, old, now overlaydiff.Set) error {
	children, err := c.Children(ctx, have)
	if err != nil {
		return err
	}
	content, err := unstructuredOf(have)
	if err != nil {
		return err
	}
	digests := map[string]string{}
	for _, image := range have.Status.Images {
		if image.Digest != "" && !strings.Contains(image.Image, "@") {
			digests[image.Image] = image.Digest
		}
	}
	live := map[overlaydiff.Key]*unstructured.Unstructured{overlaydiff.KeyOf(content): content}
	for _, child := range children {
		live[overlaydiff.KeyOf(child)] = child
	}
	for key, u := range live {
		desired, ok := now[key]
		if !ok {
			old[key] = u
			continue
		}
		if key.Kind != v1beta1.WorkloadKind {
			desired = &unstructured.Unstructured{Object: images.Pin([]map[string]any{desired.Object}, digests)[0]}
			withoutMark(desired, u)
		}
		now[key], old[key] = delta.Adopt(desired, u)
	}
	return nil
}

// withoutMark takes out the operator's note by which it rolls pods for a changed Secret.
func withoutMark(desired, have *unstructured.Unstructured) {
	at := []string{"spec", "template", "metadata", "annotations", "sluice.dev/referenced"}
	if _, asked, _ := unstructured.NestedFieldNoCopy(desired.Object, at...); !asked {
		unstructured.RemoveNestedField(have.Object, at...)
	}
}
