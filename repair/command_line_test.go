package repair

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestCommandLine: a repair's command line has the settings before what the repair needs.
func TestCommandLine(t *testing.T) {
	r := &finding.Report{Findings: []finding.Finding{{
		Subject: finding.Object{Kind: "Pod", Namespace: "shop", Name: "web-0"},
		Repair:  &finding.Repair{Commands: []string{"kubectl patch"}, Needs: []string{"--allow=strip-finalizer"}},
	}}}
	addCommandLines(&View{Snapshot: &snapshot.Snapshot{}, Report: r, settings: []string{"--flex-attachable=a/b", "--kubeconfig=my config"}})
	want := "kubectl volume-doctor diagnose pod/web-0 -n shop --flex-attachable=a/b '--kubeconfig=my config' --apply --allow=strip-finalizer"
	if got := r.Findings[0].Repair.Apply; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
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
		addCommandLines(&View{Snapshot: &snapshot.Snapshot{}, Report: r})
		var said []string
		for _, a := range finding.ActionsOf(r.Findings[0], time.Time{}) {
			said = append(said, a.Sentence, a.Command)
		}
		if text := strings.Join(said, " "); !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestLineForTheCauseAlone: a line for a node makes the repairs of one cause. There is none where it
// would also make the repair of another one, of which its sentence does not tell.
func TestLineForTheCauseAlone(t *testing.T) {
	for name, c := range map[string]struct {
		third finding.Finding
		want  bool
	}{
		"another cause":                            {finding.Finding{Check: "va-stuck-deleting", Node: "n1"}, false},
		"another cause, on another node":           {finding.Finding{Check: "va-stuck-deleting", Node: "n2"}, true},
		"another check":                            {finding.Finding{Check: "dangling", Node: "n1"}, true},
		"another cause, with a consent of its own": {finding.Finding{Check: "va-stuck-deleting", Node: "n1", Repair: &finding.Repair{Needs: []string{"--allow=nudge"}}}, true},
	} {
		findings := []finding.Finding{{Fingerprint: "web-0"}, {Fingerprint: "web-1", CausedBy: "web-0"}, c.third}
		for i := range findings {
			f := &findings[i]
			f.Code, f.Subject = "VD103", finding.Object{Kind: "Pod", Namespace: "shop", Name: "web-" + strconv.Itoa(i)}
			if i < 2 {
				f.Check, f.Node = "va-stuck-deleting", "n1"
			}
			if f.Repair == nil {
				f.Repair = &finding.Repair{}
			}
			f.Repair.Kind, f.Repair.Commands = "nudge", []string{"kubectl annotate " + f.Subject.Name}
		}
		r := finding.New(finding.Report{Findings: findings})
		addCommandLines(&View{Snapshot: &snapshot.Snapshot{}, Report: r})
		i := slices.IndexFunc(r.Findings, func(f finding.Finding) bool { return f.Fingerprint == "web-0" })
		if line := r.Findings[i].Repair.ApplyAll; strings.Contains(line, "--max-repairs=2") != c.want {
			t.Errorf("%s: %q", name, line)
		}
	}
}
