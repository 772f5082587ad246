package analysis

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/internal/lab"
	"github.com/sluice-dev/sluice/operator/internal/limits"
	"github.com/sluice-dev/sluice/operator/internal/testkit"
)

// server is a real Prometheus that scrapes a page of ours. It is started by the first test
// that needs it, and not for fuzzing.
var server = sync.OnceValues(func() (*testkit.Prometheus, error) {
	tools, err := lab.ToolsDir()
	if err != nil {
		return nil, err
	}
	if dir, err = os.MkdirTemp("", "prometheus"); err != nil {
		return nil, err
	}
	page = httptest.NewServer(promhttp.HandlerFor(shop(), promhttp.HandlerOpts{}))
	return testkit.StartPrometheus(context.Background(), filepath.Join(tools, "prometheus"), dir, strings.TrimPrefix(page.URL, "http://"))
})

// What server leaves to be taken away.
var (
	page *httptest.Server
	dir  string
)

// shop are the metrics of that page.
func shop() *prom.Registry {
	registry := prom.NewRegistry()
	errorsTotal := prom.NewGaugeVec(prom.GaugeOpts{Name: "shop_errors"}, []string{"pod"})
	errorsTotal.WithLabelValues("a").Set(0.25)
	errorsTotal.WithLabelValues("b").Set(0.5)
	many := prom.NewGaugeVec(prom.GaugeOpts{Name: "shop_many"}, []string{"id", "text"})
	for i := range 3000 {
		many.WithLabelValues(strconv.Itoa(i), strings.Repeat("x", 500)).Set(1)
	}
	registry.MustRegister(errorsTotal, many)
	return registry
}

