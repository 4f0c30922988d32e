package trace

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func (t *tracer) mountsProven() facts.MountProof { return t.MountsProven(t.pod, t.events) }

// withoutPlugin is the stage of a pod on a node where no node plugin can run.
func (t *tracer) withoutPlugin(s Stage) Stage {
	s.State, s.On, s.Ends = StageBlocked, kubeletwords.WorkloadOwner, "the pod is made again on a node where the driver's node plugin runs"
	why := "; no node plugin can run on a Fargate node"
	if facts.Virtual(t.node) {
		why = "; the node is virtual, and whatever runs its pods would have to bring the volume itself"
	}
	s.Detail += why
	return s
}

// registered is the stage in which the driver registers with the kubelet.
func (t *tracer) registered(v *tracedVolume) Stage {
	node := t.pod.Spec.NodeName
	if node == "" {
		return after(StageRegistered)
	}
	gone, _ := t.readNode(StageRegistered)
	isGone := gone.State == StageBlocked
	if isGone && !v.attachable && !v.unsure {
		return gone
	}
	s := Stage{Stage: StageRegistered, State: StageWaiting, On: fmt.Sprintf("the node plugin of %s on %s", v.Driver, node),
		Ends: "the node plugin registers with the kubelet, which writes the driver into the CSINode"}
	va := t.attachmentOf(v)
	// otherwise the kubelet does not get to the driver
	isMountable := !v.attachable || va == nil && !t.knows(snapshot.VolumeAttachments, "") || va != nil && (va.Status.Attached || facts.Deleting(va))
	if failures := t.mountFailures(v); len(failures) > 0 && isMountable {
		last := failures[len(failures)-1]
		if facts.ContainsAny(last.Reason, kubeletwords.DriverUnknown) {
			s.State, s.Detail = StageBlocked, "the kubelet does not know the driver, whatever the CSINode says"
			means := "the kubelet's own register lacks the driver"
			switch {
			case facts.Registers(t.Snapshot.CSINode(types.NodeName(node)), v.Driver):
				means += "; it loses it when it restarts, and the CSINode stays behind"
			case t.knows(snapshot.CSINodes, ""):
				means += ", and so does the CSINode: its node plugin has not registered"
			}
			s.Said = []Said{quote(last.Event, means)}
			t.blamePlugin(&s, v)
			if !t.knows(snapshot.Pods, "") {
				s.unread = snapshot.Pods // the plugin may have restarted since
			}
			if v.attachable && va == nil { // the event may be about an attachment before the present one
				t.doubt(&s, snapshot.VolumeAttachments)
			}
			return t.due(s, facts.FirstTime(last.Event), facts.RegistrationGrace)
		}
	}
	csiNode := t.Snapshot.CSINode(types.NodeName(node))
	switch {
	case facts.Registers(csiNode, v.Driver):
		s = done(StageRegistered, metav1.Time{}, "in CSINode "+node)
		if va != nil && facts.Deleting(va) { // before that, the kubelet may have tried to mount it
			t.doubt(&s, snapshot.Events)
		}
		if isMountable {
			t.doubtState(&s, snapshot.Events, snapshot.Pods) // an event may show that the kubelet lacks it, also one of another pod
		}
		if t.node == nil && (!v.attachable || v.unsure) { // the node may not exist
			t.doubt(&s, snapshot.Nodes)
		}
		return s
	case csiNode == nil && !t.knows(snapshot.CSINodes, ""):
		return unread(StageRegistered, snapshot.CSINodes)
	case csiNode == nil:
		s.Detail = "there is no CSINode " + node
	default:
		s.Detail = fmt.Sprintf("CSINode %s lacks %s", node, v.Driver)
	}
	t.doubtState(&s, snapshot.Events)
	if isGone {
		return after(StageRegistered) // the stages of its attach wait for the node, also where its CSINode is left
	}
	if t.node == nil {
		return gone
	}
	if facts.TakesNoPlugin(t.node) {
		return t.due(t.withoutPlugin(s), waitsSince(t.pod), facts.RegistrationGrace)
	}
	since := facts.Latest(waitsSince(t.pod), t.node.CreationTimestamp)
	plugins := t.blamePlugin(&s, v)
	for _, plugin := range plugins {
		s.Detail += fmt.Sprintf("; pod %s: %s", facts.PodName(plugin), facts.PluginState(plugin))
		since = facts.Latest(since, plugin.CreationTimestamp)
	}
	s.passed = len(s.Said) > 0 // mounts from before it stay
	if !t.knows(snapshot.Pods, "") {
		s.unread = snapshot.Pods
	} else if len(plugins) == 0 {
		s.Detail += "; no pod on the node mounts the directory plugins/" + v.Driver
	}
	if t.Age(since) > facts.RegistrationGrace {
		s.State = StageBlocked
	}
	if t.mistyped(&s, v) {
		return t.never(s, waitsSince(t.pod))
	}
	if !reconcile.NodeReady(t.node) {
		s.reason = "NodeNotReady"
	}
	return t.due(s, since, facts.RegistrationGrace)
}

