package attached

import (
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var VaPVMissing = check.Check{
	Code:     "VD119",
	Name:     "va-pv-missing",
	Title:    "A VolumeAttachment names a persistent volume that does not exist",
	Severity: finding.Warning,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments},
	Follows: []check.Relation{
		{From: []finding.Code{"VD504", "VD514"}, Share: check.OfVolume, Match: sameMissingVolume},
	},
	Never: "take the finalizer off before the storage system shows the disk detached: no driver is asked",
	Run:   runVAPVMissing,
}

func runVAPVMissing(p *check.Run) {
	for _, va := range p.Snapshot.VolumeAttachments {
		pv := facts.VolumeName(va)
		if pv == "" || p.Snapshot.Volume(pv) != nil || p.Age(va.CreationTimestamp) < facts.ListsGrace {
			continue
		}
		if leftWithoutVolume(p.View, va) {
			vaPVMissing(p, va, pv)
		}
	}
}

// leftWithoutVolume reports whether the attachment outlives its volume. Usually the attachment
// goes first, as the attacher's finalizer keeps the volume. But the volumes are read after the
// attachments, and a detach may end in between.
func leftWithoutVolume(p *facts.View, va *storagev1.VolumeAttachment) bool {
	switch {
	case notFound(p.AttachError(va), facts.VolumeName(va)) || notFound(p.DetachError(va), facts.VolumeName(va)):
		return true // the attacher has not found it either
	case va.DeletionTimestamp != nil && !facts.AttacherHolds(va):
		return false // it is detached, and other finalizers are their owners' business
	case len(p.ClaimsNaming(facts.VolumeName(va))) > 0:
		return true // a volume that is deleted properly goes after its claim
	case va.DeletionTimestamp != nil:
		return p.Lasted(*va.DeletionTimestamp, facts.StuckDeleting)
	}
	// Nobody detaches it. A detach that began while the lists were read has just taken the volume
	// off the node's list.
	_, reported := p.NodeHandle(va)
	if reported || p.Age(va.CreationTimestamp) < facts.DanglingGrace {
		return false
	}
	node := p.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	if node == nil {
		return true
	}
	_, written := facts.VolumesAttachedWriter(node)
	return written.IsZero() || p.Lasted(written, facts.ListsGrace)
}

// notFound reports whether the attacher did not find the PV of that name.
func notFound(failure *storagev1.VolumeError, pv string) bool {
	return failure != nil && facts.ContainsAny(failure.Message, "persistentvolume") && strings.Contains(failure.Message, fmt.Sprintf("%q not found", pv))
}

func vaPVMissing(p *check.Run, va *storagev1.VolumeAttachment, pv string) {
	object := "volumeattachment/" + va.Name
	f := finding.Finding{
		Subject:          facts.VaObject(va),
		Node:             types.NodeName(va.Spec.NodeName),
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Since:            &va.CreationTimestamp,
		Message:          fmt.Sprintf("Volume %s is gone, and its VolumeAttachment on node %s is left", pv, va.Spec.NodeName),
		Cause:            "the volume's finalizers were taken off, or its object was deleted from a backup or by a program, while it was still attached",
		Evidence: []finding.Evidence{
			{Object: "persistentvolume/" + pv, Field: "metadata.name", Value: "there is no such object"},
			{Object: object, Field: "status.attached", Value: fmt.Sprint(va.Status.Attached)},
			{Object: object, Field: "metadata.finalizers", Value: fmt.Sprint(va.Finalizers)},
		},
		SelfHeals: finding.SelfHeals{Because: "nobody handles it without its volume; the attacher looks the volume up before it asks the driver, " +
			"and the controller passes over the attachment"},
	}
	if va.DeletionTimestamp == nil && !facts.AttacherHolds(va) {
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: "nothing holds the VolumeAttachment; a controller that has known it since before the volume went " +
			"deletes it once no pod there needs the volume, and one that has started since passes over it"}
	}
	if va.DeletionTimestamp != nil {
		f.Since = va.DeletionTimestamp
		f.Detail = "without the volume the attacher cannot detach what is attached"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: object, Field: "metadata.deletionTimestamp", Value: facts.Stamp(*va.DeletionTimestamp)})
	}
	if failure := p.DetachError(va); failure != nil {
		f.Evidence = append(f.Evidence, facts.FailedDetach(va, failure))
	}
	if name, ok := p.NodeHandle(va); ok {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + va.Spec.NodeName, Field: "status", Value: "the disk is " + string(name) + ", which gives the VolumeAttachment its name"})
	} else if _, err := handleOf(p.View, va); err != nil {
		facts.Also(&f, "no object has the handle of its disk")
	}
	f.Advice, f.AdviceCommands = vaPVMissingAdvice(p.View, va, pv)
	if users := p.UsersByName(pv, va.Spec.NodeName); len(users) > 0 {
		f.Severity, f.Pods = finding.Error, facts.PodNames(users)
		facts.Also(&f, "pod %s on that node uses its claim", facts.PodName(users[0]))
		f.Never = "touch the VolumeAttachment while the pod has the disk mounted"
	}
	p.Report(f)
}

func sameMissingVolume(p *facts.View, cause, effect finding.Finding) bool {
	return cause.PersistentVolume == effect.PersistentVolume && p.Snapshot.Volume(cause.PersistentVolume) == nil
}
