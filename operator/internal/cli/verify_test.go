package cli_test

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func verify(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := cli.Main(t.Context(), append([]string{"verify"}, args...), nil, &stdout, &stderr); got != code {
		t.Errorf("exit code %d, want %d: %s%s", got, code, stdout.String(), stderr.String())
	}
	if all := stdout.String() + stderr.String(); !strings.Contains(all, says) {
		t.Errorf("%q is not said: %s", says, all)
	}
}

func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerify_ByIdentity(t *testing.T) {
	depot := testkit.NewRegistry(testkit.RegistryOptions{Referrers: true})
	t.Cleanup(depot.Close)
	sigstore, err := testkit.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := sigstore.TrustedRootJSON()
	if err != nil {
		t.Fatal(err)
	}
	root := file(t, "trusted_root.json", raw)
	digest, err := testkit.PushImage(depot.Host()+"/shop/app:1", "app")
	if err != nil {
		t.Fatal(err)
	}
	who := testkit.Identity{Subject: "https://git.example.com/shop/release.yml@v1", Issuer: "https://issuer.example.com"}
	if err := sigstore.SignBundle(who, depot.Host()+"/shop/app", digest); err != nil {
		t.Fatal(err)
	}
	image := depot.Host() + "/shop/app:1"
	issuer, subject := "--certificate-oidc-issuer="+who.Issuer, "--certificate-identity="+who.Subject
	verify(t, cli.ExitPass, "signed by certificate", image, issuer, subject, "--trusted-root="+root)
	verify(t, cli.ExitPass, who.Subject+" ("+who.Issuer+")", image, issuer, `--certificate-identity-regexp=^https://git\.example\.com/shop/.+$`, "--trusted-root="+root, "--format=json")
	verify(t, cli.ExitDenied, "certificate", image, issuer, "--certificate-identity=https://git.example.com/shop/test.yml@v1", "--trusted-root="+root)
	verify(t, cli.ExitUsage, "issuer", image, subject, "--trusted-root="+root)
	verify(t, cli.ExitUsage, "subject", image, issuer, "--certificate-identity-regexp=^.*$", "--trusted-root="+root)
	verify(t, cli.ExitUsage, "--trusted-root", image, issuer, subject, "--trusted-root="+file(t, "other.json", []byte("{}")))
	verify(t, cli.ExitUndecided, "trusted root", image, issuer, subject, "--trusted-root="+root+".gone")
}

func TestVerify_OnARegistryWithAPrivateCA(t *testing.T) {
	depot := testkit.NewRegistry(testkit.RegistryOptions{TLS: true})
	t.Cleanup(depot.Close)
	key, err := testkit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	public := file(t, "key.pub", []byte(key.PublicPEM))
	authority := file(t, "ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: depot.Server.Certificate().Raw}))
	image := depot.Host() + "/shop/app@sha256:" + strings.Repeat("0", 64)
	verify(t, cli.ExitDenied, "no signature", image, "--key="+public, "--registry-ca-file="+authority)
	if depot.Requests() == 0 {
		t.Error("the registry was not asked")
	}
	verify(t, cli.ExitUsage, "--registry-ca-file", image, "--key="+public, "--registry-ca-file="+public)
}
