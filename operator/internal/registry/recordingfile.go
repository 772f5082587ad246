package registry

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/images"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/strictjson"
)

// recordingFormat names the file's format with its version, see docs/offline.md.
const recordingFormat = "sluice.dev/signature-cache/v1"

// heading is the first line of the file.
type heading struct {
	Format   string    `json:"format"`
	Recorded time.Time `json:"recorded"`
	// Answers is how many lines follow, one for each.
	Answers int `json:"answers"`
}

// entryLine is one of those.
type entryLine struct {
	asked
	recorded
}

// errRecordingFull says that there was more than one recording holds.
var errRecordingFull = fmt.Errorf("there is more than %d bytes or %d answers to record (limits.RecordingBytes, limits.RecordingAnswers): record fewer images in one file",
	limits.RecordingBytes, limits.RecordingAnswers)

// Write writes the recording: JSON lines, in an order that depends on nothing but what
// they hold.
func (r *Recording) Write(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return errRecordingFull
	}
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	if err := lines.Encode(heading{recordingFormat, r.at, len(r.answers)}); err != nil {
		return err
	}
	for _, what := range slices.SortedFunc(maps.Keys(r.answers), compareAsked) {
		if err := lines.Encode(entryLine{what, r.answers[what]}); err != nil {
			return err
		}
	}
	return out.Flush()
}

func compareAsked(a, b asked) int {
	return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Request, b.Request), cmp.Compare(a.Accept, b.Accept))
}

// ReadRecording reads what Write wrote, and refuses what it would not have written. Errors
// say on which line, and what to do.
func ReadRecording(from io.Reader) (*Recording, error) {
	limited := &io.LimitedReader{R: from, N: limits.RecordingFileBytes + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 64<<10), limits.RecordingLineBytes)
	lines.Split(wholeLines)
	var head heading
	if !lines.Scan() {
		return nil, unreadable(1, cmp.Or(lines.Err(), errors.New("it is empty")))
	}
	if err := json.Unmarshal(lines.Bytes(), &head); err != nil || head.Format != recordingFormat {
		return nil, unreadable(1, fmt.Errorf("its format is %.100q and not %q", head.Format, recordingFormat))
	}
	if head.Answers < 0 || head.Answers > limits.RecordingAnswers {
		return nil, unreadable(1, fmt.Errorf("it has %d answers, of at most %d (limits.RecordingAnswers)", head.Answers, limits.RecordingAnswers))
	}
	r := NewRecording(head.Recorded)
	n := 1
	for last := (asked{}); lines.Scan(); {
		n++
		what, got, err := parseLine(lines.Bytes())
		switch {
		case err != nil:
		case n-1 > head.Answers:
			err = fmt.Errorf("there are more than the %d answers that the first line speaks of", head.Answers)
		case compareAsked(last, what) >= 0:
			err = errors.New("it does not stand in order")
		}
		if err != nil {
			return nil, unreadable(n, err)
		}
		r.answers[what], last = got, what
	}
	switch err := lines.Err(); {
	case limited.N <= 0:
		return nil, unreadable(n, fmt.Errorf("it is larger than %d bytes (limits.RecordingFileBytes)", limits.RecordingFileBytes))
	case err != nil:
		return nil, unreadable(n+1, err)
	case n-1 != head.Answers:
		return nil, unreadable(n, fmt.Errorf("it has %d answers where %d should be", n-1, head.Answers))
	}
	return r, nil
}

// wholeLines is bufio.ScanLines without forgiveness for a last line that was cut off.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	switch i := bytes.IndexByte(data, '\n'); {
	case i >= 0:
		return i + 1, data[:i], nil
	case atEOF && len(data) > 0:
		return 0, nil, errors.New("it ends in the midst of a line")
	}
	return 0, nil, nil
}

func parseLine(raw []byte) (asked, recorded, error) {
	var line entryLine
	if err := strictjson.Check(raw, strictjson.Everywhere); err != nil {
		return asked{}, recorded{}, err
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&line); err != nil {
		return asked{}, recorded{}, err
	}
	ref, err := images.Parse(line.Repository)
	switch {
	case err != nil || ref.Repository != line.Repository:
		return asked{}, recorded{}, errors.New("its repository is no name in full")
	case line.Request == "" || line.Status < 200 || line.Status > 599 || line.Over < 0 || line.Over > 0 && line.Body != nil:
		return asked{}, recorded{}, errors.New("it is no answer of a registry")
	}
	return line.asked, line.recorded, nil
}

func unreadable(line int, err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("it is longer than %d bytes (limits.RecordingLineBytes)", limits.RecordingLineBytes)
	}
	return fmt.Errorf("line %d: %w: record it anew, with the version of sluice that reads it", line, err)
}

// IsRecording says whether a file begins as a recording does, of whatever version.
func IsRecording(from io.Reader) (bool, error) {
	start := make([]byte, len(recordingStart))
	n, err := io.ReadFull(from, start)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return string(start[:n]) == recordingStart, err
}

const recordingStart = `{"format":"sluice.dev/signature-cache/`
