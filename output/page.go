package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output/html"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
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

// newHTMLDoc renders the page for the report, whose own headings use two levels above it.
func newHTMLDoc(c check.Check) (html.Doc, error) {
	source := []byte(c.Doc() + offered(c))
	markdown := goldmark.New()
	document := markdown.Parser().Parse(text.NewReader(source))
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		if heading, ok := n.(*ast.Heading); ok {
			heading.Level += 2
		}
	}
	var b bytes.Buffer
	err := markdown.Renderer().Render(&b, source, document)
	// HTML is safe here: the page is a file of this project, and raw HTML is turned off
	return html.Doc{ID: string(c.Code), Title: string(c.Code) + " " + c.Name, Page: pageOf(c.Code), HTML: b.String()}, err
}

// htmlDocs returns the page of each code in the report, once.
func htmlDocs(findings []finding.Finding) ([]html.Doc, error) {
	var docs []html.Doc
	for _, same := range byCode(findings) {
		c, known := checkOf(same[0].Code)
		if !known {
			continue
		}
		doc, err := newHTMLDoc(c)
		if err != nil {
			return nil, fmt.Errorf("the page of %s: %w", c.Code, err)
		}
		docs = append(docs, doc)
	}
	return docs, nil
}
