package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var createAttachment = action{
	kind:      CreateAttachment,
	risk:      RiskMedium,
	codes:     []finding.Code{"VD302"},
	needs:     []Permission{RightTo(VerbCreate, snapshot.VolumeAttachments, "")},
	undoNeeds: []Permission{RightTo(VerbDelete, snapshot.VolumeAttachments, "")},
	guards: []Guard{
		controllerGuard,
		findingGuard,
		nodeReadyGuard,
		nodeManagedGuard,
		nodeInServiceGuard,
		entryThereGuard,
		wantedGuard,
		onlyWaitingGuard,
		volumeKnownGuard,
		driverOnNodeGuard,
		noneOfPairGuard,
		notElsewhereGuard,
		notWantedElsewhereGuard,
		attacherAtWorkGuard,
	},
	propose:    proposeCreate,
	undo:       undoCreate,
	undoGuards: withdrawGuards,
}

// proposeCreate makes the missing VolumeAttachment of an entry in a node's volumesAttached.
// The controller takes the volume for attached and does not make it; the kubelet cannot mount
// without it. The attacher publishes the volume as it would for the controller, which treats
// an object that exists already as its own.
func proposeCreate(v *View, f finding.Finding) (Repair, error) {
	va, err := newAttachment(v, f, f.Node, CreateAttachment)
	if err != nil {
		return Repair{}, err
	}
	do := creation(va)
	return Repair{
		Do:      do,
		Undo:    &Operation{Verb: VerbDelete, Target: do.Target},
		stands:  func(v *View) bool { return created(v, va) != nil },
		pending: func(v *View) string { return publishing(created(v, va)) },
		moot:    func(v *View) bool { return v.World.Desired.Find(f.Pair()) == nil },
		check:   answered(func(after *storagev1.VolumeAttachment) error { return checkCreated(after, va) }),
	}, nil
}

func creation(va *storagev1.VolumeAttachment) Operation {
	target := refTo(snapshot.VolumeAttachments, va)
	target.UID, target.ResourceVersion = "", ""
	return Operation{Verb: VerbCreate, Target: target, Object: Compact(newObject(va))}
}

// newObject is the VolumeAttachment as a person would write it: the Go type also prints
// fields that only the API server fills in.
func newObject(va *storagev1.VolumeAttachment) any {
	return map[string]any{
		"apiVersion": va.APIVersion, "kind": va.Kind,
		"metadata": map[string]any{"name": va.Name, "annotations": va.Annotations},
		"spec":     va.Spec,
	}
}

// created returns the VolumeAttachment that this package wrote, nil otherwise: one that the
// controller made has no mark.
func created(v *View, va *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	now := v.Snapshot.VolumeAttachment(va.Name)
	if now == nil || now.DeletionTimestamp != nil || now.Annotations[MarkAnnotation] != va.Annotations[MarkAnnotation] {
		return nil
	}
	return now
}

// publishing is what is still missing until the VolumeAttachment is attached; "" where nothing
// is.
func publishing(va *storagev1.VolumeAttachment) string {
	switch {
	case va == nil || va.Status.Attached:
		return ""
	case va.Status.AttachError != nil:
		return "the driver refuses to attach it: " + va.Status.AttachError.Message
	}
	return "the attacher has not attached it yet"
}

func checkCreated(after, want *storagev1.VolumeAttachment) error {
	source := after.Spec.Source.PersistentVolumeName
	if after.Spec.Attacher != want.Spec.Attacher || after.Spec.NodeName != want.Spec.NodeName || source == nil || *source != *want.Spec.Source.PersistentVolumeName {
		return fmt.Errorf("the API server would store %s, not %s", Compact(after.Spec), Compact(want.Spec))
	}
	return nil
}

func checkEntryThere(v *View, r *Repair) error {
	if !v.Facts.Lists(nodeOf(v, r), r.Finding.Volume) {
		return fmt.Errorf("volumesAttached of node %s does not list the volume", r.Finding.Node)
	}
	return nil
}

