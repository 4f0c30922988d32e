package diagnose_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// background is the case into which every other one is set.
const background = "healthy-background"

// corpusCase is one file of testdata/cases: a cluster, and its expected plan and findings.
type corpusCase struct {
	*testcases.Case
	name     string
	settings reconcile.Options
}

func corpus(t testing.TB) []*corpusCase {
	t.Helper()
	all, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	cases := make([]*corpusCase, len(all))
	for i, c := range all {
		cases[i] = &corpusCase{c, c.Name, c.Settings}
	}
	return cases
}

// caseNamed is the case of the corpus with that name.
func caseNamed(t *testing.T, name string) *corpusCase {
	t.Helper()
	cases := corpus(t)
	return cases[slices.IndexFunc(cases, func(c *corpusCase) bool { return c.name == name })]
}

// snapshot is the case's cluster, as a copy that the test may change.
func (c *corpusCase) snapshot(t testing.TB) *snapshot.Snapshot {
	t.Helper()
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (c *corpusCase) diagnose(s *snapshot.Snapshot) *finding.Report {
	return diagnose.Diagnose(s, diagnose.Options{Reconcile: c.settings})
}

// near is the code that a near miss must not have; "" for other cases.
func (c *corpusCase) near() finding.Code {
	if code, rest, _ := strings.Cut(c.name, "-"); strings.HasPrefix(rest, "near-") {
		return finding.Code(strings.ToUpper(code))
	}
	return ""
}

// fires is the code that a case must have; "" for near misses and cases without a code.
func (c *corpusCase) fires() finding.Code {
	code, _, _ := strings.Cut(c.name, "-")
	if c.near() != "" || !strings.HasPrefix(code, "vd") {
		return ""
	}
	return finding.Code(strings.ToUpper(code))
}

func (c *corpusCase) healthy() bool { return strings.HasPrefix(c.name, "healthy-") }

func TestGeneratedCorpus(t *testing.T) {
	cases := corpus(t)
	around := cases[slices.IndexFunc(cases, func(c *corpusCase) bool { return c.name == background })]
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := c.snapshot(t)
			world := reconcile.NewWorld(s, c.settings)
			plan := world.Reconcile()
			report := diagnose.Build(facts.NewView(s, world, plan), diagnose.Request{})
			c.want(t, "want-plan.txt", planText(world, plan))
			c.want(t, "want-findings.txt", findingsText(report, true))
			if golden.Update() {
				golden.Keep(c.Path, txtar.Format(c.Archive))
			}

			codes := map[finding.Code]bool{}
			for _, f := range report.Findings {
				codes[f.Code] = codes[f.Code] || c.near() == "" || f.Confidence != finding.Suspected
			}
			switch {
			case c.healthy() && len(codes) > 0:
				t.Error("a healthy cluster has findings")
			case c.near() != "" && codes[c.near()]:
				t.Errorf("the near miss is taken for %s", c.near())
			case c.fires() != "" && !codes[c.fires()]:
				t.Errorf("%s is not found", c.fires())
			case !c.healthy() && c.near() == "" && c.fires() == "":
				t.Error("name the case vdNNN-..., vdNNN-near-... or healthy-...")
			}
			if c.name != background {
				set := c.diagnose(testcases.Cross(s, around.snapshot(t)))
				if diff := gocmp.Diff(findingsText(certain(report), false), findingsText(certain(set), false)); diff != "" {
					t.Errorf("a healthy cluster around it changes the findings (-alone +around):\n%s", diff)
				}
			}
		})
	}
}

// certain leaves out suspected findings and the remainder: with more objects, such as a lease,
// a stuck pod may get a suspected cause.
func certain(r *finding.Report) *finding.Report {
	left := *r
	left.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f finding.Finding) bool {
		return f.Confidence == finding.Suspected || f.Check == "pod-stuck"
	})
	return &left
}

func TestMain(m *testing.M) { os.Exit(golden.Main(m)) }

