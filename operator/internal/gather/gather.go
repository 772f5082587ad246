package gather

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/bundle"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/gate/promotion"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
	"github.com/sluice-dev/sluice/operator/internal/registry"
)

// Registry reads digests and evidence.
type Registry interface {
	// Resolve returns the digest that a reference stands for, as "sha256:<hex>".
	Resolve(ctx context.Context, ref images.Reference, keys authn.Keychain) (string, error)
	// Tagged returns the digest that the tag beside a digest stands for, "" for none.
	Tagged(ctx context.Context, ref images.Reference, keys authn.Keychain) (string, error)
	// Evidence returns what the registry holds for one digest, none being no error. enough
	// is asked before older formats are looked at.
	Evidence(ctx context.Context, repository, digest string, want gate.Want, enough func(registry.Evidence) bool, keys authn.Keychain) (registry.Evidence, error)
	// Bundle returns the content of a policy bundle whose digest was verified, held to that.
	// What is wrong with it for good is a *bundle.Error.
	Bundle(ctx context.Context, repository, digest string, keys authn.Keychain) (bundle.Content, error)
}

// Judge is the one engine behind the pull request, admission and every reconcile. It is
// safe for concurrent use.
type Judge struct {
	source   Source
	registry Registry
	keys     Keys
	// policies, signatures and promotion are the checks in chain; the last two are also asked
	// what is enough to decide.
	policies   *policy.Check
	signatures *signature.Check
	promotion  *promotion.Check
	chain      *gate.Chain
	// bundles are the policies from registries that were verified.
	bundles *bundles
	// digests of Gates, which are read in anew for each object and seldom change.
	digests gate.DigestMemo
}

// NewJudge makes a Judge.
func NewJudge(source Source, registry Registry, keys Keys) *Judge {
	return NewJudgeSharing(policy.New(), source, registry, keys)
}

// NewJudgeSharing makes a Judge that compiles no policy that another one with the same check has
// compiled.
func NewJudgeSharing(policies *policy.Check, source Source, registry Registry, keys Keys) *Judge {
	signatures := signature.New()
	promoted := promotion.New(signatures)
	return &Judge{
		source: source, registry: registry, keys: keys, policies: policies, signatures: signatures, promotion: promoted,
		chain:   gate.NewChain(policies, signatures, promoted),
		bundles: newBundles(registry, keys, signatures),
	}
}

// Collectors returns the engine's own metrics, for registration.
func (j *Judge) Collectors() []prometheus.Collector {
	return append(j.signatures.Collectors(), j.bundles.asked, j.active())
}

// Judgement is what was decided over one object, and what may be applied if nothing
// blocks.
type Judgement struct {
	// Verdicts, one for each Gate that matches, by name. Only for an object that is not a
	// Workload may there be none: it then falls under no Gate.
	Verdicts []gate.Verdict
	// Children as rendered, images as written; nil when the Workload does not render.
	Children []map[string]any
	// Digests of the images, by image as written, as far as they were resolved.
	Digests map[string]string
	// Until is when the first exemption ends that was applied, after which the verdicts are
	// others without any event; zero when none was.
	Until time.Time
	// Again is how soon a Workload at rest is to be judged again; zero where no Gate says.
	Again time.Duration
	// Denied is what a denial does to what runs.
	Denied v1beta1.OnFailure
	// Attests are the Gates that have what does well attested, by name.
	Attests []Attests
	// Secrets of the object and its children, which nothing that is said of them may show.
	Secrets *redact.Secrets
}

// Blocked says whether any verdict blocks.
func (j Judgement) Blocked() bool {
	return len(j.Verdicts) > 0 && gate.Worst(j.Verdicts).Outcome.Blocks()
}

// Deployable is the children with every resolved image replaced by the digest that was
// judged, so that what runs is what was verified.
func (j Judgement) Deployable() []map[string]any { return images.Pin(j.Children, j.Digests) }

// Workload judges a Workload whose schema defaults are set. known holds digests that
// tags were resolved to before, for this very spec: those tags are not asked for again,
// so that a tag that moves does not change what runs; their signatures are still
// verified. A Judgement is always returned: what could not be found out is an Error
// verdict.
func (j *Judge) Workload(ctx context.Context, w *v1beta1.Workload, known map[string]string) Judgement {
	s, err := ofWorkload(w)
	if err != nil {
		object := gate.ObjectRef{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.WorkloadKind, Name: w.Name, Namespace: w.Namespace}
		return Judgement{Verdicts: []gate.Verdict{gate.CouldNotDecide(object, err.Error(), "report this as a bug of Sluice")}}
	}
	if own := j.source.OwnNamespace(); own != "" && w.Namespace == own {
		return Judgement{Verdicts: []gate.Verdict{gate.NotHere(s.ref)}, Secrets: s.secrets}
	}
	out := j.judge(ctx, s, known)
	if len(out.Verdicts) == 0 {
		out.Verdicts = []gate.Verdict{gate.NoGate(s.ref)}
	}
	return out
}

