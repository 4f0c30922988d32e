package blocked

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var SlowOwnership = check.Check{
	Code:        "VD413",
	Name:        "slow-ownership",
	Title:       "A pod waits while the owner or the label of each file of its volume is changed",
	Severity:    finding.Warning,
	Needs:       check.AttachmentKinds(snapshot.CSINodes, snapshot.Events),
	OfNamespace: true,
	Never:       "delete the pod: the next one begins from the start",
	Run:         runSlowOwnership,
}

// ownership is a pod's volume whose files get another owner.
type ownership struct {
	pod   *corev1.Pod
	pv    *corev1.PersistentVolume
	since metav1.Time
	// said is the kubelet's last report; nil where its release makes none.
	said *corev1.Event
}

func runSlowOwnership(p *check.Run) {
	var found []ownership
	for _, pod := range p.PendingPods() {
		node := p.Snapshot.Node(facts.NodeOf(pod))
		if !waitsInMount(p.View, pod, node) {
			continue
		}
		for i := range pod.Spec.Volumes {
			if o, ok := changesOwner(p.View, pod, node, &pod.Spec.Volumes[i]); ok {
				found = append(found, o)
			}
		}
	}
	for _, pod := range p.Snapshot.Pods {
		if slow, ok := p.SlowCreate(pod); ok && pod.DeletionTimestamp == nil && !reconcile.PodTerminated(pod) && p.Age(slow.Since) >= facts.LongFileChange {
			slowCreate(p, pod, slow)
		}
	}
	for _, list := range check.GroupBy(found, func(o ownership) string { return o.pv.Name }) {
		slowOwnership(p, list)
	}
}

// waitsInMount reports whether the kubelet works on the pod's volumes: it has begun with the pod,
// everything is attached, and no event shows another cause of the wait.
func waitsInMount(p *facts.View, pod *corev1.Pod, node *corev1.Node) bool {
	context := pod.Spec.SecurityContext
	if context == nil || context.FSGroup == nil || node == nil || !reconcile.NodeReady(node) || p.HeartbeatStale(node) || reconcile.PodTerminated(pod) ||
		facts.MayUseVolumes(pod) || pod.Status.StartTime == nil && len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	for _, e := range p.EventsOf(pod) {
		if slices.Contains([]string{"FailedCreatePodSandBox", "NetworkNotReady", "FailedPrepareDynamicResources", "FailedCreatePodContainer"}, e.Reason) ||
			kubeletwords.Failed.MatchString(e.Message) && (e.Reason == "FailedMount" || e.Reason == "FailedMapVolume") {
			return false
		}
	}
	return !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		name, _, err := p.World.PodVolume(pod, &v)
		pair := reconcile.VolumeNode{Volume: name, Node: facts.NodeName(node)}
		return err == nil && facts.Referenced(pod, v.Name) &&
			(!slices.ContainsFunc(p.World.Attachments(pair), facts.Holds) || !p.Lists(node, name) || !p.InUse(node, name))
	})
}

func changesOwner(p *facts.View, pod *corev1.Pod, node *corev1.Node, v *corev1.Volume) (ownership, bool) {
	pv := p.BoundVolume(pod, v)
	if pv == nil || pv.Spec.CSI == nil || facts.BlockMode(pv) || !facts.Referenced(pod, v.Name) ||
		!facts.Registers(p.Snapshot.CSINode(facts.NodeName(node)), pv.Spec.CSI.Driver) {
		return ownership{}, false
	}
	o := ownership{pod: pod, pv: pv, said: lastOwnershipReport(p, pod, pv.Name)}
	if o.said != nil {
		o.since = facts.FirstTime(o.said)
		return o, p.Age(o.since) >= facts.LongFileChange || p.Age(snapshot.EventTime(o.said)) > facts.OwnershipSilent
	}
	kubelet := facts.ParseKubelet(node.Status.NodeInfo.KubeletVersion)
	policy := pod.Spec.SecurityContext.FSGroupChangePolicy
	if !kubelet.Before(facts.PermissionEvents) || !takesFSGroup(p, pv) || policy != nil && *policy == corev1.FSGroupChangeOnRootMismatch ||
		gaveUp(p, pod, v.Name, kubelet) {
		return ownership{}, false
	}
	o.since = facts.BoundAt(pod)
	if name, err := p.World.VolumeName(pv); err == nil {
		for _, va := range p.World.Attachments(reconcile.VolumeNode{Volume: name, Node: facts.NodeName(node)}) {
			o.since = facts.Latest(o.since, va.CreationTimestamp)
		}
	}
	if e := p.AttachSucceeded(pod, pv.Name); e != nil {
		o.since = facts.Latest(o.since, snapshot.EventTime(e))
	}
	return o, p.Age(o.since) >= facts.MountTakes
}

// gaveUp reports whether the kubelet's failed waits have another cause: they name another volume,
// or its release writes such an event only for an error.
func gaveUp(p *facts.View, pod *corev1.Pod, volume string, kubelet facts.KubeletRelease) bool {
	return slices.ContainsFunc(p.EventsOf(pod), func(e *corev1.Event) bool {
		m := kubeletwords.WaitFailed.FindStringSubmatch(e.Message)
		return m != nil && e.Reason == "FailedMount" && (kubelet >= facts.SilentTimeout || !slices.Contains(strings.Fields(m[1]), volume))
	})
}

