package histories

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/recorded"
)

// recordStories makes TestRecord replay the recorded histories with the controllers of all
// releases.
var recordStories = flag.Bool("record", false, "have the controllers of all releases live through histories, and keep the stories for the tests named TestRecorded...")

const (
	// storiesFile has one story a line.
	storiesFile = "testdata/stories.json.gz"
	// recordedHistories is the number of histories for each release, beside the kept ones.
	recordedHistories = 50
)

// storiesOf identifies the code that draws the histories and that replays them with the
// releases.
func storiesOf(t *testing.T) string {
	t.Helper()
	fingerprint, err := recorded.Fingerprint("generate.go", "scenes.go", "testdata/[a-z]*-*.json", "../conformance/build.go",
		"../oracle/*.go", "../oracle/wire/*.go", "../oracle/*.mod")
	if err != nil {
		t.Fatal(err)
	}
	return fingerprint
}

// recordedStory is a line of the file. The story is as the oracle sent it, without each list
// of objects that is the same as the previous moment's.
type recordedStory struct {
	Name    string
	Release conformance.Release
	Request *wire.Request
	Story   *wire.Story
}

// thin removes from each moment the objects that are the same as in the moment before it:
// their number shows that.
func (r *recordedStory) thin() {
	for i := len(r.Story.Moments) - 1; i > 0; i-- {
		if m := &r.Story.Moments[i]; m.Objects == r.Story.Moments[i-1].Objects {
			m.VolumeAttachments, m.Nodes, m.Pods = nil, nil, nil
		}
	}
}

// fill undoes thin.
func (r *recordedStory) fill() {
	for i := 1; i < len(r.Story.Moments); i++ {
		if m, last := &r.Story.Moments[i], r.Story.Moments[i-1]; m.Objects == last.Objects {
			m.VolumeAttachments, m.Nodes, m.Pods = last.VolumeAttachments, last.Nodes, last.Pods
		}
	}
}

// recordedRequests are the histories of a release, by their names.
func recordedRequests(t *testing.T, release conformance.Release) map[string]*wire.Request {
	t.Helper()
	all := kept(t)
	if release == conformance.Newest {
		maps.Copy(all, Scenes())
	}
	for s := range uint64(recordedHistories) {
		all[fmt.Sprintf("seed %d", s+1)] = Generate(s + 1)
	}
	return all
}

// TestRecord replays the recorded histories with the releases.
func TestRecord(t *testing.T) {
	if !*recordStories {
		t.Skip("make record has the controllers of all releases live through histories")
	}
	w, err := recorded.Create(storiesFile, storiesOf(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range conformance.Releases {
		oracle, requests := start(t, release), recordedRequests(t, release)
		for _, name := range slices.Sorted(maps.Keys(requests)) {
			line := recordedStory{Name: name, Release: release, Request: requests[name], Story: live(t, oracle, requests[name])}
			line.thin()
			if err := w.Encode(line); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d histories", release, len(requests))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// recordedStories are the stories of the file.
func recordedStories(t *testing.T) []recordedStory {
	t.Helper()
	all, err := recorded.Read[recordedStory](storiesFile, storiesOf(t))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].fill()
	}
	return all
}

// TestRecordedHistories compares the model with what the controllers did in the recorded
// histories, and the replay of their logs with what they remembered.
func TestRecordedHistories(t *testing.T) {
	stories := recordedStories(t)
	total, lived := &Result{Counts: map[string]int{}}, map[conformance.Release]int{}
	var mu sync.Mutex
	next := make(chan recordedStory)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for s := range next {
				result := compareAll(s.Release, s.Request, s.Story)
				mu.Lock()
				lived[s.Release]++
				for name, n := range result.Counts {
					total.Counts[name] += n
				}
				mu.Unlock()
				if len(result.Differences) > 0 {
					t.Errorf("%s, %s: %s", s.Name, s.Release, strings.Join(result.Differences, "\n"))
				}
			}
		})
	}
	for _, s := range stories {
		next <- s
	}
	close(next)
	workers.Wait()
	for _, name := range seen {
		if total.Counts[name] == 0 {
			t.Errorf("never met: %s", name)
		}
	}
	for _, release := range conformance.Releases {
		if want := len(recordedRequests(t, release)); lived[release] != want {
			t.Errorf("%s has lived through %d histories, not %d", release, lived[release], want)
		}
	}
	t.Logf("%d histories, %d deeds compared", len(stories), total.Counts["deeds compared"])
}

// TestRecordedComparisonCanFail: each change that TestComparisonCanFail and
// TestLogComparisonCanFail make is noticed in the recorded stories.
func TestRecordedComparisonCanFail(t *testing.T) {
	var stories []told
	for _, s := range recordedStories(t) {
		if s.Release == conformance.Newest {
			stories = append(stories, told{s.Request, s.Story})
		}
	}
	noticed(t, conformance.Newest, stories)
	noticedInLogs(t, conformance.Newest, stories)
}

// TestThin: fill restores what thin removes.
func TestThin(t *testing.T) {
	pods := func(name string) wire.Moment {
		m := wire.Moment{Objects: len(name)}
		m.Pods = append(m.Pods, wire.HistoryPod(name, "n1", "v1", ""))
		return m
	}
	text := func(r *recordedStory) string {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	r := &recordedStory{Story: &wire.Story{Moments: []wire.Moment{pods("a"), pods("a"), pods("a"), pods("bb"), pods("bb")}}}
	was := text(r)
	r.thin()
	if n := strings.Count(text(r), `"image"`); len(text(r)) >= len(was) || n > 2 {
		t.Errorf("%d are left", n)
	}
	if r.fill(); text(r) != was {
		t.Errorf("%s\nis not\n%s", text(r), was)
	}
}
