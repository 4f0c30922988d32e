package repair

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// attacherLog is a log that says this of the VolumeAttachments, by name.
func attacherLog(s *snapshot.Snapshot, says func(*storagev1.VolumeAttachment) backend.Said) *backend.List {
	l := &backend.List{File: "log", Format: backend.Attacher, Taken: s.TakenAt}
	for _, va := range s.VolumeAttachments {
		pv := s.Volume(facts.VolumeName(va))
		if pv == nil || pv.Spec.CSI == nil {
			continue
		}
		said := says(va)
		said.VolumeAttachment = va.Name
		l.Volumes = append(l.Volumes, backend.Volume{ID: pv.Spec.CSI.VolumeHandle, Silent: true, Said: []backend.Said{said}})
	}
	l.Sort()
	return l
}

// TestAttacherLogsDecideNothing: whatever the log of csi-attacher says, even one that
// lies, every finding of the corpus stands, there is none more, and no repair is made
// that was refused without it. Beside a list it adds nothing that the list does not.
func TestAttacherLogsDecideNothing(t *testing.T) {
	long.Test(t)
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	said, refused := 0, 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if s.Backends != nil {
			continue
		}
		options := diagnose.Options{Reconcile: c.Settings}
		everything := Consent{Allow: Kinds(), Fenced: allNodes(s)}
		look := func(lists ...*backend.List) map[string]finding.Finding {
			view := Look(withLists(s, lists...), options, everything)
			Propose(view)
			found := map[string]finding.Finding{}
			for _, f := range view.Report.Findings {
				found[f.Fingerprint] = f
			}
			return found
		}
		log := func(age time.Duration) *backend.List {
			return attacherLog(s, func(va *storagev1.VolumeAttachment) backend.Said {
				return backend.Said{At: s.TakenAt.Add(-age), Found: va.Status.Attached == (r.IntN(4) == 0)}
			})
		}
		list := drawList(r, s, 5*time.Minute)
		for _, base := range [][]*backend.List{nil, {list}} {
			before := look(base...)
			for _, age := range []time.Duration{time.Second, 6 * time.Minute, storage.Fresh + time.Second, -time.Second} {
				with := log(age)
				said += len(with.Volumes)
				after := look(append(slices.Clone(base), with)...)
				if (age > storage.Fresh || age < 0) && !cmp.Equal(before, after) {
					t.Errorf("%s: a log of %s ago changes the report", c.Name, age)
				}
				for id, f := range before {
					g, stands := after[id]
					switch {
					case !stands && base == nil:
						t.Errorf("%s: a log takes %s away: %s", c.Name, f.Code, f.Message)
					case stands && f.Repair != nil && g.Repair == nil:
						t.Errorf("%s: a log takes the repair of %s away", c.Name, f.Code)
					case stands && g.Repair != nil && g.Repair.BlockedBy == "" && (f.Repair == nil || f.Repair.BlockedBy != ""):
						t.Errorf("%s: a log allows %s", c.Name, g.Repair.Kind)
					case stands && g.Repair != nil && f.Repair.BlockedBy == "" && g.Repair.BlockedBy != "":
						refused++
					}
				}
				for id, g := range after {
					if _, known := before[id]; !known && base == nil {
						t.Errorf("%s: a log makes %s: %s", c.Name, g.Code, g.Message)
					}
				}
			}
		}
	}
	if said < 1000 {
		t.Errorf("%d lines: this shows little", said)
	}
	t.Logf("%d lines, %d repairs refused", said, refused)
}

// allNodes are those of the snapshot, also such as are gone.
func allNodes(s *snapshot.Snapshot) []types.NodeName {
	var names []types.NodeName
	for _, n := range s.Nodes {
		names = append(names, facts.NodeName(n))
	}
	for _, va := range s.VolumeAttachments {
		names = append(names, types.NodeName(va.Spec.NodeName))
	}
	return names
}

