package output

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	goldmarkhtml "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// checkers check each format against its own rules, whatever the report contains.
var checkers = map[string]func(t failer, text []byte, r *finding.Report){
	"json": checkJSON, "yaml": checkYAML, "tree": checkText, "table": checkText, "wide": checkText, "name": checkText,
	"sarif": checkSARIF, "junit": checkJUnit, "markdown": checkMarkdown, "html": checkHTML, "prometheus": checkPrometheus,
}

func TestFormatsOverTheCorpus(t *testing.T) {
	long.Test(t)
	eachCase(t, func(t *testing.T, c corpusCase) {
		for _, format := range ReportFormats.Names() {
			if check := checkers[format]; check != nil {
				check(t, printed(t, format, c.report), c.report)
			}
		}
	})
}

// checkText checks that no character can control a terminal or hide in a line.
func checkText(t failer, text []byte, _ *finding.Report) {
	t.Helper()
	if i := bytes.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("lets %q through", text[i:min(i+20, len(text))])
	}
}

// checkSteering checks a format for machines. It may contain most characters, but people also read
// it in terminals.
func checkSteering(t failer, text []byte, more ...*unicode.RangeTable) {
	t.Helper()
	tables := append(more, unicode.Cc)
	steers := func(r rune) bool { return r != '\n' && r <= 0xffff && unicode.In(r, tables...) }
	if i := bytes.IndexFunc(text, steers); i >= 0 {
		t.Errorf("lets %q through", text[i:min(i+20, len(text))])
	}
}

