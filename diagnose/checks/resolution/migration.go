package resolution

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// releaseKnown reports whether the controller is modelled by the cluster's own release, and not
// by a guess.
func releaseKnown(p *facts.View) bool {
	_, err := version.ParseGeneric(p.Snapshot.Source.ServerVersion)
	return err == nil && !reconcile.TooOld(p.Snapshot.Source.ServerVersion)
}

// migratedAndNotCollected reports whether the attachment's volume has moved to CSI, on a
// release that does not find such attachments when it starts.
func migratedAndNotCollected(p *facts.View, va facts.Attachment) bool {
	v, err := version.ParseGeneric(p.Snapshot.Source.ServerVersion)
	return err == nil && overlooksMigrated(v) && p.InTree(va.VolumeAttachment)
}

// overlooksMigrated reports whether the release lacks kubernetes pull request 101737 and its
// backports.
func overlooksMigrated(v *version.Version) bool {
	mended := map[uint]uint{19: 12, 20: 8, 21: 2}
	if v.Major() != 1 || v.Minor() >= 22 {
		return false
	}
	patch, ok := mended[v.Minor()]
	return !ok || v.Patch() < patch
}

// hasMigrated reports whether the CSINode's kubelet has moved the in-tree plugin to CSI.
func hasMigrated(csiNode *storagev1.CSINode, plugin string) bool {
	return slices.Contains(strings.Split(csiNode.Annotations[corev1.MigratedPluginsAnnotationKey], ","), plugin)
}

var keptMigrated facts.KeptBy[string, bool]

// migratedElsewhere reports whether the kubelet of any node has moved the plugin to CSI.
func migratedElsewhere(p *facts.View, plugin string) bool {
	return keptMigrated.Of(p, plugin, func(p *facts.View, plugin string) bool {
		return slices.ContainsFunc(p.Snapshot.CSINodes, func(n *storagev1.CSINode) bool { return hasMigrated(n, plugin) })
	})
}
