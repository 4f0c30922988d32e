package snapshot

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// KnowsDriver reports whether it is certain how the driver's volumes are attached. It is certain if
// the driver's CSIDriver was read, if no CSIDriver is missing, or if other objects show that its
// volumes are attached.
func (s *Snapshot) KnowsDriver(driver string) bool {
	return s.Complete(CSIDrivers) || s.CSIDriver(driver) != nil || s.index.attaching.Has(driver)
}

// KnowsAnyDriver reports whether KnowsDriver may be true for some driver.
func (s *Snapshot) KnowsAnyDriver() bool {
	return s.Complete(CSIDrivers) || len(s.CSIDrivers) > 0 || len(s.index.attaching) > 0
}

// attaching returns the drivers that must attach their volumes according to other objects than
// their CSIDrivers: the controller creates VolumeAttachments only for such drivers, and the answer
// of an external-attacher shows that the driver has one. If the CSINodes were read, one of them
// must list the driver; otherwise only its CSIDriver shows whether it is installed.
func (o *Objects) attaching(readCSINodes bool) sets.Set[string] {
	registered := sets.New[string]()
	for _, n := range o.CSINodes {
		for _, d := range n.Spec.Drivers {
			registered.Insert(d.Name)
		}
	}
	drivers := sets.New[string]()
	for _, va := range o.VolumeAttachments {
		if driver := va.Spec.Attacher; hasAnswer(va) && (!readCSINodes || registered.Has(driver)) {
			drivers.Insert(driver)
		}
	}
	return drivers
}

// hasAnswer reports whether an external-attacher has written a status into the VolumeAttachment. One that
// is being deleted may be the last of a driver that attaches no more.
func hasAnswer(va *storagev1.VolumeAttachment) bool {
	return va.DeletionTimestamp == nil && (va.Status.Attached || va.Status.AttachError != nil || va.Status.DetachError != nil)
}
