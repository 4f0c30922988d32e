package repair

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// atStorage is the entry of the repair's volume in the storage system's list; nil where no
// list has it.
func atStorage(v *View, r *Repair) *storage.Entry {
	truth := storage.Of(v.Facts)
	if va := target(v, r); r.Finding.Volume == "" && va.Name != "" {
		return truth.Attachment(va)
	}
	return truth.Volume(r.Finding.Volume)
}

// checkStorageHas: there is nothing to detach where the volume is not attached at the storage
// system.
func checkStorageHas(v *View, r *Repair) error {
	e := atStorage(v, r)
	if _, detached := e.On(r.Finding.Holder); detached {
		return fmt.Errorf("%s does not show the volume as attached to node %s", e.Words(), r.Finding.Holder)
	}
	return nil
}

// checkStorageLacks: publishing a volume again changes nothing where it is attached, and may take
// it from another machine.
func checkStorageLacks(v *View, r *Repair) error {
	e := atStorage(v, r)
	if e == nil {
		return nil
	}
	if attached, _ := e.On(r.Finding.Node); attached {
		return fmt.Errorf("%s shows the volume as attached to node %s already", e.Words(), r.Finding.Node)
	}
	if len(e.Holders) > 0 && !mayBeShared(v, r) {
		return fmt.Errorf("%s shows the volume as attached to %s", e.Words(), e.Holders[0].Machine)
	}
	return nil
}

// checkStorageLetGo: without the finalizer nobody asks the driver to detach a volume that the
// storage system still has attached there, or to a machine that may be the node's.
func checkStorageLetGo(v *View, r *Repair) error {
	e, va := atStorage(v, r), target(v, r)
	if e == nil || va.Name == "" {
		return nil
	}
	node := types.NodeName(va.Spec.NodeName)
	for _, h := range e.Holders {
		if h.Node == nil || facts.NodeName(h.Node) == node || h.Machine == va.Annotations[reconcile.NodeIDAnnotation] {
			return detachThere(v, guardStorageLetGo, va, fmt.Sprintf("%s shows the volume as attached to %s: without the finalizer nobody would detach it", e.Words(), h.Machine),
				", and get its list again")
		}
	}
	return nil
}

// storageDetached reports whether the storage system itself shows that it detached the volume
// after the detach was asked for. Only a list that carries its time proves that: a copied
// file is older than its date. No attach begins for an object that is being deleted, and the
// last one had ended before the list was taken.
func storageDetached(v *View, r *Repair) bool {
	e, va := atStorage(v, r), target(v, r)
	return e != nil && va.DeletionTimestamp != nil && e.Settled && len(e.Holders) == 0 && e.Saw(*va.DeletionTimestamp, facts.LongestSidecarCall) &&
		e.Volume.Detached != nil && e.Volume.Detached.Sub(va.DeletionTimestamp.Time) >= snapshot.ClockTolerance
}

// strippedOffGuard is offGuard, but also holds where the storage system itself shows the
// detach.
var strippedOffGuard = Guard{GuardFenced, union(onWorlds, onNodes), func(v *View, r *Repair) error {
	if storageDetached(v, r) {
		return nil
	}
	return offGuard.Check(v, r)
}, ""}

// detachedGuard holds where the user has seen that the storage system does not have the volume
// attached to the node, or where its list shows that. Nothing in the cluster does:
// status.attached is the last answer that the attacher got, and the node does not report a disk
// that it does not use.
var detachedGuard = Guard{GuardDetached, union(onWorlds, onNodes), func(v *View, r *Repair) error {
	va := target(v, r)
	if va.Name == "" || slices.Contains(v.Consent.Detached, va.Name) || storageDetached(v, r) {
		return nil
	}
	return detachThere(v, GuardDetached, va, fmt.Sprintf("without the finalizer nobody would detach what the storage system still has attached to node %s: if you have seen there that "+
		"it has the volume not attached to that node, give --detached %s", va.Spec.NodeName, va.Name), "")
}, ""}