// checkJSON checks that the report survives writing and reading, on which --report depends.
func checkJSON(t failer, text []byte, _ *finding.Report) {
	t.Helper()
	checkSteering(t, text, unicode.Cf, unicode.Zl, unicode.Zp)
	first := readBack(t, text, json.Unmarshal)
	var b strings.Builder
	if err := printJSON(&b, first, Options{}); err != nil {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(first, readBack(t, []byte(b.String()), json.Unmarshal), cmpopts.IgnoreUnexported(finding.Settles{})); diff != "" {
		t.Errorf("is another report once it is read back:\n%s", diff)
	}
}

// checkYAML checks that YAML and JSON contain the same report.
func checkYAML(t failer, text []byte, r *finding.Report) {
	t.Helper()
	checkSteering(t, text)
	var b strings.Builder
	if err := printJSON(&b, r, Options{}); err != nil {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(readBack(t, []byte(b.String()), json.Unmarshal), readBack(t, text, func(data []byte, v any) error { return yaml.Unmarshal(data, v) }), cmpopts.IgnoreUnexported(finding.Settles{})); diff != "" {
		t.Errorf("has another report than JSON (-json +yaml):\n%s", diff)
	}
}

func readBack(t failer, text []byte, unmarshal func([]byte, any) error) *finding.Report {
	t.Helper()
	r := &finding.Report{}
	if err := unmarshal(text, r); err != nil {
		t.Fatalf("%v", err)
	}
	return r
}

var sarifSchema = compiled("testdata/schema/sarif-schema-2.1.0.json")

// compiled compiles a schema for a package variable. It panics on a broken schema, so that every
// test fails.
func compiled(path string) *jsonschema.Schema {
	path, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile(path)
	if err != nil {
		panic(err)
	}
	return schema
}

func checkSARIF(t failer, text []byte, r *finding.Report) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := sarifSchema.Validate(document); err != nil {
		t.Errorf("not SARIF 2.1.0: %v", err)
	}
	var log sarifLog
	if err := json.Unmarshal(text, &log); err != nil {
		t.Fatalf("%v", err)
	}
	run := log.Runs[0]
	if len(run.Results) != len(r.Findings) {
		t.Errorf("%d results for %d findings", len(run.Results), len(r.Findings))
	}
	if got := run.Invocations[0]; got.ExecutionSuccessful != r.Complete || len(got.Notifications) != len(r.Gaps)+len(r.SkippedChecks) {
		t.Errorf("the invocation does not say what was not read: %+v", got)
	}
	uri := regexp.MustCompile(`^cluster(/[A-Za-z0-9$&+=:@_~.%-]+)+$`)
	for _, result := range run.Results {
		if result.RuleIndex >= len(run.Tool.Driver.Rules) || run.Tool.Driver.Rules[result.RuleIndex].ID != result.RuleID {
			t.Errorf("%s does not find its rule", result.RuleID)
		}
		// Without these fields GitHub rejects the result, or opens a new alert each time.
		file := result.Locations[0].Physical.Artifact["uri"]
		if !uri.MatchString(file) || slices.Contains(strings.Split(file, "/"), "..") || result.PartialFingerprints["primaryLocationLineHash"] == "" {
			t.Errorf("result without its place or fingerprint: %+v", result)
		}
	}
}

// TestSARIFRules checks that every check has what code scanning shows of a rule.
func TestSARIFRules(t *testing.T) {
	for _, check := range diagnose.Checks() {
		rule := ruleOf(finding.Finding{Code: check.Code})
		if rule.ID != string(check.Code) || rule.Default["level"] == "" || !strings.HasSuffix(rule.HelpURI, "/diagnose/docs/"+string(check.Code)+".md") {
			t.Errorf("%s: %+v", check.Code, rule)
		}
		for name, text := range map[string]string{"short description": rule.ShortDescription.Text, "full description": rule.FullDescription.Text} {
			if text == "" || len(text) > 1024 || strings.HasPrefix(text, "#") {
				t.Errorf("%s: its %s is %q", check.Code, name, text)
			}
		}
	}
}

// xsdElement lists what an element may contain. That is enough for this schema, in which order and
// types do not matter.
type xsdElement struct {
	required, attributes, children []string
	text                           bool
}

// junitSchema is the published schema: the elements with their attributes and children.
var junitSchema = sync.OnceValues(func() (map[string]xsdElement, error) {
	f, err := os.Open("testdata/schema/junit-10.xsd")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	elements := map[string]xsdElement{}
	decoder := xml.NewDecoder(f)
	var open []string // the declared elements that enclose the current one
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return elements, nil
		}
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			attr := map[string]string{}
			for _, a := range token.Attr {
				attr[a.Name.Local] = a.Value
			}
			in := ""
			if len(open) > 0 {
				in = open[len(open)-1]
			}
			e := elements[in]
			switch {
			case token.Name.Local == "element" && in == "" && attr["name"] != "":
				in = attr["name"]
				elements[in] = xsdElement{text: attr["type"] == "xs:string"}
			case token.Name.Local == "element" && in != "":
				e.children = append(e.children, attr["ref"])
				elements[in] = e
			case token.Name.Local == "attribute" && in != "":
				e.attributes = append(e.attributes, attr["name"])
				if attr["use"] == "required" {
					e.required = append(e.required, attr["name"])
				}
				elements[in] = e
			case token.Name.Local == "complexType" && in == "":
				in = "type:" + attr["name"]
			case token.Name.Local == "complexType":
				e.text = attr["mixed"] == "true"
				elements[in] = e
			}
			open = append(open, in)
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
})

type xmlNode struct {
	XMLName  xml.Name
	Attr     []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []xmlNode  `xml:",any"`
}

func (n xmlNode) attr(name string) string {
	i := slices.IndexFunc(n.Attr, func(a xml.Attr) bool { return a.Name.Local == name })
	if i < 0 {
		return ""
	}
	return n.Attr[i].Value
}

func (n xmlNode) fits(t failer, schema map[string]xsdElement) {
	t.Helper()
	name := n.XMLName.Local
	e, known := schema[name]
	if !known {
		t.Fatalf("<%s> is not in the schema", name)
	}
	for _, a := range n.Attr {
		if !slices.Contains(e.attributes, a.Name.Local) {
			t.Errorf("<%s> may not have %s", name, a.Name.Local)
		}
	}
	for _, required := range e.required {
		if !slices.ContainsFunc(n.Attr, func(a xml.Attr) bool { return a.Name.Local == required }) {
			t.Errorf("<%s> lacks %s", name, required)
		}
	}
	if !e.text && strings.TrimSpace(n.Text) != "" {
		t.Errorf("<%s> has text: %q", name, n.Text)
	}
	for _, child := range n.Children {
		if !slices.Contains(e.children, child.XMLName.Local) {
			t.Errorf("<%s> may not have <%s>", name, child.XMLName.Local)
		}
		child.fits(t, schema)
	}
}

