package lab

import (
	"slices"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func TestAuditPolicy_RecordsWholeUsersOnlyWhereSomeAreNamed(t *testing.T) {
	everyone := func(r auditv1.PolicyRule) bool {
		return r.Level != auditv1.LevelNone && len(r.Users) == 0 && len(r.Resources) == 0
	}
	for name, users := range map[string][]string{"nobody": nil, "two": {"a", "b"}} {
		rules := auditPolicy(users).Rules
		if slices.ContainsFunc(rules, everyone) {
			t.Errorf("%s: a rule is for every request of everyone: %+v", name, rules)
		}
		if len(users) > 0 && !slices.Equal(rules[0].Users, users) {
			t.Errorf("%s: the first rule, which counts, is %+v", name, rules[0])
		}
		if last := rules[len(rules)-1]; last.Level != auditv1.LevelNone {
			t.Errorf("%s: the last rule is %+v, want that the rest is not recorded", name, last)
		}
	}
}
