package cli

import (
	"context"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/overlay"
	"github.com/sluice-dev/sluice/operator/internal/revision"
)

// readSource reads the objects of a path, or of REV:PATH in the repository of the working
// directory. Their files are named as in the revision.
func readSource(ctx context.Context, s streams, root, name string) ([]overlay.Object, error) {
	rev, below, ok := revision.Split(name)
	if !ok {
		objects, err := overlay.Read(root, name, s.in)
		if err != nil {
			return nil, usage("%w", err)
		}
		return objects, nil
	}
	folder, target, remove, err := revision.Unpack(ctx, ".", rev, below)
	if err != nil {
		return nil, usage("%s: %w", name, err)
	}
	defer remove()
	objects, err := overlay.Read(folder, target, s.in)
	if err != nil {
		return nil, usage("%s", strings.ReplaceAll(err.Error(), folder+"/", rev+":"))
	}
	for i := range objects {
		objects[i].File = strings.Replace(objects[i].File, folder+"/", rev+":", 1)
	}
	return objects, nil
}
