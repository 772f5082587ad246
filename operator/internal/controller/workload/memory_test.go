package workload

import (
	"testing"
	"time"

	"github.com/sluice-dev/sluice/operator/internal/limits"
)

func TestMemory_PausesLessWhileAnUnjudgedImageRuns(t *testing.T) {
	m := &memory{quarrels: map[childKey]quarrel{}}
	key, now := childKey{name: "web"}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 20 {
		if wait := m.pause(key, true, now); wait > 0 && i < limits.HealsAtOnce {
			t.Fatalf("a pause of %s before heal %d", wait, i+1)
		}
		m.putBack(key, now, nil)
	}
	if wait := m.pause(key, true, now); wait != limits.StrayImagePause {
		t.Errorf("with an unjudged image the pause is %s, want %s", wait, limits.StrayImagePause)
	}
	if wait := m.pause(key, false, now); wait != limits.HealPause {
		t.Errorf("without one the pause is %s, want %s", wait, limits.HealPause)
	}
}
