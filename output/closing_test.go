package output

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestSilentNodesAreNoGoodNews checks that a report without a finding does not say that nothing is
// wrong where the status of a pod is as old as the silence of its node.
func TestSilentNodesAreNoGoodNews(t *testing.T) {
	for _, c := range []struct {
		pods []string
		gone []string
		left int
		want string
	}{
		{nil, nil, 0, "Nothing wrong: 2 checks at an unknown time, complete."},
		{nil, []string{"csi-1", "csi-2"}, 0, "Nothing found: 2 checks at an unknown time, complete; whether a detach is late is not known, as the nodes of 2 VolumeAttachments do not exist: see in 10 minutes whether they are still there: csi-1, csi-2."},
		{[]string{"default/db-0"}, nil, 0, "Nothing found: 2 checks at an unknown time, complete; whether pod default/db-0 still runs is not known, as nothing is heard of its node."},
		{[]string{"default/db-0", "default/db-1"}, nil, 2, "Nothing found: 2 checks at an unknown time, complete; whether 2 pods still run is not known, as nothing is heard of their nodes: default/db-0, default/db-1; not shown: 2 suppressed."},
	} {
		r := finding.New(finding.Report{Complete: true, Suppressed: c.left, Checks: []finding.Code{"VD101", "VD102"}, Scope: finding.Scope{Checks: 2, PodsOnSilentNodes: c.pods, AttachedToNoNode: c.gone}})
		if text := foundThere(r); text != c.want || good(r) != (c.pods == nil && c.gone == nil) {
			t.Errorf("good: %t\n%s, want\n%s", good(r), text, c.want)
		}
	}
}

// TestCountsAreOfWhatWasRead checks that no format counts the objects of a list that was not
// read, and that the number of objects of a partial list says that it is partial.
func TestCountsAreOfWhatWasRead(t *testing.T) {
	report := func(pods int, gaps ...snapshot.Gap) *finding.Report {
		return finding.New(finding.Report{
			Gaps: gaps, Complete: len(gaps) == 0, Checks: []finding.Code{"VD101", "VD102"},
			Scope: finding.Scope{Checks: 2, Objects: map[snapshot.Kind]int{snapshot.Pods: pods, snapshot.Volumes: 3, snapshot.Nodes: 1}},
		})
	}
	pods := snapshot.Gap{Kind: snapshot.Pods, Reason: snapshot.ReasonForbidden}
	for _, c := range []struct {
		name   string
		report *finding.Report
		has    string
		lacks  string
	}{
		{"all read, and there is none", report(0), "2 checks over 0 pods, 3 volumes, 1 node", " read"},
		{"all read", report(4), "2 checks over 4 pods, 3 volumes, 1 node", " read"},
		{"none read", report(0, pods), "2 checks over 3 volumes, 1 node", "0 pods"},
		{"some read", report(4, pods), "2 checks over 4 pods read, 3 volumes, 1 node", "4 pods,"},
		{"another list was not read", report(0, snapshot.Gap{Kind: snapshot.Events, Reason: snapshot.ReasonForbidden}), "2 checks over 0 pods, 3 volumes, 1 node", " read,"},
		{"one of two clusters was not read", finding.Merge([]*finding.Report{report(4), report(0, pods)}, nil, finding.LeaveOut{}), "2 checks over 4 pods read, 6 volumes, 2 nodes", "4 pods,"},
		{"one of two clusters was not reached", finding.Merge([]*finding.Report{report(4), {Source: snapshot.Source{Context: "b"}, Gaps: []snapshot.Gap{{Kind: finding.Everything, Context: "b"}}}}, nil, finding.LeaveOut{}),
			"2 checks over 4 pods read, 3 volumes read, 1 node read", "4 pods,"},
	} {
		if text := foundThere(c.report); !strings.Contains(text, c.has) || strings.Contains(text, c.lacks) {
			t.Errorf("%s: %q lacks %q or has %q", c.name, text, c.has, c.lacks)
		}
		for _, format := range ReportFormats {
			if format.name == "json" || format.name == "yaml" { // they have the gaps beside the numbers
				continue
			}
			var b bytes.Buffer
			if err := ReportFormats.Print(&b, format.name, c.report, Options{}); err != nil {
				t.Fatal(err)
			}
			if text := b.String(); strings.Contains(c.lacks, "pods") && strings.Contains(text, c.lacks) {
				t.Errorf("%s, %s: %q has %q", c.name, format.name, text, c.lacks)
			}
		}
	}
}

