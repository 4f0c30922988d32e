package trace

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// whose collects the names for the actors of a message about the volume.
func (t *tracer) whose(s *Stage, v *tracedVolume) facts.Whose {
	whose := t.Whose(t.pod, v.source, v.Driver)
	byClaim := whose.User
	whose.User = func() *corev1.Pod {
		user := cmp.Or(byClaim(), t.userOnNode(v))
		t.doubt(s, snapshot.Pods) // another pod may come before it
		return user
	}
	return whose
}

// blame enters in the stage who has to act after the failed mount. It reports whether the message
// names somebody, and whether no retry can succeed.
func (t *tracer) blame(s *Stage, f facts.MountFailure, v *tracedVolume) (named, permanent bool) {
	if kind, _ := facts.MissingObject(f.Reason); kind != "" {
		s.reason = "Missing" + kind
	}
	b := facts.BlameFor(kubeletwords.MountWords, f.Reason, t.whose(s, v))
	if b.Passing && strings.Contains(f.Step, kubeletwords.WhileExpanding) {
		b.Actor, b.Do = kubeletwords.NodeAdmin, "" // the driver grows the file system on the node
	}
	if b.Passing && t.Age(snapshot.EventTime(f.Event)) > facts.MountRetries {
		b.Actor, b.Do = "", ""
	}
	s.take(b)
	if b.Actor == "" && v.Driver != "" && !b.Called {
		s.On = kubeletOf(t.pod.Spec.NodeName)
	}
	return b.Actor != "", b.Permanent
}

// blameWait is the same for the cause of a failed wait.
func (t *tracer) blameWait(s *Stage, w waitWords, v *tracedVolume) (permanent bool) {
	b := facts.BlameFor(kubeletwords.WaitWords, w.cause, t.whose(s, v))
	s.take(b)
	return b.Permanent
}

// take enters in the stage who has to act. Where that is somebody else than who tries again by
// itself, no other try ends the wait.
func (s *Stage) take(b facts.Blame) {
	if b.Actor != "" && b.Ends == "" {
		b.Ends = b.Actor + " acts; then the kubelet tries again, after at most 2m2s"
	}
	s.On, s.Ends, s.called, s.do, s.never = cmp.Or(b.Actor, s.On), cmp.Or(b.Ends, s.Ends), b.Called, b.Do, b.Never
}
