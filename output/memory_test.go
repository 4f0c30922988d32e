package output

import (
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestRememberedText checks the text that the log adds below a row of the plan. A driver's message
// must not control the terminal.
func TestRememberedText(t *testing.T) {
	taken := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	ago := taken.Add(-9 * time.Second)
	pair := reconcile.VolumeNode{Volume: "kubernetes.io/csi/d^v", Node: "n1"}
	log := func(p snapshot.RememberedPair, backOffs ...snapshot.BackOff) string {
		s := snapshot.New(taken, snapshot.Source{}, snapshot.Objects{}, nil)
		p.Volume, p.Node = pair.Volume, pair.Node
		s.Controller = &snapshot.Controller{First: ago, Last: taken, Pairs: []snapshot.RememberedPair{p}, BackOffs: backOffs}
		return planRemembered(reconcile.MemoryOf(s), pair).text()
	}
	pause := func(operation snapshot.Operation, after time.Duration) snapshot.BackOff {
		return snapshot.BackOff{Volume: pair.Volume, Operation: operation, Until: taken.Add(after)}
	}
	failed := snapshot.RememberedPair{LastError: "busy", LastErrorAt: &ago}
	for want, got := range map[string]string{
		"": log(snapshot.RememberedPair{States: []snapshot.Remembered{snapshot.RememberedAttached}, Since: &ago}),
		"the controller at work tries to attach since 09:59:51":                                   log(snapshot.RememberedPair{Running: snapshot.AttachOperation, RunningSince: &ago}),
		"its last error, at 09:59:51: busy":                                                       log(failed, pause(snapshot.AttachOperation, -time.Second)),
		"the controller at work retries to attach at 10:00:07; its last error, at 09:59:51: busy": log(failed, pause(snapshot.AttachOperation, 7*time.Second)),
		"the controller at work retries to detach at 10:00:07; its last error, at 09:59:51: busy": log(failed, pause(snapshot.DetachOperation, 7*time.Second)),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := log(snapshot.RememberedPair{LastError: "\x1b]0;x\a\u202e", LastErrorAt: &ago}); strings.ContainsAny(got, "\x1b\a\u202e") {
		t.Errorf("%q", got)
	}
	if got := planRemembered(nil, pair).text(); got != "" {
		t.Errorf("without a log: %q", got)
	}
}