// blamePlugin adds to the stage the last message of the driver's node plugins on the node, and who
// has to act by it. It returns the plugins.
func (t *tracer) blamePlugin(s *Stage, v *tracedVolume) []*corev1.Pod {
	if t.node == nil {
		return nil
	}
	plugins := t.NodePlugins(t.node, "/plugins/"+v.Driver)
	if last, ok := facts.LastWordsOf(plugins); ok {
		blame := last.Blames()
		s.On, s.do = cmp.Or(blame.Actor, s.On), blame.Do
		s.Said = append(s.Said, Said{By: "the plugin's " + last.Who() + ", at its end", At: unlessZero(last.At), Text: last.Message, Means: blame.Because})
	}
	return plugins
}

// mistyped makes the stage wait for a correction of the driver's name, where the driver is not
// installed and one of nearly the same name is.
func (t *tracer) mistyped(s *Stage, v *tracedVolume) bool {
	meant := t.Mistyped(v.Driver)
	if meant == "" || t.Age(waitsSince(t.pod)) <= facts.ListsGrace { // it may just be installed
		return false
	}
	s.State, s.On = StageBlocked, "whoever wrote the driver's name into persistentvolume/"+v.PersistentVolume
	if v.PersistentVolume == "" {
		s.On = kubeletwords.WorkloadOwner
	}
	s.Detail = fmt.Sprintf("driver %s is not installed; %s is, and their names are nearly the same", v.Driver, meant)
	s.Ends = "the volume is made again with the name of the driver that is meant: it cannot be changed in a volume"
	t.doubt(s, snapshot.Events)
	return true
}

// staged is the stage in which the driver prepares the volume on the node.
func (t *tracer) staged(v *tracedVolume) Stage {
	if t.mountedThen(v) {
		return done(StageStaged, metav1.Time{}, "the kubelet waits for others of the pod's volumes alone")
	}
	if s, ok := t.elsewhere(StageStaged, v); ok {
		return s
	}
	failures := t.mountFailures(v)
	s := Stage{Stage: StageStaged, State: StageWaiting, On: "CSI driver " + v.Driver + " on " + t.pod.Spec.NodeName,
		Ends: "the kubelet tries again after at most 2m2s"}
	if len(failures) > 0 {
		last := failures[len(failures)-1]
		if !last.Stages() {
			return done(StageStaged, metav1.Time{}, "the kubelet has come to the step after it")
		}
		if facts.ContainsAny(last.Reason, kubeletwords.DriverUnknown) {
			return after(StageStaged)
		}
		if t.retried(v, snapshot.EventTime(last.Event), 1) {
			return done(StageStaged, metav1.Time{}, "the kubelet has tried it again, and its log has no other failure of it")
		}
		return t.failedMount(s, failures, v)
	}
	if e := t.lastEvent(facts.OwnershipReason); e != nil && t.ChangesOwner(e, t.pod, v.specName()) {
		return done(StageStaged, metav1.Time{}, "the kubelet has come to the step after it")
	}
	return t.maybeStaged(t.silent(s, v), v)
}

