package lab

import (
	"net"
	"slices"
	"testing"
)

func TestFreePorts_AreNoneThatConnectionsGet(t *testing.T) {
	found, err := FreePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if len(slices.Compact(found)) != 20 {
		t.Errorf("%v are not 20", found)
	}
	for _, address := range found {
		l, err := net.Listen("tcp4", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port, hasRoom := l.Addr().(*net.TCPAddr).Port, anyPort(ephemeral()) != 0
		if hasRoom && (port < lowestPort || port >= ephemeral()) {
			t.Errorf("%s is one that connections get, from %d on", address, ephemeral())
		}
	}
}

func TestAnyPort_IsBelowThoseOfConnections(t *testing.T) {
	for range 1000 {
		if p := anyPort(32768); p < lowestPort || p >= 32768 {
			t.Fatal(p)
		}
	}
	if p := anyPort(1024); p != 0 {
		t.Errorf("%d where the system gives connections all ports from 1024 on", p)
	}
	for text, want := range map[string]int{"32768\t60999\n": 32768, "1024 65535": 1024, "": usualEphemeral, "none": usualEphemeral} {
		if got := firstOf(text); got != want {
			t.Errorf("%q: %d and not %d", text, got, want)
		}
	}
}