// checkNotWantedElsewhere: a single-node volume goes to the node whose pod the controller
// serves, and that may be another node.
func checkNotWantedElsewhere(v *View, r *Repair) error {
	if mayBeShared(v, r) {
		return nil
	}
	var others []types.NodeName
	for _, d := range v.Plan.OfVolume(r.Finding.Volume) {
		if d.Node != r.Finding.Node && v.World.Desired.Find(d.VolumeNode) != nil {
			others = append(others, d.Node)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("pods want the volume on %s too", joined(others))
}

// undoCreate deletes the VolumeAttachment again, unless that would take a volume from a pod.
func undoCreate(w Written) (*Reversal, error) {
	target, f := w.Operation.Target, w.Finding
	var made storagev1.VolumeAttachment
	if err := json.Unmarshal(w.Operation.Object, &made); err != nil {
		return nil, fmt.Errorf("read what was created: %w", err)
	}
	made.APIVersion, made.Kind = storagev1.SchemeGroupVersion.String(), "VolumeAttachment"
	mark := markOf(w.Repair, f.Code, f.Check)
	attacher, handle, ok := reconcile.ParseCSI(corev1.UniqueVolumeName(f.Volume))
	switch {
	case !ok || target.Name == "" || made.Spec.Source.PersistentVolumeName == nil:
		return nil, errors.New("it does not say which VolumeAttachment was created for which volume")
	case made.Name != target.Name || made.Spec.Attacher != attacher || made.Annotations[MarkAnnotation] != mark ||
		made.Spec.NodeName != f.Node && w.Repair == CreateAttachment ||
		!reconcile.IsVolumeAttachmentName(made.Name, handle, attacher, types.NodeName(made.Spec.NodeName)):
		return nil, errors.New("the VolumeAttachment is not one that the repair creates for its volume: the journal was changed")
	}
	do := creation(&made)
	r := &Reversal{
		Summary: "delete VolumeAttachment " + target.Name,
		Needs:   []Permission{RightTo(VerbDelete, snapshot.VolumeAttachments, target.Name)},
		do:      do,
		gone: func(v *View) string {
			if va := v.Snapshot.VolumeAttachment(target.Name); va == nil || va.DeletionTimestamp != nil {
				return "the VolumeAttachment is gone already, or is being deleted"
			}
			return ""
		},
		ours: func(v *View) error {
			va := v.Snapshot.VolumeAttachment(target.Name)
			if va.Annotations[MarkAnnotation] != mark || !sameJSON(Compact(va.Spec), Compact(made.Spec)) {
				return fmt.Errorf("VolumeAttachment %s is not the one that was created: it does not have the annotation %s: %s, or is for something else", va.Name, MarkAnnotation, mark)
			}
			return nil
		},
		prepare: func(v *View) (*Write, error) { return withdraw(v, v.Snapshot.VolumeAttachment(target.Name)) },
	}
	if w.Repair == CreateAttachment {
		r.inverse = &Operation{Verb: VerbDelete, Target: do.Target}
	}
	return r, nil
}

// withdrawGuards make sure that the deletion of a VolumeAttachment that this package created
// detaches nothing in use. They are the guards of any other deletion except two: the finding was
// about the cause of the creation, and an attacher that is away detaches the volume once it is
// back.
var withdrawGuards = slices.Concat(
	[]Guard{
		notUsedThereGuard,
		{"not-reported", onDisks, checkNotListed, notReported},
	},
	slices.DeleteFunc(slices.Clone(detachGuards), func(g Guard) bool {
		return g.Name == GuardFinding || g.Name == "attacher-at-work"
	}),
	[]Guard{
		{"node-lives", onNodes, func(v *View, r *Repair) error { return checkLivesOrOff(v, r.Finding.Node) }, "wait until the node is Ready"},
		notInUseGuard,
	},
)

// withdraw works out the deletion of a VolumeAttachment that this package created, or
// refuses. Its volume and node are read from the object itself.
func withdraw(v *View, va *storagev1.VolumeAttachment) (*Write, error) {
	r := &Repair{Do: Operation{Verb: VerbDelete, Target: refTo(snapshot.VolumeAttachments, va)}, Guards: slices.Concat([]Guard{completeGuard(restOn(withdrawGuards))}, withdrawGuards)}
	r.Finding.Node = types.NodeName(va.Spec.NodeName)
	if name, err := v.World.AttachmentVolume(va); err == nil {
		r.Finding.Volume = name
	}
	if no := refusal(v, r); no != nil {
		return nil, no
	}
	return &Write{
		Do:       r.Do,
		PreImage: Compact(newObject(va)),
		Check:    answered(func(after *deleted) error { return after.checkSame(va.UID) }),
		// Another object of that name was made by somebody else.
		Stands: func(v *View) bool { return v.goneOrGoing(r.Do.Target) },
		Hits:   func(v *View) string { return hitBy(v, va) },
	}, nil
}
