package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Fields are the values of an object by their names, as they are written: parts of raw, and no
// copies, so that whoever keeps one keeps raw, and has to leave it as it is. The document has to
// be one that Check takes; null has none.
func Fields(raw []byte) (map[string]json.RawMessage, error) {
	rest := bytes.TrimLeft(raw, space)
	switch {
	case bytes.HasPrefix(rest, []byte("null")):
		return nil, nil
	case len(rest) == 0 || rest[0] != '{':
		return nil, errors.New("it is no object")
	}
	fields := map[string]json.RawMessage{}
	for rest = bytes.TrimLeft(rest[1:], space); len(rest) > 0 && rest[0] != '}'; rest = bytes.TrimLeft(rest, space) {
		end := until(rest, ':')
		var name string
		if err := json.Unmarshal(rest[:end], &name); err != nil {
			return nil, err
		}
		rest = bytes.TrimLeft(rest[min(end+1, len(rest)):], space)
		end = until(rest, ',')
		fields[name] = json.RawMessage(bytes.TrimRight(rest[:end:end], space))
		rest = rest[end:]
		if len(rest) > 0 && rest[0] == ',' {
			rest = bytes.TrimLeft(rest[1:], space)
		}
	}
	return fields, nil
}

const space = " \t\r\n"

// until is how much of raw there is before a mark or the end of what it is in, outside of texts
// and brackets.
func until(raw []byte, mark byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++ // whatever is behind it ends no text
		case c == '"':
			quoted = !quoted
		case quoted:
		case depth == 0 && (c == mark || c == '}' || c == ']'):
			return i
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return len(raw)
}
