package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"sort"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// The parts of SARIF 2.1.0 that are used.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		Language   string        `json:"language"`
		ColumnKind string        `json:"columnKind"`
		Newlines   []string      `json:"newlineSequences"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Language       string      `json:"language"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string        `json:"id"`
		Short   *sarifMessage `json:"shortDescription,omitempty"`
		Full    *sarifMessage `json:"fullDescription,omitempty"`
		Help    *sarifMessage `json:"help,omitempty"`
		HelpURI string        `json:"helpUri,omitempty"`
	}
	sarifResult struct {
		RuleID              string            `json:"ruleId"`
		RuleIndex           int               `json:"ruleIndex"`
		Level               string            `json:"level"`
		Message             sarifMessage      `json:"message"`
		Locations           []sarifLocation   `json:"locations"`
		PartialFingerprints map[string]string `json:"partialFingerprints"`
		Properties          map[string]string `json:"properties,omitempty"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysical  `json:"physicalLocation"`
		LogicalLocations []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
)

const (
	sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	home        = "https://github.com/sluice-dev/sluice"
)

var sarifLevels = map[level]string{note: "note", warning: "warning", failure: "error"}

// SARIF writes a run for code scanning.
func SARIF(w io.Writer, r Run) error {
	run := sarifRun{
		Tool:     sarifTool{Driver: sarifDriver{Name: "sluice", Version: clean(r.Version), InformationURI: home, Language: "en", Rules: []sarifRule{}}},
		Language: "en", ColumnKind: "unicodeCodePoints", Newlines: []string{"\r\n", "\n"}, Results: []sarifResult{},
	}
	docs := map[string]string{}
	for _, j := range r.Judged {
		for _, e := range r.entries(j) {
			docs[clean(e.finding.Policy)] = clean(e.docs)
			run.Results = append(run.Results, sarifFinding(e))
		}
	}
	for _, f := range r.Faults {
		docs[clean(f.Rule)] = ""
		run.Results = append(run.Results, sarifResult{
			RuleID: clean(f.Rule), Level: sarifLevels[failure], Message: sarifText(clean(f.Message)),
			Locations:           []sarifLocation{{PhysicalLocation: sarifPlace(f.Place)}},
			PartialFingerprints: fingerprint(f.Rule, f.Message),
		})
	}
	ids := make([]string, 0, len(docs))
	for id := range docs {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	index := map[string]int{}
	for i, id := range ids {
		index[id] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, r.sarifRule(id, docs[id]))
	}
	for i := range run.Results {
		run.Results[i].RuleIndex = index[run.Results[i].RuleID]
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(sarifLog{Schema: sarifSchema, Version: "2.1.0", Runs: []sarifRun{run}})
}

// sarifRule is a rule with the words that code scanning shows it by.
func (r Run) sarifRule(id, docs string) sarifRule {
	out := sarifRule{ID: id, HelpURI: docs}
	if r.About == nil {
		return out
	}
	about := r.About(id)
	out.Short, out.Full, out.Help = optional(about.Title), optional(about.Description), optional(about.Remedy)
	return out
}

// optional is a message, and nothing where there is no text.
func optional(text string) *sarifMessage {
	if text == "" {
		return nil
	}
	message := sarifText(clean(text))
	return &message
}

func sarifFinding(e entry) sarifResult {
	out := sarifResult{
		RuleID: clean(e.finding.Policy), Level: sarifLevels[e.level], Message: sarifText(oneLine(e.text())),
		Locations: []sarifLocation{{
			PhysicalLocation: sarifPlace(e.place), LogicalLocations: []sarifLogical{{clean(e.where())}},
		}},
		PartialFingerprints: fingerprint(e.finding.Policy, e.finding.Object, e.finding.Path, e.finding.Message),
		Properties:          map[string]string{"severity": clean(e.finding.Severity)},
	}
	if e.verdict.Gate != "" {
		out.Properties["gate"] = clean(e.verdict.Gate)
	}
	if e.verdict.Outcome == gate.OutcomeError {
		out.Properties["undecided"] = "true"
	}
	return out
}

var sarifLiteral = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`)

// sarifText keeps a text from being more than that: [shown](target) in it would be a link,
// to wherever whoever wrote the label or the name that a policy quotes likes.
func sarifText(text string) sarifMessage {
	if strings.Contains(text, "](") {
		text = sarifLiteral.Replace(text)
	}
	return sarifMessage{text}
}

func sarifPlace(p Place) sarifPhysical {
	out := sarifPhysical{ArtifactLocation: sarifArtifact{fileURI(p.File)}}
	if p.Line > 0 {
		out.Region = &sarifRegion{p.Line, p.Column}
	}
	return out
}

// fileURI is relative as long as the path is: code scanning takes that from the root of
// the repository.
func fileURI(file string) string {
	u := url.URL{Path: filepath.ToSlash(file)}
	if filepath.IsAbs(file) {
		u.Scheme = "file"
	}
	return u.String()
}

// fingerprint recognises a finding in the next run, wherever its line moved to.
func fingerprint(parts ...string) map[string]string {
	h := sha256.New()
	for _, p := range parts {
		// A byte that is in none of them keeps ab, c and a, bc apart.
		h.Write(append([]byte(p), 0))
	}
	return map[string]string{"sluice/v1": hex.EncodeToString(h.Sum(nil))}
}
