package snapshot

import (
	"fmt"
	"slices"
	"time"
)

// fileTimes are the latest times that the files of a folder show, each file's from its objects.
// Lists of different times contradict each other without any sign.
type fileTimes struct {
	now    fileTime // the current file
	newest fileTime
	// beating are the files whose age is known because they have nodes or leases, which are written
	// continually.
	beating []fileTime
}

type fileTime struct {
	file  string
	at    time.Time
	beats int
	kinds []Kind
}

// apart is the largest difference in age between a file with nodes or leases and the newest file.
// Kubelets write their status about every five minutes, and gathering a bundle takes as long.
const apart = 15 * time.Minute

// mostBeating is the largest number of files that are compared.
const mostBeating = 100

func (t *fileTimes) begin(file string) { t.now = fileTime{file: file} }

func (t *fileTimes) note(kind Kind, at time.Time) {
	if at.After(t.now.at) {
		t.now.at = at
	}
	if kind == Nodes || kind == Leases {
		t.now.beats++
	}
	if !slices.Contains(t.now.kinds, kind) {
		t.now.kinds = append(t.now.kinds, kind)
	}
}

// end adds the current file. A file with a single node or lease proves nothing about its age,
// because that machine may be off.
func (t *fileTimes) end() {
	if t.now.at.After(t.newest.at) {
		t.newest = t.now
	}
	if t.now.beats > 1 && len(t.beating) < mostBeating {
		t.beating = append(t.beating, t.now)
	}
}

// ofOtherTimes adds a gap for each kind in a file that is older than the newest by more than apart.
// The gap names both times.
func (c *collector) ofOtherTimes() {
	newest := c.clock.of.newest
	for _, old := range c.clock.of.beating {
		if newest.at.Sub(old.at) <= apart {
			continue
		}
		says := fmt.Sprintf("%s is of %s, and %s of %s: lists of different times contradict each other", plain(old.file), old.at.UTC().Format(time.RFC3339), plain(newest.file), newest.at.UTC().Format(time.RFC3339))
		c.notes = append(c.notes, Warning(says))
		for _, kind := range old.kinds {
			if _, ok := c.broken[kind]; !ok {
				c.broken[kind] = Gap{Kind: kind, Reason: ReasonOtherTime, Detail: says}
			}
		}
	}
}
