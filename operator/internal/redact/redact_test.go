package redact_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/operator/internal/redact"
)

func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"plain text is left alone":             {"image größe 東京 \"quoted\" \\n", 100, "image größe 東京 \"quoted\" \\n"},
		"a line break cannot forge a line":     {"a\r\nERROR b", 100, `a\r\nERROR b`},
		"a terminal escape is shown":           {"\x1b[31mred\x1b[0m", 100, `\x1b[31mred\x1b[0m`},
		"a C1 escape is shown":                 {"\u009b31m", 100, `\u009b31m`},
		"text that runs backwards is shown":    {"a\u202egnp.exe", 100, `a\u202egnp.exe`},
		"an invisible space is shown":          {"a\u200bb\u2028c", 100, `a\u200bb\u2028c`},
		"NUL, bell, tab and delete":            {"\x00\a\t\x7f", 100, `\x00\a\t\x7f`},
		"bytes that are no UTF-8 are replaced": {"a\xffb", 100, "a\ufffdb"},
		"the cut counts":                       {"abcdefghij", 8, "abcde…"},
		"text of exactly the limit":            {"abcdefgh", 8, "abcdefgh"},
		"the cut is between runes":             {"ééééé", 8, "éé…"},
		"an escape is not cut in two":          {"abc\x1bdef\x1b", 9, "abc…"},
		"a command of Azure Pipelines":         {"a ##vso[task.setvariable variable=PATH]b", 100, `a #\x23vso[task.setvariable variable=PATH]b`},
		"an old one of GitHub Actions":         {"###[stop-commands]x ##[add-mask]e", 100, `##\x23[stop-commands]x #\x23[add-mask]e`},
		"a heading is none":                    {"## a [b] #[c]", 100, "## a [b] #[c]"},
		"no room for the cut":                  {"abc", 2, ""},
		"nothing":                              {"", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := redact.Text(c.in, c.limit)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if again := redact.Text(got, c.limit); again != got {
				t.Errorf("a second time it is %q", again)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\r\n\x1b[0m", 10)
	f.Add("###vso[##[", 9)
	f.Add(strings.Repeat("é\xff", 9), 7)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		got := redact.Text(s, limit)
		if len(got) > max(limit, 0) || !utf8.ValidString(got) || redact.Text(got, limit) != got {
			t.Fatalf("%q with %d gives %q", s, limit, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q with %d gives %q", s, limit, got)
			}
		}
	})
}

func TestLine_LeavesNoCommandForACISystem(t *testing.T) {
	for in, want := range map[string]string{
		"::set-output name=a::b":      `\x3a:set-output name=a::b`,
		"  ::error::x":                `  \x3a:error::x`,
		"\t::add-path::/tmp":          `\t\x3a:add-path::/tmp`,
		"\u00a0::error::x":            `\u00a0::error::x`,
		"+::error::x":                 "+::error::x",
		"image: a::b":                 "image: a::b",
		"  ##vso[task.complete]":      `  #\x23vso[task.complete]`,
		"    - name: \"##[group]of\"": `    - name: "#\x23[group]of"`,
	} {
		got := redact.Line(in, 100)
		if got != want || redact.Obeyed(got) {
			t.Errorf("%q becomes %q and should be %q; it is obeyed: %t", in, got, want, redact.Obeyed(got))
		}
	}
}