func checkJUnit(t failer, text []byte, r *finding.Report) {
	t.Helper()
	var root xmlNode
	if err := xml.Unmarshal(text, &root); err != nil {
		t.Fatalf("%v", err)
	}
	schema, err := junitSchema()
	if err != nil {
		t.Fatalf("%v", err)
	}
	root.fits(t, schema)
	counts := map[string]int{}
	names := map[string]bool{}
	for _, suite := range root.Children {
		own := map[string]int{}
		for _, c := range suite.Children {
			own["tests"]++
			names[c.attr("name")] = true
			for _, result := range c.Children {
				own[map[string]string{"failure": "failures", "error": "errors", "skipped": "skipped"}[result.XMLName.Local]]++
			}
		}
		for _, total := range []string{"tests", "failures", "errors", "skipped"} {
			if got := suite.attr(total); got != fmt.Sprint(own[total]) && (got != "" || own[total] > 0) {
				t.Errorf("suite %s counts %s %s, and has %d", suite.attr("name"), got, total, own[total])
			}
			counts[total] += own[total]
		}
	}
	failures := 0
	for _, f := range r.Findings {
		if f.Severity.AtLeast(finding.Warning) {
			failures++
		}
	}
	if counts["failures"] != failures || counts["errors"] != len(r.Gaps) || counts["skipped"] != len(r.SkippedChecks) {
		t.Errorf("%v for %d failures, %d gaps and %d skipped checks", counts, failures, len(r.Gaps), len(r.SkippedChecks))
	}
	for _, code := range r.Checks {
		if check, known := checkOf(code); known && !names[string(code)+" "+check.Name] &&
			!slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return f.Code == code }) {
			t.Errorf("%s ran and has no case", code)
		}
	}
}

func checkPrometheus(t failer, text []byte, r *finding.Report) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v", err)
	}
	total := 0.0
	for name, family := range families {
		series := map[string]bool{}
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				if utf8.RuneCountInString(l.GetValue()) > longestName {
					t.Errorf("%s: label %s has %d characters", name, l.GetName(), len(l.GetValue()))
				}
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := strings.Join(labels, "\x00")
			if series[key] {
				t.Errorf("%s has a series twice: %s", name, key)
			}
			series[key] = true
			if name == "volume_doctor_findings" {
				total += m.GetGauge().GetValue()
			}
		}
	}
	if int(total) != len(r.Findings) {
		t.Errorf("%v findings are counted, and there are %d", total, len(r.Findings))
	}
	for name, want := range map[string]float64{
		"volume_doctor_gaps": float64(len(r.Gaps)), "volume_doctor_complete": float64(facts.BoolToInt(r.Complete)),
		"volume_doctor_last_run_timestamp_seconds": float64(r.TakenAt.Unix()),
	} {
		if family := families[name]; family == nil || family.Metric[0].GetGauge().GetValue() != want {
			t.Errorf("%s is not %v", name, want)
		}
	}
}

// github renders Markdown as GitHub does before it sanitizes the result: raw HTML is kept, so that
// a test sees what would get through.
var github = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(goldmarkhtml.WithUnsafe()))

