package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// TestSELinux compares the SELinux conflicts that `preflight upgrade` reports with those that
// upstream's own controller finds among the same pods. For an upgrade from 1.27 all of them
// are new.
func TestSELinux(t *testing.T) {
	var mu sync.Mutex
	found := map[preflight.SELinuxProperty]int{}
	each(t, Newest, *seed, *clusters, func(t *testing.T, o *Oracle, s uint64) {
		c := seLinuxCluster(s)
		answer, err := o.Send(&wire.Request{Volumes: c.Volumes, Claims: c.Claims, Pods: c.Pods, CSIDrivers: c.CSIDrivers, SELinux: true})
		if err != nil {
			t.Errorf("seed %d: %v", s, err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, wrong := range compareSELinux(c, answer, found) {
			t.Errorf("seed %d: %s", s, wrong)
		}
	})
	t.Logf("conflicts: %v", found)
	for _, property := range []preflight.SELinuxProperty{preflight.SELinuxLabel, preflight.SELinuxChangePolicy, preflight.MultipleSELinuxLabels} {
		if found[property] == 0 {
			t.Errorf("no cluster has a conflict of %s", property)
		}
	}
}

// compareSELinux lists where the model's conflicts differ from the controller's, and counts
// the conflicts by their property.
func compareSELinux(c *Cluster, answer *wire.Answer, found map[preflight.SELinuxProperty]int) (wrong []string) {
	upgrade := preflight.OfUpgrade(c.Snapshot("v1.27.16"), string(Newest), c.Options())
	conflicts, multiple := map[string]bool{}, map[string]bool{}
	for _, conflict := range upgrade.SELinux {
		found[conflict.Property]++
		if conflict.Property == preflight.MultipleSELinuxLabels {
			for _, p := range conflict.Sides[0].Pods {
				multiple[p.Pod] = true
			}
			continue
		}
		for i, side := range conflict.Sides {
			other := conflict.Sides[1-i]
			for _, a := range side.Pods {
				for _, b := range other.Pods {
					conflicts[fmt.Sprintf("%s %s=%q %s=%q", conflict.Property, a.Pod, side.Value, b.Pod, other.Value)] = true
				}
			}
		}
	}
	if got := slices.Sorted(maps.Keys(conflicts)); !slices.Equal(got, answer.SELinux) {
		wrong = append(wrong, fmt.Sprintf("the model has\n%s\nand the controller\n%s", strings.Join(got, "\n"), strings.Join(answer.SELinux, "\n")))
	}
	warned := map[string]bool{}
	for _, event := range answer.SELinuxMultiple {
		pod, volume, _ := strings.Cut(event, ": ")
		if c.persistent(pod, volume) {
			warned[pod] = true
		}
	}
	if !maps.Equal(multiple, warned) {
		wrong = append(wrong, fmt.Sprintf("of several labels the model has %v, and the controller %v", multiple, warned))
	}
	return wrong
}

// persistent reports whether the volume in the event is a persistent one: no other is ever
// mounted with a label.
func (c *Cluster) persistent(pod, event string) bool {
	for _, p := range c.Pods {
		for i := range p.Spec.Volumes {
			if v := &p.Spec.Volumes[i]; p.Namespace+"/"+p.Name == pod && strings.HasPrefix(event, fmt.Sprintf("Volume %q ", v.Name)) {
				_, _, err := reconcile.NewWorld(c.Snapshot(Newest), c.Options()).MountedVolume(p, v)
				return err == nil
			}
		}
	}
	return false
}
