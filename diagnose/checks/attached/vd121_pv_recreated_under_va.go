package attached

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

var PvRecreatedUnderVA = check.Check{
	Code:        "VD121",
	Name:        "pv-recreated-under-va",
	Title:       "A persistent volume was recreated with another disk while the old disk was attached",
	Severity:    finding.Warning,
	Needs:       check.AttachmentKinds(),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "delete the VolumeAttachment: that detaches the new disk, not the old one",
	Run:         runPVRecreatedUnderVA,
}

func runPVRecreatedUnderVA(p *check.Run) {
	for _, va := range p.Attachments() {
		if volumeRecreated(p.View, va) {
			pvRecreated(p, va)
		}
	}
}

// volumeRecreated reports whether the controller made the attachment for another volume of the
// same name: the attachment is older, and its name is the hash of another handle. A volume that
// is recreated with the same handle does no harm.
func volumeRecreated(p *facts.View, va facts.Attachment) bool {
	pv := p.Snapshot.Volume(facts.VolumeName(va.VolumeAttachment))
	return pv != nil && !va.Ours() && facts.AttachmentName(va.VolumeNode) != "" && facts.ComputedName.MatchString(va.Name) &&
		va.CreationTimestamp.Before(&pv.CreationTimestamp)
}

func pvRecreated(p *check.Run, va facts.Attachment) {
	pv := p.Snapshot.Volume(facts.VolumeName(va.VolumeAttachment))
	f := p.About(va, finding.Finding{
		PersistentVolume: pv.Name,
		Since:            &pv.CreationTimestamp,
		Message:          fmt.Sprintf("Volume %s was made again for another disk while attached to node %s", pv.Name, va.Node),
		Detail:           "its VolumeAttachment was made for the old disk, and the volume now names a new one",
		Cause:            "the volume was deleted past its finalizers and recreated, or restored, with the same name and another handle",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "metadata.creationTimestamp", Value: facts.Stamp(va.CreationTimestamp)},
			{Object: "persistentvolume/" + pv.Name, Field: "metadata.creationTimestamp", Value: facts.Stamp(pv.CreationTimestamp)},
			{Object: "persistentvolume/" + pv.Name, Field: "volume handle", Value: fmt.Sprintf("%s, for which the name would be %s", va.Volume, facts.AttachmentName(va.VolumeNode))},
		},
		SelfHeals: finding.SelfHeals{Because: "the controller never looks for this object; it looks for the name that the new handle gives"},
		Advice:    "{check} make sure that nothing on the node has the old disk mounted; only then {final} detach it at the storage system, and leave this object alone",
	})
	node := p.Snapshot.Node(va.Node)
	old, known := p.NodeHandle(va.VolumeAttachment)
	if known {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + string(va.Node), Field: "status", Value: "the old disk is " + string(old)})
	}
	if va.DeletionTimestamp != nil {
		facts.Also(&f, "the deletion of the VolumeAttachment detaches the new disk")
		f.Never = fmt.Sprintf("start a pod with the volume on node %s before its VolumeAttachment is gone: the new disk would be detached under it", va.Node)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*va.DeletionTimestamp)})
	}
	users := p.World.LivePods(va.VolumeNode)
	if len(users) > 0 {
		f.Severity, f.Pods = finding.Error, facts.PodNames(users)
	}
	// A pod that ran before the volume was made has the earlier disk mounted: no mount is removed
	// under a container.
	older := slices.IndexFunc(users, func(pod *corev1.Pod) bool {
		since := facts.RunningSince(pod)
		return !since.IsZero() && since.Before(&pv.CreationTimestamp) && pod.CreationTimestamp.Before(&pv.CreationTimestamp)
	})
	const thereafter = "{final} detach it at the storage system, and leave this object alone"
	switch {
	case older >= 0:
		facts.Also(&f, "pod %s on that node ran before that and has the old disk", facts.PodName(users[older]))
		f.Advice = fmt.Sprintf("{note} save the data of pod %s: the old disk has them, and the volume no longer leads to it. {final} End the pod, and see that node %s no longer "+
			"reports the old disk in use; only then %s", facts.PodName(users[older]), va.Node, thereafter)
		f.Never = "end the pod before its data is safe: its successor gets the new disk"
	case len(users) > 0:
		facts.Also(&f, "pod %s on that node uses the new disk", facts.PodName(users[0]))
	}
	if older < 0 && known && p.InUse(node, old) {
		f.Advice = fmt.Sprintf("{check} see that node %s no longer reports the old disk in use (status.volumesInUse); only then %s", va.Node, thereafter)
	}
	p.Report(f)
}
