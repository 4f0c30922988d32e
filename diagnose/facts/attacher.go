package facts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Abandoned returns the driver's tasks that no attacher works on any more, and the lease that
// proves it. Without a lease nothing is proven: attachers may run without leader election or out
// of sight. Nor is it where the attachments show an attacher at work later.
func (p *View) Abandoned(driver string) (*coordinationv1.Lease, []Task) {
	lease := p.AttacherLease(driver)
	if !p.expired(lease, driver, (*View).LastAnswer) {
		return nil, nil
	}
	// The pod that came back to its node is reuse-while-detaching, which says more.
	tasks := slices.DeleteFunc(p.Tasks(driver), p.isReuse)
	if len(p.Older(tasks, AttacherAway)) == 0 {
		return nil, nil
	}
	return lease, tasks // the younger ones wait for the same
}

// expired reports whether the lease of the driver's sidecar shows that none is at work any more. seen
// is the last sign of a sidecar without a lease.
func (p *View) expired(lease *coordinationv1.Lease, driver string, seen func(*View, string) metav1.Time) bool {
	renewed := Renewed(lease)
	return lease != nil && p.Age(renewed) >= AttacherLeaseGrace && p.Lasted(renewed, AttacherAway) && p.Installed(driver) && !p.oldAsItsNode(lease) &&
		!seen(p, driver).After(renewed.Add(AttacherLeaseGrace))
}

var keptUnclaimed Kept[[]*corev1.Pod]

// UnclaimedAttachers are the pods with an external-attacher, by the names of their containers and
// images, that may serve any driver: no pod of their workload holds an attacher's lease.
func (p *View) UnclaimedAttachers() []*corev1.Pod {
	return keptUnclaimed.Of(p, (*View).findUnclaimedAttachers)
}

func (p *View) findUnclaimedAttachers() []*corev1.Pod {
	claimed, workloads := map[*corev1.Pod]bool{}, map[types.UID]bool{}
	var attachers []*corev1.Pod
	for _, pod := range p.Snapshot.Pods {
		if !reconcile.PodTerminated(pod) && slices.ContainsFunc(pod.Spec.Containers, IsAttacher) {
			attachers = append(attachers, pod)
		}
	}
	for _, lease := range p.Snapshot.Leases {
		if sidecarHolder(lease, reconcile.AttacherLeasePrefix) == "" {
			continue
		}
		if pod := p.heldBy(lease); pod != nil {
			claimed[pod] = true
			if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
				workloads[owner.UID] = true
			}
		}
	}
	return slices.DeleteFunc(attachers, func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(pod)
		return claimed[pod] || owner != nil && workloads[owner.UID]
	})
}

func (p *View) isReuse(t Task) bool {
	pair, ok := p.TaskPair(t)
	if !ok {
		return false
	}
	_, reused := p.ReusedWhileDetaching(Attachment{VolumeAttachment: t.VolumeAttachment, VolumeNode: pair})
	return reused
}

// OnlyAttacher is the pod on the node that attaches the driver's volumes, where no other pod of
// its workload could take over; else nil. Only a lease of one pod proves which pod attaches for which
// driver; without one it may be the pod.
func (p *View) OnlyAttacher(driver string, node types.NodeName) (pod *corev1.Pod, proven bool) {
	if !p.Snapshot.Complete(snapshot.Pods) {
		return nil, false
	}
	attachers := p.UnclaimedAttachers()
	if lease := p.AttacherLease(driver); lease != nil {
		attachers = p.holders(lease)
		proven = len(attachers) == 1
	} else if !p.Snapshot.Complete(snapshot.Leases) {
		return nil, false
	}
	for _, pod := range attachers {
		if NodeOf(pod) == node && !slices.ContainsFunc(p.Snapshot.Pods, func(other *corev1.Pod) bool {
			return other != pod && other.Namespace == pod.Namespace && NodeOf(other) != node && Ready(other) && other.DeletionTimestamp == nil &&
				slices.ContainsFunc(other.Spec.Containers, IsAttacher) && sameController(other, pod)
		}) {
			return pod, proven
		}
	}
	return nil, false
}

// sameController reports whether one object controls both pods.
func sameController(a, b *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(a)
	return owner != nil && metav1.IsControlledBy(b, &metav1.ObjectMeta{UID: owner.UID})
}

