package snapshot

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// twoPods are two pods with a claim each, and an event about the first.
const twoPods = `
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: default, uid: u1, creationTimestamp: "2026-11-20T09:00:00Z", ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: s, uid: u2}]}
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: default, uid: u3, creationTimestamp: "2026-11-20T09:00:00Z"}
status: {phase: Pending}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv, uid: u4, creationTimestamp: "2026-11-20T09:00:00Z"}
spec: {claimRef: {kind: PersistentVolumeClaim, namespace: default, name: data, uid: u5}}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default, uid: u5, creationTimestamp: "2026-11-20T09:00:00Z"}
spec: {volumeName: pv}
status: {phase: Bound}
---
apiVersion: v1
kind: Event
metadata: {name: a.1, namespace: default, uid: u6, creationTimestamp: "2026-11-20T09:30:00Z"}
involvedObject: {kind: Pod, namespace: default, name: a, uid: u1}
reason: FailedMount
`

// TestReplacedUIDs: somebody has taken away all UIDs, or put one text in their place. An event is then of the
// object that it names, and of no other.
func TestReplacedUIDs(t *testing.T) {
	uid := regexp.MustCompile(`uid: u\d`)
	for name, in := range map[string]string{
		"as they are":          twoPods,
		"one text for all":     uid.ReplaceAllString(twoPods, "uid: REDACTED"),
		"none":                 regexp.MustCompile(`, uid: u\d`).ReplaceAllString(twoPods, ""),
		"none, but of objects": strings.Replace(twoPods, "name: a, uid: u1}\nreason", "name: a}\nreason", 1),
	} {
		s, warnings, err := Read("f", strings.NewReader(in), ReadOptions{Now: noon})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(s.Pods) != 2 || len(s.EventsOfPod(s.Pods[0])) != 1 || len(s.EventsOfPod(s.Pods[1])) != 0 {
			t.Errorf("%s: %d pods, %d and %d events", name, len(s.Pods), len(s.EventsOfPod(s.Pods[0])), len(s.EventsOfPod(s.Pods[1])))
		}
		if ref := s.Volumes[0].Spec.ClaimRef; ref.UID != s.Claims[0].UID {
			t.Errorf("%s: the claim has the uid %q, and the volume names %q", name, s.Claims[0].UID, ref.UID)
		}
		told := slices.ContainsFunc(warnings, func(w Warning) bool { return strings.Contains(string(w), "have one uid") })
		if told != (name == "one text for all") {
			t.Errorf("%s: %q", name, warnings)
		}
	}
}

// TestBoundWithoutClaim: an API server shows no Bound volume without its claim.
func TestBoundWithoutClaim(t *testing.T) {
	const ref = "{claimRef: {kind: PersistentVolumeClaim, namespace: default, name: data, uid: u5}}"
	without := strings.Replace(twoPods, ref, "{}", 1)
	for name, c := range map[string]struct {
		in    string
		whole bool
	}{
		"Bound":              {without, false},
		"... with its claim": {twoPods, true},
		"Available":          {strings.Replace(without, "spec: {}\nstatus: {phase: Bound}", "spec: {}\nstatus: {phase: Available}", 1), true},
		"an example by hand": {regexp.MustCompile(`, uid: u\d`).ReplaceAllString(without, ""), true},
	} {
		s, _, err := Read("f", strings.NewReader(c.in), ReadOptions{Now: noon})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		altered := slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Kind == Volumes && g.Reason == ReasonUndecodable })
		if altered == c.whole {
			t.Errorf("%s: gaps %q", name, gapLines(s))
		}
	}
}
