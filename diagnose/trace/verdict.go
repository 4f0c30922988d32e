package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// toBe continues a sentence after the name of a volume: the missing step in each stage.
var toBe = map[StageName]string{
	StageScheduled:         " to get a node",
	StageClaimBound:        ", whose claim is not bound",
	StageInVolumesInUse:    ", which the kubelet has not asked for",
	StageAttached:          " to be attached",
	StageInVolumesAttached: " to be listed in volumesAttached",
	StageRegistered:        ", whose driver is not registered there",
	StageStaged:            " to be staged",
	StageMounted:           " to be mounted",
	StageUnmounted:         " to be unmounted",
}

func (v VolumeTrace) stage(name StageName) *Stage {
	for i := range v.Stages {
		if v.Stages[i].Stage == name {
			return &v.Stages[i]
		}
	}
	return &Stage{}
}

// waits returns the volumes that wait, the best explanation first, and the volumes about which
// nothing is known.
func waits(volumes []VolumeTrace) (list []VolumeTrace, unknown []VolumeTrace) {
	for _, v := range volumes {
		switch v.stage(v.Broken).State {
		case StageWaiting, StageBlocked:
			list = append(list, v)
		case StageUnknown:
			unknown = append(unknown, v)
		default: // done, or not needed
		}
	}
	slices.SortStableFunc(list, func(a, b VolumeTrace) int {
		x, y := a.stage(a.Broken), b.stage(b.Broken)
		return cmp.Or(facts.BoolToInt(y.Overdue)-facts.BoolToInt(x.Overdue), facts.BoolToInt(y.State == StageBlocked)-facts.BoolToInt(x.State == StageBlocked),
			slices.Index(brokenOrder, a.Broken)-slices.Index(brokenOrder, b.Broken))
	})
	return list, unknown
}

// verdictUp distinguishes a wait for a volume from waits that look like one. open are the volumes
// that the pod may wait for.
func (t *tracer) verdictUp(volumes, open []VolumeTrace) Verdict {
	list, unknown := waits(volumes)
	if len(list) == 0 {
		list, _ = waits(open)
	}
	if t.pod.Spec.NodeName == "" {
		return t.verdictUnscheduled(volumes, list)
	}
	if p := t.mountsProven(); p.Yes {
		if silent := t.unheard(); silent != "" {
			return Verdict{State: finding.Unsure, Reason: ReasonSilent, Since: unlessZero(facts.NotReadySince(t.node)), Message: fmt.Sprintf(
				"Whether pod %s still runs is not known: %s; as last reported, its volumes are mounted (%s)", facts.PodName(t.pod), silent, p.How)}
		}
		return t.verdictMounted(volumes, p)
	}
	// A failure on a node that is not Ready may be due to the driver, which is gone with the
	// node, or be older than the attachment.
	toldApart := t.node == nil || reconcile.NodeReady(t.node) || t.knows(snapshot.CSINodes, "") && t.knows(snapshot.VolumeAttachments, "")
	blocked, doubted := false, t.partial()
	for _, v := range list {
		for _, s := range v.Stages {
			if toldApart && s.State == StageBlocked && s.reason != "NodeNotReady" && !s.follows {
				blocked = true
			}
			doubted = doubted || s.doubted()
		}
	}
	if other := t.beforeVolumes(list); other.Reason != "" && (!blocked || doubted) {
		if doubted {
			other.State = finding.Unsure
			other.Message += "; whether a volume keeps it as well is not known: not everything could be read"
		}
		return other
	}
	switch {
	case !blocked && t.node == nil && !t.knows(snapshot.Nodes, "") && len(list)+len(unknown) > 0:
		return Verdict{State: finding.Unsure, Reason: "NodeNotRead", Message: fmt.Sprintf(
			"Whether pod %s waits for a volume or for node %s is not known: not all nodes could be read", facts.PodName(t.pod), t.pod.Spec.NodeName)}
	case len(open) == 1:
		return t.unsure(unknown[0], unknown[0].Broken)
	case len(list) > 0 && t.unproven(list[0]) != "":
		verdict := t.unsure(list[0], list[0].Broken)
		verdict.Message += fmt.Sprintf("; not all %s could be read, which may show that it was mounted before", t.unproven(list[0]))
		return verdict
	case len(list) > 0 && len(open) > 1:
		return t.waitForOne(list)
	case len(list) > 0:
		return t.waitFor(list)
	case len(unknown) > 0:
		return t.unsure(unknown[0], unknown[0].Broken)
	default:
		return Verdict{State: finding.NoWait, Reason: "NoVolumes", Message: fmt.Sprintf("Pod %s waits for no volume: its containers mount none", facts.PodName(t.pod))}
	}
}

