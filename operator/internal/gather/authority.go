package gather

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/promotion"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
)

// Keys reads keys and trusted roots that are not in the cluster.
type Keys interface {
	// KMS returns the public half of a key in a key management service, in PEM (PKIX).
	KMS(ctx context.Context, uri string) (string, error)
	// PublicRoot returns the trusted root of the public Sigstore.
	PublicRoot(ctx context.Context) (string, error)
	// File returns a trusted root from a file.
	File(path string) (string, error)
}

// sourcePublic is the Source of an authority without a trusted root of its own.
const sourcePublic = "the public Sigstore"

// authority reads in what is in the cluster and in the Gate. The rest is left to fetch.
func authority(ctx context.Context, a v1beta1.Authority, i int, from Source) gate.Authority {
	out := gate.Authority{Name: authorityName(a, i)}
	var err error
	switch {
	case a.Key != nil:
		err = readKey(ctx, *a.Key, from, &out)
	case a.Keyless != nil:
		err = readIdentity(ctx, *a.Keyless, from, &out)
	default:
		err = errors.New("it has neither a key nor an identity")
	}
	if err != nil {
		out.Unavailable = err.Error()
	}
	return out
}

func readKey(ctx context.Context, k v1beta1.PublicKey, from Source, out *gate.Authority) error {
	switch {
	case k.KMS != "":
		out.Source = k.KMS
		return nil
	case k.Secret == nil:
		out.PublicKeyPEM = k.Inline
		return nil
	}
	key, err := secretKey(ctx, *k.Secret, from)
	if err != nil {
		return err
	}
	if err := signature.ValidateKey(key); err != nil {
		return fmt.Errorf("Secret %s/%s, key %q: %w", k.Secret.Namespace, k.Secret.Name, k.Secret.Key, err)
	}
	out.PublicKeyPEM = key
	return nil
}

func readIdentity(ctx context.Context, k v1beta1.Keyless, from Source, out *gate.Authority) error {
	out.Keyless = &gate.Keyless{
		Issuer: k.Issuer, IssuerRegExp: k.IssuerRegExp, Subject: k.Subject, SubjectRegExp: k.SubjectRegExp,
		IgnoreTransparencyLog: k.IgnoreTransparencyLog, IgnoreCertificateLog: k.IgnoreCertificateLog,
	}
	var root string
	var err error
	switch r := k.TrustedRoot; {
	case r == nil:
		out.Source = sourcePublic
		return nil
	case r.Secret != nil:
		root, err = secretKey(ctx, *r.Secret, from)
	case r.ConfigMap != nil:
		root, err = configMapKey(ctx, *r.ConfigMap, from)
	case r.File != "":
		out.Source = r.File
		return nil
	default:
		root = r.Inline
	}
	if err != nil {
		return err
	}
	out.Keyless.TrustedRoot = []byte(root)
	return signature.ValidateKeyless(*out.Keyless)
}

func secretKey(ctx context.Context, ref v1beta1.SecretKeyRef, from Source) (string, error) {
	data, err := from.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return "", fmt.Errorf("Secret %s/%s: %w", ref.Namespace, ref.Name, same(err))
	}
	value, ok := data[ref.Key]
	if !ok {
		return "", fmt.Errorf("Secret %s/%s has no key %q", ref.Namespace, ref.Name, ref.Key)
	}
	return string(value), nil
}

func configMapKey(ctx context.Context, ref v1beta1.ConfigMapKeyRef, from Source) (string, error) {
	data, err := from.ConfigMap(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return "", fmt.Errorf("ConfigMap %s/%s: %w", ref.Namespace, ref.Name, same(err))
	}
	value, ok := data[ref.Key]
	if !ok {
		return "", fmt.Errorf("ConfigMap %s/%s has no key %q", ref.Namespace, ref.Name, ref.Key)
	}
	return value, nil
}

// fetch gets what the authorities of the rules that these images fall under have outside
// the cluster, for all Gates at once: one that does not answer must not take the others'
// time. Gates whose rules nobody needs make no call.
func fetch(ctx context.Context, keys Keys, gates []read, found []gate.Image) {
	var all sync.WaitGroup
	for g := range gates {
		c := &gates[g].config
		for i := range c.Images {
			if !asked(*c, c.Images[i].Match, found) {
				continue
			}
			fetchEach(ctx, keys, c.Images[i].Authorities, &all)
		}
		if slices.ContainsFunc(found, func(img gate.Image) bool { _, needed := promotion.Needs(*c, img); return needed }) {
			fetchEach(ctx, keys, c.Promotion.Authorities, &all)
			fetchEach(ctx, keys, c.Promotion.Own, &all)
		}
	}
	all.Wait()
}

func fetchEach(ctx context.Context, keys Keys, authorities []gate.Authority, all *sync.WaitGroup) {
	for i := range authorities {
		if a := &authorities[i]; a.Source != "" && a.Unavailable == "" {
			all.Go(func() { fetchOne(ctx, keys, a) })
		}
	}
}

func asked(c gate.Config, match string, found []gate.Image) bool {
	for _, img := range found {
		if rule, ok := c.RuleFor(img.Repository); ok && rule.Match == match && signature.Needed(c, img) {
			return true
		}
	}
	return false
}

func fetchOne(ctx context.Context, keys Keys, a *gate.Authority) {
	var err error
	if a.Keyless == nil {
		if a.PublicKeyPEM, err = keys.KMS(ctx, a.Source); err == nil {
			err = signature.ValidateKey(a.PublicKeyPEM)
		}
	} else {
		var root string
		if a.Source == sourcePublic {
			root, err = keys.PublicRoot(ctx)
		} else {
			root, err = keys.File(a.Source)
		}
		if err == nil {
			a.Keyless.TrustedRoot = []byte(root)
			err = signature.ValidateKeyless(*a.Keyless)
		}
	}
	if err != nil {
		a.Unavailable = fmt.Sprintf("%s: %v", a.Source, err)
	}
}
