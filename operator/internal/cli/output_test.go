package cli_test

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"
)

func TestCheck_WritesEveryFormat(t *testing.T) {
	d := newDesk(t)
	d.write(t, "in/web.yaml", namespace+head+d.image("unsigned")+"\n")
	for format, says := range map[string][]string{
		"text":     {"DENY", "1 judged: 0 allowed, 0 with warnings, 1 denied, 0 undecided"},
		"json":     {`"verdict":"Deny"`},
		"sarif":    {`"ruleId": "signature"`, "web.yaml", "docs/image-trust.md"},
		"junit":    {"<testsuites", `failures="1"`},
		"github":   {"::error file=", "title=sluice%3A signature::"},
		"markdown": {"### DENY `Workload/shop/web (gate prod)`"},
	} {
		t.Run(format, func(t *testing.T) {
			got := d.run("", "check", "@in", "--gate", "@gate.yaml", "--format", format)
			got.must(t, 1, says...)
			if got.err != "" {
				t.Errorf("stderr: %s", got.err)
			}
			var any struct{}
			switch format {
			case "sarif":
				if err := json.Unmarshal([]byte(got.out), &any); err != nil {
					t.Error(err)
				}
			case "junit":
				if err := xml.Unmarshal([]byte(got.out), &any); err != nil {
					t.Error(err)
				}
			}
			if strings.Contains(got.out, "\x1b") {
				t.Error("colours where there is no terminal")
			}
		})
	}
}
