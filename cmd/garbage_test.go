package cmd

import (
	"runtime/debug"
	"testing"
)

// TestGrowth: what is alive and what it may grow by stay within the room, and the heap
// may always grow by the least.
func TestGrowth(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		alive       uint64
		least, want int
	}{
		{0, 20, 100},
		{10 * mb, 20, 100},
		{roomWhileReading / 2, 20, 100},
		{140 * mb, 20, 25},
		{170 * mb, 20, 20},
		{roomWhileReading, 20, 20},
		{1000 * mb, 20, 20},
		{140 * mb, 100, 100},
		{0, 400, 400},
	} {
		if got := growth(tt.alive, tt.least); got != tt.want {
			t.Errorf("%d MB alive, at least %d %%: %d %%, not %d %%", tt.alive/mb, tt.least, got, tt.want)
		}
	}
}

// TestLeaveGarbage: once a file is read all is as before.
func TestLeaveGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(33)
	defer debug.SetGCPercent(before)
	leaveGarbage()()
	if now := debug.SetGCPercent(33); now != 33 {
		t.Errorf("%d %% afterwards", now)
	}
	t.Setenv("GOGC", "50")
	end := leaveGarbage()
	if now := debug.SetGCPercent(33); now != 33 {
		t.Errorf("%d %% although GOGC is set", now)
	}
	end()
}
