package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// reasonNeverMounted is the reason of a volume that was not mounted before its pod ended.
const reasonNeverMounted = "NeverMounted"

// The reasons of a pod whose containers have ended, and which is not stopped: its sandbox, or its
// resource claims.
const (
	reasonSandbox = "SandboxNotStopped"
	reasonClaims  = "DynamicResources"
)

const (
	// stopGrace is granted on top of a pod's grace period: containers are
	// killed then, and the status is written.
	stopGrace = facts.PodStatusSync + 10*time.Second
	// UnmountTakes is one wait of the kubelet for its unmounts.
	UnmountTakes = facts.MountWait
	// UnstageTakes is one call to the driver, and the kubelet's next status.
	UnstageTakes = reconcile.CSITimeout + reconcile.NodeStatusUpdate
)

// chainDown are the stages of a volume on the way back from the containers.
func (t *tracer) chainDown(v *tracedVolume) []Stage {
	stages := []Stage{t.stopped()}
	claim := t.Snapshot.Claim(facts.ClaimKey(t.pod, v.Claim))
	switch {
	case v.Claim == "":
	case claim != nil && claim.Spec.VolumeName == "":
		return append(stages, done(StageUnmounted, metav1.Time{}, "its claim never had a volume"))
	case claim == nil && t.neverBound(v.Claim):
		return append(stages, done(StageUnmounted, metav1.Time{}, "its claim does not exist, no volume names it, and the pod never had all of its volumes"))
	case claim != nil && t.neverItsOwn(claim):
		return append(stages, done(StageUnmounted, metav1.Time{}, "its claim names a volume that is bound to another claim, and the pod never had all of its volumes"))
	}
	if v.pv == nil && v.Claim != "" {
		return append(stages, Stage{Stage: StageUnmounted, State: StageUnknown, Detail: "its claim is not bound to a volume that could be read"})
	}
	stopped := stages[0].State == StageDone
	free := stopped // of the pod, so that the kubelet can unstage it
	if v.Referenced {
		s := t.unmounted(v, stopped)
		if stopped && s.State != StageDone {
			t.hearDown(&s, v)
		}
		stages = append(stages, s)
		free = free && s.State != StageWaiting && s.State != StageBlocked
	}
	if v.attachable || v.unsure {
		if v.Referenced {
			stages = append(stages, t.unstaged(v, free))
		}
		stages = append(stages, t.detached(v))
		for i := range stages[1:] { // another pod may use it on the node
			stages[i+1].unseen = cmp.Or(stages[i+1].unseen, t.usersUnread(v))
		}
	}
	return stages
}

// neverBound reports whether a claim that does not exist never led the pod to a volume: no volume
// names it, and the pod has never come past the wait for its volumes.
func (t *tracer) neverBound(claim string) bool {
	return t.knows(snapshot.Claims, t.pod.Namespace) && t.knows(snapshot.Volumes, "") && !facts.MayUseVolumes(t.pod) &&
		!slices.ContainsFunc(t.Snapshot.Volumes, func(pv *corev1.PersistentVolume) bool {
			ref := pv.Spec.ClaimRef
			return ref != nil && ref.Namespace == t.pod.Namespace && ref.Name == claim
		})
}

// neverItsOwn reports whether the claim never led the pod to a volume: it is older than the pod,
// names a volume that is bound to another claim, and the pod has never come past the wait for its
// volumes.
func (t *tracer) neverItsOwn(claim *corev1.PersistentVolumeClaim) bool {
	pv := t.Snapshot.Volume(claim.Spec.VolumeName)
	return pv != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID != "" && pv.Spec.ClaimRef.UID != claim.UID &&
		!t.pod.CreationTimestamp.Before(&claim.CreationTimestamp) && !facts.MayUseVolumes(t.pod)
}

// stopped is the pod's own first stage on the way down.
func (t *tracer) stopped() Stage {
	s := t.stops()
	t.doubtState(&s, snapshot.Events)
	if t.node == nil {
		t.doubtState(&s, snapshot.Nodes)
	}
	return s
}