func TestMain(m *testing.M) {
	code := m.Run()
	if page != nil {
		if s, err := server(); err == nil {
			s.Stop()
		}
		page.Close()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func address(t *testing.T) string {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatal(err)
	}
	return s.URL
}

func client(t *testing.T, address string) *Prometheus {
	t.Helper()
	p, err := New(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func metric(query, failIf string) v1beta1.Metric {
	return v1beta1.Metric{Name: "m", Query: query, FailIf: failIf}
}

// scraped waits until the page is in, and returns a time at which it was. It is a second
// ago: a scrape that a busy machine makes fail takes what was there away, from when it
// began, and ends within half a second.
func scraped(t *testing.T, p *Prometheus) time.Time {
	t.Helper()
	var last v1beta1.Measurement
	var at time.Time
	err := wait.PollUntilContextTimeout(t.Context(), limits.LabPoll, limits.LabReady, true, func(ctx context.Context) (bool, error) {
		at = time.Now().Add(-time.Second)
		last = p.Measure(ctx, []v1beta1.Metric{metric("count(shop_many)", "< 3000")}, at)[0]
		return last.Outcome == v1beta1.MeasurementPassed, nil
	})
	if err != nil {
		t.Fatalf("%v: %+v", err, last)
	}
	return at
}

func TestPrometheus_MeasuresWhatIsScraped(t *testing.T) {
	p := client(t, address(t)+"/")
	at := scraped(t, p)
	for name, c := range map[string]struct {
		query, failIf string
		outcome       v1beta1.MeasurementOutcome
		value, says   string
	}{
		"a value that is well":                {`sum(shop_errors)`, "> 1", "Passed", "0.75", ""},
		"a value that fails":                  {`sum(shop_errors)`, "> 0.5", "Failed", "0.75", "failIf is > 0.5"},
		"one series of its own":               {`shop_errors{pod="a"}`, ">= 0.25", "Failed", "0.25", "failIf is >= 0.25"},
		"a scalar":                            {`scalar(sum(shop_errors)) * 2`, "== 1", "Passed", "1.5", ""},
		"a division by nothing is infinite":   {`sum(shop_errors) / 0`, "> 1", "Failed", "+Inf", "failIf is > 1"},
		"no series":                           {`sum(shop_nothing)`, "> 1", "NoData", "", ""},
		"a series that is not there":          {`shop_errors{pod="c"}`, "> 1", "NoData", "", ""},
		"no number":                           {`sum(shop_errors) * NaN`, "> 1", "NoData", "", ""},
		"a scalar of no series":               {`scalar(shop_nothing)`, "> 1", "NoData", "", ""},
		"several series":                      {`shop_errors`, "> 1", "Error", "", "aggregate them to one with sum()"},
		"thousands of series of half a KiB":   {`shop_many`, "> 1", "Error", "", "aggregate them to one with sum()"},
		"a range":                             {`shop_errors{pod="a"}[1m]`, "> 1", "Error", "", "a range of samples"},
		"a text":                              {`"text"`, "> 1", "Error", "", "gives no number"},
		"no PromQL":                           {`sum(shop_errors`, "> 1", "Error", "", "bad_data: "},
		"a query that fails while it runs":    {`shop_errors{pod="a"} * on(job) group_left shop_errors`, "> 1", "Error", "", "execution: "},
		"a condition that no API server took": {`sum(shop_errors)`, "above 1", "Error", "", "it has to begin with one of"},
		"a warning is kept beside the value":  {`quantile(2, shop_errors)`, "< 1", "Passed", "+Inf", "warning: PromQL warning: quantile value should be between 0 and 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := p.Measure(t.Context(), []v1beta1.Metric{metric(c.query, c.failIf)}, at)[0]
			if got.Metric != "m" || got.Outcome != c.outcome || got.Value != c.value || !strings.Contains(got.Message, c.says) || (c.says == "") != (got.Message == "") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestPrometheus_MeasuresAtTheTimeThatItIsGiven(t *testing.T) {
	p := client(t, address(t))
	at := scraped(t, p)
	if got := p.Measure(t.Context(), []v1beta1.Metric{metric("sum(shop_errors)", "> 1")}, at.Add(-time.Hour))[0]; got.Outcome != v1beta1.MeasurementNoData {
		t.Errorf("an hour ago: %+v", got)
	}
}

func TestPrometheus_GivesOneMeasurementForEachMetricInOrder(t *testing.T) {
	p := client(t, address(t))
	at := scraped(t, p)
	var metrics []v1beta1.Metric
	for i := range 40 {
		metrics = append(metrics, v1beta1.Metric{Name: fmt.Sprintf("m%d", i), Query: fmt.Sprintf("sum(shop_errors) + %d", i), FailIf: "> 20"})
	}
	for i, got := range p.Measure(t.Context(), metrics, at) {
		if got.Metric != metrics[i].Name || got.Value != fmt.Sprintf("%d.75", i) || (got.Outcome == v1beta1.MeasurementFailed) != (i >= 20) {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

func TestPrometheus_TellsAnOutageFromAQuery(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	answer := func(code int, header, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if header != "" {
				w.Header().Set("Location", header)
			}
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for name, c := range map[string]struct {
		address string
		outcome v1beta1.MeasurementOutcome
		says    string
	}{
		"nobody listens":                    {"http://" + gone, "Unreachable", "refused"},
		"a proxy has no Prometheus behind":  {answer(502, "", "<html>"), "Unreachable", "server error: 502"},
		"a proxy wants a login":             {answer(401, "", "<html>"), "Unreachable", "client error: 401"},
		"a proxy takes the query for bad":   {answer(400, "", "<html>"), "Unreachable", "client error: 400"},
		"something else answers":            {answer(200, "", "hello"), "Unreachable", "not that of a Prometheus"},
		"an address that points elsewhere":  {answer(307, address(t)+"/api/v1/query", ""), "Unreachable", "307"},
		"a path that is not the right one":  {address(t) + "/nothing", "Unreachable", "404"},
		"Prometheus gives up on a query":    {answer(503, "", `{"status":"error","errorType":"timeout","error":"query timed out"}`), "Error", "timeout: query timed out"},
		"an answer without an end":          {answer(200, "", `{"status":"success","data":{"resultType":"string","result":[0,"`+strings.Repeat("x", limits.PrometheusAnswerBytes)), "Error", "limits.PrometheusAnswerBytes"},
		"a success that is an error inside": {answer(200, "", `{"status":"error","errorType":"execution","error":"no"}`), "Error", "execution: no"},
	} {
		t.Run(name, func(t *testing.T) {
			got := client(t, c.address).Measure(t.Context(), []v1beta1.Metric{metric("up", "< 1")}, time.Now())[0]
			if got.Outcome != c.outcome || !strings.Contains(got.Message, c.says) || got.Value != "" {
				t.Errorf("%+v", got)
			}
			if strings.Contains(got.Message, "/api/v1") {
				t.Errorf("the address is in the message: %s", got.Message)
			}
		})
	}
}

// A Prometheus that hangs holds up neither its caller nor more queries than there are turns.
func TestPrometheus_IsNotHeldUpByOneThatHangs(t *testing.T) {
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer hangs.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	metrics := make([]v1beta1.Metric, 3*limits.PrometheusParallel)
	for i := range metrics {
		metrics[i] = metric("up", "< 1")
	}
	done := make(chan []v1beta1.Measurement)
	go func() { done <- client(t, hangs.URL).Measure(ctx, metrics, time.Now()) }()
	for range limits.PrometheusParallel {
		<-arrived
	}
	cancel()
	for i, got := range <-done {
		if got.Outcome != v1beta1.MeasurementUnreachable || got.Message == "" {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if len(arrived) > 0 {
		t.Errorf("%d queries more than there are turns", len(arrived))
	}
}

func TestNew_RefusesAddressesThatAreNone(t *testing.T) {
	for address, says := range map[string]string{
		"":                                 "not http:// or https://",
		"prometheus:9090":                  "not http:// or https://",
		"ftp://prometheus":                 "not http:// or https://",
		"http://":                          "not http:// or https://",
		"http://prometheus?x=1":            "nothing after the path",
		"http://user:secret@prometheus":    "credentials",
		"http://prometheus\x00":            "not a URL",
		"file:///etc/passwd":               "not http:// or https://",
		"http://prometheus/#/api/v1/query": "nothing after the path",
	} {
		_, err := New(address, nil)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
