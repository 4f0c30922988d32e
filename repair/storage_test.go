package repair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// drawList invents a list with an entry for every volume of the snapshot, right or wrong.
func drawList(r *rand.Rand, s *snapshot.Snapshot, age time.Duration) *backend.List {
	l := &backend.List{File: "drawn", Format: backend.CSI, Taken: s.TakenAt.Add(-age)}
	machines := []string{"foreign"}
	for _, n := range s.CSINodes {
		for _, d := range n.Spec.Drivers {
			machines = append(machines, d.NodeID)
		}
	}
	for _, pv := range s.Volumes {
		if pv.Spec.CSI == nil {
			continue
		}
		v := backend.Volume{ID: pv.Spec.CSI.VolumeHandle, Shared: r.IntN(8) == 0}
		for range r.IntN(3) {
			a := backend.Attachment{Machine: machines[r.IntN(len(machines))]}
			if r.IntN(4) == 0 {
				a.State = []string{"attaching", "detaching", "busy"}[r.IntN(3)]
			}
			if r.IntN(2) == 0 {
				since := l.Taken.Add(-time.Hour)
				a.Since = &since
			}
			v.Attachments = append(v.Attachments, a)
		}
		if r.IntN(8) == 0 { // the only node where it can be, as in LINSTOR's table
			v.Silent, v.Attachments = true, nil
			for range 1 + r.IntN(2) {
				v.Only = append(v.Only, machines[r.IntN(len(machines))])
			}
		}
		l.Volumes = append(l.Volumes, v)
	}
	l.Sort()
	return l
}

func withLists(s *snapshot.Snapshot, lists ...*backend.List) *snapshot.Snapshot {
	with := snapshot.New(s.TakenAt, s.Source, s.Objects, slices.Clone(s.Gaps))
	with.Backends = lists
	return with
}

// TestListsOnlyAdd: whatever a storage system's list says, even a false one, a finding of the
// corpus goes only where one of the three findings about the storage system explains the same
// pods or the same attachment. Nothing is written that was not proposed before, but for the
// repairs that the user has to name. A list that is older or younger than the objects changes
// nothing but that it is reported as a gap.
func TestListsOnlyAdd(t *testing.T) {
	long.Test(t)
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	ofStorage := []finding.Code{"VD308", "VD404", "VD610"}
	mayExplain := func(f finding.Finding) func(finding.Finding) bool {
		return func(g finding.Finding) bool {
			return slices.Contains(ofStorage, g.Code) && (g.VolumeAttachment != "" && g.VolumeAttachment == f.VolumeAttachment ||
				slices.ContainsFunc(g.About(), func(pod string) bool { return slices.Contains(f.About(), pod) }))
		}
	}
	added, replaced := map[finding.Code]int{}, 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		options := diagnose.Options{Reconcile: c.Settings}
		everything := Consent{Allow: Kinds()}
		before := Look(withLists(s), options, everything)
		proposed := propose(before)
		for i, age := range []time.Duration{time.Minute, 2 * time.Minute, 10 * time.Minute, storage.Fresh + time.Second, -time.Second} {
			after := Look(withLists(s, drawList(r, s, age)), options, everything)
			again := propose(after)
			if i > 2 {
				told := len(before.Report.Gaps)
				if gaps := after.Report.Gaps; after.Report.Complete || len(gaps) != told+1 || gaps[told].Reason != snapshot.ReasonOtherTime {
					t.Errorf("%s: a list of %s ago is not told: %v", c.Name, age, gaps)
				}
				after.Report.Gaps, after.Report.Complete = before.Report.Gaps, before.Report.Complete
				if !cmp.Equal(before.Report, after.Report) {
					t.Errorf("%s: a list of %s ago changes the report: %s", c.Name, age, cmp.Diff(before.Report, after.Report))
				}
				continue
			}
			for _, f := range before.Report.Findings {
				if slices.ContainsFunc(after.Report.Findings, func(g finding.Finding) bool { return g.Fingerprint == f.Fingerprint }) {
					continue
				}
				replaced++
				if !slices.ContainsFunc(after.Report.Findings, mayExplain(f)) {
					t.Errorf("%s: a list takes %s away, and nothing stands for it: %s", c.Name, f.Code, f.Message)
				}
			}
			for _, g := range after.Report.Findings {
				if before.Finds(g.Fingerprint) {
					continue
				}
				added[g.Code]++
				if !slices.Contains(ofStorage, g.Code) || g.Confidence != "" {
					t.Errorf("%s: a list makes %s %s: %s", c.Name, g.Confidence, g.Code, g.Message)
				}
			}
			for _, p := range again {
				known := slices.ContainsFunc(proposed, func(q Repair) bool { return q.Kind == p.Kind && q.Finding.Fingerprint == p.Finding.Fingerprint })
				if !known && p.Kind != Republish && p.Kind != UnpublishOrphan && p.Kind != StripFinalizer {
					t.Errorf("%s: a list makes %s for %s", c.Name, p.Kind, p.Finding.Message)
				}
			}
		}
	}
	t.Logf("added %v, replaced %d", added, replaced)
	for _, code := range ofStorage {
		if added[code] < 20 {
			t.Errorf("%s was added %d times: this shows little", code, added[code])
		}
	}
}

