package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/report"
	"github.com/sluice-dev/sluice/operator/internal/testkit/golden"
)

// encoders by the name of their golden file.
var encoders = map[string]func(io.Writer, report.Run) error{
	"text.txt":    report.Text{}.Write,
	"colour.txt":  report.Text{Colour: true}.Write,
	"sarif.json":  report.SARIF,
	"junit.xml":   report.JUnit,
	"github.txt":  report.GitHub,
	"markdown.md": report.Markdown,
}

func docs(policy string) string {
	if policy == "signature" {
		return "https://example.com/docs/image-trust.md"
	}
	return ""
}

func about(policy string) report.About {
	if policy == "style" {
		return report.About{Title: "Workloads are nice", Description: "What is not nice [is](ugly).", Remedy: "Be nice."}
	}
	return report.About{}
}

// run is one of everything.
func run() report.Run {
	place := func(f gate.Finding) report.Place {
		if f.Path == "" {
			return report.Place{File: "deploy/web.yaml", Line: 1, Column: 1, Note: "the document; the field was not found"}
		}
		return report.Place{
			File: "overlays/prod/kustomization.yaml", Line: 7, Column: 5, Field: "images[0].newTag", First: 6,
			Code: []string{"  - name: registry.example.com/shop/web", "    newTag: v2", "    # the end"},
		}
	}
	signed := both()
	signed.Images = []gate.ImageResult{
		{Image: "r.io/web:1", Digest: "sha256:00", Outcome: gate.ImageVerified, Authority: "key"}, {Image: "r.io/other:1", Outcome: gate.ImageUnsigned},
	}
	exempted := verdict("late", gate.Enforce, gate.Findings{})
	exempted.Exemptions = []gate.Exempted{{
		Name: "hotfix", Reason: "incident 4711", Expires: "2027-01-01T00:00:00Z", Policy: "signature", Severity: "critical",
		Object: "Deployment/shop/web", Path: "spec", Image: "r.io/web:1", Message: "not signed",
	}}
	judged := func(verdicts ...gate.Verdict) report.Judged {
		return report.Judged{File: "deploy/web.yaml", Verdicts: verdicts, Place: place}
	}
	return report.Run{
		Version: "v0.1.0", Docs: docs, About: about,
		Judged: []report.Judged{
			judged(verdict("prod", gate.Enforce, signed), verdict("watch", gate.Audit, both())),
			judged(verdict("soft", gate.Warn, both())), judged(verdict("pass", gate.Enforce, gate.Findings{})), judged(exempted),
			judged(verdict("open", gate.Enforce, gate.Findings{Undecided: []gate.Finding{warning}})),
			{File: "-", Verdicts: []gate.Verdict{gate.NoGate(object)}},
		},
		Faults: []report.Fault{{Rule: "images", Message: "it matches nothing", Place: report.Place{File: "overlays/prod/kustomization.yaml", Line: 3, Column: 1}}},
	}
}

