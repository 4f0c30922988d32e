package conformance

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// candidates are what upstream may take for a volume's spec and device path.
// Where there are several, the order of a Go map decides.
type candidates struct {
	specs       sets.Set[Spec]
	multiAttach sets.Set[bool]
	paths       sets.Set[string]
}

type specs map[corev1.UniqueVolumeName]candidates

// specsOf collects them from each place that can bring a spec into a world: the
// pods' volumes, the PVs of VolumeAttachments, and the node statuses.
func specsOf(c *Cluster, world *reconcile.World) specs {
	s := specs{}
	for _, pod := range c.Pods {
		for i := range pod.Spec.Volumes {
			if name, spec, err := world.PodVolume(pod, &pod.Spec.Volumes[i]); err == nil {
				s.add(name, specOf(spec))
			}
		}
	}
	for _, va := range c.VolumeAttachments {
		name, err := world.AttachmentVolume(va)
		if err != nil {
			continue
		}
		for _, pv := range c.Volumes {
			if pv.Name == *va.Spec.Source.PersistentVolumeName {
				s.add(name, Spec{Source: pv.Name, MultiAttach: multiAttach(pv)})
			}
		}
	}
	for _, node := range c.Nodes {
		for _, v := range node.Status.VolumesAttached {
			s.of(v.Name).paths.Insert(v.DevicePath)
		}
	}
	return s
}

func (s specs) of(name corev1.UniqueVolumeName) candidates {
	c, ok := s[name]
	if !ok {
		c = candidates{specs: sets.New[Spec](), multiAttach: sets.New[bool](), paths: sets.New[string]()}
		s[name] = c
	}
	return c
}

func (s specs) add(name corev1.UniqueVolumeName, spec Spec) {
	spec.Migrated = false // the same for all of a volume's specs
	s.of(name).specs.Insert(spec)
	s.of(name).multiAttach.Insert(spec.MultiAttach)
}

// multiAttach is that of the PV's spec. The translation of a GCE disk turns
// ReadWriteMany into ReadWriteOnce.
func multiAttach(pv *corev1.PersistentVolume) bool {
	modes := pv.Spec.AccessModes
	if pv.Spec.GCEPersistentDisk != nil && len(modes) > 0 {
		return len(modes) == 1 && modes[0] == corev1.ReadOnlyMany
	}
	return len(modes) == 0 || slices.Contains(modes, corev1.ReadWriteMany) || slices.Contains(modes, corev1.ReadOnlyMany)
}

func isCSI(name corev1.UniqueVolumeName) bool {
	return strings.HasPrefix(string(name), "kubernetes.io/csi/")
}
