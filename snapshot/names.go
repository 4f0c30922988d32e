package snapshot

import (
	"hash/maphash"
	"math/bits"
)

// names finds the objects of a list by namespace and name. A map's keys would take
// twelve megabytes for the 130,000 objects of a large cluster.
type names[T object] struct {
	list       []T
	namespaced bool
	seed       maphash.Seed
	// slots say where in the list an object is, plus one, at the place that its
	// name hashes to or the next free one after it. At most half of them are taken.
	slots []uint32
}

// byName is for what has no namespace; of two objects of one name the last counts.
func byName[T object](list []T) names[T] { return newNames(list, false) }

func byNamespacedName[T object](list []T) names[T] { return newNames(list, true) }

func newNames[T object](list []T, namespaced bool) names[T] {
	n := names[T]{list, namespaced, maphash.MakeSeed(), make([]uint32, 2<<bits.Len(uint(len(list))))}
	for i, o := range list {
		*n.slot(o.GetNamespace(), o.GetName()) = uint32(i + 1)
	}
	return n
}

// get gives nil where there is none.
func (n *names[T]) get(namespace, name string) (object T) {
	if at := *n.slot(namespace, name); at > 0 {
		object = n.list[at-1]
	}
	return object
}

// slot is that of the object, or the one where it would stand.
func (n *names[T]) slot(namespace, name string) *uint32 {
	hash := maphash.String(n.seed, name)
	if n.namespaced {
		hash ^= bits.RotateLeft64(maphash.String(n.seed, namespace), 1)
	}
	last := uint64(len(n.slots) - 1)
	for i := hash & last; ; i = (i + 1) & last {
		slot := &n.slots[i]
		if *slot == 0 {
			return slot
		}
		if o := n.list[*slot-1]; o.GetName() == name && (!n.namespaced || o.GetNamespace() == namespace) {
			return slot
		}
	}
}

// ShareNames points references to a volume or a claim of the lists at that object's own
// name: a volume's name also stands in its claim and in its attachments. No snapshot
// may hold the objects yet.
func (o *Objects) ShareNames() {
	volumes, claims := byName(o.Volumes), byNamespacedName(o.Claims)
	for _, claim := range o.Claims {
		if pv := volumes.get("", claim.Spec.VolumeName); pv != nil {
			claim.Spec.VolumeName = pv.Name
		}
	}
	for _, va := range o.VolumeAttachments {
		if name := va.Spec.Source.PersistentVolumeName; name != nil {
			if pv := volumes.get("", *name); pv != nil {
				va.Spec.Source.PersistentVolumeName = &pv.Name
			}
		}
	}
	for _, pv := range o.Volumes {
		if ref := pv.Spec.ClaimRef; ref != nil {
			if claim := claims.get(ref.Namespace, ref.Name); claim != nil {
				ref.Name = claim.Name
				if ref.UID == claim.UID {
					ref.UID = claim.UID
				}
			}
		}
	}
	for _, pod := range o.Pods {
		for i := range pod.Spec.Volumes {
			if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
				if claim := claims.get(pod.Namespace, source.ClaimName); claim != nil {
					source.ClaimName = claim.Name
				}
			}
		}
	}
}
