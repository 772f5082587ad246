package cli_test

import (
	"regexp"
	"strings"
	"testing"
)

var (
	listed = regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`)
	noise  = regexp.MustCompile(`true\|false|stringToString|\(default \[\]\)|boolfunc`)
)

// helps are the help texts of a command and of all below it, by how they are called.
func helps(t *testing.T, d *desk, command ...string) map[string]string {
	t.Helper()
	got := d.run("", append(append([]string{}, command...), "--help")...)
	got.must(t, 0, "Usage:")
	all := map[string]string{strings.Join(command, " "): got.out}
	_, below, found := strings.Cut(got.out, "Available Commands:")
	if !found {
		return all
	}
	below, _, _ = strings.Cut(below, "Flags:")
	for _, name := range listed.FindAllStringSubmatch(below, -1) {
		if name[1] == "help" {
			continue
		}
		for called, text := range helps(t, d, append(append([]string{}, command...), name[1])...) {
			all[called] = text
		}
	}
	return all
}

// A flag that needs no value stands in the help of every command by its name alone.
func TestHelp_ShowsSwitchesByTheirNames(t *testing.T) {
	all := helps(t, &desk{dir: t.TempDir()})
	if len(all) < 20 || all["crd check"] == "" {
		t.Fatalf("%d commands were found", len(all))
	}
	for called, text := range all {
		if found := noise.FindString(text); found != "" {
			t.Errorf("sluice %s --help shows %q", called, found)
		}
	}
	for called, line := range map[string]string{
		"":        "  -v, --version ",
		"check":   "      --no-cache ",
		"promote": "      --pull-request  ",
		"status":  "  -w, --watch ",
		"verify":  "      --registry-mirror HOST=HOST:PORT ",
	} {
		if !strings.Contains(all[called], line) {
			t.Errorf("sluice %s --help has no %q: %s", called, line, all[called])
		}
	}
	if got := (&desk{}).run("", "promote", "--help"); !strings.Contains(got.out, "token (default true)") {
		t.Errorf("what a switch is by default is not shown: %s", got.out)
	}
}
