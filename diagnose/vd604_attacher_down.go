package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var attacherDown = Check{
	Code:     "VD604",
	Name:     "attacher-down",
	Title:    "A driver's external-attacher does not run, and attachments wait for it",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Leases,
	},
	Run: runAttacherDown,
}

// attacherAway is how long an attacher may be gone, and an attachment wait for
// it: the time in which a Deployment of one replica is rolled over, its image
// pulled, and the lease of the one that was killed runs out.
const attacherAway = 3 * time.Minute

func runAttacherDown(p *Pass) {
	for _, driver := range p.attachers() {
		lease, tasks := p.abandoned(driver)
		if len(tasks) == 0 || p.leaseHolder(lease) != nil {
			continue // the pod that held it lives: attacher-zombie-leader
		}
		pods, since := p.taskPods(tasks), renewed(lease)
		f := Finding{
			Subject: p.driverObject(driver),
			Pods:    podNames(pods),
			Since:   &since,
			Message: fmt.Sprintf("The attacher of %s has not renewed its lease since %s (%s): %s",
				driver, stamp(since), rounded(p.Age(since)), p.queue(tasks)),
			Cause:    "the external-attacher, which asks the driver to attach and detach, does not run: its pods crash, are not scheduled or were scaled down",
			Evidence: append([]Evidence{leaseEvidence(lease)}, taskEvidence(tasks)...),
			SelfHeals: SelfHeals{Because: "nobody asks the driver; once its controller pods are back all follow by themselves, those that had failed " +
				"before within about 5 min"},
			Advice: fmt.Sprintf("bring the driver's controller pods in namespace %s back; leave the VolumeAttachments and their finalizers alone: they are "+
				"the list of what the attacher has to do", lease.Namespace),
		}
		for _, pod := range p.attacherPods(lease.Namespace) {
			f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(pod), "status", pluginState(pod)})
		}
		if len(pods) == 0 {
			f.Severity = Warning
		}
		p.Report(f)
	}
}

// abandoned are a driver's tasks that nobody does any more, and the lease that
// says so. A lease that is not renewed proves it alone: attachers may run
// without leader election or out of sight. And it proves nothing where the
// attachments show that somebody was at work later.
func (p *Pass) abandoned(driver string) (*coordinationv1.Lease, []task) {
	lease := p.attacherLease(driver)
	if lease == nil || p.Age(renewed(lease)) < attacherAway || !p.installed(driver) ||
		p.lastAnswer(driver).After(renewed(lease).Add(leaseSettles)) {
		return nil, nil
	}
	// The pod that came back to its node is reuse-while-detaching, which says more.
	return lease, slices.DeleteFunc(p.older(p.tasks(driver), attacherAway), p.isReuse)
}

func (p *Pass) isReuse(t task) bool {
	pair, ok := p.taskPair(t)
	if !ok {
		return false
	}
	_, reused := p.reusedWhileDetaching(attachment{VolumeAttachment: t.VolumeAttachment, VolumeNode: pair})
	return reused
}

// leaseHolder is the pod that holds the lease, where it still runs and is Ready:
// an attacher's identity is its host's name, which is the pod's unless it uses
// the node's network.
func (p *Pass) leaseHolder(lease *coordinationv1.Lease) *corev1.Pod {
	if lease.Spec.HolderIdentity == nil {
		return nil
	}
	for _, pod := range p.Snapshot.Pods {
		if pod.Namespace == lease.Namespace && attacherName(pod.Name) == *lease.Spec.HolderIdentity && pod.DeletionTimestamp == nil &&
			ready(pod) && reconcile.NodeReady(p.Snapshot.Node(nodeOf(pod))) {
			return pod
		}
	}
	return nil
}

// attacherPods are the namespace's pods with an external-attacher among their
// containers; whose it is their images do not tell.
func (p *Pass) attacherPods(namespace string) []*corev1.Pod {
	attacher := func(c corev1.Container) bool {
		return strings.Contains(c.Image, "csi-attacher") || strings.Contains(c.Name, "csi-attacher")
	}
	return slices.DeleteFunc(slices.Clone(p.Snapshot.Pods), func(pod *corev1.Pod) bool {
		return pod.Namespace != namespace || !slices.ContainsFunc(pod.Spec.Containers, attacher)
	})
}
