package diagnose_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// narrowed is the snapshot with the claims, pods and events of one namespace alone.
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

// TestNarrowedToNamespace: where one namespace alone was read, no finding says what the
// whole cluster does not show, nor says it in other words.
func TestNarrowedToNamespace(t *testing.T) {
	long.Test(t)
	kept := map[finding.Code]int{}
	for _, c := range corpus(t) {
		s := c.snapshot(t)
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
				if m.Line() != f.Line() || m.Severity != f.Severity || m.Confidence != f.Confidence || m.SelfHeals.Will != f.SelfHeals.Will || m.Cause != f.Cause {
					t.Errorf("%s in %s: %s says %q (%s), and of the whole cluster %q (%s)", c.name, namespace, f.Code, f.Message, f.Cause, m.Message, m.Cause)
				}
			}
		}
	}
	t.Logf("found in one namespace: %v", kept)
}

// TestChecksOfNamespaceYieldToSuch: where a check speaks of one namespace, those whose findings
// would take its place do so, too.
func TestChecksOfNamespaceYieldToSuch(t *testing.T) {
	of := map[finding.Code]bool{}
	for _, c := range diagnose.Checks() {
		of[c.Code] = c.OfNamespace
	}
	for _, c := range diagnose.Checks() {
		for _, y := range c.Yields {
			if c.OfNamespace && !of[y.To] {
				t.Errorf("%s yields to %s", c.Code, y.To)
			}
		}
	}
}
