package digests_test

import (
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/digests"
)

func TestValid_TakesOneFormOnly(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	for title, tc := range map[string]struct {
		text string
		want bool
	}{
		"a digest":               {"sha256:" + hex, true},
		"nothing":                {"", false},
		"no digits":              {"sha256:", false},
		"no algorithm":           {hex, false},
		"an empty algorithm":     {":" + hex, false},
		"capital digits":         {"sha256:" + strings.ToUpper(hex), false},
		"a capital algorithm":    {"SHA256:" + hex, false},
		"another algorithm":      {"sha512:" + hex + hex, false},
		"another, with 64":       {"sha512:" + hex, false},
		"an unknown one":         {"md5:" + hex, false},
		"a digit too few":        {"sha256:" + hex[1:], false},
		"a digit too many":       {"sha256:" + hex + "0", false},
		"a letter too high":      {"sha256:g" + hex[1:], false},
		"a line behind it":       {"sha256:" + hex + "\n", false},
		"a space before it":      {" sha256:" + hex, false},
		"a digit of two bytes":   {"sha256:\u0660" + hex[2:], false},
		"a byte of no character": {"sha256:\xff" + hex[1:], false},
		"two of them":            {"sha256:sha256:" + hex, false},
		"a tag's form":           {"sha256-" + hex, false},
		"a repository":           {"repo@sha256:" + hex, false},
	} {
		t.Run(title, func(t *testing.T) {
			if got := digests.Valid(tc.text); got != tc.want {
				t.Errorf("%q: %t", tc.text, got)
			}
			if err := digests.Validate(tc.text); (err == nil) != tc.want || err != nil && !strings.Contains(err.Error(), "64 hexadecimal digits in lower case") {
				t.Errorf("%q: %v", tc.text, err)
			}
		})
	}
}

func TestValidate_SaysNoMoreThanTheBeginning(t *testing.T) {
	if err := digests.Validate(strings.Repeat("x", 1<<20)); err == nil || len(err.Error()) > 200 {
		t.Errorf("%.300v", err)
	}
}

// The sum is the one of FIPS 180-2, for "abc".
func TestOf_IsValidAndTheSum(t *testing.T) {
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := digests.Of([]byte("abc")); got != digests.Prefix+want || digests.Hex(got) != want || !digests.Valid(got) {
		t.Errorf("%s", got)
	}
}

func BenchmarkValid(b *testing.B) {
	digest := digests.Of(nil)
	b.ReportAllocs()
	for b.Loop() {
		digests.Valid(digest)
	}
}
