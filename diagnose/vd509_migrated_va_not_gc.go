package diagnose

import (
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var migratedVANotGC = Check{
	Code:     "VD509",
	Name:     "migrated-va-not-gc",
	Title:    "The attachment of an in-tree volume that has moved to CSI stays, and this release never finds it",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runMigratedVANotGC,
}

func runMigratedVANotGC(p *Pass) {
	waiting := p.waiting()
	for _, va := range p.danglings() {
		if !p.migratedAndNotCollected(va) {
			continue
		}
		f := p.dangling(va, p.Snapshot.Node(va.Node), elsewhere(waiting[va.Volume], va.Node))
		pv := p.Snapshot.Volume(*va.Spec.Source.PersistentVolumeName)
		f.Cause += "; the volume is of the in-tree plugin " + inTreePlugin(pv) + ", and this release does not find the VolumeAttachments of such volumes when it starts"
		f.Evidence = append(f.Evidence, Evidence{"cluster", "serverVersion", p.Snapshot.Source.ServerVersion})
		f.SelfHeals.Because = "a restart of kube-controller-manager does not help on this release, and may detach volumes in use that have moved to CSI " +
			"(mended in 1.22.0, 1.21.2, 1.20.8 and 1.19.12)"
		p.Report(f)
	}
}

// migratedAndNotCollected says that the attachment is of a volume that has moved
// to CSI, on a release that overlooks those.
func (p *Pass) migratedAndNotCollected(va attachment) bool {
	v, err := version.ParseGeneric(p.Snapshot.Source.ServerVersion)
	return err == nil && overlooksMigrated(v) && p.inTree(va.VolumeAttachment)
}

// overlooksMigrated says whether the release lacks kubernetes pull request
// 101737 and its successor.
func overlooksMigrated(v *version.Version) bool {
	mended := map[uint]uint{19: 12, 20: 8, 21: 2}
	if v.Major() != 1 || v.Minor() >= 22 {
		return false
	}
	patch, ok := mended[v.Minor()]
	return !ok || v.Patch() < patch
}
