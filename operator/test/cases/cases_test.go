package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

func TestCases_Images(t *testing.T) {
	for _, c := range images {
		t.Run(fmt.Sprintf("%d %s", c.number, c.name), func(t *testing.T) {
			if _, err := runCase(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCases_Promotion(t *testing.T) {
	for _, c := range promotionCases {
		t.Run(fmt.Sprintf("%d %s", c.number, c.name), func(t *testing.T) {
			if _, err := runCase(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCases_Promote(t *testing.T) {
	for _, c := range promoteCases {
		t.Run(fmt.Sprintf("%d %s", c.number, c.name), func(t *testing.T) {
			if err := c.run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCases_Kustomize(t *testing.T) {
	for _, c := range kustomizeCases {
		t.Run(fmt.Sprintf("%d %s", c.number, c.name), func(t *testing.T) {
			if err := c.run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// What the attacks name of other suites is run with those.
func TestCases_Attacks(t *testing.T) {
	for _, a := range attacks {
		if a.run == nil {
			continue
		}
		t.Run(fmt.Sprintf("%d %s", a.number, a.name), func(t *testing.T) {
			if err := a.run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// row is one line of the table in docs/image-trust.md.
type row struct{ format, signer, registry, byDigest, byTag string }

// TestTable_EachRowIsTrue runs every row of the table in the documentation, and wants
// every combination to be there.
func TestTable_EachRowIsTrue(t *testing.T) {
	rows := table(t)
	if want := len(formats) * len(signers) * len(registries); len(rows) != want {
		t.Errorf("the table has %d rows and should have %d", len(rows), want)
	}
	seen := map[row]bool{}
	for _, r := range rows {
		key := row{r.format, r.signer, r.registry, "", ""}
		if seen[key] {
			t.Errorf("%v stands there twice", key)
		}
		seen[key] = true
		t.Run(r.format+", "+r.signer+", "+r.registry, func(t *testing.T) { r.hold(t) })
	}
}

var formats = map[string]bool{"`.sig` tag": true, "bundle": true}

var registries = map[string]testkit.RegistryOptions{
	"referrers API": {Referrers: true}, "no referrers API": {}, "referrers API with the config's type": {Referrers: true, EmptyArtifactTypes: true},
}

var signers = map[string]protocommon.PublicKeyDetails{
	"ECDSA P-256": protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
	"ECDSA P-384": protocommon.PublicKeyDetails_PKIX_ECDSA_P384_SHA_384,
	"RSA 2048":    protocommon.PublicKeyDetails_PKIX_RSA_PKCS1V15_2048_SHA256,
	"Ed25519":     protocommon.PublicKeyDetails_PKIX_ED25519,
	"keyless":     protocommon.PublicKeyDetails_PUBLIC_KEY_DETAILS_UNSPECIFIED,
}

func table(t *testing.T) []row {
	t.Helper()
	f, err := os.Open("../../../docs/image-trust.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []row
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		cells := strings.Split(strings.Trim(lines.Text(), "| "), " | ")
		if len(cells) == 5 && formats[cells[0]] {
			rows = append(rows, row{cells[0], cells[1], cells[2], cells[3], cells[4]})
		}
	}
	return rows
}

// hold signs an image as the row says, and judges it cold by digest and by tag.
func (r row) hold(t *testing.T) {
	options, ok := registries[r.registry]
	if !ok {
		t.Fatalf("no registry %q", r.registry)
	}
	for _, c := range []struct{ by, requests string }{{"digest", r.byDigest}, {"tag", r.byTag}} {
		b, err := newBench()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.close)
		b.use(options)
		digest, err := b.push()
		if err != nil {
			t.Fatal(err)
		}
		r.sign(t, b, digest)
		b.registry.ResetCounts()
		image := b.repository() + ":1"
		if c.by == "digest" {
			image = b.repository() + "@" + digest
		}
		verdict, err := b.pod(context.Background(), image)
		if err != nil {
			t.Fatal(err)
		}
		if verdict.Outcome != gate.OutcomeAllow {
			t.Errorf("by %s: %s", c.by, verdict.Canonical())
		}
		if got := strconv.Itoa(b.registry.Requests()); got != c.requests {
			t.Errorf("by %s: %s requests, the table says %s", c.by, got, c.requests)
		}
		if _, err := b.pod(context.Background(), b.repository()+"@"+digest); err != nil {
			t.Fatal(err)
		}
		if got := strconv.Itoa(b.registry.Requests()); got != c.requests {
			t.Errorf("by %s: a second look by digest takes requests, %s in all", c.by, got)
		}
	}
}

func (r row) sign(t *testing.T, b *bench, digest string) {
	t.Helper()
	bundle := r.format == "bundle"
	details, ok := signers[r.signer]
	if !ok {
		t.Fatalf("no signer %q", r.signer)
	}
	var err error
	if r.signer == "keyless" {
		err = r.signKeyless(b, digest, bundle)
	} else {
		var key *testkit.Key
		if key, err = testkit.NewKeyOf(details); err != nil {
			t.Fatal(err)
		}
		b.rule.Authorities = []v1beta1.Authority{byKey("release-key", key)}
		if bundle {
			err = key.SignBundle(b.repository(), digest)
		} else {
			err = key.SignTag(b.repository(), digest)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (r row) signKeyless(b *bench, digest string, bundle bool) error {
	sigstore, err := testkit.NewSigstore()
	if err != nil {
		return err
	}
	root, err := sigstore.TrustedRootJSON()
	if err != nil {
		return err
	}
	b.rule.Authorities = []v1beta1.Authority{{Name: "workflow", Keyless: &v1beta1.Keyless{
		Issuer: workflow.Issuer, Subject: workflow.Subject, TrustedRoot: &v1beta1.TrustedRoot{Inline: string(root)},
	}}}
	if bundle {
		return sigstore.SignBundle(workflow, b.repository(), digest)
	}
	return sigstore.SignTag(workflow, b.repository(), digest)
}
