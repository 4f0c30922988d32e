package controllerlog

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// states are the states in which a pair may be after all lines so far.
type states uint8

const (
	isAbsent states = 1 << iota
	isUncertain
	isAttached
	unknown = isAbsent | isUncertain | isAttached
)

// pairMemory is the knowledge about a pair.
type pairMemory struct {
	states  states
	since   time.Time
	running snapshot.Operation
	// runningSince is when the running operation began. ended is, by operation, when one was
	// last seen to end that had not been seen to begin: the line about the begin can come
	// after.
	runningSince time.Time
	ended        map[snapshot.Operation]time.Time
	err          string
	errAt        time.Time
}

// backOff is an operation in the controller's list (nestedPendingOperations).
type backOff struct {
	node      types.NodeName // "" for all
	operation snapshot.Operation
	until     time.Time
	pending   bool
	// shared reports whether the volume is known to be for many nodes. doubtful reports
	// whether, if it is not, an operation elsewhere may have taken the entry over.
	shared, doubtful bool
}

// memory is what the lines so far prove.
type memory struct {
	release       string
	ownRelease    bool
	identity      string
	flags         map[string]string
	verbose       bool
	begun         time.Time // zero where no line shows it
	first, last   time.Time
	pairs         map[reconcile.VolumeNode]*pairMemory
	backOffs      map[corev1.UniqueVolumeName][]*backOff
	unclear       map[corev1.UniqueVolumeName]bool
	failUncertain states // the states after a failed detach; 0 where the states do not change
}

func newMemory(release string) *memory {
	m := &memory{flags: map[string]string{}}
	m.setBehaviour(release)
	m.forgetAll()
	return m
}

// disorder is how far lines may be out of order: goroutines write them, and several programs
// merge them.
const disorder = 10 * time.Second

// follows notes the time of a line and reports whether the line may be used. A log whose time
// goes back is of more than one process, or was put together: what it proved before is then
// no longer known to hold.
func (m *memory) follows(at time.Time) bool {
	if at.IsZero() {
		return false
	}
	if at.Before(m.last.Add(-disorder)) {
		m.forgetAll()
		m.last = at
	}
	if m.first.IsZero() || at.Before(m.first) {
		m.first = at
	}
	if at.After(m.last) {
		m.last = at
	}
	return len(m.pairs) <= MaxPairs
}

// shift corrects all times that klog wrote without a zone.
func (m *memory) shift(by time.Duration) {
	for _, t := range []*time.Time{&m.begun, &m.first, &m.last} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	for _, p := range m.pairs {
		p.since, p.runningSince, p.errAt = p.since.Add(by), p.runningSince.Add(by), p.errAt.Add(by)
		p.ended = nil
	}
}

func (m *memory) forgetAll() {
	m.begun = time.Time{}
	m.pairs = map[reconcile.VolumeNode]*pairMemory{}
	m.backOffs = map[corev1.UniqueVolumeName][]*backOff{}
	m.unclear = map[corev1.UniqueVolumeName]bool{}
}

// setBehaviour chooses the states after a failed detach; without a release, both are
// possible.
func (m *memory) setBehaviour(release string) {
	m.release = release
	switch {
	case release == "":
		m.failUncertain = isUncertain | isAttached
	case reconcile.BehavioursOf(release).Has(reconcile.FailedDetachIsUncertain):
		m.failUncertain = isUncertain
	default:
		m.failUncertain = 0
	}
}

func (m *memory) setRelease(release string) {
	m.setBehaviour(cut(release, 40))
	m.ownRelease = true
}

func (m *memory) setFlag(text string) {
	name, value, _ := strings.Cut(text, "=")
	if !slices.Contains(flags, name) {
		return
	}
	m.flags[name] = cut(strings.Trim(value, `"`), 100)
	m.verbose = true // flags are printed at --v=1
}

func (m *memory) setIdentity(e *entry) {
	if strings.Contains(e.value("object"), reconcile.ControllerManager) {
		m.identity = cut(strings.TrimSuffix(e.value("message"), " became leader"), 300)
	}
}

func (m *memory) of(pair reconcile.VolumeNode) *pairMemory {
	p := m.pairs[pair]
	if p == nil {
		p = &pairMemory{states: unknown}
		m.pairs[pair] = p
	}
	return p
}

func (m *memory) set(pair reconcile.VolumeNode, s states, at time.Time) {
	p := m.of(pair)
	if p.states != s {
		p.states, p.since = s, at
	}
}

// narrow keeps of the possible states those that the line allows. Where it allows none, an
// earlier line was missed, and the line decides.
func (m *memory) narrow(pair reconcile.VolumeNode, to states, at time.Time) {
	m.set(pair, cmp.Or(m.of(pair).states&to, to), at)
}

