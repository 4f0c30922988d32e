package snapshot

import (
	"fmt"
	"slices"
	"time"
)

// fileTimes are the latest times that the files of a folder show, each of its objects: lists
// that are of different times contradict each other without a sign.
type fileTimes struct {
	now    fileTime // the file that is read
	newest fileTime
	// beating are those whose time is known: nodes and leases are written all the time.
	beating []fileTime
}

type fileTime struct {
	file  string
	at    time.Time
	beats int
	kinds []Kind
}

// apart is how much older than another a file may be whose nodes or leases tell its time:
// kubelets write their status every five minutes or so, and gathering a bundle takes as long.
const apart = 15 * time.Minute

// mostBeating bounds the files that are held against each other.
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

// end takes the file that was read. Of one node, or one lease, the machine may be off.
func (t *fileTimes) end() {
	if t.now.at.After(t.newest.at) {
		t.newest = t.now
	}
	if t.now.beats > 1 && len(t.beating) < mostBeating {
		t.beating = append(t.beating, t.now)
	}
}

// ofOtherTimes gives the kinds of files a gap that are older than another by more than
// apart, and says both times.
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
