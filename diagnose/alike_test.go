package diagnose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
)

// rootsOf is the number of causes with the code in the report.
func rootsOf(r *finding.Report, code finding.Code) (n int) {
	for _, tree := range r.Roots() {
		if tree[0].Code == code {
			n++
		}
	}
	return n
}

// TestAlikeIsToldOnce: six volumes with the same fault have one cause, which represents them
// all. Where each needs an action of its own, there are six.
func TestAlikeIsToldOnce(t *testing.T) {
	for name, want := range map[string]int{
		"vd101-pod-deleted-while-controller-was-down": 1,
		"vd103-driver-refuses":                        1,
		"vd104-claim-unused":                          1,
		"vd302-just-gone":                             1,
		"vd410-no-permission":                         1,
		"vd417-kubelet-not-ready":                     1,
		"vd410-plain-words":                           1,
		"vd512-class-missing":                         1,
		"vd512-fell-silent":                           1,
		"vd505-both-bound":                            6, // each pair of volumes is one disk
		"vd512-kept-and-class":                        6, // each claim wants another volume
		"vd416-back-off":                              6, // each pod has to be deleted
	} {
		c := caseNamed(t, name)
		many, err := testcases.Alike(c.snapshot(t), 5)
		if err != nil {
			t.Fatal(err)
		}
		r := diagnose.Diagnose(many, diagnose.Options{Reconcile: c.settings})
		code := finding.Code(strings.ToUpper(name[:5]))
		if n := rootsOf(r, code); n != want {
			t.Errorf("%s: %d causes of %s in place of %d", name, n, code, want)
		}
		causesHold(t, r)
		for _, tree := range r.Roots() { // each is listed, with its own name
			named := map[string]bool{}
			for _, f := range tree {
				if f.Code == code {
					named[f.Subject.String()+string(f.Volume)] = true
				}
			}
			if tree[0].Code == code && len(tree[0].Pods) < 6 && len(named) != 6/want {
				t.Errorf("%s: a cause stands for %d of the six: %q", name, len(named), tree[0].Message)
			}
		}
	}
}

// TestNothingIsToldTwiceInTheSameWords: with six of everything, no case has two causes with the
// same texts, but for names, and the same advice.
func TestNothingIsToldTwiceInTheSameWords(t *testing.T) {
	cases, together := corpus(t), 0
	for _, c := range cases {
		many, err := testcases.Alike(c.snapshot(t), 5)
		if err != nil {
			t.Fatal(err)
		}
		r := diagnose.Diagnose(many, diagnose.Options{Reconcile: c.settings})
		told := map[string]bool{}
		for _, tree := range r.Roots() {
			f := tree[0]
			if len(tree) > 1 && tree[1].Code == f.Code && f.Headline == "" {
				together++
			}
			if !finding.IsAlike(f.Code) || slices.Contains(finding.AlikeOnNode, f.Code) {
				continue
			}
			driver, _, _ := strings.Cut(strings.TrimPrefix(string(f.Volume), "kubernetes.io/csi/"), "^")
			key := fmt.Sprint(f.Code, driver, f.Words())
			if told[key] {
				t.Errorf("%s tells twice: %s %s", c.name, f.Code, f.Message)
			}
			told[key] = true
		}
	}
	if together < len(cases)/20 {
		t.Errorf("in %d cases anything was alike: this shows little", together)
	}
}
