package trace

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/volumehealth"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// tracedVolume is a pod's volume with the objects that it leads to.
type tracedVolume struct {
	*VolumeTrace
	source *corev1.Volume
	claim  *corev1.PersistentVolumeClaim
	pv     *corev1.PersistentVolume
	spec   *reconcile.VolumeSpec
	// attachable reports whether the controller attaches it; unsure where that depends on a
	// CSIDriver that could not be read.
	attachable, unsure bool
	pair               reconcile.VolumeNode
}

// follow makes the stages of one volume.
func (t *tracer) follow(source *corev1.Volume, direction Direction) VolumeTrace {
	v := &tracedVolume{source: source, VolumeTrace: &VolumeTrace{
		Name: source.Name, Type: volumeType(source), Referenced: facts.Referenced(t.pod, source.Name),
	}}
	var bound *Stage
	if v.Claim = reconcile.ClaimName(t.pod, source); v.Claim != "" {
		bound = new(t.bound(v))
	}
	t.resolve(v)
	if direction == Down {
		v.Stages = t.chainDown(v)
	} else {
		v.Stages = t.chainUp(v, bound)
		t.note(v)
	}
	v.Broken = broken(v.Stages)
	t.doubtStates(v)
	t.addHealth(v)
	return *v.VolumeTrace
}

// addHealth quotes the driver's words about the volume's health in the stage in which it waits.
func (t *tracer) addHealth(v *tracedVolume) {
	if v.Broken == "" {
		return
	}
	s := v.stage(v.Broken)
	for _, h := range volumehealth.Of(t.View, t.pod, v.Name, v.Driver, t.Snapshot.Claim(facts.ClaimKey(t.pod, v.Claim))) {
		s.Said = append(s.Said, Said{By: "the driver, " + h.Field + " of " + h.Object, At: unlessZero(h.At), Text: h.Text(), Means: h.Means()})
	}
}

// resolve finds the volume's unique name and its driver, as far as they are known.
func (t *tracer) resolve(v *tracedVolume) {
	var err error
	switch {
	case v.pv != nil:
		v.PersistentVolume = v.pv.Name
		v.Volume, err = t.World.VolumeName(v.pv)
		if v.pv.Spec.CSI != nil {
			v.Driver = v.pv.Spec.CSI.Driver
		}
	case v.Claim == "":
		v.Volume, v.spec, err = t.World.PodVolume(t.pod, v.source)
		if v.source.CSI != nil {
			v.Driver = v.source.CSI.Driver
		}
	default:
		return
	}
	v.attachable = err == nil
	v.pair = reconcile.VolumeNode{Volume: v.Volume, Node: types.NodeName(t.pod.Spec.NodeName)}
	if driver, _, ok := reconcile.ParseCSI(v.Volume); ok && v.Driver == "" {
		v.Driver = driver // an in-tree volume that has moved to CSI
	}
	if va := t.attachmentOf(v); va != nil {
		v.VolumeAttachment = va.Name
	}
	if v.Driver != "" && v.source.CSI == nil && !t.Snapshot.KnowsDriver(v.Driver) {
		// A CSIDriver may say that its volumes are not attached; any trace of an attachment
		// shows that they are.
		v.unsure = v.VolumeAttachment == "" && (t.node == nil || !facts.Lists(t.node, v.Volume) && !facts.InUse(t.node, v.Volume))
	}
}

const mostStages = 8 // of a volume on its way up

// chainUp are the stages of a volume until a container can use it.
func (t *tracer) chainUp(v *tracedVolume, bound *Stage) []Stage {
	stages := append(make([]Stage, 0, mostStages), t.scheduled())
	t.addKeptOff(v, &stages[0])
	if bound != nil {
		stages = append(stages, *bound)
	}
	if !v.Referenced {
		return append(t.fit(stages), notNeeded(StageMounted, "no container of the pod mounts it, so that the kubelet never asks for it nor waits for it"))
	}
	if bound != nil && (v.pv == nil || bound.State != StageDone) {
		// Which volume it will be, and so how it gets to the node, is not known yet.
		return t.fit(append(stages, after(StageMounted)))
	}
	refused, isRefused := t.refused(v)
	switch {
	case v.attachable || v.unsure:
		stages = append(stages, t.askedFor(v), t.attached(v), t.listed(v))
	case isRefused:
		stages = append(stages, refused)
	}
	if v.Driver != "" {
		stages = append(stages, t.registered(v))
	}
	if v.Driver != "" && v.source.CSI == nil {
		stages = append(stages, t.staged(v))
	}
	return t.fit(append(stages, t.mounted(v)))
}

