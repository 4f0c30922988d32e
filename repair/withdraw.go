package repair

import (
	"encoding/json"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// withdrawGuards make sure that the deletion of a VolumeAttachment that this
// package created detaches nothing that anybody uses. They ask all that the
// deletion of any other has to answer, but for two things: the finding was about
// what the creation was for, and an attacher that is away detaches the volume
// once it is back.
var withdrawGuards = slices.Concat(
	[]Guard{
		completeGuard(detachReads),
		{"not-used", checkNotUsedThere},
		{"not-reported", checkNotListed},
	},
	slices.DeleteFunc(slices.Clone(detachGuards), func(g Guard) bool {
		return g.Name == GuardFinding || g.Name == "attacher-at-work"
	}),
	[]Guard{
		{"node-lives", func(v *View, r *Repair) error { return checkLivesOrOff(v, r.Finding.Node) }},
		{"not-in-use", checkNotInUse},
	},
)

// withdraw works out the deletion of a VolumeAttachment that this package
// created, or refuses. What volume and node it is for is read from the object
// itself.
func withdraw(v *View, va *storagev1.VolumeAttachment) (*Write, error) {
	r := &Repair{Do: Operation{Verb: VerbDelete, Target: attachmentTarget(va)}, Guards: withdrawGuards}
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
		Check:    func(after json.RawMessage) error { return checkSameObject(after, va.UID) },
		// Another one of that name is somebody else's.
		Stands: func(v *View) bool {
			now := v.Snapshot.VolumeAttachment(va.Name)
			return now == nil || now.UID != va.UID || now.DeletionTimestamp != nil
		},
	}, nil
}
