// Package analysis measures the metrics of a canary: it asks a Prometheus, by its HTTP
// API, and says of each metric whether it is well.
//
// Which Prometheus is asked is set by whoever runs the operator, in a flag. It must never
// come from a Workload: its author could then have the operator, which stands inside the
// cluster's network, send requests to any address and read the answers in status. The
// query does come from the author, and so the value of every query over this Prometheus can
// be read by whoever may write a Workload; docs/rollout.md says how to narrow that.
package analysis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/redact"
)

// Prometheus is one server. It is safe for concurrent use.
type Prometheus struct {
	api   promv1.API
	turns chan struct{}
}

// New makes a client of the Prometheus at address, such as https://prometheus.monitoring:9090,
// with a path where it is served under one. transport carries credentials and trusted
// authorities; nil is Go's own. Nothing is sent yet. The error says what is wrong with the
// address.
func New(address string, transport http.RoundTripper) (*Prometheus, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New("address of Prometheus: it is not a URL")
	case u.User != nil:
		return nil, errors.New("address of Prometheus: it holds credentials, which would be seen in the list of processes")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("address of Prometheus: %q is not http:// or https:// with a host and nothing after the path", address)
	}
	if transport == nil {
		transport = http.DefaultTransport
	}
	client, err := api.NewClient(api.Config{Address: address, Client: &http.Client{
		Transport: bounded{transport},
		// The address is what was trusted, and not where it points to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	if err != nil {
		return nil, fmt.Errorf("address of Prometheus: %w", err)
	}
	return &Prometheus{api: promv1.NewAPI(client), turns: make(chan struct{}, limits.PrometheusParallel)}, nil
}

// Measure looks at every metric as it is at a time, side by side, and gives one measurement
// for each, in their order. It takes limits.PrometheusCall at most. What goes wrong is an
// outcome of the metric that it went wrong with.
func (p *Prometheus) Measure(ctx context.Context, metrics []v1beta1.Metric, now time.Time) []v1beta1.Measurement {
	ctx, cancel := context.WithTimeout(ctx, limits.PrometheusCall)
	defer cancel()
	out := make([]v1beta1.Measurement, len(metrics))
	var all sync.WaitGroup
	for i, m := range metrics {
		all.Go(func() { out[i] = p.measure(ctx, m, now) })
	}
	all.Wait()
	return out
}

func (p *Prometheus) measure(ctx context.Context, m v1beta1.Metric, now time.Time) v1beta1.Measurement {
	failIf, err := ParseFailIf(m.FailIf)
	if err != nil {
		return note(m, v1beta1.MeasurementError, err.Error())
	}
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-ctx.Done():
		return note(m, v1beta1.MeasurementUnreachable, "its turn did not come: Prometheus is slow with the queries before it")
	}
	value, warnings, _, err := p.api.Query(ctx, m.Query, now, promv1.WithTimeout(limits.PrometheusQuery), promv1.WithLimit(limits.PrometheusSeries))
	if err != nil {
		outcome, text := sort(err)
		return note(m, outcome, text, warnings...)
	}
	v, ok, err := one(value)
	switch {
	case err != nil:
		return note(m, v1beta1.MeasurementError, err.Error(), warnings...)
	case !ok:
		return note(m, v1beta1.MeasurementNoData, "", warnings...)
	}
	out := note(m, v1beta1.MeasurementPassed, "", warnings...)
	if failIf.Fails(v) {
		out = note(m, v1beta1.MeasurementFailed, "failIf is "+failIf.String(), warnings...)
	}
	out.Value = format(v)
	return out
}

// note is a measurement without a value; its message is all that is to be said.
func note(m v1beta1.Metric, outcome v1beta1.MeasurementOutcome, text string, warnings ...string) v1beta1.Measurement {
	var parts []string
	if text != "" {
		parts = append(parts, redact.Text(text, limits.PrometheusNoteBytes))
	}
	for _, w := range warnings[:min(len(warnings), limits.PrometheusWarnings)] {
		parts = append(parts, "warning: "+redact.Text(w, limits.PrometheusNoteBytes))
	}
	return v1beta1.Measurement{Metric: m.Name, Outcome: outcome, Message: strings.Join(parts, "; ")}
}

// one is the value of an answer, if there is one. The error says what is there instead.
func one(value model.Value) (float64, bool, error) {
	switch v := value.(type) {
	case *model.Scalar:
		return number(v.Value)
	case model.Vector:
		switch {
		case len(v) == 0:
			return 0, false, nil
		case len(v) > 1:
			return 0, false, errors.New("the query gives several samples; aggregate them to one with sum(), max() or the like")
		case v[0].Histogram != nil:
			return 0, false, errors.New("the query gives a histogram; take one number of it with histogram_quantile() or the like")
		}
		return number(v[0].Value)
	case model.Matrix:
		return 0, false, errors.New("the query gives a range of samples; take one value of it with rate(), last_over_time() or the like")
	default:
		return 0, false, fmt.Errorf("the query gives a %s, and not a number", value.Type())
	}
}

func number(v model.SampleValue) (float64, bool, error) {
	return float64(v), !math.IsNaN(float64(v)), nil
}

// errTooLarge is the error of an answer that is larger than limits.PrometheusAnswerBytes.
var errTooLarge = fmt.Errorf("the answer is larger than %d bytes (limits.PrometheusAnswerBytes); aggregate in the query", limits.PrometheusAnswerBytes)

// bounded reads so much of each answer.
type bounded struct{ inner http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.inner.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: limits.PrometheusAnswerBytes}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(into []byte) (int, error) {
	if len(into) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.ReadCloser.Read(into)
	if n > b.left {
		return 0, errTooLarge
	}
	b.left -= n
	return n, err
}
