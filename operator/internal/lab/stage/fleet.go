package stage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/notary"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// signed are the images of the sample fleet.
var signed = []string{"shop/orders-db:15.3.0", "shop/cache:7.2.4", "shop/backup:1.2.0"}

// AttestorSecret is the name of the Secret with the key that an environment signs evidence
// with, as the overlays' Gates name it: the whole key in its own cluster, and the public
// half in that of the next.
func AttestorSecret(environment string) string { return environment + "-attestor" }

// KeyManifest is a Secret of the operator's namespace with the public half of a key.
func KeyManifest(name string, key *testkit.Key) *unstructured.Unstructured {
	return secret(name, map[string]any{"cosign.pub": key.PublicPEM})
}

func secret(name string, content map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": name, "namespace": OperatorNamespace},
		"stringData": content,
	}}
}

// Fleet is the images of the sample fleet in a registry.
type Fleet struct {
	// Registry is its host:port.
	Registry string
	// digests of the images, by repository below the registry.
	digests map[string]string
}

// PushFleet pushes the images of the sample fleet to a registry, signed with a key.
func PushFleet(registry string, key *testkit.Key) (*Fleet, error) {
	f := &Fleet{Registry: registry, digests: map[string]string{}}
	for _, image := range signed {
		digest, err := PushSigned(registry, image, key)
		if err != nil {
			return nil, err
		}
		repository, _, _ := strings.Cut(image, ":")
		f.digests[repository] = digest
	}
	return f, nil
}

// PushSigned pushes a small image to a registry under repository:tag, signs it with a key in
// cosign's tag format, and returns its digest.
func PushSigned(registry, image string, key *testkit.Key) (string, error) {
	digest, err := push(registry, image)
	if err != nil {
		return "", err
	}
	return digest, sign(registry, image, digest, key)
}

func push(registry, image string) (string, error) {
	digest, err := testkit.PushImage(registry+"/"+image, image)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", image, err)
	}
	return digest, nil
}

func sign(registry, image, digest string, key *testkit.Key) error {
	repository, _, _ := strings.Cut(image, ":")
	if err := key.SignTag(registry+"/"+repository, digest); err != nil {
		return fmt.Errorf("sign %s: %w", image, err)
	}
	return nil
}

// Attest signs with a key that each image passed an environment at a time.
func (f *Fleet) Attest(key *testkit.Key, environment string, at time.Time) error {
	for repository, digest := range f.digests {
		matter := notary.Matter{Environment: environment, Repository: Registry + "/" + repository, Digest: digest}
		statement, err := matter.Summary(at).Statement()
		if err != nil {
			return err
		}
		if err := key.AttestStatement(f.Registry+"/"+repository, digest, evidence.PredicateType, statement); err != nil {
			return fmt.Errorf("attest %s: %w", repository, err)
		}
	}
	return nil
}

// attest makes the keys that the overlay's Gates name for environments, and signs that the
// sample fleet passed those that they demand. It returns the Secrets with the keys: where a
// Gate attests, with the whole of its own.
func (s *Stage) attest(fleet *Fleet, guarded []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	s.Attestors = map[string]*testkit.Key{}
	secrets := map[string]*unstructured.Unstructured{}
	for _, o := range guarded {
		if o.GetKind() != v1beta1.GateKind {
			continue
		}
		g := &v1beta1.Gate{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, g); err != nil {
			return nil, fmt.Errorf("read Gate %s: %w", o.GetName(), err)
		}
		if before := g.Spec.RequirePromotionFrom; before != nil {
			key, err := s.attestor(before.Environment)
			if err != nil {
				return nil, err
			}
			if err := fleet.Attest(key, before.Environment, time.Now()); err != nil {
				return nil, err
			}
			if name := AttestorSecret(before.Environment); secrets[name] == nil {
				secrets[name] = KeyManifest(name, key)
			}
		}
		if g.Spec.Attest != nil {
			key, err := s.attestor(g.Spec.Environment)
			if err != nil {
				return nil, err
			}
			name := AttestorSecret(g.Spec.Environment)
			secrets[name] = secret(name, map[string]any{"cosign.key": key.PrivatePEM, "cosign.password": "", "cosign.pub": key.PublicPEM})
		}
	}
	return slices.Collect(maps.Values(secrets)), nil
}

// PublicKeys are the Secrets that the overlay's Gates have keys from, public halves alone:
// what `sluice check` takes with --gate.
func (s *Stage) PublicKeys() []*unstructured.Unstructured {
	out := []*unstructured.Unstructured{s.SignerManifest()}
	for _, environment := range slices.Sorted(maps.Keys(s.Attestors)) {
		out = append(out, KeyManifest(AttestorSecret(environment), s.Attestors[environment]))
	}
	return out
}

// attestor is the key of an environment, made when it is first asked for.
func (s *Stage) attestor(environment string) (*testkit.Key, error) {
	if key, ok := s.Attestors[environment]; ok {
		return key, nil
	}
	key, err := testkit.NewKey()
	if err != nil {
		return nil, fmt.Errorf("make the key of environment %s: %w", environment, err)
	}
	s.Attestors[environment] = key
	return key, nil
}
