// Package window tells whether a promotion may take place at a time, by the windows of a
// Gate. It is pure: it reads no clock, and holds the time zones of the world itself.
package window

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a machine without a database of time zones knows the same ones

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
)

// Windows are those of a Gate, ready to be asked.
type Windows []window

type window struct {
	spec     v1beta1.PromotionWindow
	zone     *time.Location
	schedule cron.Schedule
}

// Closed says why no promotion takes place.
type Closed struct {
	// Kind is Deny where a window that denies is open, and Allow where none is that allows.
	Kind v1beta1.PromotionWindowKind
	// Schedule, TimeZone and Reason of the window: the one that is open and denies, or of
	// those that allow the one that opens first.
	Schedule, TimeZone, Reason string
	// Opens is when promotions take place again, in TimeZone. It is zero where no such time
	// was found within limits.WindowSteps.
	Opens time.Time
}

// Compile reads the windows of a Gate. What is wrong with them is said with field paths
// below at, and what is not wrong is returned all the same.
func Compile(specs []v1beta1.PromotionWindow, at *field.Path) (Windows, field.ErrorList) {
	var out Windows
	var errs field.ErrorList
	for i, spec := range specs {
		w, err := compile(spec, at.Index(i))
		if err != nil {
			errs = append(errs, err...)
			continue
		}
		out = append(out, w)
	}
	return out, errs
}

func compile(spec v1beta1.PromotionWindow, at *field.Path) (window, field.ErrorList) {
	var errs field.ErrorList
	if spec.TimeZone == "" {
		spec.TimeZone = "UTC"
	}
	zone, err := time.LoadLocation(spec.TimeZone)
	if err != nil || spec.TimeZone == "Local" {
		errs = append(errs, field.Invalid(at.Child("timeZone"), spec.TimeZone, "it is no time zone of the IANA database, such as Europe/Berlin"))
	}
	schedule, err := parse(spec.Schedule)
	if err != nil {
		errs = append(errs, field.Invalid(at.Child("schedule"), spec.Schedule, err.Error()))
	}
	if spec.Kind != v1beta1.PromotionWindowAllow && spec.Kind != v1beta1.PromotionWindowDeny {
		errs = append(errs, field.NotSupported(at.Child("kind"), spec.Kind, []v1beta1.PromotionWindowKind{v1beta1.PromotionWindowAllow, v1beta1.PromotionWindowDeny}))
	}
	if spec.Duration.Duration < time.Minute {
		errs = append(errs, field.Invalid(at.Child("duration"), spec.Duration.Duration.String(), "it is from 1m to 8760h"))
	}
	return window{spec: spec, zone: zone, schedule: schedule}, errs
}

// fields of a schedule, and no words such as @every, which would start at whatever time
// the command was called.
var fields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func parse(schedule string) (cron.Schedule, error) {
	// The parser takes a time zone in front, and panics on one without more behind it.
	if strings.Contains(schedule, "=") {
		return nil, errors.New("the time zone belongs into timeZone")
	}
	if strings.HasPrefix(schedule, "@") || len(strings.Fields(schedule)) != 5 {
		return nil, errors.New("it has to be five fields: minute, hour, day of the month, month and day of the week, such as 0 18 * * FRI")
	}
	parsed, err := fields.Parse(schedule)
	if err != nil {
		return nil, fmt.Errorf("it is not understood: %w", err)
	}
	// A leap day comes within five years from here, which is as far as Next looks.
	if parsed.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("there is no such day: it would never open")
	}
	return parsed, nil
}

// At says why no promotion takes place at a time, or nil.
func (w Windows) At(t time.Time) *Closed {
	closed := w.closed(t)
	if closed == nil {
		return nil
	}
	closed.Opens = w.opens(closed)
	return closed
}

// opens is the first time at which nothing is closed, from where the first reason ends on. Every step goes to where
// what closes now ends.
func (w Windows) opens(first *Closed) time.Time {
	closed := first
	for range limits.WindowSteps {
		if closed.Opens.IsZero() {
			return time.Time{}
		}
		t := closed.Opens
		if closed = w.closed(t); closed == nil {
			if zone, err := time.LoadLocation(first.TimeZone); err == nil {
				t = t.In(zone)
			}
			return t
		}
	}
	return time.Time{}
}

