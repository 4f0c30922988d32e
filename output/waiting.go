package output

import (
	"fmt"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// waitsUntold counts the waiting pods that no finding has to name: those whose usual time is
// not over, those whose state is unknown and, if checks were left out, those that are stuck. It
// is "" if there are no such pods.
func waitsUntold(r *finding.Report) string {
	var parts []string
	inFlight, undated, unknown := 0, 0, 0
	var first finding.Waiting
	for _, w := range r.Waiting {
		switch w.Verdict {
		case finding.InFlight:
			inFlight++
			if w.DueAt != nil && (first.DueAt == nil || w.DueAt.Before(first.DueAt)) {
				first = w
			}
		case finding.Unsure:
			if w.Stage != "" && w.Since != nil {
				undated++ // it waits in that stage
			} else {
				unknown++
			}
		case finding.Stuck, finding.NoWait: // stuck: see stuckUntold; NoWait: has no entry here
		}
	}
	if inFlight > 0 {
		text := waitFor(inFlight) + ", no longer than is usual"
		if first.DueAt != nil {
			text += fmt.Sprintf("; %s counts as stuck from %s on", first.Pod, facts.Stamp(*first.DueAt))
		}
		parts = append(parts, text)
	}
	if n := stuckUntold(r); n > 0 && !examinedAll(r) {
		parts = append(parts, waitFor(n)+" for longer than is usual, and none of these checks says why")
	}
	if undated > 0 {
		parts = append(parts, waitFor(undated)+", and whether for longer than is usual is not known")
	}
	if unknown > 0 {
		parts = append(parts, fmt.Sprintf("whether %s is not known", waitFor(unknown)))
	}
	return strings.Join(parts, "; ")
}

// stuckUntold counts the stuck pods that no finding names, shown or hidden. There are some only if
// the user left checks out.
func stuckUntold(r *finding.Report) int {
	n := 0
	for _, w := range r.Waiting {
		if w.Verdict == finding.Stuck && len(w.Findings) == 0 && r.Known+r.Suppressed == 0 {
			n++
		}
	}
	return n
}

func waitFor(pods int) string { return podsWait(pods) + " for a volume" }

func podsWait(n int) string {
	if n == 1 {
		return "1 pod waits"
	}
	return fmt.Sprintf("%d pods wait", n)
}

// waitingRows returns one row for each waiting pod.
func waitingRows(r *finding.Report) [][]string {
	var rows [][]string
	for _, w := range r.Waiting {
		rows = append(rows, []string{Safe(w.Pod), or(w.Node), Safe(string(w.Verdict)), or(w.Volume), or(w.Stage), or(w.Actor), agoOr(r.TakenAt, w.Since), stampOr(w.DueAt)})
	}
	return rows
}
