package gather

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/bundle"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/lru"
	"github.com/sluice-dev/sluice/operator/internal/registry"
)

// bundles reads policies from registries, and keeps what it verified: the same digest signed
// by the same authorities, with the same keys, is asked for once in a process's life, as long
// as there is room for it. A registry that is down so keeps nothing from being decided that was
// before, and costs a decision nothing.
type bundles struct {
	registry   Registry
	keys       Keys
	signatures *signature.Check
	asked      *prometheus.CounterVec
	flights    singleflight.Group
	kept       *lru.Cache[bundleKey, gate.PolicySet]
}

// bundleKey is made of all that verifying depends on but what the registry holds.
type bundleKey [sha256.Size]byte

// bundleOverhead is what an entry takes beside its modules.
const bundleOverhead = 1 << 10

func newBundles(from Registry, keys Keys, signatures *signature.Check) *bundles {
	return &bundles{
		registry: from, keys: keys, signatures: signatures,
		kept: lru.New[bundleKey, gate.PolicySet](limits.PolicyBundles, limits.PolicyBundles),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_policy_bundles_total",
			Help: "Looks at policies in a registry: hit where memory had them verified, miss where the registry was asked, unavailable where that did not lead to policies.",
		}, []string{"result"}),
	}
}

// read fills in the policies from registries of all Gates, side by side.
func (b *bundles) read(ctx context.Context, gates []v1beta1.Gate, configs []gate.Config, from Source) {
	var all sync.WaitGroup
	for g := range gates {
		for i, p := range gates[g].Spec.Policies {
			if p.OCI != nil && p.Builtin == "" && p.ConfigMap == nil {
				all.Go(func() { configs[g].Policies[i] = b.set(ctx, *p.OCI, from) })
			}
		}
	}
	all.Wait()
}

// wantedBundle is a bundle that a Gate names, with all that it takes to read it.
type wantedBundle struct {
	ref         images.Reference
	authorities []gate.Authority
	keychain    authn.Keychain
	// credentials stand for those of the keychain, and tell nothing of them.
	credentials string
}

// set is the policies of one bundle, or says why there are none.
func (b *bundles) set(ctx context.Context, p v1beta1.PolicyBundle, from Source) gate.PolicySet {
	ref, err := bundleRef(p.Ref)
	if err != nil {
		b.count("unavailable")
		return gate.PolicySet{Name: p.Ref, Unavailable: fmt.Sprintf("policy bundle %s: %v", p.Ref, err)}
	}
	w := wantedBundle{ref: ref}
	if p.RegistrySecret != nil {
		if w.keychain, w.credentials, err = registryKeychain(ctx, *p.RegistrySecret, from); err != nil {
			b.count("unavailable")
			return w.unavailable("%v", err)
		}
	}
	for i, a := range p.Authorities {
		w.authorities = append(w.authorities, authority(ctx, a, i, from))
	}
	var fetched sync.WaitGroup
	fetchEach(ctx, b.keys, w.authorities, &fetched)
	fetched.Wait()
	key := w.key()
	if kept, ok := b.kept.Get(key); ok {
		b.count("hit")
		return kept
	}
	return b.share(ctx, key, w)
}

// share verifies a bundle once for all who ask for it at the same time, on its own time: who
// cannot wait finds it done at the next try.
func (b *bundles) share(ctx context.Context, key bundleKey, w wantedBundle) gate.PolicySet {
	done := b.flights.DoChan(string(key[:])+w.credentials, func() (any, error) {
		if kept, ok := b.kept.Get(key); ok { // another flight landed before this one began
			return kept, nil
		}
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.Gather)
		defer cancel()
		set, settled := b.verified(own, w)
		if settled {
			b.keep(key, set)
		}
		return set, nil
	})
	set := w.unavailable("it was not read in time (limits.Gather): try again")
	select {
	case r := <-done:
		set = r.Val.(gate.PolicySet)
	case <-ctx.Done():
	}
	if set.Unavailable != "" {
		b.count("unavailable")
	} else {
		b.count("miss")
	}
	return set
}

// bundleWhere is where a Gate says by whom a bundle has to be signed.
const bundleWhere = "spec.policies[].oci.authorities of the Gate"

