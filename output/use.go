package output

import (
	"fmt"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
)

// useWaits are the verdicts on a claim or a volume in words.
var useWaits = map[finding.WaitState]string{
	finding.NoWait: "nothing waits for it", finding.InFlight: "in flight", finding.Stuck: "stuck", finding.Unsure: "unknown",
}

// manyUsers is the largest number of pods, or of nodes, that the table lists before it counts the
// rest: a volume for many nodes may have thousands.
const manyUsers = 5

// printUseTable writes first whether anything waits, and then where the volume is.
func printUseTable(b *strings.Builder, u *trace.VolumeUse, opts Options) error {
	wrapped(b, "", u.Subject.Kind+" "+subjectName(u.Subject), opts)
	fmt.Fprintf(b, "verdict: %s\n", paintUse(u, opts))
	wrapped(b, "  ", u.Verdict.Message, opts)
	if u.Verdict.State != finding.NoWait {
		field(b, "since", sinceText(u.TakenAt, u.Verdict.Since), opts)
	}
	for _, f := range useFacts(u, manyUsers) {
		wrapped(b, fmt.Sprintf("  %-9s ", f.label), f.text, opts)
	}
	tellBriefs(b, u.Findings, u.TakenAt.Time, opts)
	closeTrace(b, opts, u.Source, u.Gaps, u.SkippedChecks)
	return nil
}

// paintUse returns the verdict.
func paintUse(u *trace.VolumeUse, opts Options) string {
	return paintVerdictAs(useWaits, u.Verdict.State, u, opts)
}

func subjectName(o finding.Object) string { return strings.TrimPrefix(o.Namespace+"/"+o.Name, "/") }

// printUseWide writes one row for each pod, each node and each finalizer.
func printUseWide(b *strings.Builder, u *trace.VolumeUse, opts Options) error {
	fmt.Fprintf(b, "%s %s: %s: %s\n", u.Subject.Kind, Safe(subjectName(u.Subject)), paintUse(u, opts), Safe(u.Verdict.Message))
	for _, f := range useFacts(u, 0) {
		if f.label == "claim" || f.label == "volume" || f.label == "note" || f.label == "not known" {
			fmt.Fprintf(b, "%s: %s\n", f.label, Safe(f.text))
		}
	}
	var pods, nodes, kept [][]string
	for _, p := range u.Pods {
		pods = append(pods, []string{Safe(p.Pod), or(string(p.Node)), string(p.State), agoOr(u.TakenAt, p.Since), Safe(p.Volume), string(p.Mounted), agoOr(u.TakenAt, p.MountedSince), or(stageText(p.Stage)), or(p.Actor)})
	}
	for _, n := range u.Nodes {
		said := texts(n.Said, func(words trace.Said) string { return words.By + ": " + words.Text })
		nodes = append(nodes, []string{Safe(string(n.Node)), or(n.Ready), string(n.State), agoOr(u.TakenAt, n.Since), or(n.VolumeAttachment), string(n.InVolumesAttached), string(n.InVolumesInUse), or(strings.Join(said, "; "))})
	}
	for _, k := range u.Kept {
		kept = append(kept, []string{Safe(k.Object.String()), Safe(k.Finalizer), string(k.Holds), Safe(k.By)})
	}
	for _, t := range []struct {
		header []string
		rows   [][]string
	}{
		{[]string{"POD", "NODE", "STATE", "SINCE", "VOLUME", "MOUNTED", "SINCE", "STAGE", "ON"}, pods},
		{[]string{"NODE", "READY", "STATE", "SINCE", "VOLUMEATTACHMENT", "VOLUMESATTACHED", "VOLUMESINUSE", "SAID"}, nodes},
		{[]string{"OBJECT", "FINALIZER", "HELD", "BY"}, kept},
	} {
		if len(t.rows) > 0 {
			b.WriteString("\n")
		}
		if err := table(b, t.header, t.rows, nil, opts); err != nil {
			return err
		}
	}
	tellBriefs(b, u.Findings, u.TakenAt.Time, opts)
	closeTrace(b, opts, u.Source, u.Gaps, u.SkippedChecks)
	return nil
}

// htmlUse makes the card of a claim or a volume.
func htmlUse(u *trace.VolumeUse, id string) g.Node {
	class := "info"
	switch u.Verdict.State {
	case finding.Stuck:
		class = "error"
	case finding.InFlight, finding.Unsure:
		class = "warning"
	default: // nothing waits
	}
	return h.Section(h.Class("card "+class), h.Aria("labelledby", id), htmlLines(
		h.H2(h.ID(id), htmlText(u.Subject.Kind+" "+subjectName(u.Subject))),
		h.P(htmlText(paintUse(u, Options{})+". "+u.Verdict.Message)),
		htmlTerms(useFacts(u, 100)),
	))
}
