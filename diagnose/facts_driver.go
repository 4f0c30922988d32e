package diagnose

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// task is a VolumeAttachment that its driver's external-attacher has still to
// attach or to detach.
type task struct {
	*storagev1.VolumeAttachment
	// since is when the attacher was first asked.
	since metav1.Time
	// failure is what the last attempt ended in; nil where none is on record.
	failure *storagev1.VolumeError
}

// tasks are those of one driver, the oldest first. A driver that attaches
// nothing has no attacher and no tasks.
func (p *Pass) tasks(driver string) []task {
	return slices.Clone(p.remember().tasks.get(driver, p.findTasks))
}

func (p *Pass) findTasks(driver string) []task {
	if !p.attachRequired(driver) {
		return nil
	}
	var tasks []task
	for _, va := range p.Snapshot.VolumeAttachments {
		switch {
		case va.Spec.Attacher != driver:
		case va.DeletionTimestamp != nil && slices.Contains(va.Finalizers, "external-attacher/"+attacherName(driver)):
			tasks = append(tasks, task{va, *va.DeletionTimestamp, va.Status.DetachError})
		case va.DeletionTimestamp == nil && !va.Status.Attached:
			tasks = append(tasks, task{va, va.CreationTimestamp, va.Status.AttachError})
		}
	}
	slices.SortStableFunc(tasks, func(a, b task) int { return a.since.Compare(b.since.Time) })
	return tasks
}

// attachers are the drivers that any VolumeAttachment names, sorted.
func (p *Pass) attachers() []string {
	return p.remember().attachers.get(func() []string {
		drivers := sets.New[string]()
		for _, va := range p.Snapshot.VolumeAttachments {
			drivers.Insert(va.Spec.Attacher)
		}
		return sets.List(drivers)
	})
}

// tried is when the attacher last had an answer for the task; zero where
// nothing says that it ever did.
func (t task) tried() metav1.Time {
	if t.failure == nil {
		return metav1.Time{}
	}
	return t.failure.Time
}

// untouched says that no attacher has ever looked at the attachment: it begins
// by putting its finalizer and the node's id on it.
func (t task) untouched() bool {
	return t.DeletionTimestamp == nil && t.failure == nil && len(t.Finalizers) == 0 && t.Annotations[nodeIDAnnotation] == ""
}

// nodeIDAnnotation is where the attacher keeps the driver's name for the node.
const nodeIDAnnotation = "csi.alpha.kubernetes.io/node-id"

// verb says what the attacher has to do.
func (t task) verb() string {
	if t.DeletionTimestamp != nil {
		return "detached from"
	}
	return "attached to"
}

func (t task) evidence() Evidence {
	object := "volumeattachment/" + t.Name
	switch {
	case t.failure != nil:
		return Evidence{object, "status", fmt.Sprintf("to be %s node %s since %s; last answer at %s: %s",
			t.verb(), t.Spec.NodeName, stamp(t.since), stamp(t.failure.Time), t.failure.Message)}
	case t.untouched():
		return Evidence{object, "status", fmt.Sprintf("to be %s node %s since %s; nobody has looked at it", t.verb(), t.Spec.NodeName, stamp(t.since))}
	default:
		return Evidence{object, "status", fmt.Sprintf("to be %s node %s since %s; no answer", t.verb(), t.Spec.NodeName, stamp(t.since))}
	}
}

// taskEvidence is a finding's evidence of its tasks: the first few say enough.
func taskEvidence(tasks []task) []Evidence {
	const enough = 5
	var list []Evidence
	for _, t := range tasks[:min(len(tasks), enough)] {
		list = append(list, t.evidence())
	}
	return list
}

// attacherLease is the lease of the driver's attacher that was renewed last: a
// driver that has moved to another namespace leaves its old one behind. Without
// any nothing is known: attachers may run without leader election, or outside
// the cluster.
func (p *Pass) attacherLease(driver string) *coordinationv1.Lease {
	return p.remember().leases.get(driver, p.findAttacherLease)
}

func (p *Pass) findAttacherLease(driver string) *coordinationv1.Lease {
	var last *coordinationv1.Lease
	name := "external-attacher-leader-" + attacherName(driver)
	for _, lease := range p.Snapshot.Leases {
		if lease.Name == name && lease.Spec.RenewTime != nil &&
			(last == nil || lease.Spec.RenewTime.After(last.Spec.RenewTime.Time)) {
			last = lease
		}
	}
	return last
}

func renewed(lease *coordinationv1.Lease) metav1.Time {
	return metav1.NewTime(lease.Spec.RenewTime.Time)
}

func leaseEvidence(lease *coordinationv1.Lease) Evidence {
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	return Evidence{"lease/" + lease.Namespace + "/" + lease.Name, "spec.renewTime", fmt.Sprintf("%s, held by %q", stamp(renewed(lease)), holder)}
}

// lastAnswer is the latest moment at which the driver's attachments prove that
// an attacher was at work: an error that it wrote, or the making of one that is
// attached. Detaches that succeed leave no trace.
func (p *Pass) lastAnswer(driver string) metav1.Time {
	return p.remember().answers.get(driver, p.findLastAnswer)
}

