package facts

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestLater: a view of Later computes again what ends until then, and nothing else. Whoever
// asks for a fact counts as having asked for all that it depends on.
func TestLater(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC))
	v := NewView(&snapshot.Snapshot{TakenAt: now.Time}, nil, nil)
	var inner, outer fact[bool]
	asked := 0
	ask := func(v *View) bool {
		return outer.get(v, func(v *View) bool {
			asked++
			return inner.get(v, func(v *View) bool { return v.Lasted(now, 10*time.Minute) })
		})
	}
	if early := v.Later(9 * time.Minute); ask(v) || ask(early) || asked != 1 {
		t.Errorf("nine minutes change it: asked %d times", asked)
	}
	if v.Ends(9*time.Minute) || !v.Ends(10*time.Minute) || !slices.Equal(v.Left(), []time.Duration{10 * time.Minute}) {
		t.Errorf("%v are left", v.Left())
	}
	late := v.Later(10 * time.Minute)
	if !ask(late) || !ask(late.Apart()) || ask(v) || asked != 2 {
		t.Errorf("ten minutes change nothing: asked %d times", asked)
	}
	if other := v.Apart(); other.Ends(time.Hour) || ask(other) || !other.Ends(time.Hour) {
		t.Error("a view apart counts as asked what another is asked, or does not count a fact that was known")
	}
	if !slices.Equal(late.Left(), v.Left()) {
		t.Errorf("%v are left later", late.Left())
	}
}
