package output

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// nameFrom is the length from which a word counts as a name, and is never broken.
const nameFrom = 24

// tooWide reports whether a line is wider than the terminal for another reason than a command or a
// name.
func tooWide(line string) bool {
	if displaywidth.String(line) <= terminal.Width {
		return false
	}
	if text := strings.TrimPrefix(strings.TrimSpace(line), "do "); strings.HasPrefix(strings.TrimSpace(text), "kubectl ") || strings.HasPrefix(text, "printf ") {
		return false
	}
	columns, names := 0, 0
	for _, word := range strings.Fields(line) {
		if w := displaywidth.String(word); w < nameFrom {
			columns += w + 1
		} else {
			names++
		}
	}
	return names == 0 || columns > terminal.Width
}

// eachReport calls check with each report of the corpus and of the threads that has findings.
func eachReport(t *testing.T, check func(t *testing.T, name string, r *finding.Report)) {
	t.Helper()
	eachCase(t, func(t *testing.T, c corpusCase) {
		if len(c.report.Findings) > 0 {
			check(t, c.name, c.report)
		}
	})
	all, err := threads()
	if err != nil || len(all) < 60 {
		t.Fatalf("%d threads: %v", len(all), err)
	}
	for _, c := range all {
		if len(c.report.Findings) > 0 {
			t.Run(c.name, func(t *testing.T) { check(t, c.name, c.report) })
		}
	}
}

// threads are the diagnosed clusters of testdata/threads. They are computed once.
var threads = sync.OnceValues(func() ([]corpusCase, error) {
	paths, err := filepath.Glob("../testdata/threads/*.txtar")
	if err != nil {
		return nil, err
	}
	var all []corpusCase
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			return nil, err
		}
		s, _, err := snapshot.Read(filepath.Base(path), bytes.NewReader(archive.Files[0].Data), snapshot.ReadOptions{})
		if err != nil {
			return nil, err
		}
		all = append(all, examined(filepath.Base(path), s, reconcile.Options{}))
	}
	return all, nil
})

// alone returns the report as if this were its only finding.
func alone(r *finding.Report, f finding.Finding) *finding.Report {
	return r.Keep(func(other finding.Finding) bool { return other.Fingerprint == f.Fingerprint })
}

// firstStep is the last line of the report in which the first step may stand.
const firstStep = 10

// TestActionComesFirst checks, on a terminal of the default width, that the first step stands
// within the first ten lines of the report of every finding that has a step. The median report has
// at most sixteen lines. No line is wider than the terminal except for names and commands, none of
// which is cut or broken.
func TestActionComesFirst(t *testing.T) {
	lengths := map[int][]int{}
	actions, without := 0, 0
	eachReport(t, func(t *testing.T, name string, r *finding.Report) {
		text := string(printed(t, "table", r))
		for _, columns := range []int{80, 100, 120} {
			var b bytes.Buffer
			if err := ReportFormats.Print(&b, "table", r, Options{Width: columns}); err != nil {
				t.Fatal(err)
			}
			lengths[columns] = append(lengths[columns], bytes.Count(b.Bytes(), []byte("\n")))
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); tooWide(line) {
				t.Errorf("%d columns: %s", displaywidth.String(line), line)
			}
		}
		if m := cutWord.FindString(text); m != "" {
			t.Errorf("a word is cut: %q\n%s", m, text)
		}
		for _, f := range r.Findings {
			only := alone(r, f)
			if len(tell(only, only.Findings).do) == 0 {
				without++
				continue
			}
			actions++
			text := string(printed(t, "table", only))
			lines := strings.Split(text, "\n")
			if at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  do ") }); at < 0 || at >= firstStep {
				t.Errorf("%s: the first thing to do stands in line %d:\n%s", f.Code, at+1, text)
			}
		}
	})
	for columns, most := range map[int]int{80: 16, 100: 16, 120: 16} {
		counts := slices.Sorted(slices.Values(lengths[columns]))
		median := counts[len(counts)/2]
		t.Logf("%d columns, %d reports: median %d lines, nine tenths in %d", columns, len(counts), median, counts[len(counts)*9/10])
		if median > most {
			t.Errorf("at %d columns half of the reports have %d lines or more", columns, median)
		}
	}
	if actions < 500 || without > 0 {
		t.Errorf("%d findings have something to do, and %d have not", actions, without)
	}
}

// cutWord matches the mark of a cut within a word.
var cutWord = regexp.MustCompile(`\S…|…\S`)

