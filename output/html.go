package output

import (
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
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
	What, First, Who, Why, Wait, Dont    string
	Since, Repair                        string
	Steps                                []htmlStep
	Evidence                             []finding.Evidence
	Lower                                []string
	ByHand                               []htmlCommand
	Picture                              *svg
}

// htmlStep is a sentence, or a command with its number.
type htmlStep struct {
	Text    string
	Command *htmlCommand
}

type htmlCommand struct {
	Number string
	Text   string
}

// printHTML is one file that asks for nothing else: no script, font, style or
// picture from elsewhere, and a policy that would not let it.
func printHTML(w io.Writer, r *finding.Report, _ Options) error {
	p := htmlPage{
		Policy: fmt.Sprintf("default-src 'none'; img-src data:; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'",
			hashSource(pageStyle), hashSource(pageScript)),
		CSS: template.CSS(pageStyle), JS: template.JS(pageScript), // both are files of this package
		Verdict: verdict(r), Good: good(r),
		About: slices.DeleteFunc(append(about(r), wholeScope(r)), func(s string) bool { return s == "" }),
	}
	n := 0
	numbered := func(tree []finding.Finding) htmlFinding {
		n++
		return newHTMLFinding(r, tree, n)
	}
	for _, tree := range r.Roots() {
		g := htmlGroup{Cause: numbered(tree)}
		for _, f := range tree[1:] {
			g.Consequences = append(g.Consequences, numbered([]finding.Finding{f}))
		}
		g.Follows = followCount(len(g.Consequences))
		p.Groups = append(p.Groups, g)
	}
	for _, gap := range r.Gaps {
		p.Gaps = append(p.Gaps, visible(gapText(gap)))
	}
	for _, text := range skippedTexts(r) {
		p.Skipped = append(p.Skipped, visible(text))
	}
	return page.Execute(w, p)
}

func newHTMLFinding(r *finding.Report, tree []finding.Finding, n int) htmlFinding {
	f, t := tree[0], tell(r, tree)
	h := htmlFinding{
		ID: fmt.Sprintf("f%d", n), Class: severityClass(f.Severity),
		Severity: visible(string(f.Severity)), Code: visible(string(f.Code)), Check: visible(f.Check + suspected(f)),
		Subject: visible(f.Subject.String()), Page: pageOf(f.Code),
		What: visible(t.what + t.sums), First: visible(t.first), Who: visible(t.who), Why: visible(t.why), Wait: visible(t.wait), Dont: visible(t.dont),
		Since: since(r, f), Repair: visible(riskOf(f.Repair)),
	}
	if drawn, ok := draw(r, f); ok {
		h.Picture = drawn.svg(h.ID)
	}
	commands := 0
	numbered := func(c string) htmlCommand {
		commands++
		return htmlCommand{fmt.Sprintf("%d.%d", n, commands), visible(c)}
	}
	for _, s := range t.do {
		next := htmlStep{Text: visible(s.text)}
		if s.command != "" {
			c := numbered(s.command)
			next.Command = &c
		}
		h.Steps = append(h.Steps, next)
	}
	for _, c := range byHand(f) {
		h.ByHand = append(h.ByHand, numbered(c))
	}
	for _, e := range f.Evidence {
		h.Evidence = append(h.Evidence, finding.Evidence{Object: visible(e.Object), Field: visible(e.Field), Value: visible(e.Value)})
	}
	if f.Repair != nil {
		for _, lower := range f.Repair.Lower {
			h.Lower = append(h.Lower, visible(lower.Kind+": "+lower.Because))
		}
	}
	return h
}

func followCount(n int) string {
	if n == 1 {
		return "1 finding that follows from it"
	}
	return fmt.Sprintf("%d findings that follow from it", n)
}

// severityClass is one of three whatever a report from elsewhere says.
func severityClass(s finding.Severity) string {
	switch s {
	case finding.Error, finding.Warning:
		return string(s)
	default:
		return string(finding.Info)
	}
}

// verdict is the report in a line.
func verdict(r *finding.Report) string {
	text := visible(found(r))
	if waits := waitsUntold(r); waits != "" {
		text = strings.TrimSuffix(text, ".") + "; " + visible(waits) + "."
	}
	return text
}

func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
