package testcases

import (
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Cross adds the other snapshot's objects; where both have an object, s's own stays.
func Cross(s, other *snapshot.Snapshot) *snapshot.Snapshot {
	objects := snapshot.Objects{
		VolumeAttachments: join(s.VolumeAttachments, other.VolumeAttachments),
		Nodes:             join(s.Nodes, other.Nodes),
		CSINodes:          join(s.CSINodes, other.CSINodes),
		CSIDrivers:        join(s.CSIDrivers, other.CSIDrivers),
		StorageClasses:    join(s.StorageClasses, other.StorageClasses),
		Volumes:           join(s.Volumes, other.Volumes),
		Claims:            join(s.Claims, other.Claims),
		Leases:            join(s.Leases, other.Leases),
		Events:            join(s.Events, other.Events),
		Pods:              join(s.Pods, other.Pods),
		Deployments:       join(s.Deployments, other.Deployments),
	}
	crossed := snapshot.New(s.TakenAt, s.Source, objects, slices.Clone(s.Gaps))
	crossed.Backends = s.Backends
	return crossed
}

func join[T interface {
	GetNamespace() string
	GetName() string
}](own, others []T) []T {
	joined := slices.Clone(own)
	for _, o := range others {
		same := func(p T) bool { return p.GetNamespace() == o.GetNamespace() && p.GetName() == o.GetName() }
		if !slices.ContainsFunc(own, same) {
			joined = append(joined, o)
		}
	}
	return joined
}
