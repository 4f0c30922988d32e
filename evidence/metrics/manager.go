package metrics

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

// The families of kube-controller-manager's metrics that are read, by name. Their stability
// is ALPHA, so that a release may lack them.
const (
	// getTotalVolumesCount, in pkg/controller/volume/attachdetach/metrics
	volumesFamily = "attachdetach_controller_total_volumes"
	buildFamily   = "kubernetes_build_info" // component-base/metrics/version.go
)

// The states of volumesFamily.
const (
	ActualState  = "actual_state_of_world"
	DesiredState = "desired_state_of_world"
)

const (
	// MostHeld bounds one number: Kubernetes is tested with 150,000 pods.
	MostHeld = 100_000_000
	// mostPlugins bounds how many plugins are counted.
	mostPlugins = 1000
)

// Manager is one reading of kube-controller-manager's metrics.
type Manager struct {
	// Release is its release; "" where the metrics lack it.
	Release string
	// Volumes are the numbers of volumes, by state and plugin.
	Volumes map[[2]string]int
}

// DecodeManager reads kube-controller-manager's metrics.
func DecodeManager(in io.Reader) (*Manager, error) {
	samples, err := Decode(in, []string{volumesFamily, buildFamily})
	if err != nil {
		return nil, err
	}
	m := &Manager{Volumes: map[[2]string]int{}}
	for _, s := range samples {
		if s.Family == buildFamily {
			if release := s.Labels["git_version"]; reconcile.IsRelease(release) && strings.HasPrefix(release, "v1.") {
				m.Release = release
			}
			continue
		}
		key := [2]string{s.Labels["state"], s.Labels["plugin_name"]}
		_, twice := m.Volumes[key]
		if twice || s.Value != float64(int(s.Value)) || s.Value > MostHeld || len(m.Volumes) == 2*mostPlugins {
			return nil, &Undecodable{fmt.Errorf("%s is %v, or stands there twice", volumesFamily, s.Value)}
		}
		m.Volumes[key] = int(s.Value)
	}
	return m, nil
}

// Same returns the numbers that are equal in both readings.
func (m *Manager) Same(again *Manager) []snapshot.Held {
	byPlugin := map[string]*snapshot.Held{}
	for key, n := range m.Volumes {
		if later, ok := again.Volumes[key]; !ok || later != n || key[0] != ActualState && key[0] != DesiredState {
			continue
		}
		h := byPlugin[key[1]]
		if h == nil {
			h = &snapshot.Held{Plugin: key[1]}
			byPlugin[key[1]] = h
		}
		if key[0] == ActualState {
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
