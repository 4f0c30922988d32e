package timing

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	adcache "k8s.io/kubernetes/pkg/controller/volume/attachdetach/cache"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Pair is what the controller decides about.
type Pair = reconcile.VolumeNode

// Step is one decision that the controller has taken, as its log has it. A pair
// has one in each pass, but for a MultiAttach, which is told of once.
type Step struct {
	Pair
	Verb reconcile.Verb
	At   time.Time
	// Line is what was logged.
	Line string
}

// History is what a controller has done so far.
type History struct {
	// Started is the time of the controller's construction.
	Started time.Time

	mu    sync.Mutex
	steps []Step
}

// verbs are the lines that tell of decisions, by how they begin. The first that
// fits counts.
var verbs = []struct {
	line string
	verb reconcile.Verb
}{
	{"Cannot detach volume because it is still mounted", reconcile.Wait},
	{"attacherDetacher.DetachVolume started:", reconcile.ForceDetach},
	{"attacherDetacher.DetachVolume started", reconcile.Detach},
	{"attacherDetacher.DetachVolume failed to start", reconcile.Blocked},
	{"attacherDetacher.AttachVolume started", reconcile.Attach},
	{"attacherDetacher.AttachVolume failed to start", reconcile.Blocked},
	{"Operation for volume is already running. Can't start attach", reconcile.Blocked},
	{"Operation for volume is already running for node. Can't start attach", reconcile.Blocked},
	{"Volume attached--touching", reconcile.Keep},
	{"Waiting for detach", reconcile.MultiAttach}, // "Multi-Attach error" up to 1.36
}

// Of returns the steps about the pair with any of the verbs; all of them where
// none is given.
func (h *History) Of(pair Pair, verbs ...reconcile.Verb) []Step {
	h.mu.Lock()
	defer h.mu.Unlock()
	var steps []Step
	for _, s := range h.steps {
		if s.Pair == pair && (len(verbs) == 0 || slices.Contains(verbs, s.Verb)) {
			steps = append(steps, s)
		}
	}
	return steps
}

func (h *History) add(msg string, keysAndValues []any) {
	for _, v := range verbs {
		if strings.HasPrefix(msg, v.line) {
			h.mu.Lock()
			h.steps = append(h.steps, Step{pairOf(keysAndValues), v.verb, time.Now(), msg})
			h.mu.Unlock()
			return
		}
	}
}

// pairOf reads the pair off a line's values.
func pairOf(keysAndValues []any) Pair {
	var pair Pair
	for _, value := range keysAndValues {
		switch v := value.(type) {
		case adcache.VolumeToAttach:
			return Pair{Volume: v.VolumeName, Node: v.NodeName}
		case corev1.UniqueVolumeName:
			pair.Volume = v
		case types.NodeName:
			pair.Node = v
		case klog.ObjectRef:
			pair.Node = types.NodeName(v.Name)
		}
	}
	return pair
}

// sink is the History as a logger at the highest verbosity.
type sink struct{ *History }

var _ logr.LogSink = sink{}

func (sink) Init(logr.RuntimeInfo)                  {}
func (sink) Enabled(int) bool                       { return true }
func (s sink) Info(_ int, msg string, kv ...any)    { s.add(msg, kv) }
func (s sink) Error(_ error, msg string, kv ...any) { s.add(msg, kv) }
func (s sink) WithValues(...any) logr.LogSink       { return s }
func (s sink) WithName(string) logr.LogSink         { return s }
