package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/attest"
	"github.com/sluice-dev/sluice/operator/internal/evidence"
	"github.com/sluice-dev/sluice/operator/internal/lab/stage"
	"github.com/sluice-dev/sluice/operator/internal/registry"
	"github.com/sluice-dev/sluice/operator/internal/scaffold"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// build builds the Workload's image under a tag and pushes it.
func (w *world) build(tag string) (release, error) {
	name := fleetName + "/web"
	digest, err := testkit.PushImage(w.registry+"/"+name+":"+tag, name+":"+tag)
	return release{tag, digest}, err
}

// buildSigned builds an image and signs it as cosign does by default: a bundle beside it.
func (w *world) buildSigned(tag string) (release, error) {
	r, err := w.build(tag)
	if err != nil {
		return r, err
	}
	return r, w.release.SignBundle(w.registry+"/"+fleetName+"/web", r.digest)
}

// makeFleet writes the fleet's repository with sluice init: each Gate attests, and but for
// dev's demands evidence of the environment before.
func (w *world) makeFleet(ctx context.Context) error {
	public := filepath.Join(w.dir, "release.pub")
	if err := os.WriteFile(public, []byte(w.release.PublicPEM), 0o600); err != nil {
		return err
	}
	for _, e := range w.environments {
		if err := os.WriteFile(filepath.Join(w.dir, scaffold.KeyFile(e.name)), []byte(e.key.PublicPEM), 0o600); err != nil {
			return err
		}
	}
	out, err := w.command(ctx, w.dir, nil, filepath.Join(w.root, "bin", "sluice"), "init", w.repository.dir,
		"--name="+fleetName, "--registry="+stage.Registry+"/"+fleetName, "--image="+w.first.String(), "--key="+public, "--attestors="+w.dir,
		"--repository="+w.repository.url, "--registry-mirror="+stage.Registry+"="+w.registry)
	if _, err := stepwise.Must(out, err); err != nil {
		return err
	}
	for _, e := range w.environments {
		if err := w.shorten(e); err != nil {
			return err
		}
	}
	return nil
}

// soak is how long a Workload has to do well before its image is attested. Here it is an
// instant; what it means is tested beside the operator.
const soak = "2s"

var written = regexp.MustCompile(`(?m)^    soak: .*$`)

// shorten has an environment's Gate attest after an instant.
func (w *world) shorten(e *environment) error {
	name := "overlays/" + e.name + "/gate.yaml"
	text, err := w.repository.read(name)
	if err != nil {
		return err
	}
	if n := len(written.FindAllString(text, -1)); n != 1 {
		return fmt.Errorf("%s has %d soaks, and should have one", name, n)
	}
	return w.repository.write(name, written.ReplaceAllString(text, "    soak: "+soak))
}

// setImage is the overlay's own edit: which image runs in an environment.
func (w *world) setImage(environment string, r release) error {
	return w.repository.write("overlays/"+environment+"/images/kustomization.yaml", fmt.Sprintf(`# Which images run in %s, and nothing else: promotion copies this file.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
images:
  - name: %q
    newTag: %q
    digest: %s
`, environment, repositoryOfImage, r.tag, r.digest))
}

// promotion is the branch that sluice promote makes for an environment.
func (w *world) promotion(title, to string, args ...string) change {
	branch := "promote/" + to
	return change{title: title, branch: branch, review: w.passes(to), edit: func(ctx context.Context) error {
		_, err := stepwise.Must(w.sluice(ctx, append([]string{"promote", "--to=" + to, "--workload=web", "--branch=" + branch}, args...)...))
		return err
	}}
}

// attest signs by hand that an image passed an environment, with that environment's key.
func (w *world) attest(ctx context.Context, e *environment, r release) error {
	verdict := filepath.Join(w.dir, "verdict-"+e.name+".json")
	checked, err := stepwise.Must(w.sluice(ctx, "check", "overlays/"+e.name, "--format=json"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(verdict, []byte(checked), 0o600); err != nil {
		return err
	}
	_, err = stepwise.Must(w.sluice(ctx, "attest", r.String(), "--environment="+e.name, "--key="+e.keyFile, "--verdict="+verdict))
	return err
}

// attested waits until an environment's operator has signed that an image passed.
func (w *world) attested(ctx context.Context, e *environment, r release) error {
	err := eventually(ctx, "the operator of "+e.name+" attests "+r.tag, func(ctx context.Context) error {
		workload := &v1beta1.Workload{}
		if err := e.get(ctx, v1beta1.GroupVersion.String(), v1beta1.WorkloadKind, workload); err != nil {
			return err
		}
		c := meta.FindStatusCondition(workload.Status.Conditions, v1beta1.ConditionPromoted)
		if c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("condition Promoted is %+v", c)
		}
		return e.runs(ctx, r)
	})
	if err == nil {
		fmt.Printf("   the operator of %s signed for %s\n", e.name, r.tag)
	}
	return err
}

// forge stores evidence of an environment about one image beside another.
func (w *world) forge(ctx context.Context, e *environment, about, beside release) error {
	signer, err := attest.NewSigner([]byte(e.key.PrivatePEM), nil)
	if err != nil {
		return err
	}
	statement, err := evidence.Summary{
		Subjects: []string{about.digest}, Verifier: evidence.Verifier(e.name), Time: time.Now(), Resource: "oci://" + about.String(),
		Policy: evidence.Resource{URI: "https://sluice.dev/environments/" + e.name + "/policy"}, Result: evidence.Passed,
	}.Statement()
	if err != nil {
		return err
	}
	bundle, err := signer.Bundle(ctx, statement)
	if err != nil {
		return err
	}
	depot := registry.New(registry.Options{Mirrors: map[string]string{stage.Registry: w.registry}})
	return depot.Attach(ctx, repositoryOfImage, beside.digest, bundle, evidence.PredicateType, authn.DefaultKeychain)
}

// check is what the pull request's check says of an overlay: its exit code, and its words.
func (w *world) check(ctx context.Context, environment string) (stepwise.Output, error) {
	return w.sluice(ctx, "check", "overlays/"+environment)
}

// passes is a review that wants every overlay to pass its own Gate.
func (w *world) passes(environment string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := stepwise.Must(w.check(ctx, environment))
		return err
	}
}

// denied is a review that wants the check to say no, and why.
func (w *world) denied(environment, why string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := w.check(ctx, environment)
		if err != nil {
			return err
		}
		if out.Code != 1 || !strings.Contains(out.Stdout, why) {
			return fmt.Errorf("sluice check overlays/%s ends with %d, and should with 1 and say %q: %s%s", environment, out.Code, why, out.Stdout, out.Stderr)
		}
		fmt.Printf("   the pull request's check says no: %s\n", why)
		return nil
	}
}
