package trace_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestNodeGone: a pod whose node does not exist waits in the same stage for the same actor whether
// or not the node's CSINode is left.
func TestNodeGone(t *testing.T) {
	for _, attaches := range []bool{true, false} {
		for _, left := range []bool{true, false} {
			w := testworld.New().Pending(9).Unattached()
			w.Nodes, w.CSIDrivers[0].Spec.AttachRequired = w.Nodes[1:], &attaches
			if !left {
				w.CSINodes = w.CSINodes[1:]
			}
			want := "listed"
			if !attaches {
				want = "driverRegistered"
			}
			if v := traceOf(w).Verdict; string(v.Stage) != want || v.Actor != "the pod garbage collector" {
				t.Errorf("it attaches: %v, the CSINode is left: %v: %s, stage %s", attaches, left, v.Message, v.Stage)
			}
		}
	}
}

// TestUnreadNodeMayHold: where not all nodes could be read, another one may have the volume, so that
// nobody is named for an attach that does not begin. A node takes no shared volume from another.
func TestUnreadNodeMayHold(t *testing.T) {
	for name, tt := range map[string]struct {
		shared, whole bool
		want          string
	}{
		"one node at a time, unread":   {false, false, ""},
		"one node at a time, all read": {false, true, "a person, as no controller ends it"},
		"many nodes, unread":           {true, false, "a person, as no controller ends it"},
	} {
		w := testworld.New().Pending(9).Unattached()
		w.Node.Annotations = nil // no controller attaches to it
		if tt.shared {
			w.Volumes[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}
		if !tt.whole {
			w.Without(snapshot.Nodes)
		}
		if v := traceOf(w).Verdict; v.Actor != tt.want {
			t.Errorf("%s: %s", name, v.Message)
		}
	}
}

// TestUnmountOnUnreadNode: the kubelet of a node that was not read may be silent, or busy with another of the pod's
// volumes, so that nobody is named for an unmount.
func TestUnmountOnUnreadNode(t *testing.T) {
	for _, whole := range []bool{true, false} {
		w := testworld.New().Stopped(9)
		w.CSIDrivers[0].Spec.AttachRequired = new(bool)
		want := "CSI driver ebs.csi.aws.com on n1"
		if !whole {
			w.Nodes, want = nil, ""
			w.Without(snapshot.Nodes)
		}
		if v := traceOf(w).Verdict; v.Actor != want || v.Stage != "unmounted" {
			t.Errorf("the nodes were read: %v: %s, stage %s", whole, v.Message, v.Stage)
		}
	}
}

// TestRowsBesideGap: beside a gap, a row tells who has to act and since when only where the pod waits. A stage that
// an unread event may show to be blocked is unknown.
func TestRowsBesideGap(t *testing.T) {
	for _, whole := range []bool{true, false} {
		w := testworld.New().Pending(9)
		if !whole {
			w.Without(snapshot.Events)
		}
		for _, v := range traceOf(w).Known().Volumes {
			for _, s := range v.Stages {
				isKnown := s.On != "" && s.Since != nil
				if s.Stage == "mounted" && (isKnown != whole || (s.State == "unknown") == whole) {
					t.Errorf("the events were read: %v: %+v", whole, s)
				}
			}
		}
	}
}

// TestAttacherMayBeGone: a driver that refuses the attach because another node has the volume waits for the pod
// there. Where the leases were not read, its attacher may be gone, and then nobody asks the driver again: nobody is
// named, unless the attacher has passed on an answer a moment ago.
func TestAttacherMayBeGone(t *testing.T) {
	for name, tt := range map[string]struct {
		answered float64
		whole    bool
		want     string
	}{
		"the leases were read":              {5, true, "pod default/old"},
		"they were not":                     {5, false, ""},
		"they were not, and it lives":       {0.1, false, "pod default/old"},
		"they were read, and it has spoken": {0.1, true, "pod default/old"},
	} {
		w := testworld.New().Pending(9)
		w.Node.Status.VolumesAttached = nil
		w.Pods = append(w.Pods, testworld.NewPod("old", "n2"))
		w.VolumeAttachments = append(w.VolumeAttachments, testworld.NewAttachment("n2"))
		w.VolumeAttachments[0].Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{
			Time: testworld.MinutesAgo(tt.answered), Message: "rpc error: code = FailedPrecondition desc = volume vol-1 is already attached to i-n2"}}
		if !tt.whole {
			w.Without(snapshot.Leases)
		}
		if v := traceOf(w).Verdict; v.Actor != tt.want {
			t.Errorf("%s: %s", name, v.Message)
		}
	}
}
