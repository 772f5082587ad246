package gather_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gather"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// public is the public Sigstore, as far as its root goes. It counts how often it is asked.
type public struct {
	*trust.Loader
	root  []byte
	asked atomic.Int32
}

func (p *public) PublicRoot(context.Context) (string, error) {
	p.asked.Add(1)
	if p.root == nil {
		return "", errors.New("no answer")
	}
	return string(p.root), nil
}

// Each place where a root may be, what is said where it is not there, and who is asked.
func TestJudge_TakesTheTrustedRootFromWhereTheGateSays(t *testing.T) {
	sigstore, err := testkit.NewSigstore()
	if err != nil {
		t.Fatal(err)
	}
	root, err := sigstore.TrustedRootJSON()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trusted_root.json")
	if err := os.WriteFile(file, root, 0o600); err != nil {
		t.Fatal(err)
	}
	by := testkit.Identity{Subject: "release@example.com", Issuer: "https://issuer.example.com"}
	roots := v1beta1.NamespacedName{Name: "roots", Namespace: "sluice-system"}
	inSecret := func(key string) *v1beta1.TrustedRoot {
		return &v1beta1.TrustedRoot{Secret: &v1beta1.SecretKeyRef{NamespacedName: roots, Key: key}}
	}
	inConfigMap := func(key string) *v1beta1.TrustedRoot {
		return &v1beta1.TrustedRoot{ConfigMap: &v1beta1.ConfigMapKeyRef{NamespacedName: roots, Key: key}}
	}
	for title, c := range map[string]struct {
		from *v1beta1.TrustedRoot
		// down says that nobody answers for the public Sigstore.
		down     bool
		unneeded bool
		want     gate.Outcome
		says     string
		asked    int32
	}{
		"in the Gate":                   {from: &v1beta1.TrustedRoot{Inline: string(root)}, want: gate.OutcomeAllow},
		"in a file":                     {from: &v1beta1.TrustedRoot{File: file}, want: gate.OutcomeAllow},
		"in a file that is not there":   {from: &v1beta1.TrustedRoot{File: file + ".old"}, want: gate.OutcomeError, says: "trusted_root.json.old"},
		"in a Secret":                   {from: inSecret("trusted_root.json"), want: gate.OutcomeAllow},
		"in no key of the Secret":       {from: inSecret("other"), want: gate.OutcomeError, says: `Secret sluice-system/roots has no key "other"`},
		"in a Secret, and broken":       {from: inSecret("broken"), want: gate.OutcomeError, says: "trustedRoot cannot be used"},
		"in a ConfigMap":                {from: inConfigMap("trusted_root.json"), want: gate.OutcomeAllow},
		"in no key of the ConfigMap":    {from: inConfigMap("other"), want: gate.OutcomeError, says: `ConfigMap sluice-system/roots has no key "other"`},
		"named nowhere":                 {want: gate.OutcomeAllow, asked: 1},
		"named nowhere, and no network": {down: true, want: gate.OutcomeError, says: "the public Sigstore: no answer", asked: 1},
		"named nowhere, and not needed": {unneeded: true, want: gate.OutcomeAllow},
	} {
		t.Run(title, func(t *testing.T) {
			s := newStand(t)
			if err := sigstore.SignBundle(by, s.repository(), s.digest); err != nil {
				t.Fatal(err)
			}
			s.files.Secrets["sluice-system/roots"] = map[string][]byte{"trusted_root.json": root, "broken": root[:100]}
			s.files.ConfigMaps["sluice-system/roots"] = map[string]string{"trusted_root.json": string(root)}
			rule := &s.files.GateList[0].Spec.Images[0]
			rule.Authorities = []v1beta1.Authority{{Name: "ci", Keyless: &v1beta1.Keyless{Issuer: by.Issuer, Subject: by.Subject, TrustedRoot: c.from}}}
			if c.unneeded {
				rule.Require = new(intstr.FromString("none"))
			}
			keys := &public{Loader: trust.New(trust.Options{}), root: root}
			if c.down {
				keys.root = nil
			}
			j := gather.NewJudge(s.files, registry.New(registry.Options{}), keys).Workload(t.Context(), workload(s.image("signed")), nil)
			if got := j.Verdicts[0].Outcome; got != c.want || !strings.Contains(findings(j), c.says) {
				t.Errorf("%s: %s", got, findings(j))
			}
			if got := keys.asked.Load(); got != c.asked {
				t.Errorf("the public Sigstore was asked %d times", got)
			}
		})
	}
}
