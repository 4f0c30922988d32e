package facts

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var keptDanglings Kept[[]Attachment]

// Danglings are the attachments that the controller has forgotten.
func (p *View) Danglings() []Attachment {
	return keptDanglings.Of(p, func(p *View) []Attachment { return p.danglings(p.danglingSettled) })
}

// Unheard are the attachments that are not yet Danglings, and that the controller does not
// know, as its log or its own counts prove.
func (p *View) Unheard() []Attachment {
	if p.World.Memory == nil && p.Snapshot.Manager == nil {
		return nil
	}
	return p.danglings(func(va *storagev1.VolumeAttachment) bool {
		volume, err := p.World.AttachmentVolume(va)
		pair := reconcile.VolumeNode{Volume: volume, Node: types.NodeName(va.Spec.NodeName)}
		return err == nil && !p.danglingSettled(va) && (p.World.Memory.Unheard(pair, va) || p.uncounted(pair, va))
	})
}

// danglingSettled reports whether the controller has had the time to process the attachment. A
// controller that starts takes up every attachment that it finds. One that detaches takes the
// volume off volumesAttached and then deletes its VolumeAttachment.
func (p *View) danglingSettled(va *storagev1.VolumeAttachment) bool {
	node := p.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	if node == nil || p.ControllerYounger(DanglingGrace) || p.Age(va.CreationTimestamp) < DanglingGrace {
		return false
	}
	_, written := VolumesAttachedWriter(node)
	return written.IsZero() || p.Lasted(written, ListsGrace)
}

func (p *View) danglings(settled func(*storagev1.VolumeAttachment) bool) []Attachment {
	if p.ControllerDown() != nil {
		return nil // the pods may have gone since, and the controller that comes back takes up each
	}
	var list []Attachment
	for _, va := range p.Attachments() {
		if va.Ran {
			continue
		}
		if !va.Holds() || !va.Ours() || !settled(va.VolumeAttachment) ||
			!reconcile.NodeReady(p.Snapshot.Node(va.Node)) || !p.World.Managed.Has(va.Node) || !p.Forgotten(va.VolumeNode) {
			continue
		}
		if !p.OneNode(va.Volume) && p.UsedElsewhere(va.VolumeNode) {
			continue // attached to many nodes on purpose; a virtual machine may be moving
		}
		if p.HasNewUser(va.VolumeNode) {
			continue
		}
		list = append(list, va)
	}
	return list
}

// Forgotten reports whether nothing uses the pair: the controller neither wants nor lists it, no
// live pod has it, and the kubelet does not report it in use.
func (p *View) Forgotten(pair reconcile.VolumeNode) bool {
	node := p.Snapshot.Node(pair.Node)
	return p.World.Desired.Find(pair) == nil && len(p.World.LivePods(pair)) == 0 &&
		node != nil && !p.InUse(node, pair.Volume) && !p.Lists(node, pair.Volume)
}

// UsedElsewhere reports whether the controller wants the volume on another node, or another
// kubelet has it in use.
func (p *View) UsedElsewhere(pair reconcile.VolumeNode) bool {
	return slices.ContainsFunc(p.Plan.OfVolume(pair.Volume), func(d reconcile.Decision) bool {
		return d.Node != pair.Node && p.World.Desired.Find(d.VolumeNode) != nil
	}) || slices.ContainsFunc(p.InUseOn(pair.Volume), func(other reconcile.VolumeNode) bool { return other.Node != pair.Node })
}

// Dangling is the finding about a forgotten attachment.
func (p *View) Dangling(va Attachment) finding.Finding {
	pv, node := p.ShortVolumeOf(va), p.Snapshot.Node(va.Node)
	since := va.CreationTimestamp
	if volume := p.Snapshot.Volume(VolumeName(va.VolumeAttachment)); volume != nil && volume.DeletionTimestamp != nil {
		since = Latest(since, *volume.DeletionTimestamp) // its pod may have left long before, or just then
	}
	f := p.About(va, finding.Finding{
		Since:   &since,
		Message: fmt.Sprintf("Volume %s is still attached to node %s, where no pod uses it", pv, va.Node),
		Detail:  "the controller has forgotten it and will not detach it",
		Cause:   "the pod went away while kube-controller-manager was down, changed its leader or had lost sight of the volume",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"},
			{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: "lacks it; lists " + List(node.Status.VolumesInUse)},
			{Object: "node/" + node.Name, Field: "status.volumesAttached", Value: "lacks it; lists " + AttachedList(node.Status.VolumesAttached)},
		},
		SelfHeals: finding.SelfHeals{Because: "the running controller has no record of it; a restarted one (1.21, 1.20.3, 1.19.8, 1.18.16 and later) finds the " +
			"object and detaches the volume after the node's next update"},
		ByHand: fmt.Sprintf("make sure on node %s that nothing has the volume mounted, then {final} delete the VolumeAttachment", va.Node),
	})
	if d := p.Plan.Decision(va.VolumeNode); d != nil {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "a controller that starts now", Value: fmt.Sprintf("%s (%s)", d.Verb, d.Reason)})
	}
	if proof := p.unheardEvidence(va); len(proof) > 0 && !p.danglingSettled(va.VolumeAttachment) {
		f.ControllerAlone = true
		f.Cause = "somebody other than the controller made the VolumeAttachment, as a restore from a backup does; the controller looks for such ones only when it starts"
		f.Evidence = append(f.Evidence, proof...)
	}
	if waiting := p.KeptFrom(va.VolumeNode); len(waiting) > 0 { // a pod may have used it until another came to wait for it
		f.Since = new(Latest(va.CreationTimestamp, BoundAt(waiting[0])))
	}
	p.AddKeptFrom(&f)
	if p.danglingSettled(va.VolumeAttachment) && p.justEmptied(node) {
		f.Severity = cmp.Or(f.Severity, finding.Warning)
		f = f.UntilAgain(p.Snapshot.TakenAt, ListsGrace, "the controller began to detach it while the lists were read")
	}
	return f
}

// justEmptied reports whether the controller may have taken the last volume off the node's
// volumesAttached within the last minute. The managed fields do not show when a list became empty.
// A controller waits with that until the kubelet has written that it no longer uses the volume.
func (p *View) justEmptied(node *corev1.Node) bool {
	_, written := VolumesAttachedWriter(node)
	return written.IsZero() && len(node.Status.VolumesAttached) == 0 && !p.Lasted(ReadyCondition(node).LastHeartbeatTime, ListsGrace)
}

// unheardEvidence is the evidence of the controller's log and counts about an attachment of
// Unheard.
func (p *View) unheardEvidence(va Attachment) (list []finding.Evidence) {
	at := func(t *time.Time) string { return Stamp(metav1.NewTime(*t)) }
	if memory := p.World.Memory; memory.Unheard(va.VolumeNode, va.VolumeAttachment) {
		list = append(list, finding.Evidence{Object: finding.ControllerLog, Field: "lines about it", Value: fmt.Sprintf("none from the start at %s to %s", at(memory.Started), at(&memory.Last))})
	}
	if m := p.Snapshot.Manager; p.uncounted(va.VolumeNode, va.VolumeAttachment) {
		list = append(list, finding.Evidence{Object: "pod/" + m.Pod, Field: "attached volumes of the driver in its metrics",
			Value: fmt.Sprintf("at %s and %s as many as are in use, without this one", at(m.First), at(m.Last))})
	}
	return list
}
