package modes_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

// watch runs the command again and again until every mode that can be found is found. Each of
// its findings above info must belong to a mode, and be one that the mode should show.
func watch(t *testing.T, modes []mode, outcomes map[string]*outcome) {
	end := time.Now().Add(foundWithin)
	told := map[string]bool{}
	for {
		report := diagnosed(t, cluster.Kubeconfig, 1)
		if !report.Complete {
			t.Fatalf("the admin cannot read everything: %v", report.Gaps)
		}
		for text, f := range unexpected(report, modes, outcomes) {
			if !told[text] {
				told[text] = true
				t.Errorf("%s: %s, %s", text, f.Message, f.Evidence)
			}
		}
		missing := ""
		for _, m := range modes {
			o := outcomes[m.name]
			o.note(report, m)
			for _, fault := range o.answers(report, m) {
				if !told[fault] {
					told[fault] = true
					t.Error(fault)
				}
			}
			if o.awaited() {
				missing += " " + m.name
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			t.Errorf("not found within %s:%s", foundWithin, missing)
			return
		}
		time.Sleep(lookEvery)
	}
}

// unexpected are the findings above info that no mode accounts for, by a text that is the same in
// each look. The remainder is right only until the cause is named.
func unexpected(report finding.Report, modes []mode, outcomes map[string]*outcome) map[string]finding.Finding {
	texts := map[string]finding.Finding{}
	for _, f := range report.Findings {
		if f.Severity == finding.Info {
			continue
		}
		owner := slices.IndexFunc(modes, func(m mode) bool { return belongs(f, m) })
		switch {
		case owner < 0:
			texts[fmt.Sprintf("%s of %s belongs to no mode", f.Check, f.Subject)] = f
		case f.Check == diagnose.PodStuck.Name && !outcomes[modes[owner].name].named.seen:
		case f.Check != modes[owner].check && !slices.Contains(modes[owner].also, f.Check):
			texts[fmt.Sprintf("%s: %s of %s is found as well", modes[owner].name, f.Check, f.Subject)] = f
		}
	}
	return texts
}

// belongs reports whether the finding is about an object of the mode.
func belongs(f finding.Finding, m mode) bool {
	about := append([]string{f.Subject.Namespace, f.Subject.Name, string(f.Node), f.PersistentVolume, string(f.Volume)}, f.Pods...)
	return slices.ContainsFunc(about, func(s string) bool { return strings.Contains(s, m.name) })
}

// lookAhead takes a snapshot with the command and diagnoses it as of later moments, minute by
// minute, for the modes that need one, or whose check had started anew at the last look.
func lookAhead(t *testing.T, modes []mode, outcomes map[string]*outcome) {
	file := filepath.Join(t.TempDir(), "snapshot.yaml.gz")
	if r := run(t, cluster.Kubeconfig, "snapshot", file); r.Code != 0 {
		t.Fatalf("snapshot: exit code %d: %s", r.Code, r.Stderr)
	}
	taken := parse[finding.Report](t, run(t, cluster.Kubeconfig, "diagnose", "-f", file, "-o", "json").Stdout).TakenAt
	for later := time.Minute; later <= ahead; later += time.Minute {
		r := run(t, cluster.Kubeconfig, "diagnose", "-f", file, "--now", taken.Add(later).UTC().Format(time.RFC3339), "-o", "json")
		report := parse[finding.Report](t, r.Stdout)
		missing := false
		for _, m := range modes {
			o := outcomes[m.name]
			if !m.later || o.certain.seen && o.present {
				continue
			}
			o.looksAhead = true
			if o.note(report, m); !o.certain.seen || !o.present {
				missing = true
				continue
			}
			for text := range unexpected(only(report, m), modes, outcomes) {
				t.Errorf("after %s %s", o.certain.after, text)
			}
		}
		if !missing {
			return
		}
	}
}

// only is the report with only the mode's findings.
func only(report finding.Report, m mode) finding.Report {
	report.Findings = slices.DeleteFunc(slices.Clone(report.Findings), func(f finding.Finding) bool { return !belongs(f, m) })
	return report
}

// diagnosed runs the command over the whole cluster.
func diagnosed(t *testing.T, kubeconfig string, atMost int, args ...string) finding.Report {
	t.Helper()
	r := run(t, kubeconfig, append([]string{"diagnose", "-o", "json"}, args...)...)
	if r.Code > atMost || r.Stdout == "" {
		t.Fatalf("diagnose %v: exit code %d: %s", args, r.Code, r.Stderr)
	}
	return parse[finding.Report](t, r.Stdout)
}

func run(t *testing.T, kubeconfig string, args ...string) command.Result {
	t.Helper()
	r, err := command.Run(t.Context(), command.Binary, kubeconfig, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return v
}
