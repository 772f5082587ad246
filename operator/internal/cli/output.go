package cli

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/sluice-dev/sluice/operator/internal/gate"
	"github.com/sluice-dev/sluice/operator/internal/gate/policy"
	"github.com/sluice-dev/sluice/operator/internal/report"
)

const (
	formatText = "text"
	formatJSON = "json"
)

// formats that check writes its results in.
var formats = map[string]func(streams, report.Run) error{
	formatText: func(s streams, r report.Run) error { return s.text().Write(s.out, r) },
	formatJSON: func(s streams, r report.Run) error { return writeJSON(s.out, r) },
	"sarif":    func(s streams, r report.Run) error { return report.SARIF(s.out, r) },
	"junit":    func(s streams, r report.Run) error { return report.JUnit(s.out, r) },
	"github":   func(s streams, r report.Run) error { return report.GitHub(s.out, r) },
	"markdown": func(s streams, r report.Run) error { return report.Markdown(s.out, r) },
}

// placed says whether a format has the places of findings in it.
func placed(format string) bool { return format != formatJSON }

func formatNames() string {
	var names []string
	for name := range formats {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// text is for a person: with colours where there is a terminal to show them, and nobody
// asked for none (https://no-color.org).
func (s streams) text() report.Text {
	return report.Text{Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(s.out)}
}

// isTerminal says whether somebody sits there.
func isTerminal(stream any) bool {
	if in, ok := stream.(*interruptible); ok {
		stream = in.from
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// writeJSON writes the verdicts alone, as canonical JSON.
func writeJSON(w io.Writer, r report.Run) error {
	var all []gate.Verdict
	for _, j := range r.Judged {
		all = append(all, j.Verdicts...)
	}
	_, err := fmt.Fprintln(w, string(report.JSON(all)))
	return err
}

// version that was built, or (devel).
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// about says what a policy of the library, or a check of ours, is.
func about(name string) report.About {
	switch name {
	case "signature":
		return report.About{
			Title: "Images are signed", Description: "An image has the signatures and attestations that the Gate asks for, and a digest where it asks for one.",
			Remedy: "Sign the image, or name one that is signed.",
		}
	case "promotion":
		return report.About{
			Title: "Images did well elsewhere first", Description: "An image has the signed evidence of another environment that the Gate asks for.",
			Remedy: "Promote an image that passed the environment before.",
		}
	}
	found, _ := policy.Describe(name)
	return report.About(found)
}

const docsAt = "https://github.com/sluice-dev/sluice/blob/main/docs/"

// docs says where to read on about the policy of a finding.
func docs(name string) string {
	group, _, ruled := strings.Cut(name, "/")
	if _, builtin := policy.Builtin(group); ruled && builtin {
		return docsAt + "policies.md#" + group
	}
	switch group {
	case "signature":
		return docsAt + "image-trust.md"
	case "promotion":
		return docsAt + "promotion.md"
	}
	if ruled && strings.ContainsAny(group, ".:") { // a registry: no namespace has either in it
		return docsAt + "policy-bundles.md"
	}
	return ""
}
