package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/repo"
	"github.com/sluice-dev/sluice/operator/internal/revision"
)

// readSource reads the objects of a path, or of REV:PATH in the repository of the working
// directory. Their files are named as in the revision.
func readSource(ctx context.Context, s streams, root, name string) ([]overlay.Object, error) {
	rev, below, ok := revision.Split(name)
	if !ok {
		set, err := overlay.Load(root, name, s.in)
		if err != nil {
			return nil, usage("%w", err)
		}
		s.warn(set.Warnings)
		return set.Objects, nil
	}
	return readRevision(ctx, s, ".", rev, below)
}

// readRevision reads a path of a revision of the repository that holds dir.
func readRevision(ctx context.Context, s streams, dir, rev, below string) ([]overlay.Object, error) {
	folder, target, remove, err := revision.Unpack(ctx, dir, rev, below)
	if err != nil {
		return nil, usage("%s:%s: %w", rev, below, err)
	}
	defer remove()
	set, err := overlay.Load(folder, target, nil)
	if err != nil {
		return nil, usage("%s", strings.ReplaceAll(err.Error(), folder+"/", rev+":"))
	}
	for i := range set.Objects {
		set.Objects[i].File = rev + ":" + set.Objects[i].Path
	}
	s.warn(warningsOf(ctx, dir, rev, set))
	return set.Objects, nil
}

// warningsOf a revision name it. They are about the files of the work tree, whose own
// warnings may be the same.
func warningsOf(ctx context.Context, dir, rev string, set *overlay.Set) []overlay.Warning {
	if len(set.Warnings) == 0 {
		return nil
	}
	top := rev + ":" // where there is no work tree
	if tree, err := repo.Open(ctx, dir); err == nil {
		top = tree.Top()
	}
	out := slices.Clone(set.Warnings)
	for i := range out {
		out[i].File, out[i].Root = rev+":"+out[i].Path, top
	}
	return out
}

// readLastCommit reads a path as it was committed last.
func readLastCommit(ctx context.Context, s streams, name string) ([]overlay.Object, error) {
	dir, below := name, "."
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		dir, below = filepath.Dir(name), "./"+filepath.Base(name)
	}
	return readRevision(ctx, s, dir, "HEAD", below)
}

// unstructuredOf is a Workload as a manifest says it, without status.
func unstructuredOf(w *v1beta1.Workload) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	return u, nil
}
