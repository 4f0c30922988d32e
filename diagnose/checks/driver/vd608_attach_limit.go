package driver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AttachLimitReached = check.Check{
	Code:     "VD608",
	Name:     "attach-limit",
	Title:    "A node has, or is to have, as many volumes attached as the driver's limit allows",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	OfDriver: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD101"}, Share: check.OnNode, Match: takesLastPlace},
	},
	Never: "delete VolumeAttachments of running pods: that takes their disk away",
	Run:   runAttachLimit,
}

func runAttachLimit(p *check.Run) {
	loads := p.Loads()
	drivers := p.Attachers()
	for _, node := range p.Snapshot.Nodes {
		for _, driver := range drivers {
			if l := loads[facts.NodeDriver{Node: node.Name, Driver: driver}]; l != nil {
				examineLoad(p, l)
			}
		}
	}
	limitForecast(p, loads)
}

func examineLoad(p *check.Run, l *facts.Load) {
	full := l.Limited && len(l.Held) >= l.Limit
	stuck := l.Refused
	if len(stuck) == 0 && full && p.AttacherAtWork(l.Driver) {
		stuck = l.Waits
	}
	pods := taskPods(p.View, stuck)
	switch {
	case len(pods) > 0 && !l.Freeing:
		limitReached(p, l, stuck, pods)
	case len(rejected(p.View, l)) > 0:
		limitAftermath(p, l, rejected(p.View, l))
	case l.Limited && l.All() > l.Limit && reconcile.NodeReady(l.Node):
		if waiting := p.WaitingForRoom(l); len(waiting) > 0 {
			limitExceeded(p, l, waiting)
		}
	}
}

func limitReached(p *check.Run, l *facts.Load, stuck []facts.Task, pods []*corev1.Pod) {
	f := limitFinding(p.View, l)
	f.Since, f.Pods = &stuck[0].Since, facts.PodNames(pods)
	f.Message = fmt.Sprintf("Pod %s waits on node %s, which has no room for volume %s", facts.PodName(pods[0]), l.Node.Name, p.TaskVolume(lead(p.View, stuck)))
	f.Detail = howFull(l)
	if failure := lead(p.View, stuck).Failure; failure != nil {
		f.Said = p.QuoteAttach(l.Driver, failure, pods)
	}
	f.Cause = "the driver attaches no more volumes to the node, and gives the scheduler no limit to count with"
	if l.Limited {
		f.Cause = "the driver attaches no more volumes to the node: its limit is too high, other devices take up room, or the pod names its node itself"
	}
	f.Evidence = append(f.Evidence, taskEvidence(stuck)...)
	f.SelfHeals.Because = "it fits once another volume leaves the node"
	f.Advice = fmt.Sprintf("{do} {reversible} cordon %s, so that the pod starts elsewhere; {delete-pod}; {do} {reversible} uncordon %[1]s once the pod runs elsewhere; {later} %s", l.Node.Name, correctLimit(l.Driver))
	f.AdviceCommands = []string{safetext.Kubectl("cordon", "node/"+l.Node.Name)}
	if leftWaiting(p.View, l, stuck) {
		f.Advice += "; set nodeAllocatableUpdatePeriodSeconds in the CSIDriver, too: the kubelet then rejects such a pod, and its workload makes another"
	}
	p.Report(f)
}

// limitSettings is where each driver sets the limit that it announces; many drivers have no such
// setting.
var limitSettings = map[string]string{
	"ebs.csi.aws.com":                 "volume-attach-limit or reserved-volume-attachments",
	"disk.csi.azure.com":              "volume-attach-limit or reserved-data-disk-slot-num",
	"cinder.csi.openstack.org":        "node-volume-attach-limit in its cloud configuration",
	"pd.csi.storage.gke.io":           "the node's label node-restriction.kubernetes.io/gke-volume-attach-limit-override",
	"diskplugin.csi.alibabacloud.com": "MAX_VOLUMES_PERNODE in its node plugin",
}

// correctLimit is the advice that corrects the limit.
func correctLimit(driver string) string {
	if setting := limitSettings[driver]; setting != "" {
		return "correct the driver's limit (" + setting + ")"
	}
	return "see whether the limit of the driver can be set, and make it what the machine takes"
}

// leftWaiting reports whether only a setting of the driver keeps the kubelet from rejecting the
// pod. From 1.35 on it rejects where the attacher records the code and the CSIDriver says how
// often to ask for the limit (VerifyExhaustedResource).
func leftWaiting(p *facts.View, l *facts.Load, stuck []facts.Task) bool {
	d := p.Snapshot.CSIDriver(l.Driver)
	kubelet := facts.ParseKubelet(l.Node.Status.NodeInfo.KubeletVersion)
	return d != nil && d.Spec.NodeAllocatableUpdatePeriodSeconds == nil && kubelet >= facts.LimitRejection &&
		slices.ContainsFunc(stuck, func(t facts.Task) bool {
			return t.Failure != nil && t.Failure.ErrorCode != nil && *t.Failure.ErrorCode == facts.ResourceExhausted
		})
}

