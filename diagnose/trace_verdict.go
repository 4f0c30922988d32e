package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// toBe says what a volume waits for in each stage.
var toBe = map[StageName]string{
	StageScheduled:  "a node",
	StageClaimBound: "its claim to be bound",
	StageAskedFor:   "the kubelet to ask for it",
	StageAttached:   "it to be attached",
	StageListed:     "it to be listed in volumesAttached",
	StageRegistered: "its driver to register there",
	StageStaged:     "it to be staged",
	StageMounted:    "it to be mounted",
	StageUnmounted:  "it to be unmounted",
}

func (v TraceVolume) stage(name StageName) *Stage {
	for i := range v.Stages {
		if v.Stages[i].Stage == name {
			return &v.Stages[i]
		}
	}
	return &Stage{}
}

// waits is what the verdict is chosen from: the volumes that wait, the one that
// explains most first, and whether there are volumes of which nothing is known.
func waits(volumes []TraceVolume) (list []TraceVolume, unknown []TraceVolume) {
	for _, v := range volumes {
		switch v.stage(v.Broken).State {
		case StageWaiting, StageBlocked:
			list = append(list, v)
		case StageUnknown:
			unknown = append(unknown, v)
		default: // done, or not needed
		}
	}
	slices.SortStableFunc(list, func(a, b TraceVolume) int {
		x, y := a.stage(a.Broken), b.stage(b.Broken)
		return cmp.Or(boolToInt(y.Overdue)-boolToInt(x.Overdue), boolToInt(y.State == StageBlocked)-boolToInt(x.State == StageBlocked),
			slices.Index(brokenOrder, a.Broken)-slices.Index(brokenOrder, b.Broken))
	})
	return list, unknown
}

// verdictUp tells a wait for a volume from the others that look like it.
func (t *tracer) verdictUp(volumes []TraceVolume) TraceVerdict {
	list, unknown := waits(volumes)
	if t.pod.Spec.NodeName == "" {
		return t.verdictUnscheduled(volumes, list)
	}
	if p := t.mountsProven(); p.yes {
		return t.verdictMounted(p)
	}
	blocked := slices.ContainsFunc(list, func(v TraceVolume) bool {
		s := v.stage(v.Broken)
		return s.State == StageBlocked && s.reason != "NodeNotReady"
	})
	if other := t.beforeVolumes(list); other.Reason != "" && !blocked {
		if t.partial() {
			other.State = TraceUnsure
			other.Message += "; whether a volume keeps it as well is not known, for want of what could not be read"
		}
		return other
	}
	switch {
	case !blocked && t.node == nil && !t.knows(snapshot.Nodes, "") && len(list)+len(unknown) > 0:
		return TraceVerdict{State: TraceUnsure, Reason: "NodeNotRead", Message: fmt.Sprintf(
			"Whether pod %s waits for a volume or for node %s is not known: not all nodes could be read", podName(t.pod), t.pod.Spec.NodeName)}
	case len(list) > 0:
		return t.waitFor(list)
	case len(unknown) > 0:
		return t.unsure(unknown[0], unknown[0].Broken)
	default:
		return TraceVerdict{State: TraceNoWait, Reason: "NoVolumes", Message: fmt.Sprintf("Pod %s waits for no volume: its containers mount none", podName(t.pod))}
	}
}

func (t *tracer) unsure(v TraceVolume, stage StageName) TraceVerdict {
	return TraceVerdict{State: TraceUnsure, Reason: string(stage), Volume: v.Name, Message: fmt.Sprintf(
		"Whether pod %s waits for volume %s is not known: %s", podName(t.pod), v.Name, v.stage(stage).Detail)}
}

// waitFor is the verdict on pods that wait for a volume.
func (t *tracer) waitFor(list []TraceVolume) TraceVerdict {
	v := list[0]
	s := v.stage(v.Broken)
	verdict := TraceVerdict{State: TraceInFlight, Reason: cmp.Or(s.reason, string(v.Broken)), Volume: v.Name, Since: s.Since, UsualBound: s.UsualBound}
	if s.Overdue {
		verdict.State = TraceStuck
	}
	name := v.Name
	if v.PersistentVolume != "" {
		name += " (" + v.PersistentVolume + ")"
	}
	where := ""
	if t.pod.Spec.NodeName != "" {
		where = " on node " + t.pod.Spec.NodeName
	}
	verdict.Message = fmt.Sprintf("Pod %s waits%s for volume %s: for %s", podName(t.pod), where, name, toBe[v.Broken])
	if s.On != "" {
		verdict.Message += "; next to act: " + s.On
	}
	if n := len(list) - 1; n > 0 {
		verdict.Message += fmt.Sprintf("; it waits for %d more", n)
	}
	return verdict
}

