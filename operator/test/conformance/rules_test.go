package conformance

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sluice-dev/sluice/operator/internal/cli"
	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

// byObjects are the rules that no Workload's children can break, and what keeps them from
// it. They are held at two gates: the reconciler judges Workloads.
var byObjects = map[string]string{
	"gitops/cluster-admin":   "a Workload renders to no bindings",
	"gitops/generated-names": "patches may not set generateName, and a stored Workload has a name",
}

// unreachable are the rules that nothing gets as far as, and the policy that denies before
// they are asked.
var unreachable = map[string]string{
	"gitops/namespace": "render", // patches may not move a child, and an object is in its own namespace
}

// ruled is a fixture with its verdicts in the pull request, as bytes.
type ruled struct {
	object   *unstructured.Unstructured
	verdicts []gate.Verdict
	raw      []byte
}

// rulesBeforeTheyAreStored wants a fixture that breaks it for every rule of the library, and
// admission to say of each fixture what the pull request says, to the byte. It returns the
// Workloads among them.
func (s *suite) rulesBeforeTheyAreStored(t *testing.T) []ruled {
	t.Helper()
	s.judgeRuleObjects(t)
	passing, denied, objects := s.ruled(t, "passing"), s.ruled(t, "denied"), s.ruled(t, "objects")
	t.Run("nothing in the library has anything against what is right", func(t *testing.T) {
		for _, r := range passing {
			if found := policies(r); len(found) > 0 || gate.Worst(r.verdicts).Outcome != gate.OutcomeAllow {
				t.Errorf("%s: %s", r.object.GetName(), r.raw)
			}
		}
	})
	t.Run("every rule of the library has what breaks it", func(t *testing.T) {
		broken, asObjects := policies(denied...), policies(objects...)
		for _, rule := range library(t) {
			switch {
			case unreachable[rule] != "":
				if slices.Contains(broken, rule) || !slices.Contains(broken, unreachable[rule]) {
					t.Errorf("%s is not unreachable behind %s", rule, unreachable[rule])
				}
			case byObjects[rule] != "":
				if slices.Contains(broken, rule) || !slices.Contains(asObjects, rule) {
					t.Errorf("%s is broken by a Workload, or by no object (%s)", rule, byObjects[rule])
				}
			case !slices.Contains(broken, rule):
				t.Errorf("nothing breaks %s: add a Workload to testdata/rules/denied.yaml, or a reason to the tables here", rule)
			}
		}
	})
	for _, r := range slices.Concat(passing, denied, objects) {
		t.Run("pull request and admission agree on "+r.object.GetKind()+" "+r.object.GetName(), func(t *testing.T) {
			if r.object.GetGenerateName() != "" {
				// The API server has made up a name by then, another one each time.
				refusal := s.client.Create(t.Context(), r.object.DeepCopy(), client.DryRunAll)
				if found := r.verdicts[0].Violations; refusal == nil || len(found) != 1 || !strings.Contains(refusal.Error(), found[0].Path+": "+found[0].Message) {
					t.Errorf("the API server answers %v and should say what is here: %s", refusal, r.raw)
				}
				return
			}
			if got := s.admission(t, r.object, gate.Worst(r.verdicts).Outcome.Blocks()); !bytes.Equal(got, r.raw) {
				t.Errorf("admission:    %s\npull request: %s", got, r.raw)
			}
		})
	}
	return slices.Concat(passing, denied)
}

// rulesOnceStored wants the reconciler to say the same of the Workloads.
func (s *suite) rulesOnceStored(t *testing.T, workloads []ruled) {
	t.Helper()
	for _, r := range workloads {
		t.Run("the reconciler agrees on Workload "+r.object.GetName(), func(t *testing.T) {
			if got, want := s.reconciled(t, r.object).VerdictDigest, gate.Worst(r.verdicts).Digest(); got != want {
				t.Errorf("status.gate has verdict digest %s; the pull request has %s: %s", got, want, r.raw)
			}
		})
	}
}

