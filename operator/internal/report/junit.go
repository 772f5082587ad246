package report

import (
	"encoding/xml"
	"io"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

type (
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		junitCounts
		Suites []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name string `xml:"name,attr"`
		junitCounts
		Cases []junitCase `xml:"testcase"`
	}
	junitCounts struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes a run as tests: a suite for each file, a test for each object and Gate.
// A denial is a failure, and what could not be decided is an error.
func JUnit(w io.Writer, r Run) error {
	var out junitSuites
	suites := map[string]int{}
	add := func(file string, c junitCase) {
		i, ok := suites[file]
		if !ok {
			i = len(out.Suites)
			suites[file] = i
			out.Suites = append(out.Suites, junitSuite{Name: clean(file)})
		}
		out.Suites[i].Cases = append(out.Suites[i].Cases, c)
		out.count(c)
		out.Suites[i].count(c)
	}
	for _, j := range r.Judged {
		for _, v := range j.Verdicts {
			one := j
			one.Verdicts = []gate.Verdict{v}
			add(j.File, junitVerdict(j.File, v, r.entries(one), j.exempts(v)))
		}
	}
	for _, f := range r.Faults {
		text := oneLine(f.Place.String()+":", f.Message)
		add(f.Place.File, junitCase{Name: clean(f.Rule), Class: clean(f.Place.File), Failure: &junitProblem{Message: clean(f.Message), Type: clean(f.Rule), Text: text}})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (n *junitCounts) count(c junitCase) {
	n.Tests++
	if c.Failure != nil {
		n.Failures++
	}
	if c.Error != nil {
		n.Errors++
	}
}

func junitVerdict(file string, v gate.Verdict, entries []entry, exempts []exempt) junitCase {
	c := junitCase{Name: title(v), Class: clean(file)}
	var blocking, told []string
	for _, e := range entries {
		line := oneLine("["+e.finding.Severity+"]", e.finding.Policy+":", e.place.String()+":", e.text())
		if e.level == failure {
			blocking = append(blocking, line)
		} else {
			told = append(told, line)
		}
	}
	for _, e := range exempts {
		told = append(told, oneLine(e.place.String()+":", Exemption(e.Exempted)))
	}
	c.Out = strings.Join(told, "\n")
	if !v.Outcome.Blocks() {
		return c
	}
	problem := &junitProblem{Type: clean(string(v.Outcome)), Text: strings.Join(blocking, "\n")}
	if len(v.Violations) > 0 {
		problem.Message = oneLine(v.Violations[0].Policy+":", v.Violations[0].Message)
	}
	if v.Outcome == gate.OutcomeError {
		c.Error = problem
	} else {
		c.Failure = problem
	}
	return c
}
