package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/operator/internal/attest"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/signature"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/notary"
	"github.com/sluice-dev/sluice/operator/internal/trust"
)

// signerFlags say what evidence is signed with.
type signerFlags struct {
	key           string
	keyless       bool
	token         string
	fulcio, rekor string
	stamps        []string
	config, root  string
}

func (f *signerFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.key, "key", "", "file with the private key, as cosign stores it, or URI of a key management service such as hashivault://e2e")
	c.Flags().BoolVar(&f.keyless, "keyless", false, "sign as who an identity token is of, with a certificate of a Sigstore instance")
	c.Flags().StringVar(&f.token, "identity-token", "", "file with an identity token of audience sigstore, or - for standard input; means --keyless (default: SIGSTORE_ID_TOKEN, or that of the GitHub workflow)")
	c.Flags().StringVar(&f.config, "signing-config", "", "signing_config.json that names the services to sign with (default: that of the public Sigstore)")
	c.Flags().StringVar(&f.fulcio, "fulcio-url", "", "certificate authority to sign with, in place of a signing configuration")
	c.Flags().StringVar(&f.rekor, "rekor-url", "", "transparency log (version 1) to sign with, in place of a signing configuration")
	c.Flags().StringSliceVar(&f.stamps, "timestamp-url", nil, "timestamp authority with its path to sign with, in place of a signing configuration (repeatable)")
	c.Flags().StringVar(&f.root, "trusted-root", "", "trusted_root.json to verify against what was signed with --keyless (default: that of the public Sigstore)")
}

