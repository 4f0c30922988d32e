package facts

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
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Task is a VolumeAttachment that its driver's external-attacher has yet to attach or detach.
type Task struct {
	*storagev1.VolumeAttachment
	// Since is when the attacher was first asked.
	Since metav1.Time
	// Failure is the error of the last attempt; nil where none is on record.
	Failure *storagev1.VolumeError
}

var keptTasks KeptBy[string, []Task]

// Tasks are the driver's tasks, the oldest first. A driver that attaches
// nothing has no attacher and no Tasks.
func (p *View) Tasks(driver string) []Task {
	return slices.Clone(keptTasks.Of(p, driver, (*View).findTasks))
}

func (p *View) findTasks(driver string) []Task {
	if !p.AttachRequired(driver) {
		return nil
	}
	var tasks []Task
	for _, va := range p.Snapshot.VolumeAttachments {
		switch {
		case va.Spec.Attacher != driver:
		case va.DeletionTimestamp != nil && slices.Contains(va.Finalizers, reconcile.AttacherFinalizer(driver)):
			tasks = append(tasks, Task{va, *va.DeletionTimestamp, p.DetachError(va)})
		case va.DeletionTimestamp == nil && !va.Status.Attached:
			tasks = append(tasks, Task{va, va.CreationTimestamp, p.AttachError(va)})
		}
	}
	slices.SortStableFunc(tasks, func(a, b Task) int { return a.Since.Compare(b.Since.Time) })
	return tasks
}

var keptAttachers Kept[[]string]

// Attachers are the drivers that any VolumeAttachment names, sorted.
func (p *View) Attachers() []string {
	return keptAttachers.Of(p, func(p *View) []string {
		drivers := sets.New[string]()
		for _, va := range p.Snapshot.VolumeAttachments {
			drivers.Insert(va.Spec.Attacher)
		}
		return sets.List(drivers)
	})
}

// tried is when the attacher last failed the task; zero where no failure is on record.
func (t Task) tried() metav1.Time {
	if t.Failure == nil {
		return metav1.Time{}
	}
	return t.Failure.Time
}

// Untouched reports whether no attacher has ever looked at the attachment: it begins
// by putting its finalizer and the node's id on it.
func (t Task) Untouched() bool {
	return t.DeletionTimestamp == nil && t.Failure == nil && len(t.Finalizers) == 0 && t.Annotations[reconcile.NodeIDAnnotation] == ""
}

// verb is the attacher's task, as a participle.
func (t Task) verb() string {
	if t.DeletionTimestamp != nil {
		return "detached from"
	}
	return "attached to"
}

func (t Task) evidence() finding.Evidence {
	answer := "no answer"
	switch {
	case t.Failure != nil:
		answer = fmt.Sprintf("last answer at %s: %s", Stamp(t.Failure.Time), t.Failure.Message)
	case t.Untouched():
		answer = "nobody has looked at it"
	}
	return finding.Evidence{Object: "volumeattachment/" + t.Name, Field: "status",
		Value: fmt.Sprintf("to be %s node %s since %s; %s", t.verb(), t.Spec.NodeName, Stamp(t.Since), answer)}
}

// TaskEvidence is a finding's evidence of its tasks: the first few say enough.
func TaskEvidence(tasks []Task) []finding.Evidence {
	const enough = 5
	var list []finding.Evidence
	for _, t := range tasks[:min(len(tasks), enough)] {
		list = append(list, t.evidence())
	}
	return list
}

var keptLeases KeptBy[string, *coordinationv1.Lease]

// AttacherLease is the driver's attacher lease with the latest renewal: a driver that has moved
// to another namespace leaves its old one behind. That it is nil proves nothing, as attachers may
// run without leader election or outside the cluster.
func (p *View) AttacherLease(driver string) *coordinationv1.Lease {
	return keptLeases.Of(p, driver, (*View).findAttacherLease)
}

func (p *View) findAttacherLease(driver string) *coordinationv1.Lease {
	return p.newestLease(reconcile.AttacherLeaseName(driver))
}

func (p *View) newestLease(name string) *coordinationv1.Lease {
	var last *coordinationv1.Lease
	for _, lease := range p.Snapshot.Leases {
		if lease.Name == name && lease.Spec.RenewTime != nil &&
			(last == nil || lease.Spec.RenewTime.After(last.Spec.RenewTime.Time)) {
			last = lease
		}
	}
	return last
}

// Renewed is when the lease was last renewed; zero where it does not say so.
func Renewed(lease *coordinationv1.Lease) metav1.Time {
	if lease == nil || lease.Spec.RenewTime == nil {
		return metav1.Time{}
	}
	return metav1.NewTime(lease.Spec.RenewTime.Time)
}

// LeaseEvidence shows the lease's last renewal and its holder.
func LeaseEvidence(lease *coordinationv1.Lease) finding.Evidence {
	return finding.Evidence{Object: "lease/" + lease.Namespace + "/" + lease.Name, Field: "spec.renewTime",
		Value: fmt.Sprintf("%s, held by %q", Stamp(Renewed(lease)), ptr.Deref(lease.Spec.HolderIdentity, ""))}
}

var keptAnswers KeptBy[string, metav1.Time]