// judgeRuleObjects applies the Gates and a webhook configuration that asks about pods and
// bindings too, and waits until both count.
func (s *suite) judgeRuleObjects(t *testing.T) {
	t.Helper()
	hooks := s.objects(t, "testdata/objects")
	lab.RedirectWebhooks(hooks, s.stage.WebhookURL)
	for _, configuration := range hooks {
		askAboutBindings(t, configuration)
	}
	if err := s.stage.Cluster.Apply(t.Context(), append(s.objects(t, "testdata/rules/gate.yaml"), hooks...)); err != nil {
		t.Fatal(err)
	}
	all := s.objects(t, "testdata/rules/objects.yaml")
	probe := all[slices.IndexFunc(all, func(u *unstructured.Unstructured) bool { return u.GetName() == "everything" })]
	probe.SetName("probe")
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := s.client.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "denied by gate rule-objects"), nil
	})
	if err != nil {
		t.Fatalf("wait for the webhook to be asked about bindings: %v", err)
	}
}

func askAboutBindings(t *testing.T, configuration *unstructured.Unstructured) {
	t.Helper()
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range webhooks {
		if webhook := w.(map[string]any); webhook["name"] == "objects.sluice.dev" {
			webhook["rules"] = append(webhook["rules"].([]any), map[string]any{
				"apiGroups": []any{"rbac.authorization.k8s.io"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"},
				"resources": []any{"rolebindings"}, "scope": "Namespaced",
			})
		}
	}
	if err := unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks"); err != nil {
		t.Fatal(err)
	}
}

// ruled is the fixtures of a file, each with what one run of the command says of it.
func (s *suite) ruled(t *testing.T, name string) []ruled {
	t.Helper()
	file := "testdata/rules/" + name + ".yaml"
	var stdout, stderr bytes.Buffer
	if code := cli.Main(t.Context(), []string{"check", file, "--gate=testdata/rules/gate.yaml", "--format=json"}, nil, &stdout, &stderr); code > cli.ExitDenied {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	verdicts := decode(t, stdout.Bytes())
	objects := s.objects(t, file)
	if len(verdicts) != len(objects) {
		t.Fatalf("%d verdicts over %d objects", len(verdicts), len(objects))
	}
	out := make([]ruled, len(objects))
	for i, u := range objects {
		one := verdicts[i : i+1]
		if said := one[0].Object; said.Kind != u.GetKind() || said.Name != u.GetName()+u.GetGenerateName() {
			t.Fatalf("verdict %d is over %s and should be over %s %s", i, said, u.GetKind(), u.GetName())
		}
		out[i] = ruled{u, one, report.JSON(one)}
	}
	return out
}

// policies that something was found by.
func policies(all ...ruled) []string {
	var names []string
	for _, r := range all {
		for _, v := range r.verdicts {
			for _, f := range slices.Concat(v.Violations, v.Warnings) {
				names = append(names, f.Policy)
			}
		}
	}
	return names
}

var (
	groupHead = regexp.MustCompile("^## ([a-z_]+)$")
	ruleRow   = regexp.MustCompile("^\\| `([a-z-]+)` \\| (?:low|medium|high|critical) \\|")
)

// library is every rule that the library says it has, as group/rule.
func library(t *testing.T) []string {
	t.Helper()
	docs, err := policy.Docs()
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	group := ""
	for line := range strings.Lines(docs) {
		line = strings.TrimSuffix(line, "\n")
		if m := groupHead.FindStringSubmatch(line); m != nil {
			group = m[1]
		}
		if m := ruleRow.FindStringSubmatch(line); m != nil {
			rules = append(rules, group+"/"+m[1])
		}
	}
	modules := 0
	for _, group := range policy.BuiltinGroups() {
		set, _ := policy.Builtin(group)
		for file := range set.Modules {
			if strings.HasPrefix(file, group+"/") {
				modules++
			}
		}
	}
	if len(rules) != modules {
		t.Fatalf("%d rules are documented, and there are %d", len(rules), modules)
	}
	return rules
}
