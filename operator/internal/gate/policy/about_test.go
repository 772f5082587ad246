package policy

import (
	"strings"
	"testing"
)

func TestDescribe_EveryRuleOfTheLibraryHasWords(t *testing.T) {
	for _, group := range BuiltinGroups() {
		source, err := compileUnit(unit{builtin(t, group)})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range source.rules {
			if about, ok := Describe(r.policy); !ok || about.Title == "" || about.Description == "" || about.Remedy == "" {
				t.Errorf("%s: %+v", r.policy, about)
			}
		}
	}
	if about, _ := Describe("restricted/privileged"); !strings.Contains(about.Title, "not privileged") {
		t.Errorf("a rule that the group includes: %+v", about)
	}
	for _, name := range []string{"signature", "restricted", "restricted/nothing", "lib/pods", "sluice-system/house/main", ""} {
		if about, ok := Describe(name); ok {
			t.Errorf("%q: %+v", name, about)
		}
	}
}