// maybeStaged is the staged stage where no object distinguishes it from the next: a call to the
// driver that runs or is repeated leaves no trace.
func (t *tracer) maybeStaged(s Stage, v *tracedVolume) Stage {
	if s.State != StageUnknown {
		if how := t.neverStaged(v); how != "" {
			s.Detail = how
			return s
		}
		return Stage{Stage: StageStaged, State: StageUnknown, open: true, On: s.On,
			Detail: "staged or not: no object shows which of its two calls the driver has not answered"}
	}
	return s
}

// mounted is the stage in which the volume is mounted for the pod's containers.
func (t *tracer) mounted(v *tracedVolume) Stage {
	s := Stage{Stage: StageMounted, State: StageWaiting, On: kubeletOf(t.pod.Spec.NodeName), Ends: "the kubelet tries again after at most 2m2s"}
	if v.Driver != "" {
		s.On = "CSI driver " + v.Driver + " on " + t.pod.Spec.NodeName
	}
	if t.pod.Spec.NodeName == "" {
		return after(StageMounted)
	}
	if t.mountedThen(v) {
		return done(StageMounted, metav1.Time{}, "the kubelet waits for others of the pod's volumes alone")
	}
	failures := t.mountFailures(v)
	if s, ok := t.notInline(v, failures); ok {
		return s
	}
	if n := len(failures); n > 0 && t.retried(v, snapshot.EventTime(failures[n-1].Event), wholeMount) {
		return Stage{Stage: StageMounted, State: StageUnknown, old: true, Detail: "the kubelet has tried the mount again, and its log, which goes on, has no other failure of it"}
	} else if n > 0 && (!failures[n-1].Stages() || v.Driver == "" || v.source.CSI != nil) {
		if facts.ContainsAny(failures[n-1].Reason, kubeletwords.DriverUnknown) {
			return after(StageMounted)
		}
		if t.retried(v, snapshot.EventTime(failures[n-1].Event), 1) {
			return t.silent(s, v)
		}
		return t.failedMount(s, failures, v)
	}
	if e := t.lastEvent(facts.OwnershipReason); e != nil && (v.claim != nil || v.source.EmptyDir == nil) && t.ChangesOwner(e, t.pod, v.specName()) {
		s.On, s.reason = kubeletOf(t.pod.Spec.NodeName), "OwnershipChange"
		s.Detail = "it is mounted, and the kubelet gives each file in it to the pod's fsGroup"
		s.Ends = "all files are done; the next start is quick with fsGroupChangePolicy: OnRootMismatch"
		s.Said = []Said{quote(e, "written after 30 s and then each minute while files are changed: it goes on")}
		first, last := facts.FirstTime(e), snapshot.EventTime(e)
		s = t.due(s, last, facts.OwnershipSilent)
		s.Since, s.UsualBound = &first, "" // it takes as long as there are files
		return s
	}
	return t.silent(s, v)
}

