package attached

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// ThirdPartyDeletesVAs sees a VolumeAttachment that was deleted under a running pod by the
// age of the one that has come since. Who deletes them shows only over time.
var ThirdPartyDeletesVAs = check.Check{
	Code:     "VD122",
	Name:     "third-party-deletes-vas",
	Title:    "Another program deletes VolumeAttachments while the controller works on them",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(),
	Never:    "delete VolumeAttachments, by hand or in a script: to delete one is to detach the volume, mounted or not",
	Run:      runThirdPartyDeletesVAs,
}

// clocksOfNodes is how far the clock of a node may be behind that of the API server. A
// judgement: a clock that is further off breaks certificates and leases first.
const clocksOfNodes = 2 * time.Minute

func runThirdPartyDeletesVAs(p *check.Run) {
	for _, va := range p.Attachments() {
		driver, _, ok := reconcile.ParseCSI(va.Volume)
		if !ok || !va.Holds() || !va.Ours() || va.CreationTimestamp.IsZero() ||
			!slices.ContainsFunc(va.Finalizers, func(f string) bool { return strings.HasPrefix(f, reconcile.AttacherFinalizerPrefix) }) {
			continue // without the attacher's finalizer the driver was never asked to detach anything
		}
		pv := p.World.Volume(va.Volume)
		if pv == nil || pv.Spec.CSI == nil {
			continue // one that has moved to CSI was attached without a VolumeAttachment before
		}
		d := p.Snapshot.CSIDriver(driver)
		for _, pod := range p.World.LivePods(va.VolumeNode) {
			container, started := runsSince(pod)
			if container == "" || pod.DeletionTimestamp != nil || !started.Add(clocksOfNodes).Before(va.CreationTimestamp.Time) ||
				d != nil && started.Before(&d.CreationTimestamp) || !p.ContainersUse(pod, va.Volume) {
				continue
			}
			attachedAgain(p, va, pod, container, started)
			break
		}
	}
}

// runsSince is the container of the pod that has run longest, and since when.
func runsSince(pod *corev1.Pod) (name string, since metav1.Time) {
	for _, c := range pod.Status.ContainerStatuses {
		if run := c.State.Running; run != nil && !run.StartedAt.IsZero() && (name == "" || run.StartedAt.Before(&since)) {
			name, since = c.Name, run.StartedAt
		}
	}
	return name, since
}

func attachedAgain(p *check.Run, va facts.Attachment, pod *corev1.Pod, container string, started metav1.Time) {
	pv, node := p.ShortVolume(va.Volume), p.Snapshot.Node(va.Node)
	f := p.About(va, finding.Finding{
		Subject: facts.PodObject(pod), Pods: []string{facts.PodName(pod)}, Since: &va.CreationTimestamp,
		Message: fmt.Sprintf("Volume %s was detached and attached again under running pod %s on node %s", pv, facts.PodName(pod), va.Node),
		Detail:  "its VolumeAttachment is younger than container " + container,
		Cause:   "somebody deleted the VolumeAttachment while the pod ran, and the controller made it again: a script, a fencing operator, or a person",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "metadata.creationTimestamp", Value: facts.Stamp(va.CreationTimestamp)},
			{Object: "pod/" + facts.PodName(pod), Field: "status.containerStatuses", Value: fmt.Sprintf("container %s runs since %s", container, facts.Stamp(started))},
		},
		SelfHeals: finding.SelfHeals{Because: "the mount in the pod is of the device that was taken away: reads and writes may fail, or the file system may have gone read-only"},
	})
	deleted := "the VolumeAttachment"
	if node != nil && started.Add(clocksOfNodes).Before(node.CreationTimestamp.Time) {
		deleted = "node " + node.Name
		f.Cause = fmt.Sprintf("node %s was deleted while the pod ran, by a script, a cloud provider or a person: the controller detached its volumes, and attached them again once the node was there again", node.Name)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "metadata.creationTimestamp", Value: facts.Stamp(node.CreationTimestamp)})
	}
	look := fmt.Sprintf("{check} find out in the API server's audit log who deleted %s", deleted)
	restart := fmt.Sprintf("{delete-pod %s}, and look at the kernel's log of node %s and at the file system of the volume", facts.PodName(pod), va.Node)
	f.Advice = restart + "; " + look
	if !p.PodsKnown(node, va.CreationTimestamp) {
		f.Confidence = finding.Suspected
		f.Cause = fmt.Sprintf("suspected, and certain where container %s still runs once the kubelet of node %s has been at work for %s: %s. Or the machine has been off since, and the container has ended: its kubelet has not said so yet",
			container, va.Node, facts.Rounded(facts.PodsReported), f.Cause)
		f.SelfHeals.Unknown, f.SelfHeals.Because = true, "a container that has ended starts, if at all, with a new mount; where it runs on, "+f.SelfHeals.Because
		f.Advice = look + "; {later} where the container runs on, " + restart
		if node != nil {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)})
		}
	}
	p.Report(f)
}