// slowCreate reports a container that its runtime is still creating.
func slowCreate(p *check.Run, pod *corev1.Pod, slow facts.SlowCreate) {
	name := p.KubeletName(pod, slow.Volume)
	f := finding.Finding{
		Subject: facts.PodObject(pod), Node: facts.NodeOf(pod), Pods: []string{facts.PodName(pod)}, Since: &slow.Since,
		Message: fmt.Sprintf("Pod %s waits on node %s: its runtime has not created container %s", facts.PodName(pod), pod.Spec.NodeName, slow.Container),
		Detail:  fmt.Sprintf("volume %s is mounted, and the container runtime still works on the first call to create the container", name),
		Cause: "not known: where SELinux is on, the runtime gives each file of the volume a label first, which takes as long as there are files; " +
			"else the mount does not answer, or the node's own disk is slow",
		Evidence:  []finding.Evidence{{Object: "pod/" + facts.PodName(pod), Field: "containerStatuses " + slow.Container, Value: "the container's name is reserved"}},
		SelfHeals: finding.SelfHeals{Unknown: true, Because: "the container starts once the runtime has labelled all files; a mount that does not answer looks the same"},
		Advice: "{check} look at the log of the container runtime of " + pod.Spec.NodeName + ", and whether the volume's mount answers there (stat). Where files are labelled, let it end; " +
			"{later} choose a driver whose CSIDriver has seLinuxMount, so that the mount gets the label and not each file",
	}
	if slow.PV != nil {
		f.PersistentVolume = slow.PV.Name
	}
	p.Report(f)
}

func slowOwnership(p *check.Run, list []ownership) {
	first := list[0]
	pods := make([]*corev1.Pod, 0, len(list))
	for _, o := range list {
		pods = append(pods, o.pod)
	}
	context := first.pod.Spec.SecurityContext
	group, policy := *context.FSGroup, ptr.Deref(context.FSGroupChangePolicy, "not set (Always)")
	f := finding.Finding{
		Subject:          facts.PvObject(first.pv),
		PersistentVolume: first.pv.Name,
		Node:             facts.NodeOf(first.pod),
		Pods:             facts.PodNames(pods),
		Since:            &first.since,
		Cause:            fmt.Sprintf("the pod has an fsGroup (%d), and the kubelet gives it each file of the volume before it starts a container", group),
		Evidence: []finding.Evidence{
			{Object: "pod/" + facts.PodName(first.pod), Field: "spec.securityContext", Value: fmt.Sprintf("fsGroup %d, fsGroupChangePolicy %s", group, policy)},
		},
		SelfHeals: finding.SelfHeals{Will: true, Because: "the pod starts once the owner of all files is changed; each start on another node, or after a restart, takes as long"},
		Advice:    "{note} let it end; {later} set fsGroupChangePolicy to OnRootMismatch in the pod's template, so that the kubelet looks at the root directory alone",
	}
	where := fmt.Sprintf("Pod %s waits on node %s: the kubelet ", facts.PodName(first.pod), first.pod.Spec.NodeName)
	f.Detail = fmt.Sprintf("the pod has waited %s for volume %s, which is attached and has no error", facts.Rounded(p.Age(first.since)), first.pv.Name)
	switch {
	case first.said == nil:
		f.Message = where + "probably changes owners in volume " + first.pv.Name
		facts.Also(&f, "the kubelet is most likely changing the owner of its files, which its release does without a word")
		f.SelfHeals.Will, f.SelfHeals.Unknown = false, true
		f.SelfHeals.Because = "it ends once the owner of all files is changed; a mount that hangs looks the same"
		f.Advice = "{check} look at the node's kubelet log for the volume. If it is that, " + f.Advice
	case p.Age(snapshot.EventTime(first.said)) > facts.OwnershipSilent:
		f.Message = where + "may hang on volume " + first.pv.Name
		facts.Also(&f, "the kubelet has changed the owner of its files, and has reported nothing for %s", facts.Rounded(p.Age(snapshot.EventTime(first.said))))
		f.SelfHeals.Will, f.SelfHeals.Unknown = false, true
		f.SelfHeals.Because = "the kubelet reports once a minute while it changes files; it was restarted, or a file operation on the volume hangs"
		f.Advice = "{check} look at the node's kubelet log and at the storage, where a file operation may hang; {later} set fsGroupChangePolicy to " +
			"OnRootMismatch in the pod's template"
	default:
		f.Severity = finding.Info // it ends by itself
		f.Message = where + "changes the owners in volume " + first.pv.Name
		facts.Also(&f, "the kubelet is changing the owner of its files")
	}
	if first.said != nil {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(first.pod), Field: "event " + first.said.Reason, Value: first.said.Message})
	}
	f.Detail = finding.Clauses(f.Detail, facts.Alike(pods))
	p.Report(f)
}

// lastOwnershipReport is the kubelet's last event about a change of ownership of
// the pod's volume; nil where there is none.
func lastOwnershipReport(p *facts.View, pod *corev1.Pod, volume string) *corev1.Event {
	return p.LastEvent(pod, func(e *corev1.Event) bool { return e.Reason == facts.OwnershipReason && p.ChangesOwner(e, pod, volume) })
}

// takesFSGroup reports whether the kubelet gives the volume's files to a pod's fsGroup
// (csiMountMgr.supportsFSGroup). Without a policy a driver's volume also needs a file system
// type; nearly all have one, and this does not check it.
func takesFSGroup(p *facts.View, pv *corev1.PersistentVolume) bool {
	if pv.Spec.CSI == nil || facts.BlockMode(pv) {
		return false
	}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if d := p.Snapshot.CSIDriver(pv.Spec.CSI.Driver); d != nil && d.Spec.FSGroupPolicy != nil {
		policy = *d.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.FileFSGroupPolicy:
		return true
	case storagev1.NoneFSGroupPolicy:
		return false
	default:
		return slices.ContainsFunc(pv.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
			return m == corev1.ReadWriteOnce || m == corev1.ReadWriteOncePod
		})
	}
}
