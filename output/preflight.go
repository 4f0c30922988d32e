package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
)

// PreflightFormats print a preflight.
var PreflightFormats = formats[*preflight.Preflight]{
	{"table", func(b *strings.Builder, p *preflight.Preflight, o Options) error {
		return printPreflight(b, p, o, false)
	}},
	{"wide", func(b *strings.Builder, p *preflight.Preflight, o Options) error {
		return printPreflight(b, p, o, true)
	}},
	{"json", printJSON[*preflight.Preflight]},
	{"yaml", printYAML[*preflight.Preflight]},
	{"name", printPreflightNames},
	{"html", printPreflightHTML},
}

func printPreflight(b *strings.Builder, p *preflight.Preflight, opts Options, wide bool) error {
	preflightVerdict(b, p, opts)
	if waits := waitingNow(p); waits != "" {
		fmt.Fprintln(b)
		hanging(b, waits, "", opts)
	}
	for _, s := range scenarios(p) {
		fmt.Fprintln(b)
		hanging(b, s.title+":", "", opts)
		if none := noneWaits(p, s.scenario); none != "" {
			fmt.Fprintf(b, "  %s\n", none)
		}
		if err := scenario(b, s.scenario, opts, wide); err != nil {
			return err
		}
	}
	for _, c := range p.Controllers {
		fmt.Fprintln(b)
		hanging(b, controllerText(c), "", opts)
	}
	if len(p.Deletes) > 0 {
		fmt.Fprintln(b)
		hanging(b, deletesText(p), "", opts)
		for _, d := range p.Deletes {
			fmt.Fprintf(b, "  %s\n", Safe(d.Keep))
		}
	}
	if len(p.Stranded) > 0 {
		fmt.Fprintln(b)
		hanging(b, "Would not come back, having no controller: "+strings.Join(p.Stranded, ", "), "", opts)
	}
	listed(b, "Room on the other nodes", p.Room, roomText, opts)
	listed(b, "Findings on the node now", briefsAlike(p), func(alike []finding.Brief) string {
		text := fmt.Sprintf("%s %s %s: %s", alike[0].Severity, alike[0].Code, alike[0].Check, alike[0].Line())
		if len(alike) > 1 {
			text += fmt.Sprintf("; and %d more like it (-o json lists them)", len(alike)-1)
		}
		return text
	}, opts)
	if wide {
		b.WriteString("\nTimers:\n")
		for _, t := range p.Timers {
			fmt.Fprintf(b, "  %s: %s (%s)\n", t.Name, t.Value, Safe(t.Because))
		}
	}
	if len(p.NotExamined) > 0 {
		fmt.Fprintln(b)
		hanging(b, "Not examined: "+strings.Join(p.NotExamined, ", "), "", opts)
	}
	closeTrace(b, opts, p.Source, p.Gaps, nil)
	return nil
}

// briefsAlike groups the findings of one check and severity.
func briefsAlike(p *preflight.Preflight) [][]finding.Brief {
	return finding.Alike(p.Findings, func(f finding.Brief) string { return string(f.Code) + string(f.Severity) })
}

// scenarioTitle is a scenario with its title.
type scenarioTitle struct {
	id, title string
	scenario  preflight.Scenario
}

// scenarios returns the two scenarios: the drain and the loss of the node.
func scenarios(p *preflight.Preflight) []scenarioTitle {
	loss := "If node %s were lost now"
	if p.Lost {
		loss = "If node %s stays lost"
	}
	return []scenarioTitle{
		{"drain", fmt.Sprintf("If node %s were drained now", p.Node), p.Drain},
		{"loss", fmt.Sprintf(loss, p.Node), p.Loss},
	}
}

// waitingNow describes the pods that already wait because of the node; "" if there are none.
func waitingNow(p *preflight.Preflight) string {
	if len(p.Waiting) == 0 {
		return ""
	}
	text := fmt.Sprintf("Waiting already because of node %s: %s", p.Node, count(len(p.Waiting), "pod"))
	if first := finding.LongestWait(p.Waiting); first.Since != nil {
		text += ", the first for " + ago(p.TakenAt.Sub(first.Since.Time))
	}
	return text + ": " + some(distinct(texts(p.Waiting, func(w finding.Waiting) string { return w.Pod })))
}

// noneWaits is the sentence for a scenario in which no pod waits. It is "" if a volume hangs
// nevertheless, because that has its own line.
func noneWaits(p *preflight.Preflight, s preflight.Scenario) string {
	switch {
	case len(s.Waits)+len(s.Hangs) > 0:
		return ""
	case len(p.Missing) > 0:
		return "whether a pod would wait for a volume is not known"
	case len(p.Waiting) > 0:
		return "no other pod would wait for a volume"
	case stuckAlready(p):
		return "beyond the findings below, no pod would wait for a volume"
	default:
		return "no pod would wait for a volume"
	}
}

