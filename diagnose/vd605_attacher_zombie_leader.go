package diagnose

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var attacherZombieLeader = Check{
	Code:     "VD605",
	Name:     "attacher-zombie-leader",
	Title:    "A driver's external-attacher seems to run and does nothing",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Leases,
	},
	Run: runAttacherZombieLeader,
}

const (
	// attacherIdle is how long an attacher that holds its lease may leave an
	// attachment without a first look: longer than the longest call that drivers
	// are configured for, 20 min, and the longest back-off, 5 min, in which such
	// calls could keep all its workers busy.
	attacherIdle = 30 * time.Minute
	// attacherSilent is the same for one that it has looked at: two such calls.
	attacherSilent = time.Hour
)

func runAttacherZombieLeader(p *Pass) {
	for _, driver := range p.attachers() {
		if lease, tasks := p.abandoned(driver); len(tasks) > 0 {
			if pod := p.leaseHolder(lease); pod != nil {
				p.lostLease(driver, lease, pod, tasks)
			}
		} else if lease, tasks := p.idle(driver); len(tasks) > 0 {
			p.idleLeader(driver, lease, tasks)
		}
	}
}

// idle are a driver's tasks that its attacher leaves alone although it renews
// its lease. An answer on any other attachment shows that it is merely busy.
func (p *Pass) idle(driver string) (*coordinationv1.Lease, []task) {
	lease := p.attacherLease(driver)
	if lease == nil || p.Age(renewed(lease)) >= leaseSettles || lease.Spec.AcquireTime == nil ||
		!p.installed(driver) || p.Age(p.lastAnswer(driver)) < attacherIdle {
		return nil, nil
	}
	began := p.Snapshot.TakenAt.Sub(lease.Spec.AcquireTime.Time)
	return lease, slices.DeleteFunc(p.tasks(driver), func(t task) bool {
		settles := attacherSilent
		switch {
		case t.untouched():
			settles = attacherIdle
		case t.DeletionTimestamp == nil && t.failure == nil:
			return true // it was looked at, and no answer is on record: that may be missing permissions
		}
		return p.Age(latest(t.since, t.tried())) < settles || began < settles
	})
}

// attacherAtWork says that nothing speaks against the driver's attacher.
func (p *Pass) attacherAtWork(driver string) bool {
	return p.remember().atWork.get(driver, func(driver string) bool {
		_, abandoned := p.abandoned(driver)
		_, idle := p.idle(driver)
		return p.installed(driver) && len(abandoned) == 0 && len(idle) == 0
	})
}

func (p *Pass) lostLease(driver string, lease *coordinationv1.Lease, pod *corev1.Pod, tasks []task) {
	f := p.zombieFinding(driver, lease, tasks)
	since := renewed(lease)
	f.Since = &since
	f.Message = fmt.Sprintf("Pod %s is Ready and has not renewed the lease of the attacher of %s since %s (%s): %s",
		podName(pod), driver, stamp(since), rounded(p.Age(since)), p.queue(tasks))
	f.Cause = "the external-attacher in the pod hangs or cannot reach the API server, and no other one takes the lease over"
	f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(pod), "status", pluginState(pod)})
	f.Advice = fmt.Sprintf("delete the pod, so that another takes over: kubectl -n %s delete pod %s. Leave the VolumeAttachments alone", pod.Namespace, pod.Name)
	p.Report(f)
}

func (p *Pass) idleLeader(driver string, lease *coordinationv1.Lease, tasks []task) {
	f := p.zombieFinding(driver, lease, tasks)
	f.Since = &tasks[0].since
	f.Message = fmt.Sprintf("The attacher of %s renews its lease and does nothing: %s", driver, p.queue(tasks))
	f.Cause = "the external-attacher hangs, sees nothing of the VolumeAttachments, or may not write them; its log tells which"
	f.Advice = fmt.Sprintf("read the log of the csi-attacher container that holds the lease in namespace %s: where it is forbidden something, give its "+
		"ClusterRole get, list, watch and patch of volumeattachments, and patch of volumeattachments/status; where it says nothing, delete the pod, so that "+
		"another takes over", lease.Namespace)
	p.Report(f)
}

func (p *Pass) zombieFinding(driver string, lease *coordinationv1.Lease, tasks []task) Finding {
	pods := p.taskPods(tasks)
	f := Finding{
		Subject:   p.driverObject(driver),
		Pods:      podNames(pods),
		Evidence:  append([]Evidence{leaseEvidence(lease)}, taskEvidence(tasks)...),
		SelfHeals: SelfHeals{Because: "a process that hangs goes on hanging until somebody, or a liveness probe, restarts it"},
	}
	if len(pods) == 0 {
		f.Severity = Warning
	}
	return f
}
