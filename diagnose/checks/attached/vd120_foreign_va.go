package attached

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var ForeignVA = check.Check{
	Code:     "VD120",
	Name:     "foreign-va",
	Title:    "A VolumeAttachment does not have the name under which the controller would find it",
	Severity: finding.Info,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	Follows: []check.Relation{
		{From: []finding.Code{"VD205"}, Share: check.OfVolume, Match: sameNode},
	},
	Never: "take its finalizer off: the storage then keeps the volume attached",
	Run:   runForeignVA,
}

func runForeignVA(p *check.Run) {
	for _, va := range p.Attachments() {
		if va.DeletionTimestamp != nil || p.Age(va.CreationTimestamp) < facts.ListsGrace {
			continue
		}
		switch {
		case va.Ours():
			if restoredForNoNode(p.View, va) {
				restored(p, va)
			}
		case facts.AttachmentName(va.VolumeNode) == "" || volumeRecreated(p.View, va) || p.KeepsDeletedVolume(va):
			// A handle that the controller cannot name, and two other failures.
		default:
			foreign(p, va)
		}
	}
}

// veleroRestore is Velero's label on restored objects.
const veleroRestore = "velero.io/restore-name"

// restoredForNoNode reports whether a backup restored the attachment for a node that this cluster
// does not have. A restored attachment begins unattached.
func restoredForNoNode(p *facts.View, va facts.Attachment) bool {
	return va.Labels[veleroRestore] != "" && !va.Status.Attached && p.Snapshot.Node(va.Node) == nil
}

func restored(p *check.Run, va facts.Attachment) {
	f := foreignFinding(p.View, va)
	f.Severity = finding.Warning
	f.Message = fmt.Sprintf("A backup restored the VolumeAttachment of volume %s for node %s, which does not exist", f.PersistentVolume, va.Node)
	f.Detail = "the attacher tries it for ever"
	f.Cause = fmt.Sprintf("the restore %q brought it back, though only the controller should make VolumeAttachments", va.Labels[veleroRestore])
	f.SelfHeals.Because = "the controller does not know of it before it restarts"
	f.ByHand, f.Advice = "{final} delete the VolumeAttachment", "{later} leave VolumeAttachments out of restores"
	p.Report(f)
}

func foreign(p *check.Run, va facts.Attachment) {
	f := foreignFinding(p.View, va)
	owner := ownerOf(va)
	f.Message = fmt.Sprintf("VolumeAttachment %s of volume %s on node %s is not the controller's", va.Name, f.PersistentVolume, va.Node)
	f.Detail = "the controller will never delete it"
	f.Cause = "another program, or a person, made it"
	if owner != "" {
		facts.Also(&f, "it belongs to %s", owner)
		f.Cause = owner + " made it, and should delete it"
	}
	f.SelfHeals.Because = "it stays until whoever made it deletes it"
	f.Advice, f.ByHand = "{check} find out who made it, and have that program end it", "{final} delete the VolumeAttachment if nobody needs it"
	if owner != "" {
		f.Advice = ""
	}
	users := p.World.LivePods(va.VolumeNode)
	proper := p.Snapshot.VolumeAttachment(facts.AttachmentName(va.VolumeNode))
	switch {
	case proper != nil:
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "volumeattachment/" + proper.Name, Field: "metadata.name", Value: "is the controller's for the same volume and node"})
		f.Advice, f.ByHand = "{note} let the controller's own VolumeAttachment for this node go first", ""
		f.Never = "delete it now: the driver would detach the volume under the controller's own VolumeAttachment"
	case len(users) > 0:
		f.Pods = facts.PodNames(users)
		does := "waits for"
		if facts.Mounted(users[0]) {
			does = "uses"
		}
		facts.Also(&f, "pod %s on that node %s the volume", facts.PodName(users[0]), does)
		f.Advice, f.ByHand = "", "{final} let the pods on the node that use the volume leave first"
		f.Never = "delete it while a pod on the node uses the volume: the driver would detach it"
	}
	if blocked := blockedBy(p.View, va); len(blocked) > 0 {
		f.Severity, f.Pods = finding.Error, facts.PodNames(blocked)
		pod := blocked[0]
		f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s: a foreign VolumeAttachment keeps it", facts.PodName(pod), pod.Spec.NodeName, f.PersistentVolume)
		f.Detail = fmt.Sprintf("VolumeAttachment %s keeps it on node %s; it is not the controller's, which will never delete it", va.Name, va.Node)
		if owner != "" {
			facts.Also(&f, "it belongs to %s", owner)
		}
	}
	p.Report(f)
}

// blockedBy are the pods on other nodes whose own attach fails while this attachment holds the
// volume. Its maker may need it for a while.
func blockedBy(p *facts.View, va facts.Attachment) []*corev1.Pod {
	if !va.Holds() || !p.Forgotten(va.VolumeNode) {
		return nil
	}
	return slices.DeleteFunc(p.KeptFrom(va.VolumeNode), func(pod *corev1.Pod) bool {
		own := p.Snapshot.VolumeAttachment(facts.AttachmentName(reconcile.VolumeNode{Volume: va.Volume, Node: facts.NodeOf(pod)}))
		return own == nil || p.AttachError(own) == nil || p.Age(facts.BoundAt(pod)) < facts.HandOverTakes
	})
}

func foreignFinding(p *facts.View, va facts.Attachment) finding.Finding {
	f := p.About(va, finding.Finding{
		PersistentVolume: facts.VolumeName(va.VolumeAttachment),
		Since:            &va.CreationTimestamp,
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "metadata.name", Value: "the controller's would be " + facts.AttachmentName(va.VolumeNode)},
			{Object: va.Object(), Field: "status.attached", Value: fmt.Sprint(va.Status.Attached)},
		},
	})
	if va.Ours() {
		f.Evidence[0] = finding.Evidence{Object: va.Object(), Field: "metadata.labels", Value: veleroRestore + ": " + va.Labels[veleroRestore]}
	}
	return f
}

// ownerOf is who made the object, where it shows that.
func ownerOf(va facts.Attachment) string {
	if owner := metav1.GetControllerOf(va); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	if len(va.OwnerReferences) > 0 {
		return va.OwnerReferences[0].Kind + " " + va.OwnerReferences[0].Name
	}
	if restore := va.Labels[veleroRestore]; restore != "" {
		return "the Velero restore " + restore
	}
	return va.Labels[reconcile.ManagedByLabel]
}
