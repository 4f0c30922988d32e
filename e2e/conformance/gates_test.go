package conformance

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// gatesOf are the gates that a controller of the release can be started with another
// value of than the release's own, each with that value.
func gatesOf(release Release) map[string]bool {
	gates := map[string]bool{}
	for _, gate := range reconcile.Gates() {
		for _, on := range []bool{false, true} {
			if len(reconcile.Deciding(string(release), map[string]bool{gate.Name: on})) > 0 {
				gates[gate.Name] = on
			}
		}
	}
	return gates
}

// gatedReleases are one for each set of gates and of in-tree plugins behind them. The
// others are compared where they are named (-releases).
var gatedReleases = []Release{"v1.26.15", "v1.29.15", "v1.30.14", "v1.35.4"}

// TestGates holds the controllers of the releases with random feature gates against the
// model with the same, and wants each gate to make the model without it differ.
func TestGates(t *testing.T) {
	for _, release := range selected(t) {
		gates := gatesOf(release)
		if len(gates) == 0 || *only == "" && !slices.Contains(gatedReleases, release) {
			continue
		}
		t.Run(string(release), func(t *testing.T) {
			total := newTally()
			var mu sync.Mutex
			var first sync.Once
			tells := map[string]bool{}
			each(t, release, *seed, *clusters/2, func(t *testing.T, o *Oracle, s uint64) {
				c := Random(s)
				c.FeatureGates = someOf(gates, s)
				for _, mode := range modes(s) {
					oracle, err := o.Ask(c, mode)
					if err != nil {
						t.Errorf("seed %d, %v: %v", s, c.FeatureGates, err)
						return
					}
					model := Model(c, mode, release, oracle)
					result := Compare(c, mode, model, oracle)
					total.add(result, model)
					if len(result.Differences) > 0 {
						first.Do(func() {
							t.Errorf("seed %d, %+v, %v: %v\n%s", s, mode, c.FeatureGates, result.Differences[0], explain(o, c, mode, release))
						})
					}
					for gate := range c.FeatureGates {
						without := *c
						without.FeatureGates = map[string]bool{}
						for other, on := range c.FeatureGates {
							if other != gate {
								without.FeatureGates[other] = on
							}
						}
						if len(Compare(c, mode, Model(&without, mode, release, oracle), oracle).Differences) > 0 {
							mu.Lock()
							tells[gate] = true
							mu.Unlock()
						}
					}
				}
			})
			for gate := range gates {
				if !tells[gate] && *clusters >= 300 {
					t.Errorf("no cluster tells whether %s is set", gate)
				}
			}
			t.Logf("%s with %d gates: %d passes, %d of %d rows differ, %d left to chance", release, len(gates), total.passes, len(total.Differences), total.Rows, total.tolerated())
		})
	}
}

// someOf has each gate in every second cluster.
func someOf(gates map[string]bool, seed uint64) map[string]bool {
	random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // which clusters are compared must not change
	some := map[string]bool{}
	for _, gate := range reconcile.Gates() { // in an order that stays
		if on, known := gates[gate.Name]; known && random.IntN(2) == 0 {
			some[gate.Name] = on
		}
	}
	return some
}

// TestGatesAreTheReleases: a gate that a release has locked, or no longer knows, keeps no
// controller of it from starting in the list, and each that is in the list is known.
func TestGatesAreTheReleases(t *testing.T) {
	for release, want := range map[Release]string{
		"v1.26.15": "CSIMigrationAzureFile CSIMigrationPortworx CSIMigrationvSphere InTreePluginAWSUnregister InTreePluginAzureDiskUnregister " +
			"InTreePluginAzureFileUnregister InTreePluginGCEUnregister InTreePluginOpenStackUnregister InTreePluginPortworxUnregister " +
			"InTreePluginvSphereUnregister NodeOutOfServiceVolumeDetach",
		"v1.30.14": "CSIMigrationPortworx InTreePluginAWSUnregister InTreePluginAzureDiskUnregister InTreePluginAzureFileUnregister " +
			"InTreePluginGCEUnregister InTreePluginOpenStackUnregister InTreePluginPortworxUnregister InTreePluginvSphereUnregister",
		"v1.35.4": "InTreePluginPortworxUnregister",
		"v1.36.3": "",
	} {
		var names []string
		for gate := range gatesOf(release) {
			names = append(names, gate)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s", release, got)
		}
	}
}
