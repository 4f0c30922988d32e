package facts

import (
	"cmp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// Unbound describes the wait of a claim that has no volume.
type Unbound struct {
	// Class is the storage class that the claim names; "" where it names none.
	Class string
	// ClassFound reports whether the class was read.
	ClassFound bool
	// Provisioner makes the volume; "" where a person has to make it.
	Provisioner string
	// ForNode reports that the claim waits for the scheduler to choose a node for a pod that uses
	// it.
	ForNode bool
	// Since is when both the claim and its class existed.
	Since metav1.Time
	// Failures are the events about attempts to bind the claim or to make its volume since its
	// class was last made, the oldest first.
	Failures []*corev1.Event
	// Tries is when the provisioner last began to make the volume; zero unless it has reported
	// that lately, and no failure since.
	Tries metav1.Time
	// Copy is how long the storage system may take to copy the data of a snapshot or of another
	// volume; zero for a volume that begins empty.
	Copy time.Duration
}

// noProvisioner is the provisioner of a class whose volumes are made by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// bindingFailures are the reasons of the events of the PV controller and of
// provisioners about a claim that gets no volume.
var bindingFailures = []string{"ProvisioningFailed", "FailedBinding", "VolumeMismatch", "ClaimMisbound"}

// Unbound describes the wait of a claim that has no volume.
func (v *View) Unbound(claim *corev1.PersistentVolumeClaim) Unbound {
	u := Unbound{
		Since:       claim.CreationTimestamp,
		Class:       ptr.Deref(claim.Spec.StorageClassName, claim.Annotations[corev1.BetaStorageClassAnnotation]),
		Provisioner: cmp.Or(claim.Annotations[reconcile.ProvisionerAnnotation], claim.Annotations[reconcile.ProvisionerAnnotationBeta]),
	}
	for _, class := range v.Snapshot.StorageClasses {
		if class.Name != u.Class {
			continue
		}
		u.Since = Latest(u.Since, class.CreationTimestamp)
		u.ClassFound, u.Provisioner = true, cmp.Or(u.Provisioner, class.Provisioner)
		u.ForNode = ptr.Deref(class.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer &&
			claim.Annotations[reconcile.SelectedNodeAnnotation] == ""
	}
	if u.Provisioner == noProvisioner {
		u.Provisioner = ""
	}
	if claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		u.Copy = min(time.Duration(claim.Spec.Resources.Requests.Storage().Value()/copiedPerSecond)*time.Second, LongestCopy)
	}
	for _, e := range v.Snapshot.EventsAbout("PersistentVolumeClaim", claim) {
		at := snapshot.EventTime(e)
		switch {
		case !SaidSince(e, u.Since):
		case slices.Contains(bindingFailures, e.Reason):
			u.Failures = append(u.Failures, e)
		case e.Reason == trim.ProvisioningReason && v.Age(at) <= ProvisionSilence:
			u.Tries = Latest(u.Tries, at)
		}
	}
	if len(u.Failures) > 0 {
		u.Tries = metav1.Time{}
	}
	slices.SortStableFunc(u.Failures, func(a, b *corev1.Event) int { return snapshot.EventTime(a).Compare(snapshot.EventTime(b).Time) })
	return u
}

// ProvisionerDown is the attacher's expired lease of a driver whose provisioner is in the attacher's
// pods, or was where no such pod is left, while no provisioner runs in that namespace; else nil. An
// image does not show which driver it serves: one that runs may be this driver's.
func (v *View) ProvisionerDown(driver string) *coordinationv1.Lease {
	lease := v.AttacherLease(driver)
	if !v.Snapshot.Complete(snapshot.Pods) || !v.expired(lease, driver, (*View).LastAnswer) {
		return nil
	}
	apart, together := false, false
	for _, pod := range v.Snapshot.Pods {
		if pod.Namespace != lease.Namespace {
			continue
		}
		if v.provisions(pod) {
			return nil
		}
		if slices.ContainsFunc(pod.Spec.Containers, IsAttacher) {
			provisions := slices.ContainsFunc(pod.Spec.Containers, IsProvisioner)
			apart, together = apart || !provisions, together || provisions
		}
	}
	if apart && !together {
		return nil
	}
	return lease
}

// provisions reports whether a provisioner runs in the pod.
func (v *View) provisions(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil && IsProvisioner(corev1.Container{Name: c.Name, Image: c.Image})
	}) && !v.Lost(v.Snapshot.Node(NodeOf(pod)))
}

// NotInstalled reports whether the provisioner is a CSI driver that the cluster does not have. The
// name of one is a domain name; other provisioners have a slash in theirs, or a single word.
func (v *View) NotInstalled(provisioner string) bool {
	return strings.Contains(provisioner, ".") && !strings.Contains(provisioner, "/") && !v.Installed(provisioner) && v.Snapshot.Complete(snapshot.CSIDrivers) && v.Snapshot.Complete(snapshot.CSINodes) &&
		v.Snapshot.Complete(snapshot.Leases) && v.Age(Renewed(v.AttacherLease(provisioner))) > ProvisionSilence
}

// Takes is how long the claim may wait before it counts as stuck: longer where the provisioner
// shows that it works, and has not failed for a reason that stays.
func (v *View) Takes(u Unbound) time.Duration {
	if !u.Tries.IsZero() || v.CopyGoesOn(u) {
		return ProvisionSilence + u.Copy
	}
	return ProvisionTakes
}

// CopyGoesOn reports whether the last try failed of late and only because the data that the volume
// is to have is still being copied.
func (v *View) CopyGoesOn(u Unbound) bool {
	n := len(u.Failures)
	if n == 0 || u.Copy == 0 || v.Age(snapshot.EventTime(u.Failures[n-1])) > ProvisionSilence {
		return false
	}
	entry, known := DriverSays(u.Provisioner, u.Failures[n-1].Message)
	return known && goesOn[entry.Meaning]
}

// goesOn are the meanings of a failed try while the storage system is still copying.
var goesOn = map[driverwords.Meaning]bool{driverwords.TimedOut: true, driverwords.OperationPending: true, driverwords.VolumeNotReady: true}
