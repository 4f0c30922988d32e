package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// volumeOn has v attached to its nodes as the node statuses, the VolumeAttachments or both
// show it; a pod on a node wants it there.
type volumeOn struct {
	listed   []*corev1.Node // their status lists v
	nodes    []*corev1.Node // further nodes
	attached []string       // nodes with a VolumeAttachment for v
	wanted   []string       // nodes with a pod that uses v
	pv       []func(*corev1.PersistentVolume)
	va       []func(*storagev1.VolumeAttachment)
	gap      snapshot.Kind
	release  string
	options  Options
}

func (c volumeOn) plan() *Plan {
	name := unique("v")
	o := snapshot.Objects{
		Volumes: []*corev1.PersistentVolume{newPV("v", c.pv...)},
		Claims:  []*corev1.PersistentVolumeClaim{newClaim("v")},
		Nodes:   c.nodes,
	}
	if o.Volumes[0].Spec.CSI == nil {
		name = "kubernetes.io/fc/[v]"
	}
	for _, n := range c.listed {
		lists(name)(n)
		o.Nodes = append(o.Nodes, n)
	}
	for _, node := range c.attached {
		o.VolumeAttachments = append(o.VolumeAttachments, newAttachment("v", node, c.va...))
	}
	for _, node := range c.wanted {
		o.Pods = append(o.Pods, newPod("on-"+node, node, []string{"v"}))
	}
	var gaps []snapshot.Gap
	if c.gap != "" {
		gaps = []snapshot.Gap{{Kind: c.gap}}
	}
	return NewWorld(snapshot.New(time.Unix(0, 0), snapshot.Source{ServerVersion: c.release}, o, gaps), c.options).Reconcile()
}

func mounts(n *corev1.Node) { uses(unique("v"))(n) }

func fibre(pv *corev1.PersistentVolume) {
	source(corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{"v"}}})(pv)
}

func notAttached(va *storagev1.VolumeAttachment) { va.Status.Attached = false }