// StuckAttacher is the last holder of an attacher's or a resizer's lease, where it stands on a lost
// node and its workload has no other pod elsewhere; else nil. A StatefulSet makes a successor once
// the pod, which is Terminating, is gone, and any other workload once somebody deletes the pod.
func (p *View) StuckAttacher(lease *coordinationv1.Lease) *corev1.Pod {
	pod := p.heldBy(lease)
	if pod == nil || NodeOf(pod) == "" || !p.Lost(p.Snapshot.Node(NodeOf(pod))) || !p.Snapshot.Complete(snapshot.Nodes) {
		return nil
	}
	if ControlledBy(pod, "StatefulSet") != (pod.DeletionTimestamp != nil) || pod.DeletionTimestamp == nil && p.hasReplica(pod) {
		return nil
	}
	return pod
}

// hasReplica reports whether another pod of the pod's workload is on another node or on none, or may
// be.
func (p *View) hasReplica(pod *corev1.Pod) bool {
	return !p.Snapshot.Complete(snapshot.Pods) || slices.ContainsFunc(p.Snapshot.Pods, func(other *corev1.Pod) bool {
		return NodeOf(other) != NodeOf(pod) && !reconcile.PodTerminated(other) && sameController(pod, other)
	})
}

// StuckAttacherClause is the clause about StuckAttacher; "" where there is none.
func (p *View) StuckAttacherClause(lease *coordinationv1.Lease) string {
	pod := p.StuckAttacher(lease)
	switch {
	case pod == nil:
		return ""
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("its pod %s is stuck Terminating on lost node %s, and its StatefulSet makes no other before that has gone", PodName(pod), pod.Spec.NodeName)
	}
	return fmt.Sprintf("its pod %s is on lost node %s, and there is no other", PodName(pod), pod.Spec.NodeName)
}

// BringBack is the advice about a driver's controller whose sidecar does not renew the lease.
func (p *View) BringBack(lease *coordinationv1.Lease) string {
	pod := p.StuckAttacher(lease)
	switch {
	case pod == nil:
		return fmt.Sprintf("{fix} bring the driver's controller pods in namespace %s back", lease.Namespace)
	case pod.DeletionTimestamp == nil && !Bare(pod):
		return step.DeletePod.Of(PodName(pod)) + fmt.Sprintf(", the driver's controller on lost node %s: %s makes another one elsewhere", pod.Spec.NodeName, WorkloadOf(pod))
	}
	return fmt.Sprintf("{fix} bring node %s back or, once its machine is known to be off, {taint-node %[1]s}, so that the driver's controller pod %s can start elsewhere", pod.Spec.NodeName, PodName(pod))
}

// ExplainDown completes a finding about a sidecar that no longer renews its lease: why, what brings
// it back, and the state of such pods in its namespace. Images do not show which driver a pod
// serves.
func (p *View) ExplainDown(f *finding.Finding, lease *coordinationv1.Lease, isSidecar func(corev1.Container) bool) {
	f.Advice = p.BringBack(lease)
	var down, ready []*corev1.Pod
	for _, pod := range p.Snapshot.Pods {
		if pod.Namespace != lease.Namespace || !slices.ContainsFunc(pod.Spec.Containers, isSidecar) {
			continue
		}
		if Ready(pod) {
			ready = append(ready, pod)
		} else {
			down = append(down, pod)
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + PodName(pod), Field: "status", Value: PluginState(pod)})
	}
	found := len(down)+len(ready) > 0
	if stuck := p.StuckAttacher(lease); stuck != nil {
		f.Cause += ": " + p.StuckAttacherClause(lease)
		if stuck.DeletionTimestamp != nil {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + PodName(stuck), Field: "metadata.deletionTimestamp", Value: Stamp(*stuck.DeletionTimestamp)})
		}
		return
	}
	if scaled := p.scaledToZero(lease); scaled != nil && !found {
		name := scaled.Namespace + "/" + scaled.Name
		f.Cause += fmt.Sprintf(": Deployment %s is scaled to 0", name)
		f.Advice = fmt.Sprintf("{reversible} scale Deployment %s up again, after a look at who scaled it to 0", name)
		f.AdviceCommands = []string{safetext.Kubectl("scale", "deployment/"+scaled.Name, "--namespace="+scaled.Namespace, "--replicas=1")}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "deployment/" + name, Field: "spec.replicas", Value: "0"})
		return
	}
	if elsewhere := slices.DeleteFunc(slices.Clone(down), func(pod *corev1.Pod) bool { return NodeOf(pod) != "" && p.Lost(p.Snapshot.Node(NodeOf(pod))) }); len(elsewhere) > 0 {
		down = elsewhere // what keeps a pod on a lost node is known
	}
	if !found {
		f.Cause += fmt.Sprintf(", or hangs outside this cluster: no pod of namespace %s shows one", lease.Namespace)
		return
	}
	if len(down) == 0 {
		f.Cause += fmt.Sprintf(", or hangs in a pod that is Ready: %s may be its pod, or another driver's", PodName(ready[0]))
		f.Advice = fmt.Sprintf("{check} find out whether pod %s serves the driver, and read in its log why it does not renew the lease; where it does not, %s", PodName(ready[0]), f.Advice)
		f.AdviceCommands = []string{Logs(ready[0])}
		return
	}
	if len(down) > 1 && len(ready) > 0 {
		f.Cause += ": its pods crash, are not scheduled or were scaled down"
		return
	}
	pod := down[0]
	f.AdviceCommands = []string{ShowWhy(pod)}
	if NodeOf(pod) == "" {
		f.Cause += fmt.Sprintf(": its pod %s gets no node", PodName(pod))
		if c := Condition(pod, corev1.PodScheduled); c != nil && c.Message != "" {
			says, _, _ := strings.Cut(c.Message, " preemption:")
			f.Cause += ", as the scheduler says: " + strings.TrimSuffix(says, ".")
		}
		f.Advice = fmt.Sprintf("{fix} see to it that the scheduler finds a node for pod %s", PodName(pod))
		return
	}
	f.Cause += ": its pods crash, are not scheduled or were scaled down"
	f.Advice = fmt.Sprintf("{check} see why pod %s does not become Ready (%s); %s", PodName(pod), PluginState(pod), f.Advice)
}

