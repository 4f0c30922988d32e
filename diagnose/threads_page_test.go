package diagnose_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
)

// realThreadsPage is generated from testdata/threads.
const realThreadsPage = "../docs/evidence/real-threads.md"

// answer is what the command finds in a thread.
type answer struct {
	score    string
	findings []finding.Finding // those that decide the score
	traces   []string          // the verdicts of trace on the pods that hung
	// unanswered reports that a pod is stuck and no finding of warning or worse names it.
	unanswered bool
}

// The scores, from best to worst.
const (
	scoreCause   = "cause"   // a finding names the cause
	scoreSymptom = "symptom" // another finding of warning or worse names a pod that hung
	scoreSilent  = "silent"  // neither
	scoreWrong   = "wrong"   // an error blames what the thread refutes
)

func (th thread) answer() answer {
	var a answer
	report := diagnose.Diagnose(th.cluster, diagnose.Options{})
	a.score, a.findings = th.score(report)
	for _, name := range th.list("pods") {
		ns, podName, _ := strings.Cut(name, "/")
		pod := th.cluster.Pod(types.NamespacedName{Namespace: ns, Name: podName})
		v := diagnose.TracePod(th.cluster, pod, diagnose.Options{}).Verdict
		if verdict := fmt.Sprintf("%s: %s", v.State, v.Reason); !slices.Contains(a.traces, verdict) {
			a.traces = append(a.traces, verdict)
		}
		if v.State == finding.Stuck && !slices.ContainsFunc(report.Findings, func(f finding.Finding) bool { return warns(f, name) }) {
			a.unanswered = true
		}
	}
	return a
}

func (th thread) score(report *finding.Report) (string, []finding.Finding) {
	pods := th.list("pods")
	filter := func(keep func(finding.Finding) bool) []finding.Finding {
		return slices.DeleteFunc(slices.Clone(report.Findings), func(f finding.Finding) bool { return !keep(f) })
	}
	wrong := filter(func(f finding.Finding) bool {
		return f.Severity == finding.Error && (slices.Contains(th.list("wrong"), f.Check) || th.misread(f))
	})
	cause := filter(func(f finding.Finding) bool {
		return slices.Contains(th.list("expected"), f.Check) && th.means(f, func(a, b driverwords.Meaning) bool { return a == b })
	})
	symptom := filter(func(f finding.Finding) bool {
		return len(pods) == 0 && f.Severity.AtLeast(finding.Warning) || slices.ContainsFunc(pods, func(pod string) bool { return warns(f, pod) })
	})
	switch {
	case len(wrong) > 0:
		return scoreWrong, wrong
	case len(cause) > 0:
		return scoreCause, cause
	case len(symptom) > 0:
		return scoreSymptom, symptom
	}
	return scoreSilent, nil
}

// means reports whether the finding's message has one of the meanings that name the thread's
// cause, or the thread lists none.
func (th thread) means(f finding.Finding, same func(a, b driverwords.Meaning) bool) bool {
	want := th.list("means")
	if len(want) == 0 || f.KnownFrom == nil && !slices.Contains(byWords, f.Check) {
		return true // objects name the cause
	}
	return f.KnownFrom != nil && slices.ContainsFunc(want, func(m string) bool { return same(driverwords.Meaning(m), driverwords.Meaning(f.KnownFrom.Meaning)) })
}

// byWords are the checks whose cause is the meaning of an error message.
var byWords = []string{"attach-refused", "mount-refused", "claim-not-bound", "backend-side-stuck"}

// misread reports whether the finding gives a message a meaning that would mislead people.
func (th thread) misread(f finding.Finding) bool {
	return f.KnownFrom != nil && !th.means(f, driverwords.Near)
}

// warns reports whether a finding of warning or worse names the pod.
func warns(f finding.Finding, pod string) bool {
	return f.Severity.AtLeast(finding.Warning) && slices.Contains(f.Pods, pod)
}

// onlyInfo reports whether the command exits with 0 although it names the cause.
func (a answer) onlyInfo() bool {
	return a.score == scoreCause && !slices.ContainsFunc(a.findings, func(f finding.Finding) bool { return f.Severity.AtLeast(finding.Warning) })
}

// text lists the checks that decide the score.
func (a answer) text() string {
	var said []string
	for _, f := range a.findings {
		if s := fmt.Sprintf("%s %s (%s)", f.Code, f.Check, f.Severity); !slices.Contains(said, s) {
			said = append(said, s)
		}
	}
	return cmp.Or(strings.Join(said, ", "), "nothing")
}

// TestGeneratedThreadsPage writes docs/evidence/real-threads.md from the command's present
// answers. The page records the score, whatever it is: a low one fails nothing.
func TestGeneratedThreadsPage(t *testing.T) {
	got := realThreads(readThreads(t))
	golden.Want(t, realThreadsPage, []byte(got))
}