// unproven is the kind of an unread object that may show that the volume was mounted before its claim or the node's
// list lost it, or before its VolumeAttachment was deleted, or that the node pulls the images of the pod, which comes
// after the mounts; "" where no such object can.
func (t *tracer) unproven(v VolumeTrace) snapshot.Kind {
	claim := t.Snapshot.Claim(facts.ClaimKey(t.pod, v.Claim))
	va := t.Snapshot.VolumeAttachment(v.VolumeAttachment)
	hadIt := v.Broken == StageClaimBound && claim != nil && claim.Spec.VolumeName != "" || v.Broken == StageInVolumesAttached && v.stage(v.Broken).Overdue ||
		v.Broken == StageAttached && va != nil && facts.Deleting(va)
	switch {
	case t.node == nil && !t.knows(snapshot.Nodes, "") && t.lastEvent(trim.PullingReason) != nil:
		return snapshot.Nodes
	case hadIt && !t.knows(snapshot.Events, t.pod.Namespace):
		return snapshot.Events
	default:
		return ""
	}
}

// ReasonSilent is the verdict's reason where the pod's status is as old as the silence of its node.
const ReasonSilent = "NodeSilent"

// unheard is why it is not known whether the pod, which ran when its kubelet last reported, still
// does; "" where it is known.
func (t *tracer) unheard() string {
	if !anyRuns(t.pod) {
		return ""
	}
	return t.silence()
}

// unseen is why nobody knows whether what the kubelet last reported of the pod's mounts is still so;
// "" where that is known. A node that was not read may be silent.
func (t *tracer) unseen() string {
	lease := t.Snapshot.Lease(corev1.NamespaceNodeLease, t.pod.Spec.NodeName)
	renewed := lease != nil && lease.Spec.RenewTime != nil && t.Age(facts.Renewed(lease)) < facts.NodeMonitorGrace
	if t.node == nil && !t.knows(snapshot.Nodes, "") && !renewed && anyRuns(t.pod) {
		return "whether the node is silent is not known: not all nodes could be read"
	}
	return t.unheard()
}

// silence is why nothing is heard of the kubelet that reports on the pod; "" where it may be heard.
func (t *tracer) silence() string {
	switch {
	case t.node == nil && t.knows(snapshot.Nodes, ""):
		return fmt.Sprintf("node %s does not exist any more", t.pod.Spec.NodeName)
	case t.node == nil || !t.Lost(t.node):
		return ""
	default:
		return fmt.Sprintf("node %s is silent, its Ready condition is %s", t.node.Name, facts.ReadyText(t.node))
	}
}

func (t *tracer) unsure(v VolumeTrace, stage StageName) Verdict {
	return Verdict{State: finding.Unsure, Reason: string(stage), Stage: stage, Volume: v.Name, Message: fmt.Sprintf(
		"Whether pod %s waits for volume %s is not known: %s", facts.PodName(t.pod), v.Name, v.stage(stage).Detail)}
}

// waitIn is the verdict on a wait in the stage.
func waitIn(s Stage) Verdict {
	v := Verdict{State: finding.InFlight, Reason: cmp.Or(s.reason, string(s.Stage)), Stage: s.Stage, Actor: s.On, Since: s.Since, UsualBound: s.UsualBound, DueAt: s.dueAt}
	if len(s.Said) > 0 {
		v.Said = s.Said[0].Text
	}
	if s.Overdue {
		v.State, v.DueAt = finding.Stuck, nil
	}
	return v
}