func (p *Pass) findLastAnswer(driver string) metav1.Time {
	var last metav1.Time
	for _, va := range p.Snapshot.VolumeAttachments {
		if va.Spec.Attacher != driver {
			continue
		}
		if va.Status.Attached {
			last = latest(last, va.CreationTimestamp)
		}
		for _, e := range []*storagev1.VolumeError{va.Status.AttachError, va.Status.DetachError} {
			if e != nil {
				last = latest(last, e.Time)
			}
		}
	}
	return last
}

// older are the tasks that have waited for at least the time.
func (p *Pass) older(tasks []task, than time.Duration) []task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t task) bool { return p.Age(t.since) < than })
}

// taskPods are the pods that wait for any of the tasks: for an attach those on
// its node, for a detach those elsewhere that must have the volume alone.
func (p *Pass) taskPods(tasks []task) []*corev1.Pod {
	var waiting map[corev1.UniqueVolumeName][]*corev1.Pod
	if slices.ContainsFunc(tasks, func(t task) bool { return t.DeletionTimestamp != nil }) {
		waiting = p.waiting()
	}
	var pods []*corev1.Pod
	for _, t := range tasks {
		pods = append(pods, p.podsOf(t, waiting)...)
	}
	pods = eachOnce(pods)
	longestFirst(pods)
	return pods
}

func (p *Pass) podsOf(t task, waiting map[corev1.UniqueVolumeName][]*corev1.Pod) []*corev1.Pod {
	pair, ok := p.taskPair(t)
	if !ok {
		return nil
	}
	var pods []*corev1.Pod
	if row := p.World.Desired[pair]; row != nil {
		pods = pending(p.wantingPods(row))
	}
	if t.DeletionTimestamp != nil && p.oneNode(pair.Volume) {
		pods = append(pods, elsewhere(waiting[pair.Volume], pair.Node)...)
	}
	return pods
}

// taskPair is the volume and node of the task; that of an inline volume is told
// from the object itself.
func (p *Pass) taskPair(t task) (reconcile.VolumeNode, bool) {
	node := types.NodeName(t.Spec.NodeName)
	if volume, err := p.World.AttachmentVolume(t.VolumeAttachment); err == nil {
		return reconcile.VolumeNode{Volume: volume, Node: node}, true
	}
	if inline := t.Spec.Source.InlineVolumeSpec; inline != nil && inline.CSI != nil {
		volume := corev1.UniqueVolumeName("kubernetes.io/csi/" + inline.CSI.Driver + "^" + inline.CSI.VolumeHandle)
		return reconcile.VolumeNode{Volume: volume, Node: node}, true
	}
	return reconcile.VolumeNode{}, false
}

// taskVolume is the task's volume as people know it.
func (p *Pass) taskVolume(t task) string {
	if pv := t.Spec.Source.PersistentVolumeName; pv != nil {
		return *pv
	}
	if pair, ok := p.taskPair(t); ok {
		return string(pair.Volume)
	}
	return t.Name
}

// lead is the task to name: the oldest for which a pod waits, else the oldest.
func (p *Pass) lead(tasks []task) task {
	waiting := p.waiting()
	i := slices.IndexFunc(tasks, func(t task) bool { return len(p.podsOf(t, waiting)) > 0 })
	return tasks[max(i, 0)]
}

// queue says what has waited, for whom, and how much more there is.
func (p *Pass) queue(tasks []task) string {
	lead, whom := p.lead(tasks), ""
	if pods := p.taskPods([]task{lead}); len(pods) > 0 {
		whom = " for pod " + podName(pods[0])
		if pods[0].Spec.NodeName != lead.Spec.NodeName {
			whom += " on node " + pods[0].Spec.NodeName
		}
	}
	text := fmt.Sprintf("volume %s has waited %s to be %s node %s%s",
		p.taskVolume(lead), rounded(p.Age(lead.since)), lead.verb(), lead.Spec.NodeName, whom)
	switch n := len(tasks) - 1; n {
	case 0:
		return text
	case 1:
		return text + "; another attachment waits like it"
	default:
		return fmt.Sprintf("%s; %d other attachments wait like it", text, n)
	}
}

// driverObject is the driver as a finding's subject, whether or not it has a
// CSIDriver.
func (p *Pass) driverObject(driver string) Object {
	subject := Object{Kind: "CSIDriver", Name: driver}
	if d := p.Snapshot.CSIDriver(driver); d != nil {
		subject.UID = d.UID
	}
	return subject
}

// throttled says that a driver's message tells of a provider, or of the API
// server's client, that lets it make fewer calls than it would.
func throttled(message string) bool {
	return containsAny(message, "throttl", "RequestLimitExceeded", "rate exceeded", "rate limit", "rateLimitExceeded", "TooManyRequests",
		"too many requests", "quota exceeded for quota metric")
}

func nodeOf(pod *corev1.Pod) types.NodeName { return types.NodeName(pod.Spec.NodeName) }
