package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
)

const (
	// lowestPort is the first that FreePorts tries: many below belong to well-known services.
	lowestPort = 10000
	// usualEphemeral is the first port that Linux gives to connections, and is below that of
	// other systems.
	usualEphemeral = 32768
	// portTries is how many ports may be found taken.
	portTries = 100
)

// FreePorts finds n loopback addresses that nothing listens on. They are below those that the
// system gives to connections: between this look and whoever listens then, anybody's connection
// could come to have one of those. All are held until the last is found, so that they differ.
func FreePorts(n int) ([]string, error) {
	var found []string
	below := ephemeral()
	for tried := 0; len(found) < n; tried++ {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: anyPort(below)})
		if errors.Is(err, syscall.EADDRINUSE) && tried < portTries {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find a free port on loopback: %w", err)
		}
		defer l.Close()
		found = append(found, l.Addr().String())
	}
	return found, nil
}

// anyPort is one at random between lowestPort and below; 0, for the system to choose, where it
// leaves few there.
func anyPort(below int) int {
	const few = 1000
	if below < lowestPort+few {
		return 0
	}
	return lowestPort + rand.IntN(below-lowestPort)
}

// ephemeral is the first port that the system gives to connections.
func ephemeral() int {
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usualEphemeral
	}
	return firstOf(string(raw))
}

// firstOf a range such as "32768\t60999".
func firstOf(text string) int {
	var first int
	if _, err := fmt.Sscan(text, &first); err != nil {
		return usualEphemeral
	}
	return first
}