func realThreads(threads []thread) string {
	scores, drivers := map[string]int{}, map[string]bool{}
	first, now := map[string]map[string]int{}, map[string]map[string]int{}
	excerpts, onlyInfo, unanswered, later, own := 0, 0, 0, 0, 0
	completed := 0
	var rows strings.Builder
	for _, th := range threads {
		a := th.answer()
		scores[a.score]++
		if batch := th.fields["batch"]; batch != "" {
			if first[batch] == nil {
				first[batch], now[batch] = map[string]int{}, map[string]int{}
			}
			later++
			first[batch][th.fields["first"]]++
			now[batch][a.score]++
		}
		if th.fields["own-entry"] != "" {
			own++
		}
		if th.fields["completed"] != "" {
			completed++
		}
		if driver := th.fields["driver"]; !strings.Contains(driver, " ") { // the others say that the thread names no driver
			drivers[driver] = true
		}
		if th.fields["read"] == "excerpt" {
			excerpts++
		}
		if a.onlyInfo() {
			onlyInfo++
		}
		if a.unanswered {
			unanswered++
		}
		url := th.fields["thread"]
		repository, number := threadAddress(url)
		cells := []string{
			fmt.Sprintf("[%s#%s](%s) ([case](../../testdata/threads/%s.txtar), %s)", repository, number, url, th.name, th.fields["read"]),
			th.fields["driver"], th.fields["symptom"], th.fields["conclusion"], a.text(),
			cmp.Or(strings.Join(a.traces, ", "), "no pod hung"), "**" + a.score + "**",
		}
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
		}
		fmt.Fprintf(&rows, "| %s |\n", strings.Join(cells, " | "))
	}
	var b strings.Builder
	var batches strings.Builder
	for _, batch := range slices.Sorted(maps.Keys(first)) {
		for _, run := range []struct {
			what   string
			scores map[string]int
		}{{"at that first run", first[batch]}, {"today", now[batch]}} {
			count := 0
			for _, n := range run.scores {
				count += n
			}
			fmt.Fprintf(&batches, "| %s, %s | %d (%.0f %%) | %d | %d | %d |\n", batch, run.what, run.scores[scoreCause],
				100*float64(run.scores[scoreCause])/float64(count), run.scores[scoreSymptom], run.scores[scoreSilent], run.scores[scoreWrong])
		}
	}
	fmt.Fprintf(&b, realThreadsIntroduction, len(threads), len(drivers), excerpts, len(threads)-excerpts,
		scores[scoreCause], onlyInfo, scores[scoreSymptom], scores[scoreSilent], scores[scoreWrong], unanswered,
		later, batches.String(), own, completed)
	b.WriteString(rows.String())
	return b.String()
}

const realThreadsIntroduction = `# Real threads

Generated by ` + "`make generate`" + ` from testdata/threads.

%d public threads about %d drivers, each rebuilt as a small cluster from what its
participants pasted. Each was read before it was rebuilt: %d in excerpts only, %d
whole. A case is what the thread shows at the time when help was asked for. What
the thread does not show is filled in, and the case says so; in every case the
UIDs, the leases, the CSINodes and the healthy rest of the cluster are filled in.
A release before 1.26, the oldest that the model knows, is rebuilt as 1.26.

No case may be changed to suit a check, and no check to suit a case.

| score | meaning | threads |
| --- | --- | --- |
| cause | a finding names the cause that the thread's participants found | %d, of these %d only for information: exit code 0 |
| symptom | another finding of warning or worse names a pod that hung | %d |
| silent | neither | %d |
| wrong | an error blames something that the thread refutes | %d |

In %d threads a pod that ` + "`trace`" + ` calls stuck is named by no finding of warning or worse.

The command was built on some of these threads. Of %d others, all of 2023 to 2026, the
expectation was written down before the command was run on them for the first time:

| expectation written | cause | symptom | silent | wrong |
| --- | --- | --- | --- | --- |
%s
What is better today comes from rules that hold for every driver; for %d of these threads
words were put into the table, all of them words of tools, and none of one driver alone.
For %d the check that names the cause was added to the expectation after the first run:
the meaning of its words was there before.

A thread whose cause is told by words alone says which meanings of the words name it. A
finding with another meaning counts as a symptom, and as wrong where it sends people
elsewhere.

"Our answer" lists the findings that decide the score. "Trace" is the verdict of
` + "`trace`" + ` on the pods that hung.

| thread | driver | symptom | conclusion | our answer | trace | score |
| --- | --- | --- | --- | --- | --- | --- |
`