// waitFor is the verdict on a pod that waits for the volumes, the first before all.
func (t *tracer) waitFor(list []VolumeTrace) Verdict {
	v := list[0]
	s := v.stage(v.Broken)
	verdict := waitIn(*s)
	verdict.Volume, verdict.Stages = v.Name, v.stages()
	for _, other := range list[1:] {
		if at := other.stage(other.Broken).dueAt; verdict.DueAt != nil && at != nil && at.Before(verdict.DueAt) {
			verdict.DueAt = at
		}
	}
	where := ""
	if t.pod.Spec.NodeName != "" {
		where = " on node " + t.pod.Spec.NodeName
	}
	what := cmp.Or(s.lacks, toBe[v.Broken])
	if len(verdict.Stages) > 0 {
		what = " to be staged or mounted"
	}
	verdict.Headline = fmt.Sprintf("Pod %s waits%s for volume %s%s", facts.PodName(t.pod), where, v.Name, what)
	verdict.Message = verdict.Headline
	if len(verdict.Stages) > 0 {
		verdict.Message += "; no object tells which of the two it waits for"
	}
	if v.PersistentVolume != "" && v.PersistentVolume != v.Name {
		verdict.Message += fmt.Sprintf("; volume %s is %s", v.Name, v.PersistentVolume)
	}
	if s.On != "" {
		verdict.Message += "; " + nextToAct + s.On
	}
	if n := len(list) - 1; n > 0 {
		verdict.Message += fmt.Sprintf("; it waits for %d more", n)
	}
	return verdict
}

// waitForOne is the verdict on a pod that waits for at least one of the volumes.
func (t *tracer) waitForOne(list []VolumeTrace) Verdict {
	verdict := t.waitFor(list[:1])
	own := verdict.Stages
	if own == nil {
		own = []StageName{verdict.Stage}
	}
	actors := []string{verdict.Actor}
	verdict.Stages = nil
	for _, v := range list {
		verdict.Volumes = append(verdict.Volumes, v.Name)
		stages := v.stages()
		if stages == nil {
			stages = []StageName{v.Broken}
		}
		for _, stage := range stages {
			if !slices.Contains(own, stage) && !slices.Contains(verdict.Stages, stage) {
				verdict.Stages = append(verdict.Stages, stage)
			}
		}
		if on := v.stage(v.Broken).On; !slices.Contains(actors, on) {
			actors = append(actors, on)
		}
	}
	if verdict.Stages = append(verdict.Stages, own...); len(verdict.Stages) == 1 {
		verdict.Stages = nil
	}
	verdict.nextIs(strings.Join(actors, " or "))
	verdict.Message += fmt.Sprintf("; or it waits for %s: no object tells for which of them", strings.Join(verdict.Volumes[1:], ", "))
	return verdict
}

