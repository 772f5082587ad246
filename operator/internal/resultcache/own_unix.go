//go:build unix

package resultcache

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// nonblocking keeps a FIFO that took the place of an entry from being waited for.
const nonblocking = syscall.O_NONBLOCK

// own says why others than the user may have written what is there.
func own(info fs.FileInfo) error {
	if !info.IsDir() && !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return errors.New("others may write it: it has to be writable by its owner alone")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return errors.New("it belongs to another user")
	}
	return nil
}
