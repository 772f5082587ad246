package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/scaffold"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// fourKeys are those of the environments, made once as twoKeys are.
var fourKeys = sync.OnceValues(func() (map[string]*testkit.Key, error) {
	keys := map[string]*testkit.Key{}
	for _, environment := range scaffold.Environments {
		key, err := testkit.NewKey()
		if err != nil {
			return nil, err
		}
		keys[environment] = key
	}
	return keys, nil
})

// keyring puts the environments' key pairs into the folder keys, as cosign names them.
func (d *desk) keyring(t *testing.T) map[string]*testkit.Key {
	t.Helper()
	keys, err := fourKeys()
	must(t, err)
	for environment, key := range keys {
		d.write(t, "keys/"+environment+".pub", key.PublicPEM)
		d.write(t, "keys/"+environment+".key", key.PrivatePEM)
	}
	return keys
}

func (d *desk) initWith(more ...string) output {
	return d.run("", append([]string{"init", "@fleet", "--name=fleet-a", "--registry=" + d.registry.Host() + "/shop", "--image=" + d.image("signed"), "--key", "@key.pub", "--no-argocd"}, more...)...)
}

// fleetHolds says whether any file of the fleet holds a text.
func (d *desk) fleetHolds(t *testing.T, text string) bool {
	t.Helper()
	found := false
	must(t, filepath.WalkDir(filepath.Join(d.dir, "fleet"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		found = found || strings.Contains(string(raw), text)
		return err
	}))
	return found
}

func TestInit_WithAttestorsEachEnvironmentDemandsProofOfTheOneBefore(t *testing.T) {
	d := newDesk(t)
	d.keyring(t)
	made := d.initWith("--attestors", "@keys")
	made.must(t, 0, "files are in", "ci, e2e and prod are denied until", "ENV-attestor")
	_, line, ok := strings.Cut(made.out, "\n  sluice attest ")
	image, _, ended := strings.Cut(line, " --environment dev --key KEYS/dev.key && sluice check overlays/ci\n")
	if !ok || !ended || !strings.Contains(image, "@sha256:") {
		t.Fatalf("no command is named that attests the image: %s", made.out)
	}
	d.git(t, "init", "-q", "fleet")

	const denied = "image has no evidence that it passed environment "
	d.run("", d.inEach("check", "@fleet/overlays/")...).must(t, 1, "4 judged: 1 allowed, 0 with warnings, 3 denied", denied+"dev", denied+"ci", denied+"e2e")
	before, why := "", denied+"dev"
	for _, environment := range scaffold.Environments {
		if before != "" {
			d.run("", "check", "@fleet/overlays/"+environment).must(t, 1, why)
			why = "evidence is of environment " + before + ", and not of environment " + environment
			// What another environment signs is no proof of the one before.
			d.run("", "attest", image, "--environment="+before, "--key", "@keys/"+environment+".key").must(t, 0)
			d.run("", "check", "@fleet/overlays/"+environment).must(t, 1, "is signed by nobody that")
			d.run("", "attest", image, "--environment="+before, "--key", "@keys/"+before+".key").must(t, 0, "PASSED")
		}
		d.run("", "check", "@fleet/overlays/"+environment).must(t, 0, "1 judged: 1 allowed")
		before = environment
	}
	d.checkAll(t)
	for _, environment := range scaffold.Environments[1:] {
		d.run("", "history", image, "--gate", "@fleet/overlays/"+environment+"/gate.yaml").must(t, 0)
	}
	if !d.fleetHolds(t, "BEGIN PUBLIC KEY") || d.fleetHolds(t, "PRIVATE") {
		t.Error("the fleet has to hold public keys, and no private ones")
	}
}

func TestInit_TheReadmeSaysWhatAChainNeeds(t *testing.T) {
	d := newDesk(t)
	d.keyring(t)
	d.initWith("--attestors", "@keys").must(t, 0)
	raw, err := os.ReadFile(filepath.Join(d.dir, "fleet", "README.md"))
	must(t, err)
	for _, text := range []string{"A new fleet is denied in ci, e2e and prod", "create secret generic dev-attestor --namespace sluice-system", "sluice attest " + d.image("signed") + "@sha256:"} {
		if !strings.Contains(string(raw), text) {
			t.Errorf("%q is not in the README", text)
		}
	}
}

func TestInit_WithoutAttestorsNothingIsDemandedAndThatIsSaid(t *testing.T) {
	d := newDesk(t)
	d.initWith().must(t, 0, "No environment demands signed evidence of the one before: give --attestors")
	for _, environment := range scaffold.Environments {
		raw, err := os.ReadFile(filepath.Join(d.dir, "fleet", "overlays", environment, "gate.yaml"))
		must(t, err)
		if text := string(raw); strings.Contains(text, "requirePromotionFrom") || strings.Contains(text, "attest") {
			t.Errorf("the Gate of %s demands or signs evidence:\n%s", environment, text)
		}
	}
}

