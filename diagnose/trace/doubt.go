package trace

import (
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// doubt notes in the stage that its actor depends on the absence of objects of these kinds in
// the pod's namespace, where not all of them could be read.
func (t *tracer) doubt(s *Stage, kinds ...snapshot.Kind) {
	for _, kind := range kinds {
		namespace := t.pod.Namespace
		if kind == snapshot.Leases {
			namespace = metav1.NamespaceSystem
		}
		if s.unread == "" && !t.knows(kind, namespace) {
			s.unread = kind
		}
	}
}

// unread is the kind of an unread object that may show an earlier stage than the broken one, or
// another actor; "" where no such object can.
func (v VolumeTrace) unread(broken StageName) snapshot.Kind {
	first := brokenOrder
	if at := slices.Index(brokenOrder, broken); at > 0 && v.stage(broken).State == StageBlocked {
		first = first[:at+1] // a later stage may be blocked as well, but does not come first
	}
	for _, s := range v.Stages {
		if s.unread != "" && slices.Contains(first, s.Stage) {
			return s.unread
		}
	}
	return ""
}

// Unread is the kind of an object that could not be read and may show who has to act; "" where
// no such object can.
func (t *Trace) Unread() snapshot.Kind { return t.Waits().unread(t.Verdict.Stage) }

// withoutActors removes the actor where an unread object may show another one: from each volume,
// and from the verdict, which may have chosen the wrong volume.
func (t *Trace) withoutActors() {
	for _, v := range t.Volumes {
		broken := v.Broken
		if v.Name == t.Verdict.Volume {
			broken = t.Verdict.Stage
		}
		kind := v.unread(broken)
		if kind == "" {
			continue
		}
		v.stage(broken).On = ""
		if t.Verdict.Actor != "" {
			t.Verdict.Message = strings.Replace(t.Verdict.Message, nextToAct+t.Verdict.Actor,
				"who has to act next is not known: not all "+string(kind)+" could be read", 1)
			t.Verdict.Actor = ""
		}
	}
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

// nobodyKnown matches the text that replaces the actor where a gap hides it.
var nobodyKnown = regexp.MustCompile(`who has to act next is not known: not all \S+ could be read`)