// verdictUnscheduled is the verdict on a pod without a node: volumes may be the reason.
func (t *tracer) verdictUnscheduled(volumes, list []VolumeTrace) Verdict {
	scheduled := t.scheduled()
	claims := slices.DeleteFunc(slices.Clone(list), func(v VolumeTrace) bool {
		return v.stage(StageClaimBound).Stage == "" || v.stage(StageClaimBound).State == StageDone || v.stage(StageClaimBound).On == Scheduler ||
			v.stage(StageClaimBound).State == StageUnknown
	})
	if len(claims) > 0 {
		for i := range volumes {
			if slices.ContainsFunc(claims, func(claim VolumeTrace) bool { return claim.Name == volumes[i].Name }) {
				volumes[i].Broken = StageClaimBound
			}
		}
		for i := range claims {
			claims[i].Broken = StageClaimBound
		}
		return t.waitFor(claims)
	}
	message := fmt.Sprintf("Pod %s has no node yet", facts.PodName(t.pod))
	if len(scheduled.Said) > 0 && scheduled.Said[0].Means != "" {
		verdict := waitIn(scheduled)
		verdict.Headline = message + ", and volumes are among the reasons"
		verdict.Message = verdict.Headline + "; " + scheduled.Said[0].Means
		return verdict
	}
	if i := slices.IndexFunc(volumes, func(v VolumeTrace) bool { return v.stage(StageClaimBound).State == StageUnknown }); i >= 0 {
		return t.unsure(volumes[i], StageClaimBound)
	}
	unread := snapshot.Kind("")
	switch {
	case !t.knows(snapshot.CSIDrivers, ""): // the taint that keeps the pod off may be a driver's
		unread = snapshot.CSIDrivers
	case scheduled.On == Scheduler && len(scheduled.Said) > 0 && !t.knows(snapshot.Events, t.pod.Namespace): // an autoscaler may name a volume
		unread = snapshot.Events
	}
	if unread != "" {
		return Verdict{State: finding.Unsure, Reason: "Unscheduled", Since: scheduled.Since,
			Message: fmt.Sprintf("%s: whether that is for a volume is not known, as not all %s could be read", message, unread)}
	}
	if scheduled.On != Scheduler {
		return Verdict{State: finding.NoWait, Reason: "Unscheduled", Since: scheduled.Since, Message: message + ": " + scheduled.Detail}
	}
	return Verdict{State: finding.NoWait, Reason: "Unscheduled", Since: scheduled.Since,
		Message: message + ": it waits for the scheduler, which names no volume as a reason"}
}

// reasonMountBroken is the reason of a volume whose mount does not work. Its kubelet has mounted it.
const reasonMountBroken = "MountBroken"

// verdictMounted is the verdict on a pod whose volumes are mounted, whatever else it waits for.
func (t *tracer) verdictMounted(volumes []VolumeTrace, p facts.MountProof) Verdict {
	all := "all"
	if slices.ContainsFunc(volumes, func(v VolumeTrace) bool { return !v.Referenced }) {
		all = "all that its containers mount"
	}
	v := Verdict{State: finding.NoWait, Reason: "Mounted", Since: unlessZero(p.Since),
		Message: fmt.Sprintf("Pod %s waits for no volume: %s are mounted (%s)", facts.PodName(t.pod), all, p.How)}
	if broken, ok := t.BrokenMount(t.pod); ok {
		s := t.due(Stage{Stage: StageMounted, State: StageBlocked, On: kubeletOf(t.pod.Spec.NodeName), Said: []Said{{By: kubeletOf(t.pod.Spec.NodeName), Text: broken.Words}}, reason: reasonMountBroken,
			Detail: fmt.Sprintf("it was mounted, and container %s cannot be started with the mount", broken.Container)}, broken.Since, facts.MountFails)
		if i := slices.IndexFunc(volumes, func(v VolumeTrace) bool { return v.Name == broken.Volume.Name }); i >= 0 {
			volumes[i].Broken, *volumes[i].stage(StageMounted) = StageMounted, s
		}
		v := waitIn(s)
		v.Volume = broken.Volume.Name
		v.Headline = fmt.Sprintf("Pod %s waits on node %s for volume %s, whose mount does not work", facts.PodName(t.pod), t.pod.Spec.NodeName, broken.Volume.Name)
		v.Message = v.Headline + "; " + s.Detail
		return v
	}
	if slow, ok := t.SlowCreate(t.pod); ok {
		v := waitIn(t.due(Stage{Stage: StageMounted, On: "the container runtime of " + t.pod.Spec.NodeName, reason: "ContainerCreated"}, slow.Since, facts.LongFileChange))
		v.Volume = slow.Volume.Name
		v.Headline = fmt.Sprintf("Pod %s waits on node %s: its runtime has not created container %s", facts.PodName(t.pod), t.pod.Spec.NodeName, slow.Container)
		v.Message = fmt.Sprintf("%s; volume %s is mounted, and the runtime may be labelling its files (SELinux)", v.Headline, slow.Volume.Name)
		return v
	}
	if image, ok := t.notPulled(volumes); ok {
		return t.waitFor([]VolumeTrace{image})
	}
	for _, c := range t.pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			switch {
			case strings.Contains(w.Reason, "Image"):
				v.Reason = "ImagePull"
			case w.Reason == "CreateContainerConfigError":
				v.Reason = "ContainerConfig"
			case w.Reason == "CrashLoopBackOff":
				v.Reason = "ContainerFails"
			case w.Reason == "CreateContainerError" || w.Reason == "RunContainerError":
				v.Reason = "ContainerStart"
			default:
				continue
			}
			t.doubtMount(&v, c)
			v.Message += fmt.Sprintf("; container %s waits: %s", c.Name, w.Reason)
			if w.Message != "" {
				v.Message += ": " + w.Message
			}
			return v
		}
	}
	for _, c := range t.pod.Status.InitContainerStatuses {
		if !c.Ready && (c.State.Running != nil || c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing") && !anyRuns(t.pod) {
			v.Reason = "InitContainers"
			v.Message += "; it waits for init container " + c.Name
			t.doubtMount(&v, c)
			return v
		}
	}
	start := facts.Condition(t.pod, corev1.PodReadyToStartContainers)
	if e := t.lastEvent("FailedCreatePodSandBox"); e != nil && !anyRuns(t.pod) && (start == nil || start.Status != corev1.ConditionTrue) {
		v.Reason = "Sandbox"
		v.Message += "; it waits for its sandbox and network: " + e.Message
	} else if !anyRuns(t.pod) && slices.ContainsFunc(t.pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && c.State.Waiting.Reason == "ContainerCreating"
	}) {
		v.Reason = "ContainerCreating"
		if t.Pulls(t.pod, t.events) != nil {
			v.Reason = "ImagePull"
			v.Message += "; an image is being pulled"
		} else {
			v.Message += "; its images are being pulled, or the runtime gives many files an SELinux label"
		}
	}
	return v
}

