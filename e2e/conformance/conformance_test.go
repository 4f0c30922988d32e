package conformance

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var (
	clusters = flag.Int("clusters", 300, "how many random clusters to compare for each release")
	seed     = flag.Uint64("seed", 1, "seed of the first cluster; the others count up from it")
	only     = flag.String("releases", "", "the releases to compare, separated by commas; all by default")
)

// comparedReasons are all reasons that must occur in a comparison of some hundred clusters;
// otherwise the generator is broken.
var comparedReasons = []any{
	reconcile.WantedAndAttached, reconcile.NotAttached, reconcile.AttachUncertain, reconcile.NotWanted, reconcile.OutOfServiceTaint,
	reconcile.StillMounted, reconcile.AssumedMounted, reconcile.AttachedElsewhere, reconcile.NoPlugin, reconcile.InvalidVolumeName,
	reconcile.OperationPending,
	reconcile.PodEnded, reconcile.NodeNotFound, reconcile.NodeNotManaged, reconcile.ClaimNotFound, reconcile.ClaimNotBound,
	reconcile.ClaimNotOwned, reconcile.VolumeNotFound, reconcile.VolumeNotClaimed, reconcile.ClaimRefMismatch,
	reconcile.TranslationFailed, reconcile.NotAttachable, reconcile.AmbiguousPlugin, reconcile.NoVolumeName, reconcile.InlineVolumeSpecified,
}

// tally adds up the results of several comparisons.
type tally struct {
	mu     sync.Mutex
	passes int
	Result
	reasons map[any]int
}

func newTally() *tally {
	return &tally{Result: Result{Tolerated: map[Tolerance]int{}}, reasons: map[any]int{}}
}

func (t *tally) add(r Result, model *Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes++
	t.Rows += r.Rows
	t.Differences = append(t.Differences, r.Differences...)
	for tolerance, n := range r.Tolerated {
		t.Tolerated[tolerance] += n
	}
	for _, d := range model.Decisions {
		t.reasons[d.Reason]++
	}
	for _, reason := range model.Skipped {
		t.reasons[reason]++
	}
}

// TestReleases compares the model with the real controller of each release.
func TestReleases(t *testing.T) {
	var summary strings.Builder
	for _, release := range selected(t) {
		t.Run(string(release), func(t *testing.T) {
			start := time.Now()
			total := newTally()
			var smallest sync.Once
			each(t, release, *seed, *clusters, func(t *testing.T, o *Oracle, s uint64) {
				c := Random(s)
				for _, mode := range modes(s) {
					result, model, err := compare(o, c, mode, release)
					if err != nil {
						t.Errorf("seed %d, %+v: %v", s, mode, err)
						return
					}
					total.add(result, model)
					if len(result.Differences) > 0 {
						t.Errorf("seed %d, %+v: %d rows differ:\n%v", s, mode, len(result.Differences), result.Differences[0])
						smallest.Do(func() { t.Error(explain(o, c, mode, release)) })
					}
				}
			})
			row := fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d to %d | %s |\n",
				release, *clusters, total.passes, total.Rows, len(total.Differences), total.tolerated(),
				*seed, *seed+uint64(*clusters)-1, start.UTC().Format(time.DateOnly))
			t.Logf("tolerated: %v, reasons: %v\n%s", total.Tolerated, total.reasons, row)
			summary.WriteString(row)
			wanted := comparedReasons
			if release.Minor() <= 30 {
				wanted = append(slices.Clone(wanted), reconcile.CSINodeNotFound)
			}
			for _, reason := range wanted {
				if *clusters >= 300 && total.reasons[reason] == 0 {
					t.Errorf("no cluster has the reason %v", reason)
				}
			}
		})
	}
	t.Logf("\n| release | clusters | passes | rows | differing | left to chance | seeds | date |\n|---|---|---|---|---|---|---|---|\n%s", summary.String())
}

// TestKept compares the clusters that once differed, each several times in each mode, because
// upstream leaves some results to chance.
func TestKept(t *testing.T) {
	kept := keptClusters(t)
	files := slices.Sorted(maps.Keys(kept))
	for _, release := range selected(t) {
		t.Run(string(release), func(t *testing.T) {
			each(t, release, 0, 5*len(kept), func(t *testing.T, o *Oracle, s uint64) {
				i := int(s) % len(kept)
				for _, mode := range []Mode{{}, {TimedOut: true}, {Free: true}} {
					if result, _, err := compare(o, kept[files[i]], mode, release); err != nil || len(result.Differences) > 0 {
						t.Errorf("%s, %+v: %v %v", files[i], mode, err, result.Differences)
					}
				}
			})
		})
	}
}

// tolerated counts the rows that differ only by chance.
func (t *tally) tolerated() (n int) {
	for _, count := range t.Tolerated {
		n += count
	}
	return n
}

func selected(t *testing.T) []Release {
	if *only == "" {
		return Releases
	}
	var list []Release
	for _, name := range strings.Split(*only, ",") {
		if !slices.Contains(Releases, Release(name)) {
			t.Fatalf("there is no oracle of %q", name)
		}
		list = append(list, Release(name))
	}
	return list
}

// each calls f with that many seeds, from several oracles of the release side by side. An
// oracle waits at times, so there are more of them than processors.
func each(t *testing.T, release Release, first uint64, count int, f func(t *testing.T, o *Oracle, s uint64)) {
	eachPatched(t, release, "", first, count, f)
}

