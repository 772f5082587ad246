package registry

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func TestPredicateIn_IsThatOfTheStatement(t *testing.T) {
	statement := []byte(`{"predicateType":"x","predicate":"~~~???"}`)
	std, web := base64.StdEncoding.EncodeToString(statement), base64.URLEncoding.EncodeToString(statement)
	for _, tc := range []struct{ envelope, want string }{
		{fmt.Sprintf(`{"payload":%q}`, std), "x"},
		{fmt.Sprintf(`{"payload":%q}`, strings.TrimRight(std, "=")), "x"},
		{fmt.Sprintf(`{"payload":%q}`, web), "x"},
		{fmt.Sprintf(`{"payload":"\u00%x%s"}`, std[0], std[1:]), "x"},
		{fmt.Sprintf(`{"payload":"e30=","payload":%q}`, std), "x"},
		{fmt.Sprintf(`{"payload":%q,"payload":"e30="}`, std), ""},
		{fmt.Sprintf(`{"Payload":%q}`, std), ""},
		{fmt.Sprintf(`{"payload":[%q]}`, std), ""},
		{`{"payload":null}`, ""},
		{`{"payload":"%"}`, ""},
		{`{"payload":""}`, ""},
		{`{}`, ""},
		{`null`, ""},
		{fmt.Sprintf(`{"payload":%q,"x":[%s0]}`, std, strings.Repeat("0,", limits.EnvelopeParts)), ""},
	} {
		if got := predicateIn(gate.FormatAttestationTag, []byte(tc.envelope)); got != tc.want {
			t.Errorf("%.80s: %q", tc.envelope, got)
		}
		for _, bundle := range []string{`{"dsseEnvelope":%s}`, `{"dsse_envelope":%s}`, `{"dsse_envelope":{},"dsseEnvelope":%s}`} {
			if got := predicateIn(gate.FormatBundle, fmt.Appendf(nil, bundle, tc.envelope)); got != tc.want {
				t.Errorf("%.80s in %s: %q", tc.envelope, bundle, got)
			}
		}
	}
	if got := predicateIn(gate.FormatBundle, fmt.Appendf(nil, `{"x":{"payload":%q}}`, std)); got != "" {
		t.Errorf("beside the envelope: %q", got)
	}
}

// What sorts evidence takes no more memory than the statement in it, however large that is.
func TestPredicateIn_CopiesNothingButTheStatement(t *testing.T) {
	const size = 3 << 20
	raw := fmt.Appendf(nil, `{"dsseEnvelope":{"payload":%q}}`, base64.StdEncoding.EncodeToString([]byte(`{"predicateType":"x","p":"`+strings.Repeat("y", size)+`"}`)))
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			predicateIn(gate.FormatBundle, raw)
		}
	})
	if got := result.AllocedBytesPerOp(); got > size*5/4 {
		t.Errorf("%d bytes are allocated for a statement of %d", got, size)
	}
}
