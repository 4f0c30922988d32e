package reconcile

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Memory is what the log of the controller at work proves about its memory. It is evidence
// beside the model, which still describes a controller that has just started. No repair may
// rest on it, because the log also quotes whatever a driver says.
type Memory struct {
	*snapshot.Controller
	// Leads reports whether the log is complete and the leader's: it shows the start of
	// the controller that holds the lease or, where leases could not be read, has the
	// controller's own word that it leads. Only then does the absence of a line prove
	// anything.
	Leads bool

	takenAt time.Time
}

const (
	// ClocksDiffer is how far the clocks of the controller and of the API server may
	// be apart. A judgement: both are hosts of one control plane.
	ClocksDiffer = 15 * time.Second
	// startTakes is the longest time between the controller's taking the lease and its start.
	// A judgement: it asks the API server in between which resources are served. A log whose
	// times lack their zone is further off.
	startTakes = 10 * time.Minute
	// stillWrites is how old the last line of a leading controller's log may be when the
	// objects are read. A judgement: at --v=2 its controllers write a line in most minutes.
	stillWrites = 5 * time.Minute
)

// MemoryOf returns what the snapshot's log proves. It is nil without a log, if the log is
// later than the objects, or if another controller holds the lease now.
func MemoryOf(s *snapshot.Snapshot) *Memory {
	if s.Controller == nil {
		return nil
	}
	if s.Controller.Last.After(s.TakenAt.Add(ClocksDiffer)) {
		return nil // what it remembers now is not what it remembered then
	}
	m := &Memory{Controller: s.Controller, takenAt: s.TakenAt}
	lease := s.Lease(metav1.NamespaceSystem, ControllerManager)
	if lease == nil {
		// Where the leases could not be read, the controller's own word that it leads counts:
		// one that no longer leads has exited, and its log has ended.
		m.Leads = !s.CompleteIn(snapshot.Leases, metav1.NamespaceSystem) && m.Identity != "" && m.Started != nil && s.TakenAt.Sub(m.Last) <= stillWrites
		return m
	}
	if holder := lease.Spec.HolderIdentity; m.Identity != "" && holder != nil && *holder != "" && *holder != m.Identity {
		return nil
	}
	acquired := lease.Spec.AcquireTime
	if acquired == nil {
		return m
	}
	if m.Last.Before(acquired.Add(-ClocksDiffer)) || m.Started != nil && m.Started.Before(acquired.Add(-ClocksDiffer)) {
		return nil
	}
	m.Leads = m.Started != nil && m.Started.Sub(acquired.Time) <= startTakes
	return m
}

// Pair is what the controller remembers about the pair; nil where the log does not mention
// it.
func (m *Memory) Pair(pair VolumeNode) *snapshot.RememberedPair {
	if m == nil {
		return nil
	}
	at, found := slices.BinarySearchFunc(m.Pairs, pair, func(p snapshot.RememberedPair, pair VolumeNode) int {
		return cmp.Or(cmp.Compare(p.Volume, pair.Volume), cmp.Compare(p.Node, pair.Node))
	})
	if !found {
		return nil
	}
	return &m.Pairs[at]
}

// NextAttempt is the time before which the controller does not try the operation on the pair
// again; zero where nothing keeps it from trying.
func (m *Memory) NextAttempt(pair VolumeNode, operation snapshot.Operation) time.Time {
	var next time.Time
	if m == nil {
		return next
	}
	at, _ := slices.BinarySearchFunc(m.BackOffs, pair.Volume, func(b snapshot.BackOff, volume corev1.UniqueVolumeName) int { return cmp.Compare(b.Volume, volume) })
	for _, b := range m.BackOffs[at:] {
		if b.Volume != pair.Volume {
			break
		}
		if (b.Node == "" || b.Node == pair.Node) && b.Operation == operation && !b.Doubtful && b.Until.After(m.takenAt) && b.Until.After(next) {
			next = b.Until
		}
	}
	return next
}

// Unheard reports whether the controller neither made the pair's VolumeAttachment nor has
// heard of it. It logs a line when it makes one and when it finds one at its start, unless
// that one stands in its node's volumesAttached. The caller makes sure that it does not stand
// there.
func (m *Memory) Unheard(pair VolumeNode, va *storagev1.VolumeAttachment) bool {
	if m == nil || !m.Leads || !m.Verbose {
		return false
	}
	made := va.CreationTimestamp.Time
	_, unclear := slices.BinarySearch(m.Unclear, pair.Volume)
	return made.After(m.Started.Add(ClocksDiffer)) && made.Before(m.Last.Add(-ClocksDiffer)) &&
		m.Pair(pair) == nil && !unclear
}