// TestAttacherLogSays: csi-attacher found the volume on the node, and what is near to that.
func TestAttacherLogSays(t *testing.T) {
	c, err := testcases.Load("vd610-no-answer")
	if err != nil {
		t.Fatal(err)
	}
	const other = "i-0ccccccccc"
	type row struct {
		s    *snapshot.Snapshot
		va   *storagev1.VolumeAttachment
		log  *backend.List
		said *backend.Said
	}
	for name, tc := range map[string]struct {
		change   func(r row)
		attached bool
	}{
		"found":                   {func(row) {}, true},
		"just now":                {func(r row) { r.said.At = r.s.TakenAt }, true},
		"not found":               {func(r row) { r.said.Found = false }, false},
		"after the objects":       {func(r row) { r.said.At = r.s.TakenAt.Add(time.Second) }, false},
		"too old":                 {func(r row) { r.said.At = r.s.TakenAt.Add(-storage.Fresh - time.Second) }, false},
		"the status has followed": {func(r row) { r.va.Status.Attached = true }, false},
		"another handle":          {func(r row) { r.log.Volumes[0].ID = "vol-2" }, false},
		"a VolumeAttachment gone": {func(r row) {
			r.said.VolumeAttachment = reconcile.VolumeAttachmentName("vol-1", "ebs.csi.aws.com", "n3")
		}, false},
		"made since":                  {func(r row) { r.va.CreationTimestamp.Time = r.said.At.Add(-snapshot.ClockTolerance + time.Second) }, false},
		"to be deleted since":         {func(r row) { r.va.DeletionTimestamp = &metav1.Time{Time: r.said.At} }, false},
		"to be deleted before":        {func(r row) { r.va.DeletionTimestamp = &metav1.Time{Time: r.said.At.Add(-snapshot.ClockTolerance)} }, true},
		"a node made since":           {func(r row) { r.s.Node("n1").CreationTimestamp.Time = r.said.At }, false},
		"a node that is gone":         {func(r row) { r.va.Spec.NodeName = "n9" }, false},
		"another driver":              {func(r row) { r.va.Spec.Attacher = "other.csi" }, false},
		"another machine of the name": {func(r row) { r.va.Annotations = map[string]string{reconcile.NodeIDAnnotation: other} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			log := attacherLog(s, func(*storagev1.VolumeAttachment) backend.Said {
				return backend.Said{At: s.TakenAt.Add(-time.Minute), Found: true}
			})
			tc.change(row{s, s.VolumeAttachments[0], log, &log.Volumes[0].Said[0]})
			view := Look(withLists(s, log), diagnose.Options{Reconcile: c.Settings}, Consent{})
			entry := storage.Of(view.Facts).Volume("kubernetes.io/csi/ebs.csi.aws.com^vol-1")
			if attached, detached := entry.On("n1"); attached != tc.attached || detached {
				t.Errorf("attached %t, detached %t", attached, detached)
			}
			if attached, detached := entry.On("n2"); attached || detached {
				t.Error("the line is taken for one about another node")
			}
		})
	}
}

// TestAttacherLogAndList: of a list and a log the younger counts, and what a log does not
// find proves nothing against a list.
func TestAttacherLogAndList(t *testing.T) {
	c, err := testcases.Load("vd610-no-answer")
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		listAge            time.Duration
		machines           []string
		attached, detached bool
		settled            bool
	}{
		"an older list has it nowhere":        {5 * time.Minute, nil, true, false, true},
		"a younger list has it nowhere":       {time.Second, nil, false, true, true},
		"an older list has it there":          {5 * time.Minute, []string{"i-n1"}, true, false, true},
		"an older list has it on another one": {5 * time.Minute, []string{"i-n2"}, true, false, true},
		"a younger list has it on another":    {time.Second, []string{"i-n2"}, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			log := attacherLog(s, func(*storagev1.VolumeAttachment) backend.Said {
				return backend.Said{At: s.TakenAt.Add(-time.Minute), Found: true}
			})
			v := backend.Volume{ID: "vol-1"}
			for _, m := range row.machines {
				v.Attachments = append(v.Attachments, backend.Attachment{Machine: m})
			}
			list := &backend.List{File: "list", Format: backend.CSI, Taken: s.TakenAt.Add(-row.listAge), Volumes: []backend.Volume{v}}
			view := Look(withLists(s, log, list), diagnose.Options{Reconcile: c.Settings}, Consent{})
			entry := storage.Of(view.Facts).Volume("kubernetes.io/csi/ebs.csi.aws.com^vol-1")
			if attached, detached := entry.On("n1"); attached != row.attached || detached != row.detached || entry.Settled != row.settled {
				t.Errorf("attached %t, detached %t, settled %t", attached, detached, entry.Settled)
			}
		})
	}
}

