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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
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

// TestEachWaitHasItsReason checks that the answer to whether waiting helps is followed by its reason,
// in few words where it does not help, and that "why" has the rest of the reason.
func TestEachWaitHasItsReason(t *testing.T) {
	waits := 0
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		for _, f := range r.Findings {
			waits++
			line := wait(r, f, r.WaitingFor([]finding.Finding{f}))
			reason, more := f.SelfHeals.Reason()
			switch {
			case f.SelfHeals.Will:
				reason, more = f.SelfHeals.Because, ""
			case f.Confidence == finding.Suspected && f.Settles != nil:
				reason, more = onlySuspected, "certain then if "+f.Settles.If
			case f.Confidence == finding.Suspected:
				reason, more = onlySuspected, "suspected, and certain "
			}
			if n := len(strings.Fields(reason)); n > 10 && !f.SelfHeals.Will {
				t.Errorf("%s: a reason of %d words: %s", f.Code, n, reason)
			}
			if text := why(r, f, f.Detail); reason == "" || !strings.Contains(line, ": "+reason) || !strings.Contains(text, more) {
				t.Errorf("%s: wait? %s: no reason %q, or no %q in %q", f.Code, line, reason, more, text)
			}
		}
	})
	if waits < 900 {
		t.Errorf("%d findings show little", waits)
	}
}

// TestWaitsAreMeasuredByOneClock checks that the report on a pod that waits says for how long, as
// trace does, and not how long the finding has held.
func TestWaitsAreMeasuredByOneClock(t *testing.T) {
	differ := 0
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		for _, f := range r.Findings {
			only := alone(r, f)
			pods := only.WaitingFor(only.Findings)
			first := finding.LongestWait(pods)
			if first.Since == nil {
				continue
			}
			if f.Since != nil && !f.Since.Equal(first.Since) {
				differ++
			}
			told, waited := tell(only, only.Findings), ago(r.TakenAt.Sub(first.Since.Time))
			want := "waiting " + waited
			if text := told.wait + told.who; !strings.Contains(text, want) || len(pods) == 1 && strings.Contains(text, "began") {
				t.Errorf("%s: %q is neither in %q nor in %q, or one of them has another time", f.Code, want, told.wait, told.who)
			}
		}
	})
	if differ < 100 {
		t.Errorf("only %d pods have waited for longer or shorter than their finding holds", differ)
	}
}

// TestNobodyIsToldOnlyToWait checks that a finding about a pod that is stuck has something to do now
// beside to wait, until a repair is allowed or for anything else.
func TestNobodyIsToldOnlyToWait(t *testing.T) {
	late := 0
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		for _, f := range r.Findings {
			if !f.Severity.AtLeast(finding.Warning) || !slices.ContainsFunc(r.WaitingFor([]finding.Finding{f}), func(w finding.Waiting) bool { return w.Verdict == finding.Stuck }) {
				continue
			}
			late++
			if !slices.ContainsFunc(finding.ActionsOf(f, r.TakenAt.Time), func(a finding.Action) bool { return a.Kind != finding.Wait && a.When != finding.Later }) && refused(f.Repair) == "" ||
				f.Confidence == finding.Suspected && len(finding.ActionsOf(f, r.TakenAt.Time)) == 0 {
				t.Errorf("%s: only to wait: %+v", f.Code, tell(r, []finding.Finding{f}).do)
			}
		}
	})
	if late < 300 {
		t.Errorf("only %d findings are about pods that are stuck", late)
	}
}

