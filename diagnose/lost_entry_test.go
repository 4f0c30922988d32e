package diagnose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/docs"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// forgetful reports, by release and from its source, whether the controller may hold a volume
// for attached that it has forgotten to list: up to the fixes nothing puts back a volume that
// was removed for a detach which then did not start.
var forgetful = map[string]bool{
	"v1.19.16": true, "v1.20.15": true, "v1.21.6": true, "v1.21.7": true, "v1.21.14": true,
	"v1.22.3": true, "v1.22.4": true, "v1.22.13": true, "v1.22.14": false, "v1.22.17": false,
	"v1.23.0": true, "v1.23.10": true, "v1.23.11": false, "v1.23.17": false, "v1.24.4": true, "v1.24.5": false,
	"v1.25.0": true, "v1.25.1": false, "v1.26.0": false, "v1.26.9": false, "v1.30.14-eks-1": false,
	"v1.36.3": false, "v1.37.2": false, "": true, "garbage": true,
}

// The clauses of facts.LostEntry about healing, each with its claim.
const (
	saysListed   = "writes the list again, with the volume"          // by the next attach or detach
	saysLeftOut  = "leaves the volume out whenever it writes"        // by the next attach or detach
	saysMay      = "may leave the volume out when it next writes"    // either
	saysRestart  = "restart"                                         // true of all causes
	saysOwnEntry = "takes it off when it next writes the list: when" // of VD302
)

// lostEntrySentences compares what VD301 and VD302 say about healing with what each release
// does.
func lostEntrySentences(t interface{ Errorf(string, ...any) }, name, release string, s *snapshot.Snapshot, r *finding.Report) (found int) {
	for _, f := range r.Findings {
		node, because := s.Node(f.Node), f.SelfHeals.Because
		if node == nil || f.Code != "VD301" && f.Code != "VD302" {
			continue
		}
		found++
		if f.SelfHeals.Will || f.SelfHeals.After != "" {
			t.Errorf("%s on %q: %s heals by itself: %+v", name, release, f.Code, f.SelfHeals)
		}
		writer, _ := facts.VolumesAttachedWriter(node)
		if f.Code == "VD302" {
			own := facts.AddedByRepair(node, f.Volume)
			if strings.Contains(because, saysOwnEntry) != (own && len(f.Pods) == 0) || own && strings.Contains(f.Cause, "somebody else") {
				t.Errorf("%s on %q: an entry of our own: %t, and it says %q, because %q", name, release, own, because, f.Cause)
			}
			continue
		}
		listed, leftOut, may := strings.Contains(because, saysListed), strings.Contains(because, saysLeftOut), strings.Contains(because, saysMay)
		switch {
		case facts.BoolToInt(listed)+facts.BoolToInt(leftOut)+facts.BoolToInt(may) != 1 || !strings.Contains(because, saysRestart):
			t.Errorf("%s on %q: not one sentence, or nothing of a restart: %s", name, release, because)
		case listed && forgetful[release]:
			t.Errorf("%s on %q, which may have forgotten the volume: %s", name, release, because)
		case may && !forgetful[release]:
			t.Errorf("%s on %q, which forgets none: %s", name, release, because)
		case leftOut && (writer == "" || !facts.MayBeController(writer)):
			t.Errorf("%s on %q: the list was written by %q: %s", name, release, writer, because)
		}
		other := !facts.MayBeController(writer) && writer != facts.FieldManager
		if other != strings.Contains(because, "may take it off again") || other != strings.Contains(f.Cause, "was last written by") {
			t.Errorf("%s on %q: the list was written by %q: %s; because %s", name, release, writer, because, f.Cause)
		}
		if f.UpstreamBug != nil && !forgetful[release] {
			t.Errorf("%s on %q names %+v", name, release, f.UpstreamBug)
		}
	}
	return found
}

// TestLostEntriesOfReleases checks the sentences over the corpus, for each release.
func TestLostEntriesOfReleases(t *testing.T) {
	found := 0
	for _, c := range corpus(t) {
		if !strings.HasPrefix(c.name, "vd30") {
			continue
		}
		for release := range forgetful {
			s := c.snapshot(t)
			s.Source.ServerVersion = release
			found += lostEntrySentences(t, c.name, release, s, c.diagnose(s))
		}
	}
	if found < 10*len(forgetful) {
		t.Errorf("only %d findings", found)
	}
}

