package snapshot

import (
	"fmt"
	"path"
	"slices"
	"time"
)

// fileTimes are the latest times that the files of a folder show, each file's from its objects.
// Lists of different times contradict each other without any sign.
type fileTimes struct {
	now    fileTime // the current file
	folder fileTime // all files with a single object in the folder of the last one
	newest fileTime
	// oldest are the oldest files that have objects of the kind and whose age is known.
	oldest map[Kind]fileTime
}

type fileTime struct {
	file  string // of several, the newest
	at    time.Time
	beats int // the number of nodes and leases, which are written continually
	count int // the number of objects that show a time
	kinds []Kind
}

// apart is the largest difference in age between a file with nodes or leases and the newest file.
// Kubelets write their status about every five minutes, and gathering a bundle takes as long.
const apart = 15 * time.Minute

func (t *fileTimes) begin(file string) { t.now = fileTime{file: file} }

func (t *fileTimes) note(kind Kind, at time.Time) {
	one := fileTime{file: t.now.file, at: at, count: 1, kinds: []Kind{kind}}
	if kind == Nodes || kind == Leases {
		one.beats = 1
	}
	t.now.join(&one)
}

// join adds the objects of another file.
func (f *fileTime) join(o *fileTime) {
	if o.at.After(f.at) {
		f.file, f.at = o.file, o.at
	}
	f.beats, f.count = f.beats+o.beats, f.count+o.count
	for _, kind := range o.kinds {
		if !slices.Contains(f.kinds, kind) {
			f.kinds = append(f.kinds, kind)
		}
	}
}

// end adds the current file.
func (t *fileTimes) end() {
	if t.now.count != 1 {
		t.add(t.now)
		return
	}
	if path.Dir(t.folder.file) != path.Dir(t.now.file) {
		t.add(t.folder)
		t.folder = fileTime{}
	}
	t.folder.join(&t.now)
}

// add compares a file with the others. A single node or lease proves nothing about the age of its
// file, because that machine may be off.
func (t *fileTimes) add(f fileTime) {
	if f.at.After(t.newest.at) {
		t.newest = f
	}
	if f.beats < 2 {
		return
	}
	if t.oldest == nil {
		t.oldest = map[Kind]fileTime{}
	}
	for _, kind := range f.kinds {
		if before, ok := t.oldest[kind]; !ok || f.at.Before(before.at) {
			t.oldest[kind] = f
		}
	}
}

// ofOtherTimes adds a gap for each kind in a file that is older than the newest by more than apart.
// The gap names both times.
func (c *collector) ofOtherTimes() {
	t := &c.clock.of
	t.add(t.folder)
	for _, kind := range Kinds() {
		old, ok := t.oldest[kind]
		if !ok || t.newest.at.Sub(old.at) <= apart {
			continue
		}
		says := fmt.Sprintf("%s is of %s, and %s of %s: lists of different times contradict each other", plain(old.file), old.at.UTC().Format(time.RFC3339), plain(t.newest.file), t.newest.at.UTC().Format(time.RFC3339))
		if !slices.Contains(c.notes, Warning(says)) {
			c.notes = append(c.notes, Warning(says))
		}
		if _, ok := c.broken[kind]; !ok {
			c.broken[kind] = Gap{Kind: kind, Reason: ReasonOtherTime, Detail: says}
		}
	}
}