// notPulled returns the image volume whose image a waiting container names. The kubelet pulls it
// only for the containers, when all other volumes are mounted (getImageVolumes,
// kuberuntime_manager.go).
func (t *tracer) notPulled(volumes []VolumeTrace) (VolumeTrace, bool) {
	for _, c := range slices.Concat(t.pod.Status.InitContainerStatuses, t.pod.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil || !strings.Contains(w.Reason, "Image") {
			continue
		}
		for i, source := range t.pod.Spec.Volumes {
			if source.Image == nil || source.Image.Reference == c.Image || !namesImage(w.Message, source.Image.Reference) || !facts.Referenced(t.pod, source.Name) {
				continue
			}
			v := &volumes[i]
			ref := source.Image.Reference
			stage := Stage{Stage: StageMounted, State: StageBlocked, On: "whoever provides image " + ref, reason: "ImagePull",
				Detail: "the kubelet cannot pull the image of the volume for container " + c.Name, Ends: fmt.Sprintf("image %s can be pulled on %s; the kubelet tries again after at most 5m", ref, t.pod.Spec.NodeName),
				Said: []Said{{By: fmt.Sprintf("the status of container %s (%s)", c.Name, w.Reason), Text: w.Message}},
			}
			switch w.Reason {
			case "InvalidImageName":
				stage.On, stage.Detail, stage.Ends = kubeletwords.WorkloadOwner, "the volume names an image in a form that no image has", "the pod is made again with the right name of the image"
				stage.do = "{change} correct the reference of the image volume in the pod's template: the message shows what is wrong with " + ref
				stage.permanent = true
			case "ErrImageNeverPull":
				stage.On, stage.Detail = fmt.Sprintf("whoever puts image %s on %s", ref, t.pod.Spec.NodeName), "the volume has the pull policy Never, and its image is not on the node"
				stage.Ends = fmt.Sprintf("image %s is on %s, or the pod is made again with another pull policy: the kubelet pulls nothing", ref, t.pod.Spec.NodeName)
			}
			*v.stage(StageMounted) = t.due(stage, waitsSince(t.pod), facts.MountFails)
			v.Broken = StageMounted
			return *v, true
		}
	}
	return VolumeTrace{}, false
}

