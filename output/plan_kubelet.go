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

// writeKubelet writes the kubelet's view of a node. Volumes that are mounted as their pods want are
// only counted, unless the table is wide.
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
	var waits []string
	for _, v := range shown {
		pods := texts(v.Pods, func(p kubelet.PodVolume) string { return p.Pod })
		state := stateText(trace.Stage{State: v.State, Overdue: v.Overdue})
		row := []string{or(string(v.Next)), state, or(stagesOf(v)), or(volumeOf(v)), or(strings.Join(pods, ","))}
		if wide {
			row = append(row, or(v.Actor), or(joined(v.Calls, ",")), or(v.Pause), stampOr(v.Since), stampOr(v.DueAt))
		}
		rows = append(rows, row)
		waits = append(waits, kubeletText(v))
	}
	if err := table(b, header, rows, waits, opts); err != nil {
		return err
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

// kubeletText says who has to act, what ends the wait, and what the kubelet said; "" for a volume
// that is done.
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
	return strings.Join(texts(v.Stages, stageText), " or ")
}

func volumeOf(v kubelet.Volume) string {
	if len(v.Pods) > 0 {
		return cmp.Or(v.PersistentVolume, string(v.Volume), v.Pods[0].Name)
	}
	return cmp.Or(v.PersistentVolume, string(v.Volume))
}

// agoOr returns how long ago t was; "-" if t is nil.
func agoOr(now metav1.Time, t *metav1.Time) string {
	if t == nil {
		return "-"
	}
	return ago(now.Sub(t.Time))
}

func stampOr(t *metav1.Time) string {
	if t == nil {
		return "-"
	}
	return facts.Stamp(*t)
}
