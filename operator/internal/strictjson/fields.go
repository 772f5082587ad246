package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Fields are the values of an object by their names, as they are written: parts of raw, and no
// copies, so that whoever keeps one keeps raw, and has to leave it as it is. The document has to
// be one that Check takes; null has none.
func Fields(raw []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	switch token, err := dec.Token(); {
	case err != nil:
		return nil, fmt.Errorf("it is not JSON: %w", err)
	case token == nil:
		return nil, nil
	case token != json.Delim('{'):
		return nil, errors.New("it is no object")
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		start := dec.InputOffset()
		if err := dec.Decode(&passed{}); err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
		end := dec.InputOffset()
		fields[name.(string)] = bytes.TrimLeft(raw[start:end:end], ": \t\r\n")
	}
	return fields, nil
}

// passed takes any value, and keeps nothing of it.
type passed struct{}

func (*passed) UnmarshalJSON([]byte) error { return nil }
