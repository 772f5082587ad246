// Command image makes and pushes the operator's image and the bundle's, without Docker:
//
//	image push REF BINARY...     an index with one image for each binary, by its platform
//	image bundle REF DIR         the OLM bundle in DIR
//	image sbom BINARY...         SPDX 2.3 of what the binaries are made of, to standard output
//	image provenance             SLSA provenance of this build, to standard output
//
// push and bundle print REF by digest. The same binaries, commit and authorities give the
// same digest: every time in an image is that of SOURCE_DATE_EPOCH, in seconds, or 1970.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

const usage = "usage: image [--authorities FILE] [--version VERSION] push REF BINARY... | bundle REF DIR | sbom BINARY... | provenance"

// options are the flags.
type options struct {
	// authorities is a PEM file that goes into the image, to trust registries by.
	authorities string
	// version of the release, for the SBOM.
	version string
	created time.Time
}

func main() {
	var o options
	flag.StringVar(&o.authorities, "authorities", "/etc/ssl/certs/ca-certificates.crt", "PEM file with the certificate authorities that the operator trusts")
	flag.StringVar(&o.version, "version", "0.0.0-dev", "version of the release")
	flag.Parse()
	if err := run(o, flag.Args(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image: "+err.Error())
		os.Exit(1)
	}
}

func run(o options, args []string, out io.Writer) error {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		epoch = "0"
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	o.created = time.Unix(seconds, 0).UTC()
	switch {
	case len(args) > 2 && args[0] == "push":
		return o.push(args[1], args[2:], out)
	case len(args) == 3 && args[0] == "bundle":
		return o.bundle(args[1], args[2], out)
	case len(args) > 1 && args[0] == "sbom":
		return o.sbom(args[1:], out)
	case len(args) == 1 && args[0] == "provenance":
		return printJSON(out, provenance(os.Getenv))
	}
	return errors.New(usage)
}

// platform is what a binary says that it was built for.
func platform(info *buildinfo.BuildInfo) (system, arch string) {
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			system = s.Value
		case "GOARCH":
			arch = s.Value
		}
	}
	return system, arch
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