func TestInit_OfAKeyFileTheKeyAloneIsWritten(t *testing.T) {
	d := newDesk(t)
	const secret = "the password is hunter2"
	for name, key := range map[string]*testkit.Key{"keys/e2e.pub": d.keyring(t)["e2e"], "key.pub": d.key} {
		d.write(t, name, secret+"\n"+key.PublicPEM)
	}
	d.initWith("--attestors", "@keys").must(t, 0)
	if d.fleetHolds(t, secret) || !d.fleetHolds(t, "BEGIN PUBLIC KEY") {
		t.Error("what stands before a key came into the fleet")
	}
}

func TestInit_RefusesAttestorsThatAreNotOneKeyForEachEnvironment(t *testing.T) {
	keys, err := fourKeys()
	must(t, err)
	for name, c := range map[string]struct {
		change func(t *testing.T, d *desk)
		says   []string
	}{
		"no folder": {func(t *testing.T, d *desk) { must(t, os.RemoveAll(filepath.Join(d.dir, "keys"))) }, []string{"--attestors", "dev.pub: no such file", "prod.pub: no such file"}},
		"a file in its place": {func(t *testing.T, d *desk) {
			must(t, os.RemoveAll(filepath.Join(d.dir, "keys")))
			d.write(t, "keys", "x")
		}, []string{"--attestors", "dev.pub: not a directory"}},
		"no key of one environment": {func(t *testing.T, d *desk) { must(t, os.Remove(filepath.Join(d.dir, "keys/ci.pub"))) }, []string{"--attestors", "ci.pub: no such file"}},
		"a folder in place of a key": {func(t *testing.T, d *desk) {
			must(t, os.Remove(filepath.Join(d.dir, "keys/ci.pub")))
			d.write(t, "keys/ci.pub/a", "x")
		}, []string{"--attestors", "ci.pub: is a directory"}},
		"an empty key":                 {func(t *testing.T, d *desk) { d.write(t, "keys/ci.pub", "") }, []string{"--attestors: ci.pub: not a PEM public key"}},
		"what is no key":               {func(t *testing.T, d *desk) { d.write(t, "keys/ci.pub", "hello") }, []string{"--attestors: ci.pub: not a PEM public key"}},
		"a private key":                {func(t *testing.T, d *desk) { d.write(t, "keys/e2e.pub", keys["e2e"].PrivatePEM) }, []string{"--attestors: e2e.pub: a private key was given", "cosign.pub"}},
		"a private key behind its own": {func(t *testing.T, d *desk) { d.write(t, "keys/e2e.pub", keys["e2e"].PublicPEM+keys["e2e"].PrivatePEM) }, []string{"--attestors: e2e.pub: a private key was given"}},
		"a link to a private key": {func(t *testing.T, d *desk) {
			must(t, os.Remove(filepath.Join(d.dir, "keys/prod.pub")))
			must(t, os.Symlink("prod.key", filepath.Join(d.dir, "keys/prod.pub")))
		}, []string{"--attestors: prod.pub: a private key was given"}},
		"two keys in one file":         {func(t *testing.T, d *desk) { d.write(t, "keys/dev.pub", keys["dev"].PublicPEM+keys["ci"].PublicPEM) }, []string{"--attestors: dev.pub: there is more than one key"}},
		"one key for two environments": {func(t *testing.T, d *desk) { d.write(t, "keys/prod.pub", "again\n"+keys["ci"].PublicPEM) }, []string{"--attestors: ci.pub and prod.pub are one key", "a key speaks for one environment"}},
		"the key of the releases":      {func(t *testing.T, d *desk) { d.write(t, "keys/dev.pub", d.key.PublicPEM) }, []string{"--attestors: dev.pub is the key of --key"}},
		"a key that is too large": {func(t *testing.T, d *desk) {
			d.write(t, "keys/dev.pub", keys["dev"].PublicPEM+strings.Repeat("\n", limits.TrustedRootBytes))
		}, []string{"dev.pub is larger than", "limits.TrustedRootBytes"}},
		"two faults, both of which are named": {func(t *testing.T, d *desk) {
			d.write(t, "keys/dev.pub", "x")
			d.write(t, "keys/ci.pub", keys["ci"].PrivatePEM)
		}, []string{"dev.pub: not a PEM", "ci.pub: a private key"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.keyring(t)
			c.change(t, d)
			got := d.initWith("--attestors", "@keys")
			got.must(t, 2, c.says...)
			if _, err := os.Stat(filepath.Join(d.dir, "fleet")); err == nil {
				t.Error("something was written")
			}
			if private := strings.Split(keys["e2e"].PrivatePEM, "\n")[1]; strings.Contains(got.out+got.err, private) {
				t.Error("a private key is shown")
			}
		})
	}
}
