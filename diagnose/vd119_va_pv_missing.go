package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var vaPVMissing = Check{
	Code:     "VD119",
	Name:     "va-pv-missing",
	Title:    "A VolumeAttachment names a persistent volume that does not exist",
	Severity: Warning,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments},
	Run:      runVAPVMissing,
}

func runVAPVMissing(p *Pass) {
	for _, va := range p.Snapshot.VolumeAttachments {
		pv := volumeName(va)
		if pv == "" || p.Snapshot.Volume(pv) != nil || p.Age(va.CreationTimestamp) < listsSettle {
			continue
		}
		if p.leftWithoutVolume(va) {
			p.vaPVMissing(va, pv)
		}
	}
}

// leftWithoutVolume says that the attachment outlives its volume. In the
// ordinary course it goes first: the attacher's finalizer keeps the volume. But
// the volumes are read after the attachments, and a detach may end in between.
func (p *Pass) leftWithoutVolume(va *storagev1.VolumeAttachment) bool {
	switch {
	case notFound(va.Status.AttachError, volumeName(va)) || notFound(va.Status.DetachError, volumeName(va)):
		return true // the attacher has looked for it, too
	case va.DeletionTimestamp != nil && !attacherHolds(va):
		return false // detached; what else holds the object is its owner's
	case len(p.claimsNaming(volumeName(va))) > 0:
		return true // a volume that is deleted as it should be goes after its claim
	case va.DeletionTimestamp != nil:
		return p.Age(*va.DeletionTimestamp) >= stuckDeleting
	}
	// Nobody detaches it. A detach that began as the lists were read has just
	// taken the volume off the node's list.
	_, reported := p.nodeHandle(va)
	if reported || p.Age(va.CreationTimestamp) < danglingSettles {
		return false
	}
	node := p.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	if node == nil {
		return true
	}
	_, written := volumesAttachedWriter(node)
	return written.IsZero() || p.Age(written) >= listsSettle
}

// notFound says that the attacher did not find the PV of that name.
func notFound(failure *storagev1.VolumeError, pv string) bool {
	return failure != nil && containsAny(failure.Message, "persistentvolume") && strings.Contains(failure.Message, fmt.Sprintf("%q not found", pv))
}

func (p *Pass) vaPVMissing(va *storagev1.VolumeAttachment, pv string) {
	object := "volumeattachment/" + va.Name
	f := Finding{
		Subject:          vaObject(va),
		Node:             types.NodeName(va.Spec.NodeName),
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Since:            &va.CreationTimestamp,
		Message: fmt.Sprintf("The VolumeAttachment of volume %s on node %s is left over: there is no such volume any more",
			pv, va.Spec.NodeName),
		Cause: "the volume's finalizers were taken off, or its object was deleted from a backup or by a program, while it was still attached",
		Evidence: []Evidence{
			{"persistentvolume/" + pv, "metadata.name", "there is no such object"},
			{object, "status.attached", fmt.Sprint(va.Status.Attached)},
			{object, "metadata.finalizers", fmt.Sprint(va.Finalizers)},
		},
		SelfHeals: SelfHeals{Because: "the attacher looks the volume up before it asks the driver, and the controller passes over an attachment " +
			"whose volume is missing"},
		Advice: "see at the storage system whether the disk is still attached to the node, and detach it there if nothing on the node has it mounted; " +
			"only then take the attacher's finalizer off and delete the object: no driver is asked when you do",
	}
	if va.DeletionTimestamp != nil {
		f.Since = va.DeletionTimestamp
		f.Message += ", and without it the attacher cannot detach what is attached"
		f.Evidence = append(f.Evidence, Evidence{object, "metadata.deletionTimestamp", stamp(*va.DeletionTimestamp)})
	}
	if !attacherHolds(va) {
		f.Advice = "nothing holds the object: once no pod on the node uses the disk and the storage system shows it detached, delete it"
	}
	if failure := va.Status.DetachError; failure != nil {
		f.Evidence = append(f.Evidence, Evidence{object, "status.detachError", fmt.Sprintf("%s at %s", failure.Message, stamp(failure.Time))})
	}
	if name, ok := p.nodeHandle(va); ok {
		f.Evidence = append(f.Evidence, Evidence{"node/" + va.Spec.NodeName, "status", "the disk is " + string(name) + ", which gives the VolumeAttachment its name"})
	}
	if users := p.usersByName(pv, va.Spec.NodeName); len(users) > 0 {
		f.Severity, f.Pods = Error, podNames(users)
		f.Message += fmt.Sprintf("; pod %s on that node uses its claim", podName(users[0]))
		f.Advice = "leave the VolumeAttachment alone while the pod has the disk mounted; save its data first, then end the pod. " + f.Advice
	}
	p.Report(f)
}

// usersByName are the pods on the node whose claims name the volume, the
// longest first, whether or not there is such a volume.
func (p *Pass) usersByName(pv, node string) []*corev1.Pod {
	var users []*corev1.Pod
	for _, claim := range p.claimsNaming(pv) {
		for _, pod := range p.claimUsers(claim) {
			if pod.Spec.NodeName == node && !slices.Contains(users, pod) && !reconcile.PodTerminated(pod) {
				users = append(users, pod)
			}
		}
	}
	longestFirst(users)
	return users
}
