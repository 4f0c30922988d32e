package repair

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// nodeStatusGuards make sure that a new entry in volumesAttached is true, that the controller
// agrees, and that no other node has the volume. They are in the order in which a person
// would ask.
var nodeStatusGuards = []Guard{
	controllerGuard,
	findingGuard,
	sameNodeGuard,
	nodeReadyGuard,
	nodeManagedGuard,
	nodeInServiceGuard,
	inUseGuard,
	entryMissingGuard,
	wantedGuard,
	attachRequiredGuard,
	driverOnNodeGuard,
	attachedGuard,
	noAttachErrorGuard,
	sameMachineGuard,
	nodeIDGuard,
	notElsewhereGuard,
	controllerKeepsItGuard,
}

// nodeOf is the finding's node. It is empty where the node no longer exists: then only the
// guard about that refuses.
func nodeOf(v *View, r *Repair) *corev1.Node {
	if node := v.Snapshot.Node(r.Finding.Node); node != nil {
		return node
	}
	return &corev1.Node{}
}

// checkSameNode: a node that was deleted and registered again has another UID, and is not the
// node that was reviewed.
func checkSameNode(v *View, r *Repair) error {
	if err := checkSame(v, r, "node"); err != nil {
		return err
	}
	if node := nodeOf(v, r); node.DeletionTimestamp != nil {
		return fmt.Errorf("node %s is being deleted", node.Name)
	}
	return nil
}

// checkNodeReady: only a kubelet that is alive can use the entry, and from a node that is not
// Ready the controller detaches by force.
func checkNodeReady(v *View, r *Repair) error {
	if !reconcile.NodeReady(nodeOf(v, r)) {
		return fmt.Errorf("node %s is not Ready", r.Finding.Node)
	}
	return nil
}

// checkNodeManaged: on a node that it does not manage, the controller does not look at the
// pods.
func checkNodeManaged(v *View, r *Repair) error {
	if !v.World.Managed.Has(r.Finding.Node) {
		return fmt.Errorf("node %s is not managed by the attach/detach controller", r.Finding.Node)
	}
	return nil
}

// checkNodeInService: with the taint the controller detaches whatever the node reports.
func checkNodeInService(v *View, r *Repair) error {
	if reconcile.OutOfService(nodeOf(v, r)) {
		return fmt.Errorf("node %s carries the taint %s", r.Finding.Node, corev1.TaintNodeOutOfService)
	}
	return nil
}

// checkInUse: only a kubelet that reports the volume in use waits for the entry.
func checkInUse(v *View, r *Repair) error {
	if !v.Facts.InUse(nodeOf(v, r), r.Finding.Volume) {
		return fmt.Errorf("the kubelet of node %s does not report the volume in use", r.Finding.Node)
	}
	return nil
}

func checkEntryMissing(v *View, r *Repair) error { return notListedOn(v, r, r.Finding.Node) }

func notListedOn(v *View, r *Repair, name types.NodeName) error {
	if node := v.Snapshot.Node(name); node != nil && v.Facts.Lists(node, r.Finding.Volume) {
		return fmt.Errorf("volumesAttached of node %s lists the volume", name)
	}
	return nil
}

// checkWanted: a pod that is being deleted does not need the entry, and once the pod is gone
// the controller no longer wants the volume there.
func checkWanted(v *View, r *Repair) error {
	if row := v.World.Desired.Find(r.Finding.Pair()); row != nil && !facts.AllDeleting(v.Facts.WantingPods(row)) {
		return nil
	}
	return fmt.Errorf("no pod that stays on node %s wants the volume", r.Finding.Node)
}

func checkAttachRequired(v *View, r *Repair) error {
	driver, _, ok := csiOf(v, r.Finding)
	if !ok {
		return fmt.Errorf("%s is not a CSI volume", r.Finding.Volume)
	}
	if !v.Facts.AttachRequired(driver) {
		return fmt.Errorf("volumes of driver %s are not attached at all (attachRequired: false)", driver)
	}
	return nil
}