func (t *tracer) stops() Stage {
	s := Stage{Stage: StageStopped, State: StageWaiting, On: kubeletOf(t.pod.Spec.NodeName), Ends: "the containers end, or the grace period does"}
	running := facts.RunningContainers(t.pod)
	var last metav1.Time
	status := t.pod.Status
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses) {
		if c.State.Terminated != nil {
			last = facts.Latest(last, c.State.Terminated.FinishedAt)
		}
	}
	if len(running) == 0 || status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded {
		if e := t.NotStopped(t.pod); e != nil {
			stops := facts.WhoStops(t.pod, e)
			s.State, s.On, s.do, s.never, s.reason = StageBlocked, stops.Actor, stops.Do, "force-delete the pod: its volume may still be mounted", reasonSandbox
			s.Detail = "the containers have ended, but the kubelet fails to stop the pod's sandbox, and unmounts none of its volumes before"
			s.Ends, s.Said = "the sandbox is stopped; then the kubelet unmounts the volumes", []Said{quote(e, "")}
			return t.due(s, facts.LastSign(t.pod), facts.KillTakes)
		}
		if t.ClaimsKept(t.pod) && t.knows(snapshot.Events, t.pod.Namespace) {
			stops := facts.WhoReleases(t.pod)
			s.State, s.On, s.do, s.never, s.reason = StageBlocked, stops.Actor, stops.Do, "force-delete the pod: its devices and volumes may stay in use on the node", reasonClaims
			s.Detail = "the containers have ended, and the kubelet has not written the pod's last phase: that comes once its resource claims are released, and the volumes come after it"
			s.Ends = "the driver releases the claims; then the kubelet unmounts the volumes"
			return t.due(s, facts.LastSign(t.pod), UnmountTakes)
		}
		if t.node != nil && t.Lost(t.node) {
			return done(StageStopped, last, "as its kubelet said before it fell silent")
		}
		return done(StageStopped, last, "")
	}
	s.Detail = fmt.Sprintf("running: %v", running)
	s.never = "force-delete the pod: its containers may go on writing to its volumes"
	s.do = fmt.Sprintf("{check} read what the events of pod %s say of its end; {check} see on %s what keeps container %s: a process in state D (ps), and the logs of the kubelet and of the container runtime",
		facts.PodName(t.pod), t.pod.Spec.NodeName, running[0])
	grace := time.Duration(ptr.Deref(t.pod.DeletionGracePeriodSeconds, 0)) * time.Second
	since := metav1.NewTime(t.GraceEnds(t.pod).Add(-grace))
	if t.Age(since) > grace+stopGrace {
		s.Ends = "the containers end: their grace period is over"
	}
	if t.node != nil && !reconcile.NodeReady(t.node) {
		s.State, s.reason = StageBlocked, "NodeNotReady"
		s.Detail += "; the node's Ready condition is " + facts.ReadyText(t.node)
		if on, ends := t.endsOnLost(t.node, t.pod); on != "" {
			s.On, s.Ends, s.do = on, ends, ""
		}
	}
	if t.node == nil {
		if on, ends := t.endsOnLost(nil, t.pod); on != "" {
			s.State, s.On, s.Ends, s.do = StageBlocked, on, ends, ""
			s.Detail += "; node " + t.pod.Spec.NodeName + " does not exist"
		}
	}
	if e := t.lastEvent(facts.FailedKillPodReason); e != nil && t.node != nil {
		s.State = StageBlocked
		s.Said = []Said{quote(e, "")}
		if t.Age(snapshot.EventTime(e)) <= facts.EventRepeats && !t.Lost(t.node) {
			stops := facts.WhoStops(t.pod, e)
			s.On, s.do, s.Ends = stops.Actor, stops.Do, "the kubelet, which tries again, has killed the containers"
		}
	}
	return t.dueToEnd(s, since, grace)
}

// dueToEnd makes the stage of a Terminating pod, whose containers run, a wait since then.
func (t *tracer) dueToEnd(s Stage, since metav1.Time, grace time.Duration) Stage {
	switch {
	case t.node == nil:
		return t.due(s, facts.EndAsked(t.pod), UnmountTakes)
	case t.Lost(t.node):
		since = t.LostPodSince(t.pod)
		if reconcile.OutOfService(t.node) {
			return t.due(s, facts.Latest(since, t.OutOfServiceSince(t.node)), facts.TaintTakes)
		}
		return t.due(s, since, facts.RebootTakes)
	}
	s = t.due(s, since, grace+facts.KillTakes)
	ready := facts.ReadyCondition(t.node)
	if reconcile.NodeReady(t.node) && t.LeaseStale(facts.NodeName(t.node)) || ready != nil && ready.Status == corev1.ConditionUnknown {
		s.Overdue = false // the kubelet has just fallen silent, or has just come back
	}
	return s
}

