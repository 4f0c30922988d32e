package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/recorded"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// recordAnswers makes TestRecord ask the controllers of all releases again.
var recordAnswers = flag.Bool("record", false, "ask the controllers of all releases, and keep their answers for the tests named TestRecorded...")

// answersFile has one question a line, with the answers.
const answersFile = "testdata/answers.json.gz"

// answersOf identifies the code that draws the questions and that asks the releases.
func answersOf(t *testing.T) string {
	t.Helper()
	fingerprint, err := recorded.Fingerprint("generate*.go", "cluster.go", "build.go", "testdata/*.yaml", "ahead/*.patch",
		"../oracle/*.go", "../oracle/wire/*.go", "../oracle/*.mod")
	if err != nil {
		t.Fatal(err)
	}
	return fingerprint
}

// question is a cluster, the way in which the controllers were asked about it, and their
// answers.
type question struct {
	Kind kind
	// Name is the seed, or the file's name.
	Name    string
	Cluster *Cluster
	Mode    Mode
	Answers []answers
}

// answers is one answer, with the releases that gave it.
type answers struct {
	Releases []Release
	// Patch is the one of Patches with which the release was asked.
	Patch  string `json:",omitempty"`
	Answer *wire.Answer
}

// kind is the test whose questions these are.
type kind string

const (
	random  kind = "random"  // TestReleases
	kept    kind = "kept"    // TestKept
	gated   kind = "gated"   // TestGates
	ahead   kind = "ahead"   // TestAhead
	seLinux kind = "SELinux" // TestSELinux
)

// recordedClusters is how many random clusters of each kind are recorded; the kept ones are
// recorded all.
var recordedClusters = map[kind]int{random: 300, gated: 60, ahead: 60, seLinux: 100}

// asking is a question for one release.
type asking struct {
	*question
	release Release
	patch   string
}

