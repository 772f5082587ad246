package testkit

import (
	"archive/tar"
	"bytes"
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image builds a small image for linux/amd64. The same name gives the same digest on
// every machine and with every Go version: nothing in it is compressed, and no time is
// now.
func Image(name string) (v1.Image, error) { return image(name, "amd64") }

// Index builds an index of two platforms, linux/amd64 and linux/arm64, with digests as
// stable as those of Image.
func Index(name string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := image(name, arch)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

func image(name, arch string) (v1.Image, error) {
	layer, err := layer(name)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCIUncompressedLayer})
	if err != nil {
		return nil, fmt.Errorf("building image %s: %w", name, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("building image %s: %w", name, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	config.History = nil
	config.Config.Entrypoint = []string{"/" + entry}
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		return nil, fmt.Errorf("building image %s: %w", name, err)
	}
	return img, nil
}

const entry = "app"

func layer(content string) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	header := &tar.Header{
		Name: entry, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg,
		ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatUSTAR,
	}
	if err := w.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("writing layer: %w", err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		return nil, fmt.Errorf("writing layer: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing layer: %w", err)
	}
	return static.NewLayer(buf.Bytes(), types.OCIUncompressedLayer), nil
}

// Push writes an image or an index to ref, such as 127.0.0.1:5000/shop/web:1, and returns
// its digest, "sha256:<hex>". Options are for what is not reachable as its name says.
func Push(ref string, what remote.Taggable, options ...remote.Option) (string, error) {
	target, err := parse(ref)
	if err != nil {
		return "", err
	}
	switch what := what.(type) {
	case v1.Image:
		err = remote.Write(target, what, options...)
	case v1.ImageIndex:
		err = remote.WriteIndex(target, what, options...)
	default:
		err = remote.Put(target, what, options...)
	}
	if err != nil {
		return "", fmt.Errorf("pushing %s: %w", ref, err)
	}
	raw, err := what.RawManifest()
	if err != nil {
		return "", fmt.Errorf("pushing %s: %w", ref, err)
	}
	hash, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return "", fmt.Errorf("pushing %s: %w", ref, err)
	}
	return hash.String(), nil
}

// PushImage builds Image(name) and pushes it.
func PushImage(ref, name string, options ...remote.Option) (string, error) {
	img, err := Image(name)
	if err != nil {
		return "", err
	}
	return Push(ref, img, options...)
}