// TestEachTraceQuotesOnce checks that a trace has each message about a stage once, however many
// volumes wait for it.
func TestEachTraceQuotesOnce(t *testing.T) {
	quotes, shared := 0, 0
	look := func(t *testing.T, c corpusCase) {
		for _, w := range c.report.Waiting {
			i := slices.IndexFunc(c.read.Pods, func(pod *corev1.Pod) bool { return pod.Namespace+"/"+pod.Name == w.Pod })
			doc := diagnose.TracePod(c.read, c.read.Pods[i], diagnose.Options{Reconcile: c.settings, Checks: []check.Check{}})
			for _, v := range doc.Volumes {
				v.Name += "-too"
				doc.Volumes = append(doc.Volumes, v)
			}
			var b strings.Builder
			if err := TraceFormats.Print(&b, "table", []trace.Document{doc}, Options{}); err != nil {
				t.Fatal(err)
			}
			shared += strings.Count(b.String(), "the same as for volume ")
			at, seen := "", map[string]bool{}
			for line := range strings.Lines(b.String()) {
				if strings.HasPrefix(line, "    at ") {
					at = line
				} else if strings.HasPrefix(line, "    said ") {
					quotes++
					if seen[at+line] {
						t.Errorf("pod %s: twice %s:\n%s", w.Pod, line, b.String())
					}
					seen[at+line] = true
				}
			}
		}
	}
	eachCase(t, look)
	all, err := threads()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		look(t, c)
	}
	if quotes < 500 || shared < 500 {
		t.Errorf("%d quotations, %d shared", quotes, shared)
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
// --apply shows a command, a button or any words of it: beside it only looks have commands. They show
// the reason, and what would make the repair safe.
func TestNothingForWhatIsRefused(t *testing.T) {
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
			if !strings.Contains(said, Safe(reason)) || !saysWhatIsSafe(f, guard, reason, said) || strings.Contains(said, guard+": ") || offers.MatchString(said) {
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
					if n := strings.Count(text, `class="command"`); n != lookCommands(f, r.TakenAt.Time) {
						t.Errorf("%s: %d commands, of which %d look", f.Code, n, lookCommands(f, r.TakenAt.Time))
					}
				}
				text = strings.ReplaceAll(text, `\n`, "\n") // in a string of SARIF or JSON
				if m := offers.FindString(text); m != "" {
					t.Errorf("%s: %s offers %q although %s", f.Code, format, m, reason)
				}
			}
			reasons := []string{reason}
			// "why" has the rest
			if strings.HasPrefix(reason, "the cause is only suspected; it is ") {
				reasons = []string{"certain then if " + f.Settles.If, "look again at " + f.Settles.At.UTC().Format(time.RFC3339)}
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

// saysWhatIsSafe reports whether the lines say what would make the refused repair safe: in the words of
// the guard or, where the advice has a step for that already, by that step, for each object that the
// guard's reason names. What ends by itself is waited for.
func saysWhatIsSafe(f finding.Finding, guard, reason, said string) bool {
	if strings.Contains(said, Safe(f.Repair.SafeOnce)) {
		return true
	}
	if f.SelfHeals.Will {
		return strings.Contains(said, "wait")
	}
	own := stepsOfGuards[guard]
	if own.step == "" {
		return false
	}
	objects := own.objects.FindAllStringSubmatch(reason, -1)
	for _, m := range objects {
		if !strings.Contains(said, own.step+m[1]+own.rest) {
			return false
		}
	}
	return len(objects) > 0
}

// stepsOfGuards are the steps of an advice that do what a guard asks for: each with the objects in the
// guard's reason, and the words before and after an object.
var stepsOfGuards = map[string]struct {
	objects    *regexp.Regexp
	step, rest string
}{
	"no-live-pod":  {podName, "save the data of pod ", " and end it"},
	"only-waiting": {podName, "delete pod ", " ("},
	"not-alive":    {regexp.MustCompile(`alive as node (\S+)`), "drain ", " and restart machine "},
	"disk-stays":   {regexp.MustCompile(`^volume (\S+)`), "set the reclaim policy of volume ", " to Retain"},
}

var podName = regexp.MustCompile(`\b([a-z0-9-]+/[a-z0-9.-]+)`)

// TestSaysWhatIsSafe checks saysWhatIsSafe against advice that leaves out one of two pods, or names
// another object.
func TestSaysWhatIsSafe(t *testing.T) {
	for name, c := range map[string]struct {
		guard, reason, said string
		want                bool
	}{
		"its words":       {"any", "why", "to make it safe: end its pods there", true},
		"nothing":         {"any", "why", "see why", false},
		"a step":          {"only-waiting", "pod a/b on node n1 uses the volume", "delete pod a/b (1 container runs)", true},
		"of another pod":  {"only-waiting", "pod a/b on node n1 uses the volume", "delete pod a/c (1 container runs)", false},
		"one of two":      {"no-live-pod", "used on node n1 for a/b, a/c", "save the data of pod a/b and end it", false},
		"another machine": {"not-alive", "the machine of node n1 is alive as node n3 (x)", "drain n1 and restart machine n1", false},
	} {
		f := finding.Finding{Repair: &finding.Repair{SafeOnce: "end its pods there"}}
		if got := saysWhatIsSafe(f, c.guard, c.reason, c.said); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestCommandsFollowTheirSentences checks that each format for people shows the steps in their order, so
// that each command stands under the sentence of what it does.
func TestCommandsFollowTheirSentences(t *testing.T) {
	several := 0
	eachReport(t, func(t *testing.T, _ string, r *finding.Report) {
		for _, f := range r.Findings {
			only := alone(r, f)
			steps := tell(only, only.Findings).do
			if i := slices.IndexFunc(steps, func(s step) bool { return s.command != "" }); i < 0 || i+1 >= len(steps) {
				continue
			}
			several++
			for _, format := range []string{"table", "wide", "html", "markdown", "junit", "sarif"} {
				text := shownText(pipe(t, format, only))
				for _, s := range steps {
					part := shownText(s.text + s.command)
					_, after, found := strings.Cut(text, part)
					if !found {
						t.Errorf("%s: %s does not show in its place: %s%s", f.Code, format, s.text, s.command)
						break
					}
					text = after
				}
			}
		}
	})
	if several < 50 {
		t.Errorf("only %d findings have a step after a command", several)
	}
}

// offers matches a command that writes.
var offers = regexp.MustCompile(`kubectl [^\n]*(--apply\b|\b(delete|patch|taint|annotate|replace|create|edit)\b)[^\n]*|apply the repair`)

// lookCommands is the number of the finding's commands that change nothing.
func lookCommands(f finding.Finding, at time.Time) (n int) {
	for _, a := range finding.ActionsOf(f, at) {
		if a.Kind == finding.Look && a.Command != "" {
			n++
		}
	}
	return n
}

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
		`"no room"`:                         {Text: `resize volume "pv-data" by resizer "ebs.csi.aws.com" failed: rpc error: code = Internal desc = no room`},
		`"resize volume failed: no room"`:   {Text: "resize volume failed: no room"},
		`"no such disk" (3m ago, 11 times)`: {Text: "no such disk", By: "driver x", At: &at, Count: 11},
		`"no such disk" (3m ago)`:           {Text: "no such disk", At: &at, Count: 1},
	} {
		if got := quoted(q, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSaidOfACase: each sentence stands where it is true, and not in the case beside it.
func TestSaidOfACase(t *testing.T) {
	told := map[string]string{}
	eachReport(t, func(t *testing.T, name string, r *finding.Report) { told[name] = pipe(t, "table", r) })
	for _, c := range []struct{ sentence, there, notThere string }{
		{"\n1 cause, 1 pod is stuck: 1 error, 0 warnings, 1 info", "vd301-mount-fails-now", "vd301-mount-failed-before"}, // the info is no cause
		{"\n1 cause: 0 errors, 0 warnings, 3 info", "vd118-near-one-node", "vd301-mount-fails-now"},                      // a report of infos has causes
		{"end its pods on the other node (cannot be undone); diagnose again", "vd112-attached-elsewhere", "vd112-removal-seen"},
		{"diagnose again", "vd112-attached-elsewhere", "vd103-under-a-running-pod"}, // another step follows
		{"must take it off (began 1h ago)", "vd110-time-of-the-taint", "vd110-in-use"},
		{"diagnose again", "vd112-attached-elsewhere", "vd125-near-same-machine"},       // a look allows nothing
		{"must take it off (age not known)", "vd110-in-use", "vd110-time-of-the-taint"}, // nothing tells when the taint was set
		{"register again (age not known)", "vd309-two-ids", "vd309-annotation-lost"},    // an info has no age
		{"stays Terminating (age not known)", "vd614-plugin-evicted", "vd614-pod-cannot-go"},
		{"where it is detached, delete pod default/web-0", "vd308-storage-runs", "vd308-storage-attached"},
		{"no object has the handle of its disk", "vd119-forgotten", "vd119-handle-known"},
		{"(2m ago, 12 times)", "vd404-told-twelve-times", "vd404-told-of-another"},
		{"(began 6m ago)", "vd101-volume-terminating", "vd101-list-just-emptied"},
		{"or, to have it sooner: make sure", "vd102-count-down", "vd102-overdue"},
		{"(can be undone)", "vd307-new-machine", "vd410-volume-gone"}, // what a person makes needs no word on undo
	} {
		if there, ok := told[c.there]; !ok || !strings.Contains(there, c.sentence) {
			t.Errorf("%s does not say %q:\n%s", c.there, c.sentence, there)
		}
		if beside, ok := told[c.notThere]; !ok || strings.Contains(beside, c.sentence) {
			t.Errorf("%s says %q:\n%s", c.notThere, c.sentence, beside)
		}
	}
	if strings.Contains(told["vd308-storage-runs"], "to make it safe") {
		t.Errorf("the end of the pod is told twice:\n%s", told["vd308-storage-runs"])
	}
}
