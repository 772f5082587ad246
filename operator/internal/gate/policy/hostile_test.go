package policy

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// doubling is a rule that doubles x forty times by an expression such as
// `concat("", [x, x])`: a terabyte, unless something stops it.
func doubling(start, expression string) string {
	var b strings.Builder
	b.WriteString("package main\n\ndeny contains \"reached\" if {\n\tx00 := " + start + "\n")
	names := strings.NewReplacer("Y", "NEXT", "X", "LAST")
	for i := range 40 {
		line := names.Replace("Y := " + expression)
		line = strings.NewReplacer("NEXT", "x"+itoa(i+1), "LAST", "x"+itoa(i)).Replace(line)
		b.WriteString("\t" + line + "\n")
	}
	b.WriteString("\tx40 != null\n}\n")
	return b.String()
}

func itoa(i int) string { return string([]byte{byte('0' + i/10), byte('0' + i%10)}) }

func TestCheck_CutsOffWhatNeverEnds(t *testing.T) {
	nested := `package main
deny contains "reached" if {
	n := numbers.range(1, 3000)
	count([1 | some a in n; some b in n; some c in n; a + b == c]) > 0
}`
	cases := map[string]struct{ rego, says string }{
		"nested iterations":          {nested, "limits.Policy"},
		"a range of all numbers":     {"package main\ndeny contains \"reached\" if count(numbers.range(1, 1000000000000)) > 0", "limits.PolicyBuiltinBytes"},
		"a range beyond int":         {"package main\ndeny contains \"reached\" if count(numbers.range(1, 1e300)) > 0", "numbers.range"},
		"text doubled by concat":     {doubling(`"xxxxxxxxxxxxxxxxxxxx"`, `concat("", [X, X])`), "limits.PolicyBuiltinBytes"},
		"text doubled by sprintf":    {doubling(`"xxxxxxxxxxxxxxxxxxxx"`, `sprintf("%s%s", [X, X])`), "limits.PolicyBuiltinBytes"},
		"one argument many times":    {doubling(`"xxxxxxxxxxxxxxxxxxxx"`, `sprintf("%[1]s%[1]s", [X])`), "limits.PolicyBuiltinBytes"},
		"text doubled by a template": {doubling(`"xxxxxxxxxxxxxxxxxxxx"`, `$"{X}{X}"`), "limits.PolicyBuiltinBytes"},
		"text doubled by replace":    {doubling(`"xxxxxxxxxxxxxxxxxxxx"`, `replace(X, "x", "xx")`), "limits.Policy"},
		"text doubled by replace_n":  {doubling(`"xxxxxxxxxxxxxxxxxxxx"`, `strings.replace_n({"x": "xx"}, X)`), "limits.Policy"},
		"text doubled by a regex":    {doubling(`"xxxxxxxxxxxxxxxxxxxx"`, `regex.replace(X, "x", "xx")`), "limits.Policy"},
		"text doubled by hex":        {doubling(`"xxxxxxxxxxxxxxxxxxxx"`, `hex.encode(X)`), "limits.PolicyBuiltinBytes"},
		"a list doubled":             {doubling(`[1, 2, 3, 4]`, `array.concat(X, X)`), "limits.PolicyBuiltinBytes"},
		"a list of shared lists":     {doubling(`[1, 2]`, `[X, X]`), "limits.PolicyValueParts"},
		"shared lists written out": {
			strings.Replace(doubling(`[1, 2]`, `array.concat([X], [X])`), "x40 != null", `json.marshal(x40) != ""`, 1), "limits.PolicyBuiltinBytes",
		},
		"shared lists in a message": {
			strings.Replace(doubling(`[1, 2]`, `array.concat([X], [X])`), "x40 != null", `sprintf("%v", [x40]) != ""`, 1), "limits.PolicyBuiltinBytes",
		},
		"a number squared":       {doubling(`12345678901234567890`, `X * X`), "digits"},
		"a number with exponent": {"package main\ndeny contains \"reached\" if floor(1e999999999 * count(input.children)) > 0", "number too big"},
		"a number in a message":  {"package main\ndeny contains sprintf(\"%d\", [x]) if x := json.unmarshal(\"1e999999999\")", "number too big"},
		"padding":                {"package main\ndeny contains sprintf(\"%" + strings.Repeat("*d%", 100) + "d\", [1]) if true", "limits.PolicyBuiltinBytes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found := New().Evaluate(context.Background(), goodInput(house(c.rego)))
			runtime.ReadMemStats(&after)
			if len(found.Undecided) != 1 || len(found.Deny) > 0 {
				t.Fatal(show(found))
			}
			f := found.Undecided[0]
			if !strings.HasPrefix(f.Policy, "sluice-system/house") || f.Remedy == "" || !strings.Contains(f.Message, c.says) {
				t.Fatalf("got %+v, want %q", f, c.says)
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; name != "nested iterations" && made > 600 {
				t.Errorf("%d MiB were allocated", made)
			}
		})
	}
}

