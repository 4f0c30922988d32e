package cmd

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/explain"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// FuzzTarget compares KIND/NAME arguments with their parts: an accepted one names one kind
// and exactly the name after the slash.
func FuzzTarget(f *testing.F) {
	for _, arg := range []string{"pod/web-0", "PVC/data", "va/csi-1", "no/n1", "pv/", "/a", "pod", "pods/a/b", "svc/a", "pod/ a", "node/\u202en1", ""} {
		f.Add(arg, "shop")
	}
	f.Fuzz(func(t *testing.T, arg, namespace string) {
		got, err := parseTarget(arg, namespace)
		if err != nil {
			return
		}
		kind, name, found := strings.Cut(arg, "/")
		if !found || name == "" || strings.Contains(name, "/") || got.name.Name != name || kindNames[strings.ToLower(kind)] != got.kind {
			t.Fatalf("%q is read as %+v", arg, got)
		}
		if got.name.Namespace != "" && got.name.Namespace != namespace {
			t.Fatalf("%q in %q is read as %+v", arg, namespace, got)
		}
		if owner := ownerNames[strings.ToLower(kind)]; (got.group != nil) != (owner != "") {
			t.Fatalf("%q is read as %+v", arg, got)
		} else if owner != "" {
			return
		}
		again, err := parseTarget(string(got.kind)+"/"+got.name.Name, namespace)
		if err != nil || again.String() != got.String() {
			t.Fatalf("%+v is written and read again as %+v, %v", got, again, err)
		}
	})
}

// FuzzExplain compares the results of explain with the pages: a page that is shown has the
// name, and each page of a list has a word of the text.
func FuzzExplain(f *testing.F) {
	for _, words := range []string{"VD301", "strip-finalizer", "already attached", "İ", "multi-attach ERROR", "nothing has this", " ", "-", "", "\x1b[31m", "ſ", "K"} {
		f.Add(words)
	}
	f.Fuzz(func(t *testing.T, words string) {
		var out bytes.Buffer
		c := newExplain(&globalFlags{color: "never"}, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: io.Discard})
		c.SetArgs([]string{"--", words})
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		c.SilenceErrors, c.SilenceUsage = true, true
		err := c.Execute()
		shown := out.String()
		if err != nil {
			if shown != "" {
				t.Fatalf("an error, and %q", shown)
			}
			return
		}
		for _, p := range explain.Pages() {
			if shown == p.Text {
				if !strings.EqualFold(p.Name, words) && !strings.EqualFold(p.Code, words) {
					t.Fatalf("the page %s for %q", p.Name, words)
				}
				return
			}
		}
		listed := 0
		for _, p := range explain.Pages() {
			if !strings.Contains(shown, p.Name+"\n       "+p.Title+"\n") {
				continue
			}
			listed++
			about := strings.ToLower(p.Name + " " + p.Title + " " + p.Text)
			if !slices.ContainsFunc(wordsOf.FindAllString(strings.ToLower(words), -1), func(word string) bool { return strings.Contains(about, word) }) &&
				!strings.Contains(shown, "explain "+p.Code+"\n") {
				t.Fatalf("%q: page %s is listed and has none of the words", words, p.Name)
			}
		}
		if strings.TrimSpace(words) != "" && listed > 5 {
			t.Fatalf("%q: %d pages are listed", words, listed)
		}
	})
}

var wordsOf = regexp.MustCompile(`[\pL\pN]+`)

// FuzzReadReport compares a saved report with one place changed with its own JSON: an
// accepted report is the same when it is printed and read again, prints in every format, and
// controls no terminal.
func FuzzReadReport(f *testing.F) {
	reports := savedReports(f)
	var own []string // the texts of the checks' pages, which are in no report
	for _, text := range reports {
		for _, printed := range toldOf(f, text) {
			own = append(own, ordersIn(printed)...)
		}
	}
	for i := range reports {
		f.Add(uint8(i), uint16(0), uint8(0), "")
		for j, insert := range []string{`\u001b[31m`, `\u202e`, `"`, "null", "[]", "{}", "-1", "1e999", `\ud800`, "\xff", `"x":1,`, `</script>`, `kubectl exec pod/a -- rm -rf /; `, `kubectl --server=https://evil.test get pods`, `--apply --yes `} {
			f.Add(uint8(i), uint16(181*j), uint8(j), insert)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, cut uint8, insert string) {
		text := reports[int(which)%len(reports)]
		from := int(at) % (len(text) + 1)
		text = text[:from] + insert + text[min(from+int(cut), len(text)):]
		r, err := readReport("-", []byte(text))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("not one line: %q", err)
			}
			return
		}
		var once, twice bytes.Buffer
		for _, format := range output.ReportFormats.Names() {
			var b bytes.Buffer
			if err := output.ReportFormats.Print(&b, format, r, output.Options{}); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if i := bytes.IndexFunc(b.Bytes(), func(r rune) bool { return r != '\n' && r != '\t' && unicode.Is(unicode.Cc, r) }); i >= 0 {
				t.Fatalf("%s lets a control character through: %q", format, b.Bytes()[i:min(i+20, b.Len())])
			}
		}
		if err := output.ReportFormats.Print(&once, "json", r, output.Options{}); err != nil {
			t.Fatal(err)
		}
		again, err := readReport("-", once.Bytes())
		if err != nil {
			t.Fatalf("what is printed is refused: %v", err)
		}
		if err := output.ReportFormats.Print(&twice, "json", again, output.Options{}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once.Bytes(), twice.Bytes()) || !json.Valid(once.Bytes()) {
			t.Fatalf("another report comes back:\n%s\n%s", once.String(), twice.String())
		}
		for _, printed := range toldOf(t, text) {
			for _, order := range ordersIn(printed) {
				if !slices.Contains(own, order) {
					t.Fatalf("%s is shown", order)
				}
			}
		}
	})
}

// toldOf is the saved report in each format for people.
func toldOf(t testing.TB, text string) (printed []string) {
	told, err := distrusted("saved", []byte(text))
	if err != nil {
		t.Fatalf("what is read is not told: %v", err)
	}
	for _, format := range forPeople {
		var b bytes.Buffer
		if err := output.ReportFormats.Print(&b, format, told, output.Options{}); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		printed = append(printed, b.String())
	}
	return printed
}

// savedReports are reports as -o json writes them.
func savedReports(f *testing.F) (texts []string) {
	for _, name := range []string{"vd103-driver-refuses", "vd101-many-nodes"} {
		c, err := testcases.Load(name)
		if err != nil {
			f.Fatal(err)
		}
		var out, errOut bytes.Buffer
		Main([]string{"diagnose", "--filename", "-", "-o", "json"}, bytes.NewReader(c.Cluster), &out, &errOut)
		if r := (finding.Report{}); json.Unmarshal(out.Bytes(), &r) != nil || len(r.Findings) == 0 {
			f.Fatalf("%s: %s", out.String(), errOut.String())
		}
		texts = append(texts, out.String())
	}
	return texts
}
