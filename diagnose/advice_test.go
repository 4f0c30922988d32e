package diagnose_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// retained matches the clause that disks are deleted with their pods, up to the volumes' names.
var retained = regexp.MustCompile(`the disks? of ([^:]+?) (?:is|are) deleted with the pods?`)

// TestWhatEndsAPodComesLast: data of a pod is saved before the pod is deleted, and the disk
// that would go with it is mentioned once.
func TestWhatEndsAPodComesLast(t *testing.T) {
	saved, kept := 0, 0
	for _, c := range corpus(t) {
		for _, f := range diagnose.Diagnose(c.snapshot(t), diagnose.Options{Reconcile: c.settings}).Findings {
			ends, disks := false, map[string]bool{}
			tell := func(text string) {
				for _, m := range retained.FindAllStringSubmatch(text, -1) {
					kept++
					for _, name := range strings.Split(m[1], ", ") {
						if disks[name] {
							t.Errorf("%s: %s tells twice that the disk of %s goes: %s %+v", c.name, f.Code, name, f.Advice, f.Steps)
						}
						disks[name] = true
					}
				}
			}
			for _, a := range f.Do {
				if tell(a.Sentence); strings.HasPrefix(a.Sentence, "save ") {
					if saved++; ends {
						t.Errorf("%s: %s saves something of a pod that is deleted before that: %s", c.name, f.Code, f.Advice)
					}
				}
				ends = ends || a.Kind == finding.ActionKind(step.DeletePod)
			}
			for _, s := range f.Steps {
				tell(s.Says)
			}
		}
	}
	if saved < 3 || kept < 4 {
		t.Errorf("%d times something is saved, %d times a disk kept: this shows little", saved, kept)
	}
}