// TestNothingIsCut checks that each sentence is one line in a pipe, and complete on terminals of
// any width.
func TestNothingIsCut(t *testing.T) {
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		for _, tree := range r.Roots() {
			text, told := pipe(t, "table", r), tell(r, tree)
			screens := []string{words(text)}
			for _, columns := range []int{80, 100, 120} {
				var b strings.Builder
				if err := ReportFormats.Print(&b, "table", r, Options{Width: columns}); err != nil {
					t.Fatal(err)
				}
				screens = append(screens, words(b.String()))
			}
			first := told.first
			if told.who != "" {
				first = "" // it names one of those for whom the headline speaks
			}
			for _, s := range []string{told.what + told.sums, told.who, first, told.why, told.wait, told.dont, told.said} {
				if !strings.Contains(text, strings.Join(strings.Fields(Safe(s)), " ")) {
					t.Errorf("lacks %q:\n%s", s, text)
				}
				for _, screen := range screens {
					if !strings.Contains(screen, words(Safe(s))) {
						t.Errorf("lacks %q:\n%s", s, screen)
					}
				}
			}
			for _, screen := range screens {
				if strings.Contains(screen, more) && !strings.Contains(words(string(printed(t, "json", r))), more) {
					t.Errorf("something is cut:\n%s", screen)
				}
			}
		}
	})
}

// TestHeadlines checks that a headline has at most sixteen words, including its counts, and that
// the headlines of two findings of one check differ if the findings do. What a headline leaves out,
// the detail and the quoted message, is complete on a terminal of any width.
func TestHeadlines(t *testing.T) {
	headlines := 0
	look := func(t *testing.T, r *finding.Report) {
		for _, c := range r.Causes() {
			headlines++
			told := tellShared(r, c)
			if n := len(strings.Fields(told.what + told.sums)); n > finding.MostWords {
				t.Errorf("%s: %d words: %s%s", told.Code, n, told.what, told.sums)
			}
		}
		about := map[string]finding.Finding{}
		for _, f := range r.Findings {
			if strings.ContainsAny(f.Message, "\n\r") || strings.HasSuffix(f.Message, ".") || len(strings.Fields(f.Message)) > finding.MostWords {
				t.Errorf("%s: no headline: %q", f.Code, f.Message)
			}
			if other, there := about[f.Message]; there && other.Code == f.Code && (other.Subject.Kind == f.Subject.Kind && other.Subject != f.Subject && other.Node != f.Node) {
				t.Errorf("%s: one headline for %s and %s: %s", f.Code, other.Subject, f.Subject, f.Message)
			}
			about[f.Message] = f
		}
	}
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		look(t, r)
		for _, f := range r.Findings {
			only := alone(r, f)
			for _, columns := range []int{80, 100, 120} {
				var b strings.Builder
				if err := ReportFormats.Print(&b, "table", only, Options{Width: columns}); err != nil {
					t.Fatal(err)
				}
				screen := words(b.String())
				said := ""
				if f.Said != nil {
					said = fmt.Sprintf("%q", wrapper.ReplaceAllString(f.Said.Text, ""))
				}
				for _, s := range []string{f.Message, f.Detail, said} {
					if !strings.Contains(screen, words(Safe(s))) {
						t.Errorf("%s at %d columns: lacks %q:\n%s", f.Code, columns, s, b.String())
					}
				}
			}
		}
	})
	look(t, large(t, 200))
	look(t, manyOfOneCause(t, 200))
	if headlines < 900 {
		t.Errorf("only %d headlines", headlines)
	}
}

// words returns the text with each run of white space replaced by one blank.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func pipe(t *testing.T, format string, r *finding.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := ReportFormats.Print(&b, format, r, Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestEachWaitHasItsReason checks that a report says why waiting helps, why it does not, or when
// that will be known.
func TestEachWaitHasItsReason(t *testing.T) {
	waits := 0
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		for _, f := range r.Findings {
			waits++
			text, reason := why(r, f, f.Detail), f.SelfHeals.Because
			switch {
			case f.SelfHeals.Will:
				text = wait(r, f)
			case f.Confidence == finding.Suspected:
				reason = "suspected, and certain "
			}
			if reason == "" || !strings.Contains(text, reason) {
				t.Errorf("%s: wait? %s: no reason %q in %q", f.Code, wait(r, f), reason, text)
			}
		}
	})
	if waits < 900 {
		t.Errorf("%d findings show little", waits)
	}
}

// TestNothingIsSaidTwice checks that "why" contains each sentence once.
func TestNothingIsSaidTwice(t *testing.T) {
	eachReport(t, func(t *testing.T, name string, r *finding.Report) {
		for _, f := range r.Findings {
			clauses := strings.Split(why(r, f, f.Detail), "; ")
			slices.Sort(clauses)
			for i, clause := range clauses[1:] {
				if clause == clauses[i] {
					t.Errorf("%s: %s says twice why: %s", name, f.Code, clause)
				}
			}
		}
	})
}