// closed looks at one time; Opens is when this very reason ends.
func (w Windows) closed(t time.Time) *Closed {
	var denied, outside *Closed
	allows, allowed := false, false
	for _, x := range w {
		start, open := x.open(t)
		switch {
		case x.spec.Kind == v1beta1.PromotionWindowDeny && open:
			if end := start.Add(x.spec.Duration.Duration); denied == nil || end.After(denied.Opens) {
				denied = x.because(end)
			}
		case x.spec.Kind == v1beta1.PromotionWindowAllow:
			allows, allowed = true, allowed || open
			if next := x.next(t); !next.IsZero() && (outside == nil || next.Before(outside.Opens)) {
				outside = x.because(next)
			}
		}
	}
	switch {
	case denied != nil:
		return denied
	case !allows || allowed:
		return nil
	case outside == nil: // none of them opens within five years
		return &Closed{Kind: v1beta1.PromotionWindowAllow}
	}
	return outside
}

func (w window) because(until time.Time) *Closed {
	return &Closed{Kind: w.spec.Kind, Schedule: w.spec.Schedule, TimeZone: w.spec.TimeZone, Reason: w.spec.Reason, Opens: until}
}

// A schedule runs on the face of a clock: times without a zone, which time.UTC stands for
// here. On the night that a clock is put forward a time that it skips is the moment of
// the change, and of one that it shows twice only the first counts: a freeze that starts
// at half past two starts on that night too, and once.

// face is what a clock in the zone shows.
func (w window) face(t time.Time) time.Time {
	t = t.In(w.zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// moment is the first at which the clock shows a face, or one later.
func (w window) moment(face time.Time) time.Time {
	// No zone is further than 15 hours from UTC, or changes by more than a day.
	lo, hi := face.Add(-limits.WindowZones).Unix(), face.Add(limits.WindowZones).Unix()
	// Where a clock is put back, what it shows falls: of the offsets around it the largest
	// is tried first, which is the earlier of the two moments.
	_, before := time.Unix(lo, 0).In(w.zone).Zone()
	_, after := time.Unix(hi, 0).In(w.zone).Zone()
	for _, offset := range []int{max(before, after), min(before, after)} {
		t := face.Add(-time.Duration(offset) * time.Second)
		if w.face(t).Equal(face) {
			return t
		}
	}
	// The clock skips it: the moment of the change is where its offset becomes another.
	for lo < hi {
		mid := lo + (hi-lo)/2
		if _, offset := time.Unix(mid, 0).In(w.zone).Zone(); offset == before {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return time.Unix(lo, 0).UTC()
}

// last is the face of the last opening that is not after t and may still be open, found
// among all that come after a face by halving: the next opening after a face never comes
// before that after an earlier one.
func (w window) last(t time.Time) (time.Time, bool) {
	lo := w.face(t.Add(-w.spec.Duration.Duration)).Add(-limits.WindowZones).Unix()
	hi := w.face(t).Add(limits.WindowZones).Unix()
	reached := func(unix int64) (time.Time, bool) {
		next := w.schedule.Next(time.Unix(unix, 0).UTC())
		return next, !next.IsZero() && !w.moment(next).After(t)
	}
	found, ok := reached(lo)
	for ok && lo < hi {
		mid := lo + (hi-lo+1)/2
		if next, before := reached(mid); before {
			lo, found = mid, next
		} else {
			hi = mid - 1
		}
	}
	return found, ok
}

// open says whether the window is open, and since when.
func (w window) open(t time.Time) (time.Time, bool) {
	face, ok := w.last(t)
	if !ok {
		return time.Time{}, false
	}
	start := w.moment(face)
	return start, t.Before(start.Add(w.spec.Duration.Duration))
}

// next is when the window opens after t; zero where it does not within five years.
func (w window) next(t time.Time) time.Time {
	face, ok := w.last(t)
	if !ok {
		face = w.face(t.Add(-w.spec.Duration.Duration)).Add(-limits.WindowZones)
	}
	next := w.schedule.Next(face)
	if next.IsZero() {
		return time.Time{}
	}
	return w.moment(next)
}
