package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// lists are all kinds that are read of a cluster.
var lists = []snapshot.Kind{
	snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSINodes,
	snapshot.CSIDrivers, snapshot.StorageClasses, snapshot.Leases, snapshot.Events, snapshot.Deployments,
}

// writesRestOn are the lists without which no write of the kind may be sent. They follow from
// the effect of the write, not from what the code reads.
func writesRestOn(kind repair.Kind) []snapshot.Kind {
	users := []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments}
	switch kind {
	case repair.TouchVolume:
		return []snapshot.Kind{snapshot.Volumes, snapshot.VolumeAttachments}
	case repair.CyclePod:
		return []snapshot.Kind{snapshot.Pods, snapshot.Nodes}
	}
	return users
}

// undoRestsOn are the lists without which no write of the kind may be taken back.
func undoRestsOn(kind repair.Kind) []snapshot.Kind {
	switch kind {
	case repair.Nudge:
		return []snapshot.Kind{snapshot.VolumeAttachments}
	case repair.TouchVolume:
		return []snapshot.Kind{snapshot.Volumes}
	case repair.PatchNodeStatus:
		return []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes}
	}
	return writesRestOn(kind)
}

// setTaint is the taint that a repair sets.
var setTaint = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

func isSetTaint(t corev1.Taint) bool {
	return t.Key == setTaint.Key && t.Value == setTaint.Value && t.Effect == setTaint.Effect
}

// stands reports whether all written fields of a repair are in the objects.
var stands = map[repair.Kind]func(m *memory) bool{
	repair.Nudge: func(m *memory) bool {
		va := m.attachmentOrNil()
		return va != nil && strings.HasPrefix(va.Annotations[repair.MarkAnnotation], "nudge for ")
	},
	repair.TouchVolume: func(m *memory) bool {
		return slices.ContainsFunc(m.objects.Volumes, func(pv *corev1.PersistentVolume) bool {
			return strings.HasPrefix(pv.Annotations[repair.MarkAnnotation], "touch-volume for ")
		})
	},
	repair.PatchNodeStatus: func(m *memory) bool { return facts.Lists(m.node("n1"), uniqueName("vol-1")) },
	repair.PruneNodeStatus: func(m *memory) bool { return !facts.Lists(m.node("n1"), uniqueName("vol-1")) },
	repair.CreateAttachment: func(m *memory) bool {
		va := m.attachmentOrNil()
		return va != nil && va.DeletionTimestamp == nil
	},
	repair.UnpublishOrphan: func(m *memory) bool {
		for _, va := range m.objects.VolumeAttachments {
			if va.Name == reconcile.VolumeAttachmentName("vol-1", driver, "n2") {
				return va.DeletionTimestamp == nil
			}
		}
		return false
	},
	repair.OutOfServiceTaint: func(m *memory) bool { return slices.ContainsFunc(m.node("n1").Spec.Taints, isSetTaint) },
}

// failure is which look's list fails, and whether the answers to writes are lost.
type failure struct {
	list  snapshot.Kind
	from  int // the first look whose list fails
	looks int // how many fail; 0 means all later ones
	lost  string
}

func (f failure) String() string {
	return fmt.Sprintf("%s unread in %d looks from %d on, %s", f.list, f.looks, f.from, f.lost)
}

// strike arranges the failure for a run that begins now. stored records which writes, by
// number, were stored, and blind the writes that came after an incomplete look.
func (f failure) strike(m *memory, sink *journalSink, restsOn []snapshot.Kind) (stored map[int]bool, blind *[]string) {
	stored, blind = map[int]bool{}, &[]string{}
	m.looks = 0
	unreadNow := false
	m.failing = func(n int) []snapshot.Kind {
		unreadNow = n >= f.from && (f.looks == 0 || n < f.from+f.looks)
		if unreadNow {
			return []snapshot.Kind{f.list}
		}
		return nil
	}
	attach := m.after
	number := func() int {
		entries := sink.entries()
		return entries[len(entries)-1].Write
	}
	m.before = func(op repair.Operation, dryRun bool) error {
		if dryRun {
			return nil
		}
		if unreadNow && slices.Contains(restsOn, f.list) {
			*blind = append(*blind, op.Verb+" "+op.Target.Name)
		}
		if f.lost == "never arrives" {
			return repair.ErrUnknownOutcome
		}
		return nil
	}
	m.after = func(op repair.Operation, dryRun bool) error {
		if dryRun {
			return nil
		}
		stored[number()] = true
		if attach != nil {
			if err := attach(op, dryRun); err != nil {
				return err
			}
		}
		if f.lost == "answer lost" {
			return repair.ErrUnknownOutcome
		}
		return nil
	}
	return stored, blind
}