// TestNothingForWhatIsRefused checks that for a repair that a guard refuses, neither a format nor
// --apply shows a command, a button or any words of it. They show the reason, and what would make
// the repair safe.
func TestNothingForWhatIsRefused(t *testing.T) {
	long.Test(t)
	refusals := 0
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		for _, f := range r.Findings {
			reason := refused(f.Repair)
			if reason == "" {
				continue
			}
			refusals++
			guard, _, _ := strings.Cut(f.Repair.BlockedBy, ":")
			said := strings.Join(NotRepaired(f), "\n")
			if !strings.Contains(said, Safe(reason)) || !strings.Contains(said, Safe(f.Repair.SafeOnce)) || strings.Contains(said, guard+": ") || offers.MatchString(said) {
				t.Errorf("%s: --apply says %q of %q", f.Code, said, f.Repair.BlockedBy)
			}
			for _, lower := range f.Repair.Lower {
				if strings.HasPrefix(lower.Because, guard+": ") {
					t.Errorf("%s: the name of a guard stands before its meaning: %s", f.Code, lower.Because)
				}
			}
			only := alone(r, f)
			for _, format := range ReportFormats.Names() {
				text := pipe(t, format, only)
				if format == "sarif" { // the rules contain the pages of the checks
					_, text, _ = strings.Cut(text, `"results": [`)
				}
				// the page ends with the pages of the checks, after a note that their commands
				// are not for these findings
				if format == "html" {
					before, pages, found := strings.Cut(text, `<section aria-labelledby="pages">`)
					if !found || !strings.Contains(pages, "Whether a command is safe here, the finding says") || strings.Contains(pages, `class="command"`) {
						t.Errorf("%s: the pages of the checks are not set apart", f.Code)
					}
					text = before
				}
				if m := offers.FindString(text); m != "" {
					t.Errorf("%s: %s offers %q although %s", f.Code, format, m, reason)
				}
			}
			reasons := []string{reason}
			// "why" has the rest
			if at, suspected := strings.CutPrefix(reason, "the cause is only suspected; it is "); suspected {
				reasons = []string{"suspected, and " + at, "nothing with --apply before " + f.Settles.At.UTC().Format(time.RFC3339)}
			}
			for _, format := range []string{"table", "wide", "html", "markdown", "junit", "sarif"} {
				text := shownText(pipe(t, format, only))
				for _, reason := range reasons {
					if !strings.Contains(text, shownText(reason)) {
						t.Errorf("%s: %s lacks the reason %q", f.Code, format, reason)
					}
				}
			}
		}
	})
	if refusals < 50 {
		t.Errorf("only %d repairs are refused", refusals)
	}
}

// offers matches a command that writes, and the element that becomes a button.
var offers = regexp.MustCompile(`kubectl [^\n]*(--apply\b|\b(delete|patch|taint|annotate|replace|create|edit)\b)[^\n]*|class="command"|apply the repair`)

// shownText removes from the text everything that a format adds to it.
func shownText(s string) string {
	s = strings.NewReplacer("&#34;", "", "&#39;", "", "&quot;", "", "&#xA;", "", `\n`, "", "<!-- -->", "", "&lt;", "", "&gt;", "", "&amp;", "", "] (", "](").Replace(s)
	return notWord.ReplaceAllString(s, "")
}

var notWord = regexp.MustCompile(`[^\pL\pN]+`)

// TestSaid checks that the line "said" quotes a message in the evidence, and that nothing else in
// the telling repeats it.
func TestSaid(t *testing.T) {
	lines := 0
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		for _, f := range r.Findings {
			if f.Said == nil {
				continue
			}
			lines++
			if !slices.ContainsFunc(f.Evidence, func(e finding.Evidence) bool { return strings.Contains(e.Value, f.Said.Text) }) {
				t.Errorf("%s: nothing shows that somebody said %q", f.Code, f.Said.Text)
			}
			if strings.Contains(f.Text(), f.Said.Text) && len(strings.Fields(f.Said.Text)) > 1 {
				t.Errorf("%s: %q stands in %q, too", f.Code, f.Said.Text, f.Text())
			}
		}
	})
	if lines < 100 {
		t.Errorf("only %d findings quote somebody", lines)
	}
	at := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	now := metav1.NewTime(at.Add(3 * time.Minute))
	for want, q := range map[string]*finding.Quote{
		"":                                  nil,
		`"no such disk"`:                    {Text: "rpc error: code = Internal desc = no such disk"},
		`"no such disk" (3m ago, 11 times)`: {Text: "no such disk", By: "driver x", At: &at, Count: 11},
		`"no such disk" (3m ago)`:           {Text: "no such disk", At: &at, Count: 1},
	} {
		if got := quoted(q, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
