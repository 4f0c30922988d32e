package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var leaderChangeDetachesLive = Check{
	Code:     "VD106",
	Name:     "leader-change-detaches-live",
	Title:    "After a change of the controller's leader, volumes were detached under pods that run",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runLeaderChangeDetachesLive,
}

const (
	// leaderChangeActs is how long after its start a controller's doings count as
	// those of its start: it works through what it believes to be unwanted within
	// a few operations of 2 min.
	leaderChangeActs = 10 * time.Minute
	// leaderChangeFades is how long what is already mended is worth telling.
	leaderChangeFades = 24 * time.Hour
	// leaderChangeMany is how many pods it takes: one alone may be anybody's hand.
	leaderChangeMany = 2
)

func runLeaderChangeDetachesLive(p *Pass) {
	lease, start := p.Snapshot.Lease("kube-system", "kube-controller-manager"), p.controllerStart()
	if start.IsZero() || lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions == 0 {
		return
	}
	f := Finding{Subject: Object{Kind: "Lease", Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID}, Since: &start, Severity: Warning}
	var pods []*corev1.Pod
	for _, va := range p.attachments() {
		row := p.World.Desired[va.VolumeNode]
		node := p.Snapshot.Node(va.Node)
		if row == nil || row.Spec.Migrated || !va.ours() || !reconcile.NodeReady(node) || reconcile.OutOfService(node) {
			continue
		}
		for _, pod := range p.wantingPods(row) {
			what := p.detachedLive(va, pod, start)
			if what == "" {
				continue
			}
			if va.DeletionTimestamp != nil {
				f.Severity = Error
			}
			pods = append(pods, pod)
			f.Evidence = append(f.Evidence, Evidence{va.object(), "metadata", fmt.Sprintf("%s; pod %s has run on node %s with volume %s since %s",
				what, podName(pod), va.Node, p.shortVolume(va.Volume), stamp(runningSince(pod)))})
		}
	}
	pods = eachOnce(pods)
	if len(pods) >= leaderChangeMany && (f.Severity == Error || p.Age(start) < leaderChangeFades) {
		p.leaderChange(f, pods)
	}
}

// detachedLive says what happened to the attachment soon after the start of the
// controller under a pod that ran before it and runs still; "" where nothing did.
func (p *Pass) detachedLive(va attachment, pod *corev1.Pod, start metav1.Time) string {
	running := runningSince(pod)
	if pod.DeletionTimestamp != nil || running.IsZero() || !running.Before(&start) {
		return ""
	}
	soon := func(t metav1.Time) bool { return !t.Before(&start) && t.Sub(start.Time) <= leaderChangeActs }
	if at := va.DeletionTimestamp; at != nil {
		if soon(*at) {
			return "being deleted since " + stamp(*at)
		}
		return ""
	}
	// A driver that has come to need an attach has its volumes attached under its
	// pods, and rightly so.
	driver := p.Snapshot.CSIDriver(va.Spec.Attacher)
	if !soon(va.CreationTimestamp) || driver == nil || !driver.CreationTimestamp.Before(&running) {
		return ""
	}
	return "made anew at " + stamp(va.CreationTimestamp)
}

func (p *Pass) leaderChange(f Finding, pods []*corev1.Pod) {
	longestFirst(pods)
	f.Pods = podNames(pods)
	f.Message = fmt.Sprintf("Within %s of a change of its leader at %s, kube-controller-manager detached volumes of %d pods that ran with them, such as pod %s "+
		"on node %s", rounded(leaderChangeActs), stamp(*f.Since), len(pods), podName(pods[0]), pods[0].Spec.NodeName)
	f.Cause = "the controller that started did not know that the volumes were in use; or somebody deleted their VolumeAttachments at that time, which looks " +
		"the same"
	f.SelfHeals = SelfHeals{Because: "the controller attaches such a volume again, but what is mounted in a running pod is the device that went away"}
	f.Advice = "look into these pods for I/O errors and read-only file systems. Stop the writers and make the pods anew one by one, each only when its volume is " +
		"attached; check the file systems. Do not delete VolumeAttachments in bulk, and do not restart kube-controller-manager again before"
	p.Report(f)
}
