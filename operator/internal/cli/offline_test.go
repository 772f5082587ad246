package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
)

// cut closes the registry, and takes its port for a listener that fails the test when
// somebody connects. Names are not looked up either.
func (d *desk) cut(t *testing.T) {
	t.Helper()
	d.registry.Close()
	listener, err := net.Listen("tcp", d.registry.Server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Error("somebody connects to the registry")
			c.Close()
		}
	}()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://"+listener.Addr().String())
	}
}

func TestOffline_JudgesByWhatWasRecorded(t *testing.T) {
	d := newDesk(t)
	t.Chdir(d.dir)
	d.write(t, "input.yaml", namespace+head+d.image("signed")+"\n")
	d.write(t, "unsigned.yaml", namespace+head+d.image("unsigned")+"\n")
	d.write(t, "other.yaml", namespace+head+d.registry.Host()+"/shop/other:1\n")
	file := filepath.Join(d.dir, "signatures.jsonl")
	check := func(input string, more ...string) output {
		return d.run("", append([]string{"check", input, "--gate", "gate.yaml"}, more...)...)
	}
	recorded := d.run("", "verify", d.image("signed"), d.image("unsigned"), "--key", "key.pub", "--record", file)
	if recorded.code != cli.ExitDenied || !strings.Contains(recorded.err, "images in it: 2") {
		t.Fatalf("%+v", recorded)
	}
	online := map[string]output{}
	for _, input := range []string{"input.yaml", "unsigned.yaml"} {
		online[input] = check(input, "--format=json")
	}
	d.cut(t)
	for input, want := range online {
		got := check(input, "--format=json", "--offline", file)
		if got.out != want.out || got.code != want.code {
			t.Errorf("%s: offline the answer is %+v, online %+v", input, got, want)
		}
		if !strings.Contains(got.err, "nothing vouches for the digest of a tag but that file") || !strings.Contains(got.err, "what was moved, signed or taken away since is not seen") {
			t.Errorf("%s: nothing is said of what that means: %s", input, got.err)
		}
	}
	for name, got := range map[string]output{
		"an image that was not recorded":    check("other.yaml", "--offline", file),
		"an identity without a root":        d.run("", "verify", d.image("signed"), "--offline", file, "--certificate-identity=a@example.com", "--certificate-oidc-issuer=https://issuer.example.com"),
		"a key in a key management service": d.run("", "verify", d.image("signed"), "--offline", file, "--key=hashivault://release"),
	} {
		if got.code != cli.ExitUndecided || !strings.Contains(got.out+got.err, "without --offline") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := check("input.yaml", "--offline", file, "--max-age=1ns"); got.code != cli.ExitUndecided || !strings.Contains(got.out, "older than 1ns (--max-age)") {
		t.Errorf("of a file that is too old: %+v", got)
	}
}

// TestOffline_VerifiesAnew takes a recording for what it is.
func TestOffline_VerifiesAnew(t *testing.T) {
	d := newDesk(t)
	t.Chdir(d.dir)
	file := filepath.Join(d.dir, "signatures.jsonl")
	if got := d.run("", "verify", d.image("signed"), "--key", "key.pub", "--record", file); got.code != cli.ExitPass {
		t.Fatalf("%+v", got)
	}
	if got := d.run("", "verify", d.image("signed"), "--key", "other.pub", "--offline", file); got.code != cli.ExitDenied {
		t.Errorf("by another key: %+v", got)
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// A tag is what nothing vouches for: that of the signed image is given to another one.
	forged := strings.ReplaceAll(string(first), "shop/signed", "shop/another")
	d.write(t, "forged.jsonl", forged)
	if got := d.run("", "verify", d.registry.Host()+"/shop/another:1", "--key", "key.pub", "--offline", filepath.Join(d.dir, "forged.jsonl")); !strings.Contains(got.err, "shop/another:1: name images by digest") {
		t.Errorf("of a forged tag nothing is said: %+v", got)
	}
}

func TestOffline_RefusesWhatCannotBe(t *testing.T) {
	d := newDesk(t)
	t.Chdir(d.dir)
	d.write(t, "input.yaml", namespace+head+d.image("signed")+"\n")
	d.write(t, "v9.jsonl", `{"format":"sluice.dev/signature-cache/v9"}`+"\n")
	for says, args := range map[string][]string{
		"give one of them":                       {"--record=a", "--offline=b"},
		"goes with --offline":                    {"--max-age=1h"},
		"it is a time such as 24h":               {"--max-age=-1h", "--offline=b"},
		"no such file":                           {"--offline=gone.jsonl"},
		"sluice.dev/signature-cache/v9":          {"--offline=v9.jsonl"},
		"line 1: its format":                     {"--offline=key.pub"},
		"it is there, and is no signature cache": {"--record=key.pub"},
		"it is not a regular file":               {"--record=."},
		"--record=gone/a: open gone/.sluice-":    {"--record=gone/a"},
	} {
		got := d.run("", append([]string{"check", "input.yaml", "--gate", "gate.yaml"}, args...)...)
		if got.code != cli.ExitUsage || !strings.Contains(got.err, says) {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestRecord_LeavesAnOlderFileWhereNothingWasAsked(t *testing.T) {
	d := newDesk(t)
	t.Chdir(d.dir)
	d.run("", "verify", d.image("signed"), "--key", "key.pub", "--record", "signatures.jsonl").must(t, 0)
	before, err := os.ReadFile("signatures.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	d.run("", "check", "gone.yaml", "--gate", "gate.yaml", "--record", "signatures.jsonl").must(t, 2)
	after, err := os.ReadFile("signatures.jsonl")
	if err != nil || string(after) != string(before) {
		t.Errorf("the file is another one (%v)", err)
	}
}
