package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// document is SPDX 2.3 as JSON, as far as it is used here.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Files         []spdxFile     `json:"files"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID            string      `json:"SPDXID"`
	Name          string      `json:"name"`
	Version       string      `json:"versionInfo"`
	Location      string      `json:"downloadLocation"`
	FilesAnalyzed bool        `json:"filesAnalyzed"`
	References    []reference `json:"externalRefs"`
	// Source is the line of go.sum: a hash over the names and hashes of the module's files,
	// and not over one file, so that it is no checksum in the sense of SPDX.
	Source string `json:"sourceInfo,omitempty"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxFile struct {
	ID        string     `json:"SPDXID"`
	Name      string     `json:"fileName"`
	Checksums []checksum `json:"checksums"`
}

type relationship struct {
	Of   string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const rootID = "SPDXRef-Package-sluice"

// sbom lists the modules that the linker put into the binaries, by what each binary tells
// of itself, and the files of the image. Licences are not told: a binary does not know.
func (o options) sbom(binaries []string, out io.Writer) error {
	d := &document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "sluice-" + o.version,
		Creation: creation{o.created.Format(time.RFC3339), []string{"Tool: sluice-image"}},
		Packages: []spdxPackage{{ID: rootID, Name: "github.com/sluice-dev/sluice", Version: o.version, Location: "NOASSERTION",
			References: purl("github.com/sluice-dev/sluice", o.version)}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", rootID}},
	}
	modules := map[string]spdxPackage{}
	for _, name := range binaries {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return fmt.Errorf("sbom: %s: %w", name, err)
		}
		version := strings.TrimPrefix(info.GoVersion, "go")
		modules["stdlib@"+version] = spdxPackage{Name: "stdlib", Version: version, References: purl("stdlib", version)}
		for _, m := range info.Deps {
			m = replaced(m)
			modules[m.Path+"@"+m.Version] = spdxPackage{Name: m.Path, Version: m.Version, References: purl(m.Path, m.Version), Source: "go.sum " + m.Sum}
		}
	}
	whole := sha256.New()
	for _, name := range append(slices.Clone(binaries), o.authorities) {
		content, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("sbom: %w", err)
		}
		sum := sha256.Sum256(content)
		whole.Write(sum[:])
		d.addFile(filepath.Base(name), sum)
	}
	d.Namespace = "https://sluice.dev/spdx/" + o.version + "-" + hex.EncodeToString(whole.Sum(nil))
	for _, key := range slices.Sorted(maps.Keys(modules)) {
		p := modules[key]
		p.ID, p.Location = "SPDXRef-Package-"+spdxID(key), "NOASSERTION"
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{rootID, "DEPENDS_ON", p.ID})
	}
	return printJSON(out, d)
}

func replaced(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

func (d *document) addFile(name string, sum [sha256.Size]byte) {
	f := spdxFile{"SPDXRef-File-" + spdxID(name), "./" + name, []checksum{{"SHA256", hex.EncodeToString(sum[:])}}}
	d.Files = append(d.Files, f)
	d.Relationships = append(d.Relationships, relationship{rootID, "CONTAINS", f.ID})
}

func purl(module, version string) []reference {
	return []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + module + "@" + version}}
}

// spdxID has only what an identifier may.
func spdxID(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, text)
}
