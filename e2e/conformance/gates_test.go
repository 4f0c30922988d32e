package conformance

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestGates compares the controllers of the releases with random feature gates with the model
// that has the same gates, and checks for each gate that the model without it differs.
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
					mu.Lock()
					for _, gate := range toldBy(c, mode, release, oracle) {
						tells[gate] = true
					}
					mu.Unlock()
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

// toldBy are the gates of the cluster without which the model differs.
func toldBy(c *Cluster, mode Mode, release Release, oracle *Answer) (gates []string) {
	for gate := range c.FeatureGates {
		without := *c
		without.FeatureGates = map[string]bool{}
		for other, on := range c.FeatureGates {
			if other != gate {
				without.FeatureGates[other] = on
			}
		}
		if len(Compare(c, mode, Model(&without, mode, release, oracle), oracle).Differences) > 0 {
			gates = append(gates, gate)
		}
	}
	return gates
}

// TestGatesAreTheReleases: gatesOf leaves out each gate that the release has locked or no
// longer knows, with which its controller would not start.
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
