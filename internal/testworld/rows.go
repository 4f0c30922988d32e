package testworld

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/evidence/metrics"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Rows are the plan's rows of the pod's node, with what its kubelet reports, if it was asked.
func Rows(w *World, view *trace.KubeletView) *kubelet.Node {
	s := w.Snapshot()
	world := reconcile.NewWorld(s, reconcile.Options{})
	return kubelet.OfNode(facts.NewView(s, world, world.Reconcile()), "n1", view)
}

// kubeletRows are the rows of the volume of the pod.
func kubeletRows(n *kubelet.Node, pod, name string) (rows []kubelet.Volume) {
	for _, v := range n.Volumes {
		if slices.Contains(v.Pods, kubelet.PodVolume{Pod: pod, Name: name}) {
			rows = append(rows, v)
		}
	}
	return rows
}

// Disagreements are the differences between the plan's rows of the node and the traces of the
// pods there, and the volumes in use without a row.
func Disagreements(s *snapshot.Snapshot, settings reconcile.Options, name types.NodeName) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	world := reconcile.NewWorld(s, settings)
	n := kubelet.OfNode(facts.NewView(s, world, world.Reconcile()), name, nil)
	seen := 0
	for _, pod := range s.PodsOnNode(name) {
		doc := diagnose.TracePod(s, pod, diagnose.Options{Reconcile: settings, Checks: []check.Check{}})
		for _, v := range doc.Volumes {
			rows := kubeletRows(n, facts.PodName(pod), v.Name)
			seen += len(rows)
			for _, text := range disagree(doc, pod, v, rows) {
				say("pod %s, volume %s: %s", facts.PodName(pod), v.Name, text)
			}
		}
	}
	inUse := map[corev1.UniqueVolumeName]bool{}
	for _, v := range n.Volumes {
		inUse[v.Volume] = true
		seen -= len(v.Pods)
		if node := s.Node(name); len(v.Pods) == 0 && !facts.InUse(node, v.Volume) {
			say("volume %s is nobody's and not in use", v.Volume)
		}
	}
	if seen != 0 {
		say("%d rows are of no volume of a pod", -seen)
	}
	if node := s.Node(name); node != nil {
		for _, v := range node.Status.VolumesInUse {
			if !inUse[v] {
				say("volume %s is in use and has no row", v)
			}
		}
	}
	return wrong
}

// disagree lists the differences between the rows of a volume and its trace.
func disagree(doc *trace.Trace, pod *corev1.Pod, v trace.VolumeTrace, rows []kubelet.Volume) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(rows) > 1 {
		say("%d rows", len(rows))
	}
	stage := func(name trace.StageName) trace.Stage {
		i := slices.IndexFunc(v.Stages, func(s trace.Stage) bool { return s.Stage == name })
		if i < 0 {
			return trace.Stage{}
		}
		return v.Stages[i]
	}
	blamed := doc.Verdict.State == finding.InFlight || doc.Verdict.State == finding.Stuck
	if len(rows) == 0 {
		switch {
		case blamed && v.Name == doc.Verdict.Volume, blamed && slices.Contains(doc.Verdict.Volumes, v.Name):
			say("the verdict names it, and it has no row")
		case v.Broken != "" && v.Broken != trace.StageDetached && v.Referenced:
			say("it waits in %s, and has no row", v.Broken)
		case stage(trace.StageMounted).State == trace.StageDone:
			say("it is mounted, and has no row")
		}
		return wrong
	}
	row := rows[0]
	stages := row.Stages
	if len(stages) == 0 && row.Stage != "" {
		stages = []trace.StageName{row.Stage}
	}
	switch {
	case blamed && doc.Verdict.Stage == trace.StageMounted && row.State == trace.StageDone && facts.MayUseVolumes(pod):
		// The kubelet has done its part, and what comes after the mounts fails.
	case blamed && len(doc.Verdict.Volumes) == 0 && v.Name == doc.Verdict.Volume:
		if row.Stage != doc.Verdict.Stage || !slices.Equal(row.Stages, doc.Verdict.Stages) || row.Actor != doc.Verdict.Actor {
			say("verdict %s %v on %s, row %s %v on %s", doc.Verdict.Stage, doc.Verdict.Stages, doc.Verdict.Actor, row.Stage, row.Stages, row.Actor)
		}
	case blamed && slices.Contains(doc.Verdict.Volumes, v.Name):
		for _, s := range stages {
			if s != doc.Verdict.Stage && !slices.Contains(doc.Verdict.Stages, s) {
				say("verdict %s %v, row %v", doc.Verdict.Stage, doc.Verdict.Stages, stages)
			}
		}
		if !slices.Contains(strings.Split(doc.Verdict.Actor, " or "), row.Actor) {
			say("verdict on %s, row on %s", doc.Verdict.Actor, row.Actor)
		}
	case v.Broken != "":
		if s := stage(v.Broken); row.Stage != v.Broken || row.Actor != s.On || row.State != s.State {
			say("trace %s %s on %s, row %s %s on %s", v.Broken, s.State, s.On, row.Stage, row.State, row.Actor)
		}
	case stage(trace.StageMounted).State == trace.StageDone:
		if row.State != trace.StageDone || row.Stage != "" {
			say("mounted, and the row says %s %s", row.State, row.Stage)
		}
	case row.State != trace.StageUnknown:
		say("no object tells, and the row says %s %s", row.State, row.Stage)
	}
	return wrong
}

// Sample is a value of the kubelet's metrics with these labels.
func Sample(family string, value float64, labels ...string) metrics.Sample {
	s := metrics.Sample{Family: family, Labels: map[string]string{}, Value: value}
	for i := 0; i < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	return s
}

// Plugin is the driver's name in the kubelet's metrics.
const Plugin = "kubernetes.io/csi:" + Driver

// Counts is how many volumes of the driver the kubelet wants mounted, and has mounted.
func Counts(wanted, mounted float64) []metrics.Sample {
	return []metrics.Sample{
		Sample("volume_manager_total_volumes", wanted, "plugin_name", Plugin, "state", "desired_state_of_world"),
		Sample("volume_manager_total_volumes", mounted, "plugin_name", Plugin, "state", "actual_state_of_world"),
		Sample("volume_manager_total_volumes", 9, "plugin_name", "kubernetes.io/csi:other", "state", "desired_state_of_world"),
	}
}

// Operation is a sample that counts the operations of this name that ended with the status.
func Operation(name, status, plugin string, value float64) metrics.Sample {
	return Sample("storage_operation_duration_seconds", value, "volume_plugin", plugin, "operation_name", name, "status", status)
}
