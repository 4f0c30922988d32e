package modes_test

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/recording"
)

const (
	// grows is the factor by which the memory of the leading process in the last quarter of
	// its time may exceed that in the second.
	grows = 1.25
	// flatWithin is how long it must have led for this comparison.
	flatWithin = 4 * time.Minute
)

// end compares the events and the alerts of the whole time with what diagnose reported,
// checks the memory, and returns the text for the page.
func (s *serving) end(t *testing.T) string {
	t.Helper()
	lasts := s.lasts()
	s.holds(t, "at the end")
	if invented := without(s.shown, s.ever); len(invented) > 0 {
		t.Errorf("during the faults serve showed what diagnose never reported: %v", invented)
	}
	written := s.onceAnHour(t)
	exits := s.exits(t)
	fired := s.alerts(t)
	memory := s.flat(t)
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		load = []byte("unknown") // not on Linux
	}
	checks := map[string]bool{}
	for key := range s.ever {
		checks[key.code] = true
	}
	return fmt.Sprintf(`Measured on %s for %s with %d CPUs, which the control plane and other work shared, %s, at a load of
%s at the end: two replicas, %d failures of [docs/evidence/modes.md](evidence/modes.md), at most %d findings of %d
codes at a time.

| what happened | times |
| --- | ---: |
| the API server was killed and started again | %d |
| the leader was killed | %d |
| all connections to the API server were cut | %d |
| a leader ended because it could not renew its Lease for 30 s, and was started again | %d |

| what was held | result |
| --- | --- |
| `+"`diagnose -o json` ran beside it"+` | %d times |
| metrics, OpenReports and events compared with it | equal %d of %d times, each within %d s |
| findings lost or invented | 0 |
| events | %d, at most one in an hour for a finding |
| alerts that fired | %d, one for each finding that stayed; none that no failure explains |
| resident memory | %s |
`, time.Now().UTC().Format(time.DateOnly), lasts, runtime.NumCPU(), runtime.Version(), strings.Fields(string(load))[0], len(s.modes), s.most, len(checks),
		s.restarts, s.killed, s.cutTimes, exits, s.looks, s.compared, s.compared, int(s.settled.Seconds())+1, written, fired, memory)
}

// exits is how often a process ended without having been killed: each time because of the
// Lease.
func (s *serving) exits(t *testing.T) (ended int) {
	killed := 0
	for _, r := range s.replicas {
		for _, code := range r.Ended() {
			switch code {
			case -1:
				killed++
			case 2:
				ended++
			default:
				t.Errorf("a replica ended with exit code %d", code)
			}
		}
	}
	if killed != s.killed {
		t.Errorf("%d replicas died of a signal, and %d were killed", killed, s.killed)
	}
	return ended
}

// alerts compares the alerts that Prometheus makes from the scrapes of both replicas with
// what diagnose reported, and returns how many findings fired one.
func (s *serving) alerts(t *testing.T) (fired int) {
	t.Helper()
	recordings := make([]*recording.Recording, 0, len(s.replicas))
	for _, r := range s.replicas {
		recordings = append(recordings, r.Recording)
	}
	alerts, end := recording.Alerts(t, recordings...)
	firing := map[series]bool{}
	for _, a := range alerts {
		key := alertSeries(a)
		since, stands := s.stands[key]
		switch {
		case a.Firing == nil:
		case !s.explained[key] && !slices.ContainsFunc(s.modes, func(m mode) bool { return owned(a, m) }):
			t.Errorf("an alert that belongs to no mode fires: %+v", a)
		case key.code == "":
			if a.Name != "VolumeDoctorPodWaits" && a.Name != "VolumeDoctorDetachWaits" {
				t.Errorf("an alert about serve itself fires: %+v", a)
			}
		case !s.ever[key]:
			t.Errorf("an alert fires for what diagnose never reported: %+v", a)
		default:
			fired++
			if a.Ended == nil {
				firing[key] = true
			}
			if stands && a.Ended != nil && a.Ended.After(since) {
				t.Errorf("an alert ended at %s, and its finding has stood since %s: %+v", a.Ended, since, a)
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.stands), func(a, b series) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		if since := s.stands[key]; end.Sub(since) > alertLag && !firing[key] {
			t.Errorf("no alert fires for %v, which has stood since %s", key, since)
		}
	}
	return fired
}

// alertSeries is the finding of an alert; an alert about anything else has no code.
//
// The rules of a severity have a label severity of their own, which replaces the series'.
func alertSeries(a recording.Alert) series {
	key := seriesWith(a.Labels)
	if key.code == "" {
		return series{}
	}
	key.severity = map[string]string{"VolumeDoctorError": "error", "VolumeDoctorWarning": "warning"}[a.Name]
	return key
}

// owned reports whether the alert is about an object of the mode, by a name in its labels.
func owned(a recording.Alert, m mode) bool {
	for _, label := range []string{"namespace", "name", "volume", "node", "pod", "claim"} {
		if strings.Contains(a.Labels[label], m.name) {
			return true
		}
	}
	return false
}

// flat checks the memory of the process that leads at the end.
func (s *serving) flat(t *testing.T) string {
	t.Helper()
	last := s.memory[len(s.memory)-1]
	mine := slices.DeleteFunc(slices.Clone(s.memory), func(m sample) bool { return m.address != last.address })
	lasts := last.at.Sub(mine[0].at)
	var most [4]float64
	for _, m := range mine {
		quarter := min(3, int(4*m.at.Sub(mine[0].at)/max(1, lasts)))
		most[quarter] = max(most[quarter], m.bytes)
	}
	text := fmt.Sprintf("at most %.1f, %.1f, %.1f and %.1f MB in the quarters of the %s for which the last leader led", most[0]/1e6, most[1]/1e6, most[2]/1e6, most[3]/1e6, lasts.Round(time.Second))
	switch {
	case lasts < flatWithin:
		t.Errorf("the last leader led for %s only", lasts)
	case most[3] > grows*most[1]:
		t.Errorf("it grew: %s", text)
	}
	return text
}
