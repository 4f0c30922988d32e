package output

import (
	"fmt"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestNumbered checks that only the nouns of a headline are numbered, and no name that has one as
// a part.
func TestNumbered(t *testing.T) {
	for headline, want := range map[string]string{
		"Node n1 is lost and holds volumes":                                          "Node n1 is lost and holds 3 volumes",
		"Volumes of disks.csi.example.com lead to disks":                             "3 volumes of disks.csi.example.com lead to 3 disks",
		"Node disks-1 was replaced, and volumes stay on the old machine":             "Node disks-1 was replaced, and 3 volumes stay on the old machine",
		"The storage system of fast-volumes.example.com does not answer for volumes": "The storage system of fast-volumes.example.com does not answer for 3 volumes",
	} {
		if got := numbered(headline, 3); got != want {
			t.Errorf("%q is %q, not %q", headline, got, want)
		}
	}
}

// TestHeadlineCountsVolumes checks that no headline names one volume where the cause stands for
// several, without their number, whatever the length of its sentence and of its pods.
func TestHeadlineCountsVolumes(t *testing.T) {
	for _, c := range []struct {
		message       string
		volumes, pods int
		want          string
	}{
		{"Volume pv-0 cannot be detached from node n1: the driver fails", 3, 5, "; 3 volumes, 5 pods wait"},
		{"Volume pv-0 cannot leave node n1: its attacher no longer runs", 3, 5, "; 3 volumes, 5 pods wait"},
		{"The kubelet of node n1 cannot unmount unused volume pv-0", 3, 5, "; 3 volumes, 5 pods wait"},
		{"Volume pv-0 is still attached to node n1, where no pod uses it now", 3, 5, "; 3 volumes"},
		{"Volume pv-0 is still attached to node n1, where no pod uses it now", 1, 5, "; 5 pods wait"},
		{"Volume pv-0 cannot be detached from node n1: the driver fails", 3, 0, "; 2 more like it"},
	} {
		var tree []finding.Finding
		for i := range c.volumes {
			f := finding.Finding{Code: "VD103", Message: c.message, PersistentVolume: fmt.Sprintf("pv-%d", i), Fingerprint: fmt.Sprint(i), CausedBy: "0"}
			tree = append(tree, f)
		}
		tree[0].CausedBy = ""
		if text, sums := headline(tree, make([]finding.Waiting, c.pods)); text != c.message || sums != c.want {
			t.Errorf("%q%q, want %q", text, sums, c.want)
		}
	}
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		for _, tree := range r.Roots() {
			volumes := distinct(texts(alike(tree), func(f finding.Finding) string { return f.PersistentVolume }))
			told := tell(r, tree)
			if text := told.what + told.sums; len(volumes) > 1 && tree[0].Subject.Kind != "Pod" && !strings.Contains(text, count(len(volumes), "volume")) && !strings.Contains(text, "more like it") {
				t.Errorf("it stands for %d volumes: %s", len(volumes), text)
			}
		}
	})
}

// TestWhatIsDoneToOneIsDoneToAll checks that a cause that stands for others names the other
// objects that need the same, and that it names none where its command or its advice is for all
// of them.
func TestWhatIsDoneToOneIsDoneToAll(t *testing.T) {
	const others = "the same for 5 other VolumeAttachments (-o wide has each command)"
	for name, want := range map[string]struct{ says, withOneCommand string }{
		"vd119-node-gone":      {others, "the same for 5 other VolumeAttachments"}, // each has to be seen detached
		"vd103-driver-refuses": {"the same for volumes pv-data, pv-data-alike2, pv-data-alike3 and 2 more (-o wide has each command)", ""},
		"vd512-class-missing":  {"", ""}, // the class is corrected, once for all
		"vd104-claim-unused":   {"", ""}, // the node is corrected, once for all
	} {
		c, err := testcases.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		many, err := testcases.Alike(s, 5)
		if err != nil {
			t.Fatal(err)
		}
		r := examined(name, many, c.Settings).report
		tree := r.Roots()[0]
		if len(alike(tree)) != 6 {
			t.Fatalf("%s: %d findings are alike", name, len(alike(tree)))
		}
		said := func() string {
			for _, s := range tell(r, tree).do {
				if strings.HasPrefix(s.text, "the same for ") {
					return s.text
				}
			}
			return ""
		}
		if repair := tree[0].Repair; repair != nil {
			repair.ApplyAll = ""
		}
		if got := said(); got != want.says {
			t.Errorf("%s: %q, not %q", name, got, want.says)
		}
		if repair := tree[0].Repair; repair != nil && repair.Apply != "" {
			repair.ApplyAll = "kubectl volume-doctor diagnose node/n1 --apply"
			if got := said(); got != want.withOneCommand {
				t.Errorf("%s: one command makes all repairs, and still %q", name, got)
			}
		}
		if only := tell(r, tree[:1]).do; strings.HasPrefix(only[len(only)-1].text, "the same for ") {
			t.Errorf("%s: one finding is for no others: %+v", name, only)
		}
	}
}

// TestPlanWithoutListsProvesNothing checks that nothing is said to be absent if the lists that would
// show it were not read, and that whoever lacks the right is named once.
func TestPlanWithoutListsProvesNothing(t *testing.T) {
	denied := func(kind snapshot.Kind) snapshot.Gap {
		return snapshot.Gap{Kind: kind, Reason: snapshot.ReasonForbidden, Detail: string(kind) + ` is forbidden: User "jane" cannot list resource "` + string(kind) + `" in API group "" at the cluster scope`}
	}
	for name, c := range map[string]struct {
		gaps  []snapshot.Gap
		first string
		rest  []string
	}{
		"all was read":   {nil, "Nothing is attached and nothing is wanted.", nil},
		"only no events": {[]snapshot.Gap{denied(snapshot.Events)}, "Nothing is attached and nothing is wanted.", []string{"jane may not list events; ask for ClusterRole"}},
		"no pods": {[]snapshot.Gap{denied(snapshot.Pods)}, "Whether anything is attached or wanted is not known: not all could be read.",
			[]string{"gap: pods could not be read (Forbidden); what rests on them is not known", "jane may not list pods; ask for ClusterRole"}},
	} {
		for _, format := range []string{"table", "wide", "tree"} {
			var b strings.Builder
			if err := PlanFormats.Print(&b, format, &Plan{Head: finding.Head{Gaps: c.gaps}}, Options{}); err != nil {
				t.Fatal(err)
			}
			text := words(b.String())
			if !strings.HasPrefix(text, c.first) {
				t.Errorf("%s, %s: %s", name, format, text)
			}
			for _, want := range c.rest {
				if strings.Count(text, want) != 1 {
					t.Errorf("%s, %s: lacks %q: %s", name, format, want, text)
				}
			}
		}
	}
}