// scaledToZero is the Deployment without replicas whose pod last held the lease; nil where there is
// none.
func (p *View) scaledToZero(lease *coordinationv1.Lease) *appsv1.Deployment {
	holder := snapshot.DeploymentByName(ptr.Deref(lease.Spec.HolderIdentity, ""))
	i := slices.IndexFunc(p.Snapshot.Deployments, func(d *appsv1.Deployment) bool {
		return d.Namespace == lease.Namespace && ptr.Deref(d.Spec.Replicas, 1) == 0 && holder != "" && holder == d.Name
	})
	if i < 0 {
		return nil
	}
	return p.Snapshot.Deployments[i]
}

// controllersOn is a clause about the drivers whose only attacher is on the node and leaves it with
// the out-of-service taint; "" for none.
func (p *View) controllersOn(node types.NodeName) string {
	var list []string
	for _, driver := range p.Attachers() {
		if pod, proven := p.OnlyAttacher(driver, node); proven && !toleratesOutOfService(pod) {
			list = append(list, fmt.Sprintf("; pod %s, the controller of %s, can then start elsewhere", PodName(pod), driver))
		}
	}
	return strings.Join(list, "")
}

// holders are the pods that the lease may name. A sidecar calls itself by the host name that it sees,
// which is the machine's where its pod uses the machine's network, so that several may have one name.
func (p *View) holders(lease *coordinationv1.Lease) []*corev1.Pod {
	holder, isSidecar := ptr.Deref(lease.Spec.HolderIdentity, ""), IsAttacher
	if strings.HasPrefix(lease.Name, reconcile.ResizerLeasePrefix) {
		isSidecar = IsResizer
	}
	var onMachine []*corev1.Pod
	for _, pod := range p.Snapshot.Pods {
		switch {
		case holder == "" || pod.Namespace != lease.Namespace:
		case reconcile.AttacherName(pod.Name) == holder:
			return []*corev1.Pod{pod}
		case pod.Spec.HostNetwork && !reconcile.PodTerminated(pod) && slices.ContainsFunc(pod.Spec.Containers, isSidecar) &&
			slices.Contains(snapshot.HolderNames(p.Snapshot.Node(NodeOf(pod))), holder):
			onMachine = append(onMachine, pod)
		}
	}
	return onMachine
}

// heldBy is the pod that the lease names; nil where there is none, or more than one.
func (p *View) heldBy(lease *coordinationv1.Lease) *corev1.Pod {
	if pods := p.holders(lease); len(pods) == 1 {
		return pods[0]
	}
	return nil
}

// LeaseHolder is the pod that holds the lease of an attacher or a resizer and is Ready on a Ready
// node; nil where there is none.
func (p *View) LeaseHolder(lease *coordinationv1.Lease) *corev1.Pod {
	pod := p.heldBy(lease)
	if pod == nil || pod.DeletionTimestamp != nil || !Ready(pod) || !reconcile.NodeReady(p.Snapshot.Node(NodeOf(pod))) {
		return nil
	}
	return pod
}