// Object judges a pod, or another object that brings pods, by the Gates that name its
// kind.
func (j *Judge) Object(ctx context.Context, obj map[string]any, namespace string) Judgement {
	return j.judge(ctx, ofObject(obj, namespace), nil)
}

func (j *Judge) judge(ctx context.Context, s *subject, known map[string]string) Judgement {
	ctx, cancel := context.WithTimeout(ctx, limits.Gather)
	defer cancel()
	namespace, gates, err := j.gates(ctx, s)
	if err != nil {
		return Judgement{Verdicts: []gate.Verdict{gate.CouldNotDecide(s.ref, err.Error(), gatesRemedy(err, s.ref.Namespace))}}
	}
	exemptions, err := j.exemptions(ctx, s, gates)
	if err != nil {
		return Judgement{Verdicts: []gate.Verdict{gate.CouldNotDecide(s.ref, err.Error(), gatesRemedy(err, s.ref.Namespace))}}
	}
	now := j.source.Now()
	found := s.collect(gates)
	if len(s.refused) == 0 && len(gates) > 0 {
		defer j.evidence(ctx, s, gates, found, known, now.Unix())()
	}
	out := Judgement{Children: s.children, Digests: map[string]string{}, Secrets: s.secrets}
	for _, i := range found {
		if i.Digest != "" {
			out.Digests[i.Ref] = i.Digest
		}
	}
	for _, g := range gates {
		out.Verdicts = append(out.Verdicts, j.chain.Decide(ctx, &gate.Input{
			Gate: g.config, PolicyDigest: g.digest, Object: s.ref, Namespace: namespace,
			Submitted: s.content, Children: s.children, Images: found, Refused: s.refused, Secrets: s.secrets,
			Exemptions: exemptions, Now: now.Unix(),
		}))
	}
	out.Until = until(out.Verdicts)
	out.Again, out.Denied = consequences(s, gates, out.Verdicts)
	out.Attests = attested(gates, out.Verdicts, found)
	return out
}

// read is a Gate with what it refers to in the cluster.
type read struct {
	config gate.Config
	// digest is taken before keys from outside the cluster are filled in: those may rotate
	// without the rules being others.
	digest string
	// paths to images in the subject, where its kind is not built in.
	paths []string
	// again and onFailure are those of its reverify, which no decision depends on.
	again     time.Duration
	onFailure v1beta1.OnFailure
	// attest is what the Gate has signed, which no decision depends on either; nil for nothing.
	attest *v1beta1.Attest
}

// gates finds the namespace and the Gates that match, with their references read in. That
// none matches is said only after asking past the cache: a Gate, or a namespace's label,
// that was applied a moment before the object has to count.
func (j *Judge) gates(ctx context.Context, s *subject) (gate.Namespace, []read, error) {
	ns, matched, err := j.match(ctx, s, false)
	if err != nil || len(matched) == 0 && isWorkload(s.ref) {
		ns, matched, err = j.match(ctx, s, true)
	}
	if err != nil {
		return ns, nil, err
	}
	configs := make([]gate.Config, len(matched))
	for i := range matched {
		if configs[i], err = compile(ctx, &matched[i], j.source); err != nil {
			return ns, nil, err
		}
	}
	j.bundles.read(ctx, matched, configs, j.source)
	var out []read
	for i := range configs {
		digest := j.digests.Sum(&configs[i])
		out = append(out, read{config: configs[i], digest: digest, paths: pathsFor(&matched[i], s.ref), again: interval(&matched[i]), onFailure: onFailure(&matched[i]), attest: matched[i].Spec.Attest})
	}
	return ns, out, nil
}

func (j *Judge) match(ctx context.Context, s *subject, fresh bool) (gate.Namespace, []v1beta1.Gate, error) {
	all, err := j.source.Gates(ctx, fresh)
	if err != nil {
		return gate.Namespace{}, nil, fmt.Errorf("list Gates: %w", err)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(g v1beta1.Gate) bool { return !judges(&g, s.ref) })
	if len(all) == 0 && !isWorkload(s.ref) {
		return gate.Namespace{}, nil, nil
	}
	var ns gate.Namespace
	if s.namespaced() {
		ns, err = j.source.Namespace(ctx, s.ref.Namespace, fresh)
	}
	if err != nil {
		return ns, nil, fmt.Errorf("labels of namespace %s, which decide what Gate applies: %w", s.ref.Namespace, same(err))
	}
	matched, err := matching(all, ns, s)
	return ns, matched, err
}

func gatesRemedy(err error, namespace string) string {
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("add the manifest of namespace %s, with its labels, to what is checked or to --gate", namespace)
	}
	return "see the message; the decision is tried again"
}
