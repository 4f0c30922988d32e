package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestActual has a case for each way into the actual state of the world.
func TestActual(t *testing.T) {
	v := unique("v")
	pv := func() []*corev1.PersistentVolume { return []*corev1.PersistentVolume{newPV("v")} }
	attachment := func(node string, edits ...func(*storagev1.VolumeAttachment)) []*storagev1.VolumeAttachment {
		return []*storagev1.VolumeAttachment{newAttachment("v", node, edits...)}
	}
	tests := []struct {
		name    string
		objects snapshot.Objects
		want    []string
	}{
		{"node status", snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", lists(v))}},
			[]string{"v n1 Attached"}},
		{"node status, in use", snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", lists(v), uses(v))}},
			[]string{"v n1 Attached mounted"}},
		{"node status of an unmanaged node", snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", unmanaged, lists(v))}},
			[]string{"v n1 Attached"}},
		{"in use only", snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", uses(v))}}, nil},
		{"VolumeAttachment", snapshot.Objects{Nodes: []*corev1.Node{newNode("n1")}, Volumes: pv(), VolumeAttachments: attachment("n1")},
			[]string{"v n1 Uncertain mounted assumed spec attachment"}},
		{"VolumeAttachment, in use", snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", uses(v))}, Volumes: pv(), VolumeAttachments: attachment("n1")},
			[]string{"v n1 Uncertain mounted spec attachment"}},
		{"VolumeAttachment for no node", snapshot.Objects{Volumes: pv(), VolumeAttachments: attachment("gone")},
			[]string{"v gone Uncertain mounted assumed spec attachment"}},
		{"VolumeAttachment by another name", snapshot.Objects{Volumes: pv(), VolumeAttachments: attachment("n1", func(va *storagev1.VolumeAttachment) { va.Name = "by-hand" })},
			[]string{"v n1 Uncertain mounted assumed spec attachment"}},
		{"node status and VolumeAttachment", snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", lists(v))}, Volumes: pv(), VolumeAttachments: attachment("n1")},
			[]string{"v n1 Attached attachment"}},
		{"a spec is every node's", snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", lists(v))}, Volumes: pv(), VolumeAttachments: attachment("n2")},
			[]string{"v n1 Attached spec", "v n2 Uncertain mounted assumed spec attachment"}},
		{"a pod that has ended gives its spec", snapshot.Objects{
			Nodes: []*corev1.Node{newNode("n1", unmanaged, lists(v))}, Volumes: pv(), Claims: []*corev1.PersistentVolumeClaim{newClaim("v")},
			Pods: []*corev1.Pod{newPod("p", "n1", []string{"v"}, phase(corev1.PodFailed))},
		}, []string{"v n1 Attached spec"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, r := range NewWorld(snapshotOf(test.objects), Options{}).Actual.Items() {
				_, handle, _ := ParseCSI(r.Volume)
				line := fmt.Sprintf("%s %s %s", handle, r.Node, r.State)
				for _, word := range []struct {
					is   bool
					name string
				}{{r.MountedByNode, " mounted"}, {r.AssumedMounted, " assumed"}, {r.Spec != nil, " spec"}, {r.Attachment != nil, " attachment"}} {
					if word.is {
						line += word.name
					}
				}
				got = append(got, line)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDevicePath: the nodes of a volume share its device path. The last node's wins, and a
// VolumeAttachment has none.
func TestDevicePath(t *testing.T) {
	v := unique("v")
	path := func(p string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.VolumesAttached[0].DevicePath = p }
	}
	objects := snapshot.Objects{Nodes: []*corev1.Node{newNode("n1", lists(v), path("/a")), newNode("n2", lists(v), path("/b"))}}
	w := NewWorld(snapshotOf(objects), Options{})
	if got := w.Actual.Find(VolumeNode{v, "n1"}).DevicePath; got != "/b" {
		t.Errorf("path %q", got)
	}
	objects.Volumes = []*corev1.PersistentVolume{newPV("v")}
	objects.VolumeAttachments = []*storagev1.VolumeAttachment{newAttachment("v", "n3")}
	w = NewWorld(snapshotOf(objects), Options{})
	if got := w.Actual.Find(VolumeNode{v, "n1"}).DevicePath; got != "" {
		t.Errorf("path %q although a VolumeAttachment came later", got)
	}
}

// TestSkipped has a case for each reason why a pod does not get its volume.
func TestSkipped(t *testing.T) {
	type objects = snapshot.Objects
	tests := []struct {
		reason SkipReason
		spoil  func(*objects)
	}{
		{"", func(*objects) {}},
		{"", func(o *objects) { o.Claims[0].DeletionTimestamp = &metav1.Time{} }},
		{"", func(o *objects) { o.Nodes[0].Annotations[ManagedAnnotation] = "false" }},
		{"", func(o *objects) { notReady(o.Nodes[0]) }},
		{PodEnded, func(o *objects) { o.Pods[0].Status.Phase = corev1.PodSucceeded }},
		{NodeNotFound, func(o *objects) { o.Nodes = nil }},
		{NodeNotManaged, func(o *objects) { unmanaged(o.Nodes[0]) }},
		{ClaimNotFound, func(o *objects) { o.Claims = nil }},
		{ClaimNotBound, func(o *objects) { o.Claims[0].Status.Phase = corev1.ClaimLost }},
		{ClaimNotBound, func(o *objects) { o.Claims[0].Spec.VolumeName = "" }},
		{VolumeNotFound, func(o *objects) { o.Volumes = nil }},
		{VolumeNotClaimed, func(o *objects) { o.Volumes[0].Spec.ClaimRef = nil }},
		{ClaimRefMismatch, func(o *objects) { o.Volumes[0].Spec.ClaimRef.UID = "" }},
		{NoVolumeName, func(o *objects) { source(corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{}})(o.Volumes[0]) }},
		{NotAttachable, func(o *objects) { source(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}})(o.Volumes[0]) }},
	}
	for i, test := range tests {
		t.Run(fmt.Sprint(i, test.reason), func(t *testing.T) {
			o := objects{
				Nodes: []*corev1.Node{newNode("n1")}, Volumes: []*corev1.PersistentVolume{newPV("v")},
				Claims: []*corev1.PersistentVolumeClaim{newClaim("v")}, Pods: []*corev1.Pod{newPod("p", "n1", []string{"v"})},
			}
			test.spoil(&o)
			w := NewWorld(snapshotOf(o), Options{})
			var got []SkipReason
			for _, s := range w.Skipped {
				if s.Message == "" || s.PodVolume != "v" {
					t.Errorf("skipped %+v", s)
				}
				got = append(got, s.Reason)
			}
			if wanted := len(w.Desired.Items()) == 1; wanted != (test.reason == "") || wanted != (len(got) == 0) || !wanted && got[0] != test.reason {
				t.Errorf("skipped %v, desired %v", got, w.Desired.Items())
			}
		})
	}
}

// TestEphemeral is about claims that belong to one pod.
func TestEphemeral(t *testing.T) {
	for _, owner := range []types.UID{"p", "other"} {
		pod := newPod("p", "n1", nil, inline(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}))
		claim := newClaim("v", func(c *corev1.PersistentVolumeClaim) {
			c.Name = "p-inline"
			c.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: new(true)}}
		})
		w := NewWorld(snapshotOf(snapshot.Objects{
			Nodes: []*corev1.Node{newNode("n1")}, Pods: []*corev1.Pod{pod},
			Claims: []*corev1.PersistentVolumeClaim{claim}, Volumes: []*corev1.PersistentVolume{newPV("v")},
		}), Options{})
		if wanted := w.Desired.Find(VolumeNode{unique("v"), "n1"}) != nil; wanted != (owner == "p") {
			t.Errorf("owner %s: wanted %v, skipped %v", owner, wanted, w.Skipped)
		}
	}
}

