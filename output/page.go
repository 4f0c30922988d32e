package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// Page returns the whole page of a check in Markdown: its document, the repairs for its findings,
// and the related checks.
func Page(c check.Check) string { return c.Doc() + offered(c) + related(c) }

// offered is the part of a check's page that names the repairs for its findings; "" if there are
// none.
func offered(c check.Check) string {
	kinds := repair.KindsFor(c.Code)
	if len(kinds) == 0 {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n## Repairs that --apply offers\n\n    %s\n\n", safetext.Kubectl("volume-doctor", "diagnose", "--check", string(c.Code), "--apply"))
	text.WriteString("makes the first of these that no guard refuses. The report has the command line for\neach finding, with all that it needs.\n\n")
	for _, topic := range repair.Topics() {
		if slices.Contains(kinds, repair.Kind(topic.Name)) {
			fmt.Fprintf(&text, "- `%s`: %s\n", topic.Name, topic.Title())
		}
	}
	return text.String()
}

// related is the end of a check's page: how its findings relate to the findings of other checks.
func related(c check.Check) string {
	r := diagnose.Related(c)
	var text strings.Builder
	for _, list := range []struct {
		words  string
		checks []check.Check
	}{
		{"Yields to", r.YieldsTo},
		{"Takes the place of", r.TakesPlaceOf},
		{"Follows from", r.FollowsFrom},
		{"Brings about", r.BringsAbout},
		{"May share its cause with", r.SharesCause},
	} {
		if len(list.checks) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\n%s:\n\n", list.words)
		for _, other := range list.checks {
			fmt.Fprintf(&text, "- %s %s\n", other.Code, other.Name)
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return "\n## Related findings\n" + text.String()
}

// htmlDocs returns the page of each code in the report, once.
func htmlDocs(findings []finding.Finding) (g.Node, error) {
	var docs []g.Node
	for _, same := range byCode(findings) {
		c, known := checkOf(same[0].Code)
		if !known {
			continue
		}
		doc, err := htmlDoc(c)
		if err != nil {
			return nil, fmt.Errorf("the page of %s: %w", c.Code, err)
		}
		docs = append(docs, doc)
	}
	if len(docs) == 0 {
		return nil, nil
	}
	return h.Section(h.Aria("labelledby", "pages"), htmlLines(
		h.H2(h.ID("pages"), htmlText("What the codes mean")),
		h.P(h.Class("quiet"), htmlText("In general. Whether a command is safe here, the finding says: it has its own.")),
		htmlLines(docs...),
	)), nil
}

// htmlDoc renders the page for the report, whose own headings use two levels above it.
func htmlDoc(c check.Check) (g.Node, error) {
	source := []byte(c.Doc() + offered(c))
	markdown := goldmark.New()
	document := markdown.Parser().Parse(text.NewReader(source))
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		if heading, ok := n.(*ast.Heading); ok {
			heading.Level += 2
		}
	}
	var b strings.Builder
	if err := markdown.Renderer().Render(&b, source, document); err != nil {
		return nil, err
	}
	return h.Details(h.Class("card page"), h.ID(string(c.Code)), h.Summary(htmlText(string(c.Code)+" "+c.Name)), htmlLines(
		g.Raw(b.String()), // the page is a file of this project, and raw HTML is turned off
		h.P(h.A(h.Href(pageOf(c.Code)), h.Rel("noreferrer"), htmlText("The same page online"))),
	)), nil
}
