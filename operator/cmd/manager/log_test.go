package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestLogTo_TakesEveryLoggerOfTheProcess(t *testing.T) {
	output, flags, before := log.Writer(), log.Flags(), slog.Default()
	t.Cleanup(func() {
		klog.ClearLogger()
		slog.SetDefault(before)
		log.SetOutput(output)
		log.SetFlags(flags)
	})
	var written bytes.Buffer
	ours := logTo(&written)
	refused := errors.New("refused")
	for name, say := range map[string]func(){
		"ours":                 func() { ours.Error(refused, "said by ours") },
		"controller-runtime's": func() { ctrl.Log.Error(refused, "said by controller-runtime's") },
		"client-go's":          func() { klog.ErrorS(refused, "said by client-go's", "event", struct{ Note string }{"a \"note\""}) },
		"client-go's of before it had keys": func() {
			klog.Errorf("said by %s\nin two lines", "client-go's of before it had keys")
			klog.Flush()
		},
		"client-go's of a context": func() { klog.FromContext(t.Context()).Info("said by client-go's of a context") },
		"net/http's":               func() { log.Printf("said by net/http's") },
	} {
		written.Reset()
		say()
		var line struct{ Time, Level, Msg string }
		if err := json.Unmarshal(written.Bytes(), &line); err != nil {
			t.Errorf("%s: %v: %s", name, err, written.String())
			continue
		}
		if line.Time == "" || line.Level == "" || !strings.HasPrefix(line.Msg, "said by "+name) || strings.Count(written.String(), "\n") != 1 {
			t.Errorf("%s: %s", name, written.String())
		}
	}
}
