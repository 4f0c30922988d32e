package cmd

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// concerns reports whether the finding is about the target.
func (t target) concerns(f finding.Finding, s *snapshot.Snapshot) bool {
	if t.kind == "" {
		return false // a group without any pod
	}
	if f.Subject.Kind == snapshot.ResourceOf(t.kind).Object && f.Subject.Name == t.name.Name && f.Subject.Namespace == t.name.Namespace {
		return true
	}
	switch t.kind {
	case snapshot.Pods:
		return slices.Contains(f.Pods, t.name.String())
	case snapshot.Nodes:
		return string(f.Node) == t.name.Name
	case snapshot.Volumes:
		return f.PersistentVolume == t.name.Name
	case snapshot.VolumeAttachments:
		return f.VolumeAttachment == t.name.Name
	case snapshot.Claims:
		claim := s.Claim(t.name)
		return claim != nil && claim.Spec.VolumeName != "" && f.PersistentVolume == claim.Spec.VolumeName
	default:
		return false
	}
}

// inNamespace reports whether the finding is in the namespace: by its subject, by a pod, or
// by the claim that its volume is bound to.
func inNamespace(f finding.Finding, namespace string, s *snapshot.Snapshot) bool {
	pv := s.Volume(f.PersistentVolume)
	return f.Subject.Namespace == namespace ||
		slices.ContainsFunc(f.Pods, func(pod string) bool { return strings.HasPrefix(pod, namespace+"/") }) ||
		pv != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == namespace
}

// about names the targets, or else the namespace, of the report; "" is the whole cluster.
func about(targets []target, namespace string) string {
	names := make([]string, 0, len(targets))
	for _, t := range targets {
		names = append(names, t.String())
	}
	if len(names) == 0 && namespace != "" {
		names = append(names, "namespace "+namespace)
	}
	return strings.Join(names, ", ")
}

// scopeOf is the scope of the targets and the namespace.
func scopeOf(s *snapshot.Snapshot, targets []target, namespace string, repairs bool) *diagnose.Scope {
	waits := func(w finding.Waiting) bool {
		in, name, _ := strings.Cut(w.Pod, "/")
		pod := s.Pod(types.NamespacedName{Namespace: in, Name: name})
		if len(targets) == 0 {
			return namespace == "" || namespace == in
		}
		return pod != nil && slices.ContainsFunc(targets, func(t target) bool { return t.usedBy(pod, s) })
	}
	concerns := func(f finding.Finding) bool {
		if len(targets) == 0 {
			return namespace == "" || inNamespace(f, namespace, s)
		}
		return slices.ContainsFunc(targets, func(t target) bool { return t.concerns(f, s) })
	}
	return &diagnose.Scope{Waits: waits, Concerns: concerns, Repairs: repairs}
}

// usedBy reports whether the target is the pod, its node, or one of its volumes.
func (t target) usedBy(pod *corev1.Pod, s *snapshot.Snapshot) bool {
	volume := func(name string) bool {
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			claim := reconcile.ClaimName(pod, &v)
			c := s.Claim(types.NamespacedName{Namespace: pod.Namespace, Name: claim})
			return claim != "" && c != nil && c.Spec.VolumeName == name
		})
	}
	switch t.kind {
	case snapshot.Pods:
		return t.name == types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	case snapshot.Nodes:
		return t.name.Name == pod.Spec.NodeName
	case snapshot.Claims:
		return t.name.Namespace == pod.Namespace && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return reconcile.ClaimName(pod, &v) == t.name.Name
		})
	case snapshot.Volumes:
		return volume(t.name.Name)
	case snapshot.VolumeAttachments:
		va := s.VolumeAttachment(t.name.Name)
		return va != nil && va.Spec.NodeName == pod.Spec.NodeName && va.Spec.Source.PersistentVolumeName != nil && volume(*va.Spec.Source.PersistentVolumeName)
	default:
		return false
	}
}