// fit makes the stages consistent: a stage after a broken one has not begun, unless something
// shows its state, and stages before a proven mount do not matter.
func (t *tracer) fit(stages []Stage) []Stage {
	if proof := t.mountsProven(); proof.Yes {
		silent := t.unseen()
		for i := range stages {
			s := &stages[i]
			switch {
			case silent != "" && s.State != StageNotNeeded && (slices.Contains(onTheNode, s.Stage) || s.State != StageDone && s.Stage != StageScheduled):
				*s = Stage{Stage: s.Stage, State: StageUnknown, Detail: fmt.Sprintf("as last reported, it is mounted (%s); %s", proof.How, silent), follows: true}
			case s.State == StageUnknown && s.Stage != StageStaged && s.Stage != StageMounted:
				s.follows = true // nobody waits for it
			case s.State != StageDone && s.Stage != StageScheduled:
				if s.Stage == StageMounted || s.Stage == StageStaged {
					*s = done(s.Stage, proof.Since, proof.How)
				} else {
					*s = notNeeded(s.Stage, "it is mounted; "+s.Detail)
				}
			}
		}
		return stages
	}
	waits, unknown := false, false
	earlier, gone := false, false // earlier: a stage before the driver's waits; gone: the driver's does
	for i := range stages {
		s := &stages[i]
		if gone && (s.Stage == StageStaged || s.Stage == StageMounted) && s.On != Nobody {
			*s = after(s.Stage) // whatever was reported before the driver went
			if s.Stage == StageStaged && !earlier {
				*s = Stage{Stage: s.Stage, State: StageUnknown, Detail: "no object tells whether it was staged before its driver went", follows: true}
			}
		}
		earlier = earlier || !gone && s.Stage != StageRegistered && (s.State == StageWaiting || s.State == StageBlocked)
		gone = gone || s.Stage == StageRegistered && (s.State == StageWaiting || s.State == StageBlocked)
		late := s.Stage == StageInVolumesAttached || s.Stage == StageStaged || s.Stage == StageMounted
		if late && (s.State == StageWaiting || s.open) && s.unsaid() {
			switch {
			case waits:
				kind := s.unread
				*s = after(s.Stage)
				s.unread = kind
			case unknown:
				*s = Stage{Stage: s.Stage, State: StageUnknown, Detail: "what comes before it is not known", follows: true}
			}
		}
		waits = waits || s.State == StageWaiting || s.State == StageBlocked
		unknown = unknown || s.State == StageUnknown && !s.open
	}
	return stages
}

// attachStages are the stages of a volume only where its driver attaches it, and the one that follows them.
var attachStages = []StageName{StageInVolumesInUse, StageAttached, StageInVolumesAttached, StageStaged, StageUnstaged, StageDetached}

// onTheNode are the stages that only the node's kubelet sees.
var onTheNode = []StageName{StageStaged, StageMounted}

// brokenOrder is the order in which a volume's stages explain its wait. A volume that the kubelet
// cannot take up explains all that follows, and a failing attach explains more than a silent
// wait.
var brokenOrder = []StageName{
	StageScheduled, StageClaimBound, StageRegistered, StageAttached, StageInVolumesAttached, StageInVolumesInUse, StageStaged, StageMounted,
	StageStopped, StageUnmounted, StageUnstaged, StageDetached,
}

// broken is the stage in which the volume waits. It is the first, in brokenOrder, that nobody can
// end; else the first that is blocked, is overdue, waits, or is unknown, in this order; "" for
// none.
func broken(stages []Stage) StageName {
	for _, fits := range []func(Stage) bool{
		func(s Stage) bool { return s.State == StageBlocked && s.On == Nobody },
		func(s Stage) bool { return s.State == StageBlocked },
		func(s Stage) bool { return s.State == StageWaiting && s.Overdue },
		func(s Stage) bool { return s.State == StageWaiting },
		func(s Stage) bool { return s.State == StageUnknown },
	} {
		for i, name := range brokenOrder {
			if slices.ContainsFunc(stages, func(s Stage) bool { return s.Stage == name && !s.follows && fits(s) }) {
				return unreadBefore(stages, brokenOrder[:i], name)
			}
		}
	}
	return ""
}

// unreadBefore is the stage of unknown state that comes before the given one, where that merely
// waits: the wait may be in either. Otherwise it is the given one.
func unreadBefore(stages []Stage, earlier []StageName, name StageName) StageName {
	if slices.ContainsFunc(stages, func(s Stage) bool { return s.Stage == name && s.State != StageWaiting }) {
		return name
	}
	for _, before := range earlier {
		if slices.ContainsFunc(stages, func(s Stage) bool { return s.Stage == before && s.State == StageUnknown && !s.follows && !s.open }) {
			return before
		}
	}
	return name
}

// kind is the type of the volume that the kubelet mounts: for a claim's volume, the type of the
// PersistentVolume.
func (v *tracedVolume) kind() string {
	if v.pv == nil {
		return v.Type
	}
	return sourceOf(v.pv.Spec.PersistentVolumeSource)
}

// volumeType is the name of the volume's source in the API.
func volumeType(v *corev1.Volume) string { return sourceOf(v.VolumeSource) }

// sourceOf is the name of the only field of a volume's source that is set; "other" where none is.
func sourceOf(source any) string {
	v := reflect.ValueOf(source)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "other"
}

// note adds remarks that no stage shows.
func (t *tracer) note(v *tracedVolume) {
	if !v.Referenced && v.attachable {
		v.Notes = append(v.Notes, "the controller attaches it all the same: a volume that is attached and never in volumesInUse is normal here")
	}
	if v.Volume == "" || !v.Referenced || t.mountsProven().Yes {
		return
	}
	for i := range t.pod.Spec.Volumes {
		other := &t.pod.Spec.Volumes[i]
		if other.Name == v.Name || !facts.Referenced(t.pod, other.Name) {
			continue
		}
		name, _, err := t.World.PodVolume(t.pod, other)
		if err == nil && name == v.Volume && (!t.kubelet.Known() || t.kubelet < facts.OneClaimTwice) {
			v.Notes = append(v.Notes, "the pod's volume "+other.Name+" is the same one: a kubelet before 1.35 waits for such a pair for ever and says nothing")
		}
	}
}