// TestAttacherLogKeepsFinalizer: nobody takes the finalizer off where csi-attacher found
// the volume on the node after the detach was asked for.
func TestAttacherLogKeepsFinalizer(t *testing.T) {
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
		look := func(lists ...*backend.List) map[string]string {
			view := Look(withLists(s, lists...), diagnose.Options{Reconcile: c.Settings}, Consent{Allow: Kinds(), Fenced: allNodes(s)})
			Propose(view)
			blocked := map[string]string{}
			for _, f := range view.Report.Findings {
				if f.Repair != nil && f.Repair.Kind == string(StripFinalizer) {
					blocked[f.VolumeAttachment] = f.Repair.BlockedBy
				}
			}
			return blocked
		}
		for name := range look() {
			va := s.VolumeAttachment(name)
			if s.Volume(facts.VolumeName(va)) == nil {
				continue // without its PersistentVolume csi-attacher knows no handle
			}
			va.Status.Attached = false // an attach that was never confirmed
			before, proposed := look()[name]
			if !proposed {
				continue
			}
			for _, found := range []bool{true, false} {
				log := attacherLog(s, func(*storagev1.VolumeAttachment) backend.Said {
					return backend.Said{At: s.TakenAt.Add(-time.Second), Found: found}
				})
				got, stands := look(log)[name]
				if stands == found || stands && got != before {
					t.Errorf("%s: found %t: %t, %q, and %q without the log", c.Name, found, stands, got, before)
				}
				shown++
			}
		}
	}
	if shown == 0 {
		t.Error("no case has such a finalizer")
	}
	t.Logf("%d looks", shown)
}

// TestAttacherLogIsQuoted: what csi-attacher found on a node is evidence of VD404 and VD610,
// and VD610 no longer rests on the driver's words alone.
func TestAttacherLogIsQuoted(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	quotes := func(f finding.Finding) bool {
		return slices.ContainsFunc(f.Evidence, func(e finding.Evidence) bool {
			return strings.HasPrefix(e.Object, "csi-attacher's log of ") && strings.HasPrefix(e.Value, "attached to ")
		})
	}
	quoted := map[finding.Code]int{}
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if s.Backends != nil {
			continue
		}
		log := attacherLog(s, func(*storagev1.VolumeAttachment) backend.Said {
			return backend.Said{At: s.TakenAt.Add(-time.Minute), Found: true}
		})
		for _, lists := range [][]*backend.List{nil, {log}} {
			for _, f := range Look(withLists(s, lists...), diagnose.Options{Reconcile: c.Settings}, Consent{}).Report.Findings {
				says := quotes(f)
				if f.Code == "VD610" && says != strings.HasPrefix(f.Cause, "the storage system has the volume attached to the node already") {
					t.Errorf("%s: the evidence has the log: %v, and the cause is %q", c.Name, says, f.Cause)
				}
				if says && lists == nil {
					t.Errorf("%s: %s quotes a log that nobody gave", c.Name, f.Code)
				}
				if says {
					quoted[f.Code]++
				}
			}
		}
	}
	for _, code := range []finding.Code{"VD404", "VD610"} {
		if quoted[code] == 0 {
			t.Errorf("%s never quotes the log: %v", code, quoted)
		}
	}
}
