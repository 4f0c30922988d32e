package snapshot

import (
	"fmt"
	"path"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// fileTimes are the latest times that the files of a folder show, each file's from its objects.
// Lists of different times contradict each other without any sign.
type fileTimes struct {
	now    fileTime // the current file
	folder fileTime // all files with a single object in the folder of the last one
	newest fileTime
	// known are the files whose age is known.
	known []fileTime
}

type fileTime struct {
	file  string // of several, the newest
	at    time.Time
	beats int // the number of objects that are written continually
	count int // the number of objects that show a time
	kinds []Kind
	// folder is the folder of several files with a single object each; "" for a single file.
	folder string
}

// holds reports whether an object in the file is one of these.
func (f *fileTime) holds(file string) bool {
	return file == f.file || f.folder != "" && f.folder == path.Dir(file)
}

// apart is the largest difference in age between a file with nodes or leases and the newest file.
// Kubelets write their status about every five minutes, and gathering a bundle takes as long.
const apart = 15 * time.Minute

// reported is the time in which each kubelet that lives writes its status.
const reported = 5 * time.Minute

// before reports whether the file shows that it was read before the other one.
func (t *fileTimes) before(file, other string) bool {
	var at, later time.Time
	for _, f := range t.known {
		if f.holds(file) {
			at = f.at
		}
		if f.holds(other) {
			later = f.at
		}
	}
	return !at.IsZero() && later.Sub(at) > reported
}

func (t *fileTimes) begin(file string) { t.now = fileTime{file: file} }

func (t *fileTimes) note(kind Kind, at time.Time, beats bool) {
	if at.IsZero() {
		return
	}
	one := fileTime{file: t.now.file, at: at, count: 1, kinds: []Kind{kind}}
	if beats {
		one.beats = 1
	}
	t.now.join(&one)
}

// isBeating reports whether the object is written continually: a lease, or a node whose kubelet is
// heard of. The last write of any other node is as old as its failure.
func isBeating(object apiObject) bool {
	switch o := object.(type) {
	case *coordinationv1.Lease:
		return true
	case *corev1.Node:
		return slices.ContainsFunc(o.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status != corev1.ConditionUnknown
		})
	}
	return false
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
	t.folder.folder = path.Dir(t.now.file)
}

// add compares a file with the others. A single object that is written continually proves nothing
// about the age of its file, because that machine may be off.
func (t *fileTimes) add(f fileTime) {
	if f.at.After(t.newest.at) {
		t.newest = f
	}
	if f.beats >= 2 {
		t.known = append(t.known, f)
	}
}

// old returns the files that are older than the newest by more than apart, the oldest first.
func (t *fileTimes) old() []fileTime {
	old := slices.DeleteFunc(slices.Clone(t.known), func(f fileTime) bool { return t.newest.at.Sub(f.at) <= apart })
	slices.SortStableFunc(old, func(a, b fileTime) int { return a.at.Compare(b.at) })
	return old
}

// ofOtherTimes drops the objects of files that are older than the newest by more than apart, and
// adds a gap for each kind in one. The gap names both times. What such an object says was true then,
// and its age would be counted from now.
func (c *collector) ofOtherTimes() {
	t := &c.clock.of
	t.add(t.folder)
	old := t.old()
	if len(old) == 0 {
		return
	}
	says := otherTimes(old, t.newest)
	c.notes = append(c.notes, Warning(says))
	for _, kind := range Kinds() {
		if !slices.ContainsFunc(old, func(f fileTime) bool { return slices.Contains(f.kinds, kind) }) {
			continue
		}
		if _, ok := c.broken[kind]; !ok && !c.superseded(kind, old) {
			c.broken[kind] = Gap{Kind: kind, Reason: ReasonOtherTime, Detail: says}
		}
		resourceOf(kind).drop(&c.objects, func(object apiObject) bool {
			return c.isIn(old, identity{kind, object.GetNamespace(), object.GetName()})
		})
		if kind == Pods {
			c.left.drop(func(pod identity) bool { return c.isIn(old, pod) })
		}
	}
}

// otherTimes names the files, each with its time.
func otherTimes(old []fileTime, newest fileTime) string {
	var times []string
	of := " is of "
	for _, f := range old {
		times = append(times, plain(f.file)+of+f.at.UTC().Format(time.RFC3339))
		of = " of "
	}
	which := "one is"
	if len(old) > 1 {
		which = "ones are"
	}
	return fmt.Sprintf("%s, and %s of %s: lists of different times contradict each other, and the older %s not used", some(times), plain(newest.file), newest.at.UTC().Format(time.RFC3339), which)
}

// isIn reports whether the object is in one of the files and in no list of another, or its file is not known.
func (c *collector) isIn(files []fileTime, key identity) bool {
	if lists := c.listsOf(key); len(lists) > 0 {
		return !slices.ContainsFunc(lists, func(l *listing) bool {
			return !slices.ContainsFunc(files, func(f fileTime) bool { return f.holds(l.at.file) })
		})
	}
	at, ok := c.seen.placeOf(key)
	return !ok || slices.ContainsFunc(files, func(f fileTime) bool { return f.holds(at.file) })
}
