package diagnose

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/scope"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Suffices says whether a snapshot of the pod's scope shows of the pod what the
// whole cluster would. It does not where others affect the pod, as for one that waits
// for an attach: its driver works for all of them. A storage system's list is held
// against all nodes.
func Suffices(s *snapshot.Snapshot, name types.NamespacedName, settings reconcile.Options) bool {
	pod := s.Pod(name)
	if pod == nil || len(s.Gaps) > 0 || len(s.Backends) > 0 {
		return false
	}
	p := viewOf(s, Options{Reconcile: settings})
	if !scope.SharesNothing(p, pod) {
		return false
	}
	alone := map[finding.Code]bool{}
	for _, c := range Checks() {
		alone[c.Code] = c.PodAlone
	}
	return !slices.ContainsFunc(Examine(p, nil).Findings, func(f finding.Finding) bool {
		return (slices.Contains(f.Pods, facts.PodName(pod)) || f.Subject == facts.PodObject(pod)) && (!alone[f.Code] || scope.MayBeInline(f.Volume) || slices.ContainsFunc(f.Steps, hitsOthers))
	})
}

// hitsOthers reports whether the step hits pods that a pod's scope does not have.
func hitsOthers(s finding.Step) bool { return s.Kind != step.DeletePod }
