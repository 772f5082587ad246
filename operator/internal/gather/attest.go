package gather

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/promotion"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// Attests is what one Gate has signed of the images of one object that does well.
type Attests struct {
	Environment string
	// Verdict is that of the Gate.
	Verdict gate.Verdict
	// Soak is how long the object has to do well before.
	Soak time.Duration
	// Images to attest, sorted: those that the Gate looks at.
	Images []AttestedImage
	// Unresolved are those among them whose digest nobody knows, as written.
	Unresolved []string

	attest *v1beta1.Attest
}

// AttestedImage is an image by its repository and digest.
type AttestedImage struct{ Repository, Digest string }

// SigningKey is what signs for an environment.
type SigningKey struct {
	// ID stands for the key, and tells nothing of it.
	ID string
	// Text is the key in PEM and Password its own; both empty where KMS is.
	Text, Password []byte
	KMS            string
}

// passwordKey is the key of a Secret beside the private key, as cosign stores it.
const passwordKey = "cosign.password"

// attested are the Gates that attest, with the images that they look at.
func attested(gates []read, verdicts []gate.Verdict, found []gate.Image) []Attests {
	var out []Attests
	for i, g := range gates {
		if g.attest == nil {
			continue
		}
		a := Attests{Environment: g.config.Environment, Verdict: verdicts[i], Soak: limits.Soak, attest: g.attest}
		if g.attest.Soak != nil {
			a.Soak = g.attest.Soak.Duration
		}
		for _, image := range found {
			switch {
			case !promotion.LookedAt(g.config, image):
			case image.Digest == "":
				a.Unresolved = append(a.Unresolved, image.Ref)
			default:
				a.Images = append(a.Images, AttestedImage{image.Repository, image.Digest})
			}
		}
		slices.SortFunc(a.Images, func(x, y AttestedImage) int {
			return cmp.Or(cmp.Compare(x.Repository, y.Repository), cmp.Compare(x.Digest, y.Digest))
		})
		a.Images = slices.Compact(a.Images)
		if len(a.Images)+len(a.Unresolved) > 0 {
			out = append(out, a)
		}
	}
	return out
}

// SigningKey reads the key that a Gate has evidence signed with.
func (j *Judge) SigningKey(ctx context.Context, a Attests) (SigningKey, error) {
	if kms := a.attest.Key.KMS; kms != "" {
		return SigningKey{ID: kms, KMS: kms}, nil
	}
	ref := a.attest.Key.Secret
	if ref == nil {
		return SigningKey{}, fmt.Errorf("spec.attest.key of gate %s names neither a Secret nor a key management service", a.Verdict.Gate)
	}
	text, err := secretKey(ctx, *ref, j.source)
	if err != nil {
		return SigningKey{}, err
	}
	data, err := j.source.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return SigningKey{}, fmt.Errorf("Secret %s/%s: %w", ref.Namespace, ref.Name, same(err))
	}
	return SigningKey{ID: sum([]byte(text), data[passwordKey]), Text: []byte(text), Password: data[passwordKey]}, nil
}

// StoreCredentials are what evidence of a Workload's images is stored with: those that the
// Gate names, or else what the images are pulled with. The text stands for them as far as
// they can be told without reading; they are read when they are asked for.
func (j *Judge) StoreCredentials(ctx context.Context, w *v1beta1.Workload, a Attests) (string, func(context.Context) (authn.Keychain, error), error) {
	ref := a.attest.RegistrySecret
	if ref == nil {
		s := &subject{ref: gate.ObjectRef{Namespace: w.Namespace}, account: w.Spec.ServiceAccountName}
		for _, p := range w.Spec.ImagePullSecrets {
			s.pullSecrets = append(s.pullSecrets, p.Name)
		}
		whose := [][]byte{[]byte(w.Namespace), []byte(s.account)}
		for _, name := range s.pullSecrets {
			whose = append(whose, []byte(name))
		}
		return sum(whose...), func(ctx context.Context) (authn.Keychain, error) { return j.keychain(ctx, s) }, nil
	}
	raw, err := secretKey(ctx, v1beta1.SecretKeyRef{NamespacedName: *ref, Key: corev1.DockerConfigJsonKey}, j.source)
	if err != nil {
		return "", nil, err
	}
	keys, err := registry.PullSecretKeychain([][]byte{[]byte(raw)})
	if err != nil {
		return "", nil, fmt.Errorf("Secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return sum([]byte(raw)), func(context.Context) (authn.Keychain, error) { return keys, nil }, nil
}

// sum tells contents apart, and shows none of them.
func sum(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// validateAttest says what is wrong with what a Gate attests. That a Secret is not there
// yet is not an error.
func validateAttest(g *v1beta1.Gate, a v1beta1.Attest, at *field.Path) field.ErrorList {
	errs := validateAuthorities(a.Authorities, at)
	switch {
	case (a.Key.Secret == nil) == (a.Key.KMS == ""):
		errs = append(errs, field.Required(at.Child("key"), "exactly one of secret and kms: without a key nothing can be signed"))
	case a.Key.KMS != "":
		if err := trust.ValidateKMS(a.Key.KMS); err != nil {
			errs = append(errs, field.Invalid(at.Child("key", "kms"), a.Key.KMS, err.Error()))
		}
	}
	if g.Spec.RequirePromotionFrom == nil {
		return errs
	}
	// Whoever signs for the environment before this one could else say that anything ran here.
	before := g.Spec.RequirePromotionFrom
	twice := fmt.Sprintf("it signs for environment %s too, see spec.requirePromotionFrom: give each environment a key of its own", before.Environment)
	for i, own := range a.Authorities {
		at := at.Child("authorities").Index(i)
		if k := own.Key; k != nil && slices.ContainsFunc(before.Authorities, func(b v1beta1.Authority) bool { return b.Key != nil && oneKey(*k, *b.Key) }) {
			errs = append(errs, field.Invalid(at.Child("key"), "(not shown)", twice))
		}
		if k := own.Keyless; k != nil && slices.ContainsFunc(before.Authorities, func(b v1beta1.Authority) bool { return b.Keyless != nil && oneIdentity(*k, *b.Keyless) }) {
			errs = append(errs, field.Invalid(at.Child("keyless"), k.Subject+k.SubjectRegExp, twice))
		}
	}
	for _, b := range before.Authorities {
		if b.Key != nil && a.Key.KMS != "" && strings.TrimSuffix(a.Key.KMS, "/") == strings.TrimSuffix(b.Key.KMS, "/") {
			errs = append(errs, field.Invalid(at.Child("key", "kms"), a.Key.KMS, fmt.Sprintf(
				"it signs for environment %s, see spec.requirePromotionFrom: give each environment a key of its own", before.Environment)))
		}
	}
	return errs
}

// oneKey says whether two keys are the same, as far as the Gate itself tells.
func oneKey(a, b v1beta1.PublicKey) bool {
	switch {
	case a.Secret != nil && b.Secret != nil:
		return *a.Secret == *b.Secret
	case a.KMS != "":
		return a.KMS == b.KMS
	}
	return signature.SameKey(a.Inline, b.Inline)
}

// oneIdentity says whether two are accepted of the same, whatever they are verified against.
func oneIdentity(a, b v1beta1.Keyless) bool {
	return a.Issuer == b.Issuer && a.IssuerRegExp == b.IssuerRegExp && a.Subject == b.Subject && a.SubjectRegExp == b.SubjectRegExp
}