// oldAsItsNode reports whether the kubelet of the lease's holder, on a Ready node, renewed its
// own lease no later. Either the machine's clock is behind, or the node is about to be lost.
// Neither shows that the sidecar hangs: the next holder and the node controller go by when they
// saw the lease change.
func (p *View) oldAsItsNode(lease *coordinationv1.Lease) bool {
	const renewals = time.Minute // both renew several times in it
	asOld := func(l *coordinationv1.Lease) bool {
		return l != nil && l.Spec.RenewTime != nil && l.Spec.RenewTime.Time.Before(Renewed(lease).Add(renewals))
	}
	if holder := p.LeaseHolder(lease); holder != nil {
		return asOld(p.Snapshot.Lease(corev1.NamespaceNodeLease, holder.Spec.NodeName))
	}
	if p.Snapshot.Complete(snapshot.Pods) && p.Snapshot.Complete(snapshot.Nodes) {
		return false
	}
	return slices.ContainsFunc(p.Snapshot.Leases, func(l *coordinationv1.Lease) bool {
		return l.Namespace == corev1.NamespaceNodeLease && asOld(l) // the holder may be there
	})
}

// Idle returns the lease of the driver's attacher and the tasks that the attacher leaves alone
// although it renews the lease. A recent answer on any attachment of the driver shows that the
// attacher is merely busy: then there are none.
func (p *View) Idle(driver string) (*coordinationv1.Lease, []Task) {
	lease := p.AttacherLease(driver)
	if lease == nil || p.Age(Renewed(lease)) >= AttacherLeaseGrace || lease.Spec.AcquireTime == nil ||
		!p.Installed(driver) || p.Age(p.LastAnswer(driver)) < attacherIdle {
		return nil, nil
	}
	began := p.Snapshot.TakenAt.Sub(lease.Spec.AcquireTime.Time)
	return lease, slices.DeleteFunc(p.Tasks(driver), func(t Task) bool {
		grace := AttacherSilent
		switch {
		case t.Untouched():
			grace = attacherIdle
		case t.DeletionTimestamp == nil && t.Failure == nil:
			return true // it was looked at without an answer on record: the attacher may lack permissions
		}
		return p.Age(Latest(t.Since, t.tried())) < grace || began < grace
	})
}

var keptAtWork KeptBy[string, bool]

// AttacherAtWork reports whether nothing speaks against the driver's attacher.
func (p *View) AttacherAtWork(driver string) bool {
	return keptAtWork.Of(p, driver, func(p *View, driver string) bool {
		_, abandoned := p.Abandoned(driver)
		_, idle := p.Idle(driver)
		return p.Installed(driver) && len(abandoned) == 0 && len(idle) == 0
	})
}

// AttacherMayBeGone reports whether no attacher of the driver may run any more: the leases, which would show
// it, were not read, and its last sign is older than the lease of a living one gets.
func (p *View) AttacherMayBeGone(driver string) bool {
	return !p.Snapshot.Complete(snapshot.Leases) && p.Age(p.LastAnswer(driver)) > AttacherLeaseGrace
}

// secretNotFound reports whether the attacher did not find a secret. It reads this secret itself:
// an error of the driver is about another one.
func secretNotFound(message string) bool {
	return !FromDriver(message) && ContainsAny(message, "not found") && Means("", message, driverwords.SecretMissing)
}

// FromDriver reports whether an attacher's error is the driver's: it comes as an
// RPC error, unlike the attacher's own.
func FromDriver(message string) bool { return strings.HasPrefix(message, "rpc error: ") }

// MissingSecret is the secret that the attacher recently could not find for the task. Snapshots
// hold no secrets, so the attacher's message is the only evidence.
func (p *View) MissingSecret(t Task) (*corev1.SecretReference, bool) {
	if t.Failure == nil || !secretNotFound(t.Failure.Message) || !p.StillRefused(t.Failure) || !p.Lasted(t.Since, RefusalGrace) {
		return nil, false
	}
	var source *corev1.CSIPersistentVolumeSource
	if pv := p.Snapshot.Volume(VolumeName(t.VolumeAttachment)); pv != nil {
		source = pv.Spec.CSI
	} else if inline := t.Spec.Source.InlineVolumeSpec; inline != nil {
		source = inline.CSI
	}
	if source == nil || source.ControllerPublishSecretRef == nil {
		return nil, false
	}
	return source.ControllerPublishSecretRef, true
}

// DetachLacksSecret reports whether a detach fails because a secret is missing:
// publish-secret-missing then says more than the checks on failing detaches.
func (p *View) DetachLacksSecret(va *storagev1.VolumeAttachment) bool {
	if va.DeletionTimestamp == nil || !p.AttachRequired(va.Spec.Attacher) {
		return false
	}
	_, missing := p.MissingSecret(Task{va, *va.DeletionTimestamp, p.DetachError(va)})
	return missing
}
