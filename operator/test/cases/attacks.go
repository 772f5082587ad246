package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/clone"
)

// attack is what an attacker tries. run does it here; tests are those of the suites that do
// it with a cluster or within a package, and are run too.
type attack struct {
	number int
	name   string
	right  string
	run    func(context.Context) error
	tests  []string
}

const (
	inAdmission  = "./operator/internal/admission "
	inController = "./operator/internal/controller/workload "
	inRegistry   = "./operator/internal/registry "
	inGather     = "./operator/internal/gather "
	inSignature  = "./operator/internal/gate/signature "
)

var attacks = []attack{
	{1, "a namespace without the label that its Gate matches", "its Workloads are denied, and what runs is reported", outOfTheGate,
		[]string{inController + "TestReconcile_BlocksWhereNoGateMatches", inController + "TestManager_SeesANamespaceChangeItsGate"}},
	{2, "the registry is down behind the webhook, or the webhook was passed by", "refused; the reconciler blocks; exemptions are told", nil,
		[]string{inAdmission + "TestWorkloads_GuardTheAPIServer", inController + "TestReconcile_BlocksAnUnsignedImageAndSaysSoOnce", inAdmission + "TestWorkloads_AreExemptedWithAWarning"}},
	{3, "the tag is moved between check and pull", "what was verified is what runs", nil,
		[]string{inGather + "TestJudge_WhatRunsIsWhatWasVerified", inController + "TestReconcile_KeepsTheDigestOfAGenerationWhenTheTagMoves"}},
	{4, "an unsigned image in init and ephemeral containers, image volumes, CronJobs and a custom resource", "denied", everyImage, nil},
	{5, "the image changed with a scale-down, by a patch, by the status or beside the scale", "judged", nil,
		[]string{inAdmission + "TestWorkloads_GuardTheAPIServer", inAdmission + "TestWorkloads_JudgeTheScaleSubresource"}},
	{6, "a forged status and forged annotations", "no input", forgedStatus, []string{inController + "TestReconcile_OverwritesAForgedStatusAndNeverUsesIt"}},
	{7, "owner references and labels forged to adopt or prune another's object", "left alone", nil,
		[]string{inController + "TestReconcile_DoesNotPruneOrDeleteWhatOnlyLooksLikeItsOwn", inController + "TestReconcile_LeavesAChildOfSomeoneElseAlone"}},
	{8, "what is in other namespaces", "not read, not told", nil,
		[]string{inController + "TestReconcile_KeepsToItselfWhatIsInOtherNamespaces", inGather + "TestCluster_ReadsReferencesOnlyInItsOwnNamespace"}},
	{9, "remote bases, exec plugins, Helm, .., links, FIFOs and devices in an overlay", "refused, with the line", hostileOverlays, nil},
	{10, "Rego with a network, with the environment, without end", "does not compile, or is cut off as Error", hostileRego,
		[]string{"./operator/internal/gate/policy TestCheck_CutsOffWhatNeverEnds"}},
	{11, "YAML alias bombs, depth, duplicate keys", "refused", hostileYAML, nil},
	{12, "a registry that redirects to metadata addresses, or asks for another host's credentials", "no connection, no credential", nil,
		[]string{inRegistry + "TestClient_GoesNowhereItShouldNot", inRegistry + "TestRefuseMetadata_LooksAtTheAddressThatIsDialled", inRegistry + "TestClient_GivesCredentialsToNoOtherHost"}},
	{13, "ten thousand referrers, an attachment of two gigabytes", "capped before the fetch, by the limit's name", nil,
		[]string{inRegistry + "TestClient_LeavesTwoGigabytesUnread", inRegistry + "TestClient_StaysWithinItsLimits"}},
	{14, "keyless without an identity, unanchored patterns, tampered log entries and certificates", "refused, or Deny", weakRules,
		[]string{inSignature + "TestCheck_KeylessRefusesWhatWasTamperedWith"}},
	{15, "secrets and terminal escapes in what is said", "masked, quoted", talkativePolicy,
		[]string{"./operator/internal/gate TestVerdict_HoldsNothingThatATerminalObeys", inController + "TestReconcile_ShowsNoSecrets"}},
}

