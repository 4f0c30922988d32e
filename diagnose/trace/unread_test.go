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

// TestBrokenMountBesideGap: the row of a mount with which a container cannot be started names the kubelet, and no
// other row names anybody, whether or not the node was read.
func TestBrokenMountBesideGap(t *testing.T) {
	for _, whole := range []bool{true, false} {
		w := testworld.New().Pending(20)
		w.CSIDrivers[0].Spec.AttachRequired, w.Claims[0].Status.Phase = new(bool), corev1.ClaimLost
		w.Waiting("CreateContainerError")
		w.Pod.Status.ContainerStatuses[0].State.Waiting.Message = "/var/lib/kubelet/pods/" + string(w.Pod.UID) + "/volumes/kubernetes.io~csi/pv-data/mount: transport endpoint is not connected"
		if !whole {
			w.Nodes = nil
			w.Without(snapshot.Nodes)
		}
		known := traceOf(w).Known()
		if known.Verdict.Reason != "MountBroken" {
			t.Errorf("the nodes were read: %v: %+v", whole, known.Verdict)
		}
		for _, s := range known.Volumes[0].Stages {
			if want := map[string]string{"mounted": known.Verdict.Actor}[string(s.Stage)]; s.On != want {
				t.Errorf("the nodes were read: %v: %+v, want %q", whole, s, want)
			}
		}
	}
}

// TestAttacherMayBeGone: a driver that refuses the attach because another node has the volume waits for the pod
// there. Where the leases were not read, its attacher may be gone, and then nobody asks the driver again: nobody is
// named, unless the attacher has passed on an answer a moment ago.
func TestAttacherMayBeGone(t *testing.T) {
	for name, tt := range map[string]struct {
		answered       float64
		whole, expired bool
		want           string
	}{
		"the leases were read":              {5, true, false, "pod default/old"},
		"they were not":                     {5, false, false, ""},
		"they were not, and it lives":       {0.1, false, false, "pod default/old"},
		"they were read, and it has spoken": {0.1, true, false, "pod default/old"},
		"its lease has expired":             {5, true, true, "the external-attacher of ebs.csi.aws.com"},
		"... and it has spoken since":       {0.1, true, true, "pod default/old"},
	} {
		w := testworld.New().Pending(9)
		w.Node.Status.VolumesAttached = nil
		w.Pods = append(w.Pods, testworld.NewPod("old", "n2"))
		w.VolumeAttachments = append(w.VolumeAttachments, testworld.NewAttachment("n2"))
		w.VolumeAttachments[0].Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{
			Time: testworld.MinutesAgo(tt.answered), Message: "rpc error: code = FailedPrecondition desc = volume vol-1 is already attached to i-n2"}}
		if tt.expired {
			w.Leases = append(w.Leases, testworld.NewLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", testworld.MinutesAgo(90), testworld.MinutesAgo(5)))
		}
		if !tt.whole {
			w.Without(snapshot.Leases)
		}
		if v := traceOf(w).Verdict; v.Actor != tt.want {
			t.Errorf("%s: %s", name, v.Message)
		}
	}
}

