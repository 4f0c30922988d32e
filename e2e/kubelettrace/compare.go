package kubelettrace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
)

// actors has the actors by the beginning of the trace's words for them.
var actors = []struct {
	begins string
	actor  Actor
}{
	{"the kubelet of ", TheKubelet}, {"CSI driver ", TheDriver}, {"the node plugin of ", ThePlugin},
	{"the node admin", NodeAdmin}, {"whoever mounted it at ", NodeAdmin},
	{"whoever is to create a volume for the claim", Binder}, // it binds that volume, and waits for it
	{"whoever ", Creator},
	{"the attach/detach controller", Controller}, {"the external-attacher of ", Controller}, {trace.Nobody, Nobody},
	{"the persistent volume controller", Binder}, {"the provisioner of ", Binder}, {"the ephemeral volume controller", Creator}, {"pod ", Other},
}

func actorOf(words string) Actor {
	for _, a := range actors {
		if strings.HasPrefix(words, a.begins) {
			return a.actor
		}
	}
	return Actor("unknown: " + words)
}

// Compare compares the trace with the truth and returns where it is wrong.
func (l Look) Compare(volumes []Volume) []string {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	waits := false
	for _, v := range volumes {
		truth, told := l.Truth[v.Name], l.volume(v.Name)
		if told == nil {
			say("volume %s is not in the trace", v.Name)
			continue
		}
		waits = waits || truth.Stage != ""
		for _, s := range told.Stages {
			done, exists := truth.Done[s.Stage]
			switch {
			case !exists:
			case s.State == trace.StageDone && !done:
				say("volume %s: %s is not done, as the trace says (%s)", v.Name, s.Stage, s.Detail)
			case (s.State == trace.StageWaiting || s.State == trace.StageBlocked) && done:
				say("volume %s: %s is done, and the trace says %s (%s)", v.Name, s.Stage, s.State, s.Detail)
			}
			if !l.asked && s.Stage == trace.StageStaged && untold(told, s) && l.Trace.Verdict.State != finding.NoWait {
				say("volume %s: no object tells whether it is staged, and the trace says %s (%s)", v.Name, s.State, s.Detail)
			}
		}
	}
	return append(wrong, l.compareVerdict(volumes, waits)...)
}

// untold reports whether the trace claims a stage that no object shows: nothing was said, all
// stages before it are done, and the objects do not exclude it. A mounted volume is staged,
// and the kubelet shows that by not naming the volume among those that it waits for: that
// claim is compared with what the kubelet has done, like any other.
func untold(v *trace.VolumeTrace, s trace.Stage) bool {
	if s.State == trace.StageUnknown || s.State == trace.StageNotNeeded || actorOf(s.On) == Nobody {
		return false
	}
	for _, other := range v.Stages {
		if other.Stage == trace.StageMounted && other.State == trace.StageDone && s.State == trace.StageDone {
			return false
		}
		if len(other.Said) > 0 || other.Stage != s.Stage && other.Stage != trace.StageMounted && other.State != trace.StageDone {
			return false
		}
	}
	return true
}

func (l Look) volume(name string) *trace.VolumeTrace {
	i := slices.IndexFunc(l.Trace.Volumes, func(v trace.VolumeTrace) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &l.Trace.Volumes[i]
}

// acts reports whether the words name the right actor. A user who asked the kubelet may know
// that the kubelet itself has not called its driver yet. As long as one list may be older
// than another, the trace names no actor where it would be nobody. Only the kubelet's log
// shows that something on the node is busy: without the log, naming the one who unmounts is
// right.
func (l Look) acts(words string, truth Truth) bool {
	if truth.Busy && !l.asked {
		return slices.Contains([]Actor{NodeAdmin, TheKubelet, TheDriver, ThePlugin}, actorOf(words))
	}
	return actorOf(words) == truth.Actor || truth.Also != "" && actorOf(words) == truth.Also || words == "" && truth.Actor == Nobody || l.asked && truth.Uncalled && actorOf(words) == TheKubelet
}

// compareVerdict compares the verdict with the truth; waits reports whether a volume waits.
func (l Look) compareVerdict(volumes []Volume, waits bool) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	v := l.Trace.Verdict
	blamed := v.State == finding.InFlight || v.State == finding.Stuck
	switch {
	case !waits && blamed:
		say("no volume waits, and the verdict is %s: %s", v.State, v.Message)
	case waits && !blamed:
		say("a volume waits, and the verdict is %s: %s", v.State, v.Message)
	}
	if !waits || !blamed {
		return wrong
	}
	named := v.Volume
	for _, other := range v.Volumes { // where no object shows which one
		if l.Truth[named].Stage == "" {
			named = other
		}
	}
	truth := l.Truth[named]
	switch {
	case truth.Stage == "":
		say("volume %s does not wait, and the verdict names it: %s", v.Volume, v.Message)
		return wrong
	case v.Stage != truth.Stage && !slices.Contains(v.Stages, truth.Stage):
		say("volume %s waits in %s, and the verdict says %s %v", named, truth.Stage, v.Stage, v.Stages)
	}
	right := false
	for words := range strings.SplitSeq(v.Actor, " or ") {
		right = right || l.acts(words, truth)
	}
	if !right {
		say("volume %s waits for %s, and the verdict says %q", named, truth.Actor, v.Actor)
	}
	permanent := slices.ContainsFunc(volumes, func(v Volume) bool { return v.Never && l.Truth[v.Name].Actor == Nobody })
	if permanent && v.State != finding.Stuck {
		say("a volume can never come, and the verdict is %s: %s", v.State, v.Message)
	}
	return wrong
}
