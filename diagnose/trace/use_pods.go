package trace

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// addPods adds the pods that name the claim. Where the volume's claim is gone, those count that
// are older than a new claim of that name.
func (u *useTracer) addPods() {
	if u.key.Name == "" {
		return
	}
	other := u.Snapshot.Claim(u.key)
	if u.claim == nil && other == nil && !u.knows(snapshot.Claims, u.key.Namespace) {
		return // the claim of that name may be a later one, with another volume
	}
	for _, pod := range u.Snapshot.Pods {
		if pod.Namespace != u.key.Namespace || u.claim == nil && other != nil && !pod.CreationTimestamp.Before(&other.CreationTimestamp) {
			continue
		}
		if i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return reconcile.ClaimName(pod, &v) == u.key.Name && (v.Ephemeral == nil || u.claim == nil || metav1.IsControlledBy(u.claim, pod))
		}); i >= 0 {
			u.Pods = append(u.Pods, u.usingPod(pod))
		}
	}
}

// usingPod is what the pod does with the claim, from the pod's trace.
func (u *useTracer) usingPod(pod *corev1.Pod) UsingPod {
	t := OfPod(u.View, pod, nil)
	t.AddFindings(u.report)
	i := slices.IndexFunc(t.Volumes, func(v VolumeTrace) bool { return v.Claim == u.key.Name && v.Referenced })
	if i < 0 {
		i = slices.IndexFunc(t.Volumes, func(v VolumeTrace) bool { return v.Claim == u.key.Name })
	}
	v := t.Volumes[i]
	p := UsingPod{Pod: facts.PodName(pod), Node: t.Node, Volume: v.Name, Mounted: Unknown}
	mounted, unmounted := v.stage(StageMounted), v.stage(StageUnmounted)
	switch {
	case !v.Referenced || t.Node == "":
		p.Mounted = No
	case mounted.State == StageDone:
		p.Mounted, p.MountedSince = Yes, mounted.Since
	case mounted.State == StageWaiting || mounted.State == StageBlocked || unmounted.State == StageDone || unmounted.State == StageNotNeeded:
		p.Mounted = No
	case t.Direction == Down && v.stage(StageStopped).State != StageDone && facts.Mounted(pod):
		p.Mounted = Yes // its containers run
	}
	if p.Mounted == No && mounted.Stage != "" && mounted.State != StageNotNeeded && t.Node != "" && u.unreadOf() != "" {
		p.Mounted = Unknown // an object that was not read may show that it is
	}
	waits := (v.Name == t.Verdict.Volume || slices.Contains(t.Verdict.Volumes, v.Name)) && t.Verdict.State != finding.NoWait
	own := v.stage(v.Broken)
	if t.Verdict.waits() && !waits && (own.State == StageWaiting || own.State == StageBlocked) {
		// The pod waits for several volumes, and its verdict names the first of them.
		waits = true
		p.Wait, p.Stage, p.Actor, p.Message = t.Verdict.State, own.Stage, own.On, fmt.Sprintf("Pod %s also waits for volume %s%s", p.Pod, v.Name, toBe[own.Stage])
	} else if waits || t.Verdict.State == finding.Unsure && t.Verdict.Volume == "" {
		p.Wait, p.Stage, p.Actor, p.Message = t.Verdict.State, t.Known().Verdict.Stage, t.Verdict.Actor, t.Verdict.Message
	}
	switch {
	case pod.DeletionTimestamp != nil:
		p.State, p.Since = PodEnding, new(facts.EndAsked(pod))
	case reconcile.PodTerminated(pod):
		p.State = PodEnded
		if facts.TellsEnd(pod) {
			p.Since = unlessZero(facts.LastSign(pod))
		}
	case waits:
		p.State, p.Since = PodWaits, t.Known().Verdict.Since
	case t.Verdict.Reason == ReasonSilent:
		p.State, p.Since = PodUnheard, t.Verdict.Since
	case newTracer(u.View, pod, nil).unseen() != "":
		p.State = PodUnheard
	case anyRuns(pod):
		p.State, p.Since = PodRuns, unlessZero(facts.RunningSince(pod))
	default:
		p.State, p.Since = PodStarting, unlessZero(pod.CreationTimestamp)
	}
	return p
}

// unreadOf is the first kind with unread objects that may show how far a pod has the volume; ""
// for none.
func (u *useTracer) unreadOf() snapshot.Kind {
	for _, kind := range []snapshot.Kind{snapshot.Volumes, snapshot.VolumeAttachments, snapshot.Nodes, snapshot.CSINodes, snapshot.CSIDrivers, snapshot.StorageClasses, snapshot.Leases} {
		if !u.knows(kind, "") {
			return kind
		}
	}
	for _, kind := range []snapshot.Kind{snapshot.Claims, snapshot.Events} {
		if !u.knows(kind, u.key.Namespace) {
			return kind
		}
	}
	return ""
}
