package output

import (
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

var (
	//go:embed html/report.tmpl
	pageTemplate string
	//go:embed html/report.css
	pageStyle string
	//go:embed html/report.js
	pageScript string

	page = template.Must(template.New("report").Parse(pageTemplate))
)

type htmlPage struct {
	Policy  string
	CSS     template.CSS
	JS      template.JS
	Verdict string
	Good    bool
	About   []string
	Groups  []htmlGroup
	Gaps    []string
	Skipped []string
}

// htmlGroup is a cause with what follows from it.
type htmlGroup struct {
	Cause        htmlFinding
	Consequences []htmlFinding
	Follows      string
}

type htmlFinding struct {
	ID, Class                            string
	Severity, Code, Check, Subject, Page string
	Message, Since, Cause, Heals, Advice string
	Repair, Refused                      string
	Evidence                             []diagnose.Evidence
	Commands                             []htmlCommand
	Picture                              *svg
}

type htmlCommand struct {
	Number string
	Text   string
}

// printHTML is one file that asks for nothing else: no script, font, style or
// picture from elsewhere, and a policy that would not let it.
func printHTML(w io.Writer, r *diagnose.Report, _ Options) error {
	p := htmlPage{
		Policy: fmt.Sprintf("default-src 'none'; img-src data:; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'",
			hashSource(pageStyle), hashSource(pageScript)),
		CSS: template.CSS(pageStyle), JS: template.JS(pageScript), // both are files of this package
		Verdict: verdict(r), Good: len(r.Findings) == 0 && r.Complete && len(r.SkippedChecks) == 0,
		About: about(r),
	}
	n := 0
	finding := func(f diagnose.Finding) htmlFinding {
		n++
		return newHTMLFinding(r, f, n)
	}
	for _, group := range r.Roots() {
		g := htmlGroup{Cause: finding(group[0])}
		for _, f := range group[1:] {
			g.Consequences = append(g.Consequences, finding(f))
		}
		g.Follows = followCount(len(g.Consequences))
		p.Groups = append(p.Groups, g)
	}
	for _, gap := range r.Gaps {
		p.Gaps = append(p.Gaps, visible(gapText(gap)))
	}
	for _, c := range r.SkippedChecks {
		p.Skipped = append(p.Skipped, visible(fmt.Sprintf("%s %s was not run: %s could not be read", c.Code, c.Check, c.Because)))
	}
	return page.Execute(w, p)
}

func newHTMLFinding(r *diagnose.Report, f diagnose.Finding, n int) htmlFinding {
	h := htmlFinding{
		ID: fmt.Sprintf("f%d", n), Class: severityClass(f.Severity),
		Severity: visible(string(f.Severity)), Code: visible(string(f.Code)), Check: visible(f.Check),
		Subject: visible(f.Subject.String()), Page: pageOf(f.Code),
		Message: visible(f.Message), Cause: visible(f.Cause), Heals: visible(heals(f.SelfHeals)), Advice: visible(f.Advice),
	}
	if drawn, ok := draw(r, f); ok {
		h.Picture = drawn.svg(h.ID)
	}
	if f.Since != nil {
		h.Since = fmt.Sprintf("%s (%s before the report)", f.Since.UTC().Format("2006-01-02 15:04:05 MST"), ago(r.TakenAt.Sub(f.Since.Time)))
	}
	for _, e := range f.Evidence {
		h.Evidence = append(h.Evidence, diagnose.Evidence{Object: visible(e.Object), Field: visible(e.Field), Value: visible(e.Value)})
	}
	if f.Repair != nil {
		h.Repair = visible(fmt.Sprintf("%s (risk %s, %s)", f.Repair.Kind, f.Repair.Risk, undoable(f.Repair)))
		h.Refused = visible(f.Repair.BlockedBy)
		for i, c := range f.Repair.Commands {
			h.Commands = append(h.Commands, htmlCommand{fmt.Sprintf("%d.%d", n, i+1), visible(c)})
		}
	}
	return h
}

func undoable(r *diagnose.Repair) string {
	if r.Reversible {
		return "can be undone"
	}
	return "cannot be undone"
}

func followCount(n int) string {
	if n == 1 {
		return "1 finding that follows from it"
	}
	return fmt.Sprintf("%d findings that follow from it", n)
}

// severityClass is one of three whatever a report from elsewhere says.
func severityClass(s diagnose.Severity) string {
	switch s {
	case diagnose.Error, diagnose.Warning:
		return string(s)
	default:
		return string(diagnose.Info)
	}
}

// verdict is the report in a line.
func verdict(r *diagnose.Report) string {
	s := r.Summary
	switch {
	case len(r.Findings) > 0:
		return fmt.Sprintf("%s, %s, %d info", count(s.Error, "error"), count(s.Warning, "warning"), s.Info)
	case r.Complete && len(r.SkippedChecks) == 0 && leftOut(r) != "":
		return "No other drift found; not shown: " + leftOut(r) + "."
	case r.Complete && len(r.SkippedChecks) == 0:
		return "No drift found."
	default:
		return "No drift found in what could be read."
	}
}

// about says what the report is of.
func about(r *diagnose.Report) []string {
	var facts []string
	for _, s := range []string{r.Source.Context, r.Source.Server, r.Source.Path, r.KubernetesVersion} {
		if s != "" {
			facts = append(facts, visible(s))
		}
	}
	return append(facts, r.TakenAt.UTC().Format("2006-01-02 15:04:05 MST"))
}

func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
