//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
)

// ofOthers says whether a file is neither the user's nor root's. A folder above the working
// directory may be one that everybody writes, as /tmp is.
func ofOthers(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || stat.Uid != 0 && int(stat.Uid) != os.Geteuid()
}