func checkMarkdown(t failer, text []byte, r *finding.Report) {
	t.Helper()
	if !utf8.Valid(text) {
		t.Errorf("is not UTF-8")
	}
	checkText(t, text, r)
	if len(text) > markdownLimit {
		t.Errorf("has %d characters: GitHub takes no more than %d", len(text), markdownLimit)
	}
	var rendered bytes.Buffer
	if err := github.Convert(text, &rendered); err != nil {
		t.Fatalf("%v", err)
	}
	root, err := html.Parse(&rendered)
	if err != nil {
		t.Fatalf("%v", err)
	}
	// The elements that this package writes; any other would come from a string of the report.
	known := []string{"html", "head", "body", "h2", "h3", "h4", "p", "ul", "li", "strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "a", "details", "summary"}
	headings, cells := 0, 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if !slices.Contains(known, n.Data) {
			t.Errorf("has an element <%s>", n.Data)
		}
		switch n.Data {
		case "a":
			if link := attribute(n, "href"); !strings.HasPrefix(link, project+"/blob/main/diagnose/docs/") {
				t.Errorf("links to %s", link)
			}
		case "h3", "h4":
			headings++
		case "td":
			cells++
		}
	}
	want := len(r.Findings)
	leftOut := regexp.MustCompile(`\n(\d+) findings? left out: `).FindSubmatch(text)
	if leftOut != nil {
		n, err := strconv.Atoi(string(leftOut[1]))
		if err != nil || n < 1 || n > want {
			t.Errorf("leaves out %s findings of %d", leftOut[1], want)
		}
		want -= n
	}
	if len(r.Gaps)+len(r.SkippedChecks) > 0 {
		want++
	}
	if headings != want {
		t.Errorf("%d headings, want %d", headings, want)
	}
	if leftOut != nil {
		return // not all findings are shown
	}
	wantCells := 5 * len(r.Roots())
	for _, f := range r.Findings {
		wantCells += 3 * len(f.Evidence)
	}
	if cells != wantCells {
		t.Errorf("%d cells in tables, want %d", cells, wantCells)
	}
	shown := plain(textOf(root))
	for _, s := range sentences(r) {
		if !strings.Contains(shown, plain(s)) {
			t.Errorf("does not show %q in\n%s", plain(s), shown)
		}
	}
}

// sentences returns the strings of a report that every format for people must show, after visible.
func sentences(r *finding.Report) []string {
	var list []string
	for _, f := range r.Findings {
		list = append(list, visible(f.Message), visible(f.Detail), visible(quoted(f.Said, r.TakenAt)), visible(f.Cause), visible(f.Advice), visible(f.Check))
		// while the cause is only suspected, nobody knows whether waiting helps
		if f.SelfHeals.Will || f.Confidence != finding.Suspected {
			first, more := f.SelfHeals.Reason()
			list = append(list, visible(first), visible(more))
		}
		for _, e := range f.Evidence {
			list = append(list, visible(e.Value), visible(e.Object))
		}
		for _, c := range byHand(f) {
			list = append(list, visible(c))
		}
	}
	for _, g := range r.Gaps {
		list = append(list, visible(gapText(g)))
	}
	return list
}

// plain removes all blanks, because formats may break and join lines.
func plain(s string) string { return strings.Join(strings.Fields(s), "") }

func attribute(n *html.Node, name string) string {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return ""
	}
	return n.Attr[i].Val
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func checkHTML(t failer, text []byte, r *finding.Report) {
	t.Helper()
	shown := checkHTMLStructure(t, text, r)
	for _, s := range sentences(r) {
		if !strings.Contains(shown, plain(s)) {
			t.Errorf("does not show %q", plain(s))
		}
	}
}

// checkHTMLStructure checks a report's page and returns its text.
func checkHTMLStructure(t failer, text []byte, r *finding.Report) string {
	t.Helper()
	root, count := checkPage(t, text)
	checkHTMLCounts(t, count, r)
	return plain(textOf(root))
}

// checkPage checks the rules for every page: it loads nothing, the targets of its links exist, and
// its headings are in order. It returns the page and the number of each element.
func checkPage(t failer, text []byte) (*html.Node, map[string]int) {
	t.Helper()
	if !utf8.Valid(text) {
		t.Errorf("is not UTF-8")
	}
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v", err)
	}
	ids, count := map[string]bool{}, map[string]int{}
	var referred []string
	level := 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		count[n.Data]++
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				if ids[a.Val] {
					t.Errorf("two elements are #%s", a.Val)
				}
				ids[a.Val] = true
			case a.Key == "aria-labelledby":
				referred = append(referred, strings.Fields(a.Val)...)
			case a.Key == "href" && n.Data == "a":
				if fragment, ok := strings.CutPrefix(a.Val, "#"); ok {
					referred = append(referred, fragment)
				} else if !strings.HasPrefix(a.Val, project+"/blob/main/diagnose/docs/") && !within(n, "page") {
					t.Errorf("links to %s", a.Val)
				}
			case a.Key == "href" && n.Data == "link" && a.Val == "data:,": // prevents the request for an icon
			case slices.Contains([]string{"src", "href", "xlink:href", "srcset", "action", "style", "poster", "data"}, a.Key), strings.HasPrefix(a.Key, "on"):
				t.Errorf("<%s %s=%q> may load or run something", n.Data, a.Key, a.Val)
			}
		}
		if len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' {
			if next := int(n.Data[1] - '0'); next > level+1 {
				t.Errorf("a heading <%s> follows level %d", n.Data, level)
			}
			level = int(n.Data[1] - '0')
		}
		if n.Data == "svg" && (attribute(n, "role") != "img" || attribute(n, "aria-labelledby") == "") {
			t.Errorf("a picture without a name")
		}
	}
	for _, id := range referred {
		if !ids[id] {
			t.Errorf("nothing is #%s", id)
		}
	}
	for element, want := range map[string]int{"script": 1, "style": 1, "h1": 1, "main": 1, "header": 1, "footer": 1, "iframe": 0, "object": 0, "img": 0, "form": 0, "base": 0} {
		if count[element] != want {
			t.Errorf("%d <%s>, want %d", count[element], element, want)
		}
	}
	return root, count
}