func encode(t *testing.T, name string, r report.Run) string {
	t.Helper()
	var out bytes.Buffer
	if err := encoders[name](&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestFormats_AreTheGoldenOnes(t *testing.T) {
	for name := range encoders {
		t.Run(name, func(t *testing.T) {
			got := encode(t, name, run())
			golden.Compare(t, name, got)
		})
	}
}

func TestFormats_OfNothingAreWellFormed(t *testing.T) {
	for name := range encoders {
		out := encode(t, name, report.Run{})
		switch name {
		case "sarif.json":
			validSARIF(t, out)
		case "junit.xml":
			junit(t, out)
		}
	}
}

func TestFormats_PassOnWhatTheWriterSays(t *testing.T) {
	broken := errors.New("broken pipe")
	for name, encoder := range encoders {
		if err := encoder(failing{broken}, run()); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (report.Text{}).Object(failing{broken}, run().Judged[0]); !errors.Is(err, broken) {
		t.Errorf("an object: %v", err)
	}
}

// validSARIF holds a log against the official schema. The library reads it into types of
// its own first, so that nothing may get lost on the way there.
func validSARIF(t *testing.T, log string) {
	t.Helper()
	parsed, err := sarif.FromString(log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	if err := parsed.Validate(); err != nil {
		t.Errorf("against the schema: %v\n%s", err, log)
	}
	again, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	var ours, theirs any
	if err := json.Unmarshal([]byte(log), &ours); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &theirs); err != nil {
		t.Fatal(err)
	}
	if missing := lost("", ours, theirs); missing != "" {
		t.Errorf("the schema knows no %s", missing)
	}
}

// lost finds what a has and b has not.
func lost(at string, a, b any) string {
	switch a := a.(type) {
	case map[string]any:
		other, _ := b.(map[string]any)
		for k, v := range a {
			if missing := lost(at+"."+k, v, other[k]); missing != "" {
				return missing
			}
		}
	case []any:
		other, _ := b.([]any)
		for i, v := range a {
			if i >= len(other) {
				return at
			}
			if missing := lost(fmt.Sprintf("%s[%d]", at, i), v, other[i]); missing != "" {
				return missing
			}
		}
	default:
		if !reflect.DeepEqual(a, b) {
			return at
		}
	}
	return ""
}

func TestSARIF_IsValidByTheOfficialSchema(t *testing.T) {
	validSARIF(t, encode(t, "sarif.json", run()))
}

func TestSARIF_AMessageBringsNoLink(t *testing.T) {
	for text, want := range map[string]string{
		"label is [click](https://evil.example)":    `label is \[click\](https://evil.example)`,
		`label is [click\](https://evil.example)`:   `label is \[click\\\](https://evil.example)`,
		"spec.containers[0].image is not by digest": "spec.containers[0].image is not by digest",
	} {
		found := gate.Findings{Deny: []gate.Finding{{Policy: "house", Severity: "high", Object: "Pod/shop/web", Message: text}}}
		out := encode(t, "sarif.json", report.Run{
			Judged: []report.Judged{{File: "web.yaml", Verdicts: []gate.Verdict{verdict("prod", gate.Enforce, found)}}},
			Faults: []report.Fault{{Rule: "images", Message: text, Place: report.Place{File: "web.yaml"}}},
		})
		quoted, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out, strings.Trim(string(quoted), `"`)+`"`); n != 2 {
			t.Errorf("%s: %d times in\n%s", want, n, out)
		}
	}
}

// The validation above has to be one: it refuses what is no SARIF.
func TestSARIF_TheSchemaRefusesALevelThatThereIsNot(t *testing.T) {
	broken := strings.Replace(encode(t, "sarif.json", run()), `"level": "error"`, `"level": "fatal"`, 1)
	parsed, err := sarif.FromString(broken)
	if err == nil {
		err = parsed.Validate()
	}
	if err == nil {
		t.Error("level fatal is valid")
	}
}

func TestSARIF_AFindingKeepsItsFingerprintWhenItMoves(t *testing.T) {
	moved := run()
	for i := range moved.Judged {
		moved.Judged[i].File, moved.Judged[i].Place = "elsewhere.yaml", nil
	}
	prints := regexp.MustCompile(`"sluice/v1": "[0-9a-f]{64}"`)
	before, after := prints.FindAllString(encode(t, "sarif.json", run()), -1), prints.FindAllString(encode(t, "sarif.json", moved), -1)
	if len(before) != 9 || !reflect.DeepEqual(before, after) {
		t.Errorf("%v\n%v", before, after)
	}
}

// node is any XML element.
type node struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []node     `xml:",any"`
	Text     string     `xml:",chardata"`
}

// junit reads the document and returns its shape: the names of all elements.
func junit(t *testing.T, document string) string {
	t.Helper()
	var root node
	decoder := xml.NewDecoder(strings.NewReader(document))
	if err := decoder.Decode(&root); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	if _, err := decoder.Token(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("behind the end: %v", err)
	}
	var shape func(node) string
	shape = func(n node) string {
		out := n.XMLName.Local + "("
		for _, c := range n.Children {
			out += shape(c)
		}
		return out + ")"
	}
	return shape(root)
}

// hostile is a run whose every text is s. Findings are made without the gate, which would
// clean them: the encoders have to hold by themselves.
func hostile(s string) report.Run {
	f := gate.Finding{Policy: s, Severity: s, Object: s, Path: s, Message: s, Remedy: s}
	place := report.Place{File: s, Line: 2, Column: 1, Field: s, First: 1, Code: []string{s, s, s}}
	verdict := func(o gate.Outcome) gate.Verdict {
		return gate.Verdict{
			Outcome: o, Gate: s, Object: gate.ObjectRef{Kind: s, Namespace: s, Name: s}, Violations: []gate.Finding{f}, Warnings: []gate.Finding{f},
			Images:     []gate.ImageResult{{Image: s, Digest: s, Authority: s, Outcome: gate.ImageVerified}},
			Exemptions: []gate.Exempted{{Name: s, Reason: s, Expires: s, Policy: s, Severity: s, Object: s, Path: s, Image: s, Message: s}},
		}
	}
	return report.Run{
		Version: s, Docs: func(string) string { return s },
		Judged: []report.Judged{
			{File: s, Verdicts: []gate.Verdict{verdict(gate.OutcomeDeny), verdict(gate.OutcomeError)}, Place: func(gate.Finding) report.Place { return place }},
			{File: s, Verdicts: []gate.Verdict{verdict(gate.OutcomeAllow)}},
		},
		Faults: []report.Fault{{Rule: s, Message: s, Place: place}},
	}
}

var nasty = []string{
	"x", "a\nb", "a\r\n::error file=x::y", "::set-output name=a::b", "%0A::error::", "]]><x/>", "<!--", "<script>", "&amp;\x00", "\x1b[2J", "\x1b]8;;http://x\x07", "\u202e",
	"`", "``` \n# h", "a`b``c", "`x` @team <b>|", "| a | b |", "[a](http://x)", "![a](http://x)", "\\", "\\`", " ` ", "\xff\xfe", "a:b,c=d", "../../x y#?%.yaml", "\u2028", "\ufffe",
}

// checks hold what an encoder wrote against what it writes of a harmless text: the shape
// has to be the same.
var checks = map[string]func(t *testing.T, got string) string{
	"text.txt":   func(t *testing.T, got string) string { return lines(t, got) },
	"sarif.json": sarifShape,
	"junit.xml":  junit,
	"github.txt": func(t *testing.T, got string) string {
		for line := range strings.Lines(got) {
			if !regexp.MustCompile(`^(::(error|warning|notice) ([a-z]+=[^:,]*,)*[a-z]+=[^:,]*::[^\n]*|2 judged: [^\n]*)\n$`).MatchString(line) {
				t.Errorf("line %q", line)
			}
		}
		return lines(t, got)
	},
	"markdown.md": func(t *testing.T, got string) string { lines(t, got); return withoutSpans(got) },
}

// lines counts lines, and wants none to hold a thing that a terminal obeys.
func lines(t *testing.T, got string) string {
	t.Helper()
	for line := range strings.Lines(got) {
		for _, r := range strings.TrimSuffix(line, "\n") {
			if !unicode.IsPrint(r) {
				t.Errorf("%q in line %q", r, line)
			}
		}
	}
	return fmt.Sprint(strings.Count(got, "\n"), " lines")
}

func sarifShape(t *testing.T, got string) string {
	t.Helper()
	var log any
	if err := json.Unmarshal([]byte(got), &log); err != nil {
		t.Fatal(err)
	}
	var shape func(any) string
	shape = func(v any) string {
		switch v := v.(type) {
		case map[string]any:
			// Texts that are empty are left out, and that is no other shape.
			for _, optional := range []string{"version", "helpUri", "gate"} {
				delete(v, optional)
			}
			var b strings.Builder
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var sorted map[string]json.RawMessage
			if err := json.Unmarshal(raw, &sorted); err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&b, len(v), "{")
			for _, k := range []string{"runs", "results", "tool", "driver", "rules", "locations", "physicalLocation", "message"} {
				if x, ok := v[k]; ok {
					b.WriteString(k + shape(x))
				}
			}
			return b.String() + "}"
		case []any:
			out := "["
			for _, x := range v {
				out += shape(x)
			}
			return out + "]"
		case string:
			lines(t, v)
		}
		return ""
	}
	return shape(log)
}

