package policy

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// randomValue is what decoders of YAML and JSON make, with types that only Go code makes.
func randomValue(r *rand.Rand, depth int) any {
	kinds := 12
	if depth > 4 {
		kinds = 10
	}
	switch r.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return pick[any](r, int64(r.IntN(2000)-1000), r.IntN(600), int32(7), uint64(math.MaxUint64))
	case 3:
		return pick(r, 0, -1, 1.5, 1e21, 3)
	case 4:
		return pick(r, json.Number("12"), json.Number("1.50"), json.Number("1e400"))
	case 5:
		return pick[any](r, []string{"name", "x"}, map[string]string{"name": "x"}, []map[string]any{{"name": "x"}}, struct{ Name string }{"x"})
	case 6, 7, 8:
		return pick(r, "", "name", "spec", "RuntimeDefault", "other", strings.Repeat("long", 100))
	case 9:
		return pick[any](r, map[string]any{}, []any{}, map[string]any(nil), []any(nil))
	case 10:
		list := make([]any, r.IntN(5))
		for i := range list {
			list[i] = randomValue(r, depth+1)
		}
		return list
	}
	object := map[string]any{}
	for range r.IntN(12) {
		object[pick(r, "name", "metadata", "spec", "a", "b", "", "containers", "own")] = randomValue(r, depth+1)
	}
	return object
}

func TestConverter_MakesWhatOPAMakes(t *testing.T) {
	var c converter
	for seed := range uint64(3000) {
		x := randomValue(rand.New(rand.NewPCG(seed, 3)), 0)
		want, err := ast.InterfaceToValue(x)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.value(x)
		if err != nil {
			t.Fatal(err)
		}
		if got.Compare(want) != 0 || got.Hash() != want.Hash() || got.String() != want.String() || !got.IsGround() {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

func TestConverter_RefusesWhatOPARefuses(t *testing.T) {
	for _, x := range []any{
		math.Inf(1), make(chan int), []any{make(chan int)}, map[string]any{"name": map[string]any{"x": []any{json.Number("x")}}},
	} {
		var c converter
		_, err := c.value(x)
		_, want := ast.InterfaceToValue(x)
		if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
			t.Errorf("%v: got %v, want %v", x, err, want)
		}
	}
}
