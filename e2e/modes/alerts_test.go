package modes_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/recording"
)

const (
	// alertWithin is how soon after the end of its story a mode fires its alert, unless
	// its check needs longer to name it.
	alertWithin = 5 * time.Minute
	// alertLag is how much later than its finding an alert fires: a look, a scrape, an
	// evaluation, and the minute for which the rule waits.
	alertLag = 2*time.Minute + 30*time.Second
	// soonAlerted modes at least fire within alertWithin.
	soonAlerted = 55
)

// alerted holds the alerts that Prometheus makes of the scrapes of this very run to the
// modes: each fires its own, and nothing else fires. Left out are the modes that are found
// at a later moment only, which this run does not see.
func alerted(t *testing.T, modes []mode, outcomes map[string]*outcome, recorded *recording.Recording) {
	alerts, end := recorded.Alerts(t)
	soon, slow, left := 0, 0, 0
	for _, m := range modes {
		o := outcomes[m.name]
		if m.later {
			left++
			continue
		}
		if o.finding == nil || o.since().IsZero() {
			continue // said already
		}
		mine := slices.DeleteFunc(slices.Clone(alerts), func(a recording.Alert) bool {
			return a.Labels["check"] != m.check || !ofMode(a, m)
		})
		limit := max(alertWithin, o.named.after+alertLag)
		first, pending := firstFiring(mine), len(mine) > 0
		switch {
		case first.IsZero() && pending && o.since().Add(o.named.after+alertLag).After(end):
			t.Logf("%s: %s was pending at the end", m.name, m.check)
			slow++
		case first.IsZero():
			t.Errorf("%s: no alert for %s fires, though it was found after %s: %v", m.name, m.check, o.named.after, mine)
		default:
			after := max(0, first.Sub(o.since()))
			if after > limit {
				t.Errorf("%s: the alert for %s fires after %s; it was found after %s", m.name, m.check, after, o.named.after)
			}
			if after <= alertWithin {
				soon++
			} else {
				slow++
			}
			t.Logf("%s: %s, found after %s, fires as %s after %s", m.name, m.check, o.named.after.Round(time.Second), mine[0].Labels["severity"], after.Round(time.Second))
		}
	}
	for _, a := range alerts {
		owner := slices.IndexFunc(modes, func(m mode) bool { return ofMode(a, m) })
		switch {
		case a.Firing == nil:
		case owner < 0:
			t.Errorf("an alert that belongs to no mode fires: %+v", a)
		case a.Labels["check"] == "" || a.Labels["severity"] == string(finding.Info) || a.Labels["check"] == diagnose.PodStuck.Name:
		case a.Labels["check"] != modes[owner].check && !slices.Contains(modes[owner].also, a.Labels["check"]):
			t.Errorf("%s: another alert fires: %+v", modes[owner].name, a)
		}
	}
	t.Logf("%d modes fire their alert within %s, %d later because their check waits for longer, and %d are found at a later moment only; %d alerts in all", soon, alertWithin, slow, left, len(alerts))
	if *some == "" && soon < soonAlerted {
		t.Errorf("%d modes fire their alert within %s, want %d", soon, alertWithin, soonAlerted)
	}
}

// ofMode says that the alert is about something of the mode.
func ofMode(a recording.Alert, m mode) bool {
	for _, label := range []string{"namespace", "name", "volume", "node", "pod", "claim"} {
		if strings.Contains(a.Labels[label], m.name) {
			return true
		}
	}
	return false
}

// firstFiring is when the first of the alerts fired; zero: none did.
func firstFiring(alerts []recording.Alert) (first time.Time) {
	for _, a := range alerts {
		if a.Firing != nil && (first.IsZero() || a.Firing.Before(first)) {
			first = *a.Firing
		}
	}
	return first
}
