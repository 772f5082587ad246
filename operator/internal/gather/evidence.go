package gather

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/promotion"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/registry"
)

// evidence fills in digest, signatures and attestations of every image that a Gate asks
// about, side by side: the round trips to the registry are what a decision waits for. over
// has to be called when the decision was made.
func (j *Judge) evidence(ctx context.Context, s *subject, gates []read, found []gate.Image, known map[string]string, now int64) (over func()) {
	fetch(ctx, j.keys, gates, found)
	configs := make([]gate.Config, 0, len(gates))
	for _, g := range gates {
		configs = append(configs, g.config)
	}
	var toRead []*gate.Image
	for i := range found {
		if _, needed := wanted(configs, found[i]); needed {
			toRead = append(toRead, &found[i])
		}
	}
	if len(toRead) == 0 {
		return func() {} // and no Secret or ServiceAccount is read
	}
	ctx, over = registry.InTurn(ctx, j.owner(s), len(toRead))
	keys, err := j.keychain(ctx, s)
	enough := func(ctx context.Context, image *gate.Image) bool {
		return j.signatures.Enough(ctx, configs, image) && j.promotion.Enough(ctx, configs, image, now)
	}
	var all errgroup.Group
	all.SetLimit(limits.LooksPerObject)
	for _, img := range toRead {
		if err != nil {
			img.Unavailable, img.Remedy = err.Error(), "see that the image pull Secrets of the pods are right and can be read, and try again"
			continue
		}
		all.Go(func() error { Evidence(ctx, j.registry, enough, configs, img, known, keys); return nil })
	}
	_ = all.Wait()
	return over
}

// owner is whose turns a decision takes: one namespace must not keep others from theirs. On the
// command line all is somebody's own.
func (j *Judge) owner(s *subject) string {
	if !j.source.Shared() {
		return ""
	}
	return "namespace/" + s.ref.Namespace
}

// wanted is what all Gates together ask of the registry about an image.
func wanted(configs []gate.Config, img gate.Image) (gate.Want, bool) {
	var all gate.Want
	any := false
	for _, c := range configs {
		for _, needs := range []func(gate.Config, gate.Image) (gate.Want, bool){signature.Needs, promotion.Needs} {
			w, ok := needs(c, img)
			if !ok {
				continue
			}
			any = true
			all.Signatures = all.Signatures || w.Signatures
			all.Children = all.Children || w.Children
			all.Predicates = append(all.Predicates, w.Predicates...)
		}
	}
	slices.Sort(all.Predicates)
	all.Predicates = slices.Compact(all.Predicates)
	return all, any
}

// Evidence fills in what the registry holds for one image. A tag that known resolves is
// not looked up. enough says whether what was read so far decides, and should ask the checks
// that will: they keep what they verified. What could not be read is in img.Unavailable.
func Evidence(ctx context.Context, from Registry, enough func(context.Context, *gate.Image) bool, configs []gate.Config, img *gate.Image, known map[string]string, keys authn.Keychain) {
	ref, err := images.Parse(img.Ref)
	if err != nil {
		img.Invalid = err.Error()
		return
	}
	if img.Digest == "" {
		img.Digest = known[img.Ref]
	}
	if img.Digest == "" {
		if img.Digest, err = from.Resolve(ctx, ref, keys); err != nil {
			unavailable(img, err)
			return
		}
	}
	want, _ := wanted(configs, *img)
	told := disagreeing(ctx, from, ref, keys)
	decides := func(so registry.Evidence) bool {
		tried := *img
		tried.Signatures, tried.Attestations, tried.Children = so.Signatures, so.Attestations, so.Children
		return enough(ctx, &tried)
	}
	held, err := from.Evidence(ctx, img.Repository, img.Digest, want, decides, keys)
	if err != nil {
		unavailable(img, err)
	}
	img.Signatures, img.Attestations, img.Children = held.Signatures, held.Attestations, held.Children
	img.TagDigest = <-told
}

// disagreeing looks at what the tag beside a digest stands for, while evidence is read. Only
// the digest counts: a tag that is not there, or cannot be looked up in limits.RegistryAside,
// changes nothing.
func disagreeing(ctx context.Context, from Registry, ref images.Reference, keys authn.Keychain) <-chan string {
	told := make(chan string, 1)
	if !ref.Pinned() || ref.Tag == "" {
		close(told)
		return told
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, limits.RegistryAside)
		defer cancel()
		digest, err := from.Tagged(ctx, ref, keys)
		if err != nil || digest == ref.Digest {
			digest = ""
		}
		told <- digest
	}()
	return told
}

// unavailable notes why an image could not be looked up, and what the registry's client
// knows to do about it.
func unavailable(img *gate.Image, err error) {
	img.Unavailable = err.Error()
	if known := new(registry.Error); errors.As(err, &known) {
		img.Unavailable, img.Remedy = known.What(), known.Remedy()
	}
}

// eachOnce keeps the order, which is that in which credentials are tried.
func eachOnce(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

// keychain makes a keychain of the image pull Secrets that the pods would have; nil means
// the default.
func (j *Judge) keychain(ctx context.Context, s *subject) (authn.Keychain, error) {
	names := slices.Clone(s.pullSecrets)
	if s.account != "" {
		more, err := j.source.AccountPullSecrets(ctx, s.ref.Namespace, s.account)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("ServiceAccount %s/%s: %w", s.ref.Namespace, s.account, same(err))
		}
		names = append(names, more...)
	}
	if names = eachOnce(names); len(names) > limits.PullSecrets {
		return nil, fmt.Errorf("its pods name %d image pull Secrets, more than %d (limits.PullSecrets): name those alone that its images need", len(names), limits.PullSecrets)
	}
	var configs [][]byte
	for _, name := range names {
		raw, err := j.source.PullSecret(ctx, s.ref.Namespace, name)
		if apierrors.IsNotFound(err) {
			// The kubelet goes on without it too; a registry that wants it will say so.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("image pull Secret %s/%s: %w", s.ref.Namespace, name, same(err))
		}
		if len(raw) == 0 {
			continue
		}
		if _, err := registry.PullSecretKeychain([][]byte{raw}); err != nil {
			return nil, fmt.Errorf("image pull Secret %s/%s: %w", s.ref.Namespace, name, err)
		}
		configs = append(configs, raw)
	}
	if len(configs) == 0 {
		return nil, nil
	}
	return registry.PullSecretKeychain(configs)
}
