// Package footprint keeps a short-lived program small.
package footprint

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Forget gives back the pages of the executable that are not in use: the packages that the
// program is made of initialise themselves in all of its code and constants, 60 MiB of which
// then count as its memory for as long as it runs, and a phase of the work that is over
// leaves some too. The kernel maps a page again when it is looked at; nothing is lost, and
// where this fails nothing is but memory.
func Forget() {
	executable, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	// Each part of the program has a line, of some 100 bytes; so has each library.
	lines := bufio.NewScanner(io.LimitReader(maps, 1<<20))
	for lines.Scan() {
		if start, length, ok := readOnly(lines.Bytes(), executable); ok {
			// By address: no Go object lies there.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, length, unix.MADV_DONTNEED)
		}
	}
}

// readOnly reads a line of /proc/self/maps, and says whether it is a part of the file that
// this process cannot have changed.
func readOnly(line []byte, file string) (start, length uintptr, ok bool) {
	fields := bytes.Fields(line)
	if len(fields) != 6 || string(fields[5]) != file || len(fields[1]) != 4 || fields[1][1] != '-' || fields[1][3] != 'p' {
		return 0, 0, false
	}
	from, to, found := bytes.Cut(fields[0], []byte("-"))
	first, err := strconv.ParseUint(string(from), 16, 64)
	if err != nil || !found {
		return 0, 0, false
	}
	last, err := strconv.ParseUint(string(to), 16, 64)
	if err != nil || last <= first {
		return 0, 0, false
	}
	return uintptr(first), uintptr(last - first), true
}
