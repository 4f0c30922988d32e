package facts

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Grows reports whether a bound claim asks for more room than it has, and the disk has not grown
// yet. After that only the kubelet has to act.
func Grows(claim *corev1.PersistentVolumeClaim) bool {
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	if claim.Status.Phase != corev1.ClaimBound || has.IsZero() || asked.Cmp(has) <= 0 || ClaimCondition(claim, corev1.PersistentVolumeClaimFileSystemResizePending) != nil {
		return false
	}
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return false
	default:
		return true
	}
}

// Modifies reports whether a bound claim names a VolumeAttributesClass that its volume does not have.
func Modifies(claim *corev1.PersistentVolumeClaim) bool {
	wanted := ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
	return claim.Status.Phase == corev1.ClaimBound && wanted != "" && wanted != ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "")
}

// ClaimCondition is the claim's condition of the type, where it is true; nil else.
func ClaimCondition(claim *corev1.PersistentVolumeClaim, of corev1.PersistentVolumeClaimConditionType) *corev1.PersistentVolumeClaimCondition {
	for i := range claim.Status.Conditions {
		if c := &claim.Status.Conditions[i]; c.Type == of && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// BoundDriver is the CSI driver of the claim's volume; "" where it has none.
func (p *View) BoundDriver(claim *corev1.PersistentVolumeClaim) string {
	pv := p.Snapshot.Volume(claim.Spec.VolumeName)
	if pv == nil || pv.Spec.CSI == nil {
		return ""
	}
	return pv.Spec.CSI.Driver
}

// ResizerDown is the lease of the driver's external-resizer where it has expired for so long that
// none is at work; nil where one may be. A resizer without leader election, or outside the
// cluster, has no lease.
func (p *View) ResizerDown(driver string) *coordinationv1.Lease {
	lease := p.newestLease(reconcile.ResizerLeaseName(driver))
	if lease == nil || p.Age(Renewed(lease)) < AttacherLeaseGrace || !p.Lasted(Renewed(lease), AttacherAway) || !p.Installed(driver) || p.oldAsItsNode(lease) ||
		p.resizerSeen(driver).After(Renewed(lease).Add(AttacherLeaseGrace)) {
		return nil
	}
	return lease
}

// resizerSeen is the time of the last event of the driver's external-resizer; zero where there is
// none.
func (p *View) resizerSeen(driver string) metav1.Time {
	var last metav1.Time
	for _, e := range p.Snapshot.Events {
		if by := "external-resizer " + driver; e.Source.Component == by || e.ReportingController == by {
			last = Latest(last, snapshot.EventTime(e))
		}
	}
	return last
}

// ChangeEvidence shows what the claim asks for and has.
func ChangeEvidence(claim *corev1.PersistentVolumeClaim) []finding.Evidence {
	var list []finding.Evidence
	add := func(field, value string) {
		list = append(list, finding.Evidence{Object: "persistentvolumeclaim/" + claim.Namespace + "/" + claim.Name, Field: field, Value: value})
	}
	if Grows(claim) {
		asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
		add("spec.resources.requests.storage", fmt.Sprintf("%s; status.capacity.storage: %s", asked.String(), has.String()))
	}
	if Modifies(claim) {
		add("spec.volumeAttributesClassName", fmt.Sprintf("%s; status.currentVolumeAttributesClassName: %q", *claim.Spec.VolumeAttributesClassName, ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "")))
	}
	return list
}

// ClaimName is the claim as namespace/name.
func ClaimName(claim *corev1.PersistentVolumeClaim) string {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}.String()
}