// verdictUnscheduled is for a pod without a node. Volumes may be the reason.
func (t *tracer) verdictUnscheduled(volumes, list []TraceVolume) TraceVerdict {
	scheduled := t.scheduled()
	claims := slices.DeleteFunc(slices.Clone(list), func(v TraceVolume) bool {
		return v.stage(StageClaimBound).Stage == "" || v.stage(StageClaimBound).State == StageDone || v.stage(StageClaimBound).On == "the scheduler" ||
			v.stage(StageClaimBound).State == StageUnknown
	})
	if len(claims) > 0 {
		for i := range claims {
			claims[i].Broken = StageClaimBound
		}
		return t.waitFor(claims)
	}
	message := fmt.Sprintf("Pod %s has no node yet", podName(t.pod))
	if len(scheduled.Said) > 0 && scheduled.Said[0].Means != "" {
		verdict := TraceVerdict{State: TraceInFlight, Reason: string(StageScheduled), Since: scheduled.Since, UsualBound: scheduled.UsualBound,
			Message: message + ", and volumes are among the reasons: " + scheduled.Said[0].Means}
		if scheduled.Overdue {
			verdict.State = TraceStuck
		}
		return verdict
	}
	if i := slices.IndexFunc(volumes, func(v TraceVolume) bool { return v.stage(StageClaimBound).State == StageUnknown }); i >= 0 {
		return t.unsure(volumes[i], StageClaimBound)
	}
	return TraceVerdict{State: TraceNoWait, Reason: "Unscheduled", Since: scheduled.Since,
		Message: message + ": it waits for the scheduler, which names no volume as a reason"}
}

// verdictMounted is for a pod whose volumes are mounted, whatever else it waits
// for.
func (t *tracer) verdictMounted(p proof) TraceVerdict {
	v := TraceVerdict{State: TraceNoWait, Reason: "Mounted", Message: fmt.Sprintf("Pod %s waits for no volume: all are mounted (%s)", podName(t.pod), p.how)}
	if !p.since.IsZero() {
		v.Since = &p.since
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
			v.Message += fmt.Sprintf("; container %s waits: %s", c.Name, w.Reason)
			if w.Message != "" {
				v.Message += ": " + w.Message
			}
			return v
		}
	}
	for _, c := range t.pod.Status.InitContainerStatuses {
		if !c.Ready && (c.State.Running != nil || c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing") && !t.anyRuns() {
			v.Reason = "InitContainers"
			v.Message += "; it waits for init container " + c.Name
			return v
		}
	}
	if e := t.lastEvent("FailedCreatePodSandBox"); e != nil && !t.anyRuns() && (t.startCondition() == nil || t.startCondition().Status != corev1.ConditionTrue) {
		v.Reason = "Sandbox"
		v.Message += "; it waits for its sandbox and network: " + e.Message
	} else if !t.anyRuns() && slices.ContainsFunc(t.pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && c.State.Waiting.Reason == "ContainerCreating"
	}) {
		v.Reason = "ContainerCreating"
		v.Message += "; its images are being pulled, or the runtime gives many files an SELinux label"
	}
	return v
}

func (t *tracer) anyRuns() bool {
	return slices.ContainsFunc(t.pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// partial says that something could not be read which might show that a volume
// cannot come to its node.
func (t *tracer) partial() bool {
	for _, kind := range []snapshot.Kind{snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSINodes, snapshot.CSIDrivers, snapshot.StorageClasses} {
		if !t.knows(kind, "") {
			return true
		}
	}
	return !t.knows(snapshot.Claims, t.pod.Namespace) || !t.knows(snapshot.Events, t.pod.Namespace)
}

// otherWaits are events of what the kubelet does before it waits for volumes,
// or what keeps it from getting there.
var otherWaits = []struct{ event, reason, message string }{
	{"NetworkNotReady", "NetworkNotReady", "the network of the node is not ready, and the kubelet does not go on before it is"},
	{"FailedPrepareDynamicResources", "DynamicResources", "its dynamic resources cannot be prepared"},
	{"FailedCreatePodContainer", "Cgroups", "the kubelet cannot make its cgroups or directories"},
}

// beforeVolumes is what the pod waits for before its volumes count; its reason
// is empty where there is nothing of the kind.
func (t *tracer) beforeVolumes(list []TraceVolume) TraceVerdict {
	name := podName(t.pod)
	silent := len(list) > 0 && !slices.ContainsFunc(list, func(v TraceVolume) bool {
		return v.Broken != StageMounted && v.Broken != StageStaged || len(v.stage(v.Broken).Said) > 0
	})
	switch {
	case t.node != nil && !reconcile.NodeReady(t.node):
		return TraceVerdict{State: TraceNoWait, Reason: "NodeNotReady", Message: fmt.Sprintf(
			"Pod %s waits for node %s, not for a volume: its Ready condition is %s", name, t.pod.Spec.NodeName, readyText(t.node))}
	case t.pod.Status.StartTime == nil && len(t.pod.Status.ContainerStatuses) == 0 && silent && t.Age(boundAt(t.pod)) > announceTakes:
		since := boundAt(t.pod)
		return TraceVerdict{State: TraceNoWait, Reason: "KubeletSilent", Since: &since, Message: fmt.Sprintf(
			"Pod %s waits for the kubelet of %s, which has not begun with it", name, t.pod.Spec.NodeName)}
	}
	for _, w := range otherWaits {
		if e := t.lastEvent(w.event); e != nil && silent {
			since := firstTime(e)
			return TraceVerdict{State: TraceNoWait, Reason: w.reason, Since: &since, Message: fmt.Sprintf("Pod %s waits for no volume: %s", name, w.message)}
		}
	}
	return TraceVerdict{}
}