// stuckAlready reports whether a pod waits because of the node now, or a finding on the node is about one.
func stuckAlready(p *preflight.Preflight) bool {
	return len(p.Waiting) > 0 || slices.ContainsFunc(p.Findings, func(f finding.Brief) bool { return len(f.Whole.Pods) > 0 })
}

func preflightVerdict(b *strings.Builder, p *preflight.Preflight, opts Options) {
	ready := "Ready"
	switch {
	case p.Ready == nil:
		ready = "not read"
	case !*p.Ready:
		ready = "not Ready"
	}
	wrapped(b, "", fmt.Sprintf("Node %s (%s)", p.Node, ready), opts)
	verdict, why := preflightAnswer(p)
	colors := []color.Attribute{color.FgRed, color.Bold}
	switch {
	case len(p.Missing) > 0:
		colors = []color.Attribute{color.FgYellow, color.Bold}
	case !p.Hangs() && (p.Stays() || stuckAlready(p)) && len(p.Deletes) == 0:
		colors = []color.Attribute{color.FgYellow}
	case !p.Hangs() && len(p.Deletes) == 0:
		colors = []color.Attribute{color.FgGreen}
	}
	fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, verdict, colors...))
	if why != "" {
		hanging(b, why, "  ", opts)
	}
}

// controllerText says what becomes of a driver whose only attacher runs on the node.
func controllerText(c preflight.Controller) string {
	if c.Perhaps {
		return fmt.Sprintf("Pod %s, which runs on the node, may be the only attacher of %s: no lease shows it. If it is that, then once it is gone, %s", c.Pod, c.Driver, c.Away)
	}
	return fmt.Sprintf("The only attacher of %s, pod %s, runs on the node. Once it is gone, %s", c.Driver, c.Pod, c.Away)
}

// preflightAnswer returns the verdict and the reason for it; the reason is "" if the verdict needs
// none.
func preflightAnswer(p *preflight.Preflight) (verdict, why string) {
	switch {
	case len(p.Missing) > 0:
		return "unknown", "not all of these could be read: " + joined(p.Missing, ", ")
	case p.Hangs():
		var why []string
		drain, loss := p.Drain.HangingVolumes(), p.Loss.HangingVolumes()
		switch {
		case drain > 0 && loss > 0:
			why = append(why, fmt.Sprintf("%s on a drain, %d on a loss", count(drain, "volume"), loss))
		case drain > 0:
			why = append(why, count(drain, "volume")+" on a drain")
		case loss > 0:
			why = append(why, count(loss, "volume")+" on a loss")
		}
		if staying := p.Loss.Staying(); staying > 0 {
			why = append(why, fmt.Sprintf("on a loss %s would come back only by hand", count(staying, "pod")))
		}
		lacking := 0
		for _, r := range p.Room {
			lacking += r.Lacking
		}
		if lacking > 0 {
			why = append(why, count(lacking, "volume")+" would find no room")
		}
		if lacking == 0 && p.Perhaps() {
			return "something may hang", strings.Join(why, "; ")
		}
		return "something would hang", strings.Join(why, "; ")
	case len(p.Deletes) > 0:
		return "data would be deleted", count(len(p.Deletes), "disk") + " on a drain"
	case p.Stays():
		return "not every pod would come back by itself", fmt.Sprintf("%s on a drain, %d on a loss", count(p.Drain.Staying(), "pod"), p.Loss.Staying())
	case stuckAlready(p):
		return "nothing more would hang than hangs already", ""
	default:
		return "nothing would hang beyond what the timers say", ""
	}
}

// deletesText is the sentence above the commands that keep the disks that would be deleted.
func deletesText(p *preflight.Preflight) string {
	names := texts(p.Deletes, func(d preflight.Deletion) string { return d.PersistentVolume })
	return fmt.Sprintf("Would be deleted once its pods have ended, as its claim goes by then: the disk of %s; to keep it:", strings.Join(names, " and that of "))
}