// checkDriverOnNode: without the driver the kubelet could not mount anyway.
func checkDriverOnNode(v *View, r *Repair) error {
	driver, _, _ := csiOf(v, r.Finding)
	if _, ok := v.Facts.NodeID(r.Finding.Node, driver); !ok {
		return fmt.Errorf("driver %q is not registered on node %s", driver, r.Finding.Node)
	}
	return nil
}

// attachmentOf is the VolumeAttachment with the name that the controller computes. It is empty
// where there is none: then only the guard about that refuses.
func attachmentOf(v *View, r *Repair) *storagev1.VolumeAttachment {
	if driver, handle, ok := csiOf(v, r.Finding); ok {
		if va := v.Snapshot.VolumeAttachment(reconcile.VolumeAttachmentName(handle, driver, r.Finding.Node)); va != nil {
			return va
		}
	}
	return &storagev1.VolumeAttachment{}
}

// checkAttached: an entry for a volume that is not attached would let the
// kubelet use a device that is not there.
func checkAttached(v *View, r *Repair) error {
	va := attachmentOf(v, r)
	driver, _, _ := csiOf(v, r.Finding)
	switch {
	case va.Name == "":
		return errors.New("the VolumeAttachment that the controller would make does not exist")
	case va.DeletionTimestamp != nil:
		return fmt.Errorf("VolumeAttachment %s is being deleted", va.Name)
	case va.Spec.Attacher != driver:
		return fmt.Errorf("VolumeAttachment %s belongs to attacher %q, not to driver %q", va.Name, va.Spec.Attacher, driver)
	case va.Spec.NodeName != string(r.Finding.Node):
		return fmt.Errorf("VolumeAttachment %s is for node %s", va.Name, va.Spec.NodeName)
	case !attachmentIsFor(v, va, r):
		return fmt.Errorf("VolumeAttachment %s is for another volume", va.Name)
	case !va.Status.Attached:
		return fmt.Errorf("VolumeAttachment %s is not attached", va.Name)
	}
	return nil
}

// checkNoAttachError: with an attachError the attacher itself contradicts status.attached.
func checkNoAttachError(v *View, r *Repair) error {
	va := attachmentOf(v, r)
	if e := va.Status.AttachError; e != nil {
		return fmt.Errorf("VolumeAttachment %s has an attachError: %s", va.Name, e.Message)
	}
	if e := va.Status.DetachError; e != nil {
		return fmt.Errorf("VolumeAttachment %s has a detachError: %s", va.Name, e.Message)
	}
	return nil
}

// checkSameMachine: a VolumeAttachment that is older than the node's registration may be
// about another machine of that name, which may still have the volume.
func checkSameMachine(v *View, r *Repair) error { return notOlderThanNode(v, attachmentOf(v, r)) }

func notOlderThanNode(v *View, va *storagev1.VolumeAttachment) error {
	node := v.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	if node != nil && va.CreationTimestamp.Before(&node.CreationTimestamp) {
		return fmt.Errorf("VolumeAttachment %s is older than node %s: it may be about another machine of that name", va.Name, node.Name)
	}
	return nil
}

// checkNodeID: the attacher must have published the volume to the machine by which the driver
// on this node now identifies it.
func checkNodeID(v *View, r *Repair) error {
	if was, is, differ := v.Facts.OtherMachine(attachmentOf(v, r)); differ {
		return fmt.Errorf("the volume was published to %q, but node %s is %q to the driver", was, r.Finding.Node, is)
	}
	return nil
}

// checkControllerKeepsIt: a controller that starts now must decide in agreement with the
// entry, or the entry would soon be wrong.
func checkControllerKeepsIt(v *View, r *Repair) error {
	d := v.Plan.Decision(r.Finding.Pair())
	switch {
	case d == nil:
		return errors.New("the controller does not know the volume on this node")
	case d.Verb != reconcile.Keep && d.Verb != reconcile.Attach:
		return fmt.Errorf("the controller's next step for it is %s (%s)", d.Verb, d.Reason)
	case len(d.Contenders) > 1:
		return fmt.Errorf("several nodes want the volume, and the controller may serve any of them: %s", joined(d.Contenders))
	}
	return nil
}

func joined(nodes []types.NodeName) string {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, string(node))
	}
	return strings.Join(names, ", ")
}
