package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Masked stands where a secret was.
const Masked = "(masked)"

// lastApplied holds the whole of an object as it was once applied, secrets included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secretName matches names of variables that hold a secret, and aboutSecret those that
// only tell where one is or how long it lives. Unlike the policy that refuses secrets in
// env, this one would rather hide too much: a message loses a word by it.
var (
	secretName = regexp.MustCompile(`(?i)passw(or)?d|passphrase|passcode|pwd|secret|token|credential|cookie|connection[_.-]?string` +
		`|(api|access|account|encryption|master|private|signing|storage)[_.-]?key|(^|[_.-])(auth|dsn|jwt|otp|pass|pin|salt)([_.-]|$)`)
	aboutSecret = regexp.MustCompile(`(?i)[_.-](file|path|dir|name|ttl|expiry|lifetime|seconds|minutes|length|issuer|audience)$`)
)

const (
	// shortest is how long a text has to be to be looked for at all: one of three letters
	// hides nothing, and is part of every other word.
	shortest = 4
	// anywhere is how long it has to be to be masked within a word too.
	anywhere = 8
)

// Secrets are texts of objects that must not be shown: values of Secrets, of environment
// variables with a secret's name, passwords in URLs, and kubectl's copy of an object. The
// zero value and nil mask nothing.
type Secrets struct {
	texts map[string]bool
	// values counts what was found, apart from how it is written.
	values int
	// index has the texts by how they begin, the longest first.
	index map[string][]string
}

// Opaque is a text that is a secret as a whole.
type Opaque string

// SecretsOf finds the secrets of objects, as decoded from JSON or YAML, and of Opaque.
func SecretsOf(objects ...any) *Secrets {
	s := &Secrets{texts: map[string]bool{}}
	for _, o := range objects {
		s.walk(o)
	}
	if len(s.texts) == 0 {
		return nil
	}
	s.index = map[string][]string{}
	for text := range s.texts {
		s.index[text[:shortest]] = append(s.index[text[:shortest]], text)
	}
	for _, texts := range s.index {
		slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
	}
	return s
}

func (s *Secrets) walk(v any) {
	switch t := v.(type) {
	case Opaque:
		s.add(string(t))
	case map[string]any:
		s.object(t)
		for _, x := range t {
			s.walk(x)
		}
	case map[any]any:
		for _, x := range t {
			s.walk(x)
		}
	case []any:
		for _, x := range t {
			s.walk(x)
		}
	}
}

// object looks at one map for the shapes that hold secrets.
func (s *Secrets) object(m map[string]any) {
	if m["kind"] == "Secret" {
		s.content(m["data"], true)
		s.content(m["stringData"], false)
	}
	value, isText := m["value"].(string)
	if name, ok := m["name"].(string); ok && isText {
		if secretName.MatchString(name) && !aboutSecret.MatchString(name) {
			s.add(value)
		}
		s.password(value)
	}
	// A patch that sets the value of a variable does not say which one.
	if path, ok := m["path"].(string); ok && isText && strings.Contains(path, "/env/") && strings.HasSuffix(path, "/value") {
		s.add(value)
	}
	if copied, ok := m[lastApplied].(string); ok {
		s.add(copied)
		var object any
		if json.Unmarshal([]byte(copied), &object) == nil {
			s.walk(object)
		}
	}
}

func (s *Secrets) content(v any, encoded bool) {
	data, _ := v.(map[string]any)
	for _, x := range data {
		text, ok := x.(string)
		if !ok {
			continue
		}
		s.add(text)
		if raw, err := base64.StdEncoding.DecodeString(text); encoded && err == nil {
			s.add(string(raw))
		}
	}
}

// password finds the one in a URL such as postgres://user:password@host/.
func (s *Secrets) password(value string) {
	if !strings.Contains(value, "@") {
		return
	}
	u, err := url.Parse(value)
	if err != nil || u.User == nil {
		return
	}
	if password, ok := u.User.Password(); ok {
		s.add(password)
		_, escaped, _ := strings.Cut(u.User.String(), ":")
		s.add(escaped)
	}
}

// add keeps a text as it is and as it is written in JSON, in Go and in base64.
func (s *Secrets) add(text string) {
	text = strings.TrimSpace(text)
	if len(text) < shortest || text == "true" || text == "false" || s.texts[text] || s.tooMany() {
		return
	}
	s.values++
	var escaped bytes.Buffer
	encoder := json.NewEncoder(&escaped)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string has no error, and the buffer none
	quoted := strconv.Quote(text)
	for _, form := range []string{
		text, strings.Trim(strings.TrimSpace(escaped.String()), `"`), quoted[1 : len(quoted)-1],
		base64.StdEncoding.EncodeToString([]byte(text)),
	} {
		if len(form) >= shortest {
			s.texts[form] = true
		}
	}
}

func (s *Secrets) tooMany() bool { return s.values > limits.MaskedValues }

// Text is the package's Text of what is left of text once the secrets in it are masked. A
// secret that stands at the limit is masked in full.
func (s *Secrets) Text(text string, limit int) string {
	if s == nil || len(s.texts) == 0 {
		return Text(text, limit)
	}
	if s.tooMany() {
		return Text(Masked+": the object holds more secrets than are looked for (limits.MaskedValues)", limit)
	}
	masked := s.masked(text, limit)
	shown := Text(masked, limit)
	if shown != masked {
		// An escape, or the cut, may have made a secret of what was none.
		shown = Text(s.masked(shown, limit), limit)
	}
	return shown
}

// masked is text up to limit or a little more: what is behind that is cut off in any case.
func (s *Secrets) masked(text string, limit int) string {
	var out strings.Builder
	for i := 0; i < len(text) && out.Len() <= limit; {
		if n := s.at(text, i); n > 0 {
			out.WriteString(Masked)
			i += n
			continue
		}
		out.WriteByte(text[i])
		i++
	}
	return out.String()
}

// at returns the length of the longest secret that stands at i; 0 for none.
func (s *Secrets) at(text string, i int) int {
	if len(text)-i < shortest {
		return 0
	}
	for _, secret := range s.index[text[i:i+shortest]] {
		end := i + len(secret)
		if strings.HasPrefix(text[i:], secret) && (len(secret) >= anywhere || (i == 0 || !isWord(text[i-1])) && (end == len(text) || !isWord(text[end]))) {
			return len(secret)
		}
	}
	return 0
}

func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
