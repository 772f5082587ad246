package promote_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/promote"
)

var chain = promote.Chain{"ci": {"dev"}, "e2e": {"ci"}, "prod": {"e2e"}, "both": {"ci", "e2e"}, "loop": {"pool"}, "pool": {"loop"}}

func TestChain_Route(t *testing.T) {
	for _, c := range []struct {
		from, to, says string
		missing        []string
	}{
		{"e2e", "prod", "", nil},
		{"dev", "ci", "", nil},
		{"dev", "prod", "ci, then e2e comes between; promote to ci first", []string{"ci", "e2e"}},
		{"ci", "prod", "e2e comes between", []string{"e2e"}},
		{"prod", "ci", "demands evidence of dev", nil},
		{"qa", "prod", "demands evidence of e2e", nil},
		{"qa", "dev", "", nil}, // the Gate of dev names none
		{"qa", "unknown", "", nil},
		{"ci", "both", "", nil},
		{"dev", "both", "ci comes between", []string{"ci"}},
		{"dev", "loop", "demands evidence of pool", nil},
		{"prod", "prod", "are both prod", nil},
	} {
		err := chain.Route(c.from, c.to)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
		if skipped := new(promote.SkipError); errors.As(err, &skipped) && !slices.Equal(skipped.Missing, c.missing) {
			t.Errorf("%s to %s: %v", c.from, c.to, skipped.Missing)
		}
	}
}

func TestChain_Predecessor(t *testing.T) {
	for to, want := range map[string]string{"prod": "e2e", "dev": "", "both": ""} {
		if got := chain.Predecessor(to); got != want {
			t.Errorf("%s: %q", to, got)
		}
	}
}