// TestUntil has a row for each way in which a decision about v on n1 ends.
func TestUntil(t *testing.T) {
	now := metav1.NewTime(time.Unix(0, 0))
	nodes := func(n ...*corev1.Node) []*corev1.Node { return n }
	never := Options{DisableForceDetachOnTimeout: true}
	both := []types.NodeName{"n1", "n2"}
	many := []func(*corev1.PersistentVolume){modes(corev1.ReadWriteMany)}
	forced := []Until{{MaxWaitForUnmount, 6 * time.Minute, 10*time.Minute + 2*time.Second, ForceDetach, nil, false}}
	tests := []struct {
		name    string
		cluster volumeOn
		verb    Verb
		want    []Until
	}{
		{"kept", volumeOn{listed: nodes(newNode("n1")), attached: []string{"n1"}, wanted: []string{"n1"}}, Keep, nil},
		{"kept without a VolumeAttachment", volumeOn{listed: nodes(newNode("n1")), wanted: []string{"n1"}}, Keep,
			[]Until{{VerifySync, time.Minute, time.Minute, Attach, nil, true}}},
		{"kept, attach not finished", volumeOn{listed: nodes(newNode("n1")), attached: []string{"n1"}, wanted: []string{"n1"},
			va: []func(*storagev1.VolumeAttachment){notAttached}}, Keep, []Until{{VerifySync, time.Minute, time.Minute, Attach, nil, true}}},
		{"kept, no VolumeAttachment read", volumeOn{listed: nodes(newNode("n1")), wanted: []string{"n1"}, gap: snapshot.VolumeAttachments}, Keep, nil},
		{"kept, FC", volumeOn{listed: nodes(newNode("n1")), wanted: []string{"n1"}, pv: []func(*corev1.PersistentVolume){fibre}}, Keep, nil},
		{"kept without a VolumeAttachment, and held elsewhere", volumeOn{listed: nodes(newNode("n1"), newNode("n2")), attached: []string{"n2"},
			wanted: []string{"n1", "n2"}}, Keep, []Until{{VerifySync, time.Minute, time.Minute, MultiAttach, nil, true}}},
		{"kept twice without a VolumeAttachment", volumeOn{listed: nodes(newNode("n1"), newNode("n2")), wanted: []string{"n1", "n2"}}, Keep,
			[]Until{{VerifySync, time.Minute, time.Minute, Attach, both, true}}},
		{"kept without a VolumeAttachment, and wanted elsewhere", volumeOn{listed: nodes(newNode("n1", mounts)), nodes: nodes(newNode("n2")),
			wanted: []string{"n1", "n2"}}, Keep, []Until{{VerifySync, time.Minute, time.Minute, Attach, both, true}}},

		{"assumed mounted", volumeOn{nodes: nodes(newNode("n1")), attached: []string{"n1"}}, Wait,
			[]Until{{NodeUpdate, 0, 7*time.Minute + 40*time.Second, Detach, nil, true}}},
		{"assumed mounted, not Ready", volumeOn{nodes: nodes(newNode("n1", notReady)), attached: []string{"n1"}}, Wait,
			[]Until{{NodeUpdate, 0, 0, Detach, nil, true}, {MaxWaitForUnmount, 6 * time.Minute, 6 * time.Minute, ForceDetach, nil, true}}},
		{"assumed mounted, not Ready, no force", volumeOn{nodes: nodes(newNode("n1", notReady)), attached: []string{"n1"}, options: never}, Wait,
			[]Until{{NodeUpdate, 0, 0, Detach, nil, true}}},
		{"assumed mounted, node gone", volumeOn{attached: []string{"n1"}}, Wait,
			[]Until{{MaxWaitForUnmount, 6 * time.Minute, 6 * time.Minute, ForceDetach, nil, true}}},
		{"assumed mounted, node gone, while a detach from elsewhere may fail", volumeOn{listed: nodes(newNode("n2")), attached: []string{"n1", "n2"}}, Wait,
			[]Until{{MaxWaitForUnmount, 6 * time.Minute, 0, ForceDetach, nil, true}}},
		{"assumed mounted, node gone, while a detach from elsewhere cannot fail", volumeOn{listed: nodes(newNode("n2")), attached: []string{"n1"}}, Wait,
			[]Until{{MaxWaitForUnmount, 6 * time.Minute, 6 * time.Minute, ForceDetach, nil, true}}},
		{"assumed mounted, node gone, while a detach from elsewhere may fail, for many nodes", volumeOn{listed: nodes(newNode("n2")), attached: []string{"n1", "n2"},
			pv: many}, Wait, []Until{{MaxWaitForUnmount, 6 * time.Minute, 6 * time.Minute, ForceDetach, nil, true}}},
		{"assumed mounted, node gone, while it attaches elsewhere", volumeOn{nodes: nodes(newNode("n2")), attached: []string{"n1"}, wanted: []string{"n2"}}, Wait,
			[]Until{{MaxWaitForUnmount, 6 * time.Minute, 8 * time.Minute, ForceDetach, nil, true}}},
		{"assumed mounted on two nodes that are gone", volumeOn{attached: []string{"n1", "n2"}}, Wait,
			[]Until{{MaxWaitForUnmount, 6 * time.Minute, 0, ForceDetach, both, true}}},
		{"assumed mounted on two nodes", volumeOn{nodes: nodes(newNode("n1"), newNode("n2")), attached: []string{"n1", "n2"}}, Wait,
			[]Until{{NodeUpdate, 0, 0, Detach, nil, true}}},
		{"assumed mounted, node gone, no force", volumeOn{attached: []string{"n1"}, options: never}, Wait, nil},

		{"still mounted", volumeOn{listed: nodes(newNode("n1", mounts)), attached: []string{"n1"}}, Wait, []Until{{Unmount, 0, 0, Detach, nil, false}}},
		{"still mounted, not Ready", volumeOn{listed: nodes(newNode("n1", mounts, notReady)), attached: []string{"n1"},
			options: Options{MaxWaitForUnmount: time.Hour}}, Wait, []Until{{Unmount, 0, 0, Detach, nil, false}, {MaxWaitForUnmount, time.Hour, time.Hour, ForceDetach, nil, false}}},
		{"still mounted, not Ready, no force", volumeOn{listed: nodes(newNode("n1", mounts, notReady)), attached: []string{"n1"}, options: never}, Wait,
			[]Until{{Unmount, 0, 0, Detach, nil, false}}},
		{"still mounted without a VolumeAttachment, spec unknown", volumeOn{listed: nodes(newNode("n1", mounts))}, Wait, []Until{{Unmount, 0, 0, Detach, nil, false}}},
		{"still mounted without a VolumeAttachment, spec from elsewhere", volumeOn{listed: nodes(newNode("n1", mounts)), attached: []string{"n2"}}, Wait,
			[]Until{{Unmount, 0, 0, Detach, nil, false}, {VerifySync, time.Minute, time.Minute, "", nil, true}}},

		{"still mounted for many nodes without a VolumeAttachment, spec unknown until it attaches elsewhere", volumeOn{listed: nodes(newNode("n1", mounts, notReady)),
			nodes: nodes(newNode("n2")), wanted: []string{"n2"}, pv: many}, Wait, []Until{{Unmount, 0, 0, Detach, nil, false}, {VerifySync, time.Minute, 3 * time.Minute, "", nil, true}}},

		{"held without a VolumeAttachment", volumeOn{nodes: nodes(newNode("n1")), listed: nodes(newNode("n2", mounts)), wanted: []string{"n1", "n2"}},
			MultiAttach, []Until{{HolderLeaves, 0, time.Minute, Attach, both, true}}},
		{"held by a mount, and wanted by a third", volumeOn{nodes: nodes(newNode("n1"), newNode("n2")), listed: nodes(newNode("n3", mounts)), attached: []string{"n3"},
			wanted: []string{"n1", "n2"}}, MultiAttach, []Until{{HolderLeaves, 0, 0, Attach, both, false}}},
		{"held by a pod", volumeOn{nodes: nodes(newNode("n1")), listed: nodes(newNode("n2")), attached: []string{"n2"}, wanted: []string{"n1", "n2"}},
			MultiAttach, []Until{{HolderLeaves, 0, 0, Attach, nil, false}}},
		{"held by a mount", volumeOn{nodes: nodes(newNode("n1")), listed: nodes(newNode("n2", mounts)), attached: []string{"n2"}, wanted: []string{"n1"}},
			MultiAttach, []Until{{HolderLeaves, 0, 0, Attach, nil, false}}},
		{"held by a lost node", volumeOn{nodes: nodes(newNode("n1")), listed: nodes(newNode("n2", mounts, notReady)), attached: []string{"n2"}, wanted: []string{"n1"}},
			MultiAttach, []Until{{HolderLeaves, 0, 8 * time.Minute, Attach, nil, false}}},
		{"held by a lost node, in a release in which a failed detach holds on", volumeOn{nodes: nodes(newNode("n1")), release: "v1.26.9",
			listed: nodes(newNode("n2", mounts, notReady)), attached: []string{"n2"}, wanted: []string{"n1"}}, MultiAttach, []Until{{HolderLeaves, 0, 0, Attach, nil, false}}},
		{"held by two lost nodes", volumeOn{nodes: nodes(newNode("n1")), attached: []string{"n2"}, wanted: []string{"n1"},
			listed: nodes(newNode("n2", mounts, notReady), newNode("n3", mounts, notReady))},
			// Without a spec, they are detached side by side. A controller at work may have
			// the spec.
			MultiAttach, []Until{{HolderLeaves, 0, 8 * time.Minute, Attach, nil, true}}},
		{"held by two lost nodes, spec from elsewhere", volumeOn{nodes: nodes(newNode("n1")), attached: []string{"n2", "n3", "n4"}, wanted: []string{"n1"},
			listed: nodes(newNode("n2", mounts, notReady), newNode("n3", mounts, notReady))},
			// The detach that comes first may fail again and again.
			MultiAttach, []Until{{HolderLeaves, 0, 0, Attach, nil, false}}},
		{"held by two lost nodes, one of them forgotten", volumeOn{nodes: nodes(newNode("n1")), attached: []string{"n2", "n4"}, wanted: []string{"n1"},
			listed: nodes(newNode("n2", mounts, notReady), newNode("n3", mounts, notReady))},
			MultiAttach, []Until{{HolderLeaves, 0, 0, Attach, nil, false}}}, // n4 stands in n2's way
		{"held by a lost node for ever", volumeOn{nodes: nodes(newNode("n1")), listed: nodes(newNode("n2", mounts, notReady)), attached: []string{"n2"},
			wanted: []string{"n1"}, options: never}, MultiAttach, []Until{{HolderLeaves, 0, 0, Attach, nil, false}}},

		{"blocked by a detach", volumeOn{nodes: nodes(newNode("n1")), listed: nodes(newNode("n2")), attached: []string{"n2"}, wanted: []string{"n1"}},
			Blocked, []Until{{OperationEnds, 0, 2 * time.Minute, Attach, nil, false}}},
		{"blocked by a detach, and held", volumeOn{nodes: nodes(newNode("n1")), listed: nodes(newNode("n2"), newNode("n3")), attached: []string{"n2", "n3"},
			wanted: []string{"n1", "n3"}}, Blocked, []Until{{OperationEnds, 0, 2 * time.Minute, MultiAttach, nil, false}}},

		{"blocked by two detaches", volumeOn{nodes: nodes(newNode("n1")), listed: nodes(newNode("n2"), newNode("n3")), attached: []string{"n2", "n3", "n4"},
			wanted: []string{"n1"}}, Blocked, []Until{{OperationEnds, 0, 0, Attach, nil, false}}},
		{"blocked by two detaches side by side, spec unknown", volumeOn{nodes: nodes(newNode("n1")), listed: nodes(newNode("n2"), newNode("n3")),
			attached: []string{"n2", "n3"}, wanted: []string{"n1"}}, Blocked, []Until{{OperationEnds, 0, 2 * time.Minute, Attach, nil, true}}},
		{"blocked by a detach, as a third is", volumeOn{nodes: nodes(newNode("n1"), newNode("n2")), listed: nodes(newNode("n3")), attached: []string{"n3"},
			wanted: []string{"n1", "n2"}}, Blocked, []Until{{OperationEnds, 0, 2 * time.Minute, Attach, both, false}}},
		{"blocked by a detach, in a release in which a failed detach holds on", volumeOn{nodes: nodes(newNode("n1")), release: "v1.26.9",
			listed: nodes(newNode("n2")), attached: []string{"n2"}, wanted: []string{"n1"}}, Blocked, []Until{{OperationEnds, 0, 0, Attach, nil, false}}},

		{"attaching", volumeOn{nodes: nodes(newNode("n1")), wanted: []string{"n1"}}, Attach, nil},
		{"attaching, one of two", volumeOn{nodes: nodes(newNode("n1"), newNode("n2")), wanted: []string{"n1", "n2"}}, Attach,
			[]Until{{OperationEnds, 0, 2 * time.Minute, MultiAttach, nil, false}}},
		{"attaching what is being deleted", volumeOn{nodes: nodes(newNode("n1")), attached: []string{"n1"}, wanted: []string{"n1"},
			va: []func(*storagev1.VolumeAttachment){func(va *storagev1.VolumeAttachment) { va.DeletionTimestamp = &now }}}, Attach,
			[]Until{{Backoff, 500 * time.Millisecond, 122 * time.Second, Attach, nil, false}}},
		{"attaching what the driver refuses", volumeOn{nodes: nodes(newNode("n1")), attached: []string{"n1"}, wanted: []string{"n1"},
			va: []func(*storagev1.VolumeAttachment){notAttached, func(va *storagev1.VolumeAttachment) { va.Status.AttachError = &storagev1.VolumeError{} }}}, Attach,
			[]Until{{Backoff, 500 * time.Millisecond, 122 * time.Second, Attach, nil, false}}},
		{"attaching with an old error", volumeOn{nodes: nodes(newNode("n1")), attached: []string{"n1"}, wanted: []string{"n1"},
			va: []func(*storagev1.VolumeAttachment){func(va *storagev1.VolumeAttachment) { va.Status.AttachError = &storagev1.VolumeError{} }}}, Attach, nil},

		{"detaching", volumeOn{listed: nodes(newNode("n1")), attached: []string{"n1"}}, Detach, forced},
		{"detaching, no force", volumeOn{listed: nodes(newNode("n1")), attached: []string{"n1"}, options: never}, Detach, nil},
		{"detaching, nothing to delete", volumeOn{listed: nodes(newNode("n1"))}, Detach, nil},
		{"detaching, one of two by name", volumeOn{listed: nodes(newNode("n1"), newNode("n2")), attached: []string{"n1"}, wanted: []string{"gone"}}, Detach,
			[]Until{{MaxWaitForUnmount, 6 * time.Minute, forced[0].Bound, ForceDetach, nil, true}}},
		{"detaching, one of two", volumeOn{listed: nodes(newNode("n1"), newNode("n2")), attached: []string{"n1", "n2", "n3"}}, Detach,
			[]Until{{OperationEnds, 0, 0, Detach, nil, false}, {MaxWaitForUnmount, 6 * time.Minute, 0, ForceDetach, both, false}}},
		{"detaching what the driver refuses", volumeOn{listed: nodes(newNode("n1")), attached: []string{"n1"},
			va: []func(*storagev1.VolumeAttachment){func(va *storagev1.VolumeAttachment) { va.Status.DetachError = &storagev1.VolumeError{} }}}, Detach,
			append([]Until{{Backoff, 500 * time.Millisecond, 122 * time.Second, Detach, nil, false}}, forced...)},
		{"forced", volumeOn{listed: nodes(newNode("n1", mounts, outOfService)), attached: []string{"n1"}}, ForceDetach, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.cluster.plan().Decision(VolumeNode{test.cluster.name(), "n1"})
			if got == nil || got.Verb != test.verb {
				t.Fatalf("decision %+v, want %s", got, test.verb)
			}
			if diff := cmp.Diff(test.want, got.Until); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func (c volumeOn) name() corev1.UniqueVolumeName {
	if newPV("v", c.pv...).Spec.CSI == nil {
		return "kubernetes.io/fc/[v]"
	}
	return unique("v")
}

// TestUntilByName: decisions about volumes that are known only by their unique name.
func TestUntilByName(t *testing.T) {
	forced := Until{MaxWaitForUnmount, 6 * time.Minute, 6 * time.Minute, Blocked, nil, false}
	tests := []struct {
		name    corev1.UniqueVolumeName
		edits   []func(*corev1.Node)
		options Options
		verb    Verb
		want    []Until
	}{
		{"kubernetes.io/aws-ebs/x", nil, Options{}, Blocked, nil},
		{"garbage", nil, Options{}, Blocked, nil},
		{"kubernetes.io/aws-ebs/x", []func(*corev1.Node){uses("kubernetes.io/aws-ebs/x")}, Options{}, Wait, []Until{{Unmount, 0, 0, Blocked, nil, false}}},
		{"kubernetes.io/aws-ebs/x", []func(*corev1.Node){uses("kubernetes.io/aws-ebs/x"), notReady}, Options{}, Wait, []Until{{Unmount, 0, 0, Blocked, nil, false}, forced}},
		{"kubernetes.io/aws-ebs/x", []func(*corev1.Node){uses("kubernetes.io/aws-ebs/x"), notReady}, Options{DisableForceDetachOnTimeout: true}, Wait,
			[]Until{{Unmount, 0, 0, Blocked, nil, false}}},
		{unique("a^b"), nil, Options{}, Detach, []Until{{Backoff, 500 * time.Millisecond, 122 * time.Second, Detach, nil, false},
			{MaxWaitForUnmount, 6 * time.Minute, 10*time.Minute + 2*time.Second, ForceDetach, nil, false}}},
		{"kubernetes.io/fc/[w]", nil, Options{}, Detach, nil},
	}
	for _, test := range tests {
		w := NewWorld(snapshotOf(snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", append(slices.Clone(test.edits), lists(test.name))...)}}), test.options)
		d := w.Reconcile().Decision(VolumeNode{test.name, "n1"})
		if diff := cmp.Diff(test.want, d.Until); diff != "" || d.Verb != test.verb {
			t.Errorf("%s: %s, %s", test.name, d.Verb, diff)
		}
	}
}

// TestUntilOfFlexvolumes: nothing bounds how long a driver on the controller's host takes.
func TestUntilOfFlexvolumes(t *testing.T) {
	pv := newPV("v", source(corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "vendor/driver"}}))
	s := snapshotOf(snapshot.Objects{
		Nodes:   []*corev1.Node{newNode("n1"), newNode("n2", notReady, lists("vendor/driver/v"), uses("vendor/driver/v"))},
		Volumes: []*corev1.PersistentVolume{pv}, Claims: []*corev1.PersistentVolumeClaim{newClaim("v")},
		Pods: []*corev1.Pod{newPod("p", "n1", []string{"v"})},
	})
	d := NewWorld(s, Options{FlexAttachable: []string{"vendor/driver"}}).Reconcile().Decision(VolumeNode{"vendor/driver/v", types.NodeName("n1")})
	if diff := cmp.Diff([]Until{{HolderLeaves, 0, 0, Attach, nil, false}}, d.Until); diff != "" {
		t.Error(diff)
	}
}
