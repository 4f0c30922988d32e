package diagnose_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// narrowed is the snapshot with only the claims, pods and events of one namespace.
func narrowed(s *snapshot.Snapshot, namespace string) *snapshot.Snapshot {
	o := s.Objects
	o.Claims = slices.DeleteFunc(slices.Clone(o.Claims), func(c *corev1.PersistentVolumeClaim) bool { return c.Namespace != namespace })
	o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(p *corev1.Pod) bool { return p.Namespace != namespace })
	o.Events = slices.DeleteFunc(slices.Clone(o.Events), func(e *corev1.Event) bool { return e.Namespace != namespace })
	gaps := slices.Clone(s.Gaps)
	for _, kind := range []snapshot.Kind{snapshot.Claims, snapshot.Pods, snapshot.Events} {
		gaps = append(gaps, snapshot.Gap{Kind: kind, Namespace: namespace, Reason: snapshot.ReasonForbidden})
	}
	return remade(s, o, gaps)
}

// TestNarrowedToNamespace: where only one namespace was read, no finding says anything that the
// whole cluster does not show, or says it in other words. A finding that rests on a part of the
// evidence alone may say less: pods of other namespaces show why a provisioner is silent (VD512).
func TestNarrowedToNamespace(t *testing.T) {
	kept, saysLess, left := map[finding.Code]int{}, map[finding.Code]int{}, []string{}
	for _, c := range corpus(t) {
		s := c.snapshot(t)
		if testcases.ClaimedTwice(s) { // users of the volume are in two namespaces (VD501)
			left = append(left, c.name)
			continue
		}
		namespaces := map[string]bool{}
		for _, pod := range s.Pods {
			namespaces[pod.Namespace] = true
		}
		whole := c.diagnose(s)
		for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
			less := c.diagnose(narrowed(s, namespace))
			subset(t, fmt.Sprintf("%s in %s", c.name, namespace), whole, less)
			for _, f := range less.Findings {
				i := slices.IndexFunc(whole.Findings, func(m finding.Finding) bool { return m.Fingerprint == f.Fingerprint })
				if i < 0 || f.Check == "pod-stuck" {
					continue
				}
				m := whole.Findings[i]
				kept[f.Code]++
				if m.Line() != f.Line() && restsOnLess(f, m) {
					saysLess[f.Code]++
				} else if m.Line() != f.Line() || m.Severity != f.Severity || m.Confidence != f.Confidence || m.SelfHeals.Will != f.SelfHeals.Will || m.Cause != f.Cause {
					t.Errorf("%s in %s: %s says %q (%s, %s %s), and of the whole cluster %q (%s, %s %s)", c.name, namespace, f.Code, f.Line(), f.Cause, f.Severity, f.Confidence, m.Line(), m.Cause, m.Severity, m.Confidence)
				}
			}
		}
	}
	t.Logf("found in one namespace: %v", kept)
	if codes := slices.Collect(maps.Keys(saysLess)); !slices.Equal(codes, []finding.Code{"VD512"}) {
		t.Errorf("findings rest on less evidence in one namespace: %v", saysLess)
	}
	if want := []string{"vd104-near-other-claim", "vd501-bound-to-another", "vd501-near-taken"}; !slices.Equal(left, want) {
		t.Errorf("claims of two namespaces name one volume in %q, not in %q", left, want)
	}
}

// restsOnLess reports whether the evidence of less is a part of that of more.
func restsOnLess(less, more finding.Finding) bool {
	return len(less.Evidence) < len(more.Evidence) &&
		!slices.ContainsFunc(less.Evidence, func(e finding.Evidence) bool { return !slices.Contains(more.Evidence, e) })
}

// TestWithoutDrivers: where only CSIDrivers were not read, no finding says anything that the
// whole cluster does not show, or says it in other words; and most findings are still made.
func TestWithoutDrivers(t *testing.T) {
	long.Test(t)
	kept, lost := map[finding.Code]int{}, map[finding.Code]int{}
	for _, c := range corpus(t) {
		s := c.snapshot(t)
		whole, less := c.diagnose(s), c.diagnose(fewer(s, snapshot.CSIDrivers, none))
		subset(t, c.name, whole, less)
		for _, m := range whole.Findings {
			i := slices.IndexFunc(less.Findings, func(f finding.Finding) bool { return m.Fingerprint == f.Fingerprint })
			if i < 0 {
				lost[m.Code]++
				continue
			}
			kept[m.Code]++
			if f := less.Findings[i]; f.Check != "pod-stuck" && (m.Line() != f.Line() || m.Severity != f.Severity || m.Confidence != f.Confidence || m.SelfHeals.Will != f.SelfHeals.Will || m.Cause != f.Cause) {
				t.Errorf("%s: %s says %q (%s), and with CSIDrivers %q (%s)", c.name, f.Code, f.Message, f.Cause, m.Message, m.Cause)
			}
		}
	}
	t.Logf("still found: %v; no longer: %v", kept, lost)
}

// TestChecksWithoutDrivers: where only CSIDrivers were not read, the checks report on the
// drivers that VolumeAttachments show to attach, and on no others.
func TestChecksWithoutDrivers(t *testing.T) {
	without := func(name string) *finding.Report {
		for _, c := range corpus(t) {
			if c.name == name {
				return c.diagnose(fewer(c.snapshot(t), snapshot.CSIDrivers, none))
			}
		}
		t.Fatal(name)
		return nil
	}
	finds := func(r *finding.Report, code finding.Code) bool {
		return slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return f.Code == code })
	}
	if r := without("vd102-overdue"); !finds(r, "VD102") || len(r.Checks) < 70 {
		t.Errorf("%d checks run, and find %v", len(r.Checks), r.Findings)
	}
	for name, code := range map[string]finding.Code{
		"vd108-left-behind": "VD101", // attached once; its CSIDriver says that it no longer is
		"vd602-no-attach":   "VD602", // it has no VolumeAttachment
	} {
		if r := without(name); finds(r, code) {
			t.Errorf("%s: %s is found of a driver of which nothing is known", name, code)
		}
	}
}
