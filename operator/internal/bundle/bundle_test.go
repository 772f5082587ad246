package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/bundle"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

const (
	rego    = "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego"
	data    = "application/vnd.cncf.openpolicyagent.data.layer.v1+json"
	archive = "application/vnd.oci.image.layer.v1.tar+gzip"
	module  = "package main\n\ndeny contains \"no\" if input.object.kind == \"Workload\"\n"
)

// layer is one layer of a bundle in the making.
type layer struct {
	mediaType, title, content string
}

func content(t testing.TB, layers ...layer) bundle.Content {
	t.Helper()
	m := map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": map[string]any{"mediaType": "application/vnd.cncf.openpolicyagent.config.v1+json", "digest": digest, "size": 2},
	}
	out, list := bundle.Content{}, []any{}
	for _, l := range layers {
		d := map[string]any{"mediaType": l.mediaType, "digest": digest, "size": len(l.content)}
		if l.title != "" {
			d["annotations"] = map[string]string{"org.opencontainers.image.title": l.title}
		}
		list, out.Layers = append(list, d), append(out.Layers, []byte(l.content))
	}
	m["layers"] = list
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out.Manifest = raw
	return out
}

var digest = "sha256:" + strings.Repeat("0", 64)

// file is a file of an archive; the type is that of a regular file where none is given.
type file struct {
	name, content string
	kind          byte
}

func tarred(t testing.TB, files ...file) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if f.kind != 0 {
			h.Typeflag, h.Linkname = f.kind, "/etc/passwd"
		}
		if f.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: f.kind, Name: f.name, PAXRecords: map[string]string{"comment": "0123"}}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func packed(t testing.TB, files ...file) layer {
	t.Helper()
	return layer{archive, "", zipped(t, tarred(t, files...))}
}

