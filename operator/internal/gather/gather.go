package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/render"
)

// Registry reads digests and signatures.
type Registry interface {
	// Resolve returns the digest that a reference stands for, as "sha256:<hex>".
	Resolve(ctx context.Context, ref images.Reference, keys authn.Keychain) (string, error)
	// Signatures returns the signatures of one digest, none being no error.
	Signatures(ctx context.Context, repository, digest string, keys authn.Keychain) ([]gate.Signature, error)
}

// Judge is the one engine behind the pull request, admission and every reconcile. It is
// safe for concurrent use.
type Judge struct {
	source   Source
	registry Registry
	chain    *gate.Chain
}

// NewJudge makes a Judge.
func NewJudge(source Source, registry Registry) *Judge {
	return &Judge{source: source, registry: registry, chain: gate.NewChain(policy.New(), signature.New())}
}

// Judgement is what was decided over one Workload, and what may be applied if nothing
// blocks.
type Judgement struct {
	// Verdicts, one for each Gate that matches, by name; never empty.
	Verdicts []gate.Verdict
	// Children as rendered, images as written; nil when the Workload does not render.
	Children []map[string]any
	// Digests of the images, by image as written, as far as they were resolved.
	Digests map[string]string
}

// Blocked says whether any verdict blocks.
func (j Judgement) Blocked() bool { return gate.Worst(j.Verdicts).Outcome.Blocks() }

// Deployable is the children with every resolved image replaced by the digest that was
// judged, so that what runs is what was verified.
func (j Judgement) Deployable() []map[string]any { return images.Pin(j.Children, j.Digests) }

// Workload judges a Workload whose schema defaults are set. known holds digests that
// tags were resolved to before, for this very spec: those tags are not asked for again,
// so that a tag that moves does not change what runs; their signatures are still
// verified. A Judgement is always returned: what could not be found out is an Error
// verdict.
func (j *Judge) Workload(ctx context.Context, w *v1beta1.Workload, known map[string]string) Judgement {
	ctx, cancel := context.WithTimeout(ctx, limits.Gather)
	defer cancel()
	object := gate.ObjectRef{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.WorkloadKind, Name: w.Name, Namespace: w.Namespace}
	namespace, configs, err := j.gates(ctx, w)
	if err != nil {
		return Judgement{Verdicts: []gate.Verdict{gate.CouldNotDecide(object, err.Error(), gatesRemedy(err, w.Namespace))}}
	}
	if len(configs) == 0 {
		return Judgement{Verdicts: []gate.Verdict{gate.NoGate(object)}}
	}
	base, err := inputs(w, object, namespace)
	if err != nil {
		return Judgement{Verdicts: []gate.Verdict{gate.CouldNotDecide(object, err.Error(), "report this as a bug of Sluice")}}
	}
	if len(base.Refused) == 0 {
		j.evidence(ctx, w, configs, base.Images, known)
	}
	out := Judgement{Children: base.Children, Digests: map[string]string{}}
	for _, i := range base.Images {
		if i.Digest != "" {
			out.Digests[i.Ref] = i.Digest
		}
	}
	for _, config := range configs {
		in := *base
		in.Gate, in.PolicyDigest = config, config.Digest()
		out.Verdicts = append(out.Verdicts, j.chain.Decide(ctx, &in))
	}
	return out
}

// gates finds the namespace and the Gates that match, with their references read in. That
// none matches is said only after asking past the cache: a Gate, or a namespace's label,
// that was applied a moment before the Workload has to count.
func (j *Judge) gates(ctx context.Context, w *v1beta1.Workload) (gate.Namespace, []gate.Config, error) {
	ns, matched, err := j.match(ctx, w, false)
	if err != nil || len(matched) == 0 {
		ns, matched, err = j.match(ctx, w, true)
	}
	if err != nil {
		return ns, nil, err
	}
	var configs []gate.Config
	for i := range matched {
		c, err := compile(ctx, &matched[i], j.source)
		if err != nil {
			return ns, nil, err
		}
		configs = append(configs, c)
	}
	return ns, configs, nil
}

func (j *Judge) match(ctx context.Context, w *v1beta1.Workload, fresh bool) (gate.Namespace, []v1beta1.Gate, error) {
	ns, err := j.source.Namespace(ctx, w.Namespace, fresh)
	if err != nil {
		return ns, nil, fmt.Errorf("labels of namespace %s, which decide what Gate applies: %w", w.Namespace, same(err))
	}
	all, err := j.source.Gates(ctx, fresh)
	if err != nil {
		return ns, nil, fmt.Errorf("list Gates: %w", err)
	}
	matched, err := matching(all, ns, w)
	return ns, matched, err
}

func gatesRemedy(err error, namespace string) string {
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("add the manifest of namespace %s, with its labels, to what is checked or to --gate", namespace)
	}
	return "see the message; the decision is tried again"
}

// inputs renders the Workload and finds its images. What is wrong with the spec itself
// becomes a refusal.
func inputs(w *v1beta1.Workload, object gate.ObjectRef, ns gate.Namespace) (*gate.Input, error) {
	content, err := normal(w)
	if err != nil {
		return nil, err
	}
	in := &gate.Input{Object: object, Namespace: ns, Workload: content}
	in.Children, err = render.Children(w)
	if err != nil {
		in.Refused = append(in.Refused, notRendered(object, err))
		return in, nil
	}
	in.Images, err = images.Collect(in.Children)
	if err != nil {
		in.Refused = append(in.Refused, notRendered(object, err))
	}
	return in, nil
}