// suites runs all tests that attacks name, in one go, and says of each that passed.
func suites(ctx context.Context) (map[string]bool, error) {
	root, err := clone.Root()
	if err != nil {
		return nil, err
	}
	var folders, names []string
	for _, a := range attacks {
		for _, test := range a.tests {
			folder, name, _ := strings.Cut(test, " ")
			folders, names = append(folders, folder), append(names, name)
		}
	}
	slices.Sort(folders)
	args := []string{"test", "-json", "-count=1", "-p=1", "-timeout=10m", "-run", "^(" + strings.Join(names, "|") + ")$"}
	c := exec.CommandContext(ctx, "go", append(args, slices.Compact(folders)...)...)
	c.Dir, c.Stderr = root, os.Stderr
	out, err := c.Output()
	passed := map[string]bool{}
	for line := range bytes.Lines(out) {
		var event struct{ Action, Package, Test string }
		if json.Unmarshal(line, &event) == nil && event.Action == "pass" && event.Test != "" {
			passed["."+strings.TrimPrefix(event.Package, "github.com/sluice-dev/sluice")+" "+event.Test] = true
		}
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = nil // which of them failed is in what passed
	}
	return passed, err
}

// hold runs an attack; passed are the suites' tests.
func (a attack) hold(ctx context.Context, passed map[string]bool) error {
	for _, test := range a.tests {
		if !passed[test] {
			return fmt.Errorf("%s did not pass", test)
		}
	}
	if a.run == nil {
		return nil
	}
	return a.run(ctx)
}

// one checks one manifest under a Gate.
func one(ctx context.Context, manifest, gate string, code int, says ...string) error {
	return check(ctx, map[string]string{"overlay/kustomization.yaml": "resources: [x.yaml]\n", "overlay/x.yaml": manifest, "gate/gate.yaml": gate + shopSpace}, code, says...)
}

func outOfTheGate(ctx context.Context) error {
	gate := "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: prod}\nspec:\n  environment: prod\n  match: {namespaceSelector: {matchLabels: {environment: prod}}}\n  images: [{match: registry.example.com/**, require: none}]\n"
	if err := one(ctx, webWorkload, strings.Replace(gate, "environment: prod}}}", "kubernetes.io/metadata.name: shop}}}", 1), cli.ExitPass); err != nil {
		return fmt.Errorf("with the label: %w", err)
	}
	return one(ctx, webWorkload, gate, cli.ExitDenied, "no Gate matches")
}

// unsigned is a Gate over a bench's registry, with an image that is not signed.
func unsigned(ctx context.Context, do func(b *bench, gate, image string) error) error {
	b, err := newBench()
	if err != nil {
		return err
	}
	defer b.close()
	digest, err := b.push()
	if err != nil {
		return err
	}
	gate := "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: case}\nspec:\n  environment: case\n" +
		"  match: {kinds: [Workload, Pod, CronJob]}\n  imagePaths: [{group: example.com, kind: Runner, paths: [spec.runner]}]\n" +
		"  images:\n  - match: '" + b.registry.Host() + "/**'\n    authorities:\n    - key:\n        inline: |\n          " +
		strings.ReplaceAll(strings.TrimSpace(b.key.PublicPEM), "\n", "\n          ") + "\n  - {match: registry.example.com/**, require: none}\n"
	return do(b, gate, b.repository()+"@"+digest)
}