// TestAllThatWaitAlikeAreDeleted: where the deletion of a pod is the cure, the advice deletes
// every pod that waits like it.
func TestAllThatWaitAlikeAreDeleted(t *testing.T) {
	several := 0
	for _, name := range []string{"vd302-near-no-attach", "vd108-waits-for-no-attach", "vd412-mount-option", "vd412-two-pods-one-volume"} {
		c := caseNamed(t, name)
		many, err := testcases.Alike(c.snapshot(t), 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range diagnose.Diagnose(many, diagnose.Options{Reconcile: c.settings}).Findings {
			if !strings.Contains(f.Detail, "wait like it") && !strings.Contains(f.Detail, "waits like it") {
				continue
			}
			for _, s := range f.Steps {
				if s.Kind != step.DeletePod {
					continue
				}
				if several++; len(s.Pods) != len(f.Pods) {
					t.Errorf("%s: %s deletes %v of %v", name, f.Code, s.Pods, f.Pods)
				}
			}
		}
	}
	if several == 0 {
		t.Error("no advice deletes several pods: this shows nothing")
	}
}

// TestNextToActIsWhereToLook: for a pod whose wait no check explains, the first step is about
// who has to act or, where an unread object may show that, about that object.
func TestNextToActIsWhereToLook(t *testing.T) {
	unread, nodes := 0, 0
	for _, c := range corpus(t) {
		s := c.snapshot(t)
		without := diagnose.Diagnose(fewer(s, snapshot.Leases, none), diagnose.Options{Reconcile: c.settings})
		for _, f := range append(diagnose.Diagnose(s, diagnose.Options{Reconcile: c.settings}).Findings, without.Findings...) {
			if f.Code != diagnose.PodStuck.Code {
				continue
			}
			if _, because, hidden := strings.Cut(f.Detail, "who has to act next is not known"); hidden {
				unread++
				_, kind, _ := strings.Cut(because, ": not all ")
				kind, _, _ = strings.Cut(kind, " ")
				if !strings.HasPrefix(f.Do[0].Sentence, "diagnose again with all "+kind) || f.Do[0].Kind != finding.Look {
					t.Errorf("%s: %s: %s", c.name, f.Detail, f.Advice)
				}
			}
			if _, node, of := strings.Cut(f.Detail, "next to act: node "); of {
				nodes++
				node, _, _ = strings.Cut(node, ";")
				if !strings.HasPrefix(f.Advice, "look at node "+node) {
					t.Errorf("%s: %s: %s", c.name, f.Detail, f.Advice)
				}
			}
		}
	}
	if unread < 50 || nodes == 0 {
		t.Errorf("of %d pods nobody knows who has to act, and %d wait for a node: this shows little", unread, nodes)
	}
}

// TestPluginOfTheNamedNode: where a claim's volume is not made because the driver does not know
// a node, the node plugin on that node is restarted, and no other.
func TestPluginOfTheNamedNode(t *testing.T) {
	for _, name := range []string{"vd512-node-that-is-there", "vd512-selected-node-there"} {
		c := caseNamed(t, name)
		s := c.snapshot(t)
		r := diagnose.Diagnose(s, diagnose.Options{Reconcile: c.settings})
		i := slices.IndexFunc(r.Findings, func(f finding.Finding) bool { return f.Code == "VD512" })
		if i < 0 || !strings.Contains(r.Findings[i].Advice, "on n1 ") || len(r.Findings[i].Steps) != 1 || !strings.HasSuffix(r.Findings[i].Steps[0].Object, " on node/n1") {
			t.Errorf("%s: %+v", name, r.Findings)
		}
		world := reconcile.NewWorld(s, reconcile.Options{})
		v := facts.NewView(s, world, world.Reconcile())
		for message, want := range map[string]string{`node "n1" not found`: "n1", `node "n9" not found`: "", "no node is found": "", `node "n1" is not like node "n2"`: ""} {
			if got := v.NodeNamed("ebs.csi.aws.com", message); string(got) != want {
				t.Errorf("%s: node %q", message, got)
			}
		}
	}
}

// TestNothingInFlightStays: for a pod whose wait is within its usual time, no finding says that
// the wait does not end by itself. A pod that waits for a lost node counts as stuck from the
// moment at which the finding warns.
func TestNothingInFlightStays(t *testing.T) {
	flights := 0
	for _, c := range corpus(t) {
		r := diagnose.Diagnose(c.snapshot(t), diagnose.Options{Reconcile: c.settings})
		for _, w := range r.Waiting {
			if w.Verdict != finding.InFlight {
				continue
			}
			flights++
			for _, f := range r.Findings {
				if f.Stays() && f.Names(w.Pod) {
					t.Errorf("%s: pod %s is in flight, and %s says that it does not heal: %s", c.name, w.Pod, f.Code, f.Message)
				}
			}
		}
	}
	if flights < 50 {
		t.Errorf("%d pods are in flight: this shows little", flights)
	}
	c := caseNamed(t, "vd102-terminating-a-minute")
	s := c.snapshot(t)
	lost := slices.IndexFunc(s.Nodes, func(n *corev1.Node) bool { return n.Name == "n1" })
	for i, condition := range s.Nodes[lost].Status.Conditions {
		if condition.Type == corev1.NodeReady {
			s.Nodes[lost].Status.Conditions[i].LastTransitionTime = metav1.NewTime(s.TakenAt.Add(-20 * time.Second))
		}
	}
	young := snapshot.New(s.TakenAt, s.Source, s.Objects, s.Gaps)
	r := diagnose.Diagnose(young, diagnose.Options{Reconcile: c.settings})
	if len(r.Waiting) != 1 || r.Waiting[0].Verdict != finding.InFlight || r.Waiting[0].DueAt == nil || r.Waiting[0].DueAt.Sub(s.TakenAt) != facts.LostPodWarns-20*time.Second {
		t.Fatalf("%+v", r.Waiting)
	}
	later := snapshot.New(r.Waiting[0].DueAt.Add(time.Second), s.Source, s.Objects, s.Gaps)
	if r := diagnose.Diagnose(later, diagnose.Options{Reconcile: c.settings}); len(r.Waiting) != 1 || r.Waiting[0].Verdict != finding.Stuck {
		t.Errorf("%+v", r.Waiting)
	}
}

// TestSuspectedIsNoError: in every case and thread an error is certain. And where waiting does
// not help, no advice says to wait.
func TestSuspectedIsNoError(t *testing.T) {
	suspected, stay := 0, 0
	toWait := regexp.MustCompile(`(?i)(?:^|; |, |\band |\bthen )wait (?:until|for)`)
	look := func(name string, r *finding.Report) {
		for _, f := range r.Findings {
			if f.Confidence == finding.Suspected {
				suspected++
				if f.Severity.AtLeast(finding.Error) {
					t.Errorf("%s: %s is suspected, and an error: %s", name, f.Code, f.Message)
				}
			}
			if f.Stays() {
				stay++
				if toWait.MatchString(f.Advice) || toWait.MatchString(f.ByHand) {
					t.Errorf("%s: %s does not heal, and says to wait: %s; %s", name, f.Code, f.Advice, f.ByHand)
				}
			}
		}
	}
	eachReport(t, look)
	if suspected < 20 || stay < 200 {
		t.Errorf("%d are suspected and %d stay: this shows little", suspected, stay)
	}
}

// holdsUndone: each action that ends or restarts something says whether it can be undone, with a
// command or without one.
func holdsUndone(t *testing.T, name string, f finding.Finding, at time.Time) {
	for _, a := range finding.ActionsOf(f, at) {
		if len(a.Hits) > 0 && !a.Told && !strings.Contains(a.Sentence, " be undone") {
			t.Errorf("%s: %s does not say whether it can be undone: %s", name, f.Code, a.Sentence)
		}
	}
}

// TestThereIsNamed: what ends a wait names the node from which a volume has to be detached.
func TestThereIsNamed(t *testing.T) {
	named := 0
	eachReport(t, func(name string, r *finding.Report) {
		for _, f := range r.Findings {
			if _, ends, told := strings.Cut(f.SelfHeals.Because, "what ends it: "); told && strings.Contains(ends, "detach") {
				if named++; strings.Contains(ends, "from there") || strings.Contains(ends, "detached there") {
					t.Errorf("%s: %s does not say where: %s", name, f.Code, f.SelfHeals.Because)
				}
			}
		}
	})
	if named < 5 {
		t.Errorf("%d waits for a detach show little", named)
	}
}

// TestDeadMountEndsWithAllItsPods: where another pod may keep a dead mount, the advice is about that
// pod, too.
func TestDeadMountEndsWithAllItsPods(t *testing.T) {
	kept := 0
	eachReport(t, func(name string, r *finding.Report) {
		for _, f := range r.Findings {
			_, before, found := strings.Cut(f.Cause, "pod ")
			if other, _, keeps := strings.Cut(before, " uses the same volume on the node: it may have the same dead mount"); found && keeps {
				kept++
				if !slices.ContainsFunc(f.Steps, func(s finding.Step) bool { return s.Kind == step.DeletePod && slices.Contains(s.Pods, other) }) {
					t.Errorf("%s: %s does nothing about pod %s: %s", name, f.Code, other, f.Advice)
				}
			}
		}
	})
	if kept == 0 {
		t.Error("no mount is shared: this shows nothing")
	}
}

// TestCommandsStandUnderTheirSentences: in every case the sentence above a command names the
// command's object, and whether what it does can be undone. Keeping a disk comes before giving it
// away.
func TestCommandsStandUnderTheirSentences(t *testing.T) {
	commands := 0
	for _, c := range corpus(t) {
		r := diagnose.Diagnose(c.snapshot(t), diagnose.Options{Reconcile: c.settings})
		for _, f := range r.Findings {
			holdsUndone(t, c.name, f, r.TakenAt.Time)
			var above finding.Action
			for _, a := range finding.ActionsOf(f, r.TakenAt.Time) {
				if !a.Told {
					above = a
				}
				object := f.Commanded(a.Command).Object
				if a.Command == "" || a.Kind == finding.ApplyRepair || !strings.Contains(object, "/") {
					continue
				}
				commands++
				if verb, _ := finding.ObjectOf(a.Command); slices.Contains([]string{"delete", "patch", "taint"}, verb) && !strings.Contains(above.Sentence, " be undone") {
					t.Errorf("%s: %s: %q does not say whether it can be undone: %s", c.name, f.Code, above.Sentence, a.Command)
				}
				if !above.Names(object) {
					t.Errorf("%s: %s: %q does not name the object of %s", c.name, f.Code, above.Sentence, a.Command)
				}
			}
		}
	}
	if commands < 200 {
		t.Errorf("%d commands show little", commands)
	}
	c := caseNamed(t, "vd514-claim-gone")
	r := diagnose.Diagnose(c.snapshot(t), diagnose.Options{Reconcile: c.settings})
	actions := finding.ActionsOf(r.Findings[0], r.TakenAt.Time)
	if len(actions) != 3 || !strings.HasPrefix(actions[0].Sentence, "keep the disk") || !strings.HasPrefix(actions[0].Command, "kubectl patch pv/") || !strings.HasPrefix(actions[1].Sentence, "save the data") {
		t.Errorf("%+v", actions)
	}
}
