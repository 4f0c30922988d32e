package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

// TestUseOfHealthyClaims checks that a healthy claim takes less than 12 lines, also on a terminal,
// and that these name its pods, its nodes and its VolumeAttachments.
func TestUseOfHealthyClaims(t *testing.T) {
	healthy, shared := 0, 0
	eachCase(t, func(t *testing.T, c corpusCase) {
		for _, use := range usesOf(c) {
			if use.Subject.Kind != "PersistentVolumeClaim" || use.Verdict.State != finding.NoWait || len(use.Findings)+len(use.Gaps)+len(use.Notes) > 0 || len(use.Pods) > 3 || len(use.Nodes) > max(1, len(use.Pods)) || len(use.Pods) > 1 && slices.ContainsFunc(use.Pods, func(p trace.UsingPod) bool { return p.Mounted != trace.Yes }) ||
				slices.ContainsFunc(use.Nodes, func(n trace.HavingNode) bool { return n.State != trace.NodeHas || n.InVolumesInUse != trace.Yes }) {
				continue
			}
			healthy++
			if len(use.Pods) == 3 && len(use.Nodes) == 3 {
				shared++
			}
			for _, width := range []int{0, 80} {
				var b bytes.Buffer
				if err := TraceFormats.Print(&b, "table", []trace.Document{use}, Options{Width: width}); err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(b.String(), "\n"); n >= 12 {
					t.Errorf("%d columns: %d lines:\n%s", width, n, b.String())
				}
				for _, p := range use.Pods {
					if !strings.Contains(b.String(), p.Pod) {
						t.Errorf("pod %s is not named:\n%s", p.Pod, b.String())
					}
				}
				for _, n := range use.Nodes {
					if !strings.Contains(b.String(), string(n.Node)) || len(use.Nodes) == 1 && !strings.Contains(b.String(), n.VolumeAttachment) {
						t.Errorf("node %s or its VolumeAttachment is not named:\n%s", n.Node, b.String())
					}
				}
			}
		}
	})
	if healthy < 40 || shared == 0 {
		t.Errorf("%d claims, %d of them of three pods on three nodes", healthy, shared)
	}
}

// TestUseOfManyPods checks that a healthy claim takes less than 12 lines, however many pods and
// nodes use it and however long their names are.
func TestUseOfManyPods(t *testing.T) {
	shared := 0
	eachCase(t, func(t *testing.T, c corpusCase) {
		for _, use := range usesOf(c) {
			if use.Subject.Kind != "PersistentVolumeClaim" || use.Verdict.State != finding.NoWait || len(use.Findings)+len(use.Gaps)+len(use.Notes) > 0 || len(use.Pods) != 3 || len(use.Nodes) != 3 ||
				slices.ContainsFunc(use.Pods, func(p trace.UsingPod) bool { return p.Mounted != trace.Yes }) {
				continue
			}
			shared++
			for _, many := range []int{2, 3, 4, 5, 6, 7, 40, 1000} {
				with := *use
				with.Pods, with.Nodes = nil, nil
				for i := range many {
					p, n := use.Pods[i%3], use.Nodes[i%3]
					p.Pod = fmt.Sprintf("%s/checkout-service-worker-7d9f8b6c5d-%05d", use.Subject.Namespace, i)
					p.Node = types.NodeName(fmt.Sprintf("ip-10-200-100-%d.eu-central-1.compute.internal", i))
					n.Node = p.Node
					with.Pods, with.Nodes = append(with.Pods, p), append(with.Nodes, n)
				}
				var b bytes.Buffer
				if err := TraceFormats.Print(&b, "table", []trace.Document{&with}, Options{Width: 80}); err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(b.String(), "\n"); n >= 12 || !strings.Contains(b.String(), "7d9f8b6c5d-00000") || !strings.Contains(strings.Join(strings.Fields(b.String()), " "), fmt.Sprintf("and %s (-o wide lists them) run", count(many-1, "more pod"))) {
					t.Errorf("%d lines of %d pods:\n%s", n, many, b.String())
				}
			}
		}
	})
	if shared == 0 {
		t.Error("no claim of three pods on three nodes")
	}
}

// TestUsesOfTheCorpus checks that the page of a claim agrees with the traces of its pods, and that
// every format shows it.
func TestUsesOfTheCorpus(t *testing.T) {
	long.Test(t)
	waits := map[finding.WaitState]int{}
	eachCase(t, func(t *testing.T, c corpusCase) {
		for _, use := range usesOf(c) {
			waits[use.Verdict.State]++
			checkUse(t, c, use)
			for _, format := range TraceFormats.Names() {
				var b bytes.Buffer
				if err := TraceFormats.Print(&b, format, []trace.Document{use}, Options{Width: 80}); err != nil {
					t.Fatal(err)
				}
				if format == "html" {
					root, _ := checkPage(t, b.Bytes())
					if shown := plain(textOf(root)); !strings.Contains(shown, plain(visible(use.Verdict.Message))) {
						t.Errorf("%s: the page lacks the verdict %q", use.Subject.Name, use.Verdict.Message)
					}
				}
				if format == "table" || format == "wide" {
					fits(t, "trace", format, b.String(), false)
				}
			}
		}
	})
	for _, state := range []finding.WaitState{finding.NoWait, finding.InFlight, finding.Stuck} {
		if waits[state] < 5 {
			t.Errorf("%d claims and volumes are %q", waits[state], state)
		}
	}
}

func checkUse(t *testing.T, c corpusCase, use *trace.VolumeUse) {
	t.Helper()
	for _, p := range use.Pods {
		i := slices.IndexFunc(c.read.Pods, func(pod *corev1.Pod) bool { return facts.PodName(pod) == p.Pod })
		doc := diagnose.TracePod(c.read, c.read.Pods[i], diagnose.Options{Reconcile: c.settings, Checks: []check.Check{}})
		ofThis := slices.ContainsFunc(doc.Volumes, func(v trace.VolumeTrace) bool {
			return v.Claim != "" && v.Name == p.Volume && (v.Name == doc.Verdict.Volume || slices.Contains(doc.Verdict.Volumes, v.Name))
		})
		if waiting := doc.Verdict.State == finding.Stuck || doc.Verdict.State == finding.InFlight; waiting && ofThis && use.Verdict.State != finding.Stuck && use.Verdict.State != finding.InFlight {
			t.Errorf("pod %s waits for it, and its page says %q: %s", p.Pod, use.Verdict.State, use.Verdict.Message)
		}
	}
	if use.Verdict.State == finding.Unsure && len(c.read.Gaps) == 0 {
		t.Errorf("%s: not known without a gap: %s", use.Subject.Name, use.Verdict.Message)
	}
	for _, at := range []*metav1.Time{use.Verdict.Since} {
		if at != nil && at.After(use.TakenAt.Time) {
			t.Errorf("%s waits since %s, which is to come", use.Subject.Name, at)
		}
	}
}
