package output

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/clipperhouse/displaywidth"
	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// heading writes the report's cluster, release and time, what was asked for and the scope. Each of the
// last two begins a line of its own if the terminal has no room for it on the line before.
func heading(b *strings.Builder, r *finding.Report, opts Options) {
	line := Safe(attributed(r, strings.Join(about(r), "  ")))
	for _, text := range said(Safe(askedFor(r)), wholeScope(r)) {
		if fitsBehind(line, text, opts) {
			line += "   " + text
			continue
		}
		written(b, line, opts)
		line = attributed(r, text)
	}
	written(b, line, opts)
}

// written writes the line as it is if the terminal has room for it or it is one long name.
func written(b *strings.Builder, line string, opts Options) {
	if text := wrap(line, opts.Width); len(text) > 1 {
		line = strings.Join(text, "\n")
	}
	fmt.Fprintln(b, line)
}

// askedFor names the namespace or the objects to which the report is narrowed; "" is the whole
// cluster.
func askedFor(r *finding.Report) string {
	if r.Scope.Of == "" {
		return ""
	}
	return "only " + visible(r.Scope.Of)
}

func fitsBehind(line, text string, opts Options) bool {
	return opts.Width == 0 || displaywidth.String(line)+3+displaywidth.String(text) <= opts.Width
}

// about returns the cluster, its release and the time of the report, as far as they are known.
func about(r *finding.Report) []string {
	return texts(said(place(r), r.KubernetesVersion, facts.Stamp(r.TakenAt)), visible)
}

// fewClusters is the largest number of clusters whose names are all printed on one line.
const fewClusters = 4

// place returns the shortest known name of the cluster, or the file; for more than fewClusters
// clusters, their number.
func place(r *finding.Report) string {
	if len(r.Sources) > 0 {
		if n := len(r.Sources); n > fewClusters {
			return fmt.Sprintf("%d clusters", n)
		}
		return strings.Join(texts(r.Sources, func(s snapshot.Source) string { return s.Context }), ", ")
	}
	return placeOf(r.Source)
}

func placeOf(s snapshot.Source) string { return cmp.Or(s.Context, s.Path, s.Server) }

// withAttached stands, after pods, for those of them with a volume that is attached to their node.
const withAttached snapshot.Kind = "with an attached volume"

// countOf counts n examined objects of the kind, for example "3 pods".
func countOf(n int, kind snapshot.Kind) string {
	return count(n, strings.TrimPrefix(strings.TrimSuffix(string(kind), "s"), "persistent"))
}

// wholeScope counts the checks and the objects that were examined. It is "" if the report does not
// record its scope.
func wholeScope(r *finding.Report) string {
	if r.Scope.Checks == 0 && len(r.Scope.Objects) == 0 {
		return ""
	}
	parts := append([]string{count(r.Scope.Checks, "check")}, counts(r, snapshot.Nodes, snapshot.Pods, withAttached, snapshot.Volumes)...)
	return visible(strings.Join(parts, ", ") + ": " + examinedState(r))
}

func examinedState(r *finding.Report) string {
	if examinedAll(r) {
		return "complete"
	}
	return "not complete, see below"
}

// counts returns how many objects of each kind were examined. If a list was not read in full,
// "read" follows the number. A kind without any object that was read is left out.
func counts(r *finding.Report, kinds ...snapshot.Kind) []string {
	var parts []string
	for _, kind := range kinds {
		if kind == withAttached {
			if n := r.Scope.PodsWithAttachedVolume; n != nil && r.Scope.Objects[snapshot.Pods] > 0 {
				parts[len(parts)-1] += fmt.Sprintf(" (%d %s)", *n, kind)
			}
			continue
		}
		n, known := r.Scope.Objects[kind]
		partly := slices.ContainsFunc(r.Gaps, func(g snapshot.Gap) bool { return g.Kind == kind || g.Kind == finding.Everything })
		switch {
		case !known || partly && n == 0:
		case partly:
			parts = append(parts, countOf(n, kind)+" read")
		default:
			parts = append(parts, countOf(n, kind))
		}
	}
	return parts
}

func examinedAll(r *finding.Report) bool { return r.Complete && len(r.SkippedChecks) == 0 }

// end writes the closing part of the report, after a blank line if there are findings.
func end(b *strings.Builder, r *finding.Report, opts Options) {
	var text strings.Builder
	closing(&text, r, everyCheck, opts)
	if text.Len() > 0 && len(r.Findings) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(text.String())
}

// closing writes the summary and what was not examined. If more than most checks were skipped
// because the same kind was not read, it prints how many they are in place of their codes.
func closing(b *strings.Builder, r *finding.Report, most int, opts Options) {
	lines := func(text string) { wrapped(b, "", text, opts) }
	if len(r.Findings) != 1 || r.SavedIn != "" { // a single finding needs no summary
		for _, line := range wrap(found(r), opts.Width) {
			fmt.Fprintln(b, paint(opts.Color && good(r) && r.SavedIn == "", line, color.FgGreen))
		}
	}
	lines(waitsUntold(r))
	for _, a := range r.Answers {
		lines(attributed(r, a.Message))
	}
	if len(r.Findings) > 0 {
		lines(leftOutText(r))
	}
	for _, text := range gapTexts(r) {
		lines("gap: " + text)
	}
	for _, text := range skippedTexts(r, most) {
		lines(text)
	}
	lines(rightsToAsk(r))
	lines(toSend(r.Gaps))
}

