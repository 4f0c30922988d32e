package reconcile

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var (
	single = &VolumeSpec{PV: newPV("v")}
	shared = &VolumeSpec{PV: newPV("v", modes(corev1.ReadWriteMany))}
)

// row names a node and has the entry of each world for volume v there.
type row struct {
	node    string
	state   AttachState
	mounted bool
	assumed bool
	wanted  bool
	spec    *VolumeSpec // in place of the test's
}

// TestDecisions has a row for each branch of the controller's pass, named after
// the reason that it yields and the node that it is about, n1.
func TestDecisions(t *testing.T) {
	va := func(node types.NodeName) string { return VolumeAttachmentName("v", "d", node) }
	tests := []struct {
		name    string
		volume  corev1.UniqueVolumeName // "" for v
		spec    *VolumeSpec             // of both worlds; nil in the actual one where unknown is set
		unknown bool
		rows    []row
		n1      []func(*corev1.Node)
		missing bool // n1 does not exist
		options Options
		want    Decision
	}{
		{name: "WantedAndAttached", spec: single, rows: []row{{node: "n1", state: Attached, wanted: true}},
			want: Decision{Verb: Keep, Reason: WantedAndAttached}},
		{name: "WantedAndAttached although held elsewhere too", spec: single,
			rows: []row{{node: "n1", state: Attached, wanted: true}, {node: "n2", state: Attached}},
			want: Decision{Verb: Keep, Reason: WantedAndAttached}},

		{name: "NotAttached", spec: single, rows: []row{{node: "n1", wanted: true}},
			want: Decision{Verb: Attach, Reason: NotAttached, VolumeAttachment: va("n1")}},
		{name: "NotAttached, to a node that is not Ready", spec: single, rows: []row{{node: "n1", wanted: true}},
			n1:   []func(*corev1.Node){notReady},
			want: Decision{Verb: Attach, Reason: NotAttached, VolumeAttachment: va("n1")}},
		{name: "NotAttached, shared and attached elsewhere", spec: shared,
			rows: []row{{node: "n1", wanted: true}, {node: "n2", state: Attached, wanted: true}},
			want: Decision{Verb: Attach, Reason: NotAttached, VolumeAttachment: va("n1")}},
		{name: "NotAttached, shared and detached elsewhere", spec: shared,
			rows: []row{{node: "n1", wanted: true}, {node: "n2", state: Attached}},
			want: Decision{Verb: Attach, Reason: NotAttached, VolumeAttachment: va("n1")}},
		{name: "NotAttached, only uncertain elsewhere", spec: single,
			rows: []row{{node: "n1", wanted: true}, {node: "n2", state: Uncertain, mounted: true, assumed: true}},
			want: Decision{Verb: Attach, Reason: NotAttached, VolumeAttachment: va("n1")}},
		{name: "NotAttached, wanted by two", spec: single, rows: []row{{node: "n1", wanted: true}, {node: "n2", wanted: true}},
			want: Decision{Verb: Attach, Reason: NotAttached, VolumeAttachment: va("n1"), Contenders: []types.NodeName{"n1", "n2"}}},
		{name: "NotAttached, shared and wanted by two", spec: shared, rows: []row{{node: "n1", wanted: true}, {node: "n2", wanted: true}},
			want: Decision{Verb: Attach, Reason: NotAttached, VolumeAttachment: va("n1")}},
		{name: "NotAttached with a caret in the handle", volume: unique("a^b"), spec: &VolumeSpec{PV: newPV("a^b")},
			rows: []row{{node: "n1", wanted: true}},
			want: Decision{Verb: Attach, Reason: NotAttached, VolumeAttachment: VolumeAttachmentName("a^b", "d", "n1")}},
		{name: "AttachUncertain", spec: single, rows: []row{{node: "n1", state: Uncertain, mounted: true, assumed: true, wanted: true}},
			want: Decision{Verb: Attach, Reason: AttachUncertain, VolumeAttachment: va("n1")}},

		{name: "NotWanted", spec: single, rows: []row{{node: "n1", state: Attached}},
			want: Decision{Verb: Detach, Reason: NotWanted, VolumeAttachment: va("n1")}},
		{name: "NotWanted, from a node that is not Ready", spec: single, rows: []row{{node: "n1", state: Attached}},
			n1:   []func(*corev1.Node){notReady},
			want: Decision{Verb: Detach, Reason: NotWanted, VolumeAttachment: va("n1")}},
		{name: "NotWanted, spec unknown", spec: single, unknown: true, rows: []row{{node: "n1", state: Attached}},
			want: Decision{Verb: Detach, Reason: NotWanted, VolumeAttachment: va("n1")}},
		{name: "NotWanted on two nodes", spec: single, rows: []row{{node: "n1", state: Attached}, {node: "n2", state: Attached}},
			want: Decision{Verb: Detach, Reason: NotWanted, VolumeAttachment: va("n1"), Contenders: []types.NodeName{"n1", "n2"}}},
		{name: "NotWanted on two nodes, spec unknown", spec: single, unknown: true,
			rows: []row{{node: "n1", state: Attached}, {node: "n2", state: Attached}},
			want: Decision{Verb: Detach, Reason: NotWanted, VolumeAttachment: va("n1")}},
		{name: "NotWanted, FC", volume: "kubernetes.io/fc/[w]", unknown: true, rows: []row{{node: "n1", state: Attached}},
			want: Decision{Verb: Detach, Reason: NotWanted}},
		{name: "NotWanted, iSCSI", volume: "kubernetes.io/iscsi/p:i:0", unknown: true, rows: []row{{node: "n1", state: Attached}},
			want: Decision{Verb: Detach, Reason: NotWanted}},
		{name: "NotWanted, flexvolume", volume: "vendor/driver/v", unknown: true, rows: []row{{node: "n1", state: Attached}},
			options: Options{FlexAttachable: []string{"vendor/driver"}},
			want:    Decision{Verb: Detach, Reason: NotWanted}},
		{name: "NotWanted, a name that ends after the plugin", volume: "kubernetes.io/csi/", unknown: true,
			rows: []row{{node: "n1", state: Attached}},
			want: Decision{Verb: Detach, Reason: NotWanted}},
		{name: "NotWanted with a caret in the handle", volume: unique("a^b"), spec: &VolumeSpec{PV: newPV("a^b")},
			rows: []row{{node: "n1", state: Attached}},
			want: Decision{Verb: Detach, Reason: NotWanted}},

		{name: "OutOfServiceTaint", spec: single, rows: []row{{node: "n1", state: Attached, mounted: true}},
			n1:   []func(*corev1.Node){outOfService},
			want: Decision{Verb: ForceDetach, Reason: OutOfServiceTaint, VolumeAttachment: va("n1")}},
		{name: "OutOfServiceTaint on what is not mounted", spec: single, rows: []row{{node: "n1", state: Attached}},
			n1:   []func(*corev1.Node){outOfService},
			want: Decision{Verb: ForceDetach, Reason: OutOfServiceTaint, VolumeAttachment: va("n1")}},
		{name: "OutOfServiceTaint whatever the flag", spec: single, rows: []row{{node: "n1", state: Uncertain, mounted: true, assumed: true}},
			n1:      []func(*corev1.Node){outOfService},
			options: Options{DisableForceDetachOnTimeout: true},
			want:    Decision{Verb: ForceDetach, Reason: OutOfServiceTaint, VolumeAttachment: va("n1")}},

		{name: "StillMounted", spec: single, rows: []row{{node: "n1", state: Attached, mounted: true}},
			want: Decision{Verb: Wait, Reason: StillMounted}},
		{name: "StillMounted on a node that is not Ready", spec: single, rows: []row{{node: "n1", state: Attached, mounted: true}},
			n1:   []func(*corev1.Node){notReady},
			want: Decision{Verb: Wait, Reason: StillMounted, After: 6 * time.Minute}},
		{name: "StillMounted, waiting as long as it is told", spec: single, rows: []row{{node: "n1", state: Attached, mounted: true}},
			n1:      []func(*corev1.Node){notReady},
			options: Options{MaxWaitForUnmount: time.Hour},
			want:    Decision{Verb: Wait, Reason: StillMounted, After: time.Hour}},
		{name: "StillMounted, never forced", spec: single, rows: []row{{node: "n1", state: Attached, mounted: true}},
			n1:      []func(*corev1.Node){notReady},
			options: Options{DisableForceDetachOnTimeout: true},
			want:    Decision{Verb: Wait, Reason: StillMounted}},
		{name: "StillMounted, not to be helped by force", volume: "kubernetes.io/aws-ebs/v", unknown: true,
			rows: []row{{node: "n1", state: Attached, mounted: true}}, n1: []func(*corev1.Node){notReady},
			want: Decision{Verb: Wait, Reason: StillMounted}},
		{name: "AssumedMounted", spec: single, rows: []row{{node: "n1", state: Uncertain, mounted: true, assumed: true}},
			want: Decision{Verb: Wait, Reason: AssumedMounted}},
		{name: "AssumedMounted on a node that is gone", spec: single, rows: []row{{node: "n1", state: Uncertain, mounted: true, assumed: true}},
			missing: true,
			want:    Decision{Verb: Wait, Reason: AssumedMounted, After: 6 * time.Minute}},

		{name: "MultiAttach", spec: single,
			rows: []row{{node: "n1", wanted: true}, {node: "n2", state: Attached, mounted: true}, {node: "n3", state: Attached, wanted: true}},
			want: Decision{Verb: MultiAttach, Reason: AttachedElsewhere, Holders: []types.NodeName{"n2", "n3"}}},
		{name: "MultiAttach of what is uncertain here", spec: single,
			rows: []row{{node: "n1", state: Uncertain, mounted: true, wanted: true}, {node: "n2", state: Attached, wanted: true}},
			want: Decision{Verb: MultiAttach, Reason: AttachedElsewhere, Holders: []types.NodeName{"n2"}}},

		{name: "NoPlugin", volume: "kubernetes.io/aws-ebs/v", unknown: true, rows: []row{{node: "n1", state: Attached}},
			want: Decision{Verb: Blocked, Reason: NoPlugin}},
		{name: "NoPlugin, taint or not", volume: "vendor/unknown/v", unknown: true, rows: []row{{node: "n1", state: Attached, mounted: true}},
			n1:   []func(*corev1.Node){outOfService},
			want: Decision{Verb: Blocked, Reason: NoPlugin}},
		{name: "InvalidVolumeName", volume: "driver/v", unknown: true, rows: []row{{node: "n1", state: Attached}},
			want: Decision{Verb: Blocked, Reason: InvalidVolumeName}},
		{name: "OperationPending", spec: single, rows: []row{{node: "n1", wanted: true}, {node: "n2", state: Attached}},
			want: Decision{Verb: Blocked, Reason: OperationPending, Holders: []types.NodeName{"n2"}}},
		{name: "OperationPending, spec of the detach unknown", spec: single, unknown: true,
			rows: []row{{node: "n1", wanted: true}, {node: "n2", state: Attached}},
			want: Decision{Verb: Blocked, Reason: OperationPending, Holders: []types.NodeName{"n2"}}},
		{name: "OperationPending, two volumes of one disk, the detached one for one node at a time", spec: shared,
			rows: []row{{node: "n1", wanted: true}, {node: "n2", state: Attached, spec: single}},
			want: Decision{Verb: Blocked, Reason: OperationPending, Holders: []types.NodeName{"n2"}}},
		{name: "NotAttached, both for many nodes", spec: shared, rows: []row{{node: "n1", wanted: true}, {node: "n2", state: Attached}},
			want: Decision{Verb: Attach, Reason: NotAttached, VolumeAttachment: va("n1")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			volume := test.volume
			if volume == "" {
				volume = unique("v")
			}
			nodes := []*corev1.Node{newNode("n2"), newNode("n3")}
			if !test.missing {
				nodes = append(nodes, newNode("n1", test.n1...))
			}
			w := NewWorld(snapshotOf(snapshot.Objects{Nodes: nodes}), test.options)
			for _, r := range test.rows {
				pair, spec := VolumeNode{volume, types.NodeName(r.node)}, test.spec
				if r.spec != nil {
					spec = r.spec
				}
				if r.state != "" {
					w.Actual.Put(&AttachedVolume{VolumeNode: pair, State: r.state, Spec: spec, MountedByNode: r.mounted, AssumedMounted: r.assumed})
					if test.unknown {
						w.Actual.Find(pair).Spec = nil
					}
				}
				if r.wanted {
					w.Desired.Put(&VolumeToAttach{VolumeNode: pair, Spec: spec})
				}
			}
			test.want.VolumeNode = VolumeNode{volume, "n1"}
			got := w.Reconcile().Decision(test.want.VolumeNode)
			if diff := cmp.Diff(&test.want, got, cmpopts.IgnoreFields(Decision{}, "Until", "Waited", "Late")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPlanOfNothing asks for the decision about a pair that is in neither world.
func TestPlanOfNothing(t *testing.T) {
	plan := NewWorld(snapshotOf(snapshot.Objects{}), Options{}).Reconcile()
	if d := plan.Decision(VolumeNode{unique("v"), "n1"}); d != nil {
		t.Error(d)
	}
}

// TestNodeStatus compares each node's volumesAttached before and after the pass.
func TestNodeStatus(t *testing.T) {
	s := snapshotOf(snapshot.Objects{
		Nodes: []*corev1.Node{
			newNode("n1", lists(unique("kept"), "", unique("gone"), unique("kept"), "kubernetes.io/aws-ebs/blocked", unique("mounted")), uses(unique("mounted"))),
			newNode("n2", lists("", "")),
			newNode("n3"),
		},
		Volumes: []*corev1.PersistentVolume{newPV("kept"), newPV("new")},
		Claims:  []*corev1.PersistentVolumeClaim{newClaim("kept"), newClaim("new")},
		Pods:    []*corev1.Pod{newPod("p", "n1", []string{"kept", "new"})},
	})
	names := func(list ...corev1.UniqueVolumeName) []corev1.AttachedVolume {
		var volumes []corev1.AttachedVolume
		for _, name := range list {
			volumes = append(volumes, corev1.AttachedVolume{Name: name})
		}
		return volumes
	}
	want := []NodeStatus{
		// A volume that is attached in the pass is reported only after it.
		{Node: "n1", VolumesAttached: names("kubernetes.io/aws-ebs/blocked", unique("kept"), unique("mounted")), Removed: []corev1.UniqueVolumeName{unique("gone")},
			Flapping: []corev1.UniqueVolumeName{"kubernetes.io/aws-ebs/blocked"}},
		// The list of n2 is right as it is, and is not written.
		{Node: "n2", VolumesAttached: names("", "")},
		{Node: "n3"},
	}
	w := NewWorld(s, Options{})
	if diff := cmp.Diff(want, w.NodeStatus(w.Reconcile())); diff != "" {
		t.Error(diff)
	}
}

// TestNodeStatusOfContenders: one of the contending nodes loses the entry, and nobody knows
// which.
func TestNodeStatusOfContenders(t *testing.T) {
	s := snapshotOf(snapshot.Objects{
		Nodes:   []*corev1.Node{newNode("n1", lists(unique("v"))), newNode("n2", lists(unique("v")))},
		Volumes: []*corev1.PersistentVolume{newPV("v")},
		// only the one of n3 brings the spec: n1 and n2 list the volume themselves
		VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v", "n1"), newAttachment("v", "n2"), newAttachment("v", "n3")},
	})
	w := NewWorld(s, Options{})
	for _, row := range w.NodeStatus(w.Reconcile()) {
		if len(row.VolumesAttached) != 1 || row.Removed != nil || !slices.Equal(row.Contended, []corev1.UniqueVolumeName{unique("v")}) {
			t.Errorf("%+v", row)
		}
	}
}

// TestContendersOfOneDisk: two PersistentVolumes have the same disk, one for one node and
// one for many. The operation for one node excludes every other; those for many nodes do
// not exclude one another.
func TestContendersOfOneDisk(t *testing.T) {
	one, many := newPV("one"), newPV("many", modes(corev1.ReadWriteMany))
	many.Spec.CSI.VolumeHandle = "one"
	plan := NewWorld(snapshotOf(snapshot.Objects{
		Volumes: []*corev1.PersistentVolume{one, many},
		Claims:  []*corev1.PersistentVolumeClaim{newClaim("one"), newClaim("many")},
		Nodes:   []*corev1.Node{newNode("n1"), newNode("n2"), newNode("n3")},
		Pods:    []*corev1.Pod{newPod("p1", "n1", []string{"one"}), newPod("p2", "n2", []string{"many"}), newPod("p3", "n3", []string{"many"})},
	}), Options{}).Reconcile()
	for node, want := range map[types.NodeName][]types.NodeName{"n1": {"n1", "n2", "n3"}, "n2": {"n1", "n2"}, "n3": {"n1", "n3"}} {
		d := plan.Decision(VolumeNode{unique("one"), node})
		if d.Verb != Attach || !slices.Equal(d.Contenders, want) {
			t.Errorf("%s: %s with contenders %v, want %v", node, d.Verb, d.Contenders, want)
		}
	}
}

// TestCost: with twice as many nodes that have a volume, and twice as many that want it, a
// plan takes about twice the memory and not four times as much.
func TestCost(t *testing.T) {
	bytes := func(n int) float64 {
		o := snapshot.Objects{Volumes: []*corev1.PersistentVolume{newPV("v")}, Claims: []*corev1.PersistentVolumeClaim{newClaim("v")}}
		for i := range n {
			has, wants := newNode(fmt.Sprintf("has-%d", i), lists(unique("v")), uses(unique("v"))), newNode(fmt.Sprintf("wants-%d", i))
			o.Nodes = append(o.Nodes, has, wants)
			o.Pods = append(o.Pods, newPod("p-"+wants.Name, wants.Name, []string{"v"}))
			if i%2 == 0 {
				o.Pods = append(o.Pods, newPod("p-"+has.Name, has.Name, []string{"v"}))
			}
		}
		w := NewWorld(snapshotOf(o), Options{})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w.Reconcile()
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	if small, large := bytes(300), bytes(600); large > 3*small {
		t.Errorf("%.0f bytes for 300, %.0f for 600", small, large)
	}
}
