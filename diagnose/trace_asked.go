package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// announceTakes is how long a volume may take into the node's volumesInUse:
	// the kubelet writes its status each 10 s; the rest is margin.
	announceTakes = 30 * time.Second
	// heartbeatTakes is the longest pause between two status writes of a kubelet
	// that has nothing new to say (5 min), and margin. One that renews its lease
	// and writes no status stays Ready with lists that are out of date.
	heartbeatTakes = 6 * time.Minute
	// repeatTakes is the longest pause between two events about what goes on
	// failing: after a burst one in 5 min is let through; the rest is margin.
	repeatTakes = 6 * time.Minute
)

func kubeletOf(node string) string { return "the kubelet of " + node }

// askedFor is whether the kubelet has announced the volume.
func (t *tracer) askedFor(v *tracedVolume) Stage {
	s := Stage{Stage: StageAskedFor, State: StageWaiting, On: kubeletOf(t.pod.Spec.NodeName), Ends: "the kubelet lists the volume in its node's volumesInUse"}
	if t.pod.Spec.NodeName == "" {
		return after(StageAskedFor)
	}
	if stage, known := t.readNode(StageAskedFor); !known {
		return stage
	}
	if e, w, ok := t.notTakenUp(v); ok {
		s.State, s.Detail, s.Said = StageBlocked, "the kubelet could not take the volume up", []Said{quote(e, w.means(v.Name, t.kubelet))}
		return t.due(s, firstTime(e), announceTakes)
	}
	if inUse(t.node, v.Volume) {
		return done(StageAskedFor, metav1.Time{}, "in volumesInUse of "+t.node.Name)
	}
	s.Detail = "volumesInUse of " + t.node.Name + " lacks it"
	if v.unsure {
		return Stage{Stage: StageAskedFor, State: StageUnknown, Detail: "not all csidrivers could be read: whether it is attached at all is not known"}
	}
	if wrong := t.wrongMode(v); wrong != "" {
		s.State, s.Detail = StageBlocked, wrong
		return t.due(s, boundAt(t.pod), 0)
	}
	t.kubeletDown(&s)
	return t.due(s, boundAt(t.pod), announceTakes)
}

// notTakenUp is what the kubelet last said of a volume that it could not take
// up. Where the node lists the volume as in use meanwhile, words that are not
// repeated are out of date; another pod's use of it proves nothing by itself.
func (t *tracer) notTakenUp(v *tracedVolume) (*corev1.Event, waitWords, bool) {
	e, w, ok := t.waitFailure(v.Name)
	ours := slices.Contains(w.unprocessed, v.Name) || v.Claim != "" && strings.Contains(w.cause, "/"+v.Claim+": ")
	if !ok || !ours || t.node != nil && inUse(t.node, v.Volume) && t.Age(eventTime(e)) > repeatTakes {
		return nil, w, false
	}
	return e, w, true
}

// kubeletDown adds what keeps the kubelet from acting or from saying so.
func (t *tracer) kubeletDown(s *Stage) {
	switch c := readyCondition(t.node); {
	case !reconcile.NodeReady(t.node):
		s.State = StageBlocked
		s.Detail += fmt.Sprintf("; the node's Ready condition is %s", readyText(t.node))
		s.reason = "NodeNotReady"
	case c != nil && !c.LastHeartbeatTime.IsZero() && t.Age(c.LastHeartbeatTime) > heartbeatTakes:
		s.State = StageBlocked
		s.Detail += fmt.Sprintf("; the kubelet has written no status since %s, though the node counts as Ready", stamp(c.LastHeartbeatTime))
	}
}

// readNode says what to answer where there is no node to look at.
func (t *tracer) readNode(name StageName) (Stage, bool) {
	switch {
	case t.node != nil:
		return Stage{}, true
	case !t.knows(snapshot.Nodes, ""):
		return unread(name, snapshot.Nodes), false
	default:
		s := Stage{Stage: name, State: StageBlocked, On: "nobody", Detail: "node " + t.pod.Spec.NodeName + " does not exist"}
		return t.due(s, metav1.Time{}, 0), false
	}
}

// wrongMode is a volume of one mode that a container uses as one of the other.
func (t *tracer) wrongMode(v *tracedVolume) string {
	if v.pv == nil {
		return ""
	}
	block := v.pv.Spec.VolumeMode != nil && *v.pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
	for _, c := range slices.Concat(t.pod.Spec.InitContainers, t.pod.Spec.Containers) {
		switch {
		case block && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }):
			return fmt.Sprintf("the volume has volumeMode Block, and container %s mounts it (volumeMounts)", c.Name)
		case !block && slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == v.Name }):
			return fmt.Sprintf("the volume has volumeMode Filesystem, and container %s uses it as a device (volumeDevices)", c.Name)
		}
	}
	return ""
}
