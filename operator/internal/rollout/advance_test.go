package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

var t0 = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

func passed(metric string) v1beta1.Measurement {
	return v1beta1.Measurement{Metric: metric, Value: "0", Outcome: v1beta1.MeasurementPassed}
}

func measured(metric string, o v1beta1.MeasurementOutcome) v1beta1.Measurement {
	return v1beta1.Measurement{Metric: metric, Outcome: o}
}

// plain is a step of three that began at t0, without metrics.
func plain() Progress {
	return Progress{Began: t0, Plan: Plan{
		Steps: []Step{{Pods: 1}, {Pods: 2, Pause: time.Hour}, {Pods: 3}}, ProgressDeadline: 10 * time.Minute, Interval: 30 * time.Second, FailureLimit: 2,
	}}
}

// metered is the same with two metrics and pods that are ready after a minute.
func metered(noData v1beta1.NoDataPolicy) Progress {
	p := plain()
	p.Ready, p.Since = true, at(time.Minute)
	p.Plan.Metrics, p.Plan.NoData, p.Plan.Timeout = []string{"errors", "latency"}, noData, 5*time.Minute
	return p
}

func TestAdvance_ByPods(t *testing.T) {
	with := func(change func(*Progress)) Progress {
		p := plain()
		change(&p)
		return p
	}
	readyAt := func(d time.Duration) func(*Progress) {
		return func(p *Progress) { p.Ready, p.Since = true, at(d) }
	}
	for name, c := range map[string]struct {
		p      Progress
		now    time.Duration
		want   Action
		reason string
		until  time.Duration
	}{
		"pods that are not ready are waited for":                {plain(), time.Minute, Hold, ReasonPodsNotReady, 10 * time.Minute},
		"pods that are not ready by the deadline fail":          {plain(), 10 * time.Minute, Fail, ReasonPodsNotReady, 0},
		"ready pods are watched for the interval":               {with(readyAt(time.Minute)), time.Minute, Hold, ReasonWatching, 90 * time.Second},
		"a step that was watched passes":                        {with(readyAt(time.Minute)), 90 * time.Second, Proceed, "", 0},
		"pods that were ready before the step count from it":    {with(readyAt(-time.Hour)), time.Second, Hold, ReasonWatching, 30 * time.Second},
		"pods that come at the last moment are watched too":     {with(readyAt(10*time.Minute - 1)), 10 * time.Minute, Hold, ReasonWatching, 10*time.Minute + 30*time.Second - 1},
		"a pod that restarts begins the watch again":            {with(readyAt(5 * time.Minute)), 5*time.Minute + 29*time.Second, Hold, ReasonWatching, 5*time.Minute + 30*time.Second},
		"a pod that was lost late has its deadline, cut at all": {with(func(p *Progress) { p.Since = at(5 * time.Minute) }), 6 * time.Minute, Hold, ReasonPodsNotReady, 10*time.Minute + 30*time.Second},
		"a pod that is lost after all that time fails":          {with(func(p *Progress) { p.Since = at(10 * time.Minute) }), 10*time.Minute + 30*time.Second, Fail, ReasonPodsNotReady, 0},
		"pods that come and go for ever fail":                   {with(readyAt(10*time.Minute + 20*time.Second)), 10*time.Minute + 30*time.Second, Fail, ReasonPodsUnstable, 0},
		"a pause makes the watch longer":                        {with(func(p *Progress) { p.Step = 1; readyAt(0)(p) }), 30 * time.Second, Hold, ReasonWatching, time.Hour + 30*time.Second},
		"a pause ends":                                          {with(func(p *Progress) { p.Step = 1; readyAt(0)(p) }), time.Hour + 30*time.Second, Proceed, "", 0},
		"the last step finishes":                                {with(func(p *Progress) { p.Step = 2; readyAt(0)(p) }), 30 * time.Second, Finish, "", 0},
		"a step behind the end counts as the last":              {with(func(p *Progress) { p.Step = 9; readyAt(0)(p) }), 30 * time.Second, Finish, "", 0},
		"a step before the first counts as the first":           {with(func(p *Progress) { p.Step = -1; readyAt(0)(p) }), 30 * time.Second, Proceed, "", 0},
		"an operator that slept for a day finds it passed":      {with(readyAt(time.Minute)), 24 * time.Hour, Proceed, "", 0},
		"a plan without steps is finished":                      {Progress{}, 0, Finish, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := Advance(c.p, at(c.now))
			if got.Action != c.want || got.Reason != c.reason {
				t.Errorf("%s, %s, want %s, %s: %s", got.Action, got.Reason, c.want, c.reason, got.Message)
			}
			if c.until != 0 && !got.Until.Equal(at(c.until)) {
				t.Errorf("until %s, want %s", got.Until, at(c.until))
			}
		})
	}
}

