package main

import (
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// logTo has whatever the process logs written to w as JSON, an object a line: what is ours and
// controller-runtime's, what client-go says by klog, and net/http by the standard library's
// logger. A line of text among them is lost to what collects them, and it is errors that
// those two say.
func logTo(w io.Writer) logr.Logger {
	handler := slog.NewJSONHandler(w, nil)
	log := logr.FromSlogHandler(handler)
	ctrl.SetLogger(log)
	klog.SetLoggerWithOptions(log, klog.ContextualLogger(true))
	slog.SetDefault(slog.New(handler))
	return log
}