// LastAnswer is the latest moment at which the driver's attachments prove an attacher at work:
// its error, or the creation of an attachment that is attached or has its finalizer. Successful
// detaches leave no trace.
func (p *View) LastAnswer(driver string) metav1.Time {
	return keptAnswers.Of(p, driver, (*View).findLastAnswer)
}

func (p *View) findLastAnswer(driver string) metav1.Time {
	var last metav1.Time
	for _, va := range p.Snapshot.VolumeAttachments {
		if va.Spec.Attacher != driver {
			continue
		}
		if va.Status.Attached || AttacherHolds(va) {
			last = Latest(last, va.CreationTimestamp)
		}
		for _, e := range []*storagev1.VolumeError{va.Status.AttachError, va.Status.DetachError} {
			if e != nil {
				last = Latest(last, e.Time)
			}
		}
	}
	return last
}

// Older are the tasks that have waited for at least the time.
func (p *View) Older(tasks []Task, than time.Duration) []Task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return !p.Lasted(t.Since, than) })
}

// TaskPods are the pods that wait for any of the tasks: for an attach those on its node, for a
// detach those elsewhere that need the ReadWriteOnce volume.
func (p *View) TaskPods(tasks []Task) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, t := range tasks {
		pods = append(pods, p.podsOf(t)...)
	}
	return LongestFirst(EachOnce(pods))
}

func (p *View) podsOf(t Task) []*corev1.Pod {
	pair, ok := p.TaskPair(t)
	if !ok {
		return nil
	}
	pods := p.WaitingPods(pair)
	if t.DeletionTimestamp != nil {
		pods = append(pods, p.KeptFrom(pair)...)
	}
	return pods
}

// TaskPair is the volume and node of the task as the controller reads them, or else as its
// attacher does.
func (p *View) TaskPair(t Task) (reconcile.VolumeNode, bool) {
	node := types.NodeName(t.Spec.NodeName)
	if volume, err := p.World.AttachmentVolume(t.VolumeAttachment); err == nil {
		return reconcile.VolumeNode{Volume: volume, Node: node}, true
	}
	if driver, handle, ok := p.AskedDisk(t.VolumeAttachment); ok {
		return reconcile.VolumeNode{Volume: reconcile.CSIVolumeName(driver, handle), Node: node}, true
	}
	return reconcile.VolumeNode{}, false
}

// TaskVolume is the task's volume as people know it.
func (p *View) TaskVolume(t Task) string {
	if pv := t.Spec.Source.PersistentVolumeName; pv != nil {
		return *pv
	}
	if pair, ok := p.TaskPair(t); ok {
		return string(pair.Volume)
	}
	return t.Name
}

// Lead is the task to name: the oldest for which a pod waits, else the first. tasks must not be
// empty.
func (p *View) Lead(tasks []Task) Task {
	i := slices.IndexFunc(tasks, func(t Task) bool { return len(p.podsOf(t)) > 0 })
	return tasks[max(i, 0)]
}

// Queue is a clause about the tasks: how long the first to name has waited, for which pod, and
// how many others wait.
func (p *View) Queue(tasks []Task) string {
	lead, whom := p.Lead(tasks), ""
	if pods := p.TaskPods([]Task{lead}); len(pods) > 0 {
		whom = " for pod " + PodName(pods[0])
		if pods[0].Spec.NodeName != lead.Spec.NodeName {
			whom += " on node " + pods[0].Spec.NodeName
		}
	}
	text := fmt.Sprintf("volume %s has waited %s to be %s node %s%s",
		p.TaskVolume(lead), Rounded(p.Age(lead.Since)), lead.verb(), lead.Spec.NodeName, whom)
	switch n := len(tasks) - 1; n {
	case 0:
		return text
	case 1:
		return text + "; another attachment waits like it"
	default:
		return fmt.Sprintf("%s; %d other attachments wait like it", text, n)
	}
}

// DriverObject is the driver as a finding's subject, whether or not it has a
// CSIDriver.
func (p *View) DriverObject(driver string) finding.Object {
	subject := finding.Object{Kind: "CSIDriver", Name: driver}
	if d := p.Snapshot.CSIDriver(driver); d != nil {
		subject.UID = d.UID
	}
	return subject
}

// NodeOf is the node that the pod is bound to.
func NodeOf(pod *corev1.Pod) types.NodeName { return types.NodeName(pod.Spec.NodeName) }

// DriverOf is the driver that the finding is about; "" where it is about no driver.
func (p *View) DriverOf(f finding.Finding) string {
	if f.Subject.Kind == "CSIDriver" {
		return f.Subject.Name
	}
	if va := p.Snapshot.VolumeAttachment(f.VolumeAttachment); va != nil {
		return va.Spec.Attacher
	}
	if driver, _, ok := reconcile.ParseCSI(f.Volume); ok {
		return driver
	}
	if pv := p.Snapshot.Volume(f.PersistentVolume); pv != nil && pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver // a volume that is not attached
	}
	if claim := p.Snapshot.Claim(types.NamespacedName{Namespace: f.Subject.Namespace, Name: f.Subject.Name}); claim != nil && f.Subject.Kind == "PersistentVolumeClaim" && f.PersistentVolume == "" {
		return p.Unbound(claim).Provisioner // the volume is yet to be made
	}
	return ""
}
