package histories

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var (
	count = flag.Int("histories", 100, "how many random histories each release lives through")
	seed  = flag.Uint64("seed", 1, "seed of the first history; the others count up from it")
	only  = flag.String("releases", "", "the releases, separated by commas; all by default")
	deep  = flag.String("deep", "", "RELEASE:N, a release that lives through more of them")
	page  = flag.String("page", "", "file to write what came of it to")
)

func releases(t *testing.T) []conformance.Release {
	if *only == "" {
		return conformance.Releases
	}
	var list []conformance.Release
	for _, name := range strings.Split(*only, ",") {
		if !slices.Contains(conformance.Releases, conformance.Release(name)) {
			t.Fatalf("no such release: %s", name)
		}
		list = append(list, conformance.Release(name))
	}
	return list
}

// howMany is the number of histories for the release.
func howMany(t *testing.T, release conformance.Release) uint64 {
	name, number, ok := strings.Cut(*deep, ":")
	if !ok || name != string(release) {
		return uint64(*count)
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// start runs the oracle of a release for the length of the test.
func start(t *testing.T, release conformance.Release) *conformance.Oracle {
	t.Helper()
	return startPatched(t, release, "")
}

// startPatched is start for the release with one of conformance.Patches.
func startPatched(t *testing.T, release conformance.Release, patch string) *conformance.Oracle {
	t.Helper()
	binary, err := release.BuildPatched(t.Context(), t.Output(), patch)
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := conformance.StartOracle(context.Background(), release, binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := oracle.Close(); err != nil {
			t.Error(err)
		}
	})
	return oracle
}

// live has the oracle live through a history.
func live(t *testing.T, oracle *conformance.Oracle, request *wire.Request) *wire.Story {
	t.Helper()
	answer, err := oracle.Send(request)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Story
}

// compareAll compares a story with the model, and the replay of its log with the controller's
// memory.
func compareAll(release conformance.Release, request *wire.Request, story *wire.Story) *Result {
	result, log := Compare(release, request, story, AskModel), CompareLog(release, request, story, Replay)
	result.Differences = append(result.Differences, log.Differences...)
	maps.Copy(result.Counts, log.Counts)
	return result
}

// seen are the counts that must occur in a run of some hundred histories; otherwise the
// generator is broken.
var seen = []string{
	"deed Attach", "deed Detach", "deed ForceDetach", "deed Forgotten", "bound Wait MaxWaitForUnmount", "bound Keep VerifySync",
	"bound Wait NodeUpdate", "bound MultiAttach HolderLeaves", "row Wait NodeUpdate Detach", "row Wait MaxWaitForUnmount ForceDetach",
	"row Keep VerifySync Forgotten", "contenders served", "memory: the log tells", "memory: next attempts", "memory: operations that run",
	"memory: attachments that it has not heard of",
}

// TestHistories has the controller of each release live through random histories.
func TestHistories(t *testing.T) {
	var mu sync.Mutex
	var rows []row
	t.Run("releases", func(t *testing.T) {
		for _, release := range releases(t) {
			t.Run(string(release), func(t *testing.T) {
				t.Parallel()
				oracle := start(t, release)
				began := time.Now()
				total := row{Release: release, Counts: map[string]int{}}
				for s := *seed; s < *seed+howMany(t, release); s++ {
					request := Generate(s)
					result := compareAll(release, request, live(t, oracle, request))
					total.add(result)
					if len(result.Differences) > 0 {
						shrunk := Shrink(request, func(r *wire.Request) bool {
							return len(compareAll(release, r, live(t, oracle, r)).Differences) > 0
						})
						t.Errorf("seed %d: %s\nthe shortest history that still differs: %s", s, result.Differences[0], save(t, release, s, shrunk))
					}
				}
				for _, name := range seen {
					if total.Counts[name] == 0 && *count >= 100 {
						t.Errorf("never met: %s", name)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, total)
				t.Logf("%s: %d histories, %d deeds compared, %d differ, %s", release, total.Histories, total.Counts["deeds compared"], total.Differing, time.Since(began).Round(time.Second))
			})
		}
	})
	slices.SortFunc(rows, func(a, b row) int {
		return slices.Index(conformance.Releases, a.Release) - slices.Index(conformance.Releases, b.Release)
	})
	if *page != "" {
		if err := os.WriteFile(*page, []byte(pageText(rows, *seed, time.Now())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// save keeps a history in the folder of the test's run, from where it can be moved to
// testdata, and describes it.
func save(t *testing.T, release conformance.Release, seed uint64, request *wire.Request) string {
	text, err := json.MarshalIndent(request, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(os.TempDir(), fmt.Sprintf("history-%s-%d.json", release, seed))
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v (%s)", request.History, name)
}

// kept are the histories that once differed, by their files.
func kept(t *testing.T) map[string]*wire.Request {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	all := map[string]*wire.Request{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = &wire.Request{}
		if err := json.Unmarshal(text, all[file]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestKept replays the histories that once differed.
func TestKept(t *testing.T) {
	for _, release := range releases(t) {
		t.Run(string(release), func(t *testing.T) {
			t.Parallel()
			oracle := start(t, release)
			for file, request := range kept(t) {
				result := compareAll(release, request, live(t, oracle, request))
				if len(result.Differences) > 0 {
					t.Errorf("%s: %s", file, strings.Join(result.Differences, "\n"))
				}
			}
		})
	}
}

// TestComparisonCanFail changes the model's answer in one way after the other, and checks
// that each change is noticed within a few histories.
func TestComparisonCanFail(t *testing.T) {
	t.Parallel()
	release := conformance.Release("v1.36.3")
	oracle := start(t, release)
	var stories []told
	requests := slices.Collect(maps.Values(kept(t)))
	for s := range uint64(60) {
		requests = append(requests, Generate(s))
	}
	for _, request := range requests {
		stories = append(stories, told{request, live(t, oracle, request)})
	}
	noticed(t, release, stories)
}

// told is a history with its story.
type told struct {
	request *wire.Request
	story   *wire.Story
}

// noticed changes the model's answer in one way after the other, and checks that each change
// is noticed in one of the stories.
func noticed(t *testing.T, release conformance.Release, stories []told) {
	t.Helper()
	rowsOf := func(event reconcile.Event, f func(*reconcile.Until)) func(*reconcile.Decision) {
		return func(d *reconcile.Decision) {
			for i := range d.Until {
				if d.Until[i].Event == event {
					f(&d.Until[i])
				}
			}
		}
	}
	verb := func(from, to reconcile.Verb) func(*reconcile.Decision) {
		return func(d *reconcile.Decision) {
			if d.Verb == from {
				d.Verb = to
			}
		}
	}
	spoilers := map[string]func(*reconcile.Decision){
		"no attach":               verb(reconcile.Attach, reconcile.Keep),
		"no detach":               verb(reconcile.Detach, reconcile.Wait),
		"all detach":              verb(reconcile.Wait, reconcile.Detach),
		"all attach":              verb(reconcile.MultiAttach, reconcile.Attach),
		"nothing is forgotten":    rowsOf(reconcile.VerifySync, func(u *reconcile.Until) { u.Event = reconcile.Unmount }),
		"forgotten too late":      rowsOf(reconcile.VerifySync, func(u *reconcile.Until) { u.After *= 4 }),
		"forgotten too early":     rowsOf(reconcile.VerifySync, func(u *reconcile.Until) { u.Bound /= 3 }),
		"no force":                rowsOf(reconcile.MaxWaitForUnmount, func(u *reconcile.Until) { u.Then = reconcile.Attach }),
		"force too late":          rowsOf(reconcile.MaxWaitForUnmount, func(u *reconcile.Until) { u.After *= 2 }),
		"force too early":         rowsOf(reconcile.MaxWaitForUnmount, func(u *reconcile.Until) { u.Bound /= 2 }),
		"no update is needed":     rowsOf(reconcile.NodeUpdate, func(u *reconcile.Until) { u.Bound = time.Second }),
		"an update means nothing": rowsOf(reconcile.NodeUpdate, func(u *reconcile.Until) { u.Then = reconcile.Attach }),
		"nobody else waits": func(d *reconcile.Decision) {
			for i := range d.Until {
				d.Until[i].Contenders = nil
			}
		},
		"all contend": func(d *reconcile.Decision) { d.Contenders = []types.NodeName{"n1", "n2", "n3"} },
		"every wait has a bound": func(d *reconcile.Decision) {
			for i := range d.Until {
				d.Until[i].Bound, d.Until[i].Fresh = max(d.Until[i].Bound, time.Minute), false
			}
		},
		"a running controller forgets nothing": rowsOf(reconcile.VerifySync, func(u *reconcile.Until) { u.Fresh = false }),
	}
	for name, spoil := range spoilers {
		t.Run(name, func(t *testing.T) {
			ask := func(release conformance.Release, request *wire.Request, began time.Time, m wire.Moment) (*reconcile.World, *reconcile.Plan) {
				w, plan := AskModel(release, request, began, m)
				for i := range plan.Decisions {
					spoil(&plan.Decisions[i])
				}
				return w, plan
			}
			if !slices.ContainsFunc(stories, func(s told) bool {
				return len(Compare(release, s.request, s.story, ask).Differences) > 0
			}) {
				t.Error("not noticed")
			}
		})
	}
}

// TestLogComparisonCanFail changes the replay of the log in one way after the other, and
// checks that each change is noticed within a few histories.
func TestLogComparisonCanFail(t *testing.T) {
	t.Parallel()
	release := conformance.Release("v1.36.3")
	oracle := start(t, release)
	requests := slices.Collect(maps.Values(kept(t)))
	for s := range uint64(40) {
		requests = append(requests, Generate(s))
	}
	var stories []told
	for _, request := range requests {
		stories = append(stories, told{request, live(t, oracle, request)})
	}
	noticedInLogs(t, release, stories)
}

// noticedInLogs changes the replay of the log in one way after the other, and checks that
// each change is noticed in one of the stories.
func noticedInLogs(t *testing.T, release conformance.Release, stories []told) {
	t.Helper()
	pairs := func(f func(*snapshot.RememberedPair)) func(*snapshot.Controller) {
		return func(log *snapshot.Controller) {
			for i := range log.Pairs {
				f(&log.Pairs[i])
			}
		}
	}
	state := func(from, to snapshot.Remembered) func(*snapshot.Controller) {
		return pairs(func(p *snapshot.RememberedPair) {
			if len(p.States) == 1 && p.States[0] == from {
				p.States[0] = to
			}
		})
	}
	spoilers := map[string]func(*snapshot.Controller){
		"attached is uncertain": state(snapshot.RememberedAttached, snapshot.RememberedUncertain),
		"uncertain is attached": state(snapshot.RememberedUncertain, snapshot.RememberedAttached),
		"absent is attached":    state(snapshot.RememberedAbsent, snapshot.RememberedAttached),
		"attached is absent":    state(snapshot.RememberedAttached, snapshot.RememberedAbsent),
		"nothing is mentioned":  func(log *snapshot.Controller) { log.Pairs = nil },
		"nothing runs":          pairs(func(p *snapshot.RememberedPair) { p.Running = "" }),
		"all runs":              pairs(func(p *snapshot.RememberedPair) { p.Running = snapshot.DetachOperation }),
		"no pause":              func(log *snapshot.Controller) { log.BackOffs = nil },
		"each pause is too long": func(log *snapshot.Controller) {
			for i := range log.BackOffs {
				log.BackOffs[i].Until = log.BackOffs[i].Until.Add(1500 * time.Millisecond)
			}
		},
		"each pause is of another operation": func(log *snapshot.Controller) {
			for i := range log.BackOffs {
				log.BackOffs[i].Operation = snapshot.AttachOperation
			}
		},
		"each pause is for all nodes": func(log *snapshot.Controller) {
			for i := range log.BackOffs {
				log.BackOffs[i].Node = ""
			}
		},
	}
	for name, spoil := range spoilers {
		t.Run(name, func(t *testing.T) {
			spoiled := func(release conformance.Release, story *wire.Story, at time.Duration) (*snapshot.Controller, error) {
				log, err := Replay(release, story, at)
				if err == nil {
					spoil(log)
				}
				return log, err
			}
			for _, s := range stories {
				if len(CompareLog(release, s.request, s.story, spoiled).Differences) > 0 {
					return
				}
			}
			t.Error("not noticed")
		})
	}
}

// TestShrink: everything that does not matter is removed.
func TestShrink(t *testing.T) {
	request := Generate(1)
	request.History = append(request.History, wire.Step{Do: wire.Restart, Then: time.Minute})
	matters := func(r *wire.Request) bool {
		return slices.ContainsFunc(r.History, func(s wire.Step) bool { return s.Do == wire.Restart }) && len(r.Nodes) > 0
	}
	if shrunk := Shrink(request, matters); len(shrunk.History) != 1 || len(shrunk.VolumeAttachments) != 0 || len(shrunk.Pods) != 0 {
		t.Errorf("%+v", shrunk)
	}
}

// TestGenerate: a seed always gives the same history, and all actions are drawn.
func TestGenerate(t *testing.T) {
	drawn := map[wire.Action]bool{}
	for s := range uint64(100) {
		a, b := Generate(s), Generate(s)
		if fmt.Sprint(a.History) != fmt.Sprint(b.History) {
			t.Fatalf("seed %d has two histories", s)
		}
		for _, step := range a.History {
			drawn[step.Do] = true
		}
	}
	if len(drawn) != len(kinds) {
		t.Errorf("drawn: %v", slices.Sorted(maps.Keys(drawn)))
	}
}