// withoutSpans takes code spans out as CommonMark reads them: a run of backticks opens
// one that the next run of the same length closes.
func withoutSpans(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '`' {
			out.WriteByte(text[i])
			i++
			continue
		}
		n := ticks(text[i:])
		end := -1
		for j := i + n; j < len(text); {
			if text[j] != '`' {
				j++
				continue
			}
			m := ticks(text[j:])
			if m == n {
				end = j
				break
			}
			j += m
		}
		if end < 0 {
			out.WriteString(text[i : i+n])
			i += n
			continue
		}
		out.WriteString("…")
		i = end + n
	}
	return out.String()
}

func ticks(text string) int { return len(text) - len(strings.TrimLeft(text, "`")) }

func holds(t *testing.T, name, s string) {
	t.Helper()
	got, harmless := encode(t, name, hostile(s)), encode(t, name, hostile("x"))
	check := checks[name]
	if a, b := check(t, got), check(t, harmless); a != b {
		t.Errorf("%q changes the shape of %s:\n%s\nand of a harmless one:\n%s\nin\n%s", s, name, a, b, got)
	}
}

func TestFormats_NothingBreaksOut(t *testing.T) {
	for name := range checks {
		for _, s := range nasty {
			t.Run(fmt.Sprintf("%s %q", name, s), func(t *testing.T) { holds(t, name, s) })
		}
	}
	for _, s := range nasty {
		validSARIF(t, encode(t, "sarif.json", hostile(s)))
	}
}

func fuzz(f *testing.F, name string) {
	for _, s := range nasty {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s != "" {
			holds(t, name, s)
		}
	})
}

func FuzzText(f *testing.F)     { fuzz(f, "text.txt") }
func FuzzSARIF(f *testing.F)    { fuzz(f, "sarif.json") }
func FuzzJUnit(f *testing.F)    { fuzz(f, "junit.xml") }
func FuzzGitHub(f *testing.F)   { fuzz(f, "github.txt") }
func FuzzMarkdown(f *testing.F) { fuzz(f, "markdown.md") }