// failedMount is the stage of a mount that fails by the kubelet's events.
func (t *tracer) failedMount(s Stage, failures []facts.MountFailure, v *tracedVolume) Stage {
	last := failures[len(failures)-1]
	// a failure that the kubelet now reports for this pod may have begun with another one
	all := slices.Concat(t.sharedFailures(v), failures)
	since := facts.FailingSince(all)
	s.State, s.old = StageBlocked, notRepeated(t.View, oldestFirst(all))
	t.doubt(&s, snapshot.Events) // an event that was not read may show that it is over
	s.Detail = last.Step
	s.Said = []Said{quote(last.Event, t.mountMeans(v, last))}
	telling := last
	if before, ok := facts.ErrorBefore(v.Driver, last.Reason, failures); ok {
		telling = before
		s.Said = append(s.Said, quote(before.Event, cmp.Or(t.mountMeans(v, before), "the error before it")))
	}
	named, permanent := t.blame(&s, telling, v)
	if twin := t.Twin(t.pod, v.source); twin != "" && s.Said[0].Means == "" {
		s.Said[0].Means, s.do = twin+": where the mount fails for that, one XFS file system is mounted once on a machine", facts.HelpsTwin()
	}
	if s.On == Controller && v.attachable && t.attachmentOf(v) == nil && t.knows(snapshot.VolumeAttachments, "") {
		s.Detail += "; there is no VolumeAttachment now"
		s.do = "{check} read what kube-controller-manager's leader writes to its log about the volume and the node; {if if it writes nothing about them,} " +
			step.RestartManager.Of() + ": one that has just started attaches the volume"
	}
	if e, w, ok := t.mountWaitFailure(v); ok {
		s.Said = append(s.Said, quote(e, w.means(v.Name, t.kubelet)))
	}
	if permanent {
		return t.never(s, since)
	}
	if !named { // whoever the message names has to act in any case
		if silent := t.silentSince(&s); silent != "" {
			s.On, s.Ends, s.Detail = kubeletOf(t.pod.Spec.NodeName), "the kubelet works again, and tries again", s.Detail+"; "+silent
		}
	}
	// An error that comes late in a mount does not restart its time.
	if began := t.mountBegan(v); began.Add(facts.MountTakes).Before(since.Add(facts.MountFails)) {
		return t.due(s, began, facts.MountTakes)
	}
	return t.due(s, since, facts.MountFails)
}

// mountBegan is the earliest moment, by the objects, at which the kubelet could mount the
// volume.
func (t *tracer) mountBegan(v *tracedVolume) metav1.Time {
	began := t.kubeletWaits()
	if va := t.attachmentOf(v); va != nil {
		began = facts.Latest(began, va.CreationTimestamp)
	}
	if e := t.AttachSucceeded(t.pod, v.specName()); e != nil {
		began = facts.Latest(began, snapshot.EventTime(e))
	}
	if e, w, ok := t.mountWaitFailure(v); ok && t.unattachedThen(w, v) {
		began = facts.Latest(began, snapshot.EventTime(e))
	}
	for _, f := range t.MountFailuresIn(t.events, t.pod, v.specName(), v.Name) {
		if t.attachedSince(f, v) {
			began = facts.Latest(began, snapshot.EventTime(f.Event))
		}
	}
	return began
}

// kubeletWaits is since when the kubelet waits for the pod's volumes. One that was cut off goes
// on once its node is Ready again.
func (t *tracer) kubeletWaits() metav1.Time {
	since := waitsSince(t.pod)
	if reconcile.NodeReady(t.node) {
		since = facts.Latest(since, facts.ReadyCondition(t.node).LastTransitionTime)
	}
	return since
}

// unattachedThen reports whether the volume was not attached at the failed wait, which then
// proves nothing about a mount.
func (t *tracer) unattachedThen(w waitWords, v *tracedVolume) bool {
	return (v.attachable || v.unsure) && t.kubelet >= sortedLists && slices.Contains(w.unattached, v.Name)
}

// silentSince is a clause: since when the kubelet of the pod's node no longer renews its lease,
// whether the node is already lost or still Ready; "" where it may be at work. It has to act
// before any driver there. The kubelet may have reported to a node that was not read since.
func (t *tracer) silentSince(s *Stage) string {
	if s.On != kubeletOf(t.pod.Spec.NodeName) && !t.knows(snapshot.Leases, corev1.NamespaceNodeLease) { // a silent kubelet would have to act first
		s.unread = cmp.Or(s.unread, snapshot.Leases)
	}
	lease := t.Snapshot.Lease(corev1.NamespaceNodeLease, t.pod.Spec.NodeName)
	if lease == nil || lease.Spec.RenewTime == nil || t.Age(facts.Renewed(lease)) < facts.NodeMonitorGrace || t.KubeletLives(t.node) {
		return ""
	}
	if t.node == nil {
		t.doubt(s, snapshot.Nodes)
	}
	return "the kubelet has not renewed its lease since " + facts.Stamp(facts.Renewed(lease))
}

