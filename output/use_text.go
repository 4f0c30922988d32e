package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// useFacts returns the facts to show, each with its label. If one label has several texts, only the
// first carries the label.
func useFacts(u *trace.VolumeUse, most int) []fact {
	var facts []fact
	add := func(label string, texts ...string) {
		for i, text := range texts {
			if i > 0 {
				label = ""
			}
			facts = append(facts, fact{label, text})
		}
	}
	if c := u.Claim; c != nil {
		add("claim", claimText(u, c))
	}
	if v := u.PersistentVolume; v != nil {
		add("volume", volumeText(u, v))
	}
	add("used by", podsUsing(u, most)...)
	add("attached", nodesHaving(u, most)...)
	if text := keptText(u); text != "" {
		add("held", text)
	}
	add("note", u.Notes...)
	for _, n := range u.NotKnown {
		add("not known", fmt.Sprintf("%s: not all %s could be read", n.What, n.Because))
	}
	return facts
}

func claimText(u *trace.VolumeUse, c *trace.UsedClaim) string {
	parts := []string{c.Phase}
	if c.Namespace != u.Subject.Namespace || c.Name != u.Subject.Name {
		parts[0] = c.Namespace + "/" + c.Name + ": " + c.Phase
	}
	if c.VolumeName != "" && u.PersistentVolume == nil {
		parts[0] += " to " + c.VolumeName
	}
	parts = append(parts, terminating(u, c.TerminatingSince), sizeText(c.Capacity, c.Requested), strings.Join(c.AccessModes, " and "), classText(c.StorageClass), modeText(c.VolumeMode))
	if s := c.Binding; s != nil {
		parts = append(parts, s.Detail)
	}
	return strings.Join(said(parts...), ", ")
}

func volumeText(u *trace.VolumeUse, v *trace.UsedVolume) string {
	parts := []string{v.Phase}
	if v.Name != u.Subject.Name {
		parts[0] = v.Name + ": " + v.Phase
	}
	if u.Claim == nil {
		if of := " to "; v.Claim != "" {
			if v.Phase == "Released" || v.Phase == "Failed" {
				of = ", earlier of "
			}
			parts[0] += of + v.Claim
		}
		parts = append(parts, v.Capacity, strings.Join(v.AccessModes, " and "), classText(v.StorageClass), modeText(v.VolumeMode))
	}
	parts = append(parts, terminating(u, v.TerminatingSince), strings.TrimSpace(v.Driver+" "+v.Handle))
	if v.ReclaimPolicy != "" {
		parts = append(parts, "reclaim policy "+v.ReclaimPolicy)
	}
	return strings.Join(said(parts...), ", ")
}

func terminating(u *trace.VolumeUse, since *metav1.Time) string {
	if since == nil {
		return ""
	}
	return "Terminating since " + sinceText(u.TakenAt, since)
}

func sizeText(has, asked string) string {
	if has == "" {
		return asked
	}
	return has
}

func classText(class string) string {
	if class == "" {
		return ""
	}
	return "class " + class
}

// modeText names the volume mode unless it is Filesystem, the usual one.
func modeText(mode string) string {
	if mode == "Filesystem" {
		return ""
	}
	return "volumeMode " + mode
}

// podsUsing returns one text for each pod, waiting pods first, and counts the pods beyond most. In
// the table, pods in the same state share one text if they are many, or if each would take several
// lines.
func podsUsing(u *trace.VolumeUse, most int) []string {
	pods := slices.Clone(u.Pods)
	order := []trace.PodState{trace.PodWaits, trace.PodEnding, trace.PodStarting, trace.PodUnheard, trace.PodRuns, trace.PodEnded}
	slices.SortStableFunc(pods, func(a, b trace.UsingPod) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State)), cmp.Compare(a.Mounted, b.Mounted))
	})
	var lines []string
	for rest := pods; len(rest) > 0; {
		alike := slices.IndexFunc(rest, func(p trace.UsingPod) bool { return p.State != rest[0].State || p.Mounted != rest[0].Mounted })
		if alike < 0 {
			alike = len(rest)
		}
		switch {
		case most == manyUsers && rest[0].State != trace.PodWaits && (alike > fewAlike || alike > 1 && len(podUsing(u, rest[0])) > aLine):
			// only the table is short of room
			lines, rest = append(lines, podsAlike(u, rest[:alike])), rest[alike:]
		case len(lines) >= most && most > 0 && len(rest) > 1:
			return append(lines, fmt.Sprintf("and %s more (-o wide lists them)", count(len(rest), "pod")))
		default:
			lines, rest = append(lines, podUsing(u, rest[0])), rest[1:]
		}
	}
	if unread := slices.ContainsFunc(u.NotKnown, func(n trace.NotKnown) bool { return n.Because == "pods" }); len(pods) == 0 && !unread && u.Claim != nil {
		return []string{"no pod"}
	}
	return lines
}

