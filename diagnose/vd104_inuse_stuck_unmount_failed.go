package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var inuseStuckUnmountFailed = Check{
	Code:     "VD104",
	Name:     "inuse-stuck-unmount-failed",
	Title:    "A kubelet does not unmount a volume that no pod uses any more, which blocks its detach without limit",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runInuseStuckUnmountFailed,
}

func runInuseStuckUnmountFailed(p *Pass) {
	waiting := p.waiting()
	for _, va := range p.attachments() {
		if !p.keptAfterUse(va) {
			continue
		}
		if pods, _ := p.heldByEnded(va.VolumeNode); len(pods) > 0 {
			continue // terminated-pod-holds-volume: nothing has failed
		}
		if since, long := p.unused(va); long {
			f := p.keptFinding(va, elsewhere(waiting[va.Volume], va.Node))
			f.Since = &since
			p.unmountFailed(f, va)
		}
	}
}

// keptFinding is what the findings about a volume in use by nobody have in
// common. Its message is only the end of theirs.
func (p *Pass) keptFinding(va attachment, waiters []*corev1.Pod) Finding {
	f := Finding{
		Subject:          Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID},
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: p.shortVolume(va.Volume),
		VolumeAttachment: va.Name,
		Evidence: []Evidence{
			{va.object(), "status.attached", "true, not being deleted"},
			{"node/" + string(va.Node), "status.volumesInUse", string(va.Volume)},
			{"node/" + string(va.Node), "status.conditions[Ready]", readyText(p.Snapshot.Node(va.Node))},
		},
	}
	if len(waiters) > 0 && p.oneNode(va.Volume) {
		f.Severity, f.Pods = Error, podNames(waiters)
		f.Message = fmt.Sprintf("; pod %s waits for it on node %s", podName(waiters[0]), waiters[0].Spec.NodeName)
	}
	return f
}

func (p *Pass) unmountFailed(f Finding, va attachment) {
	driver, _, _ := reconcile.ParseCSI(va.Volume)
	f.Message = fmt.Sprintf("Volume %s is still in use on node %s, though no pod there has used it for at least %s: the kubelet does not get it "+
		"unmounted, and the controller waits for that", f.PersistentVolume, f.Node, rounded(p.Age(*f.Since))) + f.Message
	f.Cause = "the kubelet fails to unmount the volume, and tells so only in its log: something else on the node holds it, or the driver's node plugin fails"
	ended := p.endedPods(va.VolumeNode)
	for _, pod := range ended {
		f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(pod), "status", endedText(pod)})
		if pod.DeletionTimestamp != nil {
			f.Cause = fmt.Sprintf("the containers of pod %s have ended, but the kubelet fails to unmount the volume for it, and tells so only in its log; "+
				"until then the pod object stays as well", podName(pod))
			if len(f.Pods) == 0 {
				f.Pods = []string{podName(pod)}
				f.Message += fmt.Sprintf("; pod %s stays Terminating until then", podName(pod))
			}
		}
	}
	if p.Snapshot.Complete(snapshot.CSINodes) && !registers(p.Snapshot.CSINode(va.Node), driver) {
		f.Cause = fmt.Sprintf("driver %s is not registered on the node: the kubelet has nobody to ask for the unmount", driver)
		f.Evidence = append(f.Evidence, p.registeredDrivers(p.Snapshot.Node(va.Node)))
	}
	f.SelfHeals = SelfHeals{Because: "the kubelet tries again, at most 2 min 2 s apart; while it fails and the node is Ready, the controller waits without " +
		"limit (up to 1.24.8 it detached after 6 min, mounted or not)"}
	f.Advice = fmt.Sprintf("on node %s see the kubelet's log for UnmountDevice or TearDown, and the driver's node plugin there; restart that plugin's pod, "+
		"find what still holds the mount (findmnt, another mount namespace, multipath), or drain and reboot the node. Do not delete the VolumeAttachment: "+
		"it takes the disk from under a file system that is mounted", va.Node)
	p.Report(f)
}

func endedText(pod *corev1.Pod) string {
	text := string(pod.Status.Phase) + ", no container runs"
	if pod.DeletionTimestamp != nil {
		text += ", Terminating since " + stamp(*pod.DeletionTimestamp)
	}
	return text
}
