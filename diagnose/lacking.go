package diagnose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// lacking is the first kind that the check needs and that was not read in full. For a check
// about single namespaces or drivers it is enough that any of them was read.
func lacking(s *snapshot.Snapshot, c check.Check) (kind snapshot.Kind, lacks bool) {
	i := slices.IndexFunc(c.Needs, func(k snapshot.Kind) bool {
		if k == snapshot.CSIDrivers && c.OfDriver {
			return !s.KnowsAnyDriver()
		}
		return !s.Complete(k) && (!c.OfNamespace || !partlyRead(s, k))
	})
	if i < 0 {
		return "", false
	}
	return c.Needs[i], true
}

// lacksAll reports whether the check could not report on any part of the cluster.
func lacksAll(s *snapshot.Snapshot, c check.Check) bool {
	c.OfNamespace, c.OfDriver = true, true
	_, lacks := lacking(s, c)
	return lacks
}

// partlyRead reports whether the kind was read in full in some namespace.
func partlyRead(s *snapshot.Snapshot, kind snapshot.Kind) bool {
	return !slices.ContainsFunc(s.Gaps, func(g snapshot.Gap) bool { return g.Kind == kind && g.Namespace == "" })
}

// keepRead drops the findings of a run that are about namespaces and drivers that were not
// read: all of them where the check does not report on a part of the cluster, or doubts what it
// finds.
func keepRead(run *check.Run) {
	s := run.Snapshot
	if _, lacks := lacking(s, run.Check); lacks || run.Check.Doubts != nil && run.Check.Doubts(run.View) {
		run.Findings = nil
		return
	}
	var partly []snapshot.Kind
	for _, kind := range run.Check.Needs {
		switch {
		case s.Complete(kind):
		case kind == snapshot.CSIDrivers:
			run.Findings = slices.DeleteFunc(run.Findings, func(f finding.Finding) bool { return !knowsDriversOf(run.View, f) })
		default:
			partly = append(partly, kind)
		}
	}
	if len(partly) == 0 {
		return
	}
	run.Findings = slices.DeleteFunc(run.Findings, func(f finding.Finding) bool {
		namespaces := namespacesOf(run.View, f)
		for _, kind := range partly {
			if slices.ContainsFunc(namespaces, func(n string) bool { return !s.CompleteIn(kind, n) }) {
				return true
			}
		}
		return len(namespaces) == 0
	})
}

// knowsDriversOf reports whether no unread CSIDriver could change the finding. Those that could
// are of its volume's driver or, where it names no volume, of all volumes of its pods.
func knowsDriversOf(v *facts.View, f finding.Finding) bool {
	if driver := v.DriverOf(f); driver != "" {
		return v.Snapshot.KnowsDriver(driver)
	}
	if f.Volume != "" { // it is not of a CSI driver
		return true
	}
	return len(f.Pods) > 0 && !slices.ContainsFunc(f.Pods, func(pod string) bool {
		namespace, name, _ := strings.Cut(pod, "/")
		return !knowsDriversOfPod(v, v.Snapshot.Pod(types.NamespacedName{Namespace: namespace, Name: name}))
	})
}

func knowsDriversOfPod(v *facts.View, pod *corev1.Pod) bool {
	return pod != nil && !slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		driver, _ := v.CsiVolume(pod, &volume)
		return driver != "" && !v.Snapshot.KnowsDriver(driver)
	})
}

// namespacesOf are the namespaces of the finding's pods and claims, including the claims of
// other PersistentVolumes of the same volume; nil where pods of any namespace may use the
// volume.
func namespacesOf(v *facts.View, f finding.Finding) []string {
	var namespaces []string
	if f.Subject.Namespace != "" {
		namespaces = append(namespaces, f.Subject.Namespace)
	}
	for _, pod := range f.Pods {
		namespace, _, _ := strings.Cut(pod, "/")
		namespaces = append(namespaces, namespace)
	}
	if f.PersistentVolume == "" && f.Volume == "" && f.VolumeAttachment == "" {
		return namespaces
	}
	known := false
	for _, pv := range v.Snapshot.Volumes {
		name, err := v.World.VolumeName(pv)
		if pv.Name != f.PersistentVolume && (err != nil || name != f.Volume) || pv.Spec.ClaimRef == nil {
			continue
		}
		namespaces, known = append(namespaces, pv.Spec.ClaimRef.Namespace), true
	}
	if !known {
		return nil
	}
	return namespaces
}