// scenario writes one row for all pods that wait for the same reason, or, with wide, one row for
// each pod and volume.
func scenario(b *strings.Builder, s preflight.Scenario, opts Options, wide bool) error {
	groups := grouped(s)
	if wide {
		groups = groups[:0]
		for _, w := range s.Waits {
			groups = append(groups, []preflight.Wait{w})
		}
	}
	header := []string{"PODS", "WAIT FOR", "AT MOST", "WHICH"}
	if wide {
		header = []string{"POD", "CONTROLLER", "VOLUME", "WAITS FOR", "AT MOST", "NOTE"}
	}
	var rows [][]string
	var reasons []string
	for _, waits := range groups {
		w := waits[0]
		most := Safe(longest(s, w))
		if w.Never {
			most = paint(opts.Color, most, color.FgYellow)
		}
		if wide {
			rows = append(rows, []string{Safe(w.Pod), or(w.Controller), Safe(w.PersistentVolume), Safe(string(w.For)), most, Safe(w.Because)})
			continue
		}
		pods := distinct(texts(waits, func(w preflight.Wait) string { return w.Pod }))
		rows = append(rows, []string{fmt.Sprint(len(pods)), Safe(string(w.For)), most, Safe(some(pods))})
		reason := w.Because
		if h := s.HangOf(w); h != nil && (!w.Never || h.Because == w.Because) {
			reason = "" // the hang says it
		}
		reasons = append(reasons, reason)
	}
	if err := table(b, header, rows, reasons, opts); err != nil {
		return err
	}
	for _, hangs := range finding.Alike(s.Hangs, func(h preflight.Hang) string { return h.Because }) {
		var line strings.Builder
		label := hangLabel(&hangs[0]) + ":"
		hanging(&line, label+" "+hangText(hangs, wide)+": "+hangs[0].Because, "", opts)
		// colored only now, because wrapping would show the escape sequence as text
		b.WriteString(strings.Replace(line.String(), label, paint(opts.Color, label, color.FgRed, color.Bold), 1))
	}
	return nil
}

// grouped puts waits into one group if they differ only in the pod and the volume. The groups are
// in the order of their first waits.
func grouped(s preflight.Scenario) [][]preflight.Wait {
	return finding.Alike(s.Waits, func(w preflight.Wait) string {
		return strings.Join([]string{string(w.For), longest(s, w), w.Because}, "\x00")
	})
}

// hangText names the volumes that hang, and the pods that use them.
func hangText(hangs []preflight.Hang, wide bool) string {
	var volumes, pods []string
	for _, h := range hangs {
		volumes = append(volumes, cmp.Or(h.PersistentVolume, string(h.Volume)))
		pods = append(pods, h.Pods...)
	}
	list := some
	if wide {
		list = func(names []string) string { return strings.Join(names, ", ") }
	}
	text := list(distinct(volumes))
	if n := len(distinct(volumes)); n > 1 {
		text = fmt.Sprintf("%d volumes, %s", n, text)
	}
	if len(pods) > 0 {
		text += " (" + list(distinct(pods)) + ")"
	}
	return text
}

func hangLabel(h *preflight.Hang) string {
	if h.Perhaps {
		return "may hang"
	}
	return "hangs"
}

// longest is how long the wait takes at most, or why nothing bounds it.
func longest(s preflight.Scenario, w preflight.Wait) string {
	hang := s.HangOf(w)
	switch {
	case w.Never:
		return "never by itself"
	case hang != nil:
		return hangLabel(hang)
	case w.AtMost == "" && w.For != preflight.WaitsForNothing:
		return "not known"
	default:
		return cmp.Or(w.AtMost, "-")
	}
}

func roomText(r preflight.Room) string {
	text := fmt.Sprintf("%s: %s would move", r.Driver, count(r.Moving, "volume"))
	switch {
	case r.Unlimited:
		text += "; some nodes name no limit"
	case r.Free == 0 && r.Lacking == 0: // they hang for want of a node
		text += "; the other nodes can take none"
	default:
		text += fmt.Sprintf("; there is room for %d", r.Free)
	}
	if r.Lacking > 0 {
		text += fmt.Sprintf("; %d would find no node with room: %s", r.Lacking, strings.Join(r.Pods, ", "))
	}
	return text
}

// printPreflightNames writes the names of the pods that would wait or would not come back.
func printPreflightNames(b *strings.Builder, p *preflight.Preflight, _ Options) error {
	var names []string
	for _, wait := range slices.Concat(p.Drain.Waits, p.Loss.Waits) {
		if wait.For != preflight.WaitsForNothing && wait.For != preflight.WaitsForUnknown {
			names = append(names, podLine(wait.Pod))
		}
	}
	for _, pod := range p.Stranded {
		names = append(names, podLine(pod))
	}
	slices.Sort(names)
	return printLines(b, slices.Compact(names))
}

// podLine returns pod/NAME without the namespace, as the other commands print it.
func podLine(name string) string {
	_, pod, _ := strings.Cut(name, "/")
	return "pod/" + pod
}