func TestAdvance_ByMetrics(t *testing.T) {
	type round struct {
		at           time.Duration
		measurements []v1beta1.Measurement
	}
	well := []v1beta1.Measurement{passed("errors"), passed("latency")}
	one := func(o v1beta1.MeasurementOutcome) []v1beta1.Measurement {
		return []v1beta1.Measurement{passed("errors"), measured("latency", o)}
	}
	const end = 6 * time.Minute // ready at one minute, and a timeout of five
	for name, c := range map[string]struct {
		noData v1beta1.NoDataPolicy
		rounds []round
		now    time.Duration
		want   Action
		reason string
		says   string
	}{
		"metrics that are well pass":                          {"Wait", []round{{60 * time.Second, well}, {90 * time.Second, well}}, 90 * time.Second, Proceed, "", ""},
		"metrics that are well do not shorten the watch":      {"Wait", []round{{60 * time.Second, well}}, 61 * time.Second, Hold, ReasonWatching, "watched"},
		"one that fails once, below the limit, is held":       {"Wait", []round{{90 * time.Second, one("Failed")}}, 90 * time.Second, Hold, ReasonMetricFailed, "metric latency fails"},
		"one that fails once and recovers passes":             {"Wait", []round{{80 * time.Second, one("Failed")}, {90 * time.Second, well}}, 90 * time.Second, Proceed, "", ""},
		"one that fails at the limit fails at once":           {"Wait", []round{{60 * time.Second, one("Failed")}, {70 * time.Second, one("Failed")}}, 70 * time.Second, Fail, ReasonMetricFailed, "failureLimit is 2"},
		"at the limit nothing makes up for it":                {"Wait", []round{{60 * time.Second, one("Failed")}, {70 * time.Second, one("Failed")}, {90 * time.Second, well}}, 90 * time.Second, Fail, ReasonMetricFailed, ""},
		"two that fail in one round are two failures":         {"Wait", []round{{60 * time.Second, []v1beta1.Measurement{measured("errors", "Failed"), measured("latency", "Failed")}}}, 60 * time.Second, Fail, ReasonMetricFailed, ""},
		"no data is waited for":                               {"Wait", []round{{90 * time.Second, one("NoData")}}, 90 * time.Second, Hold, ReasonMetricWithoutData, "set analysis.noData"},
		"no data by the timeout fails":                        {"Wait", []round{{end, one("NoData")}}, end, Fail, ReasonMetricWithoutData, "analysis.timeout is 5m0s"},
		"no data may count as well":                           {"Pass", []round{{90 * time.Second, one("NoData")}}, 90 * time.Second, Proceed, "", ""},
		"no data may count as failed":                         {"Fail", []round{{60 * time.Second, one("NoData")}, {70 * time.Second, one("NoData")}}, 70 * time.Second, Fail, ReasonMetricFailed, "has no data"},
		"no answer is never well":                             {"Pass", []round{{90 * time.Second, one("Unreachable")}}, 90 * time.Second, Hold, ReasonMetricUnknown, "does not answer"},
		"no answer is no failure either":                      {"Fail", []round{{60 * time.Second, one("Unreachable")}, {70 * time.Second, one("Unreachable")}, {80 * time.Second, one("Unreachable")}}, 80 * time.Second, Hold, ReasonWatching, ""},
		"no answer by the timeout fails":                      {"Pass", []round{{end, one("Unreachable")}}, end, Fail, ReasonMetricUnknown, ""},
		"a query that is wrong fails by the timeout":          {"Pass", []round{{end, one("Error")}}, end, Fail, ReasonMetricUnknown, "could not be read"},
		"a metric that was not measured is not well":          {"Pass", []round{{90 * time.Second, well[:1]}}, 90 * time.Second, Hold, ReasonMetricUnknown, "have to be measured"},
		"a metric that nobody asked for counts for nothing":   {"Wait", []round{{60 * time.Second, []v1beta1.Measurement{measured("x", "Failed"), measured("x", "Failed")}}, {90 * time.Second, well}}, 90 * time.Second, Proceed, "", ""},
		"nothing was measured":                                {"Pass", nil, 90 * time.Second, Hold, ReasonMetricUnknown, "have to be measured"},
		"nothing was ever measured":                           {"Pass", nil, end, Fail, ReasonMetricUnknown, "have to be measured"},
		"what was measured before a long sleep is not enough": {"Wait", []round{{60 * time.Second, well}}, 5 * time.Minute, Hold, ReasonMetricUnknown, ""},
		"a late look after a long sleep is":                   {"Wait", []round{{24 * time.Hour, well}}, 24 * time.Hour, Proceed, "", ""},
		"what was measured before the pods were ready is not": {"Wait", []round{{59 * time.Second, well}}, 90 * time.Second, Hold, ReasonMetricUnknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := metered(c.noData)
			for _, r := range c.rounds {
				p = p.Add(r.measurements, at(r.at))
			}
			got := Advance(p, at(c.now))
			if got.Action != c.want || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
				t.Errorf("%s, %s, want %s, %s: %s", got.Action, got.Reason, c.want, c.reason, got.Message)
			}
			if len(c.rounds) > 0 && len(got.Evidence) != len(p.Latest) {
				t.Errorf("evidence %v", got.Evidence)
			}
		})
	}
}