// good reports whether everything was examined and nothing was found, and no status is too old to
// show it.
func good(r *finding.Report) bool {
	return len(r.Findings) == 0 && examinedAll(r) && stuckUntold(r) == 0 && len(notKnown(r)) == 0
}

// notKnown says what the objects do not show: whether pods still run on nodes that are not heard of,
// and whether the detach from nodes that do not exist is late.
func notKnown(r *finding.Report) (clauses []string) {
	switch pods := r.Scope.PodsOnSilentNodes; len(pods) {
	case 0:
	case 1:
		clauses = append(clauses, fmt.Sprintf("whether pod %s still runs is not known, as nothing is heard of its node", pods[0]))
	default:
		clauses = append(clauses, fmt.Sprintf("whether %d pods still run is not known, as nothing is heard of their nodes: %s", len(pods), some(pods)))
	}
	if names := r.Scope.AttachedToNoNode; len(names) > 0 {
		clauses = append(clauses, fmt.Sprintf("whether a detach is late is not known, as the nodes of %s do not exist: see in 10 minutes whether they are still there: %s", count(len(names), "VolumeAttachment"), some(names)))
	}
	return clauses
}

// found sums up the report in one line.
func found(r *finding.Report) string { return attributed(r, foundThere(r)) }

func foundThere(r *finding.Report) string {
	if len(r.Findings) > 0 {
		return tally(r)
	}
	over := overWhat(r)
	if r.Scope.Of != "" {
		over = " with " + visible(r.Scope.Of) + over
	}
	switch {
	case good(r) && leftOut(r) != "":
		return fmt.Sprintf("Nothing else is wrong%s, complete; %s.", over, leftOutText(r))
	case good(r):
		return fmt.Sprintf("Nothing wrong%s, complete.", over)
	case examinedAll(r) && stuckUntold(r) == 0:
		return fmt.Sprintf("Nothing found%s, complete; %s.", over, strings.Join(said(visible(strings.Join(notKnown(r), "; ")), leftOutText(r)), "; "))
	case examinedAll(r): // pods are stuck, but no check that ran explains it
		return fmt.Sprintf("No finding of the checks that were asked for%s, and yet %s for longer than is usual.", over, waitFor(stuckUntold(r)))
	case nothingRead(r):
		return fmt.Sprintf("Not examined: %s; %s", mayNotList(r), roleToAsk)
	case len(r.Checks) == 0:
		return fmt.Sprintf("Not examined%s: no check could run.", over)
	default:
		return fmt.Sprintf("Nothing found in what could be read%s, not complete.", over)
	}
}

// tally counts the causes, the waiting pods and the findings. An info beside errors or warnings is no
// cause of them.
func tally(r *finding.Report) string {
	causes := r.Causes()
	if r.Summary.Error+r.Summary.Warning > 0 {
		causes = slices.DeleteFunc(causes, finding.SharedCause.Info)
	}
	text := count(len(causes), "cause") + inClusters(r)
	stuck := 0
	for _, w := range r.Waiting {
		if w.Verdict == finding.Stuck {
			stuck++
		}
	}
	switch {
	case stuck == 1:
		text += ", 1 pod is stuck"
	case stuck > 1:
		text += fmt.Sprintf(", %d pods are stuck", stuck)
	}
	text += fmt.Sprintf(": %s, %s", count(r.Summary.Error, "error"), count(r.Summary.Warning, "warning"))
	if r.Summary.Info > 0 {
		text += fmt.Sprintf(", %d info", r.Summary.Info)
	}
	return text
}

// overWhat describes the scope of a report without findings, because "nothing wrong" is true only
// of what was examined.
func overWhat(r *finding.Report) string {
	text := ""
	if r.Scope.Checks > 0 || len(r.Scope.Objects) > 0 {
		parts := counts(r, snapshot.Pods, withAttached, snapshot.Volumes, snapshot.Nodes)
		text = ": " + count(r.Scope.Checks, "check")
		if len(parts) > 0 {
			text += " over " + strings.Join(parts, ", ")
		}
	}
	if name := place(r); name != "" {
		text += " in " + name
	}
	return visible(text + " at " + facts.Stamp(r.TakenAt))
}

// leftOutText is what leftOut counts, as the end of a sentence; "" if there is nothing.
func leftOutText(r *finding.Report) string {
	if left := leftOut(r); left != "" {
		return "not shown: " + left
	}
	return ""
}

// leftOut counts the findings that are not shown, by the reason why.
func leftOut(r *finding.Report) string {
	var parts []string
	if r.Suppressed > 0 {
		by := ""
		if r.SuppressedBy != "" {
			by = " by " + visible(r.SuppressedBy)
		}
		parts = append(parts, fmt.Sprintf("%d suppressed%s", r.Suppressed, by))
	}
	if r.Known > 0 {
		parts = append(parts, fmt.Sprintf("%d already in the baseline", r.Known))
	}
	return strings.Join(parts, ", ")
}