func everyImage(ctx context.Context) error {
	const pod = "containers: [{name: a, image: registry.example.com/a:1}]"
	return unsigned(ctx, func(_ *bench, gate, image string) error {
		for at, manifest := range map[string]string{
			"spec.initContainers[0].image":                            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\nspec: {" + pod + ", initContainers: [{name: b, image: '" + image + "'}]}\n",
			"spec.ephemeralContainers[0].image":                       "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\nspec: {" + pod + ", ephemeralContainers: [{name: b, image: '" + image + "'}]}\n",
			"spec.volumes[0].image.reference":                         "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\nspec: {" + pod + ", volumes: [{name: b, image: {reference: '" + image + "'}}]}\n",
			"spec.jobTemplate.spec.template.spec.containers[0].image": "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a, namespace: shop}\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{name: b, image: '" + image + "'}]}}}}}\n",
			"spec.runner": "apiVersion: example.com/v1\nkind: Runner\nmetadata: {name: a, namespace: shop}\nspec: {runner: '" + image + "'}\n",
		} {
			if err := one(ctx, manifest, gate, cli.ExitDenied, "no signature", at); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
		return nil
	})
}

func forgedStatus(ctx context.Context) error {
	return unsigned(ctx, func(_ *bench, gate, image string) error {
		forged := "apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata:\n  name: web\n  namespace: shop\n  annotations: {sluice.dev/promoted-from: e2e, sluice.dev/verdict: Allow}\nspec: {image: '" + image + "'}\n" +
			"status:\n  gate: {verdict: Allow}\n  images: [{image: '" + image + "', digest: 'sha256:" + strings.Repeat("a", 64) + "', signedBy: release-key, promotedFrom: e2e}]\n"
		return one(ctx, forged, gate, cli.ExitDenied, "no signature")
	})
}

func hostileOverlays(ctx context.Context) error {
	for name, c := range map[string]struct{ field, says string }{
		"a remote base":      {"resources: ['github.com/example/base?ref=main']", "kustomization.yaml:1: \"github.com/example/base?ref=main\" is refused: remote bases"},
		"a URL":              {"resources: ['https://example.com/x.yaml']", "kustomization.yaml:1: "},
		"an exec plugin":     {"generators: [p.yaml]", "runs a program"},
		"a Helm chart":       {"helmCharts: [{name: a, repo: 'https://example.com'}]", "kustomization.yaml:1: \"helmCharts\" is refused"},
		"a way out":          {"resources: [../../outside]", "it leaves the root"},
		"an absolute path":   {"resources: [/etc]", "absolute paths"},
		"a link that leaves": {"resources: [link.yaml]", "is a link that leaves the root"},
		"a FIFO":             {"resources: [fifo.yaml]", "not a regular file"},
		"a device":           {"resources: [device.yaml]", "link"},
	} {
		dir, done, err := folder(map[string]string{
			"overlay/kustomization.yaml": c.field + "\n", "gate/gate.yaml": allGate,
			"overlay/p.yaml": "apiVersion: example.com/v1\nkind: Plugin\nmetadata: {name: a, annotations: {config.kubernetes.io/function: 'exec: {path: ./p}'}}\n",
		})
		if err != nil {
			return err
		}
		err = errors.Join(
			os.Symlink("/etc/hostname", filepath.Join(dir, "overlay", "link.yaml")), os.Symlink("/dev/zero", filepath.Join(dir, "overlay", "device.yaml")),
			syscall.Mkfifo(filepath.Join(dir, "overlay", "fifo.yaml"), 0o600))
		var out bytes.Buffer
		code := cli.Main(ctx, []string{"check", filepath.Join(dir, "overlay"), "--root", dir, "--gate", filepath.Join(dir, "gate")}, strings.NewReader(""), &out, &out)
		done()
		if err != nil || code != cli.ExitUsage || !strings.Contains(out.String(), c.says) {
			return fmt.Errorf("%s: exit code %d: %s: %w", name, code, out.String(), err)
		}
	}
	return nil
}

// ruled is a Gate with one policy.
func ruled(rego string) string {
	return "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: case}\nspec:\n  environment: case\n  match: {kinds: [Workload, Pod]}\n  unmatchedImages: Allow\n  policies: [{configMap: {name: p, namespace: shop}}]\n" +
		"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: p, namespace: shop}\ndata:\n  p.rego: |\n    package main\n    " + strings.ReplaceAll(rego, "\n", "\n    ") + "\n"
}

func hostileRego(ctx context.Context) error {
	for rego, c := range map[string]struct {
		code int
		says string
	}{
		`deny contains "no" if http.send({"method": "get", "url": "http://localhost"})`:                               {cli.ExitUndecided, "http.send is not available"},
		`deny contains "no" if net.lookup_ip_addr("localhost")`:                                                       {cli.ExitUndecided, "net.lookup_ip_addr is not available"},
		`deny contains opa.runtime().env.HOME`:                                                                        {cli.ExitUndecided, "opa.runtime is not available"},
		"f(x) := f(x)\ndeny contains \"no\" if f(1)":                                                                  {cli.ExitUndecided, "recursive"},
		`deny contains "no" if { some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); i * j < 0 }`: {cli.ExitUndecided, "limits."},
	} {
		if err := one(ctx, webWorkload, ruled(rego), c.code, c.says); err != nil {
			return fmt.Errorf("%s: %w", rego, err)
		}
	}
	// The process is as it was.
	return one(ctx, webWorkload, ruled(`deny contains "no" if input.object.kind == "Nothing"`), cli.ExitPass)
}

func hostileYAML(ctx context.Context) error {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	for manifest, says := range map[string]string{
		webWorkload + bomb.String(): "limits.ExpandedBytes",
		webWorkload + "x: " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "\n": "depth",
		webWorkload + "spec: {image: registry.example.com/other:1}\n":                        `key "spec" is there already`,
		webWorkload + "data: " + strings.Repeat("x", 9<<20) + "\n":                           "limits.SourceFileBytes",
		strings.Replace(webWorkload, "kind: Workload", "kind: Workload\nkind: ConfigMap", 1): `key "kind" is there already`,
	} {
		if err := check(ctx, map[string]string{"overlay/x.yaml": manifest, "gate/gate.yaml": allGate + shopSpace}, cli.ExitUsage, says); err != nil {
			if text := err.Error(); len(text) > 1000 {
				err = errors.New(text[:1000])
			}
			return err
		}
	}
	return nil
}

func weakRules(ctx context.Context) error {
	for rule, says := range map[string]string{
		"keyless: {issuer: 'https://issuer.example.com'}":                                          "spec.images[0].authorities[0].keyless",
		"keyless: {subject: 'a@example.com'}":                                                      "spec.images[0].authorities[0].keyless",
		"keyless: {issuer: 'https://issuer.example.com', subjectRegExp: 'https://example.com/.*'}": "is not anchored",
		"keyless: {issuerRegExp: '^.*$', subject: 'a@example.com'}":                                "spec.images[0].authorities[0].keyless: ",
		"keyless: {issuerRegExp: '', subject: 'a@example.com'}":                                    "spec.images[0].authorities[0].keyless",
	} {
		gate := "apiVersion: sluice.dev/v1beta1\nkind: Gate\nmetadata: {name: case}\nspec:\n  environment: case\n  match: {kinds: [Workload]}\n  images: [{match: registry.example.com/**, authorities: [{" + rule + "}]}]\n"
		if err := one(ctx, webWorkload, gate, cli.ExitUsage, says); err != nil {
			return fmt.Errorf("%s: %w", rule, err)
		}
	}
	return nil
}

func talkativePolicy(ctx context.Context) error {
	const secret = "hunter2-is-the-password"
	manifest := webWorkload + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\nspec: {containers: [{name: a, image: r.io/a:1, env: [{name: DB_PASSWORD, value: " + secret + "}]}]}\n"
	gate := ruled(`deny contains sprintf("\u001b[2J\r\nPASS %v", [input.object])`) + shopSpace
	dir, done, err := folder(map[string]string{"overlay/x.yaml": manifest, "gate/gate.yaml": gate})
	if err != nil {
		return err
	}
	defer done()
	for _, format := range []string{"text", "json", "sarif", "junit", "github"} {
		var out bytes.Buffer
		args := []string{"check", filepath.Join(dir, "overlay"), "--root", dir, "--gate", filepath.Join(dir, "gate"), "--format", format}
		code := cli.Main(ctx, args, strings.NewReader(""), &out, &out)
		if text := out.String(); code != cli.ExitDenied || strings.Contains(text, secret) || strings.ContainsAny(text, "\x1b\r") || strings.Contains(text, "\nPASS") {
			return fmt.Errorf("%s: exit code %d: %q", format, code, text)
		}
	}
	return nil
}