func TestAdvance_TellsPeopleWhereItStands(t *testing.T) {
	p := metered(v1beta1.NoDataWait).Add([]v1beta1.Measurement{measured("errors", v1beta1.MeasurementFailed), measured("latency", v1beta1.MeasurementFailed)}, at(time.Minute))
	want := "step 1 of 3 (1 pod): metric errors fails; 2 measurements failed, and failureLimit is 2"
	if got := Advance(p, at(time.Minute)).Message; got != want {
		t.Errorf("%q", got)
	}
	late := plain()
	late.Step = 1
	want = "step 2 of 3 (2 pods): its pods are not ready, and progressDeadline is 10m0s; see their events and logs"
	if got := Advance(late, at(time.Hour)).Message; got != want {
		t.Errorf("%q", got)
	}
}

func TestProgress_MetricsAreDueOverTheWholeWatch(t *testing.T) {
	for name, c := range map[string]struct {
		interval, every time.Duration
	}{
		"three times in a short interval":             {30 * time.Second, 10 * time.Second},
		"three times in the shortest":                 {time.Second, time.Second / 3},
		"every ten seconds in a long one":             {time.Hour, 10 * time.Second},
		"not without end where there is no interval":  {0, time.Second / 3},
		"not more often than pods are worth watching": {3 * time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := metered(v1beta1.NoDataWait)
			p.Plan.Interval = c.interval
			if p.Due(at(59*time.Second)) || !p.Due(at(time.Minute)) {
				t.Error("the first look is not when the pods are ready")
			}
			p = p.Add(nil, at(time.Minute))
			if p.Due(at(time.Minute+c.every-1)) || !p.Due(at(time.Minute+c.every)) {
				t.Errorf("the next look is not after %s", c.every)
			}
			p.Ready = false
			if p.Due(at(time.Hour)) {
				t.Error("pods that are not ready are measured")
			}
		})
	}
	if p := plain(); p.Due(at(time.Hour)) {
		t.Error("there is nothing to measure")
	}
}
