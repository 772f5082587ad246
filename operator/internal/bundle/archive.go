package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// unpacking is what is left to be unpacked of one bundle.
type unpacking struct {
	bytes int64
	files int
}

const buildAgain = "build it anew, with opa build or flux push"

// errUnpacked says that there is more than may be unpacked.
var errUnpacked = errors.New("too much")

// reader counts what is decompressed.
func (u *unpacking) reader(from io.Reader) io.Reader { return &counted{from: from, left: &u.bytes} }

type counted struct {
	from io.Reader
	left *int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	if int64(len(p)) > *c.left+1 {
		p = p[:*c.left+1]
	}
	n, err := c.from.Read(p)
	if *c.left -= int64(n); *c.left < 0 {
		return 0, errUnpacked
	}
	return n, err
}

// archive takes the files of a gzip'd tar.
func (u *unpacking) archive(content []byte, into *Files) error {
	err := u.unpack(content, into)
	var known *Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, errUnpacked):
		return wrong(smaller, "it unpacks to more than %d bytes (limits.BundleUnpackedBytes)", limits.BundleUnpackedBytes)
	}
	return wrong(buildAgain, "it is not a tar with gzip: %.200s", err)
}

func (u *unpacking) unpack(content []byte, into *Files) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return err
	}
	from := u.reader(unzipped)
	entries := tar.NewReader(from)
	for {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return atEnd(from)
		}
		if err != nil {
			return err
		}
		if u.files--; u.files < 0 {
			return wrong(smaller, "it has more than %d files (limits.BundleFiles)", limits.BundleFiles)
		}
		if err := u.entry(h, entries, into); err != nil {
			return err
		}
	}
}

func (u *unpacking) entry(h *tar.Header, content io.Reader, into *Files) error {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil // a comment, as git archive writes
	case tar.TypeDir:
		if _, ok := cleanName(strings.TrimRight(h.Name, "/") + "/x"); !ok {
			return wrong(buildAgain, "the folder %.100q leads out of the bundle", h.Name)
		}
		return nil
	case tar.TypeReg:
	default:
		return wrong("put the file itself in its place", "%.100q is a link, a device or some other thing that is no file", h.Name)
	}
	clean, _ := cleanName(h.Name)
	if !Wanted(clean) {
		return into.Add(h.Name, nil)
	}
	// A sparse file is as long as it says, and has few bytes in the archive.
	limit := int64(limits.PolicyBytes)
	if h.Size > limit {
		return wrong(smaller, "%.100q is larger than %d bytes (limits.PolicyBytes)", h.Name, limit)
	}
	text, err := io.ReadAll(io.LimitReader(content, limit+1))
	if err != nil {
		return fmt.Errorf("%.100q: %w", h.Name, err)
	}
	return into.Add(h.Name, text)
}

// atEnd reads what is behind the last entry, with the checksum of gzip. There is padding, and
// nothing that another reader could take for more files.
func atEnd(from io.Reader) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if len(bytes.Trim(buffer[:n], "\x00")) > 0 {
			return wrong(buildAgain, "there is something behind the end of the archive")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
