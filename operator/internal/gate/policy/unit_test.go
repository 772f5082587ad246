package policy

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

func names(u unit) []string {
	var all []string
	for _, set := range u {
		all = append(all, set.Name)
	}
	return all
}

func TestUnits_TheLibraryIsOneAndEverySourceIsAlone(t *testing.T) {
	// A set that says it is of the library, and is not.
	changed := builtin(t, "network")
	changed.Modules, changed.Sum = maps.Clone(changed.Modules), ""
	changed.Modules["network/more.rego"] = "package sluice.network.more\ndeny contains \"no\" if true"
	gone := gate.PolicySet{Name: "tenancy", Unavailable: "it is gone"}
	units := unitsOf([]gate.PolicySet{house("a"), builtin(t, "restricted"), changed, builtin(t, "secrets"), gone, builtin(t, "restricted"), house("b")})
	var got [][]string
	for _, u := range units {
		got = append(got, names(u))
	}
	want := [][]string{{"restricted", "secrets"}, {"sluice-system/house"}, {"network"}, {"tenancy"}, {"sluice-system/house"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestUnits_TheOrderOfGroupsMakesNoOther(t *testing.T) {
	one := unitsOf([]gate.PolicySet{builtin(t, "secrets"), builtin(t, "network")})
	other := unitsOf([]gate.PolicySet{builtin(t, "network"), builtin(t, "secrets")})
	if one[0].digest() != other[0].digest() {
		t.Errorf("%v and %v are compiled apart", names(one[0]), names(other[0]))
	}
}

// What groups find together is what each finds by itself, under its own name: rules that two
// groups have are told by both.
func TestUnits_GroupsTogetherFindWhatEachFindsAlone(t *testing.T) {
	broken := goodInput(allBuiltins(t)...)
	mainContainer(broken)["securityContext"].(map[string]any)["privileged"] = true
	mainContainer(broken)["env"] = []any{map[string]any{"name": "DB", "value": "db.other.svc"}, map[string]any{"name": "PASSWORD", "value": "hunter2hunter2"}}
	together := New().Evaluate(context.Background(), broken)
	var apart gate.Findings
	for _, set := range broken.Gate.Policies {
		alone := *broken
		alone.Gate.Policies = []gate.PolicySet{set}
		found := New().Evaluate(context.Background(), &alone)
		apart.Deny, apart.Warn, apart.Undecided = append(apart.Deny, found.Deny...), append(apart.Warn, found.Warn...), append(apart.Undecided, found.Undecided...)
	}
	if len(together.Deny) < 4 || len(together.Undecided) > 0 {
		t.Error(show(together))
	}
	if show(together) != show(apart) {
		t.Errorf("together %s\napart %s", show(together), show(apart))
	}
}

// Where the rules together fail each is asked by itself, by a query that is prepared for whoever
// needs it first.
func TestUnits_RulesAreAskedByThemselvesByManyAtOnce(t *testing.T) {
	broken := func() *gate.Input {
		in := goodInput(builtin(t, "restricted"), builtin(t, "tenancy"))
		template := in.Children[0]["spec"].(map[string]any)["template"].(map[string]any)
		template["metadata"] = map[string]any{"annotations": map[string]any{"container.apparmor.security.beta.kubernetes.io/main": int64(1)}}
		mainContainer(in)["securityContext"].(map[string]any)["privileged"] = true
		return in
	}
	check := New()
	const many = 8
	results := make(chan string, many)
	for range many {
		go func() { results <- show(check.Evaluate(context.Background(), broken())) }()
	}
	found := New().Evaluate(context.Background(), broken())
	if len(found.Undecided) != 1 || found.Undecided[0].Policy != "restricted/app-armor" || len(found.Deny) != 1 {
		t.Fatal(show(found))
	}
	for range many {
		if got := <-results; got != show(found) {
			t.Errorf("got %s, want %s", got, show(found))
		}
	}
}

// An input that is too much for the rules together is cut off at the one that is too much.
func TestUnits_GroupsThatTakeTooMuchAreCutOffAtARule(t *testing.T) {
	in := goodInput(builtin(t, "restricted"), builtin(t, "secrets"))
	containers := make([]any, 20_000)
	for i := range containers {
		containers[i] = mainContainer(in)
	}
	template := in.Children[0]["spec"].(map[string]any)["template"].(map[string]any)
	template["spec"].(map[string]any)["containers"] = containers
	check := New()
	check.deadline = time.Minute
	found := check.Evaluate(context.Background(), in)
	if len(found.Undecided) != 1 || len(found.Deny) > 0 {
		t.Fatal(show(found))
	}
	if f := found.Undecided[0]; !strings.Contains(f.Policy, "/") || !strings.Contains(f.Message, "limits.Policy") {
		t.Error(show(found))
	}
}

// Compiling is not on the time of the evaluation: the deadline of the check is over before
// anything can be compiled, and what compiles is evaluated all the same.
func TestCheck_WaitsForWhatIsCompiledOnOtherTime(t *testing.T) {
	check := New()
	set := house("package main\ndeny contains \"no\" if true")
	entry := &cached{digest: set.Digest(), ready: make(chan struct{})}
	check.cache.entries[set.Digest()] = check.cache.byUse.PushFront(entry)
	check.deadline = 200 * time.Millisecond
	released := time.AfterFunc(2*check.deadline, func() {
		entry.set, entry.err = compileUnit(unit{set})
		close(entry.ready)
	})
	defer released.Stop()
	if found := check.Evaluate(context.Background(), goodInput(set)); len(found.Deny) != 1 || len(found.Undecided) > 0 {
		t.Error(show(found))
	}
}

func TestDoubt_IsOfNoRuleThatThereIs(t *testing.T) {
	for _, group := range BuiltinGroups() {
		set, _ := Builtin(group)
		source, err := compileUnit(unit{set})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range source.rules {
			if doubt := Doubt(r.policy); doubt != "" {
				t.Error(doubt)
			}
		}
	}
	for name, want := range map[string]string{
		"restricted/privilegd": "did you mean restricted/privileged?", "tenancy/x": "there are neighbours, service-names, tenant",
		"data": "write data/backup or another", "data/": "there are", "signature": "", "house/rules": "", "sluice-system/data/main": "",
	} {
		if got := Doubt(name); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