// TestStorageGuards: a repair that the storage system's list contradicts is refused; without
// a list it is not.
func TestStorageGuards(t *testing.T) {
	list := func(s *snapshot.Snapshot, machines ...string) *backend.List {
		l := &backend.List{File: "list", Format: backend.AWS, Taken: s.TakenAt.Add(-time.Minute)}
		v := backend.Volume{ID: "vol-1"}
		for _, m := range machines {
			v.Attachments = append(v.Attachments, backend.Attachment{Machine: m})
		}
		l.Volumes = []backend.Volume{v}
		return l
	}
	none := []string{}
	for _, row := range []struct {
		name, from string
		machines   []string // nil for no list
		code       finding.Code
		kind       Kind
		blocked    string // the guard that refuses although every consent is given; "" for none
	}{
		{"words alone", "vd404-storage-and-words", nil, "VD404", UnpublishOrphan, ""},
		{"the storage system agrees", "vd404-storage-and-words", []string{"i-n2"}, "VD404", UnpublishOrphan, ""},
		{"the storage system has it attached nowhere", "vd404-storage-and-words", none, "VD404", UnpublishOrphan, "storage-has-it"},
		{"the storage system has it where it is wanted", "vd404-storage-and-words", []string{"i-n1"}, "VD404", UnpublishOrphan, "storage-has-it"},
		{"the list alone", "vd404-storage-node", []string{"i-n2"}, "VD404", "", ""},
		{"an event alone", "vd308-storage-attached", nil, "VD308", Republish, ""},
		{"the storage system has it not attached", "vd308-storage-attached", none, "VD308", Republish, ""},
		{"the storage system has it attached", "vd308-storage-attached", []string{"i-n1"}, "VD308", Republish, "storage-lacks-it"},
		{"the storage system has it elsewhere", "vd308-storage-attached", []string{"i-0ccccccccc"}, "VD308", Republish, "storage-lacks-it"},
		{"a pod runs", "vd308-storage-runs", none, "VD308", Republish, "only-waiting"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := testcases.Load(row.from)
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			var lists []*backend.List
			if row.machines != nil {
				lists = append(lists, list(s, row.machines...))
			}
			s = withLists(s, lists...)
			s.Followed = &snapshot.Followed{Since: s.TakenAt.Add(-11 * time.Minute), Asked: map[string]time.Time{}}
			for _, va := range s.VolumeAttachments { // the driver has refused twice since
				s.Followed.Asked[va.Name] = s.TakenAt.Add(-6 * time.Minute)
			}
			view := Look(s, diagnose.Options{Reconcile: c.Settings}, Consent{Allow: Kinds()})
			propose(view)
			i := slices.IndexFunc(view.Report.Findings, func(f finding.Finding) bool { return f.Code == row.code })
			if i < 0 {
				t.Fatalf("no %s", row.code)
			}
			got := view.Report.Findings[i].Repair
			switch {
			case got == nil:
				if row.kind != "" {
					t.Fatal("no repair")
				}
			case got.Kind != string(row.kind) || row.blocked == "" && got.BlockedBy != "" || !strings.HasPrefix(got.BlockedBy, row.blocked):
				t.Errorf("%s, refused by %q", got.Kind, got.BlockedBy)
			}
		})
	}
}

