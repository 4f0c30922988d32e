package modes_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/link"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/recording"
)

var (
	serveFor  = flag.Duration("serve", 0, "TestServing runs serve for this long, the modes included")
	writePage = flag.Bool("write-serving", false, "TestServing writes its result into docs/evidence/serving.md")
)

const (
	openReports = "../serve/testdata/crds/openreports.yaml"
	// settleWithin is how long serve may take until it agrees with diagnose: it writes
	// nothing for a minute after a failed write, and the machine may be busy.
	settleWithin = 3 * time.Minute
	// away is how long at least the API server and the links are away: shorter than the 30 s
	// after which a leader that cannot renew its Lease ends.
	away = 10 * time.Second
	// cuts is how often the watches are cut.
	cuts = 5
)

// serving are two replicas of serve, and the observations about them; one of the two leads.
type serving struct {
	modes    []mode
	began    time.Time
	replicas []*recording.Replica
	links    []*link.Link
	// stands has, for each finding of the last diagnose, since when every diagnose has
	// reported it. ever are all findings that one has reported.
	stands map[series]time.Time
	ever   map[series]bool
	// explained are the findings in ever that are about an object of a mode. Where the
	// subject has another name, that of a driver, the finding's pods show it.
	explained map[series]bool
	// shown are the findings that serve showed during the faults.
	shown map[series]bool
	last  finding.Report
	most  int // the most findings at a time
	looks int
	// compared counts the comparisons of serve with diagnose.
	compared int
	settled  time.Duration // the longest that this took
	memory   []sample
	restarts int
	killed   int
	cutTimes int
}

// sample is the resident memory of the process at the address, which leads.
type sample struct {
	at      time.Time
	address string
	bytes   float64
}

// serve starts the replicas, which write events and OpenReports. Each has its own link to the
// API server.
func serve(t *testing.T, modes []mode) *serving {
	t.Helper()
	for _, args := range [][]string{{"apply", "--server-side", "-f", openReports}, {"wait", "--for=condition=Established", "-f", openReports}} {
		r, err := command.Run(t.Context(), "kubectl", cluster.Kubeconfig, args...)
		if err != nil || r.Code != 0 {
			t.Fatalf("kubectl %v: %v %s", args, err, r.Stderr)
		}
	}
	s := &serving{modes: modes, began: time.Now(), stands: map[series]time.Time{}, ever: map[series]bool{}, explained: map[series]bool{}, shown: map[series]bool{}}
	for _, name := range []string{"volume-doctor-0", "volume-doctor-1"} {
		l, kubeconfig, err := link.New(cluster.Kubeconfig, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.End)
		s.links = append(s.links, l)
		s.replicas = append(s.replicas, recording.Start(t, name, kubeconfig, "--events", "--reports"))
	}
	return s
}

// TestServing runs serve while the modes are provoked side by side, the API server restarts
// twice, the leader is killed and the watches are cut: metrics, events, OpenReports and
// alerts agree with diagnose, and memory does not grow.
func TestServing(t *testing.T) {
	if *serveFor == 0 {
		t.Skip("it takes -serve DURATION, as make serve-modes gives it")
	}
	modes := allModes()
	ready(t, modes)
	s := serve(t, modes)
	bystander(t)
	s.holds(t, "before anything is wrong")
	if len(s.ever) > 0 {
		t.Errorf("before anything is wrong there is %v", s.ever)
	}
	outcomes := map[string]*outcome{}
	for _, m := range modes {
		outcomes[m.name] = newOutcome(m)
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		provokeAll(t, modes, outcomes)()
	}()
	for telling := true; telling; {
		select {
		case <-told:
			telling = false
		case <-time.After(lookEvery):
			s.look(t)
		}
	}
	t.Logf("after %s all stories are over", s.lasts())
	s.found(t, outcomes)
	s.faults(t)
	for s.lasts() < *serveFor {
		s.holds(t, "while nothing happens")
		time.Sleep(lookEvery)
	}
	s.heals(t)
	result := s.end(t)
	t.Log(result)
	if *writePage && !t.Failed() {
		s.write(t, result)
	}
}

