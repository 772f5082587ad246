package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// file of a layer.
type file struct {
	name    string
	mode    int64
	content []byte
}

// push makes the index of the operator. The image is a static binary and the authorities,
// as in the Dockerfile: no shell, no package manager, no root.
func (o options) push(ref string, binaries []string, out io.Writer) error {
	authorities, err := os.ReadFile(o.authorities)
	if err != nil {
		return fmt.Errorf("authorities: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, binary := range binaries {
		image, system, arch, err := o.manager(binary, authorities)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: system, Architecture: arch}},
		})
	}
	target, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	if err := remote.WriteIndex(target, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	_, err = fmt.Fprintln(out, target.Context().Digest(digest.String()))
	return err
}

func (o options) manager(binary string, authorities []byte) (v1.Image, string, string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, "", "", fmt.Errorf("%s: %w", binary, err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, "", "", fmt.Errorf("%s: %w", binary, err)
	}
	system, arch := platform(info)
	image, err := o.image(system, arch, v1.Config{User: "65532:65532", Entrypoint: []string{"/manager"}}, []file{
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities}, {"manager", 0o755, content},
	})
	return image, system, arch, err
}

// bundle makes the image of an OLM bundle, which is not run. OLM finds its way by labels,
// which are the annotations of its metadata.
func (o options) bundle(ref, dir string, out io.Writer) error {
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "metadata", "annotations.yaml"))
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if err := yaml.UnmarshalStrict(raw, &metadata); err != nil {
		return fmt.Errorf("bundle: metadata/annotations.yaml: %w", err)
	}
	var files []file
	for _, part := range []string{"manifests", "metadata"} {
		entries, err := os.ReadDir(filepath.Join(dir, part)) // sorted
		if err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
		for _, e := range entries {
			content, err := os.ReadFile(filepath.Join(dir, part, e.Name()))
			if err != nil {
				return fmt.Errorf("bundle: %w", err)
			}
			files = append(files, file{path.Join(part, e.Name()), 0o644, content})
		}
	}
	image, err := o.image("linux", "amd64", v1.Config{Labels: metadata.Annotations}, files)
	if err != nil {
		return err
	}
	target, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	if err := remote.Write(target, image, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	_, err = fmt.Fprintln(out, target.Context().Digest(digest.String()))
	return err
}

// image has one layer with the files.
func (o options) image(system, arch string, config v1.Config, files []file) (v1.Image, error) {
	layer, err := o.layer(files)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer}); err != nil {
		return nil, fmt.Errorf("make the image: %w", err)
	}
	c, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("make the image: %w", err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created, c.Config, c.History = system, arch, v1.Time{Time: o.created}, config, nil
	return mutate.ConfigFile(image, c)
}

// layer is a tar of the files with the folders that they are in, owned by root.
func (o options) layer(files []file) (v1.Layer, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	made := map[string]bool{".": true}
	for _, f := range files {
		var folders []string
		for dir := path.Dir(f.name); !made[dir]; dir = path.Dir(dir) {
			made[dir] = true
			folders = append([]string{dir}, folders...)
		}
		for _, dir := range folders {
			header := &tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: o.created, Format: tar.FormatPAX}
			if err := w.WriteHeader(header); err != nil {
				return nil, fmt.Errorf("make the layer: %w", err)
			}
		}
		header := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: f.mode, Size: int64(len(f.content)), ModTime: o.created, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("make the layer: %w", err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("make the layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressedCaching)
}
