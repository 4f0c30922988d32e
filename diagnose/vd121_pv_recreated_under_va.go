package diagnose

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var pvRecreatedUnderVA = Check{
	Code:     "VD121",
	Name:     "pv-recreated-under-va",
	Title:    "A persistent volume was made anew with another disk while the old disk was attached",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runPVRecreatedUnderVA,
}

func runPVRecreatedUnderVA(p *Pass) {
	for _, va := range p.attachments() {
		if p.volumeRecreated(va) {
			p.pvRecreated(va)
		}
	}
}

// volumeRecreated says that the controller made the attachment for another
// volume of the same name: it is older than the volume, and its name is the
// hash of another handle. Made anew with the same handle a volume does no harm.
func (p *Pass) volumeRecreated(va attachment) bool {
	pv := p.Snapshot.Volume(volumeName(va.VolumeAttachment))
	return pv != nil && !va.ours() && attachmentName(va.VolumeNode) != "" && computedName.MatchString(va.Name) &&
		va.CreationTimestamp.Before(&pv.CreationTimestamp)
}

func (p *Pass) pvRecreated(va attachment) {
	pv := p.Snapshot.Volume(volumeName(va.VolumeAttachment))
	f := Finding{
		Subject:          vaObject(va.VolumeAttachment),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv.Name,
		VolumeAttachment: va.Name,
		Since:            &pv.CreationTimestamp,
		Message: fmt.Sprintf("The VolumeAttachment of volume %s on node %s was made for another disk than the volume now names: the volume was made anew "+
			"under it", pv.Name, va.Node),
		Cause: "the volume was deleted past its finalizers and made anew, or restored, with the same name and another handle",
		Evidence: []Evidence{
			{va.object(), "metadata.creationTimestamp", stamp(va.CreationTimestamp)},
			{"persistentvolume/" + pv.Name, "metadata.creationTimestamp", stamp(pv.CreationTimestamp)},
			{"persistentvolume/" + pv.Name, "volume handle", fmt.Sprintf("%s, for which the name would be %s", va.Volume, attachmentName(va.VolumeNode))},
		},
		SelfHeals: SelfHeals{Because: "the controller looks for the name that the new handle gives, and never for this one"},
		Advice: "do not delete the VolumeAttachment: the attacher would have the new disk detached, not the old one; detach the old disk at the storage " +
			"system, then take the attacher's finalizer off this object, and delete it",
	}
	if old, ok := p.nodeHandle(va.VolumeAttachment); ok {
		f.Evidence = append(f.Evidence, Evidence{"node/" + string(va.Node), "status", "the old disk is " + string(old)})
	}
	if va.DeletionTimestamp != nil {
		f.Message += ", and its deletion detaches the new disk"
		f.Evidence = append(f.Evidence, Evidence{va.object(), "metadata.deletionTimestamp", stamp(*va.DeletionTimestamp)})
	}
	if users := p.World.LivePods(va.VolumeNode); len(users) > 0 {
		f.Severity, f.Pods = Error, podNames(users)
		f.Message += fmt.Sprintf("; pod %s on that node uses the new one", podName(users[0]))
	}
	p.Report(f)
}
