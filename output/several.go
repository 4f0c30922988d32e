package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// tellShared tells the first, worst tree of the cause, with the number of clusters and waiting pods
// over all of them.
func tellShared(r *finding.Report, c finding.SharedCause) telling {
	t := tell(r, c.Trees[0])
	if len(c.Contexts) == 0 {
		return t
	}
	in := c.Trees[0][0].Context
	t.what = attributed(r, strings.TrimPrefix(strings.TrimPrefix(t.what, attributed(r, "")), finding.InContext(in, "")))
	t.where = append([]string{in}, slices.DeleteFunc(slices.Clone(c.Contexts), func(s string) bool { return s == in })...)
	follow := c.Trees[0][:1:1]
	for _, tree := range c.Trees {
		follow = append(follow, tree[1:]...)
	}
	t.also = also(follow)
	t.sums = "; in " + count(len(c.Contexts), "cluster")
	t.who = "" // names pods of one cluster only
	if waiting := r.WaitingFor(c.Findings()); len(waiting) > 0 {
		t.sums += ", " + podsWait(len(waiting))
		t.who = "first " + longestWait(r, waiting)
	}
	return t
}

// someClusters names the first cluster, which the text is about, and as many of the others as fit
// into limit columns; 0 is no limit.
func someClusters(contexts []string, limit int) string {
	others := contexts[1:]
	text := fmt.Sprintf("%s, and %s", contexts[0], count(len(others), "other cluster"))
	for n := len(others); n > 0; n-- {
		more := text + ": " + strings.Join(others[:n], ", ")
		if left := len(others) - n; left > 0 {
			more += fmt.Sprintf(" and %d more", left)
		}
		if more = Safe(more); fitsIn(more, limit, 1) {
			return more
		}
	}
	return Safe(text)
}

// inClusters says in how many of several clusters something is wrong; "" for a report on one
// cluster.
func inClusters(r *finding.Report) string {
	if len(r.Sources) == 0 {
		return ""
	}
	return fmt.Sprintf(" in %d of %s", r.Affected(), count(len(r.Sources), "cluster"))
}

// askedOnce returns the gap without the API server's refusal: the last line says who may not list
// it.
func askedOnce(g snapshot.Gap) snapshot.Gap {
	if g.Reason == snapshot.ReasonForbidden && g.Context == "" && safetext.Asker(g.Detail) != "" {
		g.Detail = ""
	}
	return g
}

func eachAskedOnce(gaps []snapshot.Gap) []snapshot.Gap {
	gaps = slices.Clone(gaps)
	for i := range gaps {
		gaps[i] = askedOnce(gaps[i])
	}
	return gaps
}

// gapTexts returns one sentence for each reason of gaps. A gap that several clusters share names them all if
// the clusters could not be read at all, and only a few if a single kind could not be read.
func gapTexts(r *finding.Report) []string {
	var all []snapshot.Gap
	for _, gaps := range r.SharedGaps() {
		g := askedOnce(gaps[0])
		if len(gaps) > 1 && g.Context != "" {
			contexts := texts(gaps, func(g snapshot.Gap) string { return g.Context })
			g.Context = some(distinct(contexts))
			if g.Kind == finding.Everything {
				g.Context = strings.Join(contexts, ", ")
			}
			if g.Detail != "" {
				g.Detail = "in " + gaps[0].Context + ": " + g.Detail
			}
		}
		all = append(all, g)
	}
	return gapsTogether(all...)
}

// gapsTogether returns a sentence for each gap, and one for those of all kinds whose lists are of the
// same other time.
func gapsTogether(gaps ...snapshot.Gap) []string {
	alike := finding.Alike(gaps, func(g snapshot.Gap) string {
		if g.Reason == snapshot.ReasonOtherTime {
			g.Kind = ""
		}
		return fmt.Sprintf("%q", []string{g.Context, g.Namespace, string(g.Kind), g.Reason, g.Detail})
	})
	return texts(alike, func(gaps []snapshot.Gap) string {
		g := gaps[0]
		g.Kind = snapshot.Kind(strings.Join(texts(gaps, func(g snapshot.Gap) string { return string(g.Kind) }), ", "))
		return gapText(g)
	})
}
