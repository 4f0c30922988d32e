package facts

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
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
	for _, e := range v.Snapshot.EventsOf(claim.UID) {
		if slices.Contains(bindingFailures, e.Reason) && SaidSince(e, u.Since) {
			u.Failures = append(u.Failures, e)
		}
	}
	slices.SortStableFunc(u.Failures, func(a, b *corev1.Event) int { return snapshot.EventTime(a).Compare(snapshot.EventTime(b).Time) })
	return u
}
