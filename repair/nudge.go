package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var nudge = rung{
	kind:    Nudge,
	codes:   []diagnose.Code{"VD103", "VD115", "VD401"},
	needs:   []Permission{patchAttachment("")},
	propose: proposeNudge,
	undo:    undoNudge,
}

// nudgeReads are the kinds that tell whether anybody uses the volume there.
var nudgeReads = []snapshot.Kind{snapshot.VolumeAttachments, snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes}

// proposeNudge makes the attacher try again now. Between two attempts it pauses
// for up to 5 min; any change of the object's metadata ends the pause
// (external-attacher, shouldEnqueueVAChange). It asks for nothing that was not
// asked for already, so it helps where the cause has just been mended.
func proposeNudge(v *View, f diagnose.Finding) (Repair, error) {
	va := v.Snapshot.VolumeAttachment(f.VolumeAttachment)
	if va == nil {
		return Repair{}, fmt.Errorf("VolumeAttachment %s: %w", f.VolumeAttachment, ErrNotFound)
	}
	failure := va.Status.DetachError
	if failure == nil {
		return Repair{}, errors.New("the attacher has not come to a failure after which it would pause")
	}
	// Times are whole seconds, and the attacher may well answer within the nudge's
	// own: an error of that second is an answer, so that it must not be the second
	// of the error that is there.
	at := v.Snapshot.TakenAt
	if !at.After(failure.Time.Time) {
		at = failure.Time.Add(time.Second)
	}
	value := nudgeMark(f) + at.UTC().Format(time.RFC3339)
	undo := annotation(va, nil)
	return Repair{
		Summary:  "have the attacher try VolumeAttachment " + va.Name + " again now",
		Risk:     RiskLow,
		Do:       annotation(va, &value),
		Undo:     &undo,
		PreImage: annotationImage(va),
		Guards: []Guard{
			completeGuard(nudgeReads),
			findingGuard,
			{"same-attachment", checkSameAttachment},
			{"being-deleted", checkBeingDeleted},
			{"not-mounted", checkNotMounted},
			{"not-in-vain", checkNotInVain},
		},
		Needs:   []Permission{patchAttachment(va.Name)},
		reads:   nudgeReads,
		again:   func(v *View) (Repair, error) { return proposeNudge(v, f) },
		stands:  func(v *View) bool { return nudged(v, va, value) },
		pending: func(v *View) string { return answerSince(v, va) },
		version: func(v *View) string { return attachmentVersion(v, va.Name) },
		check:   func(after json.RawMessage) error { return checkMark(after, value) },
	}, nil
}

// nudgeMark is what a nudge writes, but for its time.
func nudgeMark(f diagnose.Finding) string { return markOf(Nudge, f.Code, f.Check) + " at " }

// checkNotInVain: a driver that has been asked again since a nudge, and still
// refuses, does so after the next one. Then a higher rung's turn comes.
func checkNotInVain(v *View, r *Repair) error {
	va := v.Snapshot.VolumeAttachment(r.Do.Target.Name)
	if va == nil || va.Status.DetachError == nil {
		return nil
	}
	text, marked := strings.CutPrefix(va.Annotations[markAnnotation], nudgeMark(r.Finding))
	if at, err := time.Parse(time.RFC3339, text); marked && err == nil && !va.Status.DetachError.Time.Time.Before(at) {
		return fmt.Errorf("it was tried again at %s, and the driver still refuses: %s", text, va.Status.DetachError.Message)
	}
	return nil
}

// nudged says that the annotation is there, or that the object is gone, which
// is what it was for.
func nudged(v *View, va *storagev1.VolumeAttachment, value string) bool {
	now := v.Snapshot.VolumeAttachment(va.Name)
	return now == nil || now.UID != va.UID || now.Annotations[markAnnotation] == value
}

// answerSince is what the driver has said to the attempt.
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

// checkNotMounted: where a container that runs, or a kubelet without a pod that
// waits, has the volume, the sooner the detach succeeds the sooner it loses it.
func checkNotMounted(v *View, r *Repair) error {
	waits := false
	for _, pod := range v.World.LivePods(r.Finding.Pair()) {
		if neverStarted(pod) {
			waits = true
			continue
		}
		return fmt.Errorf("pod %s/%s on node %s has the volume and would lose it", pod.Namespace, pod.Name, r.Finding.Node)
	}
	node := v.Snapshot.Node(r.Finding.Node)
	if node != nil && reconcile.NodeReady(node) && !waits && slices.Contains(node.Status.VolumesInUse, r.Finding.Volume) {
		return fmt.Errorf("the kubelet of node %s reports the volume in use", node.Name)
	}
	return nil
}

// neverStarted says that no container of the pod has ever run. The kubelet that
// ends a pod before its containers ran writes that it does not know them.
func neverStarted(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodPending && pod.Status.Phase != corev1.PodFailed {
		return false
	}
	ran := func(c corev1.ContainerStatus) bool {
		ended := c.State.Terminated
		return c.RestartCount > 0 || c.State.Running != nil || c.LastTerminationState.Terminated != nil ||
			ended != nil && (ended.Reason != "ContainerStatusUnknown" || !ended.StartedAt.IsZero())
	}
	return !slices.ContainsFunc(pod.Status.InitContainerStatuses, ran) && !slices.ContainsFunc(pod.Status.ContainerStatuses, ran) &&
		!slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, ran)
}