// TestAttachedPodsInTexts checks that the number of pods with an attached volume stands behind that of
// the pods in every format for people and in JSON, and nowhere if it is not known or no pod was read.
func TestAttachedPodsInTexts(t *testing.T) {
	report := func(pods int, attached *int) *finding.Report {
		return finding.New(finding.Report{
			Gaps: []snapshot.Gap{}, Complete: true, Checks: []finding.Code{"VD101", "VD102"},
			Scope: finding.Scope{Checks: 2, PodsWithAttachedVolume: attached, Objects: map[snapshot.Kind]int{snapshot.Pods: pods, snapshot.Volumes: 3, snapshot.Nodes: 1}},
		})
	}
	for _, c := range []struct {
		name              string
		report            *finding.Report
		text, json, lacks string
	}{
		{"one of two", report(2, ptr.To(1)), "2 pods (1 with an attached volume)", `"podsWithAttachedVolume": 1`, ""},
		{"none of two", report(2, ptr.To(0)), "2 pods (0 with an attached volume)", `"podsWithAttachedVolume": 0`, ""},
		{"not known", report(2, nil), "2 pods, ", `"pods": 2`, "ttached"},
		{"no pod", report(0, ptr.To(0)), "0 pods, ", `"podsWithAttachedVolume": 0`, "with an attached"},
		{"two clusters", finding.Merge([]*finding.Report{report(2, ptr.To(1)), report(3, ptr.To(2))}, nil, finding.LeaveOut{}), "5 pods (3 with an attached volume)", `"podsWithAttachedVolume": 3`, ""},
		{"not known of one of two clusters", finding.Merge([]*finding.Report{report(2, ptr.To(1)), report(3, nil)}, nil, finding.LeaveOut{}), "5 pods, ", `"pods": 5`, "ttached"},
	} {
		for format, want := range map[string]string{"table": c.text, "wide": c.text, "markdown": c.text, "html": c.text, "json": c.json} {
			var b bytes.Buffer
			if err := ReportFormats.Print(&b, format, c.report, Options{}); err != nil {
				t.Fatal(err)
			}
			if text := b.String(); !strings.Contains(text, want) || c.lacks != "" && strings.Contains(text, c.lacks) {
				t.Errorf("%s, %s: lacks %q or has %q:\n%s", c.name, format, want, c.lacks, text)
			}
		}
	}
}

// TestWhatWasAskedForIsShown checks that a report with findings names the namespace or the objects
// to which it is narrowed, whole, in every format for people and on a terminal of any width.
func TestWhatWasAskedForIsShown(t *testing.T) {
	for _, of := range []string{"", "namespace shop", "pod/cassandra-of-the-shop-with-a-long-name-2 in namespace shop, node/ip-10-0-1-5.ec2.internal"} {
		r := finding.New(finding.Report{
			Complete: true, Source: snapshot.Source{Context: "prod-east"}, KubernetesVersion: "v1.36.3", Checks: []finding.Code{"VD101"},
			Scope:    finding.Scope{Checks: 1, Of: of, Objects: map[snapshot.Kind]int{snapshot.Pods: 318}},
			Findings: []finding.Finding{{Code: "VD101", Severity: finding.Warning, Message: "It waits", Fingerprint: "1"}},
		})
		for _, format := range []string{"table", "wide", "markdown", "html"} {
			for _, columns := range []int{0, 80, 100, 120} {
				var b bytes.Buffer
				if err := ReportFormats.Print(&b, format, r, Options{Width: columns}); err != nil {
					t.Fatal(err)
				}
				text := words(b.String())
				if of == "" && strings.Contains(text, "only ") || of != "" && !strings.Contains(text, "only "+of) {
					t.Errorf("%s at %d columns, %q was asked for:\n%s", format, columns, of, b.String())
				}
			}
		}
	}
}

// TestFirstToBeStuck checks that of several pods that still have time the one with the least is named.
func TestFirstToBeStuck(t *testing.T) {
	waits := func(pod string, due time.Time) finding.Waiting {
		at := metav1.NewTime(due)
		return finding.Waiting{Pod: pod, Verdict: finding.InFlight, DueAt: &at}
	}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := &finding.Report{Waiting: []finding.Waiting{waits("a/late", noon.Add(time.Minute)), waits("b/first", noon), waits("c/last", noon.Add(time.Hour))}}
	const want = "3 pods wait for a volume, no longer than is usual; b/first counts as stuck from 2026-11-20T12:00:00Z on"
	if text := waitsUntold(r); text != want {
		t.Errorf("%s, want\n%s", text, want)
	}
}
