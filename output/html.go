package output

import (
	"fmt"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output/html"
)

// htmlWhole is the largest number of findings that are each shown with their picture, proof and
// manual commands. In a longer report only the first finding of each code has these, so that the
// file of a report with a thousand findings can still be sent and searched.
const htmlWhole = 100

func newHTMLFrame(title, verdict string, good bool, about ...string) html.Frame {
	return html.Frame{Title: title, Verdict: verdict, Good: good, About: said(about...)}
}

func printHTML(b *strings.Builder, r *finding.Report, _ Options) error {
	docs, err := htmlDocs(r.Findings)
	if err != nil {
		return err
	}
	p := html.Report{Frame: newHTMLFrame("Volume report", verdict(r), good(r) && r.SavedIn == "", append(about(r), askedFor(r), wholeScope(r))...), Count: len(r.Findings), Docs: docs}
	brief := len(r.Findings) > htmlWhole
	if brief {
		p.Briefly = fmt.Sprintf("These are %d findings. The picture, the proof, the commands by hand and the time of the beginning stand with the first of each code, and so does a cause that is the same; -o json has them all.", len(r.Findings))
	}
	n, told := 0, map[finding.Code]string{} // the cause of the first finding of each code
	numbered := func(tree []finding.Finding) html.Finding {
		n++
		f := newHTMLFinding(r, tree, n)
		why, again := told[tree[0].Code]
		if !again {
			told[tree[0].Code] = f.Why
		}
		if brief && again {
			f.Picture, f.Evidence, f.Lower, f.ByHand, f.Since, f.Repair = nil, nil, nil, nil, "", ""
			if f.Why == why {
				f.Why = ""
			}
		}
		return f
	}
	for _, tree := range r.Roots() {
		g := html.Group{Cause: numbered(tree)}
		for _, f := range tree[1:] {
			g.Consequences = append(g.Consequences, numbered([]finding.Finding{f}))
		}
		g.Follows = followCount(len(g.Consequences))
		p.Groups = append(p.Groups, g)
	}
	p.Unread = texts(append(gapTexts(r), skippedTexts(r, everyCheck)...), visible)
	return p.Write(b)
}

func newHTMLFinding(r *finding.Report, tree []finding.Finding, n int) html.Finding {
	f, t := tree[0], tell(r, tree)
	h := html.Finding{
		ID: fmt.Sprintf("f%d", n), Class: severityClass(f.Severity),
		Severity: visible(string(f.Severity)), Code: visible(string(f.Code)), Check: visible(f.Check + suspected(f)),
		Subject: visible(f.Subject.String()), Page: pageOf(f.Code),
		What: visible(t.what + t.sums), First: visible(t.first), Who: visible(t.who), Why: visible(t.why), Said: visible(t.said), Wait: visible(t.wait), Dont: visible(t.dont),
		Since: sinceText(r.TakenAt, f.Since), Repair: visible(riskOf(f.Repair)), ByHand: texts(byHand(f), visible),
	}
	drawn, ok := draw(r, f)
	if !ok {
		drawn = drawSubject(f)
	}
	h.Picture = drawn.svg(h.ID)
	if _, known := checkOf(f.Code); known {
		h.Doc = string(f.Code)
	}
	for _, s := range t.do {
		h.Steps = append(h.Steps, html.Step{Text: visible(s.text), Command: visible(s.command)})
	}
	h.Hits = texts(t.hits, visible)
	for _, e := range f.Evidence {
		h.Evidence = append(h.Evidence, html.Evidence{Object: visible(e.Object), Field: visible(e.Field), Value: visible(e.Value)})
	}
	if f.Repair != nil {
		h.Lower = texts(f.Repair.Lower, func(lower finding.LowerRepair) string {
			if strings.Contains(t.wait+t.why, lower.Because) {
				lower.Because = "as above" // the reason is shown under "Wait?" or "Why"
			}
			return visible(lower.Kind + ": " + lower.Because)
		})
	}
	return h
}

func followCount(n int) string {
	if n == 1 {
		return "1 finding that follows from it"
	}
	return fmt.Sprintf("%d findings that follow from it", n)
}

// severityClass returns one of three CSS classes, even for an unknown severity in a report from
// elsewhere.
func severityClass(s finding.Severity) string {
	switch s {
	case finding.Error, finding.Warning:
		return string(s)
	default:
		return string(finding.Info)
	}
}

// verdict sums up the report in one line.
func verdict(r *finding.Report) string {
	text := visible(found(r))
	if waits := waitsUntold(r); waits != "" {
		text = strings.TrimSuffix(text, ".") + "; " + visible(waits) + "."
	}
	return text
}