// silent is the stage of a mount about which no event reports a failure.
func (t *tracer) silent(s Stage, v *tracedVolume) Stage {
	since := t.mountBegan(v)
	if !t.knows(snapshot.Events, t.pod.Namespace) {
		s.State, s.unheard, s.Detail = StageUnknown, true, "not all events could be read, which would tell a mount that fails from a sandbox that does"
		return t.due(s, since, facts.MountTakes)
	}
	s.Detail = silence(t.kubelet)
	s.Ends = "the driver answers, or its call ends after 2 min and is repeated"
	if v.Driver == "" {
		s.Ends = "the kubelet mounts it within seconds where nothing is missing"
	}
	if v.claim != nil && t.userOnNode(v) == nil { // the kubelet may report the failure for another pod that waits for the volume
		t.doubt(&s, snapshot.Pods)
	}
	if since := t.silentSince(&s); since != "" {
		s.On, s.Ends = kubeletOf(t.pod.Spec.NodeName), "the kubelet works again"
		s.Detail = since
	}
	if t.pod.Spec.SecurityContext != nil && t.pod.Spec.SecurityContext.FSGroup != nil && v.pv != nil && t.kubelet.Before(facts.PermissionEvents) {
		s.Detail += fmt.Sprintf("; the pod has an fsGroup, and a kubelet of 1.%d changes the owner of many files without a word", t.kubelet)
	}
	if _, _, ok := t.notTakenUp(v); ok && (v.attachable || v.unsure) {
		return after(s.Stage) // it has not come that far: see askedFor
	}
	if e, w, ok := t.mountWaitFailure(v); ok && (len(w.unprocessed) == 0 || t.about(w, v)) {
		s.Said = append(s.Said, quote(e, w.means(v.Name, t.kubelet)))
		takenUpSince := (v.attachable || v.unsure) && slices.Contains(w.unprocessed, v.Name)
		s.passed = takenUpSince || t.unattachedThen(w, v)
		if t.kubelet >= facts.SilentTimeout && !s.passed {
			s.State, s.Detail = StageBlocked, "the kubelet cannot mount it"
		}
		if !takenUpSince && t.blameWait(&s, w, v) {
			s.State = StageBlocked
			return t.never(s, since)
		}
	} else if f, ok := t.passing(v); ok {
		s.Said, s.passed, s.old = []Said{quote(f.Event, mountMeans(f, t.kubelet))}, true, notRepeated(t.View, []facts.MountFailure{f})
		if means := s.Said[0].Means; means != "" && !s.old {
			s.Detail = "the last words of the kubelet: " + means
		}
		if facts.ServerUnreached(f.Reason) && !s.old {
			s.On, s.Ends = kubeletOf(t.pod.Spec.NodeName), "the API server answers the kubelet, which asks again after at most 2m2s"
		}
	}
	return t.due(s, since, facts.MountTakes)
}

// silence explains the absence of an event about a mount.
func silence(k facts.KubeletRelease) string {
	switch {
	case !k.Known():
		return "the kubelet's release is not known: from 1.28 on it writes no event for a wait that merely times out"
	case k >= facts.SilentTimeout:
		return fmt.Sprintf("no event tells why; a kubelet of 1.%d writes none for a wait that merely times out, so that silence is no progress", k)
	default:
		return fmt.Sprintf("no event tells why, though a kubelet of 1.%d writes one for each wait of 2m3s: they are kept for an hour only", k)
	}
}
