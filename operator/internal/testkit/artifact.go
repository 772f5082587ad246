package testkit

import (
	"encoding/json"
	"fmt"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// ArtifactLayer is one layer of an artifact. Without a title it has no name.
type ArtifactLayer struct {
	MediaType, Title string
	Content          []byte
}

// PushArtifact pushes something that is no image, as conftest, Flux and oras do: an OCI image
// manifest with an empty config of a type. It returns its digest.
func PushArtifact(ref, configType string, layers ...ArtifactLayer) (string, error) {
	target, err := parse(ref)
	if err != nil {
		return "", err
	}
	put := func(mediaType, title string, content []byte) (map[string]any, error) {
		if err := remote.WriteLayer(target.Context(), static.NewLayer(content, types.MediaType(mediaType))); err != nil {
			return nil, fmt.Errorf("pushing %s: %w", ref, err)
		}
		d := map[string]any{"mediaType": mediaType, "digest": DigestOf(string(content)), "size": len(content)}
		if title != "" {
			d["annotations"] = map[string]string{"org.opencontainers.image.title": title}
		}
		return d, nil
	}
	config, err := put(configType, "", []byte("{}"))
	if err != nil {
		return "", err
	}
	all := make([]any, 0, len(layers))
	for _, l := range layers {
		d, err := put(l.MediaType, l.Title, l.Content)
		if err != nil {
			return "", err
		}
		all = append(all, d)
	}
	raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": types.OCIManifestSchema1, "config": config, "layers": all})
	if err != nil {
		return "", fmt.Errorf("pushing %s: %w", ref, err)
	}
	return Push(ref, Manifest(raw))
}

// Manifest is a manifest as it is, for Push.
type Manifest []byte

// RawManifest implements remote.Taggable.
func (m Manifest) RawManifest() ([]byte, error) { return m, nil }
