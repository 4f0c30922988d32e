package diagnose

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TracePod follows the volumes of the pod, which must be in the snapshot, and adds the findings
// about them.
func TracePod(s *snapshot.Snapshot, pod *corev1.Pod, opts Options) *trace.Trace {
	view := viewOf(s, opts)
	checks := opts.Checks
	if checks == nil {
		checks = Checks()
	}
	t := trace.OfPod(view, pod, opts.Kubelet)
	AddFindings(view, examine(view, checks), t)
	return t
}

// AddFindings adds the report's findings about the pod or its volumes to its trace, and judges the
// wait by them. The remainder is made anew from this trace, if the check was asked for: a kubelet
// may have told it more than the objects show, also that a finding is out of date.
func AddFindings(view *facts.View, report *finding.Report, t *trace.Trace) {
	others := *report
	others.Findings = slices.DeleteFunc(slices.Clone(report.Findings), func(f finding.Finding) bool { return f.Code == finding.PodStuck || t.Outdated(f) })
	t.AddFindings(&others)
	if !slices.Contains(report.Checks, finding.PodStuck) {
		return
	}
	for _, f := range remainder(others.Findings, []*trace.Trace{t}) {
		f.AdviceCommands = slices.DeleteFunc(f.AdviceCommands, func(command string) bool { return command == traceCommand(t) })
		view.Advise(&f)
		t.Findings = append(t.Findings, f.Brief())
	}
}

// answerFor is the verdict of TracePod on the pod. The report must be the whole one on the
// view: what is later left out of it changes no verdict.
func answerFor(view *facts.View, report *finding.Report, pod *corev1.Pod) finding.Answer {
	t := trace.OfPod(view, pod, nil)
	t.AddFindings(report)
	return finding.Answer{Pod: podOf(t), Verdict: t.Verdict.State, Message: t.Verdict.Message}
}

// PreflightNode makes the preflight of the node, with the findings about it.
func PreflightNode(s *snapshot.Snapshot, name types.NodeName, opts Options) *preflight.Preflight {
	view := viewOf(s, opts)
	return preflight.OfNode(view, name, opts.Reconcile, examine(view, opts.Checks))
}

func viewOf(s *snapshot.Snapshot, opts Options) *facts.View {
	world := reconcile.NewWorld(s, opts.Reconcile)
	return facts.NewView(s, world, world.Reconcile())
}
