package diagnose

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// remembered are facts that many checks ask for, some of them for every object,
// and that are the same for all checks of a report. Each is found out when it is
// first asked for. Who gets one must not write to it.
type remembered struct {
	attachments []attachment
	byNode      map[string][]attachment
	waiting     map[corev1.UniqueVolumeName][]*corev1.Pod
	attachers   []string
	tasks       map[string][]task
	pending     map[types.NodeName][]*corev1.Pod
	plugins     plugins
	orphaned    map[string]*orphans
	answers     map[string]metav1.Time
	atWork      map[string]bool
}

// remember is the report's memory, or the pass's own where it is no part of one.
func (p *Pass) remember() *remembered {
	if p.memory == nil {
		p.memory = &remembered{}
	}
	return p.memory
}

// once gives the value for the key, and finds it out the first time.
func once[K comparable, V any](known *map[K]V, key K, find func(K) V) V {
	value, ok := (*known)[key]
	if !ok {
		value = find(key)
		if *known == nil {
			*known = map[K]V{}
		}
		(*known)[key] = value
	}
	return value
}
