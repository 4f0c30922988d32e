package standing

import (
	"cmp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// roundBound is the longest time from one look of a leader to the next, and to the first one:
// the lists of a large cluster are waited for up to two minutes.
const roundBound = 4 * time.Minute

// state is the knowledge that requests read.
type state struct {
	mu       sync.Mutex
	timeline finding.Timeline
	// waitsSince is when each pod was first seen to wait, for waits whose beginning no object
	// shows.
	waitsSince map[string]time.Time
	// leading reports whether this process looks, and beat when it last began or ended a look.
	leading bool
	beat    time.Time
	// last is nil until there is a report.
	last *look
}

// look is the content of one report. It is never changed.
type look struct {
	report   *finding.Report
	standing []finding.Standing
	waits    []wait
	detaches []detach
	loads    []load
}

// found is the report with only its standing findings: a finding that may be a hidden one as
// another check sees it is left out.
func (l *look) found() *finding.Report {
	r := *l.report
	r.Findings = nil
	for _, s := range l.standing {
		if s.Last == r.TakenAt {
			r.Findings = append(r.Findings, s.Finding)
		}
	}
	return &r
}

// wait is a pod that waits for a volume.
type wait struct {
	namespace, pod, node, claim, volume, stage, actor string
	state                                             finding.WaitState
	lasts                                             time.Duration
}

// load is how many volumes of a driver are attached to a node, and how many may be. A number
// is negative where it is not known, or not limited.
type load struct {
	node, driver    string
	attached, limit int
}

func (s *state) begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading, s.beat = true, now
}

func (s *state) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading, s.last = false, nil
}

// saw takes over a new report. A finding that the report cannot see stays.
func (s *state) saw(view *repair.View, now time.Time) {
	detaches, loads := detachesOf(view), loadsOf(view)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timeline.Next(view.Report, view.Undecided)
	s.last = &look{report: view.Report, standing: s.timeline.Standing(), waits: s.waitsOf(view), detaches: detaches, loads: loads}
	s.beat = now
}

// now is the state for the answer to a request; l is nil while there is no report.
func (s *state) now() (leading bool, beat time.Time, l *look) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leading, s.beat, s.last
}

func (s *state) waitsOf(view *repair.View) []wait {
	since := map[string]time.Time{}
	waits := make([]wait, 0, len(view.Report.Waiting))
	for _, entry := range view.Report.Waiting {
		began := view.Report.TakenAt.Time
		if entry.Since != nil {
			began = entry.Since.Time
		} else {
			if seen, known := s.waitsSince[entry.Pod]; known {
				began = seen
			}
			since[entry.Pod] = began
		}
		waits = append(waits, newWait(view.Snapshot, entry, max(0, view.Report.TakenAt.Sub(began))))
	}
	s.waitsSince = since
	return waits
}

func newWait(s *snapshot.Snapshot, entry finding.Waiting, lasts time.Duration) wait {
	namespace, name, _ := strings.Cut(entry.Pod, "/")
	w := wait{namespace: namespace, pod: name, node: entry.Node, volume: entry.Volume, stage: entry.Stage, actor: entry.Actor, state: entry.Verdict, lasts: lasts}
	pod := s.Pod(types.NamespacedName{Namespace: namespace, Name: name})
	if pod == nil {
		return w
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == entry.Volume {
			w.claim = reconcile.ClaimName(pod, v)
		}
	}
	if claim := s.Claim(types.NamespacedName{Namespace: namespace, Name: w.claim}); w.claim != "" && claim != nil && claim.Spec.VolumeName != "" {
		w.volume = claim.Spec.VolumeName
	}
	return w
}

// loadsOf has an entry for each driver of each CSINode, and for each other that has a volume
// attached.
func loadsOf(view *repair.View) []load {
	s := view.Snapshot
	known := s.Complete(snapshot.VolumeAttachments)
	held := map[facts.NodeDriver]*facts.Load{}
	if known {
		held = view.Facts.Loads()
	}
	keys := sets.KeySet(held)
	for _, node := range s.CSINodes {
		for _, driver := range node.Spec.Drivers {
			keys.Insert(facts.NodeDriver{Node: node.Name, Driver: driver.Name})
		}
	}
	loads := make([]load, 0, len(keys))
	for key := range keys {
		l := load{node: key.Node, driver: key.Driver, attached: -1, limit: -1}
		if h := held[key]; h != nil {
			l.attached = len(h.Held)
		} else if known {
			l.attached = 0
		}
		if limit, limited := facts.AttachLimit(s.CSINode(types.NodeName(key.Node)), key.Driver); limited && s.Complete(snapshot.CSINodes) {
			l.limit = limit
		}
		loads = append(loads, l)
	}
	return loads
}

// volumeOf is the PersistentVolume of the finding, or else the controller's name for its
// volume.
func volumeOf(f finding.Finding) corev1.UniqueVolumeName {
	return cmp.Or(corev1.UniqueVolumeName(f.PersistentVolume), f.Volume)
}