// namesImage reports whether the message quotes the reference; the kubelet and the runtime complete
// it with a registry and a tag.
func namesImage(message, reference string) bool {
	return slices.ContainsFunc([]string{reference, reference + ":latest"}, func(name string) bool {
		return strings.Contains(message, `"`+name+`"`) || strings.Contains(message, "/"+name+`"`)
	})
}

// doubtMount makes the verdict Unsure where the mount may be why the container does not start,
// and not all objects that show the volume's path were read.
func (t *tracer) doubtMount(v *Verdict, c corev1.ContainerStatus) {
	w, last := c.State.Waiting, c.LastTerminationState.Terminated
	notMade := w != nil && (w.Reason == "CreateContainerError" || w.Reason == "RunContainerError")
	if t.partial() && (notMade || w != nil && last != nil && trim.NotStarted(last)) {
		v.State = finding.Unsure
	}
}

func anyRuns(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// partial reports whether an object could not be read that might show that a volume cannot get
// to its node.
func (t *tracer) partial() bool {
	kinds := []snapshot.Kind{snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSINodes, snapshot.CSIDrivers, snapshot.StorageClasses}
	return slices.ContainsFunc(kinds, func(kind snapshot.Kind) bool { return !t.knows(kind, "") }) ||
		!t.knows(snapshot.Claims, t.pod.Namespace) || !t.knows(snapshot.Events, t.pod.Namespace)
}

// otherWaits are events of steps before the kubelet waits for volumes, or of what keeps it from
// getting there.
var otherWaits = []struct{ event, reason, message string }{
	{"NetworkNotReady", "NetworkNotReady", "the network of the node is not ready, and the kubelet does not go on before it is"},
	{"FailedPrepareDynamicResources", "DynamicResources", "its dynamic resources cannot be prepared"},
	{"FailedCreatePodContainer", "Cgroups", "the kubelet cannot make its cgroups or directories"},
}

// past reports whether the event's cause is over. The kubelet writes every second that the
// network is not ready, until its recorder pauses; by then its node is not Ready.
func (t *tracer) past(e *corev1.Event) bool {
	age := t.Age(snapshot.EventTime(e))
	if e.Reason == "NetworkNotReady" {
		return age > reconcile.NodeStatusUpdate+facts.RetrySaid && t.node != nil && reconcile.NodeReady(t.node)
	}
	return age > facts.EventRepeats
}

// beforeVolumes is the wait that comes before the wait for volumes; its Reason is "" where
// there is none.
func (t *tracer) beforeVolumes(list []VolumeTrace) Verdict {
	name := facts.PodName(t.pod)
	silent := len(list) > 0 && !slices.ContainsFunc(list, func(v VolumeTrace) bool {
		return v.Broken != StageMounted && v.Broken != StageStaged || !v.stage(v.Broken).unsaid()
	})
	switch {
	case t.node != nil && !reconcile.NodeReady(t.node):
		return Verdict{State: finding.NoWait, Reason: "NodeNotReady", Message: fmt.Sprintf(
			"Pod %s waits for node %s, not for a volume: its Ready condition is %s", name, t.pod.Spec.NodeName, facts.ReadyText(t.node))}
	case t.pod.Status.StartTime == nil && len(t.pod.Status.ContainerStatuses) == 0 && silent && t.Age(waitsSince(t.pod)) > announceTakes:
		since := waitsSince(t.pod)
		return Verdict{State: finding.NoWait, Reason: "KubeletSilent", Since: &since, Message: fmt.Sprintf(
			"Pod %s waits for the kubelet of %s, which has not begun with it", name, t.pod.Spec.NodeName)}
	}
	for _, w := range otherWaits {
		if e := t.lastEvent(w.event); e != nil && silent && !t.past(e) {
			since := facts.FirstTime(e)
			return Verdict{State: finding.NoWait, Reason: w.reason, Since: &since, Message: fmt.Sprintf("Pod %s waits for no volume: %s", name, w.message)}
		}
	}
	return Verdict{}
}
