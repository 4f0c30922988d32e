package diagnose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// kubeletRelease is the minor release of the kubelet of a node; zero where it is
// not known. What the kubelet writes, and what it leaves out, changes with it.
type kubeletRelease uint

// The minor releases from which on the kubelet speaks otherwise.
const (
	// sortedLists: the lists of a wait that fails are sorted, "unattached" means
	// what it says, and "failed to process" is there (kubernetes pull request 112719).
	sortedLists kubeletRelease = 26
	// silentTimeout: a wait that merely times out leaves no event (117412, and
	// the open issue 127004).
	silentTimeout kubeletRelease = 28
	// attachCheckedOnce: the kubelet looks at a VolumeAttachment once and says what
	// it found; before, it waited for it up to 10 min (126961).
	attachCheckedOnce kubeletRelease = 32
	// permissionEvents: a slow change of ownership leaves events (130398).
	permissionEvents kubeletRelease = 33
	// limitRejection: a pod for which the node has no room is rejected (132933).
	// So is fixed then what one claim under two names of a pod did (122140).
	limitRejection kubeletRelease = 35
	oneClaimTwice  kubeletRelease = 35
)

func parseKubelet(text string) kubeletRelease {
	v, err := version.ParseGeneric(text)
	if err != nil || v.Major() != 1 {
		return 0
	}
	return kubeletRelease(v.Minor())
}

func (k kubeletRelease) known() bool { return k != 0 }

func (k kubeletRelease) before(r kubeletRelease) bool { return k != 0 && k < r }

// silence says what it means that there are no words about a mount.
func (k kubeletRelease) silence() string {
	switch {
	case !k.known():
		return "the kubelet's release is not known: from 1.28 on it writes no event for a wait that merely times out"
	case k >= silentTimeout:
		return fmt.Sprintf("no event tells why; a kubelet of 1.%d writes none for a wait that merely times out, so that silence is no progress", k)
	default:
		return fmt.Sprintf("no event tells why, though a kubelet of 1.%d writes one for each wait of 2m3s: they are kept for an hour only", k)
	}
}

// waitFailed are the words with which the kubelet gives up a wait for all
// volumes of a pod; it lists them by the pod's own names.
var waitFailed = regexp.MustCompile(`(?s)unmounted volumes=\[([^\]]*)\](?:, unattached volumes=\[([^\]]*)\])?` +
	`(?:, failed to process volumes=\[([^\]]*)\])?: ?(.*)$`)

// mountFailed are the words about one volume: what failed, the volume by its
// PV's name or the pod's, and why.
var mountFailed = regexp.MustCompile(`(?s)^(?:\(combined from similar events\): )?((?:AttachVolume|MountVolume|MapVolume|NodeExpand[Vv]olume)[A-Za-z. ]*) for volume "([^"]+)" : ?(.*)$`)

// waitWords is a failed wait, taken apart.
type waitWords struct {
	unmounted, unattached, unprocessed []string
	cause                              string
}

func parseWait(message string) (waitWords, bool) {
	m := waitFailed.FindStringSubmatch(message)
	if m == nil {
		return waitWords{}, false
	}
	return waitWords{strings.Fields(m[1]), strings.Fields(m[2]), strings.Fields(m[3]), m[4]}, true
}

// means reads the lists of a failed wait for one volume, as the release meant
// them.
func (w waitWords) means(volume string, k kubeletRelease) string {
	lists := w.listsMean(volume, k)
	if why := meaningOf(w.cause, podErrorsMean); why != "" && slices.Contains(w.unmounted, volume) {
		return why + "; " + lists
	}
	return lists
}

func (w waitWords) listsMean(volume string, k kubeletRelease) string {
	switch {
	case !k.known():
		return "how to read the lists depends on the kubelet's release, which is not known; \"unmounted\" names what is waited for in all of them"
	case !slices.Contains(w.unmounted, volume):
		return "this volume was mounted; the wait was for " + strings.Join(w.unmounted, ", ")
	case k < sortedLists:
		return fmt.Sprintf("a kubelet of 1.%d lists every volume of the pod as unattached, in any order: only \"unmounted\" tells", k)
	case slices.Contains(w.unprocessed, volume):
		return "the kubelet could not take the volume up at all: its claim, its PV or its plugin is wrong, and no mount was tried"
	case slices.Contains(w.unattached, volume):
		return "the volume was not attached as the kubelet sees it: in volumesInUse and volumesAttached of the node"
	case k >= silentTimeout:
		return fmt.Sprintf("attached but not mounted; a kubelet of 1.%d writes this only where a volume has an error of its own, never for a mere time-out", k)
	default:
		return "attached, but not mounted within 2m3s"
	}
}

// mountWords is a failed mount of one volume.
type mountWords struct {
	event        *corev1.Event
	step, reason string
}

// mountFailures are the failed mounts of the volume, oldest first. The kubelet
// calls it by one of the names.
func (t *tracer) mountFailures(names ...string) []mountWords {
	var list []mountWords
	for _, e := range t.events {
		if e.Reason != "FailedMount" && e.Reason != "FailedMapVolume" {
			continue
		}
		m := mountFailed.FindStringSubmatch(e.Message)
		if m != nil && slices.Contains(names, m[2]) {
			list = append(list, mountWords{e, m[1], m[3]})
		}
	}
	return list
}

// waitFailure is the last failed wait that names the volume.
func (t *tracer) waitFailure(volume string) (*corev1.Event, waitWords, bool) {
	for _, e := range slices.Backward(t.events) {
		if w, ok := parseWait(e.Message); ok && e.Reason == "FailedMount" && slices.Contains(w.unmounted, volume) {
			return e, w, true
		}
	}
	return nil, waitWords{}, false
}

// lastEvent is the last event of the pod with one of the reasons; nil where
// there is none.
func (t *tracer) lastEvent(reasons ...string) *corev1.Event {
	for _, e := range slices.Backward(t.events) {
		if slices.Contains(reasons, e.Reason) {
			return e
		}
	}
	return nil
}

// firstTime is when what the event tells of was first seen.
func firstTime(e *corev1.Event) metav1.Time {
	if !e.FirstTimestamp.IsZero() {
		return e.FirstTimestamp
	}
	if !e.EventTime.IsZero() {
		return metav1.NewTime(e.EventTime.Time)
	}
	return eventTime(e)
}

func quote(e *corev1.Event, means string) Said {
	by := e.Source.Component
	if by == "" {
		by = e.ReportingController
	}
	if e.Source.Host != "" {
		by += " on " + e.Source.Host
	}
	at := eventTime(e)
	return Said{By: strings.TrimSpace(by + ", event " + e.Reason), At: &at, Text: e.Message, Means: means}
}
