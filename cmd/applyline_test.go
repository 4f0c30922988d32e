package cmd

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	checks "github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestApplyLines: over the corpus a repair has a command line exactly where at most the
// user's consent is missing, and then the line makes the repair.
func TestApplyLines(t *testing.T) {
	long.Test(t)
	made, needy, refused, all := 0, 0, 0, 0
	for _, c := range corpus(t) {
		s := read(t, c)
		s.Source.Context = "prod"
		view, _ := repair.Examine(s, reconcile.Options{}, repair.Consent{}, diagnose.Request{Finish: func(r *finding.Report) { sayApply(r, nil) }})
		for _, f := range view.Report.Findings {
			switch {
			case f.Repair == nil:
				continue
			case f.Repair.Apply == "":
				refused++
				if f.Repair.BlockedBy == "" || len(f.Repair.Commands) > 0 || len(f.Repair.Needs) > 0 {
					t.Errorf("%s: %s has no line: %+v", c.Name, f.Code, f.Repair)
				}
				continue
			}
			made++
			if len(f.Repair.Needs) > 0 {
				needy++
			}
			fields := strings.Fields(f.Repair.Apply)
			if !slices.Contains(fields, "--context=prod") || !slices.Contains(fields, "--apply") {
				t.Errorf("%s: %s: %s", c.Name, f.Code, f.Repair.Apply)
			}
			if f.Repair.ApplyAll != "" {
				all++
				makesAll(t, c.Name, view.Report, f, s)
			}
			if !slices.ContainsFunc(followLine(t, s, consentOf(t, f.Repair.Needs), fields), func(r repair.Repair) bool { return r.Finding.Fingerprint == f.Fingerprint }) {
				t.Errorf("%s: %s: the line does not lead to the repair: %s", c.Name, f.Code, f.Repair.Apply)
			}
		}
	}
	if made < 100 || needy < 10 || refused < 30 || all < 3 {
		t.Errorf("%d lines, %d with the user's word, %d refused, %d for all of a node: this shows little", made, needy, refused, all)
	}
}

