package conformance

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var (
	clusters = flag.Int("clusters", 300, "how many random clusters to compare")
	seed     = flag.Uint64("seed", 1, "seed of the first cluster; the others count up from it")
)

func TestMain(m *testing.M) {
	// What the volume plugins write to the global log says nothing here.
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// modes are the ways in which the cluster of a seed is compared. The plain one,
// in which the controller leaves nothing to chance but the order of its maps,
// is always among them.
func modes(seed uint64) []Mode {
	switch seed % 4 {
	case 0:
		return []Mode{{}, {TimedOut: true}}
	case 2:
		return []Mode{{}, {Free: true}}
	default:
		return []Mode{{}}
	}
}

// comparedReasons is everything that a comparison of some hundred clusters has
// to come across, or the generator has lost its grip.
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

// TestRandomClusters holds the model against the real controller.
func TestRandomClusters(t *testing.T) {
	total := &tally{Result: Result{Tolerated: map[Tolerance]int{}}, reasons: map[any]int{}}
	var workers sync.WaitGroup
	var smallest sync.Once
	seeds := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for s := range seeds {
				c := Random(s)
				for _, mode := range modes(s) {
					result, model, err := compare(c, mode)
					if err != nil {
						t.Errorf("seed %d, %+v: %v", s, mode, err)
						continue
					}
					total.add(result, model)
					if len(result.Differences) > 0 {
						t.Errorf("seed %d, %+v: %d rows differ:\n%v", s, mode, len(result.Differences), result.Differences[0])
						smallest.Do(func() { reportSmallest(t, c, mode) })
					}
				}
			}
		})
	}
	for i := range *clusters {
		seeds <- *seed + uint64(i)
	}
	close(seeds)
	workers.Wait()
	t.Logf("seeds %d to %d: %d clusters, %d passes, %d rows compared, %d differing, tolerated: %v, reasons: %v",
		*seed, *seed+uint64(*clusters)-1, *clusters, total.passes, total.Rows, len(total.Differences), total.Tolerated, total.reasons)
	for _, reason := range comparedReasons {
		if *clusters >= 300 && total.reasons[reason] == 0 {
			t.Errorf("no cluster has the reason %v", reason)
		}
	}
}

// compare asks both sides about the cluster.
func compare(c *Cluster, mode Mode) (Result, *Answer, error) {
	oracle, err := Ask(c, mode)
	if err != nil {
		return Result{}, nil, err
	}
	model, world := Model(c)
	return Compare(c, mode, world, model, oracle), model, nil
}

// reportSmallest shrinks a cluster that differs and prints what is left of it,
// with both answers.
func reportSmallest(t *testing.T, c *Cluster, mode Mode) {
	var last Result
	small := Shrink(c, func(c *Cluster) bool {
		result, _, err := compare(c, mode)
		if err != nil || len(result.Differences) == 0 {
			return false
		}
		last = result
		return true
	})
	var b strings.Builder
	for _, d := range last.Differences {
		fmt.Fprintf(&b, "%v\n", d)
	}
	t.Errorf("the smallest cluster that differs, as a snapshot file (--disable-force-detach-on-timeout=%v):\n%s\n%s",
		small.DisableForceDetachOnTimeout, small.YAML(), b.String())
}