// everMounted reports whether the pod's volumes were ever mounted.
func (t *tracer) everMounted() bool {
	return !facts.NeverRan(t.pod) && (t.mountsProven().Yes || facts.Started(t.pod))
}

// mayBeMounted reports whether the kubelet may have mounted the volume of a Terminating pod whose
// containers never ran. It mounts each volume as soon as it can, and keeps the pod object until
// it has unmounted it; so one that it mounts without a driver, such as NFS, is in doubt only where
// the object stays.
func (t *tracer) mayBeMounted(v *tracedVolume) bool {
	return t.pod.DeletionTimestamp != nil && t.node != nil && reconcile.NodeReady(t.node) && (v.Driver != "" || t.Age(t.endsSince()) > UnmountTakes) &&
		(!v.attachable || v.unsure || facts.Lists(t.node, v.Volume) && facts.InUse(t.node, v.Volume)) &&
		(v.pv == nil || facts.UnmetAffinity(v.pv, t.node) == "" && facts.WrongMode(t.pod, v.Name, v.pv) == "")
}

// unmounted is the stage in which the driver unmounts the volume from the pod. The kubelet
// keeps the pod object until all volumes are unmounted, and reports nothing about it.
func (t *tracer) unmounted(v *tracedVolume, stopped bool) Stage {
	s := Stage{Stage: StageUnmounted, State: StageWaiting, On: kubeletOf(t.pod.Spec.NodeName),
		Ends: "the kubelet unmounts it; then the pod goes"}
	switch {
	case !stopped:
		return after(StageUnmounted)
	case v.Type == "image" || v.Type == "hostPath" && !t.hasSubPath(*v.VolumeTrace):
		return notNeeded(StageUnmounted, "the kubelet mounts nothing for it")
	case t.notDeleted() != nil:
		return done(StageUnmounted, metav1.Time{}, "the kubelet has tried to delete the pod object, and it does that only after all unmounts")
	case slices.Contains(nodeLocal, v.Type):
		return Stage{Stage: StageUnmounted, State: StageUnknown, Detail: "no object shows whether the kubelet has removed it", follows: true}
	case !t.everMounted() && t.pod.DeletionTimestamp != nil && v.Driver != "" && t.node == nil && !t.knows(snapshot.Nodes, ""):
		return unread(StageUnmounted, snapshot.Nodes)
	case !t.everMounted() && !t.mayBeMounted(v):
		return notNeeded(StageUnmounted, "nothing shows that it was ever mounted")
	case v.attachable && t.node == nil && !t.knows(snapshot.Nodes, ""):
		return unread(StageUnmounted, snapshot.Nodes)
	case v.unsure:
		return unread(StageUnmounted, snapshot.CSIDrivers)
	case v.attachable && t.node != nil && !facts.InUse(t.node, v.Volume):
		return done(StageUnmounted, metav1.Time{}, "volumesInUse of "+t.node.Name+" has let go of it")
	case t.pod.DeletionTimestamp == nil:
		return Stage{Stage: StageUnmounted, State: StageUnknown, Detail: "no object shows it for a pod that has ended and is not deleted", follows: true}
	case facts.GivenUp(t.pod):
		return done(StageUnmounted, metav1.Time{}, "the kubelet has given the pod object up")
	}
	s.Detail = "the containers have ended and the pod is still there: the kubelet has not unmounted all of its volumes, and it writes no event about that"
	if v.Driver != "" {
		s.On = "CSI driver " + v.Driver + " on " + t.pod.Spec.NodeName
	}
	if server := nfsServer(v); server != "" {
		s.do = fmt.Sprintf("{check} see from %s whether the NFS server %s answers: as long as it does not, the unmount hangs; {check} look at the log of the kubelet there", t.pod.Spec.NodeName, server)
	}
	t.withoutDriver(v, &s)
	s.doubtful = s.State == StageBlocked && !t.everMounted()
	return t.due(s, t.endsSince(), UnmountTakes)
}

// nfsServer is the server of an NFS volume that the kubelet itself mounts; "" for others.
func nfsServer(v *tracedVolume) string {
	switch {
	case v.source.NFS != nil:
		return v.source.NFS.Server
	case v.pv != nil && v.pv.Spec.NFS != nil:
		return v.pv.Spec.NFS.Server
	default:
		return ""
	}
}

