package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// exempting is an Exemption of one image of the Workload shop/web.
func exempting(expires time.Time, image string) string {
	return fmt.Sprintf(`apiVersion: sluice.dev/v1beta1
kind: Exemption
metadata: {name: hotfix}
spec:
  reason: incident 4711
  expires: %s
  gates: [prod]
  policies: [signature]
  objects: [{kind: Workload, namespace: shop, name: web}]
  images: ['%s']
`, expires.UTC().Format(time.RFC3339), image)
}

func TestCheck_Exemptions(t *testing.T) {
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		manifest func(*desk) string
		code     int
		says     []string
	}{
		"0: one that covers it": {func(d *desk) string { return exempting(soon, d.registry.Host()+"/shop/unsigned") }, 0,
			[]string{"PASS", "[exempted] signature", "by:    hotfix until " + soon.UTC().Format(time.RFC3339) + ` because "incident 4711"`}},
		"1: one of another image": {func(d *desk) string { return exempting(soon, d.registry.Host()+"/shop/signed") }, 1, []string{"DENY"}},
		"1: one that has expired": {func(d *desk) string { return exempting(past, d.registry.Host()+"/shop/unsigned") }, 1, []string{"DENY", "Exemption hotfix expired at", "delete it"}},
		"1: one of a rule that is not there": {func(d *desk) string {
			return strings.Replace(exempting(soon, d.registry.Host()+"/shop/unsigned"), "[signature]", "[restricted/privilegd, restricted]", 1)
		}, 1, []string{"DENY", `Exemption hotfix: spec.policies[0]: "restricted/privilegd" is no rule of the library: did you mean restricted/privileged?`,
			`spec.policies[1]: "restricted" is a group of the library`, "exempts nothing"}},
		"1: one of a Gate that is not there": {func(d *desk) string {
			return strings.Replace(exempting(soon, d.registry.Host()+"/shop/unsigned"), "gates: [prod]", "gates: [prd, e2e]", 1)
		}, 1, []string{"DENY", "sluice: Exemptions for Gates that none of the files has, and so for nothing here: hotfix (prd, e2e)"}},
		"2: one of every image": {func(*desk) string { return exempting(soon, "**") }, 2, []string{"Exemption hotfix cannot be used", "spec.images[0]"}},
		"2: one without an end": {func(*desk) string {
			return "apiVersion: sluice.dev/v1beta1\nkind: Exemption\nmetadata: {name: hotfix}\nspec: {reason: a, gates: [prod], policies: [signature], images: [r.io/a]}\n"
		}, 2, []string{"Exemption hotfix cannot be used", "spec.expires"}},
		"2: two under one name": {func(d *desk) string {
			return exempting(soon, d.registry.Host()+"/shop/unsigned") + "---\n" + exempting(soon, d.registry.Host()+"/shop/signed")
		}, 2, []string{"Exemption", "other content"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.write(t, "gates/ns.yaml", namespace)
			d.write(t, "gates/gate.yaml", d.gate("prod"))
			d.write(t, "gates/exemption.yaml", c.manifest(d))
			d.write(t, "in/web.yaml", head+d.image("unsigned")+"\n")
			d.run("", "check", "@in", "--gate", "@gates").must(t, c.code, c.says...)
		})
	}
}

// TestCheck_ExemptionsShowInAPullRequest: whoever reviews it sees what it lets through, where it
// stands, and also in a result that was kept.
func TestCheck_ExemptionsShowInAPullRequest(t *testing.T) {
	d := newDesk(t)
	d.write(t, "gates/ns.yaml", namespace)
	d.write(t, "gates/gate.yaml", d.gate("prod"))
	d.write(t, "gates/exemption.yaml", exempting(time.Now().Add(time.Hour), d.registry.Host()+"/shop/unsigned"))
	d.write(t, "in/web.yaml", head+d.image("unsigned")+"\n")
	for format, says := range map[string]string{
		"github":   "::notice file=" + d.dir + "/in/web.yaml,line=5,col=3,title=sluice%3A signature exempted::exempted by hotfix until ",
		"markdown": "- **`exempted signature`** at `" + d.dir + "/in/web.yaml:5:3`\n",
		"junit":    "<system-out>" + d.dir + "/in/web.yaml:5:3: exempted by hotfix until ",
	} {
		for range 2 {
			d.run("", "check", "@in", "--gate", "@gates", "--format", format, "--cache-dir", "@cache").must(t, 0, says)
		}
	}
}