// mention returns the pair that a line names, and the knowledge about it. If the line names
// none, p is nil, and the names of volumes in the line are noted.
func (m *memory) mention(e *entry) (pair reconcile.VolumeNode, p *pairMemory) {
	if pair, ok := e.pair(); ok {
		return pair, m.of(pair)
	}
	if len(m.unclear) > MaxPairs {
		return pair, nil
	}
	texts := []string{e.msg, e.rest}
	for _, value := range e.values {
		texts = append(texts, string(value))
	}
	for _, text := range texts {
		for _, name := range csiName.FindAllString(text, 20) {
			if named(name, "n") {
				m.unclear[corev1.UniqueVolumeName(name)] = true
			}
		}
	}
	return pair, nil
}

func (m *memory) started(e *entry, operation snapshot.Operation) {
	pair, p := m.mention(e)
	if p == nil {
		return
	}
	// The operation runs before its begin is logged, and its end may be logged first. No
	// operation begins again within the shortest pause.
	if ended := p.ended[operation]; !ended.IsZero() && e.at.Sub(ended) < reconcile.BackoffFirst {
		delete(p.ended, operation)
		return
	}
	if operation == snapshot.AttachOperation {
		m.narrow(pair, isAbsent|isUncertain, e.at) // attachDesiredVolumes
	} else {
		m.narrow(pair, isUncertain|isAttached, e.at) // reconcile
	}
	p.running, p.runningSince = operation, e.at
	for _, b := range m.backOffs[pair.Volume] {
		if b.node != "" && b.node != pair.Node {
			b.doubtful = b.doubtful || !b.shared
			continue
		}
		if b.operation != operation && !e.at.After(b.until) {
			b.operation, b.until = operation, time.Time{} // another operation starts anew
		}
		b.pending = true
	}
}

// end notes the end of an operation.
func (p *pairMemory) end(operation snapshot.Operation, at time.Time) {
	if p.running != operation {
		if p.ended == nil {
			p.ended = map[snapshot.Operation]time.Time{}
		}
		p.ended[operation] = at
	}
	p.running = ""
}

func (m *memory) succeeded(e *entry, operation snapshot.Operation, leaves states) {
	pair, p := m.mention(e)
	if p == nil {
		return
	}
	p.end(operation, e.at)
	p.err = ""
	m.set(pair, leaves, e.at)
	m.backOffs[pair.Volume] = slices.DeleteFunc(m.backOffs[pair.Volume], func(b *backOff) bool { return b.node == "" || b.node == pair.Node })
}

func (m *memory) failedToStart(e *entry) {
	if _, p := m.mention(e); p != nil {
		p.err, p.errAt = cutError(e.value("err")), e.at
	}
}

func (m *memory) operationFailed(e *entry) {
	f, ok := e.failure()
	if !ok {
		m.mention(e)
		return
	}
	p := m.of(f.pair)
	p.end(f.operation, e.at)
	p.err, p.errAt = cutError(f.err), e.at
	switch {
	case !f.tried:
	case f.operation == snapshot.AttachOperation:
		m.set(f.pair, isUncertain, e.at)
	case m.failUncertain != 0:
		m.set(f.pair, m.failUncertain, e.at)
	default:
		m.narrow(f.pair, isUncertain|isAttached, e.at)
	}
	m.backOff(&f)
}

// backOff notes when the operation may be tried again. The entry in the controller's list
// keeps the name of the operation that failed first in an unbroken row of pauses: an
// operation of another kind that begins after a pause is over does not change it
// (nestedPendingOperations.Run).
func (m *memory) backOff(f *failure) {
	list := m.backOffs[f.pair.Volume]
	key := types.NodeName(f.node)
	at := slices.IndexFunc(list, func(b *backOff) bool { return b.node == key })
	if at < 0 {
		at = slices.IndexFunc(list, func(b *backOff) bool { return key == "" || b.node == "" })
	}
	if at < 0 {
		list = append(list, &backOff{operation: f.operation})
		at = len(list) - 1
	}
	b := list[at]
	if f.pause <= reconcile.BackoffFirst {
		b.operation = f.operation
	}
	b.node, b.until, b.pending, b.doubtful = key, f.until, false, false
	b.shared = key != "" && f.withSpec
	if b.shared {
		for _, other := range list {
			other.doubtful = false
		}
	}
	m.backOffs[f.pair.Volume] = list
}

// held notes the nodes to which, as the controller says, a volume is attached
// (GetNodesForAttachedVolume).
func (m *memory) held(e *entry) {
	volume, nodes := e.holders()
	if volume == "" || len(nodes) > 100 {
		m.mention(e)
		return
	}
	for _, node := range nodes {
		if named(volume, node) {
			m.set(pairOf(volume, node), isAttached, e.at)
		}
	}
}
