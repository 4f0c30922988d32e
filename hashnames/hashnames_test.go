package hashnames_test

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/hashnames"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// hashed is the snapshot with its names replaced, as its file gives it back.
func hashed(t *testing.T, s *snapshot.Snapshot, key string) (*snapshot.Snapshot, *hashnames.Names, string) {
	t.Helper()
	names := hashnames.Of(s, key)
	h, err := names.Snapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := snapshot.Write(&file, h); err != nil {
		t.Fatal(err)
	}
	text := file.String()
	back, warnings, err := snapshot.Read("hashed.yaml", &file, snapshot.ReadOptions{})
	if err != nil || len(warnings) > 0 || !back.NamesHashed {
		t.Fatalf("%v %v", err, warnings)
	}
	return back, names, text
}

var computed = regexp.MustCompile(`csi-[0-9a-f]{64}`)

// said is what a report says, without the order that names give it.
func said(r *finding.Report, names func(string) string) []string {
	var all []string
	for _, f := range r.Findings {
		pods := slices.Clone(f.Pods)
		for i := range pods {
			pods[i] = names(pods[i])
		}
		slices.Sort(pods)
		repair := ""
		if f.Repair != nil {
			repair = fmt.Sprint(f.Repair.Kind, f.Repair.Risk, f.Repair.BlockedBy)
		}
		all = append(all, fmt.Sprint(f.Code, f.Severity, f.Confidence, f.Since, f.SelfHeals.Will, f.SelfHeals.After, repair, names(f.Subject.Namespace), names(f.Subject.Name), pods, "\n", names(f.Message), "\n", names(f.Cause)))
	}
	for _, w := range r.Waiting {
		all = append(all, fmt.Sprint("waits ", names(w.Pod), names(w.Node), w.Verdict, w.Volume, w.Stage, names(w.Actor), w.Since, w.DueAt))
	}
	for i := range all { // one that is not there has no name that could be replaced
		all[i] = computed.ReplaceAllString(all[i], "csi-*")
	}
	slices.Sort(all)
	return all
}

// TestSameFindings: whatever the corpus has, hashed names change nothing that is said but
// the names.
func TestSameFindings(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			s, err := c.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			h, names, _ := hashed(t, s, "a key")
			want := said(diagnose.Diagnose(s, diagnose.Options{}), names.In)
			got := said(diagnose.Diagnose(h, diagnose.Options{}), func(s string) string { return s })
			if !slices.Equal(got, want) {
				t.Errorf("%s", differing(got, want))
			}
		})
	}
}

func differing(got, want []string) string {
	var b strings.Builder
	for _, g := range got {
		if !slices.Contains(want, g) {
			fmt.Fprintf(&b, "got  %s\n", g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			fmt.Fprintf(&b, "want %s\n", w)
		}
	}
	return cmp.Or(b.String(), "the same in other numbers")
}
