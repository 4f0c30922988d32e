package conformance

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// chances are the results that depend on the order of Go maps upstream, with the possible
// values. Where the controller came to one of several, the model is given that one before it
// decides, so that everything that follows must agree.
type chances struct {
	// records are the possible records of a volume in the actual state of the world once the
	// worlds are populated.
	records map[corev1.UniqueVolumeName][]record
	// wanted are the possible specs of a pair in the desired state of the world.
	wanted map[Pair][]*reconcile.VolumeSpec
}

// record is the data that all nodes of a volume share. The last writer decides it.
type record struct {
	spec *reconcile.VolumeSpec
	path string
}

// chancesOf asks the model only for names and for the specs of pod volumes.
func chancesOf(c *Cluster, mode Mode, world *reconcile.World) *chances {
	ch := &chances{records: map[corev1.UniqueVolumeName][]record{}, wanted: map[Pair][]*reconcile.VolumeSpec{}}
	first := map[Pair]string{}
	statuses := map[corev1.UniqueVolumeName][]record{}
	for _, node := range c.Nodes {
		last := map[corev1.UniqueVolumeName]string{}
		for _, v := range node.Status.VolumesAttached {
			if v.Name == "" {
				continue
			}
			pair := Pair{Volume: v.Name, Node: types.NodeName(node.Name)}
			if _, again := first[pair]; !again {
				first[pair] = v.DevicePath
			}
			last[v.Name] = v.DevicePath
		}
		for name, path := range last {
			statuses[name] = append(statuses[name], record{path: path})
		}
	}
	attachments := map[corev1.UniqueVolumeName][]record{}
	for _, va := range c.VolumeAttachments {
		name, err := world.AttachmentVolume(va)
		if err != nil {
			continue
		}
		if _, listed := first[Pair{Volume: name, Node: types.NodeName(va.Spec.NodeName)}]; !listed {
			attachments[name] = append(attachments[name], record{spec: attachmentSpec(c, va.Spec.Source.PersistentVolumeName, name)})
		}
	}
	refreshed := map[corev1.UniqueVolumeName][]record{}
	for _, pod := range c.Pods {
		ch.readPod(pod, mode, world, first, refreshed)
	}
	// These three write one after the other.
	for _, writers := range []map[corev1.UniqueVolumeName][]record{statuses, attachments, refreshed} {
		for name, records := range writers {
			ch.records[name] = records
		}
	}
	return ch
}

// readPod notes the pod's writes: to the actual state of the world the last of its volumes
// with a name, to the desired one the first.
func (ch *chances) readPod(pod *corev1.Pod, mode Mode, world *reconcile.World, first map[Pair]string, refreshed map[corev1.UniqueVolumeName][]record) {
	last, wanted := map[corev1.UniqueVolumeName]record{}, map[Pair]bool{}
	for i := range pod.Spec.Volumes {
		name, spec, err := world.PodVolume(pod, &pod.Spec.Volumes[i])
		if err != nil {
			continue
		}
		pair := Pair{Volume: name, Node: types.NodeName(pod.Spec.NodeName)}
		if path, listed := first[pair]; listed {
			last[name] = record{spec, path}
		}
		// Without interference, the controller may learn of the first volume's claim last.
		if !wanted[pair] || mode.Free {
			ch.wanted[pair] = append(ch.wanted[pair], spec)
		}
		wanted[pair] = true
	}
	for name, r := range last {
		refreshed[name] = append(refreshed[name], r)
	}
}

// attachmentSpec is the spec that processVolumeAttachments makes from a PV. The translation
// of a GCE disk turns ReadWriteMany into ReadWriteOnce.
func attachmentSpec(c *Cluster, pvName *string, name corev1.UniqueVolumeName) *reconcile.VolumeSpec {
	pv := c.volume(*pvName)
	if pv.Spec.CSI != nil || !isCSI(name) {
		return &reconcile.VolumeSpec{PV: pv}
	}
	migrated := pv.DeepCopy()
	driver, handle, _ := reconcile.ParseCSI(name)
	migrated.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle},
	}
	modes := pv.Spec.AccessModes
	if pv.Spec.GCEPersistentDisk != nil && len(modes) > 0 && !slices.Equal(modes, []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}) {
		migrated.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	return &reconcile.VolumeSpec{PV: migrated, Migrated: true}
}

// adopt gives the world the controller's result where the model came to another of the
// possible results. It returns how often it did so.
func (ch *chances) adopt(world *reconcile.World, oracle *Answer) map[Tolerance]int {
	adopted := map[Tolerance]int{}
	for _, row := range world.Actual.Items() {
		o, ok := oracle.Actual[row.VolumeNode]
		own := specOf(row.Spec)
		if !ok || (own == o.Spec && row.DevicePath == o.DevicePath) {
			continue
		}
		records := ch.records[row.Volume]
		find := func(spec Spec, path string) int {
			return slices.IndexFunc(records, func(r record) bool { return specOf(r.spec) == spec && r.path == path })
		}
		if i := find(o.Spec, o.DevicePath); i >= 0 && find(own, row.DevicePath) >= 0 {
			if own != o.Spec {
				adopted[SpecOrder]++
			} else {
				adopted[PathOrder]++
			}
			row.Spec, row.DevicePath = records[i].spec, records[i].path
		}
	}
	for _, row := range world.Desired.Items() {
		o, ok := oracle.Desired[row.VolumeNode]
		own := specOf(row.Spec)
		if !ok || own == o.Spec {
			continue
		}
		find := func(spec Spec) int {
			return slices.IndexFunc(ch.wanted[row.VolumeNode], func(s *reconcile.VolumeSpec) bool { return specOf(s) == spec })
		}
		if i := find(o.Spec); i >= 0 && find(own) >= 0 {
			adopted[SpecOrder]++
			row.Spec = ch.wanted[row.VolumeNode][i]
		}
	}
	return adopted
}

func isCSI(name corev1.UniqueVolumeName) bool {
	return strings.HasPrefix(string(name), "kubernetes.io/csi/")
}