// questions are all recorded questions. Their clusters have passed through JSON, as when they
// are read again.
func questions(t *testing.T) (all []asking) {
	t.Helper()
	add := func(q question, patch string, releases ...Release) {
		text, err := json.Marshal(q.Cluster)
		if err != nil {
			t.Fatal(err)
		}
		q.Cluster = &Cluster{}
		if err := json.Unmarshal(text, q.Cluster); err != nil {
			t.Fatal(err)
		}
		for _, release := range releases {
			all = append(all, asking{&q, release, patch})
		}
	}
	for s := uint64(1); s <= uint64(recordedClusters[random]); s++ {
		for _, mode := range modes(s) {
			add(question{Kind: random, Name: fmt.Sprint(s), Cluster: Random(s), Mode: mode}, "", Releases...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keptClusters(t))) {
		c := keptClusters(t)[name]
		for _, mode := range []Mode{{}, {TimedOut: true}, {Free: true}} {
			add(question{Kind: kept, Name: name, Cluster: c, Mode: mode}, "", Releases...)
		}
	}
	for _, release := range gatedReleases {
		for s := uint64(1); s <= uint64(recordedClusters[gated]); s++ {
			for _, mode := range modes(s) {
				c := Random(s)
				c.FeatureGates = someOf(gatesOf(release), s)
				add(question{Kind: gated, Name: fmt.Sprint(s), Cluster: c, Mode: mode}, "", release)
			}
		}
	}
	for _, change := range reconcile.Ahead() {
		for s := uint64(1); s <= uint64(recordedClusters[ahead]); s++ {
			c, asked := Random(s), modes(s)
			c.Ahead = []reconcile.Behaviour{change.Behaviour}
			if mode, late := lateNews[change.Behaviour]; late {
				c.Live, asked = newsOf(c, s), []Mode{mode}
			}
			for _, mode := range asked {
				add(question{Kind: ahead, Name: fmt.Sprint(s), Cluster: c, Mode: mode}, strings.TrimPrefix(change.Source, "#"), Newest)
			}
		}
	}
	for s := uint64(1); s <= uint64(recordedClusters[seLinux]); s++ {
		add(question{Kind: seLinux, Name: fmt.Sprint(s), Cluster: seLinuxCluster(s)}, "", Newest)
	}
	return all
}

// TestRecord asks the controllers of all releases the recorded questions.
func TestRecord(t *testing.T) {
	if !*recordAnswers {
		t.Skip("make record asks the controllers of all releases")
	}
	all := questions(t)
	var order []*question // each once
	for _, a := range all {
		if len(order) == 0 || order[len(order)-1] != a.question {
			order = append(order, a.question)
		}
	}
	var mu sync.Mutex
	said := map[*question]map[string]int{} // the place in Answers of an answer, by its text
	for _, release := range Releases {
		for _, patch := range append([]string{""}, slices.Sorted(maps.Keys(Patches))...) {
			asked := slices.DeleteFunc(slices.Clone(all), func(a asking) bool { return a.release != release || a.patch != patch })
			if len(asked) == 0 {
				continue
			}
			eachPatched(t, release, patch, 0, len(asked), func(t *testing.T, o *Oracle, i uint64) {
				q := asked[i].question
				request := o.request(q.Cluster, q.Mode)
				if request.SELinux = q.Kind == seLinux; request.SELinux {
					request = &wire.Request{Volumes: q.Cluster.Volumes, Claims: q.Cluster.Claims, Pods: q.Cluster.Pods, CSIDrivers: q.Cluster.CSIDrivers, SELinux: true}
				}
				answer, err := o.Send(request)
				if err != nil {
					t.Errorf("%s %s: %v", q.Kind, q.Name, err)
					return
				}
				sortAnswer(answer)
				text, err := json.Marshal(answer)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if said[q] == nil {
					said[q] = map[string]int{}
				}
				if j, known := said[q][string(text)]; known {
					q.Answers[j].Releases = append(q.Answers[j].Releases, release)
					return
				}
				said[q][string(text)] = len(q.Answers)
				q.Answers = append(q.Answers, answers{Releases: []Release{release}, Patch: patch, Answer: answer})
			})
			t.Logf("%s: %d answers", release.with(patch), len(asked))
		}
	}
	if t.Failed() {
		return
	}
	w, err := recorded.Create(answersFile, answersOf(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range order {
		if err := w.Encode(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// sortAnswer sorts the lists that the controller keeps in maps.
func sortAnswer(a *wire.Answer) {
	byPair := func(a, b wire.Pair) int { return strings.Compare(a.Volume+" "+a.Node, b.Volume+" "+b.Node) }
	slices.SortStableFunc(a.Actual, func(x, y wire.Actual) int { return byPair(x.Pair, y.Pair) })
	slices.SortStableFunc(a.Desired, func(x, y wire.Desired) int { return byPair(x.Pair, y.Pair) })
	slices.SortStableFunc(a.Decisions, func(x, y wire.Decision) int { return byPair(x.Pair, y.Pair) })
	slices.Sort(a.Managed)
	slices.Sort(a.Ended)
	for _, row := range a.Desired {
		slices.Sort(row.Pods)
	}
	for _, row := range a.Decisions {
		slices.Sort(row.Holders)
		slices.Sort(row.Warned)
	}
}

// recordedOf are the questions of a kind, with their answers.
func recordedOf(t *testing.T, of kind) (list []question) {
	t.Helper()
	all, err := recorded.Read[question](answersFile, answersOf(t))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, q := range all {
		if q.Kind == of {
			list = append(list, q)
			names[q.Name] = true
		}
	}
	if want, counted := recordedClusters[of]; len(list) == 0 || counted && len(names) != want {
		t.Fatalf("%s: %d clusters, not %d", of, len(names), want)
	}
	return list
}

// sideBySide calls f for each question, on all processors.
func sideBySide(list []question, f func(question)) {
	next := make(chan question)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for q := range next {
				f(q)
			}
		})
	}
	for _, q := range list {
		next <- q
	}
	close(next)
	workers.Wait()
}

// compareRecorded compares the model of each release with its controller's answers, and
// returns the number of answers of each.
func compareRecorded(t *testing.T, list []question) (byRelease map[Release]int, total *tally) {
	t.Helper()
	total, byRelease = newTally(), map[Release]int{}
	var mu sync.Mutex
	sideBySide(list, func(q question) {
		for _, said := range q.Answers {
			oracle := fromWire(said.Answer)
			for _, release := range said.Releases {
				model := Model(q.Cluster, q.Mode, release, oracle)
				result := Compare(q.Cluster, q.Mode, model, oracle)
				total.add(result, model)
				if len(result.Differences) > 0 {
					t.Errorf("%s %s, %s, %+v: %d rows differ:\n%v", q.Kind, q.Name, release, q.Mode, len(result.Differences), result.Differences[0])
				}
				mu.Lock()
				byRelease[release]++
				mu.Unlock()
			}
		}
	})
	t.Logf("%d passes, %d rows, %d left to chance: %v", total.passes, total.Rows, total.tolerated(), byRelease)
	return byRelease, total
}

// TestRecordedReleases compares the model with the answers of each release's controller about
// random clusters and about those that once differed.
func TestRecordedReleases(t *testing.T) {
	for _, of := range []kind{random, kept} {
		list := recordedOf(t, of)
		byRelease, total := compareRecorded(t, list)
		for _, release := range Releases {
			if byRelease[release] != len(list) {
				t.Errorf("%s: %s has answered %d of %d", of, release, byRelease[release], len(list))
			}
		}
		for _, reason := range append(slices.Clone(comparedReasons), reconcile.CSINodeNotFound) {
			if of == random && total.reasons[reason] == 0 {
				t.Errorf("no cluster has the reason %v", reason)
			}
		}
	}
}

// TestRecordedGates does the same with feature gates, and checks that the model without one
// of them differs.
func TestRecordedGates(t *testing.T) {
	list := recordedOf(t, gated)
	byRelease, _ := compareRecorded(t, list)
	for _, release := range gatedReleases {
		gates, tells := gatesOf(release), map[string]bool{}
		if byRelease[release] == 0 {
			t.Errorf("%s was not asked", release)
		}
		for _, q := range list {
			if said := q.Answers[0]; said.Releases[0] == release {
				for _, gate := range toldBy(q.Cluster, q.Mode, release, fromWire(said.Answer)) {
					tells[gate] = true
				}
			}
		}
		if len(gates) == 0 || len(tells) == 0 {
			t.Errorf("%s: nothing tells whether any of %v is set", release, gates)
		}
	}
}

// TestRecordedAhead does the same with behaviours that no release has yet, and checks that
// the model without them differs.
func TestRecordedAhead(t *testing.T) {
	list := recordedOf(t, ahead)
	compareRecorded(t, list)
	for _, change := range reconcile.Ahead() {
		differ := 0
		for _, q := range list {
			if !slices.Contains(q.Cluster.Ahead, change.Behaviour) {
				continue
			}
			without := *q.Cluster
			without.Ahead = nil
			oracle := fromWire(q.Answers[0].Answer)
			differ += len(Compare(&without, q.Mode, Model(&without, q.Mode, Newest, oracle), oracle).Differences)
		}
		if differ == 0 {
			t.Errorf("nothing tells a controller with %s from one without", change.Behaviour)
		}
	}
}

// TestRecordedReleasesMatter compares the model of a release with the answers of the next
// one's controller: they differ exactly where the table of behaviours says so.
func TestRecordedReleasesMatter(t *testing.T) {
	list := recordedOf(t, random)
	list = slices.DeleteFunc(list, func(q question) bool { return q.Mode.Free })
	differ := make([]int, len(Releases))
	var mu sync.Mutex
	sideBySide(list, func(q question) {
		for _, said := range q.Answers {
			oracle := fromWire(said.Answer)
			for _, release := range said.Releases {
				i := slices.Index(Releases, release)
				if i == 0 {
					continue
				}
				n := len(Compare(q.Cluster, q.Mode, Model(q.Cluster, q.Mode, Releases[i-1], oracle), oracle).Differences)
				mu.Lock()
				differ[i] += n
				mu.Unlock()
			}
		}
	})
	for i, release := range Releases[1:] {
		same := maps.Equal(reconcile.BehavioursOf(string(release)), reconcile.BehavioursOf(string(Releases[i])))
		if n := differ[i+1]; same != (n == 0) {
			t.Errorf("%s as %s: same behaviours: %v, but %d rows differ", release, Releases[i], same, n)
		}
	}
}

// TestRecordedSELinux: the model's conflicts of SELinux labels are those that the controller
// warns about.
func TestRecordedSELinux(t *testing.T) {
	found := map[preflight.SELinuxProperty]int{}
	for _, q := range recordedOf(t, seLinux) {
		for _, wrong := range compareSELinux(q.Cluster, q.Answers[0].Answer, found) {
			t.Errorf("%s: %s", q.Name, wrong)
		}
		if said := *q.Answers[0].Answer; len(said.SELinux) > 0 { // a changed answer must be noticed
			said.SELinux = said.SELinux[1:]
			if len(compareSELinux(q.Cluster, &said, map[preflight.SELinuxProperty]int{})) == 0 {
				t.Errorf("%s: nobody noticed that a conflict is missing", q.Name)
			}
		}
	}
	for _, property := range []preflight.SELinuxProperty{preflight.SELinuxLabel, preflight.SELinuxChangePolicy, preflight.MultipleSELinuxLabels} {
		if found[property] == 0 {
			t.Errorf("no cluster has a conflict of %s", property)
		}
	}
}

// TestRecordedComparisonCanFail changes right answers, as TestComparisonCanFail does.
func TestRecordedComparisonCanFail(t *testing.T) {
	reported := map[string]int{}
	for _, q := range recordedOf(t, random)[:150] {
		for _, said := range q.Answers {
			if slices.Contains(said.Releases, Newest) && !q.Mode.Free {
				for _, missed := range spoilEach(q.Cluster, q.Mode, fromWire(said.Answer), reported) {
					t.Errorf("seed %s: nobody noticed: %s", q.Name, missed)
				}
			}
		}
	}
	for _, p := range perturbations {
		if reported[p.name] == 0 {
			t.Errorf("never reported: %s", p.name)
		}
	}
}

// keptClusters are the clusters that once differed, by their files.
func keptClusters(t *testing.T) map[string]*Cluster {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	all := map[string]*Cluster{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := snapshot.Read(name, file, snapshot.ReadOptions{})
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &Cluster{Objects: s.Objects}
	}
	return all
}