// TestStorageSpeaksForTheUser: where the storage system itself shows that a volume was detached
// after the detach was asked for, the user need not state that the machine is off. Where it
// shows the volume as attached, no statement of the user helps.
func TestStorageSpeaksForTheUser(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		options := diagnose.Options{Reconcile: c.Settings}
		look := func(kind string, lists ...*backend.List) []finding.Finding {
			view := Look(withLists(s, lists...), options, Consent{})
			propose(view)
			return slices.DeleteFunc(view.Report.Findings, func(f finding.Finding) bool { return f.Repair == nil || kind != "" && f.Repair.Kind != kind })
		}
		for _, f := range look(string(StripFinalizer)) {
			va, driver, handle := s.VolumeAttachment(f.VolumeAttachment), "", ""
			if driver, handle, _ = reconcile.ParseCSI(f.Volume); driver == "" || len(f.Repair.Needs) != 3 {
				continue
			}
			shown++
			detached := va.DeletionTimestamp.Add(snapshot.ClockTolerance)
			needs := func(detached *time.Time, taken time.Time, machines ...string) string {
				l := &backend.List{File: "list", Format: backend.CSI, Taken: taken}
				v := backend.Volume{ID: handle, Detached: detached}
				for _, m := range machines {
					v.Attachments = append(v.Attachments, backend.Attachment{Machine: m})
				}
				l.Volumes = []backend.Volume{v}
				for _, g := range look("", l) {
					if g.Fingerprint == f.Fingerprint {
						guard, _, _ := strings.Cut(g.Repair.BlockedBy, ":")
						return fmt.Sprint(g.Repair.Kind, " ", len(g.Repair.Needs), " ", guard)
					}
				}
				return "gone"
			}
			now := s.TakenAt.Add(-time.Second)
			if got := needs(&detached, now); got != "strip-finalizer 1 allowed" {
				t.Errorf("%s: attached to nothing: %s", c.Name, got)
			}
			if got := needs(nil, now); got != "strip-finalizer 3 fenced" {
				t.Errorf("%s: nobody says since when, and the file may be a copy: %s", c.Name, got)
			}
			before := detached.Add(-time.Second)
			if got := needs(&before, now); got != "strip-finalizer 3 fenced" {
				t.Errorf("%s: detached, it may be, before that was asked for: %s", c.Name, got)
			}
			if got := needs(&detached, now, "somewhere"); got != "delete-attachment 0 not-deleting" { // no statement helps
				t.Errorf("%s: attached to a machine: %s", c.Name, got)
			}
			if got := needs(&detached, s.TakenAt.Add(-storage.Fresh-time.Second)); got != "strip-finalizer 3 fenced" {
				t.Errorf("%s: an old list: %s", c.Name, got)
			}
			// An attach may have been under way when the detach was asked for.
			va.DeletionTimestamp.Time = s.TakenAt.Add(-facts.LongestSidecarCall)
			detached = s.TakenAt
			if got := needs(&detached, now); got != "strip-finalizer 3 fenced" {
				t.Errorf("%s: deleted just now: %s", c.Name, got)
			}
		}
	}
	if shown == 0 {
		t.Error("no case needs a word")
	}
	t.Logf("%d findings", shown)
}
