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
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestApplyLines: over the corpus a repair has a command line exactly where at most the
// user's consent is missing, and then the line makes the repair.
func TestApplyLines(t *testing.T) {
	made, needy, refused, all := 0, 0, 0, 0
	for _, c := range corpus(t) {
		s := read(t, c)
		s.Source.Context = "prod"
		view, _ := repair.Examine(s, reconcile.Options{}, repair.Consent{}, diagnose.Request{})
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
			if tree[0].Fingerprint == f.Fingerprint && other.Node == f.Node && other.Code == f.Code && other.Repair != nil && other.Repair.Apply != "" &&
				other.Repair.Kind == f.Repair.Kind && slices.Equal(other.Repair.Needs, f.Repair.Needs) {
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

// TestTakenOver: a command line repeats the flags that name the cluster, and no secret.
func TestTakenOver(t *testing.T) {
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.String("kubeconfig", "", "")
	flags.String("token", "", "")
	flags.StringArray("flex-attachable", nil, "")
	flags.StringArray("as-group", nil, "")
	if err := flags.Parse([]string{"--kubeconfig=my config", "--token=secret", "--flex-attachable=a/b", "--flex-attachable=c/d"}); err != nil {
		t.Fatal(err)
	}
	if got, want := takenOver(flags), []string{"--flex-attachable=a/b", "--flex-attachable=c/d", "--kubeconfig=my config"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOnce: two findings with the same write are repaired by one.
func TestOnce(t *testing.T) {
	patch := func(name string) repair.Repair {
		return repair.Repair{Do: repair.Operation{Verb: repair.VerbPatch, Target: corev1.ObjectReference{Kind: "Node", Name: name}, Patch: []byte("[]")}}
	}
	if writes := once([]repair.Repair{patch("n1"), patch("n1"), patch("n2")}); len(writes) != 2 || writes[1].Do.Target.Name != "n2" {
		t.Errorf("%+v", writes)
	}
}
