package repair

import (
	"errors"
	"fmt"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var nudge = action{
	kind:  Nudge,
	risk:  RiskLow,
	codes: []finding.Code{"VD103", "VD115", "VD401"},
	needs: []Permission{RightTo(VerbPatch, snapshot.VolumeAttachments, "")},
	guards: []Guard{
		findingGuard,
		sameAttachmentGuard,
		beingDeletedGuard,
		notMountedGuard,
		notInVainGuard,
	},
	propose: onAttachment(proposeNudge),
	undo:    func(w Written) (*Reversal, error) { return undoMark(w, snapshot.VolumeAttachments, "VolumeAttachment") },
}

// proposeNudge makes the attacher try again now. Between two attempts it pauses for up to 5
// min; any change of the object's metadata ends the pause (external-attacher,
// shouldEnqueueVAChange). The nudge requests nothing new, so it helps where the cause has
// just been fixed.
func proposeNudge(v *View, f finding.Finding, va *storagev1.VolumeAttachment) (Repair, error) {
	failure := v.Facts.DetachError(va)
	if failure == nil {
		return Repair{}, errors.New("the attacher has not come to a failure after which it would pause")
	}
	// Times are whole seconds, and the attacher may answer within the second of the nudge. An
	// error of that second counts as an answer, so the nudge must not carry the second of the
	// error on record.
	at := v.Snapshot.TakenAt
	if !at.After(failure.Time.Time) {
		at = failure.Time.Add(time.Second)
	}
	r := marking(snapshot.VolumeAttachments, va, markOf(Nudge, f.Code, f.Check)+nudgedAt+at.UTC().Format(time.RFC3339))
	r.SoThat = "the attacher tries again now"
	r.pending = func(v *View) string { return answerSince(v, va) }
	return r, nil
}

// nudgedAt separates a nudge's mark from its time.
const nudgedAt = " at "

// splitNudge separates a nudge's mark from its time; for any other text mark is the whole
// text.
func splitNudge(text string) (mark string, at time.Time, ok bool) {
	if i := strings.LastIndex(text, nudgedAt); i >= 0 && strings.HasPrefix(text, string(Nudge)) {
		if at, err := time.Parse(time.RFC3339, text[i+len(nudgedAt):]); err == nil {
			return text[:i], at, true
		}
	}
	return text, time.Time{}, false
}

// checkNotInVain: a driver that was asked again after a nudge, and still refuses, would
// refuse after the next one. Then a repair of higher risk is tried.
func checkNotInVain(v *View, r *Repair) error {
	va := v.Snapshot.VolumeAttachment(r.Do.Target.Name)
	if va == nil || va.Status.DetachError == nil {
		return nil
	}
	mark, at, nudged := splitNudge(va.Annotations[MarkAnnotation])
	if nudged && mark == markOf(Nudge, r.Finding.Code, r.Finding.Check) && !va.Status.DetachError.Time.Time.Before(at) {
		return fmt.Errorf("it was tried again at %s, and the driver still refuses: %s", at.UTC().Format(time.RFC3339), va.Status.DetachError.Message)
	}
	return nil
}

// answerSince is the driver's answer since the nudge.
func answerSince(v *View, va *storagev1.VolumeAttachment) string {
	now := v.Snapshot.VolumeAttachment(va.Name)
	if now == nil || now.UID != va.UID || now.Status.DetachError == nil {
		return ""
	}
	if e := now.Status.DetachError; e.Time.After(va.Status.DetachError.Time.Time) {
		return "the driver was asked again and still refuses: " + e.Message
	}
	return "the attacher has not tried again"
}

// checkNotMounted refuses where a pod on the node may have the volume mounted, or where its
// kubelet reports it in use and no pod there waits for it: a detach that succeeds sooner takes it
// from its users sooner.
func checkNotMounted(v *View, r *Repair) error {
	waiting := v.World.LivePods(r.Finding.Pair())
	for _, pod := range waiting {
		if facts.MayUseVolumes(pod) {
			return fmt.Errorf("pod %s/%s on node %s has the volume and would lose it", pod.Namespace, pod.Name, r.Finding.Node)
		}
	}
	node := v.Snapshot.Node(r.Finding.Node)
	if node != nil && reconcile.NodeReady(node) && len(waiting) == 0 && v.Facts.InUse(node, r.Finding.Volume) {
		return fmt.Errorf("the kubelet of node %s reports the volume in use", node.Name)
	}
	return nil
}
