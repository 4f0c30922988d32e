package chaos_test

import (
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// story is the fault in a world.
type story string

const (
	// lostEntry is for patch-node-status: a volume is in use and attached, and
	// volumesAttached does not list it.
	lostEntry story = "lost entry"
	// usedElsewhere is lostEntry, but another node has the volume mounted without the
	// cluster's knowledge. That node's kubelet reports it.
	usedElsewhere story = "used elsewhere"
	// otherMachine is lostEntry, but the node is by now another machine than the one to which
	// the volume is attached.
	otherMachine story = "another machine"
	// refusedDetach is for nudge: the driver refuses to detach a volume, and a pod
	// waits for it on the same node.
	refusedDetach story = "refused detach"
	// forgotten is for delete-attachment: a volume is attached where nobody wants it, and the
	// controller does not know of it.
	forgotten story = "forgotten attachment"
	// nodeOff is for delete-fenced-attachment: a node has failed, a pod on another
	// waits for its volume, and the user says that the machine is off.
	nodeOff story = "node that is off"
	// nodeLost is nodeOff, but the user does not say so, and the machine is on.
	nodeLost story = "lost node"
	// orphan is for unpublish-orphan: the storage system has the volume on a node without any
	// record in the cluster, and a pod on another node waits for it.
	orphan story = "orphaned volume"
	// phantom is for prune-node-status: volumesAttached lists a volume that has no
	// VolumeAttachment, and that nobody wants.
	phantom story = "phantom entry"
	// stuckPod is for out-of-service-taint: the pod of a StatefulSet is Terminating on
	// a node that is off.
	stuckPod story = "stuck pod"
)

// check is the name of the check that finds the story.
func (s story) check() string {
	switch s {
	case refusedDetach:
		return "reuse-while-detaching"
	case forgotten:
		return "dangling-after-kcm-restart"
	case nodeOff, nodeLost:
		return "node-lost-6min"
	case orphan:
		return "orphan-backend-attachment"
	case phantom:
		return "attached-phantom"
	case stuckPod:
		return "sts-terminating-on-dead-node"
	}
	return "inuse-not-attached"
}

// detaches reports whether the repair has the driver detach a volume.
func (s story) detaches() bool {
	return s == forgotten || s == nodeOff || s == nodeLost || s == orphan
}

// allow is the kind of repair that the user must allow.
func (s story) allow() repair.Kind {
	switch s {
	case orphan:
		return repair.UnpublishOrphan
	case stuckPod:
		return repair.OutOfServiceTaint
	}
	return ""
}

// fences reports whether the user tells the doctor that the node is off.
func (s story) fences() bool { return s == nodeOff || s == stuckPod }

// holdFor is how long a repair must hold. Where another attach must follow, the attacher may
// take 5 s to try it again.
func (s story) holdFor() time.Duration {
	if s == orphan {
		return 8 * time.Second
	}
	return 2 * time.Second
}

// looksFor is the time between the two looks of the doctor. Where the driver must refuse
// twice in that time, its attacher pauses for at most 5 s.
func (s story) looksFor() time.Duration {
	if s == orphan {
		return 15 * time.Second
	}
	return time.Second
}

// age is how much older a world is made than it is: some checks wait that long before they
// believe what they see. A refusal of the driver must not look older than 10 min.
func (s story) age() time.Duration {
	switch {
	case s == orphan:
		return 9 * time.Minute
	case s.detaches() || s == phantom || s == stuckPod:
		return 10 * time.Minute
	}
	return 0
}

// refuses are the words with which the doctor refuses to change a world of the story.
func (s story) refuses() string {
	switch s {
	case usedElsewhere:
		return "-other lists the volume"
	case otherMachine:
		return "to the driver"
	case nodeLost:
		return "make sure that the machine behind"
	}
	return ""
}