func notRendered(object gate.ObjectRef, err error) gate.Finding {
	f := gate.Finding{
		Policy: "render", Severity: gate.SeverityHigh, Object: object.String(), Path: "spec",
		Message: err.Error(), Remedy: "run `sluice render` on the manifest and correct the field",
	}
	if patch := new(render.PatchError); errors.As(err, &patch) {
		f.Path, f.Message = patch.Path, patch.Err.Error()
	}
	return f
}

// normal is the Workload as every gate sees it: without status, which is never an input,
// and without what a server or a client tool adds to metadata.
func normal(w *v1beta1.Workload) (map[string]any, error) {
	clean := &v1beta1.Workload{Spec: w.Spec}
	clean.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(v1beta1.WorkloadKind))
	clean.Name, clean.Namespace, clean.Labels = w.Name, w.Namespace, w.Labels
	for k, v := range w.Annotations {
		if k == "kubectl.kubernetes.io/last-applied-configuration" {
			continue
		}
		if clean.Annotations == nil {
			clean.Annotations = map[string]string{}
		}
		clean.Annotations[k] = v
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(clean)
	if err != nil {
		return nil, fmt.Errorf("workload %s/%s: %w", w.Namespace, w.Name, err)
	}
	delete(content, "status")
	return content, nil
}

// evidence fills in digest and signatures of every image that a Gate asks about, side by
// side: the round trips to the registry are what a decision waits for.
func (j *Judge) evidence(ctx context.Context, w *v1beta1.Workload, configs []gate.Config, found []gate.Image, known map[string]string) {
	keys, err := j.keychain(ctx, w)
	var group errgroup.Group
	for i := range found {
		img := &found[i]
		if !needed(configs, *img) {
			continue
		}
		if err != nil {
			img.Unavailable = err.Error()
			continue
		}
		group.Go(func() error {
			Evidence(ctx, j.registry, img, known, keys)
			return nil
		})
	}
	_ = group.Wait() // the functions return no error: it is in the image
}

func needed(configs []gate.Config, img gate.Image) bool {
	for _, c := range configs {
		if signature.Needed(c, img) {
			return true
		}
	}
	return false
}

// Evidence fills in digest and signatures of one image. A tag that known resolves is not
// looked up. What could not be read is in img.Unavailable.
func Evidence(ctx context.Context, registry Registry, img *gate.Image, known map[string]string, keys authn.Keychain) {
	ref, err := images.Parse(img.Ref)
	if err != nil {
		img.Invalid = err.Error()
		return
	}
	if img.Digest == "" {
		img.Digest = known[img.Ref]
	}
	if img.Digest == "" {
		if img.Digest, err = registry.Resolve(ctx, ref, keys); err != nil {
			img.Unavailable = err.Error()
			return
		}
	}
	if img.Signatures, err = registry.Signatures(ctx, img.Repository, img.Digest, keys); err != nil {
		img.Unavailable = err.Error()
	}
}

// keychain makes a keychain of the Workload's image pull Secrets; nil means the default.
func (j *Judge) keychain(ctx context.Context, w *v1beta1.Workload) (authn.Keychain, error) {
	var chain []authn.Keychain
	for _, s := range w.Spec.ImagePullSecrets {
		raw, err := j.source.PullSecret(ctx, w.Namespace, s.Name)
		if apierrors.IsNotFound(err) {
			// The kubelet goes on without it too; a registry that wants it will say so.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("image pull Secret %s/%s: %w", w.Namespace, s.Name, same(err))
		}
		if len(raw) == 0 {
			continue
		}
		keys, err := dockerConfig(raw)
		if err != nil {
			return nil, fmt.Errorf("image pull Secret %s/%s: %w", w.Namespace, s.Name, err)
		}
		chain = append(chain, keys)
	}
	if len(chain) == 0 {
		return nil, nil
	}
	return authn.NewMultiKeychain(chain...), nil
}

// credentials is a docker config's auths by registry host.
type credentials map[string]authn.AuthConfig

func dockerConfig(raw []byte) (credentials, error) {
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		// The parser's message may quote the content, which is a password.
		return nil, errors.New("not a docker config (.dockerconfigjson)")
	}
	return config.Auths, nil
}

// Resolve implements authn.Keychain. As for the kubelet a key may have a scheme and a
// path, and the longest that matches counts; the wildcards that the kubelet knows besides
// are not.
func (c credentials) Resolve(target authn.Resource) (authn.Authenticator, error) {
	best, found := -1, authn.Anonymous
	for key, auth := range c {
		name := registryName(key)
		if len(name) <= best || name != target.RegistryStr() && name != target.String() && !strings.HasPrefix(target.String(), name+"/") {
			continue
		}
		best, found = len(name), authn.FromConfig(auth)
	}
	return found, nil
}

// registryName is a docker config's key without what clients put around it.
func registryName(key string) string {
	_, name, ok := strings.Cut(key, "://")
	if !ok {
		name = key
	}
	name = strings.TrimSuffix(name, "/")
	name = strings.TrimSuffix(strings.TrimSuffix(name, "/v1"), "/v2")
	if host, rest, _ := strings.Cut(name, "/"); host == "docker.io" {
		return strings.TrimSuffix("index.docker.io/"+rest, "/")
	}
	return name
}
