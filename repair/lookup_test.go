package repair

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestLookupFindsWhatAWalkFinds: the guards' lookups about a volume give the same answers as a
// walk over the whole cluster, and the same first one.
func TestLookupFindsWhatAWalkFinds(t *testing.T) {
	found := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		v := Look(drawLookup(t), diagnose.Options{}, Consent{})
		first := func(is func(*storagev1.VolumeAttachment) bool) *storagev1.VolumeAttachment {
			if i := slices.IndexFunc(v.Snapshot.VolumeAttachments, is); i >= 0 {
				return v.Snapshot.VolumeAttachments[i]
			}
			return nil
		}
		same := func(what string, got, want *storagev1.VolumeAttachment) {
			if got != want {
				t.Errorf("%s: %+v, and a walk finds %+v", what, got, want)
			}
			if want != nil {
				found[what]++
			}
		}
		attached := func(va *storagev1.VolumeAttachment) bool { return va.Status.Attached }
		for _, volume := range lookupVolumes {
			for _, node := range lookupNodes {
				r := &Repair{Finding: finding.Finding{Volume: volume, Node: types.NodeName(node)}}
				other := func(va *storagev1.VolumeAttachment) bool { return va.Spec.NodeName != node }
				same("by volume", attachmentFor(v, r, other), first(func(va *storagev1.VolumeAttachment) bool { return other(va) && attachmentMayBeFor(v, va, r) }))
			}
			var reports []types.NodeName
			for _, node := range v.Snapshot.Nodes {
				if facts.Lists(node, volume) || slices.Contains(node.Status.VolumesInUse, volume) {
					reports = append(reports, facts.NodeName(node))
				}
			}
			found["reported"] += len(reports)
			if got := v.reporting(volume); !slices.IsSorted(got) || slices.ContainsFunc(reports, func(n types.NodeName) bool { return !slices.Contains(got, n) }) {
				t.Errorf("%s: %v, and %v report it", volume, got, reports)
			}
		}
		for _, va := range v.Snapshot.VolumeAttachments {
			like := func(other *storagev1.VolumeAttachment) bool {
				return other != va && attached(other) && sameVolume(v, va, other)
			}
			got := attachmentLike(v, va, func(other *storagev1.VolumeAttachment) bool { return other != va && attached(other) })
			same("by attachment", got, first(like))
		}
	})
	for _, what := range []string{"by volume", "by attachment", "reported"} {
		if found[what] == 0 {
			t.Errorf("nothing was found %s", what)
		}
	}
}

var (
	lookupNodes   = []string{"n1", "n2", "gone"}
	lookupDrivers = []string{"csi.example.com", "shares.example.com"} // the second attaches nothing
	lookupHandles = []string{"h1", "h2", "h^3"}
	lookupVolumes = []corev1.UniqueVolumeName{
		"kubernetes.io/csi/csi.example.com^h1", "kubernetes.io/csi/csi.example.com^h2", "kubernetes.io/csi/csi.example.com^h^3",
		"kubernetes.io/csi/shares.example.com^h1",
	}
)

var epoch = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// drawLookup draws VolumeAttachments with computed and other names, for volumes that exist, are gone
// or were replaced, or with an inline volume.
func drawLookup(t *rapid.T) *snapshot.Snapshot {
	pick := func(what string, from []string) string { return rapid.SampledFrom(from).Draw(t, what) }
	no := false
	o := snapshot.Objects{CSIDrivers: []*storagev1.CSIDriver{{
		ObjectMeta: metav1.ObjectMeta{Name: lookupDrivers[1]}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no},
	}}}
	for _, name := range lookupNodes[:2] {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, volume := range lookupVolumes {
			if rapid.Bool().Draw(t, "attached") {
				node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: volume})
			}
			if rapid.Bool().Draw(t, "in use") {
				node.Status.VolumesInUse = append(node.Status.VolumesInUse, volume)
			}
		}
		o.Nodes = append(o.Nodes, node)
	}
	source := func() *corev1.CSIPersistentVolumeSource {
		return &corev1.CSIPersistentVolumeSource{Driver: pick("driver", lookupDrivers), VolumeHandle: pick("handle", lookupHandles)}
	}
	volumes := []string{"gone"}
	for i := range rapid.IntRange(0, 4).Draw(t, "volumes") {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pv%d", i)}}
		pv.Spec.CSI = source()
		o.Volumes, volumes = append(o.Volumes, pv), append(volumes, pv.Name)
	}
	names := map[string]bool{}
	for i := range rapid.IntRange(0, 8).Draw(t, "attachments") {
		va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("restored-%d", i)}}
		va.Spec.NodeName, va.Spec.Attacher = pick("node", lookupNodes), pick("attacher", lookupDrivers)
		va.Status.Attached = rapid.Bool().Draw(t, "is attached")
		if rapid.IntRange(0, 4).Draw(t, "inline") == 0 {
			va.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: source()}}
		} else {
			name := pick("volume", volumes)
			va.Spec.Source.PersistentVolumeName = &name
		}
		if rapid.IntRange(0, 4).Draw(t, "named by hand") > 0 {
			va.Name = reconcile.VolumeAttachmentName(pick("named for", lookupHandles), pick("named by", lookupDrivers), types.NodeName(va.Spec.NodeName))
		}
		if !names[va.Name] {
			o.VolumeAttachments = append(o.VolumeAttachments, va)
		}
		names[va.Name] = true
	}
	return snapshot.New(epoch, snapshot.Source{ServerVersion: "v1.36.0"}, o, nil)
}
