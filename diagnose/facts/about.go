package facts

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// About completes a finding about the attachment with its volume and its node. The
// VolumeAttachment is the subject of a finding that names none.
func (p *View) About(va Attachment, f finding.Finding) finding.Finding {
	if f.Subject == (finding.Object{}) {
		f.Subject = VaObject(va.VolumeAttachment)
	}
	f.Volume, f.Node, f.VolumeAttachment = va.Volume, va.Node, va.Name
	f.PersistentVolume = cmp.Or(f.PersistentVolume, p.ShortVolumeOf(va))
	return f
}

// AboutNode completes a finding whose subject is the node.
func AboutNode(node *corev1.Node, f finding.Finding) finding.Finding {
	f.Subject, f.Node = finding.Object{Kind: "Node", Name: node.Name, UID: node.UID}, NodeName(node)
	return f
}

// WaitingElsewhere are the pods on other nodes that wait for the volume, the longest
// first.
func (p *View) WaitingElsewhere(pair reconcile.VolumeNode) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(p.Waiting()[pair.Volume]), func(pod *corev1.Pod) bool { return NodeOf(pod) == pair.Node })
}

// KeptFrom are the pods of WaitingElsewhere, where the volume is ReadWriteOnce: they wait for
// this node to release it.
func (p *View) KeptFrom(pair reconcile.VolumeNode) []*corev1.Pod {
	waiting := p.WaitingElsewhere(pair)
	if len(waiting) == 0 || !p.OneNode(pair.Volume) {
		return nil
	}
	return waiting
}

// AddKeptFrom makes the finding an error where KeptFrom has pods, and names the first of
// them and its node.
func (p *View) AddKeptFrom(f *finding.Finding) {
	waiting := p.KeptFrom(f.Pair())
	if len(waiting) == 0 {
		return
	}
	f.Severity, f.Pods = finding.Error, append(f.Pods, PodNames(waiting)...)
	slices.Sort(f.Pods)
	Also(f, "pod %s waits for it on node %s", PodName(waiting[0]), waiting[0].Spec.NodeName)
}

// Also adds a clause to the finding's detail.
func Also(f *finding.Finding, format string, args ...any) {
	f.Detail = finding.Clauses(f.Detail, fmt.Sprintf(format, args...))
}

// Hinted adds to a finding whose pods wait for good, which makes it an error, that only words hint
// at the cause.
func Hinted(f *finding.Finding) {
	f.Cause = finding.Clauses(f.Cause, "no object confirms that, but the pod waits for good")
}
