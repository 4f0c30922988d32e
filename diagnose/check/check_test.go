package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// viewOf has a Ready node n1 with the driver disk, a node n2 that is not Ready, and the
// VolumeAttachments of disk: fails, which a message keeps from being attached, and goes, which
// another keeps from being detached.
func viewOf(gaps ...snapshot.Gap) *facts.View {
	ready := func(name string, is corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is}}}}
	}
	said := func(text string) *storagev1.VolumeError {
		return &storagev1.VolumeError{Message: text, Time: metav1.NewTime(noon.Add(-time.Minute))}
	}
	fails := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "fails"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "disk", NodeName: "n1"}}
	fails.Status.AttachError = said("rpc error: code = ResourceExhausted desc = Rate exceeded")
	goes := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "goes", DeletionTimestamp: &metav1.Time{Time: noon.Add(-time.Hour)}}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "disk", NodeName: "n1"}}
	goes.Status.DetachError = said("rpc error: code = DeadlineExceeded desc = context deadline exceeded")
	s := snapshot.New(noon, snapshot.Source{ServerVersion: "v1.36.3"}, snapshot.Objects{
		Nodes:             []*corev1.Node{ready("n1", corev1.ConditionTrue), ready("n2", corev1.ConditionUnknown)},
		CSINodes:          []*storagev1.CSINode{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disk"}}}}},
		VolumeAttachments: []*storagev1.VolumeAttachment{fails, goes},
	}, gaps)
	world := reconcile.NewWorld(s, reconcile.Options{})
	return facts.NewView(s, world, world.Reconcile())
}

