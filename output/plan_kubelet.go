package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
)

// writeKubelet writes the kubelet's half of a node. What is mounted as its pods want it is
// counted, and listed only where the table is wide.
func writeKubelet(b *strings.Builder, n *kubelet.Node, opts Options, wide bool) error {
	version := ""
	if n.KubeletVersion != "" {
		version = " (" + Safe(n.KubeletVersion) + ")"
	}
	fmt.Fprintf(b, "\nThe kubelet of %s%s:\n", Safe(string(n.Node)), version)
	shown := n.Volumes
	if !wide {
		shown = slices.DeleteFunc(slices.Clone(shown), func(v kubelet.Volume) bool { return v.State == trace.StageDone })
	}
	header := []string{"NEXT", "STATE", "STAGE", "VOLUME", "PODS"}
	if wide {
		header = append(header, "ACTOR", "CALLS", "PAUSE", "SINCE", "DUE")
	}
	var rows [][]string
	var texts []string
	for _, v := range shown {
		state := stateText(trace.Stage{State: v.State, Overdue: v.Overdue})
		row := []string{or(string(v.Next)), state, or(stagesOf(v)), or(volumeOf(v)), or(podsOf(v))}
		if wide {
			row = append(row, or(v.Actor), or(callsOf(v)), or(v.Pause), stampOr(v.Since), stampOr(v.DueAt))
		}
		rows = append(rows, row)
		texts = append(texts, kubeletText(v))
	}
	if len(rows) > 0 {
		text, err := table(header, rows)
		if err != nil {
			return err
		}
		b.WriteString(underRows(text, texts, opts))
	}
	if mounted := len(n.Volumes) - len(shown); mounted > 0 {
		fmt.Fprintf(b, "  %s mounted as the pods want (-o wide lists all)\n", count(mounted, "volume"))
	} else if len(n.Volumes) == 0 {
		b.WriteString("  It has no volume and wants none.\n")
	}
	if len(n.Statements) > 0 {
		b.WriteString("  It says itself:\n")
		writeStatements(b, n.Statements, opts)
	}
	return nil
}

// kubeletText is who has to act, what ends the wait and what was said.
func kubeletText(v kubelet.Volume) string {
	if v.State == trace.StageDone {
		return ""
	}
	text := v.Detail
	if v.Actor != "" {
		text = "next to act: " + v.Actor + "; " + text
	}
	if v.Ends != "" {
		text += "; ends when " + v.Ends
	}
	if v.Said != "" {
		text += "; said: " + v.Said
	}
	return text
}

func stagesOf(v kubelet.Volume) string {
	if len(v.Stages) == 0 {
		return stageText(v.Stage)
	}
	names := make([]string, 0, len(v.Stages))
	for _, s := range v.Stages {
		names = append(names, stageText(s))
	}
	return strings.Join(names, " or ")
}

func volumeOf(v kubelet.Volume) string {
	if len(v.Pods) > 0 {
		return cmp.Or(v.PersistentVolume, string(v.Volume), v.Pods[0].Name)
	}
	return cmp.Or(v.PersistentVolume, string(v.Volume))
}

func podsOf(v kubelet.Volume) string {
	names := make([]string, 0, len(v.Pods))
	for _, p := range v.Pods {
		names = append(names, p.Pod)
	}
	return strings.Join(names, ",")
}

func callsOf(v kubelet.Volume) string {
	names := make([]string, 0, len(v.Calls))
	for _, c := range v.Calls {
		names = append(names, string(c))
	}
	return strings.Join(names, ",")
}

func stampOr(t *metav1.Time) string {
	if t == nil {
		return "-"
	}
	return facts.Stamp(*t)
}