// TestLostEntriesOfRandomClusters checks them over random clusters, whose lists have any
// writer.
func TestLostEntriesOfRandomClusters(t *testing.T) {
	long.Test(t)
	cases := slices.DeleteFunc(corpusSnapshots(t), func(s *snapshot.Snapshot) bool { return len(s.Nodes) == 0 })
	var releases []string
	for release := range forgetful {
		releases = append(releases, release)
	}
	slices.Sort(releases)
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		s := testcases.Draw(t, cases)
		for _, node := range s.Nodes {
			writer := rapid.SampledFrom([]string{"kube-controller-manager", "k3s", "curl", facts.FieldManager}).Draw(t, "writer")
			for i := range node.ManagedFields {
				node.ManagedFields[i].Manager = writer
			}
			if len(node.Status.VolumesAttached) == 0 {
				continue
			}
			listed := rapid.SampledFrom(node.Status.VolumesAttached).Draw(t, "entry")
			switch rapid.IntRange(0, 2).Draw(t, "entry") {
			case 0:
				node.Status.VolumesAttached = slices.DeleteFunc(slices.Clone(node.Status.VolumesAttached), func(a corev1.AttachedVolume) bool { return a == listed })
			case 1:
				node.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true",
					facts.MarkAnnotation: facts.AddsEntry + " for VD301 inuse-not-attached" + facts.MarkOf + string(listed.Name)}
			}
		}
		s.Source.ServerVersion = rapid.SampledFrom(releases).Draw(t, "release")
		found += lostEntrySentences(t, "random", s.Source.ServerVersion, s, diagnose.Diagnose(s, diagnose.Options{}))
	})
	if found == 0 {
		t.Error("no finding")
	}
}

// TestLeftOut: the controller has forgotten a volume only where it wrote the list itself, for
// another volume that it attached well after the pod came and that is attached and listed.
func TestLeftOut(t *testing.T) {
	const (
		name  = "vd301-taken-off-again"
		own   = "csi-ddbfb4470da740e26d0871a8e7cbfaaea0fe241c682170c176b52f44abb4a3be"
		other = "csi-53f7e5e0a6031f9831ea8544dbfa3fae3f7602b904c7c4a524c20f3c44777a99"
	)
	for what, change := range map[string]func(*snapshot.Snapshot){
		"": func(*snapshot.Snapshot) {},
		"the other volume was attached as the pod came": func(s *snapshot.Snapshot) {
			s.VolumeAttachment(other).CreationTimestamp = s.VolumeAttachment(own).CreationTimestamp
		},
		"the other volume is not attached": func(s *snapshot.Snapshot) { s.VolumeAttachment(other).Status.Attached = false },
		"the other volume is not listed":   func(s *snapshot.Snapshot) { s.Node("n1").Status.VolumesAttached = nil },
		"nobody says who wrote the list":   func(s *snapshot.Snapshot) { s.Node("n1").ManagedFields = nil },
		"another program wrote the list":   func(s *snapshot.Snapshot) { s.Node("n1").ManagedFields[0].Manager = "curl" },
	} {
		c := caseNamed(t, name)
		s := c.snapshot(t)
		change(s)
		findings := c.diagnose(s).Findings
		i := slices.IndexFunc(findings, func(f finding.Finding) bool {
			return f.Code == "VD301" && f.Volume == "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
		})
		if i < 0 {
			t.Errorf("%s: no finding", what)
			continue
		}
		f := findings[i]
		if got := strings.Contains(f.SelfHeals.Because, saysLeftOut); got != (what == "") {
			t.Errorf("%q: left out for sure: %t: %s", what, got, f.SelfHeals.Because)
		}
	}
}

// TestLostEntryPage: the page names, for each cause, the releases that fix it.
func TestLostEntryPage(t *testing.T) {
	page := strings.Join(strings.Fields(docs.Page("VD301")), " ")
	for _, cause := range facts.LostEntryCauses {
		want := []string{"Another program wrote the list"}
		if cause.Issue != 0 {
			want = append([]string{fmt.Sprintf("Issue %d", cause.Issue)}, cause.Fixed...)
		}
		_, told, _ := strings.Cut(page, "- "+want[0])
		told, _, _ = strings.Cut(told, "- ")
		for _, text := range want[1:] {
			if !strings.Contains(told, text) {
				t.Errorf("%s: %q is not in %q", want[0], text, told)
			}
		}
		if told == "" {
			t.Errorf("the page does not tell of %q", want[0])
		}
	}
}

// TestLostEntryBesideAnotherWait: a pod that waits for its mount is not among the pods that wait for
// the lost entry, which began when the list was last written.
func TestLostEntryBesideAnotherWait(t *testing.T) {
	for name, want := range map[string]string{
		"vd301-mount-fails-now":     "info [] 2026-11-20T09:44:00Z",
		"vd301-mount-failed-before": "error [default/web-0] 2026-11-20T09:40:00Z",
	} {
		r := diagnose.Diagnose(caseNamed(t, name).snapshot(t), diagnose.Options{})
		got := ""
		for _, f := range r.Findings {
			if f.Code == "VD301" {
				got = fmt.Sprintf("%s %v %s", f.Severity, f.Pods, facts.Stamp(*f.Since))
			}
		}
		if got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}