func TestCheck_CutsOffAtTheSameStepEverywhere(t *testing.T) {
	check := New()
	check.deadline = time.Hour
	set := house(`package main
deny contains "reached" if {
	n := numbers.range(1, 2000)
	count([1 | some a in n; some b in n; some c in n; a + b + c < 0]) > 0
}`)
	found := check.Evaluate(context.Background(), goodInput(set))
	if len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "limits.PolicySteps") {
		t.Fatal(show(found))
	}
}

// slow takes a few seconds at most steps, so that the deadline comes first.
const slow = `package main
deny contains "reached" if {
	n := numbers.range(1, 2000)
	count([1 | some a in n; some b in n; a + b < 0]) == 0
}`

func TestCheck_StopsAtTheDeadline(t *testing.T) {
	check := New()
	set := house(slow)
	if _, err := check.cache.get(context.Background(), unit{set}); err != nil {
		t.Fatal(err)
	}
	check.deadline = 20 * time.Millisecond
	later := gate.PolicySet{Name: "sluice-system/later", Modules: map[string]string{"x.rego": "package main\ndeny contains \"no\" if true"}}
	start := time.Now()
	found := check.Evaluate(context.Background(), goodInput(set, later))
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %s to stop", took)
	}
	if len(found.Undecided) != 2 || len(found.Deny) > 0 {
		t.Fatal(show(found))
	}
	for i, want := range []string{"sluice-system/house/main", "sluice-system/later"} {
		if f := found.Undecided[i]; f.Policy != want || !strings.Contains(f.Message, "limits.PolicyDeadline") || f.Remedy == "" {
			t.Errorf("got %+v, want policy %s", f, want)
		}
	}
}

func TestCheck_StopsWhenTheRequestIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	found := New().Evaluate(ctx, goodInput(house(slow)))
	if len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "the request was cancelled") {
		t.Fatal(show(found))
	}
}

func TestCheck_LeavesAnEvaluationThatDoesNotStopBehind(t *testing.T) {
	check := New()
	check.deadline, check.grace = 10*time.Millisecond, time.Millisecond
	source, err := compileUnit(unit{house("package main\ndeny contains \"no\" if true")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), check.deadline)
	defer cancel()
	// A result that is waited for holds the evaluation as a long call would.
	release := make(chan struct{})
	input, err := policyInput(goodInput())
	if err != nil {
		t.Fatal(err)
	}
	r := &run{rules: source.rules, input: input, in: goodInput()}
	held := &heldCache{VirtualCache: topdown.NewVirtualCache(), release: release}
	r.shared = func() topdown.VirtualCache { return held }
	found := check.watch(ctx, source, r)
	if len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "cannot be interrupted") ||
		found.Undecided[0].Policy != "sluice-system/house/main" {
		t.Fatal(show(found))
	}
	if source.stuck.Load() != 1 {
		t.Fatal("the source is not marked")
	}
	close(release)
	for source.stuck.Load() != 0 {
		runtime.Gosched()
	}
}

func TestCheck_DoesNotEvaluateASourceThatIsStuck(t *testing.T) {
	check := New()
	set := house("package main\ndeny contains \"no\" if true")
	source, err := check.cache.get(context.Background(), unit{set})
	if err != nil {
		t.Fatal(err)
	}
	source.stuck.Add(1)
	found := check.Evaluate(context.Background(), goodInput(set))
	if len(found.Undecided) != 1 || !strings.Contains(found.Undecided[0].Message, "has not ended") {
		t.Fatal(show(found))
	}
	source.stuck.Add(-1)
	if found = check.Evaluate(context.Background(), goodInput(set)); len(found.Deny) != 1 {
		t.Fatal(show(found))
	}
}

// heldCache blocks its first use until it is released.
type heldCache struct {
	topdown.VirtualCache
	release chan struct{}
}

func (h *heldCache) Get(ref ast.Ref) (*ast.Term, bool) {
	<-h.release
	return h.VirtualCache.Get(ref)
}

func TestMetered_KnowsEveryAllowedFunctionThatMakesText(t *testing.T) {
	for name := range metered {
		if topdown.GetBuiltin(name) == nil {
			t.Errorf("OPA has no function %s", name)
		}
	}
	if limits.PolicyBuiltinBytes < limits.PolicyBytes {
		t.Error("a policy may not even handle its own text")
	}
}
