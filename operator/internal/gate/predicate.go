package gate

import "encoding/json"

// PredicateType is the type that an in-toto statement says it is of, "" where there is
// none or where two readers could find different ones. It is for sorting: who accepts a
// statement reads it strictly.
func PredicateType(statement []byte) string {
	var s struct {
		PredicateType everyText `json:"predicateType"`
	}
	if json.Unmarshal(statement, &s) != nil || len(s.PredicateType) != 1 {
		return ""
	}
	return s.PredicateType[0]
}

// everyText collects the values of a name that is given more than once, in any case.
type everyText []string

// UnmarshalJSON implements json.Unmarshaler, which is called for each of them.
func (e *everyText) UnmarshalJSON(raw []byte) error {
	var one string
	if err := json.Unmarshal(raw, &one); err != nil {
		return err
	}
	*e = append(*e, one)
	return nil
}
