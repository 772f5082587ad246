// Package strictjson refuses JSON that two readers may read differently.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Everywhere folds names in all of a document.
const Everywhere = math.MaxInt

// Check refuses documents that two parsers may read differently: names given twice,
// text that is not UTF-8, and something after the end. Go's parser takes the last of two
// equal names where others take the first, and takes "Digest" for "digest"; down to
// depth folded, names that differ in case alone are therefore equal too. It also bounds
// nesting, so that whoever walks the document may recurse, and the names in one object, which it
// has to remember.
func Check(raw []byte, folded int) error {
	if !utf8.Valid(raw) {
		return errors.New("it is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	c := jsonChecker{folded: folded}
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			if !c.done {
				return errors.New("it is not complete JSON")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is not JSON: %w", err)
		}
		if c.done {
			return errors.New("there is something after the end of the JSON")
		}
		if err := c.next(token); err != nil {
			return err
		}
	}
}

// jsonChecker follows the tokens of one document.
type jsonChecker struct {
	folded int
	open   []level
	done   bool
}

// level is one open object or array.
type level struct {
	object bool
	// value says that a name was read and its value comes next.
	value bool
	seen  map[string]struct{}
}

func (c *jsonChecker) next(token json.Token) error {
	delim, _ := token.(json.Delim)
	switch {
	case delim == '}' || delim == ']':
		c.open = c.open[:len(c.open)-1]
	case delim == '{' || delim == '[':
		return c.push(delim == '{')
	case c.atName():
		return c.name(token.(string))
	}
	c.ended()
	return nil
}

func (c *jsonChecker) push(object bool) error {
	if len(c.open) >= limits.StatementNesting {
		return fmt.Errorf("its JSON nests more than %d deep (limits.StatementNesting)", limits.StatementNesting)
	}
	c.open = append(c.open, level{object: object})
	return nil
}

func (c *jsonChecker) atName() bool {
	n := len(c.open)
	return n > 0 && c.open[n-1].object && !c.open[n-1].value
}

func (c *jsonChecker) name(name string) error {
	top := &c.open[len(c.open)-1]
	key := name
	if len(c.open) <= c.folded {
		key = fold(name)
	}
	if _, twice := top.seen[key]; twice {
		return fmt.Errorf("its JSON gives %.60q twice in one object", name)
	}
	if len(top.seen) >= limits.StatementNames {
		return fmt.Errorf("its JSON has more than %d names in one object (limits.StatementNames)", limits.StatementNames)
	}
	if top.seen == nil {
		top.seen = map[string]struct{}{}
	}
	top.seen[key] = struct{}{}
	top.value = true
	return nil
}

// ended notes that a value ended: a name comes next, or the document is over.
func (c *jsonChecker) ended() {
	if n := len(c.open); n > 0 {
		c.open[n-1].value = false
		return
	}
	c.done = true
}

// fold maps names that encoding/json takes for the same to the same text. That goes
// further than lower case: it takes the long s (U+017F) for an s and the Kelvin sign for a k.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}