// notRemoved are the volumes of a Terminating pod that the kubelet makes itself, such as a
// Secret, where nothing else keeps the pod. The kubelet keeps the pod object until it has removed
// the last of its volumes (Kubelet.SyncTerminatedPod, WaitForUnmount), and it cannot remove a
// busy one.
//
// which reports whether a volume is a candidate.
func (t *tracer) notRemoved(volumes []VolumeTrace, which func(VolumeTrace) bool) []VolumeTrace {
	_, mirror := t.pod.Annotations[corev1.MirrorPodAnnotationKey]
	if mirror || facts.GivenUp(t.pod) || t.node == nil || t.Lost(t.node) || t.pod.Status.StartTime == nil {
		return nil
	}
	var list []VolumeTrace
	for i := range volumes {
		v := &volumes[i]
		s := v.stage(StageUnmounted)
		if !v.Referenced || !slices.Contains(nodeLocal, v.Type) || !which(*v) || s.State != StageUnknown {
			continue
		}
		*s = t.due(Stage{Stage: StageUnmounted, State: StageWaiting, On: kubeletOf(t.pod.Spec.NodeName),
			Detail: "the containers have ended and the pod is still there: the kubelet has not removed all of its volumes, and it writes no event about that",
			Ends:   "the kubelet removes it once nothing on the node uses it; then the pod goes",
		}, t.endsSince(), UnmountTakes)
		v.Broken = StageUnmounted
		list = append(list, *v)
	}
	return list
}

// canBeBusy reports whether the kubelet mounts something for the volume that can be busy like
// any mount: a tmpfs, or a subPath.
func (t *tracer) canBeBusy(v VolumeTrace) bool {
	return t.hasSubPath(v) || slices.ContainsFunc(t.pod.Spec.Volumes, func(source corev1.Volume) bool {
		return source.Name == v.Name && (source.Secret != nil || source.Projected != nil || source.DownwardAPI != nil || source.EmptyDir != nil && source.EmptyDir.Medium == corev1.StorageMediumMemory)
	})
}

// hasSubPath reports whether a container mounts only a path of the volume, for which the
// kubelet makes a mount of its own.
func (t *tracer) hasSubPath(v VolumeTrace) bool {
	for c := range facts.Containers(t.pod) {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name && m.SubPath+m.SubPathExpr != "" }) {
			return true
		}
	}
	return false
}

// endsSince is since when a pod whose containers have ended gives its volumes back. They may have
// ended long before their grace period does.
func (t *tracer) endsSince() metav1.Time {
	if stopped := t.stoppedSince(); !stopped.IsZero() {
		return facts.Latest(facts.EndAsked(t.pod), stopped)
	}
	return ptr.Deref(t.pod.DeletionTimestamp, metav1.Time{})
}

func (t *tracer) stoppedSince() metav1.Time { return ptr.Deref(t.stopped().Since, metav1.Time{}) }

// withoutDriver adds to the stage what keeps the node from unmounting.
func (t *tracer) withoutDriver(v *tracedVolume, s *Stage) {
	if t.node != nil && !reconcile.NodeReady(t.node) {
		s.State, s.On, s.reason = StageBlocked, kubeletOf(t.pod.Spec.NodeName), "NodeNotReady"
		t.doubtAlive(s, t.node)
		if on, ends := t.endsOnLost(t.node, t.pod); on != "" && t.pod.DeletionTimestamp != nil {
			s.On, s.Ends, s.Detail = on, ends, "only the node's kubelet unmounts it, and nothing is heard of that"
		}
		s.Detail += "; the node's Ready condition is " + facts.ReadyText(t.node)
		return
	}
	if t.node == nil {
		t.doubt(s, snapshot.Nodes)
	}
	silent := t.silentSince(s)
	switch {
	case silent != "":
		s.On, s.Detail, s.Ends = kubeletOf(t.pod.Spec.NodeName), s.Detail+"; "+silent, "the kubelet works again, and has it unmounted"
	case v.Driver == "" || facts.Registers(t.Snapshot.CSINode(v.pair.Node), v.Driver):
	case !t.knows(snapshot.CSINodes, ""):
		t.doubt(s, snapshot.CSINodes)
	default:
		s.State, s.On = StageBlocked, fmt.Sprintf("the node plugin of %s on %s", v.Driver, t.pod.Spec.NodeName)
		s.Detail += fmt.Sprintf("; CSINode %s lacks %s: the kubelet has nobody to ask", t.pod.Spec.NodeName, v.Driver)
		s.Ends = "the driver's node plugin returns and registers; then the unmount follows by itself"
		if t.node == nil {
			return
		}
		last, _ := facts.LastWordsOf(t.NodePlugins(t.node, "/plugins/"+v.Driver))
		if blame := last.Blames(); blame.Actor != "" {
			s.On, s.do, s.Detail = blame.Actor, blame.Do, s.Detail+"; "+blame.Because
		}
	}
}