// fewAlike is the largest number of pods in the same state that have one line each. aLine is the
// number of characters that fit into such a line.
const (
	fewAlike = 3
	aLine    = 66
)

// inALine names as many of the names as fit into a line, and counts the rest.
func inALine(names []string, noun string) string {
	n := 1
	for length := len(names[0]); n < len(names); n++ {
		if length += len(", ") + len(names[n]); length > aLine {
			break
		}
	}
	if n == len(names) {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s (-o wide lists them)", strings.Join(names[:n], ", "), count(len(names)-n, "more "+noun))
}

// podsAlike returns one text for several pods in the same state. They share one namespace.
func podsAlike(u *trace.VolumeUse, pods []trace.UsingPod) string {
	names := texts(pods, func(p trace.UsingPod) string { return strings.TrimPrefix(p.Pod, u.Subject.Namespace+"/") })
	first := earliest(pods, func(p trace.UsingPod) *metav1.Time { return p.Since })
	text := inALine(names, "pod") + " " + map[trace.PodState]string{
		trace.PodRuns: "run", trace.PodStarting: "start", trace.PodEnding: "are Terminating", trace.PodEnded: "have ended", trace.PodUnheard: "ran when they were last reported",
	}[pods[0].State]
	if first != nil {
		text += ", the first since " + sinceText(u.TakenAt, first)
	}
	if pods[0].State == trace.PodEnded {
		return text
	}
	return text + map[trace.Answer]string{trace.Yes: "; mounted", trace.No: "; not mounted", trace.Unknown: "; whether they are mounted no object tells"}[pods[0].Mounted]
}

func podUsing(u *trace.VolumeUse, p trace.UsingPod) string {
	if p.State == trace.PodUnheard {
		because := "as nothing is heard of the node"
		if p.Since == nil && slices.ContainsFunc(u.Gaps, func(g snapshot.Gap) bool { return g.Kind == snapshot.Nodes }) {
			because = "as not all nodes could be read"
		}
		return fmt.Sprintf("%s on %s: whether it still runs is not known, %s", p.Pod, p.Node, because)
	}
	together := p.Mounted == trace.Yes && p.State == trace.PodRuns && (p.MountedSince == nil || p.Since != nil && p.MountedSince.Equal(p.Since))
	text := p.Pod + " " + podStateText(p.State)
	if together {
		text = p.Pod + ": mounted"
	}
	if p.Node != "" {
		text += " on " + string(p.Node)
	}
	if p.Since != nil {
		text += " since " + sinceText(u.TakenAt, p.Since)
	}
	switch {
	case together || p.State == trace.PodEnded:
	case p.State == trace.PodWaits:
		if p.Stage != "" {
			text += fmt.Sprintf(", stage %q", stageText(p.Stage))
		}
		if p.Actor != "" {
			text += ", on " + p.Actor
		}
	case p.Mounted == trace.Yes && p.MountedSince != nil:
		text += "; mounted since " + sinceText(u.TakenAt, p.MountedSince)
	case p.Mounted == trace.Yes:
		text += "; mounted"
	case p.Mounted == trace.No:
		text += "; not mounted"
	default:
		text += "; whether it is mounted no object tells"
	}
	return text
}

func podStateText(s trace.PodState) string {
	return map[trace.PodState]string{
		trace.PodRuns: "runs", trace.PodWaits: "waits", trace.PodStarting: "starts", trace.PodEnding: "is Terminating", trace.PodEnded: "has ended",
	}[s]
}

// nodesHaving returns one text for each node.
func nodesHaving(u *trace.VolumeUse, most int) []string {
	v := u.PersistentVolume
	if v == nil {
		return nil
	}
	if len(u.Nodes) == 0 {
		unread := slices.ContainsFunc(u.NotKnown, func(n trace.NotKnown) bool { return n.Because != "pods" && n.Because != "persistentvolumeclaims" })
		switch {
		case v.Attachable == trace.No:
			return []string{"not needed: its plugin attaches nothing"}
		case unread:
			return nil
		default:
			return []string{"to no node"}
		}
	}
	if text := nodesAlike(u); text != "" && most == manyUsers { // only the table is short of room
		return []string{text}
	}
	var lines []string
	for i, n := range u.Nodes {
		if i == most && len(u.Nodes) > most+1 {
			return append(lines, fmt.Sprintf("and %s more (-o wide lists them)", count(len(u.Nodes)-most, "node")))
		}
		lines = append(lines, nodeHaving(u, n))
	}
	return lines
}

// nodesAlike returns one text for all nodes if each of them has the volume as it should; else "".
func nodesAlike(u *trace.VolumeUse) string {
	for _, n := range u.Nodes {
		if n.State != trace.NodeHas || n.InVolumesAttached != trace.Yes || n.InVolumesInUse != trace.Yes || n.Ready != "True" || n.Since == nil || len(n.Said) > 0 {
			return ""
		}
	}
	if len(u.Nodes) < 2 {
		return ""
	}
	names := texts(u.Nodes, func(n trace.HavingNode) string { return string(n.Node) })
	first := earliest(u.Nodes, func(n trace.HavingNode) *metav1.Time { return n.Since })
	return fmt.Sprintf("%s, the first since %s, in volumesAttached and volumesInUse", inALine(names, "node"), sinceText(u.TakenAt, first))
}

// earliest is the first of the known times in the list; nil where none is known.
func earliest[T any](list []T, since func(T) *metav1.Time) (first *metav1.Time) {
	for _, e := range list {
		if at := since(e); first == nil || at != nil && at.Before(first) {
			first = at
		}
	}
	return first
}

func nodeHaving(u *trace.VolumeUse, n trace.HavingNode) string {
	text := string(n.Node)
	switch n.State {
	case trace.NodeHas:
		text += " since " + cmp.Or(sinceText(u.TakenAt, n.Since), "a time that no object tells")
	case trace.NodeReports:
		text += " reports it, and no VolumeAttachment of it was read"
	default:
		text += ": " + string(n.State) + " since " + sinceText(u.TakenAt, n.Since)
	}
	if n.Ready != "" && n.Ready != "True" {
		text += ", the node is " + map[bool]string{true: "gone", false: "not Ready (" + n.Ready + ")"}[n.Ready == "gone"]
	}
	if n.Ready != "gone" {
		text += ", " + inLists(n)
	}
	if n.VolumeAttachment != "" {
		text += ", VolumeAttachment " + n.VolumeAttachment
	}
	for _, s := range n.Said {
		text += fmt.Sprintf("; said: %q", s.Text)
	}
	return text
}

// inLists says which lists of the node's status contain the volume.
func inLists(n trace.HavingNode) string {
	switch {
	case n.InVolumesAttached == trace.Unknown:
		return "the node was not read"
	case n.InVolumesAttached == trace.Yes && n.InVolumesInUse == trace.Yes:
		return "in volumesAttached and volumesInUse"
	case n.InVolumesAttached == trace.Yes:
		return "in volumesAttached, not in volumesInUse"
	case n.InVolumesInUse == trace.Yes:
		return "in volumesInUse, not in volumesAttached"
	default:
		return "in neither volumesAttached nor volumesInUse"
	}
}

// keptText says what keeps the claim and what keeps the volume from being removed. It shows the
// name of a finalizer only if no component of Kubernetes removes it; -o wide shows all.
func keptText(u *trace.VolumeUse) string {
	var parts []string
	for _, kind := range []string{"PersistentVolumeClaim", "PersistentVolume"} {
		var holds []string
		for _, k := range u.Kept {
			switch {
			case k.Object.Kind != kind || k.Holds == trace.No:
			case strings.HasPrefix(k.By, "VolumeAttachment ") && len(u.Nodes) > 0: // the node is named above
				holds = append(holds, "its attachment")
			case k.Holds == trace.Unknown:
				holds = append(holds, k.By)
			case strings.HasPrefix(k.By, "whoever "):
				holds = append(holds, "finalizer "+k.Finalizer)
			default:
				holds = append(holds, k.By)
			}
		}
		if len(holds) > 0 {
			what := "claim by "
			if kind == "PersistentVolume" {
				what = "volume by "
			}
			parts = append(parts, what+strings.Join(holds, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