// lies are the false statements of a run: in its results, and in its journal.
func lies(m *memory, results []Result, entries []Entry, stored map[int]bool) []string {
	var words []string
	m.failing = nil
	s, err := m.Snapshot(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	v := repair.Look(s, narrow(results[0].Finding.Code), m.consent)
	for _, r := range results {
		switch {
		case r.Outcome == Repaired && (len(stored) == 0 || v.Finds(r.Finding.Fingerprint)):
			words = append(words, "Repaired")
		case r.Outcome == Undone && stands[r.kind(entries)](m):
			words = append(words, "Undone")
		case r.Moot && len(entries) > 1 && stands[r.kind(entries)] != nil && stands[r.kind(entries)](m):
			words = append(words, "gone already")
		case r.Moot && len(entries) == 0 && v.Finds(r.Finding.Fingerprint):
			words = append(words, "no longer found")
		case !r.LeftUndone() && r.Outcome != Repaired && r.Outcome != Undone && !r.Moot:
			words = append(words, "exit code 0")
		}
	}
	for _, e := range entries {
		switch {
		case e.Outcome == NotWritten && stored[e.Write]:
			words = append(words, "NotWritten")
		case strings.Contains(e.Detail, "shows the write") && !stored[e.Write]:
			words = append(words, "landed")
		}
	}
	return words
}

// kind is the kind of the repair, as the journal has it.
func (r Result) kind(entries []Entry) repair.Kind { return entries[0].Repair }

// narrow runs only the check of the code: running all of them is what takes the time.
func narrow(code finding.Code) diagnose.Options {
	for _, c := range diagnose.Checks() {
		if c.Code == code {
			return diagnose.Options{Checks: []check.Check{c}}
		}
	}
	panic("no check has the code " + code)
}

// failures calls each with everything that one failing list may do to a run of so many looks.
// An answer can be lost only after the first look.
func failures(looks int, each func(failure)) {
	for _, list := range lists {
		for first := 1; first <= looks; first++ {
			for _, count := range []int{1, 2, 0} {
				each(failure{list, first, count, "answered"})
				if first > 1 && count != 2 {
					each(failure{list, first, count, "answer lost"})
					each(failure{list, first, count, "never arrives"})
				}
			}
		}
	}
}

// short makes an Applier whose run has few looks.
func (m *memory) short() (*Applier, *journalSink) {
	a, sink := m.applier()
	a.HoldFor = 10 * time.Second
	a.Wait = func(_ context.Context, d time.Duration) error { m.now = m.now.Add(d); return nil }
	return a, sink
}

// TestApplyUnderFailingLists: all kinds of repair x all lists x every look of a run, with one
// look incomplete, two, and all later ones, and with answers that are lost: no write after an
// incomplete look, no false statement, no false exit code.
func TestApplyUnderFailingLists(t *testing.T) {
	seen := map[repair.Kind]bool{}
	for i, world := range worlds[:17] {
		kind := world(t).only().Kind
		if seen[kind] {
			continue
		}
		seen[kind] = true
		t.Run(fmt.Sprintf("%d %s", i, kind), func(t *testing.T) {
			t.Parallel()
			m := world(t)
			r := m.only()
			m.looks = 0
			a, _ := m.short()
			if _, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil {
				t.Fatal(err)
			}
			failures(min(m.looks, 5), func(f failure) {
				m := world(t)
				a, sink := m.short()
				a.Options = narrow(r.Finding.Code)
				stored, blind := f.strike(m, sink, writesRestOn(kind))
				results, err := a.Apply(t.Context(), []repair.Repair{r})
				if err != nil || len(results) != 1 {
					t.Fatalf("%s: %+v, %v", f, results, err)
				}
				if len(*blind) > 0 {
					t.Errorf("%s: written after an incomplete look: %v", f, *blind)
				}
				if said := lies(m, results, sink.entries(), stored); len(said) > 0 {
					t.Errorf("%s: false words %v: %+v", f, said, results)
				}
			})
		})
	}
	if len(seen) != len(repair.Kinds()) {
		t.Errorf("%d kinds of %d", len(seen), len(repair.Kinds()))
	}
}

// TestUndoUnderFailingLists is the same test for taking writes back.
func TestUndoUnderFailingLists(t *testing.T) {
	for _, kind := range repair.Kinds() {
		back, err := repair.Reverse(repair.Written{Repair: kind, Operation: &repair.Operation{Verb: repair.VerbCreate}, Finding: &repair.FindingRef{}})
		if never := err == nil && back.Never != nil; never != (undoable[kind] == nil) {
			t.Errorf("%s can be taken back, and there is no world for that, or the reverse", kind)
		}
	}
	for kind, setUp := range undoable {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			base, written := setUp(t)
			failures(3, func(f failure) {
				m, sink := base.again(written)
				entries := sink.entries()
				a, _ := m.short()
				a.Options = narrow(entries[0].Finding.Code)
				a.Journal = NewJournal(sink, func() time.Time { return m.now }, entries)
				stored, blind := f.strike(m, sink, undoRestsOn(kind))
				results, err := a.Undo(t.Context(), entries)
				if err != nil || len(results) != 1 {
					t.Fatalf("%s: %+v, %v", f, results, err)
				}
				if len(*blind) > 0 {
					t.Errorf("%s: written after an incomplete look: %v", f, *blind)
				}
				stored[1] = true // the write that is taken back
				if said := lies(m, results, sink.entries(), stored); len(said) > 0 {
					t.Errorf("%s: false words %v: %+v", f, said, results)
				}
			})
		})
	}
}

// TestWhatFollowsIsAskedOfCompleteLooks: every kind must name the lists that it reads.
func TestWhatFollowsIsAskedOfCompleteLooks(t *testing.T) {
	for _, world := range worlds {
		r := world(t).only()
		for _, kind := range writesRestOn(r.Kind) {
			if !slices.Contains(r.Reads(), kind) {
				t.Errorf("%s does not say that it reads the %s", r.Kind, kind)
			}
		}
		if r.Next != nil && len(r.Next.Reads) < len(r.Reads()) {
			t.Errorf("the second write of %s reads less than the first", r.Kind)
		}
	}
	m := lostEntry(t)
	a, _ := m.applier()
	if v, err := a.see(t.Context(), nil); err == nil || v != nil {
		t.Error("who says nothing learns something")
	}
	m.failing = unread(from(1), snapshot.Pods)
	if v, err := a.see(t.Context(), []snapshot.Kind{snapshot.Pods}); err == nil || v != nil {
		t.Error("an incomplete look can be asked")
	}
}