// others are the other pods on the node that use the volume.
func (t *tracer) others(v *tracedVolume) []*corev1.Pod {
	return slices.DeleteFunc(t.World.LivePods(v.pair), func(p *corev1.Pod) bool { return p == t.pod })
}

// unstaged is the stage in which the kubelet gives the volume back.
func (t *tracer) unstaged(v *tracedVolume, free bool) Stage {
	if stage, known := t.readNode(StageUnstaged); !known {
		return stage
	}
	if !facts.InUse(t.node, v.Volume) {
		return done(StageUnstaged, metav1.Time{}, "volumesInUse of "+t.node.Name+" lacks it")
	}
	if others := t.others(v); len(others) > 0 {
		return notNeeded(StageUnstaged, "pod "+facts.PodName(others[0])+" uses it on the node")
	}
	if !free {
		return after(StageUnstaged)
	}
	if t.pod.DeletionTimestamp == nil && !t.everMounted() {
		s := Stage{Stage: StageUnstaged, State: StageBlocked, On: kubeletOf(t.pod.Spec.NodeName), Detail: inUseOf(t.node), reason: reasonNeverMounted}
		s.Detail += ": the pod ended before it was mounted, and the kubelet keeps such a volume in use as long as the pod object is there"
		s.Ends = "the pod object is deleted"
		return t.due(s, metav1.Time{}, 0)
	}
	s := t.unstaging(v, inUseOf(t.node))
	t.hearDown(&s, v)
	return t.due(s, facts.Latest(t.stoppedSince(), facts.BoundAt(t.pod)), UnstageTakes)
}

// unstaging is the stage of a volume that the kubelet has yet to give back, with the obstacle.
// shows is the clause about the objects.
func (t *tracer) unstaging(v *tracedVolume, shows string) Stage {
	s := Stage{Stage: StageUnstaged, State: StageWaiting, On: kubeletOf(t.node.Name), Detail: shows,
		Ends: "the kubelet unstages it and takes it off volumesInUse within 10 s"}
	if v.Driver != "" {
		s.On = "CSI driver " + v.Driver + " on " + t.node.Name
	}
	t.withoutDriver(v, &s)
	return s
}

func inUseOf(node *corev1.Node) string { return "volumesInUse of " + node.Name + " lists it" }

// detached is the stage in which the controller detaches the volume from the node.
func (t *tracer) detached(v *tracedVolume) Stage {
	s := Stage{Stage: StageDetached, State: StageWaiting, On: Controller}
	va := t.attachmentOf(v)
	listed := t.node != nil && facts.Lists(t.node, v.Volume)
	switch {
	case t.pod.Spec.NodeName == "":
		return notNeeded(StageDetached, "the pod was never bound to a node")
	case va != nil && facts.Deleting(va):
		return t.detaching(va)
	case len(t.others(v)) > 0 && (v.unsure || va == nil && !t.knows(snapshot.VolumeAttachments, "")):
		kind := snapshot.VolumeAttachments // one may be detaching all the same
		if v.unsure {
			kind = snapshot.CSIDrivers
		}
		s = unread(StageDetached, kind)
		s.follows = true
		return s
	case len(t.others(v)) > 0:
		return notNeeded(StageDetached, "pod "+facts.PodName(t.others(v)[0])+" uses it on the node")
	case va == nil && !t.knows(snapshot.VolumeAttachments, ""):
		return unread(StageDetached, snapshot.VolumeAttachments)
	case va == nil && !listed:
		if t.node == nil && !t.knows(snapshot.Nodes, "") {
			return unread(StageDetached, snapshot.Nodes)
		}
		return done(StageDetached, metav1.Time{}, "")
	case t.node != nil && facts.InUse(t.node, v.Volume) && !t.spared(t.node):
		if !reconcile.NodeReady(t.node) {
			s.Detail = "the node " + t.willNotUnmount(t.node)
			s.Ends = t.UntilUnmounted(t.node)
			s.follows = true
			return s
		}
		return after(StageDetached)
	}
	s.Detail, s.Ends = "nothing holds it on the node", "the controller begins the detach"
	return t.due(s, t.stoppedSince(), controllerActs)
}
