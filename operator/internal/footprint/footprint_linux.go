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
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	// Each part of the program has some 25 lines, together 1 KiB; so has each library.
	for _, p := range clean(io.LimitReader(maps, 4<<20), executable) {
		// By address: no Go object lies there.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, p.start, p.length, unix.MADV_DONTNEED)
	}
}

// part of the address space.
type part struct{ start, length uintptr }

// clean reads smaps, and returns the parts of the file that the process cannot write and
// has not written. The second does not follow from the first: a dynamic linker fills in
// addresses and takes the right to write away afterwards, and those pages would come back
// as they are in the file.
func clean(smaps io.Reader, file string) []part {
	var out []part
	var at part
	candidate := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := bytes.Fields(lines.Bytes())
		switch {
		case len(fields) == 0:
		case !bytes.HasSuffix(fields[0], []byte(":")):
			at, candidate = readOnly(fields, file)
		case string(fields[0]) == "Anonymous:" && len(fields) == 3:
			// Pages that are the process's own, and no longer the file's.
			if candidate && string(fields[1]) == "0" {
				out = append(out, at)
			}
			candidate = false
		}
	}
	if lines.Err() != nil {
		return nil
	}
	return out
}

// readOnly reads the first line about a part, and says whether it is of the file and cannot
// be written.
func readOnly(fields [][]byte, file string) (part, bool) {
	if len(fields) != 6 || string(fields[5]) != file || len(fields[1]) != 4 || fields[1][1] != '-' || fields[1][3] != 'p' {
		return part{}, false
	}
	from, to, found := bytes.Cut(fields[0], []byte("-"))
	first, err := strconv.ParseUint(string(from), 16, 64)
	if err != nil || !found {
		return part{}, false
	}
	last, err := strconv.ParseUint(string(to), 16, 64)
	if err != nil || last <= first {
		return part{}, false
	}
	return part{uintptr(first), uintptr(last - first)}, true
}
