package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/internal/digests"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/notary"
)

type attestOptions struct {
	registryFlags
	signerFlags
	environment  string
	policyDigest string
	levels       []string
	inputs       []string
	verdict      string
	failed       bool
}

func attestCommand(s streams) *cobra.Command {
	var o attestOptions
	c := &cobra.Command{
		Use:   "attest IMAGE",
		Short: "Sign that an image passed an environment, and store that beside it",
		Long: `Sign a SLSA Verification Summary that says that IMAGE passed an environment, and store it
beside the image in its registry. Of an image index it is about each image of it too.

With --verdict, the JSON of sluice check, the policy digest and what was exempted are taken
from there, and a verdict that blocks makes it evidence of a failure. So does one that has
violations and does not block, by a Gate in mode Warn or Audit.

It is signed with --key: a file, whose password is in COSIGN_PASSWORD, or a URI of a key
management service. With --keyless it is signed as who an identity token is of: that of
--identity-token, else of SIGSTORE_ID_TOKEN, else that of the GitHub workflow that runs.
That identity and the statement are then in a public log for good, unless the services are
others than the public ones. What does not verify as a Gate would have it is not stored.`,
		Example: "  sluice attest registry.example.com/shop/web@sha256:… --environment e2e --key cosign.key\n" +
			"  sluice check overlays/e2e --format json > verdict.json; sluice attest registry.example.com/shop/web:1.2 --environment e2e --key cosign.key --verdict verdict.json\n" +
			"  sluice attest registry.example.com/shop/web@sha256:… --environment e2e --key hashivault://e2e\n" +
			"  sluice attest registry.example.com/shop/web@sha256:… --environment e2e --keyless",
		Args: takes(1, 1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), s, args[0]) },
	}
	c.Flags().StringVar(&o.environment, "environment", "", "environment that the image passed")
	c.Flags().StringVar(&o.policyDigest, "policy-digest", "", "policyDigest of the verdict that it passed with, as sha256:…")
	c.Flags().StringSliceVar(&o.levels, "level", nil, "level that was verified, such as SLSA_BUILD_LEVEL_2 (repeatable)")
	c.Flags().StringSliceVar(&o.inputs, "input", nil, "attestation that the verification took, as REPOSITORY@sha256:… (repeatable)")
	c.Flags().StringVar(&o.verdict, "verdict", "", "file with the JSON of sluice check over what ran there")
	c.Flags().BoolVar(&o.failed, "failed", false, "say that the image failed there")
	o.registryFlags.register(c)
	o.signerFlags.register(c)
	return c
}

func (o *attestOptions) run(ctx context.Context, s streams, image string) error {
	if err := evidence.ValidateEnvironment(o.environment); err != nil {
		return usage("--environment: %w", err)
	}
	signer, err := o.signer(ctx, s.in)
	if err != nil {
		return err
	}
	ref, err := images.Parse(image)
	if err != nil {
		return usage("%w", err)
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	digest, err := client.Resolve(ctx, ref, nil)
	if err != nil {
		return &exit{code: ExitUndecided, err: err}
	}
	summary, err := o.summary(ref.Repository, digest)
	if err != nil {
		return err
	}
	if summary.Subjects, err = notary.Subjects(ctx, client, ref.Repository, digest, nil); err != nil {
		return &exit{code: ExitUndecided, err: err}
	}
	if _, err := summary.Statement(); err != nil {
		return usage("%w", err)
	}
	signed, err := notary.Sign(ctx, signer, summary)
	if err != nil {
		return &exit{code: ExitUndecided, err: err}
	}
	if _, err := notary.Store(ctx, client, ref.Repository, signed.Bundle, summary.Subjects, nil); err != nil {
		return &exit{code: ExitUndecided, err: fmt.Errorf("it is safe to try again: %w", err)}
	}
	say(s.out, "", fmt.Sprintf("%s@%s: %s in environment %s at %s, told of %d images%s", ref.Repository, digest, summary.Result, o.environment,
		summary.Time.UTC().Format(time.RFC3339), len(summary.Subjects), signedAs(signed.By)))
	return nil
}

// summary of what is known before the registry is asked what the image consists of.
func (o *attestOptions) summary(repository, digest string) (evidence.Summary, error) {
	out := notary.Matter{Environment: o.environment, PolicyDigest: o.policyDigest, Repository: repository, Digest: digest}.Summary(time.Now())
	out.Levels = o.levels
	if o.failed {
		out.Result = evidence.Failed
	}
	if o.policyDigest != "" {
		if err := digests.Validate(o.policyDigest); err != nil {
			return out, usage("--policy-digest: %w", err)
		}
	}
	for _, from := range o.inputs {
		ref, err := images.Parse(from)
		if err != nil || !ref.Pinned() {
			return out, usage("--input=%s: name it by its digest, as REPOSITORY@sha256:…", from)
		}
		out.Inputs = append(out.Inputs, evidence.Resource{URI: "oci://" + ref.Repository + "@" + ref.Digest, Digest: ref.Digest})
	}
	if o.verdict == "" {
		return out, nil
	}
	return out, o.take(&out, digest)
}

// take takes from the verdicts over the image what they say of it.
func (o *attestOptions) take(out *evidence.Summary, digest string) error {
	raw, err := readBounded(o.verdict, limits.SourceFileBytes)
	if err != nil {
		return usage("--verdict: %w", err)
	}
	var all []gate.Verdict
	if err := json.Unmarshal(raw, &all); err != nil {
		return usage("--verdict=%s: it is not what `sluice check --format json` writes: %w", o.verdict, err)
	}
	found := false
	for _, v := range all {
		if !speaksOf(v, digest) {
			continue
		}
		if found && v.PolicyDigest != out.Policy.Digest && o.policyDigest == "" {
			return usage("--verdict=%s: several Gates judged %s: say with --policy-digest which one's rules count", o.verdict, digest)
		}
		found = true
		if o.policyDigest == "" {
			out.Policy.Digest = v.PolicyDigest
		}
		// What a Gate only warns of, or looks at, did not pass, and the operator says so too.
		if v.Outcome.Blocks() || len(v.Violations) > 0 {
			out.Result = evidence.Failed
		}
		out.Exemptions = append(out.Exemptions, notary.Exemptions(v)...)
	}
	if !found {
		return usage("--verdict=%s: no verdict in it is about %s: check what runs there, by the same digest", o.verdict, digest)
	}
	return nil
}

func speaksOf(v gate.Verdict, digest string) bool {
	for _, i := range v.Images {
		if i.Digest == digest {
			return true
		}
	}
	return false
}

// readBounded reads a file of at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return raw, err
}
