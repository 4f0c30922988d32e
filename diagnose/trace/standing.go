package trace

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Standing is the stage in which one volume of a pod is with its kubelet.
type Standing struct {
	// Stage is the stage in which the volume waits. Its state is StageDone where the volume is
	// mounted as the pod wants it, and StageUnknown where no object shows whether the volume
	// waits.
	Stage Stage
	// Possible are all stages in which the volume may wait, where no object shows which; Stage
	// is the last of them.
	Possible []StageName
	// DueAt is when the wait will exceed its usual bound; nil where that is not known, or it
	// already does.
	DueAt *metav1.Time
	// NeverMounted reports that the pod ended before the volume was mounted. The kubelet wants
	// to mount it as long as the pod object exists.
	NeverMounted bool
}

// Called reports whether the CSI driver is called in the stage, whoever has to act so that a
// call succeeds.
func (s Standing) Called() bool {
	return s.Stage.called || strings.Contains(s.Stage.On, "CSI driver ")
}

// Standing is the standing of one of the trace's volumes; ok is false where the kubelet has no
// part in it, as no container mounts the volume or the kubelet has given it back.
func (t *Trace) Standing(v VolumeTrace) (s Standing, ok bool) {
	if !v.Referenced || t.Node == "" || v.Broken == StageDetached {
		return s, false
	}
	if v.Broken != "" && v.stage(v.Broken).reason != reasonMountBroken {
		return v.standingIn(v.Broken), true
	}
	if t.Direction == Down {
		if unmounted := v.stage(StageUnmounted); unmounted.State == StageUnknown {
			return Standing{Stage: *unmounted}, true
		}
		return s, false
	}
	mounted := v.stage(StageMounted)
	if mounted.reason == reasonMountBroken {
		return Standing{Stage: done(StageMounted, metav1.Time{}, mounted.Detail)}, true
	}
	if mounted.State == StageDone {
		return Standing{Stage: *mounted}, true
	}
	// It may be mounted. If it is not, it waits in the first of these stages.
	s.Stage = *mounted
	s.Stage.State = StageUnknown
	switch registered, staged := v.stage(StageRegistered), v.stage(StageStaged); {
	case registered.State == StageWaiting || registered.State == StageBlocked:
		s.Stage.Stage, s.Stage.On = StageRegistered, registered.On
	case staged.State == StageUnknown:
		s.Possible = []StageName{StageStaged, StageMounted}
		// a failed stage knows the actor better than one that has not begun
		s.Stage.On = cmp.Or(s.Stage.On, staged.On)
	}
	return s, true
}

func (v VolumeTrace) standingIn(name StageName) Standing {
	s := Standing{Stage: *v.stage(name), Possible: v.stages()}
	if s.NeverMounted = s.Stage.reason == reasonNeverMounted; s.NeverMounted {
		s.Possible = nil
	}
	if !s.Stage.Overdue {
		s.DueAt = s.Stage.dueAt
	}
	return s
}

// Leftover is the standing of a volume that the node's volumesInUse lists although no pod on
// the node uses it. Where its pod was deleted by force it may still be mounted; the kubelet's
// log shows it, where it was read.
func Leftover(view *facts.View, node *corev1.Node, volume corev1.UniqueVolumeName, heard *KubeletView) Standing {
	t := newTracer(view, &corev1.Pod{Spec: corev1.PodSpec{NodeName: node.Name}}, heard)
	v := &tracedVolume{VolumeTrace: &VolumeTrace{Volume: volume}, pair: reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}}
	v.Driver, _, _ = reconcile.ParseCSI(volume)
	s := t.unstaging(v, inUseOf(node)+", and no pod there uses it any more")
	if !t.knows(snapshot.Pods, "") {
		s = unread(StageUnstaged, snapshot.Pods)
	} else if f, ok := t.failedDown(v); ok {
		if f.Pod != "" {
			s.Stage = StageUnmounted
		}
		s = t.due(s, metav1.Time{}, UnstageTakes)
		t.saidInLog(&s, f, v.Driver)
		return Standing{Stage: s}
	} else if s.State == StageWaiting && v.Driver != "" { // something else on the node may hold it
		s.On = kubeletOf(node.Name) + " or " + s.On
	}
	return Standing{Stage: t.due(s, metav1.Time{}, UnstageTakes), Possible: []StageName{StageUnmounted, StageUnstaged}}
}