func TestModules_AreThoseOfAnyToolThatPushesPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		layers []layer
		want   []string
	}{
		"one layer for each file": {[]layer{{rego, "policy/a.rego", module}, {rego, "b.rego", module}}, []string{"policy/a.rego", "b.rego"}},
		"tests beside":            {[]layer{{rego, "a.rego", module}, {rego, "a_test.rego", "package main_test\n"}}, []string{"a.rego"}},
		"data that says nothing":  {[]layer{{rego, "a.rego", module}, {data, "data.yaml", " {\n} "}}, []string{"a.rego"}},
		"an archive of opa build": {[]layer{packed(t, file{"/data.json", "{}", 0}, file{"/a.rego", module, 0}, file{"/.manifest", `{"revision":"","roots":[""],"rego_version":1}`, 0})}, []string{"a.rego"}},
		"an archive of a folder": {[]layer{packed(t, file{"pax_global_header", "", tar.TypeXGlobalHeader}, file{"./", "", tar.TypeDir}, file{"./p/", "", tar.TypeDir}, file{"./p/a.rego", module, 0},
			file{"./README.md", "# Rules", 0}, file{"./LICENSE", "…", 0}, file{"./parameters.schema.json", `{"type":"object"}`, 0}, file{".signatures.json", `{"signatures":[]}`, 0})}, []string{"p/a.rego"}},
		"an archive of trivy's kind": {[]layer{{"application/vnd.cncf.openpolicyagent.layer.v1.tar+gzip", "bundle.tar.gz", packed(t, file{"a.rego", module, 0}).content}}, []string{"a.rego"}},
		"an archive of flux":         {[]layer{{"application/vnd.cncf.flux.content.v1.tar+gzip", "", packed(t, file{"a.rego", module, 0}).content}}, []string{"a.rego"}},
		"both":                       {[]layer{packed(t, file{"a.rego", module, 0}), {rego, "b.rego", module}}, []string{"a.rego", "b.rego"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{}
			for _, name := range c.want {
				want[name] = module
			}
			got, err := content(t, c.layers...).Modules()
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestModules_RefuseWhatIsHostileOrWouldBePassedOver(t *testing.T) {
	many := make([]file, limits.BundleFiles+1)
	for i := range many {
		many[i] = file{fmt.Sprint("x", i), "", 0}
	}
	for name, c := range map[string]struct {
		layer layer
		says  []string
	}{
		"a link":                 {packed(t, file{"a.rego", "", tar.TypeSymlink}), []string{`layer 0: "a.rego" is a link`, "put the file itself"}},
		"a hard link":            {packed(t, file{"a.rego", "", tar.TypeLink}), []string{"is a link"}},
		"a device":               {packed(t, file{"a.rego", "", tar.TypeChar}), []string{"a device"}},
		"a pipe":                 {packed(t, file{"a.rego", "", tar.TypeFifo}), []string{"no file"}},
		"a way out":              {packed(t, file{"../a.rego", module, 0}), []string{`"../a.rego" leads out of the bundle`}},
		"a way out in the midst": {packed(t, file{"p/../../a.rego", module, 0}), []string{"leads out"}},
		"a folder out":           {packed(t, file{"../", "", tar.TypeDir}), []string{"leads out"}},
		"a backslash":            {packed(t, file{`..\a.rego`, module, 0}), []string{"leads out"}},
		"two roots":              {packed(t, file{"//a.rego", module, 0}), []string{"leads out"}},
		"a name twice":           {packed(t, file{"a.rego", module, 0}, file{"/a.rego", "package b\n", 0}), []string{`"a.rego" is in it twice`}},
		"a long name":            {packed(t, file{strings.Repeat("x", limits.BundleNameBytes) + ".rego", module, 0}), []string{"limits.BundleNameBytes"}},
		"data":                   {packed(t, file{"a.rego", module, 0}, file{"roles/data.json", `{"admins":["me"]}`, 0}), []string{`"roles/data.json" holds data`, "spec.parameters"}},
		"data by another name":   {packed(t, file{"a.rego", module, 0}, file{"roles.yaml", "admins: [me]", 0}), []string{`"roles.yaml"`, "spec.parameters"}},
		"data as a layer":        {layer{data, "anything", `{"a":1}`}, []string{"holds data", "spec.parameters"}},
		"WebAssembly":            {packed(t, file{"a.rego", module, 0}, file{"/policy.wasm", "\x00asm", 0}), []string{"policy.wasm", "--target=rego"}},
		"WebAssembly by manifest": {packed(t, file{"a.rego", module, 0}, file{"/.manifest", `{"wasm":[{"entrypoint":"main/deny","module":"/policy.wasm"}]}`, 0}),
			[]string{"compiled to WebAssembly"}},
		"Rego v0 by manifest": {packed(t, file{"a.rego", module, 0}, file{".manifest", `{"rego_version":0}`, 0}), []string{"another version of Rego", "opa fmt"}},
		"one file of Rego v0": {packed(t, file{"a.rego", module, 0}, file{".manifest", `{"rego_version":1,"file_rego_versions":{"/a.rego":0}}`, 0}), []string{"another version of Rego"}},
		"a manifest twice said": {packed(t, file{"a.rego", module, 0}, file{".manifest", `{"rego_version":0,"rego_version":1}`, 0}),
			[]string{`".manifest" cannot be read`}},
		"an archive within":  {packed(t, file{"a.rego", module, 0}, file{"bundle.tar.gz", "x", 0}), []string{"is not unpacked"}},
		"nothing but tests":  {packed(t, file{"a_test.rego", module, 0}), []string{"no Rego module"}},
		"no UTF-8":           {packed(t, file{"a.rego", "package a # \xff", 0}), []string{"not UTF-8"}},
		"a large module":     {packed(t, file{"a.rego", strings.Repeat("#", limits.PolicyBytes+1), 0}), []string{"limits.PolicyBytes"}},
		"large modules":      {packed(t, file{"a.rego", strings.Repeat("#", limits.PolicyBytes/2), 0}, file{"b.rego", strings.Repeat("#", limits.PolicyBytes/2), 0}), []string{"limits.PolicyBytes", "split it"}},
		"many files":         {packed(t, many...), []string{"limits.BundleFiles"}},
		"a bomb":             {packed(t, file{"x.txt", strings.Repeat("\x00", limits.BundleUnpackedBytes), 0}), []string{"limits.BundleUnpackedBytes"}},
		"a bomb at its end":  {layer{archive, "", zipped(t, tarred(t, file{"a.rego", module, 0})+strings.Repeat("\x00", limits.BundleUnpackedBytes))}, []string{"limits.BundleUnpackedBytes"}},
		"more at its end":    {layer{archive, "", zipped(t, tarred(t, file{"a.rego", module, 0})+tarred(t, file{"b.rego", module, 0}))}, []string{"behind the end"}},
		"no gzip":            {layer{archive, "", tarred(t, file{"a.rego", module, 0})}, []string{"not a tar with gzip"}},
		"a cut archive":      {layer{archive, "", packed(t, file{"a.rego", module, 0}).content[:60]}, []string{"not a tar with gzip"}},
		"Rego without name":  {layer{rego, "", module}, []string{"no name in the annotation"}},
		"Rego by no name":    {layer{rego, "a.txt", module}, []string{"does not end in .rego"}},
		"Rego from outside":  {layer{rego, "../a.rego", module}, []string{"leads out"}},
		"an unknown layer":   {layer{"application/octet-stream", "a.rego", module}, []string{"application/octet-stream", "does not read"}},
		"a layer of docker":  {layer{"application/vnd.docker.image.rootfs.diff.tar.gzip", "", ""}, []string{"does not read"}},
		"a layer over bound": {layer{archive, "", strings.Repeat("x", limits.BundleBytes+1)}, []string{"limits.BundleBytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			modules, err := content(t, c.layer).Modules()
			if known := new(bundle.Error); !errors.As(err, &known) || modules != nil || known.Remedy == "" {
				t.Fatalf("%v, %v", modules, err)
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.ContainsRune(err.Error(), '\n') {
				t.Errorf("%q has several lines", err)
			}
		})
	}
}

func TestLayers_RefuseWhatIsNoManifestOfABundle(t *testing.T) {
	layers := make([]layer, 10_000)
	for i := range layers {
		layers[i] = layer{rego, fmt.Sprint(i, ".rego"), ""}
	}
	image := func(fields string) string {
		return `{"schemaVersion":2,"config":{"mediaType":"x","digest":"` + digest + `","size":2},` + fields + `}`
	}
	one := `{"mediaType":"` + rego + `","digest":"` + digest + `","size":1}`
	for name, c := range map[string]struct{ manifest, says string }{
		"an index":              {`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`, "it is an index"},
		"an index in one":       {image(`"layers":[` + one + `],"manifests":[]`), "it is an index"},
		"docker's manifest":     {image(`"mediaType":"application/vnd.docker.distribution.manifest.v2+json","layers":[` + one + `]`), "not an OCI image manifest"},
		"no JSON":               {"<html>", "cannot be read"},
		"two lists of layers":   {image(`"layers":[],"layers":[` + one + `]`), "cannot be read"},
		"no config":             {`{"schemaVersion":2,"layers":[` + one + `]}`, "not an OCI image manifest"},
		"no layers":             {image(`"layers":[]`), "no layers"},
		"10,000 layers":         {string(content(t, layers...).Manifest), "limits.BundleLayers"},
		"a negative size":       {image(`"layers":[{"mediaType":"` + rego + `","digest":"` + digest + `","size":-1}]`), "a SHA-256 and a size"},
		"another kind of hash":  {image(`"layers":[{"mediaType":"` + rego + `","digest":"md5:00","size":1}]`), "a SHA-256 and a size"},
		"sizes that overflow":   {image(`"layers":[` + strings.Replace(one, `"size":1`, `"size":9223372036854775807`, 1) + "," + one + `]`), "limits.BundleBytes"},
		"together over bound":   {image(`"layers":[` + strings.Replace(one, `"size":1`, fmt.Sprintf(`"size":%d`, limits.BundleBytes), 1) + "," + one + `]`), "limits.BundleBytes"},
		"a manifest over bound": {image(`"layers":[` + one + `],"annotations":{"x":"` + strings.Repeat("x", limits.ManifestBytes) + `"}`), "limits.ManifestBytes"},
	} {
		t.Run(name, func(t *testing.T) {
			layers, err := bundle.Layers([]byte(c.manifest))
			if known := new(bundle.Error); !errors.As(err, &known) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v; want %q", layers, err, c.says)
			}
		})
	}
}

func TestPack_GivesTheSameBytesForTheSameModules(t *testing.T) {
	modules := map[string]string{"b.rego": module, "p/a.rego": module + "# <&>\n"}
	first, err := bundle.Pack(modules)
	if err != nil {
		t.Fatal(err)
	}
	// Whoever pushes the same files with the next version of Sluice has to get what was signed.
	const want = "sha256:2b6928e5cf64635fe008f4691c7dc6297dcfa78617968b46915ac68c5bdf0573"
	for range 20 {
		again, err := bundle.Pack(maps.Clone(modules))
		if err != nil || !bytes.Equal(again.Manifest, first.Manifest) || again.Digest() != want {
			t.Fatalf("%s %s, %v, and before %s", again.Digest(), again.Manifest, err, first.Manifest)
		}
	}
	read, err := first.Content().Modules()
	if err != nil || !maps.Equal(read, modules) {
		t.Errorf("%v, %v", read, err)
	}
}

func TestPack_RefusesWhatTheGateWould(t *testing.T) {
	many := map[string]string{}
	for i := range limits.BundleLayers + 1 {
		many[fmt.Sprint(i, ".rego")] = module
	}
	for name, modules := range map[string]map[string]string{
		"none": {}, "a test alone": {"a_test.rego": module}, "a way out": {"../a.rego": module}, "too many": many,
		"too large": {"a.rego": strings.Repeat("#", limits.PolicyBytes+1)},
	} {
		if p, err := bundle.Pack(modules); err == nil {
			t.Errorf("%s: %s", name, p.Manifest)
		}
	}
}

// FuzzModules holds that whatever the bytes are, they end as modules within the bounds or as
// an error that says what to do.
func FuzzModules(f *testing.F) {
	for _, l := range []layer{
		{rego, "a.rego", module}, {data, "data.json", "{}"}, packed(f, file{"/data.json", "{}", 0}, file{"/a.rego", module, 0}, file{"/.manifest", `{"roots":[""]}`, 0}),
		packed(f, file{"a.rego", "", tar.TypeSymlink}), {archive, "", tarred(f, file{"a.rego", module, 0})},
	} {
		c := content(f, l)
		f.Add(c.Manifest, c.Layers[0], true)
	}
	f.Add([]byte(nil), []byte(tarred(f, file{"a.rego", module, 0}, file{"p/", "", tar.TypeDir})), false)
	f.Fuzz(func(t *testing.T, manifest, first []byte, whole bool) {
		c := bundle.Content{Manifest: manifest, Layers: [][]byte{first}}
		if !whole { // what is below the compression, which a fuzzer rarely gets through
			c = content(t, layer{archive, "", zipped(t, string(first))})
		}
		modules, err := c.Modules()
		if err != nil {
			if known := new(bundle.Error); !errors.As(err, &known) || known.Remedy == "" || modules != nil {
				t.Fatalf("%v, %#v", modules, err)
			}
			return
		}
		size := 0
		for name, text := range modules {
			size += len(name) + len(text)
			if !strings.HasSuffix(name, ".rego") || strings.HasSuffix(name, "_test.rego") || strings.Contains(name, "..") && strings.HasPrefix(name, "../") || strings.HasPrefix(name, "/") {
				t.Errorf("a module is named %q", name)
			}
		}
		if len(modules) == 0 || size > limits.PolicyBytes {
			t.Errorf("%d modules of %d bytes", len(modules), size)
		}
		if again, err := bundle.Pack(modules); err == nil {
			if back, err := again.Content().Modules(); err != nil || !maps.Equal(back, modules) {
				t.Errorf("packed anew they are %v, %v", back, err)
			}
		}
	})
}