// TestSkippedAttachments has a case for each reason why the controller does not recover a
// VolumeAttachment.
func TestSkippedAttachments(t *testing.T) {
	tests := []struct {
		reason SkipReason
		pv     func(*corev1.PersistentVolume)
		va     func(*storagev1.VolumeAttachment)
	}{
		{InlineVolumeSpecified, nil, func(va *storagev1.VolumeAttachment) { va.Spec.Source.PersistentVolumeName = nil }},
		{VolumeNotFound, nil, func(va *storagev1.VolumeAttachment) { va.Spec.Source.PersistentVolumeName = new("gone") }},
		{NotAttachable, source(csiSource("optional", "h")), nil},
		{NoVolumeName, source(corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{}}), nil},
		{TranslationFailed, source(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://x/y"}}), nil},
	}
	for _, test := range tests {
		va := newAttachment("v", "n1")
		if test.va != nil {
			test.va(va)
		}
		pv := newPV("v")
		if test.pv != nil {
			test.pv(pv)
		}
		w := NewWorld(snapshotOf(snapshot.Objects{
			CSIDrivers: drivers(), Volumes: []*corev1.PersistentVolume{pv}, VolumeAttachments: []*storagev1.VolumeAttachment{va},
		}), Options{})
		if len(w.Actual.Items()) != 0 || len(w.Skipped) != 1 || w.Skipped[0].Reason != test.reason || w.Skipped[0].VolumeAttachment != va.Name {
			t.Errorf("%s: actual %v, skipped %v", test.reason, w.Actual.Items(), w.Skipped)
		}
		if _, err := w.AttachmentVolume(va); reasonOf(err) != test.reason {
			t.Errorf("%s: AttachmentVolume says %v", test.reason, err)
		}
	}
	// A migrated volume's driver is not asked whether it attaches.
	w := NewWorld(snapshotOf(snapshot.Objects{
		CSIDrivers:        []*storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}}},
		Volumes:           []*corev1.PersistentVolume{newPV("v", source(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}))},
		VolumeAttachments: []*storagev1.VolumeAttachment{newAttachment("v", "n1")},
	}), Options{})
	if w.Actual.Find(VolumeNode{"kubernetes.io/csi/ebs.csi.aws.com^vol-1", "n1"}) == nil {
		t.Errorf("skipped %v", w.Skipped)
	}
}

func phase(p corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = p }
}
