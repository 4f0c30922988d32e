package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

// SameDisk is a disk that several volumes name.
type SameDisk struct {
	Name       corev1.UniqueVolumeName
	Volumes    []*corev1.PersistentVolume
	Attachable bool
	// Uses are the pods that use the disk's volumes, in the order of the snapshot.
	Uses []diskUse
}

// diskUse is a pod and the disk's volumes that it uses, each once.
type diskUse struct {
	Pod     *corev1.Pod
	Volumes []*corev1.PersistentVolume
}

// sameDisks are all such disks, and their index in All by name.
type sameDisks struct {
	All    []SameDisk
	places map[corev1.UniqueVolumeName]int
}

var keptSameDisks Kept[sameDisks]

// SameDisks are the disks that several Bound volumes name.
func (p *View) SameDisks() sameDisks {
	return keptSameDisks.Of(p, func(p *View) sameDisks {
		disks := sameDisks{p.findSameDisks(), map[corev1.UniqueVolumeName]int{}}
		for i, d := range disks.All {
			disks.places[d.Name] = i
		}
		p.findDiskUses(disks)
		return disks
	})
}

func (p *View) findSameDisks() []SameDisk {
	type named struct {
		name corev1.UniqueVolumeName
		pv   *corev1.PersistentVolume
	}
	all := make([]named, 0, len(p.Snapshot.Volumes))
	for _, pv := range p.Snapshot.Volumes {
		// A volume that is not Bound is a spare, or was kept by a Retain policy.
		if pv.DeletionTimestamp != nil || pv.Status.Phase != corev1.VolumeBound {
			continue
		}
		if name := p.DiskName(pv); name != "" {
			all = append(all, named{name, pv})
		}
	}
	byName := index.New(all, func(v named) corev1.UniqueVolumeName { return v.name })
	var disks []SameDisk
	for _, v := range all {
		same := byName[v.name]
		if len(same) < 2 || same[0] != v {
			continue
		}
		_, err := p.World.VolumeName(v.pv)
		d := SameDisk{Name: v.name, Attachable: err == nil}
		for _, other := range same {
			d.Volumes = append(d.Volumes, other.pv)
		}
		disks = append(disks, d)
	}
	return disks
}

// DiskName is the unique name of the volume's disk, also where its driver attaches nothing; ""
// where the volume does not show its disk.
func (p *View) DiskName(pv *corev1.PersistentVolume) corev1.UniqueVolumeName {
	name, err := p.World.VolumeName(pv)
	if err != nil && pv.Spec.CSI != nil {
		name = reconcile.CSIVolumeName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
	}
	return name
}

var keptVolumesOfDisk Kept[map[corev1.UniqueVolumeName][]*corev1.PersistentVolume]

// VolumesOfDisk are all volumes of the disk with that name, in whatever phase.
func (p *View) VolumesOfDisk(name corev1.UniqueVolumeName) []*corev1.PersistentVolume {
	if name == "" {
		return nil
	}
	return keptVolumesOfDisk.Of(p, func(p *View) map[corev1.UniqueVolumeName][]*corev1.PersistentVolume {
		return index.New(p.Snapshot.Volumes, p.DiskName)
	})[name]
}

// findDiskUses finds the pods that use the disks, in one walk.
func (p *View) findDiskUses(disks sameDisks) {
	if len(disks.All) == 0 {
		return
	}
	of := map[*corev1.PersistentVolume]*SameDisk{}
	for i := range disks.All {
		for _, pv := range disks.All[i].Volumes {
			of[pv] = &disks.All[i]
		}
	}
	for _, pod := range p.Snapshot.Pods {
		for i := range pod.Spec.Volumes {
			pv := p.BoundVolume(pod, &pod.Spec.Volumes[i])
			d := of[pv]
			if d == nil {
				continue
			}
			if last := len(d.Uses) - 1; last < 0 || d.Uses[last].Pod != pod {
				d.Uses = append(d.Uses, diskUse{Pod: pod})
			}
			if use := &d.Uses[len(d.Uses)-1]; !slices.Contains(use.Volumes, pv) {
				use.Volumes = append(use.Volumes, pv)
			}
		}
	}
}

// DifferentVolumes reports whether the two claims are bound to different volumes which
// are one disk.
func (p *View) DifferentVolumes(disk corev1.UniqueVolumeName, a, b *corev1.PersistentVolumeClaim) bool {
	if a == nil || b == nil || a.Spec.VolumeName == b.Spec.VolumeName {
		return false
	}
	_, same := p.SameDisks().places[disk]
	return same
}