// makesAll checks that the line for a whole node makes the repairs of the cause and of its
// consequences, as many as it allows, and no other.
func makesAll(t *testing.T, name string, r *finding.Report, f finding.Finding, s *snapshot.Snapshot) {
	t.Helper()
	want := []string{}
	for _, tree := range r.Roots() {
		for _, other := range tree {
			if tree[0].Fingerprint == f.Fingerprint && sameRepair(f, other) {
				want = append(want, other.Fingerprint)
			}
		}
	}
	fields := strings.Fields(f.Repair.ApplyAll)
	got := []string{}
	made := followLine(t, s, consentOf(t, f.Repair.Needs), fields)
	writes := len(once(made))
	for _, made := range made {
		got = append(got, made.Finding.Fingerprint)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || !slices.Contains(fields, "--context=prod") {
		t.Errorf("%s: %s leads to %v, want %v", name, f.Repair.ApplyAll, got, want)
	}
	if most := slices.Contains(fields, "--max-repairs="+strconv.Itoa(len(want))); most == (writes == 1) {
		t.Errorf("%s: %s makes %d writes for %d findings", name, f.Repair.ApplyAll, writes, len(want))
	}
}

// followLine are the repairs that the line makes: those of its target and of its check.
func followLine(t *testing.T, s *snapshot.Snapshot, consent repair.Consent, fields []string) []repair.Repair {
	t.Helper()
	namespace, check := "", ""
	if i := slices.Index(fields, "-n"); i > 0 {
		namespace = fields[i+1]
	}
	for _, field := range fields {
		if name, ok := strings.CutPrefix(field, "--check="); ok {
			if check = name; !slices.ContainsFunc(diagnose.Checks(), func(c checks.Check) bool { return c.Name == name }) {
				t.Errorf("there is no check %s", name)
			}
		}
	}
	var targets []target
	if arg := fields[3]; !strings.HasPrefix(arg, "--check=") {
		to, err := parseTarget(arg, namespace)
		if err != nil {
			t.Error(err)
		}
		targets = []target{to}
	}
	scope := scopeOf(s, targets, "", true)
	concerns := scope.Concerns
	scope.Concerns = func(f finding.Finding) bool { return concerns(f) && (check == "" || f.Check == check) }
	_, repairs := repair.Examine(s, reconcile.Options{}, consent, diagnose.Request{Scope: scope})
	return repairs
}

func consentOf(t *testing.T, words []string) repair.Consent {
	t.Helper()
	var a applyFlags
	flags := pflag.NewFlagSet("words", pflag.ContinueOnError)
	a.add(flags)
	if err := flags.Parse(words); err != nil {
		t.Error(err)
	}
	return a.consent()
}

// TestApplyLineTakesOver: the command line repeats the flags that name the cluster, and no
// secret.
func TestApplyLineTakesOver(t *testing.T) {
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.String("kubeconfig", "", "")
	flags.String("token", "", "")
	flags.StringArray("flex-attachable", nil, "")
	flags.StringArray("as-group", nil, "")
	if err := flags.Parse([]string{"--kubeconfig=my config", "--token=secret", "--flex-attachable=a/b", "--flex-attachable=c/d"}); err != nil {
		t.Fatal(err)
	}
	r := &finding.Report{Findings: []finding.Finding{{
		Subject: finding.Object{Kind: "Pod", Namespace: "shop", Name: "web-0"},
		Repair:  &finding.Repair{Commands: []string{"kubectl patch"}, Needs: []string{"--allow=strip-finalizer"}},
	}}}
	sayApply(r, takenOver(flags))
	want := "kubectl volume-doctor diagnose pod/web-0 -n shop --flex-attachable=a/b --flex-attachable=c/d '--kubeconfig=my config' --apply --allow=strip-finalizer"
	if got := r.Findings[0].Repair.Apply; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFileLines: a look of this program reads the file of the report, and no other command does.
func TestFileLines(t *testing.T) {
	report := func() *finding.Report {
		commands := []string{"kubectl volume-doctor trace pod/web-0 -n shop", "kubectl describe pod/web-0 -n shop"}
		return &finding.Report{Findings: []finding.Finding{{AdviceCommands: commands, Do: []finding.Action{{Command: commands[0]}, {Command: commands[1]}}}}}
	}
	for file, want := range map[string]string{"": "", "-": "", "my file.yaml": " '--filename=my file.yaml'"} {
		r := report()
		sayFile(r, file)
		f := r.Findings[0]
		if f.AdviceCommands[0] != "kubectl volume-doctor trace pod/web-0 -n shop"+want || f.AdviceCommands[1] != "kubectl describe pod/web-0 -n shop" ||
			f.Do[0].Command != f.AdviceCommands[0] || f.Do[1].Command != f.AdviceCommands[1] {
			t.Errorf("%q: %+v", file, f)
		}
	}
}

// TestOneWriteForManyFindings: a taint repairs the findings about all pods of its node. It is written once,
// and its sentence says for how many findings.
func TestOneWriteForManyFindings(t *testing.T) {
	one := func(name, node string) finding.Finding {
		does := "adds the taint to taints of node " + node + " (can be undone; ended pods stay away)"
		return finding.Finding{Code: "VD102", Check: "node-lost-6min", Node: "n1", Fingerprint: name, CausedBy: "web-0", Subject: finding.Object{Kind: "Pod", Namespace: "shop", Name: name},
			Repair: &finding.Repair{Kind: "out-of-service-taint", Does: does, Commands: []string{"kubectl patch node/" + node}}}
	}
	for name, c := range map[string]struct{ second, want, not string }{
		"one write":  {"n1", "; one write for 2 findings:", "--max-repairs"},
		"two writes": {"n2", "--max-repairs=2", "one write"},
	} {
		first := one("web-0", "n1")
		first.CausedBy = ""
		r := finding.New(finding.Report{Findings: []finding.Finding{first, one("web-1", c.second)}})
		sayApply(r, nil)
		var said []string
		for _, a := range r.Findings[0].Actions {
			said = append(said, a.Sentence, a.Command)
		}
		if text := strings.Join(said, " "); !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%s: %s", name, text)
		}
	}
	patch := func(name string) repair.Repair {
		return repair.Repair{Do: repair.Operation{Verb: repair.VerbPatch, Target: corev1.ObjectReference{Kind: "Node", Name: name}, Patch: []byte("[]")}}
	}
	if writes := once([]repair.Repair{patch("n1"), patch("n1"), patch("n2")}); len(writes) != 2 || writes[1].Do.Target.Name != "n2" {
		t.Errorf("%+v", writes)
	}
}
