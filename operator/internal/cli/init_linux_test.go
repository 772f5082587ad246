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

// answered runs init on a terminal where somebody answers.
func (d *desk) answered(t *testing.T, answers []string, args ...string) output {
	t.Helper()
	user, program := terminal(t)
	if _, err := user.WriteString(strings.Join(answers, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	code := cli.Main(t.Context(), append([]string{"init", filepath.Join(d.dir, "fleet")}, args...), program, &out, &errOut)
	return output{code, out.String(), errOut.String()}
}

func TestInit_AsksOnATerminal(t *testing.T) {
	d := newDesk(t)
	got := d.answered(t, []string{"fleet-a", d.registry.Host() + "/shop", d.image("signed"), filepath.Join(d.dir, "key.pub"), "", ""})
	got.must(t, 0, "Name of the fleet", "signer's public key", "which the environments sign with", "files are in", "No environment demands")
	if strings.Contains(got.err, "Issuer") {
		t.Errorf("it asks for what it was told: %s", got.err)
	}
	d.checkAll(t)
	if _, err := os.Stat(filepath.Join(d.dir, "fleet", "argocd")); err == nil {
		t.Error("Argo CD's files are there without a URL")
	}
}

func TestInit_AsksForTheKeysOfEnvironmentsWhereItAsksAtAll(t *testing.T) {
	d := newDesk(t)
	d.keyring(t)
	flags := []string{"--name=fleet-a", "--registry=" + d.registry.Host() + "/shop", "--image=" + d.image("signed"), "--key=" + filepath.Join(d.dir, "key.pub"), "--no-argocd"}
	got := d.answered(t, []string{"fleet-a", filepath.Join(d.dir, "keys")}, flags[1:]...)
	got.must(t, 0, "ci, e2e and prod are denied until")
	if !d.fleetHolds(t, "requirePromotionFrom:") {
		t.Error("the Gates demand nothing")
	}
	must(t, os.RemoveAll(filepath.Join(d.dir, "fleet")))
	if got = d.answered(t, nil, flags...); got.code != 0 || strings.Contains(got.err, "environments") {
		t.Errorf("all is said, and it asks: %d %s", got.code, got.err)
	}
}
