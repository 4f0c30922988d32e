package output

import (
	"fmt"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

const (
	// htmlWhole is the largest number of findings that are each shown with their picture, proof and
	// manual commands. In a longer report only the first finding of each code has these, so that the
	// file of a report with a thousand findings can still be sent and searched.
	htmlWhole = 100
	// manyCauses is the number of causes from which the list above them is folded.
	manyCauses = 10
)

// reportPage is a report while its page is made.
type reportPage struct {
	*finding.Report
	// brief reports whether only the first finding of each code is shown in full.
	brief bool
	shown int
	// whys are the causes of the first finding of each code.
	whys map[finding.Code]string
}

func printHTML(b *strings.Builder, r *finding.Report, _ Options) error {
	docs, err := htmlDocs(r.Findings)
	if err != nil {
		return err
	}
	p := &reportPage{Report: r, brief: len(r.Findings) > htmlWhole, whys: map[finding.Code]string{}}
	var entries, groups []g.Node
	for _, tree := range r.Roots() {
		entry, group := p.group(tree)
		entries, groups = append(entries, entry), append(groups, group)
	}
	var briefly g.Node
	if p.brief {
		entries = nil
		briefly = h.P(h.Class("quiet"), htmlText(fmt.Sprintf("These are %d findings. The picture, the proof, the commands by hand and the time of the beginning stand with the first of each code, and so does a cause that is the same; -o json has them all.", len(r.Findings))))
	}
	return htmlPage{
		title: "Volume report", verdict: verdict(r), good: good(r) && r.SavedIn == "", about: append(about(r), askedFor(r), wholeScope(r)),
		before: reportNav(len(r.Findings), entries), label: "Findings and what was read",
		main: htmlLines(htmlLines(groups...), briefly, htmlUnread(append(gapTexts(r), skippedTexts(r, everyCheck)...)), docs),
	}.write(b)
}

// reportNav returns the search, which the script makes visible, and the list of causes.
func reportNav(findings int, causes []g.Node) g.Node {
	if findings <= 1 {
		return nil
	}
	options := []g.Node{h.Option(h.Value(""), htmlText("all"))}
	for _, severity := range []string{"error", "warning", "info"} {
		options = append(options, h.Option(htmlText(severity)))
	}
	var list g.Node
	if len(causes) > 1 {
		list = h.Details(g.If(len(causes) <= manyCauses, g.Attr("open")), h.Summary(htmlText(count(len(causes), "cause"))), htmlLines(h.Ul(htmlLines(causes...))))
	}
	return h.Nav(h.Aria("label", "Findings"), htmlLines(
		h.Div(h.ID("search"), h.Role("search"), h.Hidden(""), htmlLines(
			h.Label(h.For("words"), htmlText("Search")),
			h.Input(h.ID("words"), h.Type("search"), h.AutoComplete("off"), g.Attr("spellcheck", "false")),
			h.Label(h.For("severity"), htmlText("Severity")),
			h.Select(h.ID("severity"), g.Group(options)),
			h.Span(h.ID("shown"), h.Role("status"), h.Class("quiet")),
		)),
		list,
	))
}

// group returns the card of a cause, with its consequences folded in it, and its entry in the
// list of causes.
func (p *reportPage) group(tree []finding.Finding) (entry, card g.Node) {
	f, n := tree[0], len(tree)-1
	id, below := p.below(tree)
	var follow, counted g.Node
	if n > 0 {
		counted = g.Group{htmlText(" "), h.Span(h.Class("quiet"), htmlText(fmt.Sprintf("(%d follow from it)", n)))}
		follow = h.Details(h.Class("follow"), htmlLines(
			h.Summary(htmlText(followCount(n))),
			htmlEach(tree[1:], func(f finding.Finding) g.Node {
				id, below := p.below([]finding.Finding{f})
				return htmlCard(f.Severity, id, h.H3(h.ID(id+"t"), htmlSeverity(f.Severity), htmlText(" "), findingLink(f), htmlText(": "+f.Subject.String())), below)
			}),
		))
	}
	entry = h.Li(
		h.Span(h.Class("severity "+severityClass(f.Severity)), htmlText(string(f.Severity))), htmlText(" "),
		h.A(h.Href("#"+id), htmlText(findingName(f)+": "+f.Subject.String())), counted)
	return entry, htmlCard(f.Severity, id, h.H2(h.ID(id+"t"), htmlSeverity(f.Severity), htmlText(" "), findingLink(f)), below, follow)
}

func htmlCard(severity finding.Severity, id string, parts ...g.Node) g.Node {
	return h.Article(h.Class("card "+severityClass(severity)), h.ID(id), h.Aria("labelledby", id+"t"), htmlLines(parts...))
}

func findingName(f finding.Finding) string { return string(f.Code) + " " + f.Check + suspected(f) }

// findingLink leads to the code's page: the copy inside the report if there is one, else the page
// online.
func findingLink(f finding.Finding) g.Node {
	to := pageOf(f.Code)
	if _, known := checkOf(f.Code); known {
		to = "#" + string(f.Code)
	}
	return h.A(h.Href(to), htmlText(findingName(f)))
}

// below returns the ID of the finding's card, and what stands in it below the title.
func (p *reportPage) below(tree []finding.Finding) (id string, node g.Node) {
	f, t := tree[0], tell(p.Report, tree)
	p.shown++
	id = fmt.Sprintf("f%d", p.shown)
	what, why := h.P(htmlText(t.what+t.sums)), t.why
	first, again := p.whys[f.Code]
	brief := p.brief && again
	if brief && why == first {
		why = ""
	}
	if !again {
		p.whys[f.Code] = why
	}
	rows := []fact{{"Hits", strings.Join(t.hits, "; ")}, {"Do not", t.dont}, {"Wait?", t.wait}, {"Affects", t.who}, {"First", t.first}, {"Why", why}, {"Said", t.said}}
	if brief {
		return id, htmlLines(what, htmlSteps(t.do), htmlTerms(rows))
	}
	rows = append(rows, fact{"Since", sinceText(p.TakenAt, f.Since)}, fact{"Repair", riskOf(f.Repair)})
	drawn, ok := draw(p.Report, f)
	if !ok {
		drawn = drawSubject(f)
	}
	picture, caption := drawn.svg(id)
	return id, htmlLines(what, h.Div(h.Class("two pictured"), htmlLines(
		h.Div(htmlLines(htmlSteps(t.do), htmlTerms(rows), htmlProof(t), htmlByHand(f))),
		h.Figure(htmlLines(picture, h.FigCaption(htmlText(caption)))),
	)))
}

func htmlSteps(steps []step) g.Node {
	if len(steps) == 0 {
		return nil
	}
	sentences, commands := 0, 0
	return htmlLines(
		htmlUnclosed("p", htmlText("Do")),
		h.Ol(htmlEach(steps, func(s step) g.Node {
			if s.command != "" {
				commands++
				return h.Li(h.Class("command"), htmlCode(s.command))
			}
			if sentences++; commands > 0 { // a browser counts the commands, too
				return htmlUnclosed("li value="+strconv.Itoa(sentences), htmlText(s.text))
			}
			return htmlUnclosed("li", htmlText(s.text))
		})),
	)
}

func htmlProof(t telling) g.Node {
	if len(t.Evidence) == 0 {
		return nil
	}
	var lower g.Node
	if t.Repair != nil && len(t.Repair.Lower) > 0 {
		lower = htmlLines(h.P(htmlText("Why no smaller repair:")), htmlList(texts(t.Repair.Lower, func(lower finding.LowerRepair) string {
			if strings.Contains(t.wait+t.why, lower.Because) {
				lower.Because = "as above" // the reason is shown under "Wait?" or "Why"
			}
			return lower.Kind + ": " + lower.Because
		})))
	}
	return h.Details(h.Summary(htmlText("Proof")), htmlLines(
		h.Ul(htmlEach(t.Evidence, func(e finding.Evidence) g.Node {
			return htmlUnclosed("li", htmlText(e.Object+" "+e.Field+": "), h.Code(htmlText(e.Value)))
		})),
		lower,
	))
}

func htmlByHand(f finding.Finding) g.Node {
	commands := byHand(f)
	if len(commands) == 0 {
		return nil
	}
	return h.Details(h.Summary(htmlText("By hand, without the guards")), htmlEach(commands, htmlCommand))
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
