package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-dev/sluice/operator/internal/cli"
)

// terminal is both ends of a pseudo-terminal.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

func TestInit_AsksOnATerminal(t *testing.T) {
	d := newDesk(t)
	user, program := terminal(t)
	answers := []string{"fleet-a", d.registry.Host() + "/shop", d.image("signed"), filepath.Join(d.dir, "key.pub"), ""}
	if _, err := user.WriteString(strings.Join(answers, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	code := cli.Main(t.Context(), []string{"init", filepath.Join(d.dir, "fleet")}, program, &out, &errOut)
	output{code, out.String(), errOut.String()}.must(t, 0, "Name of the fleet", "signer's public key", "files are in")
	if strings.Contains(errOut.String(), "Issuer") {
		t.Errorf("it asks for what it was told: %s", errOut.String())
	}
	d.checkAll(t)
	if _, err := os.Stat(filepath.Join(d.dir, "fleet", "argocd")); err == nil {
		t.Error("Argo CD's files are there without a URL")
	}
}
