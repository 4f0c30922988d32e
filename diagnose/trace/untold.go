package trace

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
)

// untold resolves the volumes that may or may not be mounted: the kubelet mounts all of a pod's
// volumes at the same time, and writes nothing about a mounted one. Volumes whose last failure
// should have been repeated by now count among them. Where another volume is known to wait, it
// explains the pod's wait. Otherwise the pod waits for one of them. A single one is certain;
// several are returned as candidates, each as if the pod waited for it.
func untold(volumes []VolumeTrace) []VolumeTrace {
	var silent, remote, old []int
	told, unread, retried := "", false, false
	for i, v := range volumes {
		state := v.stage(v.Broken).State
		switch {
		case state == StageUnknown && (v.stage(v.Broken).unread != "" || v.stage(v.Broken).unheard):
			unread = true // the pod may wait for it
		case state == StageUnknown && v.stage(v.Broken).old:
			retried = true // the pod hardly waits for it, and no more for what the kubelet makes itself
		case state != StageWaiting && state != StageBlocked:
		case state == StageBlocked && v.stage(v.Broken).old:
			old = append(old, i)
		case !v.silent():
			told = cmp.Or(told, v.Name)
		default:
			silent = append(silent, i)
			if s := v.stage(v.Broken); !slices.Contains(nodeLocal, v.Type) || s.passed && !s.old {
				remote = append(remote, i)
			}
		}
	}
	if told != "" {
		silent = append(silent, old...)
	} else if len(old) > 0 {
		told = volumes[old[0]].Name
	}
	candidates := silent
	if len(remote) > 0 {
		candidates = remote
	}
	var open []VolumeTrace
	switch {
	case told == "" && len(candidates) == 1 && !unread && (!retried || len(remote) > 0):
		told = volumes[candidates[0]].Name
	case told == "":
		for _, i := range candidates {
			v := volumes[i]
			v.Stages = slices.Clone(v.Stages)
			open = append(open, v)
		}
	}
	for _, i := range silent {
		if v := &volumes[i]; v.Name != told {
			if staged := v.stage(StageStaged); staged.State == StageWaiting || staged.State == StageBlocked {
				staged.State, staged.Detail = StageUnknown, "no object tells"
			}
			s := v.stage(StageMounted)
			s.State, s.Overdue, s.follows = StageUnknown, false, true
			s.Detail = "no object tells whether it is mounted; "
			if told != "" {
				s.Detail += "volume " + told + " explains the wait"
			} else {
				s.Detail += "the pod waits for one of its volumes"
			}
			v.Broken = ""
		}
	}
	return open
}

// nodeLocal are the types that the kubelet makes by itself: within seconds it has made one, or
// reports why it cannot.
var nodeLocal = []string{"emptyDir", "hostPath", "configMap", "secret", "projected", "downwardAPI"}

// silent reports whether nothing shows whether the volume is mounted: the kubelet has reported
// nothing about it. A driver that is gone from the CSINode leaves its mounts.
func (v VolumeTrace) silent() bool {
	s := v.stage(v.Broken)
	return v.Broken == StageMounted && s.State == StageWaiting && s.unsaid() || v.Broken == StageRegistered && s.unsaid()
}

// stages are the possible stages of the volume, where there are several; else nil.
func (v VolumeTrace) stages() []StageName {
	if v.Broken == StageMounted && v.stage(StageMounted).State == StageWaiting && v.stage(StageStaged).open {
		return []StageName{StageStaged, StageMounted}
	}
	if v.Broken == StageUnstaged && v.stage(StageUnmounted).State == StageUnknown {
		return []StageName{StageUnmounted, StageUnstaged}
	}
	return nil
}

// refused is the stage of a volume that the kubelet cannot take up. Neither the pod nor the
// volume can be changed to fit (createVolumeSpec and FindPluginBySpec,
// desired_state_of_world_populator.go).
func (t *tracer) refused(v *tracedVolume) (Stage, bool) {
	s := Stage{Stage: StageInVolumesInUse, State: StageBlocked, On: Nobody, Ends: "the pod is made again with a volume that its node can use"}
	if e, w, ok := t.notTakenUp(v); ok {
		s.Said = []Said{quote(e, w.means(v.Name, t.kubelet))}
	}
	if s.Detail = facts.WrongMode(t.pod, v.Name, v.pv); s.Detail == "" {
		e, w, ok := t.lacksPlugin(v)
		if !ok {
			return Stage{}, false
		}
		s.Said = []Said{quote(e, w.means(v.Name, t.kubelet))}
		s.Detail = "the kubelet has no plugin for a volume of type " + v.kind()
	}
	return t.never(s, waitsSince(t.pod)), true
}

// lacksPlugin is the kubelet's last event, of any age, about a volume for which it has no
// plugin. Of several volumes that it cannot take up it names one at a time, or joins the errors
// of all (WaitForAttachAndMount, volume_manager.go).
func (t *tracer) lacksPlugin(v *tracedVolume) (*corev1.Event, waitWords, bool) {
	for _, e := range slices.Backward(t.events) {
		w, ok := parseWait(e.Message)
		if !ok || e.Reason != "FailedMount" {
			continue
		}
		for cause := range strings.SplitSeq(w.cause, "; ") {
			of := w
			if of.cause = cause; facts.ContainsAny(cause, kubeletwords.NoPlugin) && t.about(of, v) {
				return e, w, true
			}
		}
	}
	return nil, waitWords{}, false
}

// elsewhere is the stage of a volume that may not be used on the pod's node. The kubelet checks
// this before it calls the driver (CheckNodeAffinity in GenerateMountVolumeFunc), and reports
// it only once the volume is attached.
func (t *tracer) elsewhere(name StageName, v *tracedVolume) (Stage, bool) {
	if v.pv == nil || t.node == nil || v.attachable && !facts.Lists(t.node, v.Volume) {
		return Stage{}, false
	}
	terms := facts.UnmetAffinity(v.pv, t.node)
	if terms == "" {
		return Stage{}, false
	}
	s := Stage{Stage: name, State: StageBlocked, On: Nobody, Detail: "the volume can be used only on nodes with " + terms,
		Ends: "the pod is made again on a node that suits the volume"}
	if failures := t.mountFailures(v); len(failures) > 0 {
		last := failures[len(failures)-1]
		s.Said = []Said{quote(last.Event, mountMeans(last, t.kubelet))}
	}
	return t.never(s, waitsSince(t.pod)), true
}

// notInline is the stage of a volume that the pod itself defines and whose driver does not
// support that.
func (t *tracer) notInline(v *tracedVolume, failures []facts.MountFailure) (Stage, bool) {
	if !t.RefusesInline(v.source) {
		return Stage{}, false
	}
	s := Stage{Stage: StageMounted, State: StageBlocked, On: Nobody, Detail: "csidriver/" + v.Driver + " does not list the mode Ephemeral, which a volume that stands in a pod needs",
		Ends: "the pod is made again without the volume: the modes that a CSIDriver lists cannot be changed"}
	for _, f := range slices.Backward(failures) {
		if facts.ContainsAny(f.Reason, kubeletwords.ModeNotSupported) {
			s.Said = []Said{quote(f.Event, mountMeans(f, t.kubelet))}
			break
		}
	}
	return t.never(s, waitsSince(t.pod)), true
}

// userOnNode is another pod on the node that has the volume mounted; nil where none is known.
func (t *tracer) userOnNode(v *tracedVolume) *corev1.Pod {
	for _, other := range useOf(t.View, v.pair).mounted {
		if other != t.pod {
			return other
		}
	}
	return nil
}
