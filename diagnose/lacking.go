package diagnose

import (
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// lacking is a kind that the check needs and that was not read in full, nor in any
// namespace that the check could speak about.
func lacking(s *snapshot.Snapshot, c check.Check) (kind snapshot.Kind, lacks bool) {
	i := slices.IndexFunc(c.Needs, func(k snapshot.Kind) bool {
		return !s.Complete(k) && (!c.OfNamespace || !partlyRead(s, k))
	})
	if i < 0 {
		return "", false
	}
	return c.Needs[i], true
}

// partlyRead reports whether all of the kind was read that is in one namespace.
func partlyRead(s *snapshot.Snapshot, kind snapshot.Kind) bool {
	return !slices.ContainsFunc(s.Gaps, func(g snapshot.Gap) bool { return g.Kind == kind && g.Namespace == "" })
}

// keepRead takes from a run what it found about namespaces that were not read.
func keepRead(run *check.Run) {
	s := run.Snapshot
	var partly []snapshot.Kind
	for _, kind := range run.Check.Needs {
		if !s.Complete(kind) {
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

// namespacesOf are those of the claims that the finding is about, also through another
// PersistentVolume of the same volume, and of its pods; none where it is about a volume that
// pods of any namespace may use.
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
