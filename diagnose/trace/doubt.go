package trace

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// doubt notes in the stage that its actor depends on the absence of objects of these kinds in
// the pod's namespace, where not all of them could be read.
func (t *tracer) doubt(s *Stage, kinds ...snapshot.Kind) {
	s.unread = cmp.Or(s.unread, t.unread(kinds))
}

// doubtTime is doubt for how long the stage may take, whoever has to act.
func (t *tracer) doubtTime(s *Stage, kinds ...snapshot.Kind) {
	s.untimed = cmp.Or(s.untimed, t.unread(kinds))
}

// doubtState is doubt for the state of the stage and its beginning, whoever has to act.
func (t *tracer) doubtState(s *Stage, kinds ...snapshot.Kind) {
	s.unseen = cmp.Or(s.unseen, t.unread(kinds))
}

// doubtStates notes in the stages what an unread object may show of the volume beside the doubts of each stage.
func (t *tracer) doubtStates(v *tracedVolume) {
	node := types.NodeName(t.pod.Spec.NodeName)
	for i := range v.Stages {
		s := &v.Stages[i]
		if slices.Contains(attachStages, s.Stage) && v.Driver != "" && v.source.CSI == nil && !t.Snapshot.KnowsDriver(v.Driver) {
			t.doubtState(s, snapshot.CSIDrivers)
		}
		if s.Stage == StageRegistered && v.source.CSI != nil && !t.Snapshot.KnowsDriver(v.Driver) { // it may take no volumes of this kind
			t.doubt(s, snapshot.CSIDrivers)
			t.doubtState(s, snapshot.CSIDrivers)
		}
		if node == "" || !slices.Contains(onTheNode, s.Stage) || s.State == StageNotNeeded {
			continue
		}
		if t.node == nil {
			t.doubtState(s, snapshot.Nodes)
		}
		if v.Driver != "" && t.Snapshot.CSINode(node) == nil {
			t.doubtState(s, snapshot.CSINodes)
		}
		if v.attachable && t.attachmentOf(v) == nil {
			t.doubtState(s, snapshot.VolumeAttachments)
		}
	}
}

// unread is the first of the kinds that could not be read whole in the pod's namespace; "" if all could.
func (t *tracer) unread(kinds []snapshot.Kind) snapshot.Kind {
	for _, kind := range kinds {
		namespace := t.pod.Namespace
		if kind == snapshot.Leases {
			namespace = metav1.NamespaceSystem
		}
		if !t.knows(kind, namespace) {
			return kind
		}
	}
	return ""
}

// unread is the kind of an unread object that may show an earlier stage than the broken one, or
// another actor; "" where no such object can.
func (v VolumeTrace) unread(broken StageName) snapshot.Kind {
	at := slices.Index(brokenOrder, broken)
	isBlocked := at >= 0 && v.stage(broken).State == StageBlocked
	for _, s := range v.Stages {
		kind := s.unread
		if s.Stage != broken && s.Stage != StageScheduled { // it may be blocked, and so come first
			kind = cmp.Or(s.unread, s.unseen, s.untimed)
		}
		if s.unheard && !isBlocked {
			kind = cmp.Or(kind, snapshot.Events)
		}
		// of the later stages only one that nobody can end comes before a blocked one
		if kind != "" && (!isBlocked || s.State == StageUnknown || slices.Contains(brokenOrder[:at+1], s.Stage)) {
			return kind
		}
	}
	return ""
}

// Unread is the kind of an object that could not be read and may show who has to act; "" where
// no such object can.
func (t *Trace) Unread() snapshot.Kind { return t.Waits().unread(t.Verdict.Stage) }

// withoutActors removes the actor where an unread object may show another one: from each volume,
// and from the verdict, which may have chosen the wrong volume. Another actor may have more time,
// or less.
func (t *Trace) withoutActors() {
	for _, v := range t.Volumes {
		broken := v.Broken
		if v.Name == t.Verdict.Volume {
			broken = t.Verdict.Stage
		}
		kind := v.unread(broken)
		untimed := cmp.Or(kind, v.stage(broken).untimed)
		if untimed == "" {
			continue
		}
		isDated := !t.undate(untimed)
		because := ": not all " + string(untimed) + " could be read"
		if kind == "" {
			if !isDated {
				t.Verdict.Message += "; " + timeAlone + because
			}
			continue
		}
		v.stage(broken).On = ""
		switch {
		case t.Verdict.Actor != "" && isDated:
			t.Verdict.Message = strings.Replace(t.Verdict.Message, nextToAct+t.Verdict.Actor, actorUnknown+because, 1)
		case t.Verdict.Actor != "":
			t.Verdict.Message = strings.Replace(t.Verdict.Message, nextToAct+t.Verdict.Actor, actorUnknown+timeUnknown+because, 1)
		case !isDated:
			t.Verdict.Message += "; " + timeAlone + because
		}
		t.Verdict.Actor = ""
	}
}