// found looks until every mode is found that can be, so that the faults meet standing
// findings.
func (s *serving) found(t *testing.T, outcomes map[string]*outcome) {
	t.Helper()
	for end := time.Now().Add(foundWithin); ; time.Sleep(lookEvery) {
		s.look(t)
		var missing []string
		for _, m := range s.modes {
			o := outcomes[m.name]
			if o.note(s.last, m); o.awaited() && !o.named.seen {
				missing = append(missing, m.name)
			}
		}
		if len(missing) == 0 {
			t.Logf("after %s all are found that can be", s.lasts())
			return
		}
		if time.Now().After(end) {
			t.Errorf("not found within %s: %v", foundWithin, missing)
			return
		}
	}
}

func (s *serving) lasts() time.Duration { return time.Since(s.began).Round(time.Second) }

// look runs diagnose.
func (s *serving) look(t *testing.T) {
	t.Helper()
	s.last = diagnosed(t, cluster.Kubeconfig, 1)
	s.looks++
	now := seriesOf(s.last)
	s.most = max(s.most, len(now))
	for key := range s.stands {
		if !now[key] {
			delete(s.stands, key)
		}
	}
	for _, f := range s.last.Findings {
		if slices.ContainsFunc(s.modes, func(m mode) bool { return belongs(f, m) }) {
			s.explained[seriesOfFinding(f)] = true
		}
	}
	for key := range now {
		s.ever[key] = true
		if _, before := s.stands[key]; !before {
			s.stands[key] = s.last.TakenAt.Time
		}
	}
	if m, address := s.leader(t); m != nil {
		s.memory = append(s.memory, sample{time.Now(), address, m.value("process_resident_memory_bytes")})
	}
}

// holds waits until metrics, OpenReports and events agree with diagnose at that moment.
func (s *serving) holds(t *testing.T, when string) {
	t.Helper()
	start := time.Now()
	for {
		s.look(t)
		differs := s.differs(t)
		if differs == "" {
			s.compared++
			s.settled = max(s.settled, time.Since(start))
			t.Logf("after %s, %s: serve says what diagnose says, %d findings; it took %s", s.lasts(), when, len(s.stands), time.Since(start).Round(time.Second))
			return
		}
		if time.Since(start) > settleWithin {
			t.Errorf("after %s, %s: %s", s.lasts(), when, differs)
			return
		}
		time.Sleep(2 * time.Second)
	}
}

// faults are the disturbances of serve itself while all findings stand.
func (s *serving) faults(t *testing.T) {
	s.holds(t, "with all stories told")
	s.killLeader(t)
	s.holds(t, "with another leader")
	s.restartAPIServer(t)
	s.holds(t, "after a restart of the API server")
	s.cutWatches(t)
	s.holds(t, "with the watches cut")
	s.restartAPIServer(t)
	s.holds(t, "after a second restart of the API server")
}

// killLeader kills the replica that leads, as when its machine dies.
func (s *serving) killLeader(t *testing.T) {
	t.Helper()
	_, address := s.leader(t)
	i := slices.IndexFunc(s.replicas, func(r *recording.Replica) bool { return address != "" && r.Address() == address })
	if i < 0 {
		t.Error("nobody leads")
		return
	}
	before := s.series(t)
	s.replicas[i].Kill()
	s.killed++
	s.until(t, "another one leads and has looked", func(m metrics, now string) bool {
		return now != address && m.has("volume_doctor_last_look_timestamp_seconds")
	})
	s.nothingLost(t, "after the leader's death", before)
}

