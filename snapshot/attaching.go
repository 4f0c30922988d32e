package snapshot

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// KnowsDriver reports whether no CSIDriver that was not read could change what the driver's
// volumes are: either its own was read, or none is missing, or other objects show that its
// volumes are attached.
func (s *Snapshot) KnowsDriver(driver string) bool {
	return s.Complete(CSIDrivers) || s.CSIDriver(driver) != nil || s.index.attaching.Has(driver)
}

// KnowsAnyDriver reports whether there is a driver that KnowsDriver reports.
func (s *Snapshot) KnowsAnyDriver() bool {
	return s.Complete(CSIDrivers) || len(s.CSIDrivers) > 0 || len(s.index.attaching) > 0
}

// attaching are the drivers whose volumes have to be attached, as other objects than their
// CSIDrivers show: the controller makes a VolumeAttachment for no others, and what an
// external-attacher has written in it shows that there is one. Where CSINodes were read, one
// has to list the driver: else whether it is installed depends on its CSIDriver.
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

// hasAnswer reports whether an external-attacher has written into the VolumeAttachment.
func hasAnswer(va *storagev1.VolumeAttachment) bool {
	return va.Status.Attached || va.Status.AttachError != nil || va.Status.DetachError != nil
}
