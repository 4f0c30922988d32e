package blocked

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var MountBroken = check.Check{
	Code:        "VD416",
	Name:        "mount-broken",
	Title:       "A container cannot start because the mount of its volume does not work",
	Severity:    finding.Error,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes},
	OfNamespace: true,
	Never:       "force-delete the pod: its mount stays, and the next pod there gets it",
	Run:         runMountBroken,
}

// deadMount are the kernel's messages for a mount whose process, server or device is gone.
var deadMount = []string{"transport endpoint is not connected", "socket not connected", "stale file handle", "stale NFS file handle", "input/output error",
	"no such device", "host is down"}

func runMountBroken(p *check.Run) {
	for _, pod := range p.Snapshot.Pods {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || reconcile.PodTerminated(pod) {
			continue
		}
		if broken, ok := p.BrokenMount(pod); ok {
			reportBrokenMount(p, pod, broken)
		}
	}
}

func reportBrokenMount(p *check.Run, pod *corev1.Pod, broken facts.BrokenMount) {
	if p.Age(broken.Since) <= facts.MountFails {
		return // by then the kubelet starts the container again
	}
	name := p.KubeletName(pod, broken.Volume)
	f := finding.Finding{
		Subject: facts.PodObject(pod), Node: facts.NodeOf(pod), Pods: []string{facts.PodName(pod)}, Since: &broken.Since,
		Message:   fmt.Sprintf("Pod %s on node %s cannot start: its mount of volume %s is broken", facts.PodName(pod), pod.Spec.NodeName, name),
		Detail:    fmt.Sprintf("container %s cannot start; the volume is mounted, and the mount does not work", broken.Container),
		Said:      &finding.Quote{Text: withoutPath(broken.Words), By: "the kubelet of " + pod.Spec.NodeName},
		Cause:     "the kubelet cannot use the mount; its log on the node has the reason",
		SelfHeals: finding.SelfHeals{Because: "each new start gets the same mount"},
		Evidence:  []finding.Evidence{{Object: "pod/" + facts.PodName(pod), Field: "containerStatuses " + broken.Container, Value: broken.Words}},
		Advice:    "{check} read the kubelet's log about the volume; {fix} fix what it names; {delete-pod}: a new pod gets a new mount",
	}
	if pv := p.BoundVolume(pod, broken.Volume); pv != nil {
		f.PersistentVolume = pv.Name
	}
	driver, _ := p.CsiVolume(pod, broken.Volume) // also of a driver that attaches nothing
	if facts.ContainsAny(strings.ToLower(broken.Words), deadMount...) {
		f.Cause = "what serves the mount is gone: the driver's process, a server or the device"
		f.Advice = "{check} see that what serves the mount runs again; {delete-pod}: a new pod gets a new mount. " +
			"Where other pods on the node use the volume, all of them have to leave first"
		if driver != "" {
			f.Advice = "{check} see that the driver's node plugin, or what serves its mounts, runs again" + strings.TrimPrefix(f.Advice, step.Check.Of()+" see that what serves the mount runs again")
		}
		if alike := p.MountsAlike(driver, pod); len(alike) > 0 {
			facts.Also(&f, "mounts of %s of %s on the node may have ended with it: %s",
				driver, morePods(len(alike)), strings.Join(facts.PodNames(alike), ", "))
		}
	}
	if facts.ContainsAny(strings.ToLower(broken.Words), "access is denied", "permission denied") {
		f.Detail = fmt.Sprintf("container %s cannot start; the volume is mounted, and refuses access", broken.Container)
		f.Cause = "the server or the file system of the volume lets neither the kubelet nor the runtime in"
		f.Advice = "{check} check the rights on the share or the directory, and the user in the volume's Secret or its mount options: a new pod meets the same refusal"
		if strings.Contains(driver, "cephfs") {
			f.Cause += "; or the storage system has evicted the node as a client, which then gets this answer to all it asks"
			f.Advice = "{check} see with \"ceph osd blocklist ls\" whether the address of the node is blocked, and check the rights of the user in the volume's Secret; " +
				"{if where the node was evicted,} {delete-pod}: a new pod gets a new mount"
		}
	}
	p.Report(f)
}

// withoutPath is the message about a path without the path: the headline names the volume.
func withoutPath(words string) string {
	if _, reason, found := strings.Cut(words, ": "); found && strings.HasPrefix(words, "/") {
		return reason
	}
	return words
}

func morePods(n int) string {
	if n == 1 {
		return "1 more pod"
	}
	return fmt.Sprintf("%d more pods", n)
}