// eachPatched is each for the release with one of Patches.
func eachPatched(t *testing.T, release Release, patch string, first uint64, count int, f func(t *testing.T, o *Oracle, s uint64)) {
	binary, err := release.BuildPatched(t.Context(), os.Stderr, patch)
	if err != nil {
		t.Fatal(err)
	}
	seeds := make(chan uint64)
	var workers sync.WaitGroup
	for range min(count, 8*runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			o, err := StartOracle(t.Context(), release, binary)
			if err != nil {
				t.Error(err)
				for range seeds {
				}
				return
			}
			for s := range seeds {
				f(t, o, s)
			}
			if err := o.Close(); err != nil {
				t.Errorf("the oracle of %s: %v: %s", release, err, o.stderr.Bytes())
			}
		})
	}
	for i := range count {
		seeds <- first + uint64(i)
	}
	close(seeds)
	workers.Wait()
}

// compare asks both sides about the cluster. The model's release is the oracle's, except in
// tests which check that it matters.
func compare(o *Oracle, c *Cluster, mode Mode, modelled Release) (Result, *Answer, error) {
	oracle, err := o.Ask(c, mode)
	if err != nil {
		return Result{}, nil, err
	}
	model := Model(c, mode, modelled, oracle)
	return Compare(c, mode, model, oracle), model, nil
}

// explain shrinks a cluster that differs, and prints the rest with both answers.
func explain(o *Oracle, c *Cluster, mode Mode, modelled Release) string {
	var last Result
	small := Shrink(c, func(c *Cluster) bool {
		result, _, err := compare(o, c, mode, modelled)
		if err != nil || len(result.Differences) == 0 {
			return false
		}
		last = result
		return true
	})
	var b strings.Builder
	fmt.Fprintf(&b, "the smallest cluster that differs, as a snapshot file (--disable-force-detach-on-timeout=%v):\n%s\n",
		small.DisableForceDetachOnTimeout, small.YAML(o.Release))
	for _, d := range last.Differences {
		fmt.Fprintf(&b, "%v\n", d)
	}
	return b.String()
}

// TestExplain makes two releases differ, by the words of the multi-attach event, and checks
// that the explanation has everything that is needed to see why.
func TestExplain(t *testing.T) {
	const modelled = "v1.36.3"
	var once sync.Once
	each(t, Newest, 1, 60, func(t *testing.T, o *Oracle, s uint64) {
		c := Random(s)
		if result, _, err := compare(o, c, Mode{}, modelled); err != nil || len(result.Differences) == 0 {
			return
		}
		once.Do(func() {
			text := explain(o, c, Mode{}, modelled)
			for _, want := range []string{
				"model:      {Verb:MultiAttach", "Event:Multi-Attach error", "controller: {Verb:MultiAttach", "Event:Waiting for detach",
				"read:       reconciler.reconcile, attachDesiredVolumes",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("it lacks %q:\n%s", want, text)
				}
			}
			_, file, _ := strings.Cut(text, "\n")
			file, _, _ = strings.Cut(file, "\ndecision ")
			left, _, err := snapshot.Read("smallest.yaml", strings.NewReader(file), snapshot.ReadOptions{})
			if err != nil {
				t.Fatalf("%v:\n%s", err, text)
			}
			// What must remain: two nodes, and a pod, its claim and its volume.
			if len(left.Nodes) != 2 || len(left.Pods) != 1 || len(left.Claims) != 1 || len(left.Volumes) != 1 {
				t.Errorf("more is left than it takes:\n%s", text)
			}
		})
	})
	once.Do(func() { t.Error("no cluster differs") })
}

// TestOldestModelled: no release that is compared is too old for the model, and
// every older minor is.
func TestOldestModelled(t *testing.T) {
	for _, release := range Releases {
		if reconcile.TooOld(string(release)) {
			t.Errorf("%s is compared, and too old", release)
		}
	}
	if older := fmt.Sprintf("v1.%d.17", Releases[0].Minor()-1); !reconcile.TooOld(older) {
		t.Errorf("%s is modelled, and no controller of it compared", older)
	}
}

// TestReleasesMatter compares the model of a release with the controller of the next compared
// release: they must differ exactly where the table of behaviours says so.
func TestReleasesMatter(t *testing.T) {
	for i, release := range Releases[1:] {
		modelled := Releases[i]
		t.Run(fmt.Sprintf("%s as %s", release, modelled), func(t *testing.T) {
			total := newTally()
			each(t, release, *seed, 100, func(t *testing.T, o *Oracle, s uint64) {
				for _, mode := range []Mode{{}, {TimedOut: true}} {
					result, model, err := compare(o, Random(s), mode, modelled)
					if err != nil {
						t.Errorf("seed %d, %+v: %v", s, mode, err)
						return
					}
					total.add(result, model)
				}
			})
			same := maps.Equal(reconcile.BehavioursOf(string(release)), reconcile.BehavioursOf(string(modelled)))
			if differ := len(total.Differences); same != (differ == 0) {
				t.Errorf("same behaviours: %v, but %d rows differ", same, differ)
			}
			t.Logf("same behaviours: %v, %d of %d rows differ", same, len(total.Differences), total.Rows)
		})
	}
}
