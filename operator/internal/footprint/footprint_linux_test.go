package footprint

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// mapped is how much of files is in memory, in KiB.
func mapped(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "RssFile:" {
			n, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no RssFile")
	return 0
}

func TestForget_GivesPagesBack(t *testing.T) {
	before := mapped(t)
	Forget()
	if after := mapped(t); after >= before {
		t.Errorf("%d KiB of files in memory, and %d before", after, before)
	}
}

func TestClean(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-02d0b000 r-xp 00000000 08:01 42 /bin/sluice\nRss: 4 kB\nAnonymous: 0 kB": true,
		"00400000-02d0b000 r--p 00000000 08:01 42 /bin/sluice\nAnonymous: 0 kB":            true,
		// Filled in by the dynamic linker, and only then read-only.
		"00400000-02d0b000 r--p 00000000 08:01 42 /bin/sluice\nAnonymous: 4 kB":  false,
		"00400000-02d0b000 r--p 00000000 08:01 42 /bin/sluice\nRss: 0 kB":        false,
		"00400000-02d0b000 rw-p 00000000 08:01 42 /bin/sluice\nAnonymous: 0 kB":  false,
		"00400000-02d0b000 r--s 00000000 08:01 42 /bin/sluice\nAnonymous: 0 kB":  false,
		"00400000-02d0b000 r--p 00000000 08:01 42 /lib/libc.so\nAnonymous: 0 kB": false,
		"00400000-02d0b000 r--p 00000000 00:00 0\nAnonymous: 0 kB":               false,
		"02d0b000-00400000 r--p 00000000 08:01 42 /bin/sluice\nAnonymous: 0 kB":  false,
		"x-y r--p 00000000 08:01 42 /bin/sluice\nAnonymous: 0 kB":                false,
	} {
		if found := clean(strings.NewReader(line+"\n"), "/bin/sluice"); len(found) > 0 != want {
			t.Errorf("%s: %v", line, found)
		}
	}
	found := clean(strings.NewReader("1000-3000 r--p 0 0 1 /x\nAnonymous: 0 kB\n3000-4000 r--p 0 0 1 /x\nAnonymous: 4 kB\n"), "/x")
	if len(found) != 1 || found[0] != (part{0x1000, 0x2000}) {
		t.Errorf("%v", found)
	}
}