func TestKeys(t *testing.T) {
	on := func(node types.NodeName, volume corev1.UniqueVolumeName, va string) finding.Finding {
		return finding.Finding{Node: node, Volume: volume, VolumeAttachment: va}
	}
	const disk, share = "kubernetes.io/csi/disk^v", "kubernetes.io/csi/share^v"
	waits := on("n1", disk, "")
	waits.Pods = []string{"default/web-0"}
	gap := snapshot.Gap{Kind: snapshot.CSINodes, Reason: snapshot.ReasonForbidden}
	throttled := check.Said(check.OfNode, driverwords.Throttled)
	for what, test := range map[string]struct {
		key  func(*facts.View, finding.Finding) string
		f    finding.Finding
		gaps []snapshot.Gap
		want string
	}{
		"a driver on a node":                      {check.OfDriverOnNode, on("n1", disk, ""), nil, "disk n1"},
		"a node that is gone":                     {check.OfDriverOnGoneNode, on("n9", disk, ""), nil, "disk"},
		"a node that is there":                    {check.OfDriverOnGoneNode, on("n2", disk, ""), nil, ""},
		"pods that wait":                          {check.OfPodsOnNode, waits, nil, "disk n1"},
		"no pod that waits":                       {check.OfPodsOnNode, on("n1", disk, ""), nil, ""},
		"a driver that is registered":             {check.UnpluggedDriver, on("n1", disk, ""), nil, ""},
		"another, which is not":                   {check.UnpluggedDriver, on("n1", share, ""), nil, "share n1"},
		"whether it is, is not known":             {check.UnpluggedDriver, on("n1", share, ""), []snapshot.Gap{gap}, ""},
		"a driver's word":                         {throttled, on("n1", disk, "fails"), nil, "n1"},
		"another word":                            {check.Said(check.OfNode, driverwords.AttachLimit), on("n1", disk, "fails"), nil, ""},
		"no VolumeAttachment":                     {throttled, on("n1", disk, ""), nil, "n1"},
		"a lost node":                             {lostNode.Key, on("n2", disk, ""), nil, "n2"},
		"a node that lives":                       {lostNode.Key, on("n1", disk, ""), nil, ""},
		"a storage system that does not answer":   {silentBackend.Key, on("n1", disk, "goes"), nil, "disk rpc error: code = DeadlineExceeded desc = context deadline exceeded"},
		"one that answers":                        {silentBackend.Key, on("n1", disk, "fails"), nil, ""},
		"one that nobody has said anything about": {silentBackend.Key, on("n1", disk, ""), nil, ""},
	} {
		if got := test.key(viewOf(test.gaps...), test.f); got != test.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestMatches(t *testing.T) {
	view := viewOf()
	of := func(node types.NodeName, va string) finding.Finding {
		return finding.Finding{Node: node, VolumeAttachment: va}
	}
	if !check.SameDriver(view, of("n1", "fails"), of("n2", "goes")) || check.SameDriver(view, of("n1", ""), of("n1", "")) {
		t.Error("the drivers of two findings are compared wrongly, or those of none")
	}
	if !check.SameDriverOnNode(view, of("n1", "fails"), of("n1", "goes")) || check.SameDriverOnNode(view, of("n1", "fails"), of("n2", "goes")) {
		t.Error("the nodes of two findings are compared wrongly")
	}
	if !check.ThrottledDetach(view, of("n1", "goes"), of("n1", "fails")) || check.ThrottledDetach(view, of("n1", "fails"), of("n1", "goes")) {
		t.Error("a message about another reason counts, or the right one does not")
	}
}

// group is the group of the name in check.Groups.
func group(name string) check.Group {
	return check.Groups[slices.IndexFunc(check.Groups, func(g check.Group) bool { return g.Name == name })]
}

var lostNode, silentBackend = group("lost node"), group("silent backend")

func TestHeadlines(t *testing.T) {
	view := viewOf()
	for node, want := range map[types.NodeName]string{"n2": "Node n2 is lost and holds volumes", "n9": "Node n9 is gone, and volumes are still attached to it"} {
		if got := lostNode.Headline(view, finding.Finding{Node: node}); got != want {
			t.Errorf("%s: %q", node, got)
		}
	}
	if got := silentBackend.Headline(view, finding.Finding{VolumeAttachment: "goes"}); !strings.Contains(got, " disk ") {
		t.Errorf("%q", got)
	}
}

func TestLink(t *testing.T) {
	for _, test := range []struct {
		check check.Check
		want  check.Link
	}{
		{check.Check{Code: "VD301"}, check.Reports}, {check.Check{Code: "VD512"}, check.Wants}, {check.Check{Code: "VD103"}, check.Holds},
		{check.Check{Code: "VD302", Breaks: check.Uses}, check.Uses}, {check.Check{}, check.Holds},
	} {
		if got := test.check.Link(); got != test.want {
			t.Errorf("%s: %s", test.check.Code, got)
		}
	}
}

func TestGroupBy(t *testing.T) {
	got := check.GroupBy([]string{"b1", "a1", "b2", "c1", "a2"}, func(s string) byte { return s[0] })
	if fmt.Sprint(got) != "[[b1 b2] [a1 a2] [c1]]" || check.GroupBy(nil, func(s string) string { return s }) != nil {
		t.Errorf("%v", got)
	}
}

// TestReport: what a finding does not say, its check says.
func TestReport(t *testing.T) {
	run := &check.Run{View: viewOf(), Check: check.Check{Code: "VD101", Name: "dangling", Severity: finding.Warning, Never: "delete it"}}
	at := metav1.NewTime(noon)
	run.Report(finding.Finding{Since: &metav1.Time{}})
	run.Report(finding.Finding{Severity: finding.Error, Since: &at, Never: "touch it", Node: "n1"})
	a, b := run.Findings[0], run.Findings[1]
	if a.Code != "VD101" || a.Check != "dangling" || a.Severity != finding.Warning || a.Since != nil || a.Never != "delete it" || a.Fingerprint == "" {
		t.Errorf("%+v", a)
	}
	if b.Severity != finding.Error || b.Since == nil || b.Never != "touch it" || b.Fingerprint == a.Fingerprint {
		t.Errorf("%+v", b)
	}
}

// TestBugChanges: only what one of two releases has.
func TestBugChanges(t *testing.T) {
	if same := check.BugChanges("v1.36.3", "v1.36.3"); len(same) > 0 {
		t.Errorf("%v", same)
	}
	later, earlier := check.BugChanges("v1.20.15", "v1.36.3"), check.BugChanges("v1.36.3", "v1.20.15")
	if len(later) == 0 || len(later) != len(earlier) || !slices.ContainsFunc(later, func(c check.BugChange) bool { return !c.Comes }) {
		t.Errorf("%v %v", later, earlier)
	}
	for i := range later {
		if later[i].Issue != earlier[i].Issue || later[i].Comes == earlier[i].Comes {
			t.Errorf("%v and back: %v", later[i], earlier[i])
		}
	}
}