// rejected are the failed pods that the kubelet refused because of the limit. Their attachment
// stays as long as they exist.
func rejected(p *facts.View, l *facts.Load) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range p.PodsByRole().Refused[facts.NodeName(l.Node)] {
		if pod.DeletionTimestamp != nil || p.Age(facts.BoundAt(pod)) < facts.AttachGrace {
			continue
		}
		stays := func(va *storagev1.VolumeAttachment) bool { return !va.Status.Attached && va.DeletionTimestamp == nil }
		for i := range pod.Spec.Volumes {
			name, spec, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i])
			if err != nil || !facts.InUse(l.Node, name) {
				continue
			}
			pair := reconcile.VolumeNode{Volume: name, Node: facts.NodeName(l.Node)}
			if d, _, _ := spec.CSI(); d == l.Driver && slices.ContainsFunc(p.World.Attachments(pair), stays) && p.World.Desired.Find(pair) == nil {
				pods = append(pods, pod)
				break
			}
		}
	}
	return pods
}

func limitAftermath(p *check.Run, l *facts.Load, pods []*corev1.Pod) {
	f := limitFinding(p.View, l)
	f.Severity, f.Since, f.Pods = finding.Warning, new(facts.BoundAt(pods[0])), facts.PodNames(pods)
	f.Message = fmt.Sprintf("Failed pod %s, refused by full node %s, keeps its attachment waiting", facts.PodName(pods[0]), l.Node.Name)
	f.Detail = "the node refused it because its volume does not fit; " + howFull(l)
	f.Cause = "a pod whose volume was never mounted keeps it in volumesInUse for as long as the pod exists, and so the attachment, which the attacher " +
		"tries again and the scheduler counts"
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pods[0]), Field: "status.reason", Value: pods[0].Status.Reason})
	f.SelfHeals.Because = "the failed pod has to be deleted; only its deletion lets the attachment go; a StatefulSet deletes it, a ReplicaSet does not"
	f.ByHand = step.DeletePod.Of(facts.PodName(pods[0]))
	p.Report(f)
}

// limitExceeded reports a node whose pods wait for more volumes than fit, though none has been
// refused yet. A full node without a waiting pod is no fault.
func limitExceeded(p *check.Run, l *facts.Load, waiting []*corev1.Pod) {
	f := limitFinding(p.View, l)
	f.Severity, f.Pods = finding.Info, facts.PodNames(waiting)
	f.Message = fmt.Sprintf("Pods on node %s want more volumes of %s than fit", l.Node.Name, l.Driver)
	f.Detail = howFull(l)
	f.Cause = "the pods name the node themselves, or were scheduled while the driver gave no limit"
	f.SelfHeals.Because = "the rest waits until another volume leaves the node; nobody moves the pods"
	f.Advice = fmt.Sprintf("{note} see in a few minutes which pod there still waits, and let that one start on another node: %d of the volumes cannot be attached here", l.All()-l.Limit)
	p.Report(f)
}

func limitFinding(p *facts.View, l *facts.Load) finding.Finding {
	limit := "none given"
	if l.Limited {
		limit = fmt.Sprint(l.Limit)
	}
	f := finding.Finding{
		Subject:  p.DriverObject(l.Driver),
		Node:     facts.NodeName(l.Node),
		Evidence: []finding.Evidence{{Object: "csinode/" + l.Node.Name, Field: "spec.drivers[" + l.Driver + "].allocatable.count", Value: limit}},
	}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "volumeattachments", Field: "status.attached", Value: fmt.Sprintf("true of %d on the node", len(l.Held))})
	for _, name := range l.Held {
		if pair := (reconcile.VolumeNode{Volume: name, Node: facts.NodeName(l.Node)}); p.Forgotten(pair) {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + l.Node.Name, Field: "status.volumesInUse", Value: "lacks " + string(name) + ", which is attached and which no pod there uses"})
		}
	}
	return f
}

// howFull is a clause: how full the node is.
func howFull(l *facts.Load) string {
	all := l.All()
	if l.Limited {
		return fmt.Sprintf("%d of at most %d volumes are attached, %d with those that pods want there", len(l.Held), l.Limit, all)
	}
	return fmt.Sprintf("%d volumes are attached, %d with those that pods want there; disks that Kubernetes did not attach take room as well", len(l.Held), all)
}

// takesLastPlace reports whether all wanted volumes fit once the unused one leaves the node.
func takesLastPlace(p *facts.View, unused, full finding.Finding) bool {
	if unused.Node != full.Node || !check.SameDriver(p, unused, full) {
		return false
	}
	driver := p.DriverOf(full)
	l := p.Loads()[facts.NodeDriver{Node: string(full.Node), Driver: driver}]
	return l != nil && l.Holds(unused.Volume) && l.Limited && l.All()-1 <= l.Limit
}
