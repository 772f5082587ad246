package registry

import (
	"net/http"
	"strings"
)

// challenge is one way to log in that a registry offers. Without a scheme it asks for
// nothing.
type challenge struct {
	// scheme in lower case.
	scheme string
	// parameters by name in lower case.
	parameters map[string]string
}

// pick takes the first offer that we know how to take.
func pick(offered []challenge) *challenge {
	for i := range offered {
		if offered[i].scheme == "bearer" || offered[i].scheme == "basic" {
			return &offered[i]
		}
	}
	return nil
}

// challenges reads WWW-Authenticate: several headers, each with several challenges, each
// of them a scheme and parameters, all of that with commas between. What does not parse
// ends the reading of its header.
func challenges(header http.Header) []challenge {
	var all []challenge
	for _, value := range header.Values("WWW-Authenticate") {
		all = append(all, readChallenges(value)...)
	}
	return all
}

func readChallenges(rest string) []challenge {
	var found []challenge
	for {
		rest = strings.TrimLeft(rest, " \t,")
		word, after := token(rest)
		if word == "" {
			return found
		}
		after = strings.TrimLeft(after, " \t")
		if !strings.HasPrefix(after, "=") {
			found = append(found, challenge{scheme: strings.ToLower(word), parameters: map[string]string{}})
			rest = after
			continue
		}
		value, left, ok := parameter(strings.TrimLeft(after[1:], " \t"))
		if !ok || len(found) == 0 {
			return found
		}
		found[len(found)-1].parameters[strings.ToLower(word)] = value
		rest = left
	}
}

func token(s string) (word, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

// parameter reads a value, quoted or not.
func parameter(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			i++
			if i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
