package snapshot

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestReadClock reads files without a header: their latest time must not stand
// alone.
func TestReadClock(t *testing.T) {
	created := func(kind, name, at string) string {
		return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: " + name + ", creationTimestamp: \"" + at + "\"}\n---\n"
	}
	heartbeats := func(name string, at ...string) string {
		text := created("Node", name, "2026-01-01T00:00:00Z")
		text = strings.TrimSuffix(text, "---\n") + "status:\n  conditions:\n"
		for i, t := range at {
			text += fmt.Sprintf("  - {type: C%d, status: \"True\", lastHeartbeatTime: %q}\n", i, t)
		}
		return text + "---\n"
	}
	const (
		ten   = "2026-11-20T10:00:00Z"
		bogus = "2099-01-01T00:00:00Z"
		alone = ", and no other object shows a time in the hour before that, so it may be wrong; say with --now when the file was written"
	)
	for name, tt := range map[string]struct{ in, want string }{
		"one object":                    {created("Node", "a", ten), ten},
		"two objects":                   {created("Node", "a", "2026-11-20T09:10:00Z") + created("PersistentVolume", "a", ten), ten},
		"two objects far apart":         {created("Node", "a", "2026-11-20T08:59:59Z") + created("PersistentVolume", "a", ten), "f: metadata.creationTimestamp of PersistentVolume a is " + ten + alone},
		"a slip":                        {created("Pod", "a", bogus) + created("Pod", "b", ten) + created("Pod", "c", ten), "f: metadata.creationTimestamp of Pod default/a is " + bogus + alone},
		"a heartbeat of the only node":  {heartbeats("a", ten, ten) + created("PersistentVolume", "a", "2026-10-01T00:00:00Z"), ten},
		"a slip in the only node":       {heartbeats("a", ten, bogus) + created("PersistentVolume", "a", ten), "f: status.conditions.lastHeartbeatTime of Node a is " + bogus + alone},
		"a node whose clock is wrong":   {heartbeats("a", ten, ten) + heartbeats("b", bogus, bogus), "f: status.conditions.lastHeartbeatTime of Node b is " + bogus + alone},
		"a slip in the only object":     {heartbeats("a", ten, bogus), "f: status.conditions.lastHeartbeatTime of Node a is " + bogus + alone},
		"the end of a grace period":     {strings.Replace(created("Pod", "a", ten), "}", ", deletionTimestamp: \""+bogus+"\"}", 1) + created("Pod", "b", ten), ten},
		"a lease that anybody may hold": {created("Pod", "a", ten) + "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: a, namespace: shop, creationTimestamp: \"" + ten + "\"}\nspec: {renewTime: \"2099-01-01T00:00:00.000000Z\"}\n", ten},
	} {
		s, _, err := Read("f", strings.NewReader(tt.in), ReadOptions{})
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = s.TakenAt.Format(time.RFC3339)
		}
		if got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tt.want)
		}
	}
}

// TestReadClockAhead: the lease of one node that is ahead of all others does not make the time of the
// file, nor does it contradict the time that a person or the file's header gives.
func TestReadClockAhead(t *testing.T) {
	lease := func(namespace, name, at string) string {
		return "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: " + name + ", namespace: " + namespace + "}\nspec: {renewTime: \"2026-11-20T" + at + ".000000Z\"}\n---\n"
	}
	node := func(name, at string) string { return lease("kube-node-lease", name, at) }
	header := "apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: \"2026-11-20T10:00:00Z\"\n---\n"
	others := lease("kube-system", "kube-controller-manager", "09:59:59") + node("b", "09:59:52")
	event := func(name, host, at string) string {
		return "apiVersion: v1\nkind: Event\nmetadata: {name: " + name + ", namespace: shop}\ninvolvedObject: {kind: Pod, namespace: shop, name: p}\nsource: {host: " + host + "}\nlastTimestamp: \"2026-11-20T" + at + "Z\"\n---\n"
	}
	inStep, many := others+node("a", "09:59:55"), ""
	for i := range mostEvidence + 1 {
		many += event(fmt.Sprintf("e%d", i), "a", "10:20:00")
	}
	ten := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		in   string
		now  time.Time
		want string // the time, or a part of the error
	}{
		"ahead":                        {in: others + node("a", "10:00:40"), want: "the clock of node a is ahead, or all others have stopped"},
		"ahead, and the time is given": {in: others + node("a", "10:06:00"), now: ten, want: "2026-11-20T10:00:00Z"},
		"ahead of the header":          {in: header + others + node("a", "10:06:00"), want: "2026-11-20T10:00:00Z"},
		"an event is":                  {in: inStep + event("e", "", "10:20:00"), want: "2026-11-20T09:59:59Z"},
		"... by hours":                 {in: inStep + event("e", "", "15:20:00"), want: "2026-11-20T09:59:59Z"},
		"all events of a node are":     {in: inStep + many, want: "2026-11-20T09:59:59Z"},
		"events of two nodes are":      {in: inStep + event("e", "a", "10:20:00") + event("f", "b", "10:19:00"), want: "2026-11-20T10:20:00Z"},
		"an event is, by little":       {in: inStep + event("e", "a", "10:01:00"), want: "2026-11-20T10:01:00Z"},
		"... the leases disagree":      {in: node("b", "09:30:00") + node("c", "09:50:00") + event("e", "a", "10:20:00"), want: "2026-11-20T10:20:00Z"},
		"an event, and the time given": {in: inStep + event("e", "", "10:20:00"), now: ten, want: "2026-11-20T10:00:00Z"},
		"... which the leases deny":    {in: inStep + event("e", "", "10:20:00"), now: ten.Add(-time.Hour), want: "contradicted: spec.renewTime"},
		"in step":                      {in: others + node("a", "10:00:05"), want: "2026-11-20T10:00:05Z"},
		"two are ahead":                {in: others + node("a", "10:06:00") + node("c", "10:05:55"), want: "2026-11-20T10:06:00Z"},
		"the others disagree":          {in: node("b", "09:30:00") + node("c", "09:50:00") + node("a", "10:00:00"), want: "2026-11-20T10:00:00Z"},
		"the time given is too early":  {in: others + node("a", "10:00:05"), now: ten.Add(-time.Hour), want: "contradicted"},
		"the controller is ahead":      {in: lease("kube-system", "kube-controller-manager", "10:00:00") + node("a", "09:50:00") + node("b", "09:50:05"), want: "2026-11-20T10:00:00Z"},
	} {
		s, _, err := Read("f", strings.NewReader(tt.in), ReadOptions{Now: tt.now})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = s.TakenAt.Format(time.RFC3339)
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tt.want)
		}
	}
}

// TestReadClockOneWrongTime: whatever one time of one object says, the time of the
// snapshot stays near what the others say, or there is none.
func TestReadClockOneWrongTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "pods")
		wrong := rapid.IntRange(0, n-1).Draw(t, "wrong one")
		var text strings.Builder
		for i := range n {
			at := noon.Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, "ago")) * time.Second)
			if i == wrong {
				at = noon.Add(time.Duration(rapid.IntRange(-1e6, 1e9).Draw(t, "off")) * time.Second)
			}
			fmt.Fprintf(&text, "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"p%d\", \"creationTimestamp\": %q}}\n", i, at.Format(time.RFC3339))
		}
		s, _, err := Read("f", strings.NewReader(text.String()), ReadOptions{})
		if err == nil && s.TakenAt.After(noon.Add(nearby)) {
			t.Fatalf("taken at %s, as one pod alone says", s.TakenAt)
		}
	})
}
