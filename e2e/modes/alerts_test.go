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
	// alertWithin is how soon after the end of its story a mode must fire its alert, unless
	// its check needs longer to name it.
	alertWithin = 5 * time.Minute
	// alertLag is how much later than its finding an alert fires: a look, a scrape, an
	// evaluation, and the minute for which the rule waits.
	alertLag = 2*time.Minute + 30*time.Second
	// pendingLag is how much later than its finding an alert is pending: alertLag without the
	// minute for which the rule waits, and with room for a busy machine.
	pendingLag = 75 * time.Second
	// soonAlerted modes at least fire within alertWithin.
	soonAlerted = 65
)

// alerted compares the alerts that Prometheus makes from this run's scrapes with the modes:
// each fires its own once its finding is above info, and no other fires. Left out are the
// modes that are found, or above info, only at a later moment, which this run does not see,
// and those that are found shortly before its end, because nobody waits for their alerts.
func alerted(t *testing.T, modes []mode, outcomes map[string]*outcome, recorded *recording.Recording) {
	alerts, end := recorded.Alerts(t)
	soon, slow, last, left := 0, 0, 0, 0
	for _, m := range modes {
		o := outcomes[m.name]
		if o.finding == nil || o.since().IsZero() {
			continue // reported already
		}
		if !o.grave.seen || o.grave.ahead {
			left++
			t.Logf("%s: %s is found, or more than an info, at a later moment only", m.name, m.check)
			continue
		}
		mine := slices.DeleteFunc(slices.Clone(alerts), func(a recording.Alert) bool {
			return a.Labels["check"] != m.check || !o.owns(a, m)
		})
		seen := o.since().Add(o.grave.after)
		if first := firstFiring(mine); !first.IsZero() {
			after := max(0, first.Sub(o.since()))
			if after > max(alertWithin, o.grave.after+alertLag) {
				t.Errorf("%s: the alert for %s fires after %s; it was found after %s", m.name, m.check, after, o.grave.after)
			}
			if after <= alertWithin {
				soon++
			} else {
				slow++
			}
			t.Logf("%s: %s, found after %s, fires as %s after %s", m.name, m.check, o.grave.after.Round(time.Second), mine[0].Labels["severity"], after.Round(time.Second))
			continue
		}
		switch runs := end.Sub(seen); {
		case runs > alertLag, runs > pendingLag && len(mine) == 0:
			t.Errorf("%s: no alert for %s fires, though it was found after %s, %s before the end: %v", m.name, m.check, o.grave.after, runs, mine)
		default:
			last++
			t.Logf("%s: %s was found %s before the end; %d alerts were pending", m.name, m.check, runs.Round(time.Second), len(mine))
		}
	}
	for _, a := range alerts {
		owner := slices.IndexFunc(modes, func(m mode) bool { return outcomes[m.name].owns(a, m) })
		switch {
		case a.Firing == nil:
		case owner < 0:
			t.Errorf("an alert that belongs to no mode fires: %+v", a)
		case a.Labels["severity"] == string(finding.Info):
			t.Errorf("%s: an alert of an info fires: %+v", modes[owner].name, a)
		case a.Labels["check"] == "" || a.Labels["check"] == diagnose.PodStuck.Name:
		case a.Labels["check"] != modes[owner].check && !slices.Contains(modes[owner].also, a.Labels["check"]):
			t.Errorf("%s: another alert fires: %+v", modes[owner].name, a)
		}
	}
	t.Logf("%d modes fire their alert within %s, and %d later because their check waits for longer; %d are found too close to the end of the run, and %d at a later moment only; %d alerts in all",
		soon, alertWithin, slow, last, left, len(alerts))
	if *some == "" && soon < soonAlerted {
		t.Errorf("%d modes fire their alert within %s, want %d", soon, alertWithin, soonAlerted)
	}
}

// owns reports whether the alert is about an object of the mode: by a name in its labels, or
// because it is the mode's finding. The name of a driver has no mode's name in it.
func (o *outcome) owns(a recording.Alert, m mode) bool {
	if f := o.finding; f != nil && a.Labels["code"] == string(f.Code) && a.Labels["kind"] == f.Subject.Kind && a.Labels["name"] == f.Subject.Name && a.Labels["namespace"] == f.Subject.Namespace {
		return true
	}
	for _, label := range []string{"namespace", "name", "volume", "node", "pod", "claim"} {
		if strings.Contains(a.Labels[label], m.name) {
			return true
		}
	}
	return false
}

// firstFiring is when the first of the alerts fired; zero where none did.
func firstFiring(alerts []recording.Alert) (first time.Time) {
	for _, a := range alerts {
		if a.Firing != nil && (first.IsZero() || a.Firing.Before(first)) {
			first = *a.Firing
		}
	}
	return first
}