// TestWaitBesideGap: where an object that was not read may show another wait, or another who has to act, the trace
// names neither. Of the whole cluster it does.
func TestWaitBesideGap(t *testing.T) {
	silent := func(w *testworld.World) {
		w.Node.Status.Conditions[0].Status, w.Node.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, testworld.MinutesAgo(20)
	}
	stopped := func(w *testworld.World) { // the attacher
		lease := testworld.NewLease("kube-system", "external-attacher-leader-ebs-csi-aws-com", testworld.MinutesAgo(90), testworld.MinutesAgo(15))
		w.Leases, w.VolumeAttachments[0].Status.Attached, w.Node.Status.VolumesAttached = append(w.Leases, lease), false, nil
	}
	unled := func(w *testworld.World) { // the attacher, which took another VolumeAttachment up half a minute ago
		stopped(w)
		w.VolumeAttachments = append(w.VolumeAttachments, testworld.NewAttachment("n2"))
		w.VolumeAttachments[0].CreationTimestamp, w.VolumeAttachments[0].Finalizers = testworld.MinutesAgo(0.1), nil
		w.VolumeAttachments[1].CreationTimestamp = testworld.MinutesAgo(0.5)
	}
	young := func(w *testworld.World) { // the controller
		w.Leases[0] = testworld.NewLease("kube-system", "kube-controller-manager", testworld.MinutesAgo(1), testworld.MinutesAgo(0))
	}
	held := func(w *testworld.World) { // by a pod that runs on the other node
		w.Node.Status.VolumesAttached = nil
		w.Pods = append(w.Pods, testworld.NewPod("old", "n2"))
		w.VolumeAttachments = append(w.VolumeAttachments, testworld.NewAttachment("n2"))
	}
	for name, tt := range map[string]struct {
		change      func(*testworld.World)
		kind        snapshot.Kind
		whole, less string
	}{
		"the attacher of a silent node's volume has stopped": {func(w *testworld.World) { silent(w); stopped(w) }, snapshot.Leases,
			"stuck attached: the external-attacher of ebs.csi.aws.com", "unknown NodeNotReady: "},
		"... and of a node that was deleted": {func(w *testworld.World) { stopped(w); w.Nodes = w.Nodes[1:] }, snapshot.Leases,
			"stuck attached: the external-attacher of ebs.csi.aws.com", "unknown listed: "},
		"an attacher works without the lease that has expired": {unled, snapshot.VolumeAttachments,
			"in-flight attached: the external-attacher of ebs.csi.aws.com", "unknown attached: "},
		"the controller has just started": {func(w *testworld.World) { silent(w); held(w); young(w) }, snapshot.Leases,
			"none NodeNotReady: ", "unknown NodeNotReady: "},
		"another node has it": {held, snapshot.Nodes, "stuck MultiAttach: pod default/old", "unknown NodeNotRead: "},
		"the mount has failed before the attachment": {func(w *testworld.World) {
			silent(w)
			w.Event("FailedMount", `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = wrong fs type`, 15).SaidAgain()
			w.VolumeAttachments[0].CreationTimestamp, w.VolumeAttachments[0].Status.Attached = testworld.MinutesAgo(0), false
			w.Node.Status.VolumesAttached = nil
		}, snapshot.VolumeAttachments, "none NodeNotReady: ", "unknown NodeNotReady: "},
		"a mode that does not fit": {func(w *testworld.World) {
			w.Volumes[0].Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
			w.VolumeAttachments[0].DeletionTimestamp = new(testworld.MinutesAgo(9))
		}, snapshot.Nodes, "stuck askedFor: a person, as no controller ends it", "unknown attached: "},
		"a claim that is Lost": {func(w *testworld.World) {
			w.Claims[0].Spec.VolumeName, w.Claims[0].Status.Phase = "", corev1.ClaimLost
		}, snapshot.Volumes, "stuck claimBound: a person, as no controller ends it", "stuck claimBound: a person, as no controller ends it"},
		"a claim that was bound to another volume": {func(w *testworld.World) {
			w.Volumes[0].Spec.ClaimRef.UID = "uid-before"
			w.Event("FailedCreatePodSandBox", "Failed to create pod sandbox: plugin failed", 1).SaidAgain()
		}, snapshot.Events, "none Sandbox: ", "unknown claimBound: "},
		"the driver fails, and its kubelet is silent": {func(w *testworld.World) {
			w.Event("FailedMount", `MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = Internal desc = format of disk "/dev/nvme1n1" failed: exit status 1`, 15).SaidAgain()
			w.Leases = append(w.Leases, testworld.NewLease("kube-node-lease", "n1", testworld.MinutesAgo(90), testworld.MinutesAgo(2)))
			w.Node.Status.Conditions[0].LastHeartbeatTime = testworld.MinutesAgo(4)
		}, snapshot.Leases, "stuck staged: the kubelet of n1", "unknown staged: "},
	} {
		for _, isWhole := range []bool{true, false} {
			w, want := testworld.New().Pending(20), tt.whole
			tt.change(w)
			if !isWhole {
				want = tt.less
				w.Without(tt.kind)
				switch tt.kind {
				case snapshot.Leases:
					w.Leases = nil
				case snapshot.Nodes:
					w.Nodes = nil
				case snapshot.VolumeAttachments:
					w.VolumeAttachments = w.VolumeAttachments[:len(w.VolumeAttachments)/2]
				case snapshot.Volumes:
					w.Volumes = nil
				case snapshot.Events:
					w.Events = nil
				}
			}
			if v := traceOf(w).Verdict; string(v.State)+" "+v.Reason+": "+v.Actor != want {
				t.Errorf("%s, all was read: %v: %s %s: %s, want %s\n\t%s", name, isWhole, v.State, v.Reason, v.Actor, want, v.Message)
			}
		}
	}
}

// TestEndedOnUnreadNode: a pod that has ended on a node that was not read may stay because the node is silent, and one
// whose driver may not attach may never have had its volume mounted.
func TestEndedOnUnreadNode(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*testworld.World)
		want   string
	}{
		"all was read": {func(*testworld.World) {}, "stuck unmounted"},
		"not the nodes": {func(w *testworld.World) {
			w.Nodes = nil
			w.Without(snapshot.Nodes)
		}, "unknown NodeNotRead"},
		"it never ran, and its driver does not attach": {func(w *testworld.World) {
			neverRan(w)
			w.CSIDrivers[0].Spec.AttachRequired = new(bool)
		}, "stuck unmounted"},
		"... which is not known": {func(w *testworld.World) {
			neverRan(w)
			w.CSIDrivers = nil
			w.Without(snapshot.CSIDrivers)
		}, "unknown unmounted"},
	} {
		w := testworld.New().Stopped(9)
		w.CSIDrivers[0].Spec.AttachRequired = new(bool)
		tt.change(w)
		if v := traceOf(w).Verdict; string(v.State)+" "+v.Reason != tt.want {
			t.Errorf("%s: %s %s, want %s\n\t%s", name, v.State, v.Reason, tt.want, v.Message)
		}
	}
}

func neverRan(w *testworld.World) {
	w.VolumeAttachments, w.Node.Status = nil, corev1.NodeStatus{Conditions: w.Node.Status.Conditions, NodeInfo: w.Node.Status.NodeInfo}
	w.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	w.Pod.Status.Phase = corev1.PodPending
}