// named are the flags of keyless signing that are set.
func (f *signerFlags) named() []string {
	var out []string
	for name, set := range map[string]bool{
		"--keyless": f.keyless, "--identity-token": f.token != "", "--signing-config": f.config != "", "--trusted-root": f.root != "",
		"--fulcio-url": f.fulcio != "", "--rekor-url": f.rekor != "", "--timestamp-url": len(f.stamps) > 0,
	} {
		if set {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (f *signerFlags) signer(ctx context.Context, in io.Reader) (notary.Signer, error) {
	loader := trust.New(trust.Options{})
	switch others := f.named(); {
	case f.key != "" && len(others) > 0:
		return nil, usage("--key and %s are both given: sign with a key or with an identity", strings.Join(others, ", "))
	case f.key == "" && !f.keyless && f.token == "":
		return nil, usage("--key is required: a file with the private key of the environment, or the URI of one in a key management service; or --keyless, to sign with an identity")
	case strings.Contains(f.key, "://"):
		return f.remote(ctx, loader)
	case f.key != "":
		return f.file()
	}
	return f.identity(ctx, in, loader)
}

func (f *signerFlags) remote(ctx context.Context, loader *trust.Loader) (notary.Signer, error) {
	if err := trust.ValidateKMS(f.key); err != nil {
		return nil, usage("--key=%s: %w", f.key, err)
	}
	signer, err := loader.Signer(ctx, f.key)
	if err != nil {
		return nil, &exit{code: ExitUndecided, err: fmt.Errorf("--key=%s: %w", f.key, err)}
	}
	return signer, nil
}

func (f *signerFlags) file() (notary.Signer, error) {
	text, err := readBounded(f.key, limits.PrivateKeyBytes)
	if err != nil {
		return nil, usage("--key: %w", err)
	}
	signer, err := attest.NewSigner(text, []byte(os.Getenv("COSIGN_PASSWORD")))
	if err != nil {
		return nil, usage("--key=%s: %w; its password is taken from COSIGN_PASSWORD", f.key, err)
	}
	return signer, nil
}

// identity asks for the token last, as the one of a workflow is good for some minutes.
func (f *signerFlags) identity(ctx context.Context, in io.Reader, loader *trust.Loader) (notary.Signer, error) {
	services, err := f.services(ctx, loader)
	if err != nil {
		return nil, err
	}
	root, err := loaded(ctx, f.root, loader.File, loader.PublicRoot)
	if err != nil {
		return nil, &exit{code: ExitUndecided, err: fmt.Errorf("trusted root: %w", err)}
	}
	if err := signature.ValidateRoot([]byte(root)); err != nil {
		return nil, usage("--trusted-root: %w", err)
	}
	token, err := f.identityToken(ctx, in)
	if err != nil {
		return nil, err
	}
	signer, err := attest.NewKeyless(token, services, []byte(root))
	if err != nil {
		return nil, usage("--keyless: %w", err)
	}
	return signer, nil
}

// loaded is the content of a file, or where none is named of what the public Sigstore has.
func loaded(ctx context.Context, file string, read func(string) (string, error), public func(context.Context) (string, error)) (string, error) {
	if file != "" {
		return read(file)
	}
	return public(ctx)
}

func (f *signerFlags) services(ctx context.Context, loader *trust.Loader) (attest.Services, error) {
	if f.fulcio == "" && f.rekor == "" && len(f.stamps) == 0 {
		raw, err := loaded(ctx, f.config, loader.File, loader.PublicServices)
		if err != nil {
			return attest.Services{}, &exit{code: ExitUndecided, err: fmt.Errorf("signing configuration: %w", err)}
		}
		out, err := attest.ReadServices([]byte(raw), time.Now())
		if err != nil {
			return out, usage("--signing-config: %w", err)
		}
		return out, nil
	}
	if f.config != "" {
		return attest.Services{}, usage("--signing-config is given, and URLs of services too: keep one of them")
	}
	out := attest.Services{Fulcio: f.fulcio, TimestampAuthorities: f.stamps}
	if f.rekor != "" {
		out.Logs = []attest.Log{{URL: f.rekor, Version: attest.RekorV1}}
	}
	if err := out.Validate(); err != nil {
		return out, usage("--fulcio-url, --rekor-url and --timestamp-url: %w", err)
	}
	return out, nil
}

// identityToken is from where it is said to be, and from nowhere else then.
func (f *signerFlags) identityToken(ctx context.Context, in io.Reader) (string, error) {
	address, bearer := os.Getenv("ACTIONS_ID_TOKEN_REQUEST_URL"), os.Getenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
	switch given := strings.TrimSpace(os.Getenv("SIGSTORE_ID_TOKEN")); {
	case f.token != "":
		return readToken(f.token, in)
	case given != "":
		return given, nil
	case address != "" && bearer != "":
		token, err := attest.ActionsToken(ctx, address, bearer)
		if err != nil {
			return "", &exit{code: ExitUndecided, err: err}
		}
		return token, nil
	case os.Getenv("GITHUB_ACTIONS") == "true":
		return "", usage("--keyless: the workflow may not ask for an identity token: give its job `permissions: {id-token: write}`")
	}
	return "", usage("--keyless: there is no identity token: give one of audience %s with --identity-token or in SIGSTORE_ID_TOKEN, or run in a GitHub workflow with `permissions: {id-token: write}`; no browser is opened", attest.Audience)
}

// readToken reads a token, and shows nothing of what may be one.
func readToken(from string, in io.Reader) (string, error) {
	if attest.LooksLikeToken(from) {
		return "", usage("--identity-token: that is the token itself, which whoever sees the list of processes could read: name a file with it, or set SIGSTORE_ID_TOKEN")
	}
	var raw []byte
	var err error
	if from == "-" {
		if in == nil {
			in = strings.NewReader("")
		}
		raw, err = io.ReadAll(io.LimitReader(in, limits.IdentityTokenBytes+1))
	} else {
		raw, err = readBounded(from, limits.IdentityTokenBytes)
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return "", usage("--identity-token: it cannot be read: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// signedAs is the identity that a Gate has to name, where there is one.
func signedAs(by gate.Authority) string {
	if by.Keyless == nil {
		return ""
	}
	return fmt.Sprintf(", signed as %s (%s)", shown(by.Keyless.Subject), shown(by.Keyless.Issuer))
}
