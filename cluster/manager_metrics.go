package cluster

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The families of kube-controller-manager's metrics that are read, by name: their
// stability is ALPHA, and a release may be without.
const (
	volumesFamily = "attachdetach_controller_total_volumes" // getTotalVolumesCount, pkg/controller/volume/attachdetach/metrics
	buildFamily   = "kubernetes_build_info"                 // component-base/metrics/version.go
)

// The states of volumesFamily.
const (
	actualState  = "actual_state_of_world"
	desiredState = "desired_state_of_world"
)

const (
	// mostHeld bounds one number: Kubernetes is tested with 150,000 pods.
	mostHeld = 100_000_000
	// mostPlugins bounds how many plugins are counted.
	mostPlugins = 1000
)

// managerMetrics is one reading of the metrics.
type managerMetrics struct {
	release string
	// held are the numbers by state and plugin.
	held map[[2]string]int
}

func decodeManagerMetrics(in io.Reader) (*managerMetrics, error) {
	samples, err := decodeMetrics(in, []string{volumesFamily, buildFamily})
	if err != nil {
		return nil, err
	}
	m := &managerMetrics{held: map[[2]string]int{}}
	for _, s := range samples {
		if s.Family == buildFamily {
			if release := s.Labels["git_version"]; reconcile.IsRelease(release) && strings.HasPrefix(release, "v1.") {
				m.release = release
			}
			continue
		}
		key := [2]string{s.Labels["state"], s.Labels["plugin_name"]}
		_, twice := m.held[key]
		if twice || s.Value != float64(int(s.Value)) || s.Value > mostHeld || len(m.held) == 2*mostPlugins {
			return nil, &undecodable{fmt.Errorf("%s is %v, or stands there twice", volumesFamily, s.Value)}
		}
		m.held[key] = int(s.Value)
	}
	return m, nil
}

// same are the numbers that both readings have.
func (m *managerMetrics) same(again *managerMetrics) []snapshot.Held {
	byPlugin := map[string]*snapshot.Held{}
	for key, n := range m.held {
		if later, ok := again.held[key]; !ok || later != n || key[0] != actualState && key[0] != desiredState {
			continue
		}
		h := byPlugin[key[1]]
		if h == nil {
			h = &snapshot.Held{Plugin: key[1]}
			byPlugin[key[1]] = h
		}
		if key[0] == actualState {
			h.Actual = &n
		} else {
			h.Desired = &n
		}
	}
	var held []snapshot.Held
	for h := range maps.Values(byPlugin) {
		held = append(held, *h)
	}
	slices.SortFunc(held, func(a, b snapshot.Held) int { return cmp.Compare(a.Plugin, b.Plugin) })
	return held
}
