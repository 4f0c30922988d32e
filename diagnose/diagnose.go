// Package diagnose runs coded checks over a snapshot and the worlds rebuilt from it, and makes
// a report of their findings.
package diagnose

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/sidebyside"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Options choose what is examined, and how.
type Options struct {
	Reconcile reconcile.Options
	// Checks are the checks to run; nil runs all.
	Checks []check.Check
	// Kubelet is what the kubelet of the pod's node itself reports, for TracePod alone; nil
	// where it was not asked.
	Kubelet *trace.KubeletView
}

// Diagnose rebuilds the worlds, runs the checks over them, and reports their findings.
func Diagnose(s *snapshot.Snapshot, opts Options) *finding.Report {
	return Build(viewOf(s, opts), Request{Checks: opts.Checks})
}

// examine runs the checks over worlds that are already rebuilt; nil checks runs all.
func examine(view *facts.View, checks []check.Check) *finding.Report {
	s := view.Snapshot
	if checks == nil {
		checks = Checks()
	}
	r := &finding.Report{
		APIVersion:        finding.APIVersion,
		Kind:              "Report",
		TakenAt:           metav1.NewTime(s.TakenAt.UTC()),
		KubernetesVersion: s.Source.ServerVersion,
		Source:            s.Source,
		Gaps:              append([]snapshot.Gap{}, s.Gaps...),
		SkippedChecks:     []finding.SkippedCheck{},
		Checks:            []finding.Code{},
	}
	r.Gaps = append(r.Gaps, storage.Gaps(view)...)
	r.Complete = len(r.Gaps) == 0
	var asked []check.Check
	for _, check_ := range checks {
		if check_.Run == nil {
			continue
		}
		if kind, lacks := lacking(s, check_); lacks {
			r.SkippedChecks = append(r.SkippedChecks, finding.SkippedCheck{Code: check_.Code, Check: check_.Name, Because: kind})
			continue
		}
		r.Checks = append(r.Checks, check_.Code)
		asked = append(asked, check_)
	}
	superior := superiors(s, checks, asked)
	var traces []*trace.Trace
	var tracing sync.WaitGroup
	tracing.Go(func() { traces = waiting(view) })
	runs := runsOf(view, slices.Concat(asked, superior))
	sideBySide(runs)
	found := foundBy(view, runs)
	tracing.Wait()
	judge(traces, found)
	lowerInTime(found, traces)
	if len(r.SkippedChecks) == 0 { // a skipped check may know better
		found = append(found, suspicions(view, runs, found, traces)...)
	}
	lookMeanwhile(found, traces)
	found = append(found, remainder(found, traces)...)
	r.Findings = slices.DeleteFunc(found, func(f finding.Finding) bool { return !slices.Contains(r.Checks, f.Code) })
	sidebyside.Do(len(r.Findings), func(i int) {
		f := &r.Findings[i]
		f.Workloads, f.Claims = workloads(view, f.Pods), claims(view, f.Pods, f.PersistentVolume)
		f.Evidence = append(f.Evidence, health(view, *f)...)
		view.Advise(f)
	})
	remember(view, r.Findings)
	r.Findings = finding.Arrange(r.Findings)
	link(view, checks, r.Findings)
	r.Volumes = records(view, r.Findings)
	r.Waiting = entries(traces)
	r.Cluster = &finding.Cluster{Context: s.Source.Context, Server: s.Source.Server, Release: s.Source.ServerVersion}
	r.Scope = finding.Scope{Objects: s.Counts(), PodsWithAttachedVolume: withAttached(view), PodsOnSilentNodes: onSilentNodes(view), AttachedToNoNode: attachedToNoNode(view), Checks: len(r.Checks)}
	return finding.New(*r)
}

// onSilentNodes names the pods with a claim that ran when their nodes were last heard of.
func onSilentNodes(view *facts.View) []string {
	var names []string
	for _, pod := range view.Snapshot.Pods {
		node := view.Snapshot.Node(facts.NodeOf(pod))
		if pod.Spec.NodeName == "" || node == nil && !view.Snapshot.Complete(snapshot.Nodes) || !view.Lost(node) {
			continue
		}
		if pod.DeletionTimestamp == nil && !reconcile.PodTerminated(pod) && facts.MayUseVolumes(pod) && len(facts.ClaimNames(pod)) > 0 {
			names = append(names, facts.PodName(pod))
		}
	}
	return names
}

// attachedToNoNode names the attachments of nodes that do not exist.
func attachedToNoNode(view *facts.View) []string {
	var names []string
	for _, va := range view.Attachments() {
		if va.Holds() && view.Snapshot.Node(va.Node) == nil && view.Snapshot.Complete(snapshot.Nodes) {
			names = append(names, va.Name)
		}
	}
	return names
}

// withAttached counts the pods that have a volume which is attached to their node. It returns nil
// if a list that shows what is attached, or which pod has it, was not read in full.
func withAttached(view *facts.View) *int {
	for _, kind := range []snapshot.Kind{snapshot.Nodes, snapshot.VolumeAttachments, snapshot.CSINodes, snapshot.CSIDrivers, snapshot.Volumes, snapshot.Claims} {
		if !view.Snapshot.Complete(kind) {
			return nil
		}
	}
	pods := sets.New[*corev1.Pod]()
	for _, row := range view.World.Actual.Items() {
		isAttached := func(va *storagev1.VolumeAttachment) bool { return va.Status.Attached }
		if row.State == reconcile.Attached || slices.ContainsFunc(view.World.Attachments(row.VolumeNode), isAttached) {
			pods.Insert(view.World.LivePods(row.VolumeNode)...)
		}
	}
	n := pods.Len()
	return &n
}

// search runs the checks and returns their findings without those that yield to another one. It
// includes the findings of the superior checks.
func search(view *facts.View, asked, superior []check.Check) []finding.Finding {
	runs := runsOf(view, slices.Concat(asked, superior))
	sideBySide(runs)
	return foundBy(view, runs)
}

// runsOf makes a run for each check, each with a view of its own.
func runsOf(view *facts.View, checks []check.Check) []*check.Run {
	runs := make([]*check.Run, len(checks))
	for i, c := range checks {
		runs[i] = &check.Run{View: view.Apart(), Check: c}
	}
	return runs
}

// foundBy are the findings of the runs that yield to no other.
func foundBy(view *facts.View, runs []*check.Run) []finding.Finding {
	byCode, count := map[finding.Code][]finding.Finding{}, 0
	for _, run := range runs {
		byCode[run.Check.Code] = slices.Clone(run.Findings) // others yield to these even where they are not reported
		keepRead(run)
		count += len(run.Findings)
	}
	found := make([]finding.Finding, 0, count)
	for _, run := range runs {
		found = append(found, unyielding(view, run, byCode)...)
	}
	return found
}

// sideBySide runs the checks, as many at a time as there are processors. No check sees
// another's findings; the facts that they compute are shared.
func sideBySide(runs []*check.Run) {
	sidebyside.Do(len(runs), func(i int) { runs[i].Check.Run(runs[i]) })
}
