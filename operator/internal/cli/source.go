package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/overlay"
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
	return readRevision(ctx, ".", rev, below)
}

// readRevision reads a path of a revision of the repository that holds dir.
func readRevision(ctx context.Context, dir, rev, below string) ([]overlay.Object, error) {
	folder, target, remove, err := revision.Unpack(ctx, dir, rev, below)
	if err != nil {
		return nil, usage("%s:%s: %w", rev, below, err)
	}
	defer remove()
	objects, err := overlay.Read(folder, target, nil)
	if err != nil {
		return nil, usage("%s", strings.ReplaceAll(err.Error(), folder+"/", rev+":"))
	}
	for i := range objects {
		objects[i].File = strings.Replace(objects[i].File, folder+"/", rev+":", 1)
	}
	return objects, nil
}

// readLastCommit reads a path as it was committed last.
func readLastCommit(ctx context.Context, name string) ([]overlay.Object, error) {
	dir, below := name, "."
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		dir, below = filepath.Dir(name), "./"+filepath.Base(name)
	}
	return readRevision(ctx, dir, "HEAD", below)
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
