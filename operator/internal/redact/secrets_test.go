package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

func variable(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }

func pod(variables ...any) map[string]any {
	return map[string]any{"kind": "Pod", "spec": map[string]any{"initContainers": []any{map[string]any{"env": variables}}}}
}

func TestSecrets_AreMasked(t *testing.T) {
	const secret = "correct-horse"
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	applied, err := json.Marshal(pod(variable("TOKEN", secret)))
	if err != nil {
		t.Fatal(err)
	}
	for title, tc := range map[string]struct {
		object any
		in     string
		want   string
	}{
		"a variable":                         {pod(variable("DB_PASSWORD", secret)), "value " + secret + "!", "value (masked)!"},
		"a variable within a word":           {pod(variable("apiKey", secret)), "x" + secret + "x", "x(masked)x"},
		"a variable in base64":               {pod(variable("aws_secret_access_key", secret)), encoded, "(masked)"},
		"a variable by another name":         {pod(variable("GREETING", secret)), secret, secret},
		"where a secret is":                  {pod(variable("DB_PASSWORD_FILE", "/etc/password")), "/etc/password", "/etc/password"},
		"a password in a URL":                {pod(variable("DATABASE_URL", "postgres://app:"+secret+"@db/x")), "at " + secret, "at (masked)"},
		"an escaped password in a URL":       {pod(variable("DATABASE_URL", "postgres://app:a%2Fb-horse@db/x")), "a/b-horse a%2Fb-horse", "(masked) (masked)"},
		"a Secret's data":                    {map[string]any{"kind": "Secret", "data": map[string]any{"a": encoded}}, secret + " " + encoded, "(masked) (masked)"},
		"a Secret's text":                    {map[string]any{"kind": "Secret", "stringData": map[string]any{"a": secret}}, secret, "(masked)"},
		"a ConfigMap's data":                 {map[string]any{"kind": "ConfigMap", "data": map[string]any{"a": secret}}, secret, secret},
		"kubectl's copy":                     {map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(applied) + "\n"}}}, "was " + string(applied), "was (masked)"},
		"kubectl's copy, printed in a text":  {map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(applied) + "\n"}}}, "was " + strconv.Quote(string(applied)), `was "(masked)"`},
		"a secret in kubectl's copy":         {map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(applied)}}}, secret, "(masked)"},
		"the value of a patch":               {[]any{map[string]any{"op": "add", "path": "/spec/template/spec/containers/0/env/2/value", "value": secret}}, secret, "(masked)"},
		"the value of another patch":         {[]any{map[string]any{"op": "add", "path": "/spec/template/spec/schedulerName", "value": secret}}, secret, secret},
		"a secret with quotes":               {pod(variable("TOKEN", `a"b"c\d`)), `[{"value": "a\"b\"c\\d"}]`, `[{"value": "(masked)"}]`},
		"a secret of several lines":          {pod(variable("PRIVATE_KEY", "-----BEGIN\nabc\n")), "it is -----BEGIN\nabc", "it is (masked)"},
		"of two that begin alike the longer": {pod(variable("TOKEN", secret), variable("TOKEN2", secret+"-battery")), secret + "-battery " + secret, "(masked) (masked)"},
		"a short one, by itself":             {pod(variable("PASSWORD", "test")), "test 'test' latest tested", "(masked) '(masked)' latest tested"},
		"one too short to hide":              {pod(variable("PASSWORD", "abc")), "abc", "abc"},
		"a switch":                           {pod(variable("SECRET_ROTATION", "true")), "it is true", "it is true"},
		"nothing":                            {nil, "a\nb", `a\nb`},
	} {
		if got := redact.SecretsOf(tc.object).Text(tc.in, 1000); got != tc.want {
			t.Errorf("%s: got %q, want %q", title, got, tc.want)
		}
	}
}

// What a cut leaves of a secret is a secret.
func TestSecrets_AreNotCutInTwo(t *testing.T) {
	secret := strings.Repeat("s3cr3t", 10)
	s := redact.SecretsOf(pod(variable("TOKEN", secret)))
	for limit := range 100 {
		text := strings.Repeat("x", 40) + secret + secret + "y"
		if got := s.Text(text, limit); len(got) > limit || strings.Contains(got, "s3") {
			t.Errorf("at %d: %q", limit, got)
		}
	}
}

func TestSecrets_TellsNothingOfAnObjectWithTooMany(t *testing.T) {
	var variables []any
	for i := range limits.MaskedValues + 2 {
		variables = append(variables, variable("TOKEN_"+strconv.Itoa(i), fmt.Sprintf("secret-%06d", i)))
	}
	if got := redact.SecretsOf(pod(variables...)).Text("it is secret-000001 or secret-000129", 1000); strings.Contains(got, "secret-0") || !strings.Contains(got, "limits.MaskedValues") {
		t.Errorf("got %q", got)
	}
	if got := redact.SecretsOf(pod(variables[:limits.MaskedValues]...)).Text("it is secret-000127", 1000); got != "it is (masked)" {
		t.Errorf("got %q", got)
	}
}

func FuzzSecrets_AreNeverShown(f *testing.F) {
	f.Add("hunter2-hunter2", "it is hunter2-hunter2 and [hunter2-hunter2]", 30)
	f.Add("aaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaa", 12)
	f.Add("hunt", "it is hunter2 that is cut", 13)
	f.Add("00000000", "\x00000000", 124)
	f.Fuzz(func(t *testing.T, secret, text string, limit int) {
		trimmed := strings.TrimSpace(secret)
		s := redact.SecretsOf(pod(variable("PASSWORD", secret)))
		got := s.Text(text, limit)
		// A short secret is one by itself alone, and the cut may make that of the beginning of a word.
		if len(got) > max(limit, 0) || len(trimmed) >= 8 && s.Text(got, limit) != got {
			t.Fatalf("%q with %d gives %q", text, limit, got)
		}
		if len(trimmed) >= 8 && !strings.Contains(redact.Masked, trimmed) && strings.Contains(strings.ReplaceAll(got, redact.Masked, "\x00"), trimmed) {
			t.Fatalf("%q shows %q: %q", text, trimmed, got)
		}
	})
}

// The cost of a message about an object with as many secrets as are looked for, all alike.
func BenchmarkSecrets_Text(b *testing.B) {
	var variables []any
	for i := range limits.MaskedValues {
		variables = append(variables, variable("TOKEN_"+strconv.Itoa(i), strings.Repeat("a", 8+i)+"b"))
	}
	s, text := redact.SecretsOf(pod(variables...)), strings.Repeat("a", limits.MessageBytes)
	b.ReportAllocs()
	for b.Loop() {
		s.Text(text, limits.MessageBytes)
	}
}
