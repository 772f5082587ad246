package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// dependent is a Workload that passes the gate, with more of its spec.
func (d *desk) dependent(namespace, name, more string) string {
	return fmt.Sprintf("apiVersion: sluice.dev/v1beta1\nkind: Workload\nmetadata: {name: %s, namespace: %s}\nspec: {image: '%s', %s}\n---\n",
		name, namespace, d.image("signed"), more)
}

func TestCheck_RefusesWhatDependsOnItself(t *testing.T) {
	d := newDesk(t)
	d.write(t, "ns.yaml", namespace+strings.Replace(namespace, "name: shop", "name: team", 1))
	for name, c := range map[string]struct {
		workloads []string
		code      int
		says      []string
	}{
		"a chain, and one that is not in the files": {[]string{
			d.dependent("shop", "a", "dependsOn: [{name: b}]"), d.dependent("shop", "b", "dependsOn: [{name: elsewhere}]"),
		}, 0, nil},
		"a cycle": {[]string{
			d.dependent("shop", "c", "dependsOn: [{name: a}]"), d.dependent("shop", "a", "dependsOn: [{name: x}, {name: b}]"), d.dependent("shop", "b", "dependsOn: [{name: c, namespace: shop}]"),
		}, 1, []string{"refused for spec.dependsOn", "web.yaml: Workload/shop/a: spec.dependsOn[1]", "shop/a -> shop/b -> shop/c -> shop/a; take one of them out", "3 allowed"}},
		"a cycle over two namespaces": {[]string{
			d.dependent("shop", "a", "dependentNamespaces: [team], dependsOn: [{name: b, namespace: team}]"),
			d.dependent("team", "b", "dependentNamespaces: ['*'], dependsOn: [{name: a, namespace: shop}]"),
		}, 1, []string{"shop/a -> team/b -> shop/a"}},
		"a dependency that its owner does not allow": {[]string{
			d.dependent("shop", "a", "dependsOn: [{name: b, namespace: team}]"), d.dependent("team", "b", "dependentNamespaces: [other]"),
		}, 1, []string{"spec.dependsOn[0]: Forbidden", "team/b", "names namespace shop in spec.dependentNamespaces"}},
		"one that it allows": {[]string{
			d.dependent("shop", "a", "dependsOn: [{name: b, namespace: team}]"), d.dependent("team", "b", "dependentNamespaces: [other, shop]"),
		}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d.write(t, "in/web.yaml", strings.Join(c.workloads, ""))
			d.run("", "check", "@in", "--gate", "@gate.yaml", "--gate", "@ns.yaml").must(t, c.code, c.says...)
			got := d.run("", "check", "@in", "--gate", "@gate.yaml", "--gate", "@ns.yaml", "--format", "json")
			var verdicts []gate.Verdict
			if err := json.Unmarshal([]byte(got.out), &verdicts); err != nil || len(verdicts) != len(c.workloads) || got.code != c.code {
				t.Errorf("code %d; the verdicts are no JSON any more: %v\n%s", got.code, err, got.out)
			}
			for _, v := range verdicts {
				if v.Outcome != gate.OutcomeAllow {
					t.Errorf("what depends on what is in a verdict: %s", v.Canonical())
				}
			}
		})
	}
}
