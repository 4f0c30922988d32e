package storage_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// TestEachFormatHasItsCases: for each format of list that can prove a finding, the corpus has
// cases in which it does, and near misses in which it does not.
func TestEachFormatHasItsCases(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	proves, near, all := map[backend.Format]int{}, map[backend.Format]int{}, 0
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Backends) > 0 {
			all++
		}
		for _, l := range s.Backends {
			if strings.Contains(c.Name, "-near-") {
				near[l.Format]++
			} else {
				proves[l.Format]++
			}
		}
	}
	for _, format := range []backend.Format{
		backend.AWS, backend.Azure, backend.Google, backend.OpenStack, backend.Hetzner, backend.CSI, backend.Longhorn, backend.Trident, backend.LINSTOR, backend.CStor, backend.Jiva, backend.Text,
	} {
		if proves[format] == 0 || near[format] == 0 {
			t.Errorf("%s: %d cases, %d near misses", format, proves[format], near[format])
		}
	}
	if all < 60 {
		t.Errorf("%d cases have a list, want at least 60", all)
	}
}

// TestStagedElsewhere: where a driver refuses a mount because another node has the volume, the
// driver's own record is among the evidence if it confirms that, and only then.
func TestStagedElsewhere(t *testing.T) {
	for name, want := range map[string]string{
		"vd411-cstor-elsewhere": "attached to n2 (node n2)", "vd404-near-cstor-staged-here": "attached to n1 (node n1)",
		"vd411-jiva-elsewhere": "attached to n2 (node n2)", "vd404-near-jiva-two-places": "",
	} {
		c, err := testcases.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, listed := range []bool{true, false} {
			s, err := c.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if !listed {
				s.Backends = nil
			}
			report := diagnose.Diagnose(s, diagnose.Options{})
			i := slices.IndexFunc(report.Findings, func(f finding.Finding) bool { return f.Code == "VD411" })
			if i < 0 {
				t.Fatalf("%s, with the record %t: %+v", name, listed, report.Findings)
			}
			told := slices.IndexFunc(report.Findings[i].Evidence, func(e finding.Evidence) bool {
				return strings.HasPrefix(e.Object, "storage") || strings.HasPrefix(e.Value, "attached to")
			})
			switch {
			case (told >= 0) != (listed && want != ""):
				t.Errorf("%s, with the record %t: %+v", name, listed, report.Findings[i].Evidence)
			case told >= 0 && report.Findings[i].Evidence[told].Value != want:
				t.Errorf("%s: the record says %q, want %q", name, report.Findings[i].Evidence[told].Value, want)
			}
		}
	}
}

// TestEvidenceOfLostDisk: the number is that of the cluster's volumes in the whole list, which may
// have those of several zones, and not only of the zone of the disk.
func TestEvidenceOfLostDisk(t *testing.T) {
	lost := storage.Lost{Handle: "vol-1", List: &backend.List{}, OtherVolumes: 2, Place: "us-east-1a"}
	if got, want := lost.Evidence().Value, "not in the list, which has 2 of this cluster's volumes, and volumes in us-east-1a"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	lost.Place = ""
	if got, want := lost.Evidence().Value, "not in the list, which has 2 of this cluster's volumes"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestGapOfList: a list that leaves open whether this cluster's disks exist, or to which node they are
// attached, is a gap in the report. One that shows both, or proves that a disk is gone, is none, nor is
// one whose volumes are about to change.
func TestGapOfList(t *testing.T) {
	for name, want := range map[string]string{
		"vd516-near-further-page": "further pages", "vd516-near-attached-alone": "lacks 1 of 2 volumes (such as pv-old)", "vd516-near-list-not-whole": "lacks 2 of 3 volumes",
		"vd516-near-unattached-alone": "lacks 1 of 2 volumes", "vd516-near-reserved": "lacks 1 of 2 volumes",
		"vd308-near-storage-ids-alone": "does not show to which node 1 of 1 volumes are attached", "vd308-near-storage-old": "older than the objects",
		"vd516-not-in-list": "", "vd516-near-goes": "", "vd516-near-deletion-failed": "lacks 1 of 2 volumes (such as pv-old)", "vd308-storage-states-alone": "", "vd308-near-storage-attaching": "",
		"vd516-google-in-tree": "", "vd516-near-google-in-tree": "", "vd516-near-google-project": "lacks 1 of 2 volumes (such as pv-old)",
		"vd308-near-longhorn-no-access": "does not show to which node 1 of 1 volumes are attached", "vd308-longhorn-elsewhere": "", "vd308-near-longhorn-here": "", "vd308-near-longhorn-share": "",
	} {
		c, err := testcases.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, g := range diagnose.Diagnose(s, diagnose.Options{}).Gaps {
			if g.Kind == snapshot.StorageList {
				said += g.Detail
			}
		}
		if (said != "") != (want != "") || !strings.Contains(said, want) {
			t.Errorf("%s: gap %q, want %q", name, said, want)
		}
	}
}
