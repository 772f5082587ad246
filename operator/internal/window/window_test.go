package window_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/window"
)

func spec(kind v1beta1.PromotionWindowKind, schedule string, open time.Duration, zone string) v1beta1.PromotionWindow {
	return v1beta1.PromotionWindow{Kind: kind, Schedule: schedule, Duration: metav1.Duration{Duration: open}, TimeZone: zone, Reason: schedule}
}

func allow(schedule string, open time.Duration, zone string) v1beta1.PromotionWindow {
	return spec(v1beta1.PromotionWindowAllow, schedule, open, zone)
}

func deny(schedule string, open time.Duration, zone string) v1beta1.PromotionWindow {
	return spec(v1beta1.PromotionWindowDeny, schedule, open, zone)
}

func compile(t testing.TB, specs ...v1beta1.PromotionWindow) window.Windows {
	t.Helper()
	w, errs := window.Compile(specs, field.NewPath("spec", "promotionWindows"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return w
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWindows_At(t *testing.T) {
	const berlin = "Europe/Berlin"
	weekend := deny("0 18 * * FRI", 62*time.Hour, berlin) // to Monday, 8 o'clock
	office := allow("0 9 * * MON-FRI", 8*time.Hour, berlin)
	for name, c := range map[string]struct {
		windows []v1beta1.PromotionWindow
		now     string
		opens   string // "" where it is open, never where no time was found
		reason  string
	}{
		"without windows it is always open":                    {nil, "2026-03-06T17:00:00Z", "", ""},
		"a freeze begins on its minute":                        {[]v1beta1.PromotionWindow{weekend}, "2026-03-06T17:00:00Z", "2026-03-09T07:00:00Z", "0 18 * * FRI"},
		"and not a second before":                              {[]v1beta1.PromotionWindow{weekend}, "2026-03-06T16:59:59Z", "", ""},
		"a freeze ends with its duration":                      {[]v1beta1.PromotionWindow{weekend}, "2026-03-09T07:00:00Z", "", ""},
		"outside of what allows":                               {[]v1beta1.PromotionWindow{office}, "2026-03-06T16:00:00Z", "2026-03-09T08:00:00Z", "0 9 * * MON-FRI"},
		"inside of what allows":                                {[]v1beta1.PromotionWindow{office}, "2026-03-06T15:59:00Z", "", ""},
		"a freeze beats what allows, and both have to be over": {[]v1beta1.PromotionWindow{office, deny("0 0 6 3 *", 24*time.Hour, "UTC")}, "2026-03-06T10:00:00Z", "2026-03-09T08:00:00Z", "0 0 6 3 *"},
		"of two that allow the first counts":                   {[]v1beta1.PromotionWindow{office, allow("0 6 * * SUN", time.Hour, "UTC")}, "2026-03-07T10:00:00Z", "2026-03-08T06:00:00Z", "0 6 * * SUN"},
		"freezes that overlap are one":                         {[]v1beta1.PromotionWindow{deny("0 0 * * *", 20*time.Hour, "UTC"), deny("0 19 6 3 *", 6*time.Hour, "UTC")}, "2026-03-06T10:00:00Z", "2026-03-07T20:00:00Z", "0 0 * * *"},
		"a freeze that follows itself never ends":              {[]v1beta1.PromotionWindow{deny("* * * * *", time.Minute, "UTC")}, "2026-03-06T10:00:00Z", "never", "* * * * *"},
		"a freeze of a year ends after a leap year":            {[]v1beta1.PromotionWindow{deny("0 0 1 1 *", 8760*time.Hour, "UTC")}, "2026-12-31T23:59:00Z", "2028-12-31T00:00:00Z", "0 0 1 1 *"},
		// 2026-03-29 01:00Z: 02:00 in Berlin becomes 03:00.
		"what the clock skips begins at the change": {[]v1beta1.PromotionWindow{deny("30 2 * * SUN", time.Hour, berlin)}, "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z", "30 2 * * SUN"},
		"and not before it":                         {[]v1beta1.PromotionWindow{deny("30 2 * * SUN", time.Hour, berlin)}, "2026-03-29T00:59:59Z", "", ""},
		"what allows opens at the change":           {[]v1beta1.PromotionWindow{allow("30 2 * * SUN", time.Hour, berlin)}, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "30 2 * * SUN"},
		"six hours are six hours on a short night":  {[]v1beta1.PromotionWindow{deny("0 0 * * SUN", 6*time.Hour, berlin)}, "2026-03-29T04:59:59Z", "2026-03-29T05:00:00Z", "0 0 * * SUN"},
		// 2026-10-25 01:00Z: 03:00 in Berlin becomes 02:00; 02:30 is 00:30Z and 01:30Z.
		"of what the clock shows twice the first counts": {[]v1beta1.PromotionWindow{deny("30 2 * * SUN", 30*time.Minute, berlin)}, "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "30 2 * * SUN"},
		"and the second does not":                        {[]v1beta1.PromotionWindow{deny("30 2 * * SUN", 30*time.Minute, berlin)}, "2026-10-25T01:30:00Z", "", ""},
		"what allows opens once on that night":           {[]v1beta1.PromotionWindow{allow("30 2 * * SUN", 30*time.Minute, berlin)}, "2026-10-25T01:10:00Z", "2026-11-01T01:30:00Z", "30 2 * * SUN"},
		// Samoa left out 2011-12-30.
		"a day that a zone leaves out":    {[]v1beta1.PromotionWindow{deny("0 12 30 12 *", time.Hour, "Pacific/Apia")}, "2011-12-30T10:30:00Z", "2011-12-30T11:00:00Z", "0 12 30 12 *"},
		"midnight that a zone leaves out": {[]v1beta1.PromotionWindow{deny("0 0 4 11 *", time.Hour, "America/Sao_Paulo")}, "2018-11-04T03:00:00Z", "2018-11-04T04:00:00Z", "0 0 4 11 *"},
		"half an hour of a zone":          {[]v1beta1.PromotionWindow{deny("15 9 * * *", time.Hour, "Asia/Kolkata")}, "2026-03-06T03:45:00Z", "2026-03-06T04:45:00Z", "15 9 * * *"},
		"a leap day":                      {[]v1beta1.PromotionWindow{allow("0 0 29 2 *", time.Hour, "UTC")}, "2026-03-06T00:00:00Z", "2028-02-29T00:00:00Z", "0 0 29 2 *"},
	} {
		t.Run(name, func(t *testing.T) {
			closed := compile(t, c.windows...).At(at(t, c.now))
			switch {
			case c.opens == "" && closed != nil:
				t.Errorf("closed: %+v", closed)
			case c.opens == "":
			case closed == nil:
				t.Error("it is open")
			case closed.Reason != c.reason:
				t.Errorf("by %q, want %q", closed.Reason, c.reason)
			case c.opens == "never":
				if !closed.Opens.IsZero() {
					t.Errorf("opens at %s", closed.Opens)
				}
			case !closed.Opens.Equal(at(t, c.opens)):
				t.Errorf("opens at %s, want %s", closed.Opens.UTC(), c.opens)
			}
		})
	}
}

func TestWindows_SayWhenInTheirTimeZone(t *testing.T) {
	closed := compile(t, deny("0 18 * * FRI", time.Hour, "Europe/Berlin")).At(at(t, "2026-03-06T17:10:00Z"))
	if closed == nil || closed.Opens.Format(time.RFC3339) != "2026-03-06T19:00:00+01:00" || closed.TimeZone != "Europe/Berlin" {
		t.Errorf("%+v", closed)
	}
}

// Minute by minute over both changes of a year, what is said of a time agrees with what is
// true at the time that is said.
func TestWindows_OpenWhenTheySay(t *testing.T) {
	w := compile(t, allow("*/40 1-4 * * *", 25*time.Minute, "America/New_York"), deny("10 2 * * *", 17*time.Minute, "America/New_York"))
	for _, day := range []string{"2026-03-08T03:00:00Z", "2026-11-01T03:00:00Z"} {
		start := at(t, day)
		opens := time.Time{} // the first time after now that is open
		for i := 8 * 60; i >= 0; i-- {
			now := start.Add(time.Duration(i) * time.Minute)
			closed := w.At(now)
			switch {
			case closed == nil:
				opens = now
			case !opens.IsZero() && !closed.Opens.Equal(opens):
				t.Errorf("at %s: it opens at %s, not at %s", now, opens, closed.Opens)
			}
		}
	}
}

func TestCompile_SaysWhatIsWrongAndWhere(t *testing.T) {
	for name, c := range map[string]struct {
		spec        v1beta1.PromotionWindow
		field, says string
	}{
		"a word":                  {deny("@every 1h", time.Hour, "UTC"), "schedule", "five fields"},
		"a word of a day":         {deny("@daily", time.Hour, "UTC"), "schedule", "five fields"},
		"seconds":                 {deny("0 0 18 * * FRI", time.Hour, "UTC"), "schedule", "five fields"},
		"a zone in the schedule":  {deny("TZ=Europe/Berlin 0 18 * * FRI", time.Hour, "UTC"), "schedule", "belongs into timeZone"},
		"a zone and nothing else": {deny("TZ=UTC", time.Hour, "UTC"), "schedule", "belongs into timeZone"},
		"an hour that is not":     {deny("0 25 * * *", time.Hour, "UTC"), "schedule", "not understood"},
		"a day that is not":       {deny("0 0 30 2 *", time.Hour, "UTC"), "schedule", "never open"},
		"a zone that is not":      {deny("0 0 * * *", time.Hour, "Europe/Bonn"), "timeZone", "no time zone"},
		"that of the machine":     {deny("0 0 * * *", time.Hour, "Local"), "timeZone", "no time zone"},
		"a path for a zone":       {deny("0 0 * * *", time.Hour, "../../etc/passwd"), "timeZone", "no time zone"},
		"no kind":                 {spec("", "0 0 * * *", time.Hour, "UTC"), "kind", "Unsupported"},
		"no duration":             {deny("0 0 * * *", 0, "UTC"), "duration", "from 1m"},
	} {
		t.Run(name, func(t *testing.T) {
			w, errs := window.Compile([]v1beta1.PromotionWindow{deny("0 0 * * *", time.Hour, ""), c.spec}, field.NewPath("spec", "promotionWindows"))
			if len(w) != 1 || len(errs) != 1 || errs[0].Field != "spec.promotionWindows[1]."+c.field || !strings.Contains(errs[0].Error(), c.says) {
				t.Errorf("%d windows, %v", len(w), errs)
			}
		})
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"0 18 * * FRI", "TZ=", "*/0 * * * *", "0-99999999999999999999 * * * *", "60 * * * *", "1-2-3 ? L * *"} {
		f.Add(s, "UTC")
	}
	now := time.Date(2026, 3, 6, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(_ *testing.T, schedule, zone string) {
		w, _ := window.Compile([]v1beta1.PromotionWindow{deny(schedule, time.Hour, zone)}, nil)
		w.At(now)
	})
}

func BenchmarkWindows_At(b *testing.B) {
	w := compile(b, deny("* * * * *", time.Minute, "Europe/Berlin"))
	now := at(b, "2026-03-06T00:00:00Z")
	b.ReportAllocs()
	for b.Loop() {
		w.At(now)
	}
}