func checkHTMLCounts(t failer, count map[string]int, r *finding.Report) {
	t.Helper()
	whole := wholeFindings(r)
	if count["article"] != len(r.Findings) || count["svg"] != len(whole) {
		t.Errorf("%d articles and %d pictures for %d findings, of which %d are told whole", count["article"], count["svg"], len(r.Findings), len(whole))
	}
	folded := 0
	for _, group := range r.Roots() {
		if len(group) > 1 {
			folded++
		}
	}
	for _, f := range whole {
		if len(byHand(f)) > 0 {
			folded++
		}
		if len(f.Evidence) > 0 {
			folded++
		}
	}
	pages := map[finding.Code]bool{}
	for _, f := range r.Findings {
		if _, known := checkOf(f.Code); known {
			pages[f.Code] = true
		}
	}
	folded += len(pages)
	if len(r.Roots()) > 1 && len(r.Findings) <= htmlWhole {
		folded++
	}
	if count["details"] != folded {
		t.Errorf("%d folds, want %d: one for the list of causes, for each cause with consequences, for proofs, for what can be done by hand, and for the page of each code", count["details"], folded)
	}
}

// wholeFindings returns the findings that HTML shows with picture, proof and manual commands.
func wholeFindings(r *finding.Report) []finding.Finding {
	var whole []finding.Finding
	told := map[finding.Code]bool{}
	for _, group := range r.Roots() {
		for _, f := range group {
			if len(r.Findings) <= htmlWhole || !told[f.Code] {
				whole = append(whole, f)
			}
			told[f.Code] = true
		}
	}
	return whole
}

// within reports whether the element is inside an element of the class.
func within(n *html.Node, class string) bool {
	for ; n != nil; n = n.Parent {
		if slices.Contains(strings.Fields(attribute(n, "class")), class) {
			return true
		}
	}
	return false
}

// TestPictures checks that the subject of each finding with a volume stands out in its picture, and
// that the picture calls something absent only if the list was read in full.
func TestPictures(t *testing.T) {
	eachCase(t, func(t *testing.T, c corpusCase) {
		for _, f := range c.report.Findings {
			p, ok := draw(c.report, f)
			if !ok {
				continue
			}
			broken := 0
			edges := slices.Clone(p.waiting)
			for _, n := range p.nodes {
				edges = append(edges, n.edges...)
			}
			for _, e := range edges {
				if e.broken {
					broken++
				}
			}
			if broken == 0 && len(edges) > 0 {
				t.Errorf("%s: nothing is marked in %+v", f.Code, p)
			}
			drawn, caption := p.svg("x")
			var b strings.Builder
			if err := drawn.Render(&b); err != nil {
				t.Fatal(err)
			}
			crossed, dashed := strings.Contains(b.String(), `class="cross"`), strings.Contains(b.String(), `class="line missing`)
			if !crossed && broken > 0 && len(p.nodes)+len(p.waiting) <= svgMost {
				t.Errorf("%s: no cross is drawn for %+v", f.Code, p)
			}
			if dashed != strings.Contains(caption, "dashed") || crossed != strings.Contains(caption, "cross") {
				t.Errorf("%s: the legend is about what is not drawn, or not about what is: %q", f.Code, caption)
			}
		}
	})
}