// restartAPIServer checks that while the API server is away no finding is lost, and none
// invented.
func (s *serving) restartAPIServer(t *testing.T) {
	t.Helper()
	before := s.series(t)
	cluster.StopAPIServer()
	s.restarts++
	s.until(t, "there are gaps", func(m metrics, _ string) bool { return m.has("volume_doctor_gaps") })
	for end := time.Now().Add(away); time.Now().Before(end); time.Sleep(time.Second) {
		if now := s.series(t); now != nil { // nil while no replica leads
			s.nothingLost(t, "while the API server is away", before)
		}
	}
	if err := cluster.ResumeAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The attacher's lists may be minutes late.
	cluster.KillAttacher()
	if err := cluster.StartAttacher(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.until(t, "no gap is left", func(m metrics, _ string) bool {
		return m.has("volume_doctor_last_look_timestamp_seconds") && !m.has("volume_doctor_gaps")
	})
}

// cutWatches cuts the connections of both replicas again and again, the last time for a
// while.
func (s *serving) cutWatches(t *testing.T) {
	t.Helper()
	before := s.series(t)
	for i := range cuts {
		for _, l := range s.links {
			l.Cut()
		}
		s.cutTimes++
		if i == cuts-1 {
			time.Sleep(away)
		}
		if s.series(t) != nil {
			s.nothingLost(t, "while the links are cut", before)
		}
		for _, l := range s.links {
			l.Mend()
		}
		time.Sleep(5 * time.Second)
	}
	s.until(t, "no gap is left", func(m metrics, _ string) bool {
		return m.has("volume_doctor_last_look_timestamp_seconds") && !m.has("volume_doctor_gaps")
	})
}

// nothingLost checks that serve still has each earlier finding that stands by diagnose, where
// diagnose can ask. It adds serve's findings to shown.
func (s *serving) nothingLost(t *testing.T, when string, before map[series]bool) {
	t.Helper()
	now := s.series(t)
	if now == nil {
		return
	}
	maps.Copy(s.shown, now)
	if missing := without(before, now); len(missing) > 0 {
		// The finding may have ended in the cluster.
		if r, err := command.Run(t.Context(), command.Binary, cluster.Kubeconfig, "diagnose", "-o", "json"); err == nil && r.Code <= 1 {
			ended := without(before, seriesOf(parse[finding.Report](t, r.Stdout)))
			missing = slices.DeleteFunc(missing, func(key series) bool { return slices.Contains(ended, key) })
		}
		if len(missing) > 0 {
			t.Errorf("after %s, %s, lost: %v", s.lasts(), when, missing)
		}
	}
}

// heals ends a failure: its finding goes, and an OpenReport without findings is deleted.
func (s *serving) heals(t *testing.T) {
	const mode = "made-by-hand"
	if !slices.ContainsFunc(s.modes, called(mode)) {
		return
	}
	err := cluster.Client().StorageV1().VolumeAttachments().Delete(t.Context(), "attach-"+mode, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.until(t, "the finding has healed", func(m metrics, _ string) bool {
		for key := range m.findings() {
			if strings.Contains(key.name, mode) {
				return false
			}
		}
		return true
	})
	s.holds(t, "with a failure repaired")
}

func called(name string) func(mode) bool { return func(m mode) bool { return m.name == name } }

// until scrapes the leader until holds is true.
func (s *serving) until(t *testing.T, what string, holds func(m metrics, address string) bool) {
	t.Helper()
	for deadline := time.Now().Add(settleWithin); ; time.Sleep(time.Second) {
		if m, address := s.leader(t); m != nil && holds(m, address) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("after %s, not within %s: %s", s.lasts(), settleWithin, what)
			return
		}
	}
}

// leader returns the metrics of the leading replica, and its address; nil while none leads.
func (s *serving) leader(t *testing.T) (m metrics, address string) {
	t.Helper()
	for _, r := range s.replicas {
		address := r.Address()
		if m := parseMetrics(recording.Metrics(context.WithoutCancel(t.Context()), address)); m.value("volume_doctor_leader") == 1 {
			return m, address
		}
	}
	return nil, ""
}

// series are the findings that the leader shows; nil where none has looked.
func (s *serving) series(t *testing.T) map[series]bool {
	t.Helper()
	m, _ := s.leader(t)
	if !m.has("volume_doctor_last_look_timestamp_seconds") {
		return nil
	}
	return m.findings()
}

// write puts the result into the page.
func (s *serving) write(t *testing.T, result string) {
	t.Helper()
	const begin, end = "<!-- measured by make serve-modes: begin -->\n", "<!-- measured by make serve-modes: end -->\n"
	replaceBetween(t, filepath.Join("..", "..", "docs", "evidence", "serving.md"), begin, end, fmt.Sprintf("\n%s\n", result))
}
