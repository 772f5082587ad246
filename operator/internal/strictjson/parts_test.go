package strictjson_test

import (
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

func TestParts_CountsWhatIsDecoded(t *testing.T) {
	for raw, want := range map[string]int{
		``:                                1,
		`1`:                               1,
		`"a,{[\",{["`:                     1,
		`"a\\",1`:                         2,
		`[]`:                              9,
		`[1,2]`:                           10,
		`{"a":[],"b":{}}`:                 26,
		"[" + strings.Repeat("[],", 9):    90,
		`"not ended, {`:                   1,
		`{"payload":"e30=","n":"\u007b"}`: 10,
	} {
		if got := strictjson.Parts([]byte(raw)); got != want {
			t.Errorf("%s has %d parts, and not %d", raw, got, want)
		}
	}
}

func BenchmarkParts(b *testing.B) {
	raw := []byte(strings.Repeat(`{"SPDXID":"SPDXRef-Package","name":"libc"},`, 1<<20/43))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		strictjson.Parts(raw)
	}
}