func (c *corpusCase) want(t *testing.T, name, got string) {
	t.Helper()
	if golden.Update() {
		if i := slices.IndexFunc(c.Archive.Files, func(f txtar.File) bool { return f.Name == name }); i >= 0 {
			c.Archive.Files[i].Data = []byte(got)
		} else {
			c.Archive.Files = append(c.Archive.Files, txtar.File{Name: name, Data: []byte(got)})
		}
		return
	}
	if diff := gocmp.Diff(string(c.File(name)), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// planText has one line for each decision, change of a node's status and skipped volume.
func planText(world *reconcile.World, plan *reconcile.Plan) string {
	var b strings.Builder
	for _, d := range plan.Decisions {
		fmt.Fprintf(&b, "%s %s %s %s", d.Verb, d.Reason, d.Volume, d.Node)
		if d.After != 0 {
			fmt.Fprintf(&b, " after=%s", d.After)
		}
		if d.VolumeAttachment != "" {
			fmt.Fprintf(&b, " attachment=%s", d.VolumeAttachment)
		}
		if len(d.Holders) > 0 {
			fmt.Fprintf(&b, " holders=%v", d.Holders)
		}
		if len(d.Contenders) > 0 {
			fmt.Fprintf(&b, " contenders=%v", d.Contenders)
		}
		b.WriteByte('\n')
	}
	for _, n := range world.NodeStatus(plan) {
		for _, v := range n.Removed {
			fmt.Fprintf(&b, "node %s -%s\n", n.Node, v)
		}
	}
	for _, s := range world.Skipped {
		what := "attachment " + s.VolumeAttachment
		if s.VolumeAttachment == "" {
			what = fmt.Sprintf("pod %s volume %s", s.Pod, s.PodVolume)
		}
		fmt.Fprintf(&b, "skipped %s on %s: %s: %s\n", what, cmp.Or(string(s.Node), "no node"), s.Reason, s.Message)
	}
	return b.String()
}

// findingsText has three lines for each finding, a fourth where it follows from another, and
// one for each skipped check. With advice it also has the cause, the advice and the commands.
// These name other objects of the cluster, such as the pod of a node plugin, and so differ
// where more of it was read.
func findingsText(r *finding.Report, advice bool) string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %s%s\n", label, strings.ReplaceAll(text, "\n", "\n    "))
		}
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s %s %s\n  %s\n", f.Severity, f.Code, f.Check, f.Subject, f.Message)
		line("detail: ", f.Detail)
		if f.Said != nil {
			line("said: ", fmt.Sprintf("%q by %s", f.Said.Text, f.Said.By))
		}
		if f.Settles != nil {
			fmt.Fprintf(&b, "  %s until %s, if %s\n", f.Confidence, f.Settles.At.UTC().Format(time.RFC3339), f.Settles.If)
		}
		heals := "does not heal"
		switch {
		case f.SelfHeals.Will:
			heals = "heals after " + cmp.Or(f.SelfHeals.After, "?")
		case f.SelfHeals.Unknown:
			heals = "not known whether it heals"
		}
		fmt.Fprintf(&b, "  %s: %s\n", heals, f.SelfHeals.Because)
		for _, cause := range r.Findings {
			if f.CausedBy == cause.Fingerprint {
				fmt.Fprintf(&b, "  follows from %s %s\n", cause.Code, cause.Subject)
			}
		}
		if advice {
			line("why: ", f.Cause)
			line("do: ", f.Advice)
			line("by hand: ", f.ByHand)
			for _, command := range f.AdviceCommands {
				line("$ ", command)
			}
		}
	}
	for _, w := range r.Waiting {
		fmt.Fprintf(&b, "waiting %s %s: volume %s, stage %s, on %s\n", w.Verdict, w.Pod, cmp.Or(w.Volume, "-"), w.Stage, cmp.Or(w.Actor, "-"))
	}
	for _, s := range r.SkippedChecks {
		fmt.Fprintf(&b, "skipped %s %s: %s\n", s.Code, s.Check, s.Because)
	}
	return b.String()
}

// remade is the snapshot with other objects and gaps.
func remade(s *snapshot.Snapshot, o snapshot.Objects, gaps []snapshot.Gap) *snapshot.Snapshot {
	made := snapshot.New(s.TakenAt, s.Source, o, gaps)
	made.Backends = s.Backends
	return made
}