// fewChecks is the largest number of skipped checks that are listed for one kind: about one line.
// everyCheck sets no limit.
const fewChecks, everyCheck = 8, math.MaxInt

// skippedTexts returns one line for each kind whose absence kept checks from running, in one
// cluster or in several. If more than most checks were skipped, the line only counts them.
func skippedTexts(r *finding.Report, most int) []string {
	return texts(r.SharedSkips(), func(s finding.SharedSkip) string {
		needs := string(s.Because)
		if len(s.Contexts) > 0 {
			needs += " in " + some(s.Contexts)
		}
		if len(s.Codes) > most {
			return fmt.Sprintf("%s skipped, missing %s (-o wide lists them)", count(len(s.Codes), "check"), needs)
		}
		return fmt.Sprintf("%s skipped, missing %s: %s", count(len(s.Codes), "check"), needs, joined(s.Codes, " "))
	})
}

// roleToAsk names the role that gives the missing read permissions.
const roleToAsk = "ask for ClusterRole " + repair.RolePrefix + "reader: kubectl volume-doctor auth -o yaml"

// mostMissing is the largest number of kinds that are put into one kubectl get command: more of
// them fill a line of a terminal.
const mostMissing = 5

// toSend returns the command that prints the lists a file lacks. If a list may be missing only
// because the cluster has no such object, toSend also names the flag that says so. It is "" if no
// list is missing.
func toSend(gaps []snapshot.Gap) string {
	var lacking, silent []string
	for _, g := range gaps {
		if g.Context != "" || g.Kind == snapshot.StorageList || !slices.Contains([]string{snapshot.ReasonNotInFile, snapshot.ReasonUndecodable, snapshot.ReasonTruncated}, g.Reason) {
			continue
		}
		lacking = append(lacking, string(g.Kind))
		if g.Detail == "" && g.Reason == snapshot.ReasonNotInFile {
			silent = append(silent, string(g.Kind))
		}
	}
	if len(lacking) == 0 {
		return ""
	}
	if len(distinct(lacking)) > mostMissing {
		return "what is missing: " + safetext.Kubectl("volume-doctor", "snapshot", "FILE") + " has all of it"
	}
	text := "what is missing: " + safetext.Kubectl("get", strings.Join(distinct(lacking), ","), "-A", "-o", "yaml")
	if len(silent) > 0 {
		text += "; if the cluster has none: --whole " + strings.Join(distinct(silent), ",")
	}
	return text
}

// rightsToAsk names the kinds that the user may not list, and the role that would permit it. It is
// "" if the first line of the report already says so.
func rightsToAsk(r *finding.Report) string {
	denied := mayNotList(r)
	if denied == "" || len(r.Findings) == 0 && nothingRead(r) {
		return ""
	}
	return denied + "; to read everything, " + roleToAsk
}

// nothingRead reports whether the right to list pods, nodes and volumes was missing, so that no
// finding was possible.
func nothingRead(r *finding.Report) bool {
	for _, kind := range []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Volumes} {
		denied := slices.ContainsFunc(r.Gaps, func(g snapshot.Gap) bool {
			return g.Kind == kind && g.Reason == snapshot.ReasonForbidden && g.Namespace == ""
		})
		if !denied || r.Scope.Objects[kind] > 0 {
			return false
		}
	}
	return true
}

// mayNotList names who may not list which kinds; "" if no right is missing.
func mayNotList(r *finding.Report) string {
	return denied(r.Gaps, r.Source.Path != "", len(r.Sources) == 0)
}

// RightsToAsk returns which kinds of the gaps the user may not list, and the role that would permit
// it; "" if no right is missing.
func RightsToAsk(gaps []snapshot.Gap, fromFile bool) string {
	text := denied(gaps, fromFile, true)
	if text == "" {
		return ""
	}
	return text + "; " + roleToAsk
}

// denied names who may not list which kinds. Pods come first, because every user knows them.
// The user's name comes from the API server's answer, so it is used only if the report is about
// one cluster.
func denied(gaps []snapshot.Gap, fromFile, oneCluster bool) string {
	who, kinds := "you", []string{}
	if fromFile {
		who = "whoever read the cluster"
	}
	for _, g := range gaps {
		if g.Reason != snapshot.ReasonForbidden {
			continue
		}
		if oneCluster {
			who = cmp.Or(safetext.Asker(g.Detail), who)
		}
		if kind := gapKind(g); g.Kind == snapshot.Pods {
			kinds = slices.Insert(kinds, 0, kind)
		} else if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	switch kinds = slices.Compact(kinds); {
	case len(kinds) == 0:
		return ""
	case len(kinds) <= 2:
		return fmt.Sprintf("%s may not list %s", who, strings.Join(kinds, " and "))
	default:
		return fmt.Sprintf("%s may not list %s (%d more)", who, kinds[0], len(kinds)-1)
	}
}

func detail(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}
