package attached

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var DetachAsksNewMachine = check.Check{
	Code:     "VD125",
	Name:     "detach-asks-new-machine",
	Title:    "A volume is to be detached from a machine that only has the name of the one it was attached to",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.CSINodes),
	OfDriver: true,
	Run:      runDetachAsksNewMachine,
}

func runDetachAsksNewMachine(p *check.Run) {
	for _, va := range p.Attachments() {
		if was, is, ok := asksNewMachine(p.View, va); ok {
			detachAsksNewMachine(p, va, was, is)
		}
	}
}

// asksNewMachine returns the machine that the volume was attached to, and the one that its detach
// asks about. ok is true where they differ, the Node was recreated in between and no pod there
// uses the volume.
func asksNewMachine(p *facts.View, va facts.Attachment) (was, is string, ok bool) {
	node := p.Snapshot.Node(va.Node)
	if node == nil || !va.Status.Attached || !va.Ours() || !va.CreationTimestamp.Before(&node.CreationTimestamp) || !p.RegisteredLongEnough(node) ||
		len(p.World.LivePods(va.VolumeNode)) > 0 {
		return "", "", false // same-name-new-instance reports the pods there
	}
	return p.OtherMachine(va.VolumeAttachment)
}

func detachAsksNewMachine(p *check.Run, va facts.Attachment, was, is string) {
	node, pv := p.Snapshot.Node(va.Node), p.ShortVolumeOf(va)
	f := p.About(va, finding.Finding{
		Since:     &node.CreationTimestamp,
		Message:   fmt.Sprintf("The detach of volume %s asks the wrong machine: node %s was replaced", pv, va.Node),
		Detail:    fmt.Sprintf("it was attached to machine %s, and the node is machine %s now, which never had it", was, is),
		Cause:     "the machine was replaced, and its successor took the name before the volume was detached; the attacher takes the id from the CSINode",
		Evidence:  facts.ReplacedMachine(va, node, was, is),
		SelfHeals: finding.SelfHeals{Because: "the driver asks the new machine; one that finds nothing there says that it is done; the old machine, if it lives, still has the volume"},
		Advice: fmt.Sprintf("{check} check at the provider where the volume is: if machine %s is gone the detach does no harm; if it lives, {final} end what runs there and detach the "+
			"volume from it at the provider", was),
		Never: "wait without looking: two machines may come to write to the volume",
	})
	if va.DeletionTimestamp != nil {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*va.DeletionTimestamp)})
	}
	p.AddKeptFrom(&f)
	p.Report(f)
}