// verified reads a bundle: first what the registry holds of signatures, and only of a digest
// that is signed the content. It is settled where it will be the same the next time.
func (b *bundles) verified(ctx context.Context, w wantedBundle) (_ gate.PolicySet, settled bool) {
	found, err := b.signed(ctx, w)
	if err != nil {
		return w.unavailable("%s", told(err)), false
	}
	if against := append(found.Undecided, found.Deny...); len(against) > 0 {
		return w.unavailable("it is not verified: %s: %s", against[0].Message, against[0].Remedy), false
	}
	content, err := b.registry.Bundle(ctx, w.ref.Repository, w.ref.Digest, w.keychain)
	var modules map[string]string
	if err == nil {
		modules, err = content.Modules()
	}
	if err != nil {
		wrong := new(bundle.Error)
		return w.unavailable("%s", told(err)), errors.As(err, &wrong)
	}
	set := gate.PolicySet{Name: w.ref.Repository, Modules: modules}.Summed()
	for _, f := range found.Warn {
		set.Doubts = append(set.Doubts, gate.Doubt{Message: "policy bundle " + w.ref.String() + ": " + f.Message, Remedy: f.Remedy})
	}
	return set, true
}

// signed holds what the registry has of signatures to the Gate. Whoever may push can have this
// read as much as beside an image, so that it takes its turn with decisions. None that waits
// for it has one: policies are read before images are.
func (b *bundles) signed(ctx context.Context, w wantedBundle) (gate.Findings, error) {
	ctx, over := registry.InTurn(ctx, "policy bundles", 1)
	defer over()
	image := gate.Image{Ref: w.ref.String(), Repository: w.ref.Repository, Pinned: true, Digest: w.ref.Digest}
	rule := gate.ImageRule{Match: w.ref.Repository, Authorities: w.authorities, Require: gate.Requirement{Count: 1}}
	hold := func(held registry.Evidence) gate.Findings {
		tried := image
		tried.Signatures = held.Signatures
		return b.signatures.Artifact(ctx, "it", bundleWhere, &tried, rule)
	}
	enough := func(held registry.Evidence) bool {
		found := hold(held)
		return len(found.Deny)+len(found.Undecided) == 0
	}
	held, err := b.registry.Evidence(ctx, image.Repository, image.Digest, gate.Want{Signatures: true}, enough, w.keychain)
	if err != nil {
		return gate.Findings{}, err
	}
	return hold(held), nil
}

// told is an error with what to do about it, without the repository, which is told already.
func told(err error) string {
	known := new(registry.Error)
	if !errors.As(err, &known) {
		return err.Error()
	}
	what, remedy := strings.TrimPrefix(known.What(), known.Repository+": "), known.Remedy()
	if known.Status == http.StatusUnauthorized || known.Status == http.StatusForbidden {
		remedy = "name a Secret that may read this repository in oci.registrySecret of the Gate, or log in"
	}
	return what + ": " + remedy
}

func (w wantedBundle) unavailable(format string, args ...any) gate.PolicySet {
	return gate.PolicySet{Name: w.ref.Repository, Unavailable: "policy bundle " + w.ref.String() + ": " + fmt.Sprintf(format, args...)}
}

// key is over the authorities with their keys and roots as bytes, and not over credentials:
// what is signed is the same for whoever reads it.
func (w wantedBundle) key() bundleKey {
	raw, err := json.Marshal(struct {
		Ref         string
		Authorities []gate.Authority
	}{w.ref.String(), w.authorities})
	if err != nil {
		panic("gather: an authority without JSON: " + err.Error())
	}
	return sha256.Sum256(raw)
}

// keep has a set for the next who asks, as long as there is room for it.
func (b *bundles) keep(key bundleKey, set gate.PolicySet) {
	bytes := bundleOverhead + len(set.Unavailable)
	for name, text := range set.Modules {
		bytes += len(name) + len(text)
	}
	b.kept.Put(key, set, bytes)
}

func (b *bundles) count(result string) { b.asked.WithLabelValues(result).Inc() }

// registryKeychain is the one of a Secret that a Gate names; nil where the Source has none.
func registryKeychain(ctx context.Context, ref v1beta1.NamespacedName, from Source) (authn.Keychain, string, error) {
	raw, err := from.RegistrySecret(ctx, ref.Namespace, ref.Name)
	if err != nil || len(raw) == 0 {
		return nil, "", err
	}
	keys, err := registry.PullSecretKeychain([][]byte{raw})
	if err != nil {
		return nil, "", fmt.Errorf("Secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return keys, sum(raw), nil
}

// bundleRef reads a reference, which has to be written in the one way that names what it names.
func bundleRef(ref string) (images.Reference, error) {
	r, err := images.Parse(ref)
	switch {
	case err != nil:
		return r, err
	case !r.Pinned() || r.Tag != "":
		return r, fmt.Errorf("it is named by a tag, which may be moved: write %s@sha256:…; sluice policy push prints the digest, and so does `crane digest %s:%s`",
			r.Repository, r.Repository, cmp.Or(r.Tag, images.DefaultTag))
	case r.String() != ref:
		return r, fmt.Errorf("write it in full: %s", r)
	}
	return r, nil
}
