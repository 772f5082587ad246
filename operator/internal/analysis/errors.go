package analysis

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
)

// sort says whether an error is about the query or about the way to Prometheus, in words.
// Only what Prometheus itself says of a query is about the query: a proxy on the way
// answers too.
func sort(err error) (v1beta1.MeasurementOutcome, string) {
	if errors.Is(err, errTooLarge) {
		return v1beta1.MeasurementError, errTooLarge.Error()
	}
	var said *promv1.Error
	if errors.As(err, &said) {
		kind, text := said.Type, said.Msg
		var detail struct {
			ErrorType promv1.ErrorType `json:"errorType"`
			Error     string           `json:"error"`
		}
		if json.Unmarshal([]byte(said.Detail), &detail) == nil && detail.ErrorType != "" {
			kind, text = detail.ErrorType, detail.Error
		}
		switch kind {
		case promv1.ErrBadData, promv1.ErrExec, promv1.ErrTimeout, promv1.ErrCanceled:
			return v1beta1.MeasurementError, string(kind) + ": " + text
		}
		if kind == promv1.ErrBadResponse && strings.HasPrefix(text, "unexpected value type ") {
			// What the client library says of a text, which it does not know.
			return v1beta1.MeasurementError, "the query gives no number: " + text
		}
		return v1beta1.MeasurementUnreachable, "the answer is not that of a Prometheus which works: " + text
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return v1beta1.MeasurementUnreachable, "no answer in time"
	}
	var request *url.Error
	if errors.As(err, &request) {
		// The address is the operator's, and nothing for a Workload's status.
		err = request.Err
	}
	return v1beta1.MeasurementUnreachable, err.Error()
}
