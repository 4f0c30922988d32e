package cmd

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// roomWhileReading is up to what size the heap may hold much garbage. The objects of
	// a cluster of 150,000 pods take most of it in the end.
	roomWhileReading = 175 << 20
	// mostPercent is by how much the heap may grow between two collections, as Go has it.
	mostPercent = 100
)

// leaveGarbage lets the heap grow by more than it does otherwise between two collections,
// for as long as there is room: while a file is read garbage comes all the time, and each
// collection looks through all that has been read before. end sets it back. GOGC in the
// environment overrides it.
func leaveGarbage() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	const pause = 20 * time.Millisecond
	least := debug.SetGCPercent(mostPercent)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		alive := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		tick, now := time.NewTicker(pause), mostPercent
		defer tick.Stop()
		for {
			select {
			case <-done:
				debug.SetGCPercent(least)
				return
			case <-tick.C:
			}
			metrics.Read(alive)
			if next := growth(alive[0].Value.Uint64(), least); next != now {
				now = next
				debug.SetGCPercent(now)
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// growth is by how many percent of what is alive the heap may grow, and by no fewer than
// the least.
func growth(alive uint64, least int) int {
	if alive >= roomWhileReading {
		return least
	}
	free := roomWhileReading - alive
	if free >= alive {
		return max(least, mostPercent)
	}
	return max(least, int(free*100/alive)) //nolint:gosec // below mostPercent
}
