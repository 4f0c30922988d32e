package chaos_test

import (
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/invariant"
)

// mounts are the mounts of a world, as its kubelets log them.
type mounts struct {
	mu   sync.Mutex
	list []invariant.Mount
}

var mountLine = regexp.MustCompile(`^kubelet (\S+): (un)?mounted \S+\^(\S+) (?:for|of) pod`)

func (m *mounts) Write(line []byte) (int, error) {
	if match := mountLine.FindSubmatch(line); match != nil {
		node, volume := string(match[1]), string(match[3])
		if len(match[2]) == 0 {
			m.add(volume, node)
		} else {
			m.end(volume, node)
		}
	}
	return len(line), nil
}

func (m *mounts) add(volume, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open(volume, node) < 0 { // a kubelet that starts mounts the volumes once more
		m.list = append(m.list, invariant.Mount{Volume: volume, Node: node, From: time.Now()})
	}
}

func (m *mounts) end(volume, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.open(volume, node); i >= 0 {
		m.list[i].Until = time.Now()
	}
}

func (m *mounts) open(volume, node string) int {
	return slices.IndexFunc(m.list, func(m invariant.Mount) bool { return m.Volume == volume && m.Node == node && m.Until.IsZero() })
}

func (m *mounts) all() []invariant.Mount {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}