// Known returns the trace without the parts of its wait that an object that could not be read may change: where
// it waits, on whom, since when, and how long that may take. A stuck wait keeps its beginning where only a lease may
// change it: the pod has waited since then in any case, and nobody without the right to read leases would learn for
// how long.
func (t *Trace) Known() *Trace {
	known := *t
	isUnread := func(v VolumeTrace) bool { return v.unread(v.Broken) != "" }
	isUnknown := func(v VolumeTrace) bool { return v.stage(v.Broken).State == StageUnknown }
	if v := &known.Verdict; !t.Complete && !v.dated {
		v.UsualBound, v.DueAt = "", nil
		if s := t.Waits().stage(v.Stage); s.unseen != "" && s.unseen != snapshot.Leases {
			v.Since = nil
		}
		if v.State == finding.Unsure {
			v.Since = nil
		}
		if v.State == finding.Unsure && !v.Undated || t.Unread() != "" || v.waits() && v.Volume == "" && slices.ContainsFunc(t.Volumes, isUnread) {
			v.Stage, v.Stages, v.Since = "", nil, nil
		}
		if v.Stage == "" && v.State == finding.Unsure || slices.ContainsFunc(t.Volumes, isUnknown) { // another one may come first
			v.Volume, v.Volumes = "", nil
		}
	}
	if !t.Complete {
		known.Volumes = slices.Clone(t.Volumes)
		for i := range known.Volumes {
			known.Volumes[i].Stages = knownStages(known.Volumes[i], known.Verdict)
		}
	}
	return &known
}

// knownStages are the volume's stages in a trace beside a gap. Only the verdict weighs what the gap may hide, so
// that only the stage in which the pod waits tells its state, who has to act and since when, as the verdict does.
// Other stages are done, or their state is unknown.
func knownStages(v VolumeTrace, verdict Verdict) []Stage {
	stages := slices.Clone(v.Stages)
	for i := range stages {
		s := &stages[i]
		isVerdict := v.Name == verdict.Volume && s.Stage == verdict.Stage
		if s.unread != "" || s.unseen != "" || s.State != StageDone && !isVerdict && v.Referenced {
			s.State = StageUnknown
		}
		if s.State == StageDone {
			continue
		}
		s.On, s.Since, s.UsualBound, s.Overdue = "", nil, "", isVerdict && verdict.State == finding.Stuck && s.Overdue
		if isVerdict {
			s.On, s.Since, s.UsualBound = verdict.Actor, verdict.Since, verdict.UsualBound
		}
	}
	return stages
}

// surelyLong is the longest bound of any wait, whoever has to act: the one of a copy.
const surelyLong = facts.ProvisionSilence + facts.LongestCopy

// undate makes a verdict on a wait one that does not tell whether the wait is longer than is usual, unless
// it surely is. A volume that was not read may be on a node whose pod has any grace period. It reports whether
// the verdict was another one.
func (t *Trace) undate(kind snapshot.Kind) bool {
	v := &t.Verdict
	isOld := kind != snapshot.Volumes && v.State == finding.Stuck && v.Since != nil && t.TakenAt.Sub(v.Since.Time) >= surelyLong
	if v.State != finding.InFlight && v.State != finding.Stuck || isOld {
		return false
	}
	v.Undated, v.State, v.DueAt = true, finding.Unsure, nil
	return true
}

// date makes the verdict one that tells it again.
func (v *Verdict) date(state finding.WaitState, due *metav1.Time) {
	v.State, v.DueAt, v.Undated, v.dated = state, due, false, true
	v.Message = notDated.ReplaceAllLiteralString(v.Message, "")
}

// nextIs changes the actor, in the message too.
func (v *Verdict) nextIs(actor string) {
	switch {
	case v.Actor != "" || strings.Contains(v.Message, nextToAct):
		v.Message = strings.Replace(v.Message, nextToAct+v.Actor, nextToAct+actor, 1)
	case nobodyKnown.MatchString(v.Message):
		v.Message = nobodyKnown.ReplaceAllLiteralString(v.Message, nextToAct+actor)
	default:
		v.Message += "; " + nextToAct + actor
	}
	v.Actor = actor
}

const nextToAct = "next to act: "

const (
	actorUnknown = "who has to act next is not known"
	timeUnknown  = ", nor whether this is longer than is usual"
	timeAlone    = "whether this is longer than is usual is not known"
)

var (
	// nobodyKnown matches the text that replaces the actor where a gap hides it.
	nobodyKnown = regexp.MustCompile(actorUnknown + "(" + timeUnknown + `)?: not all \S+ could be read`)
	// notDated matches what a message says of the time where a gap hides it.
	notDated = regexp.MustCompile(timeUnknown + "|; " + timeAlone + `: not all \S+ could be read`)
)
